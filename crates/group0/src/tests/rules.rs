//! Each rule of the state, by name.

use super::fixture::{Log, applicant, founding, host, keyspace, member, table};
use crate::{
    Change, Command, Effects, Error, Fill, MemberUpdate, Outcome, Permissions, Role, RoleChange, Scope,
    State, TopologyEvent,
};
use schema::TableId;
use topology::{MemberState, Version};

fn update(octet: u8) -> MemberUpdate {
    let member = member(octet);
    MemberUpdate {
        host: member.host_id,
        internode: member.internode,
        native: member.native,
        dc: member.dc,
        rack: member.rack,
        shards: 2,
        ignore_msb: 12,
        features: crate::FEATURES,
        release: "next".to_owned(),
    }
}

#[test]
fn nothing_happens_before_the_founding_and_it_happens_once() {
    let mut log = Log::empty();
    assert!(log.refused(Change::Join(applicant(2))).contains("not founded"));
    assert!(log.refused(Change::Ban(host(2))).contains("not founded"));
    log.done(Change::Found(founding()));
    assert_eq!(log.state.members().get(host(1)).map(|member| member.state), Some(MemberState::Normal));
    assert!(log.state.roles().roles.contains_key("cassandra"), "⚔ the first role is in the founding entry");
    assert!(log.refused(Change::Found(founding())).contains("founded already"));
}

#[test]
fn a_founding_without_a_role_is_refused() {
    let mut founding = founding();
    founding.roles = crate::Roles::default();
    assert!(Log::empty().refused(Change::Found(founding)).contains("role"));
}

#[test]
fn a_command_whose_scope_has_moved_is_applied_as_nothing() {
    let mut log = Log::founded();
    let stale = log.command(Change::Schema(vec![keyspace()]));
    log.done(Change::Schema(vec![keyspace(), schema::Change::PutTable(table("t", 5))]));
    let members = log.state.versions().members;
    assert_eq!(log.send(&Command { id: 1, ..stale.clone() }), Outcome::Moved);
    assert!(log.state.schema().table("ks", "t").is_some());
    // Another scope is not disturbed.
    log.done(Change::Join(applicant(2)));
    assert!(members < log.state.versions().members);
    let role = RoleChange::Create("r".into(), Role::default());
    log.done(Change::Role(role));
}

#[test]
fn a_command_sent_twice_is_applied_once_and_answered_with_the_first_outcome() {
    let mut log = Log::founded();
    let command = log.command(Change::Schema(vec![keyspace()]));
    let first = log.send(&command);
    let state = log.state.clone();
    assert_eq!(log.send(&command), first);
    assert!(Effects::between(&state, &log.state).is_empty());
    // Also when its memory is gone: its scope has moved.
    for _ in 0..=crate::limits::REMEMBERED_MAX {
        log.refused(Change::Abort(host(9)));
    }
    assert_eq!(log.send(&command), Outcome::Moved);
}

#[test]
fn an_entry_below_the_state_changes_nothing() {
    let mut log = Log::founded();
    let command = log.command(Change::Schema(vec![keyspace()]));
    log.send(&command);
    let (again, outcome) = log.state.apply(Version { epoch: 0, index: 1 }, &command);
    assert_eq!((again, outcome), (log.state.clone(), Outcome::Done(log.state.version())));
}

#[test]
fn one_operation_at_a_time() {
    let mut log = Log::founded();
    log.done(Change::Join(applicant(2)));
    assert!(log.refused(Change::Join(applicant(3))).contains("one at a time"));
    assert!(log.refused(Change::Replace { old: host(1), new: applicant(3) }).contains("one at a time"));
    assert!(log.refused(Change::FinishReplace(host(2))).contains("replaces nobody"));
    assert!(log.refused(Change::FinishJoin(host(3))).contains("not joining"));
    log.done(Change::FinishJoin(host(2)));
    log.done(Change::Join(applicant(3)));
}

#[test]
fn a_token_that_is_taken_is_refused() {
    let mut log = Log::founded();
    let mut second = applicant(2);
    second.member.tokens = member(1).tokens;
    assert!(log.refused(Change::Join(second)).contains("token 10 belongs to 127.0.0.1"));
    let mut second = applicant(2);
    second.member.tokens.reverse();
    // Bytes of a member out of order do not even decode.
    let command = log.command(Change::Join(second));
    let (_, outcome) = log.state.apply(log.state.version_at(9), &command);
    assert!(matches!(outcome, Outcome::Refused(text) if text.contains("ascending")));
}

#[test]
fn two_members_of_one_address_are_refused_and_two_may_swap_theirs() {
    let mut log = Log::of(&[2]);
    let mut third = applicant(3);
    third.member.internode = member(2).internode;
    assert!(log.refused(Change::Join(third)).contains("127.0.0.2:7000 is the address"));
    let (mut one, mut two) = (update(1), update(2));
    std::mem::swap(&mut one.internode, &mut two.internode);
    assert!(log.refused(Change::Update(vec![one.clone()])).contains("is the address"));
    log.done(Change::Update(vec![one, two]));
    assert_eq!(log.state.members().get(host(2)).map(|two| two.internode), Some(member(1).internode));
}

/// A replacement may be given up at any time, and the old member is called at its address again.
#[test]
fn the_address_of_a_member_being_replaced_stays_its_own() {
    let mut log = Log::of(&[2, 3]);
    log.done(Change::Replace { old: host(2), new: applicant(4) });
    let mut moved = update(3);
    moved.internode = member(2).internode;
    assert!(log.refused(Change::Update(vec![moved.clone()])).contains("127.0.0.2:7000 is the address"));
    log.done(Change::Abort(host(4)));
    assert!(log.refused(Change::Update(vec![moved.clone()])).contains("is the address"));
    let mut new = applicant(5);
    (new.member.internode, new.member.native) = (member(2).internode, member(2).native);
    log.done(Change::Replace { old: host(2), new });
    log.done(Change::Abort(host(5)));
    log.done(Change::Ban(host(2)));
    log.done(Change::Update(vec![moved]));
}

#[test]
fn who_left_was_banned_or_gave_up_never_comes_back() {
    let mut log = Log::of(&[2, 3]);
    log.done(Change::Join(applicant(4)));
    log.done(Change::Abort(host(4)));
    assert!(log.state.members().get(host(4)).is_none());
    assert!(log.refused(Change::Join(applicant(4))).contains("gave up"));
    log.done(Change::Replace { old: host(2), new: applicant(5) });
    log.done(Change::FinishReplace(host(5)));
    let mut again = applicant(2);
    again.member.tokens = member(9).tokens;
    assert!(log.refused(Change::Join(again)).contains("has left"));
    log.done(Change::Ban(host(6)));
    assert!(log.refused(Change::Join(applicant(6))).contains("banned"));
    assert!(log.refused(Change::Join(applicant(3))).contains("is a member"));
}

#[test]
fn a_node_of_another_cluster_or_name_is_refused() {
    let mut log = Log::founded();
    let mut other = applicant(2);
    other.cluster += 1;
    assert!(log.refused(Change::Join(other)).contains("another cluster"));
    let mut other = applicant(2);
    other.name = "d".into();
    assert!(log.refused(Change::Join(other)).contains("called \"c\", not \"d\""));
}

/// ⚔ A stuck operation may wait for the dead one.
#[test]
fn a_ban_is_allowed_at_any_time() {
    let mut log = Log::of(&[2]);
    log.done(Change::Join(applicant(3)));
    log.done(Change::Ban(host(2)));
    assert_eq!(log.state.operation().map(|operation| operation.host), Some(host(3)), "the join goes on");
    assert!(log.state.is_refused(host(2)));
    assert!(!log.state.counted().any(|member| member.host_id == host(2)), "nobody waits for it");
    log.done(Change::Ban(host(3)));
    assert_eq!(log.state.operation(), None);
    assert_eq!(log.state.members().get(host(3)).map(|member| member.state), Some(MemberState::Banned));
    assert!(log.refused(Change::Ban(host(1))).contains("only member"));
}

/// Were its tokens taken out of the ring, others would be read who miss what was acknowledged.
#[test]
fn a_banned_member_keeps_its_tokens_until_it_is_replaced() {
    let mut log = Log::of(&[2]);
    log.done(Change::Ban(host(2)));
    let holds = |log: &Log, octet| log.state.members().get(host(octet)).map(|m| (m.state, m.tokens.clone()));
    assert_eq!(holds(&log, 2), Some((MemberState::Normal, member(2).tokens)));
    log.done(Change::Replace { old: host(2), new: applicant(3) });
    assert_eq!(holds(&log, 3), Some((MemberState::Replacing(host(2)), member(2).tokens)));
    log.done(Change::FinishReplace(host(3)));
    assert_eq!(holds(&log, 3), Some((MemberState::Normal, member(2).tokens)));
    assert_eq!(holds(&log, 2), Some((MemberState::Banned, Vec::new())));
}

#[test]
fn a_replaced_member_is_refused_meanwhile_and_its_address_is_free() {
    let mut log = Log::of(&[2]);
    let mut new = applicant(3);
    new.member.internode = member(2).internode;
    new.member.native = member(2).native;
    log.done(Change::Replace { old: host(2), new });
    assert!(log.state.is_refused(host(2)));
    log.done(Change::Abort(host(3)));
    assert!(!log.state.is_refused(host(2)), "it may come back");
    let mut far = applicant(4);
    far.member.rack = "r2".into();
    assert!(log.refused(Change::Replace { old: host(2), new: far }).contains("would move"));
}

#[test]
fn an_update_may_not_move_a_member_to_another_rack_or_datacenter() {
    let mut log = Log::founded();
    let dc = MemberUpdate { dc: "dc2".into(), ..update(1) };
    assert!(
        log.refused(Change::Update(vec![dc])).contains("snitch's data center (dc2) differs from previous")
    );
    let rack = MemberUpdate { rack: "r2".into(), ..update(1) };
    assert!(log.refused(Change::Update(vec![rack])).contains("snitch's rack (r2) differs"));
    assert!(log.refused(Change::Update(vec![update(2)])).contains("no member"));
    log.done(Change::Update(vec![update(1)]));
    let shown = log.state.members().get(host(1)).map(|one| (one.shards, one.ignore_msb, one.release.clone()));
    assert_eq!(shown, Some((2, 12, "next".to_owned())));
}

/// ⚔ A jump over the drop and the second making of one id forgets what was written in between.
#[test]
fn a_table_made_again_under_its_id_was_dropped_all_the_same() {
    let put = || schema::Change::PutTable(table("t", 5));
    let drop_it = || schema::Change::DropTable("ks".into(), "t".into());
    let mut log = Log::founded();
    log.done(Change::Schema(vec![keyspace(), put()]));
    log.done(Change::Truncate { table: TableId(5), at: 100 });
    let before = log.state.clone();
    log.done(Change::Schema(vec![drop_it()]));
    log.done(Change::Schema(vec![put()]));
    let effects = Effects::between(&before, &log.state);
    assert_eq!((effects.dropped, effects.truncated), (vec![TableId(5)], vec![]));
    let before = log.state.clone();
    let version = log.done(Change::Schema(vec![drop_it(), put()]));
    assert_eq!(Effects::between(&before, &log.state).dropped, [TableId(5)]);
    assert_eq!(Effects::emptied(&before, &log.state), [(TableId(5), i64::MIN)], "the store knows one table");
    assert_eq!(
        log.state.floors(),
        [(TableId(5), version)].into(),
        "what was meant for the old one is too late"
    );
    log.done(Change::Schema(vec![drop_it()]));
    assert_eq!(Effects::emptied(&before, &log.state), [], "the store drops it");
    assert_eq!(log.state.floors(), [].into());
}

/// ⚔ TRUNCATE is an entry: a node that comes back by a snapshot learns of it, and its time never goes back.
#[test]
fn a_truncation_is_in_the_difference_of_two_states() {
    let mut log = Log::founded();
    assert!(log.refused(Change::Truncate { table: TableId(5), at: 1 }).contains("no table"));
    log.done(Change::Schema(vec![keyspace(), schema::Change::PutTable(table("t", 5))]));
    let before = log.state.clone();
    log.done(Change::Truncate { table: TableId(5), at: 100 });
    let version = log.done(Change::Truncate { table: TableId(5), at: 50 });
    let snapshot = State::decode(&log.state.encode()).expect("as written");
    let truncated = Effects::between(&before, &snapshot).truncated;
    assert_eq!(truncated, [(TableId(5), crate::Truncation { version, at: 100 })]);
    assert_eq!(Effects::emptied(&before, &snapshot), [(TableId(5), 100)]);
    assert_eq!(Effects::emptied(&snapshot, &log.state), [], "once");
    assert_eq!(
        Effects::emptied(&State::new(), &snapshot),
        [],
        "who never had the table has nothing to forget"
    );
    assert_eq!(snapshot.floors(), [(TableId(5), version)].into());
    assert!(Effects::between(&snapshot, &log.state).is_empty());
}

#[test]
fn an_unknown_kind_stops_the_node_unless_a_member_lacks_its_feature() {
    let log = Log::founded();
    let mut bytes = log.command(Change::Ban(host(4))).encode();
    let (needs, kind) = (4 + 16 + 16, 4 + 16 + 16 + 8);
    bytes[kind..kind + 2].copy_from_slice(&900u16.to_be_bytes());
    let at = log.state.version_at(9);
    let stop = log.state.apply_entry(at, &bytes).expect_err("everybody else may know it");
    assert_eq!((stop.version, stop.source), (at, Error::UnknownKind { kind: 900 }));
    bytes[needs..needs + 8].copy_from_slice(&(1u64 << 63).to_be_bytes());
    let (next, outcome) = log.state.apply_entry(at, &bytes).expect("everybody refuses it");
    assert!(matches!(outcome, Outcome::Refused(text) if text.contains("upgrade it first")));
    assert_eq!(next.version(), at);
}

#[test]
fn what_was_decided_in_an_epoch_that_was_lost_is_not_applied() {
    let mut log = Log::founded();
    log.done(Change::Schema(vec![keyspace(), schema::Change::PutTable(table("t", 5))]));
    let truncate = log.command(Change::Truncate { table: TableId(5), at: 1 });
    let ban = log.command(Change::Ban(host(8)));
    log.state = log.state.recovered();
    log.index = 0;
    assert_eq!(log.state.version(), Version { epoch: 1, index: 0 });
    assert_eq!(log.send(&truncate), Outcome::Moved);
    assert_eq!(log.send(&Command { id: 4, ..ban }), Outcome::Moved);
    assert!(log.state.base(Scope::Truncation(TableId(5))) <= log.state.version());
    log.done(Change::Truncate { table: TableId(5), at: 1 });
}

#[test]
fn roles_are_granted_without_circles_and_dropped_with_what_is_on_them() {
    let mut log = Log::founded();
    let role = |change| Change::Role(change);
    for name in ["a", "b"] {
        log.done(role(RoleChange::Create(name.into(), Role::default())));
    }
    assert_eq!(log.refused(role(RoleChange::Create("a".into(), Role::default()))), "a already exists");
    log.done(role(RoleChange::GrantRole("a".into(), "b".into())));
    assert_eq!(log.refused(role(RoleChange::GrantRole("b".into(), "a".into()))), "b is a member of a");
    let select = Permissions::named("select").expect("known");
    log.done(Change::Schema(vec![keyspace(), schema::Change::PutTable(table("t", 5))]));
    for resource in ["data/ks/t", "data/ks", "data", "roles/b"] {
        log.done(role(RoleChange::Grant("a".into(), resource.into(), select)));
    }
    log.done(role(RoleChange::Revoke("a".into(), "data".into(), select)));
    let before = log.state.clone();
    log.done(Change::Schema(vec![schema::Change::DropKeyspace("ks".into())]));
    assert_eq!(Effects::between(&before, &log.state).roles, ["a"]);
    assert_eq!(log.state.roles().permissions["a"].keys().collect::<Vec<_>>(), ["roles/b"]);
    log.done(role(RoleChange::Drop("b".into())));
    assert!(log.state.roles().permissions.is_empty());
    log.done(role(RoleChange::Alter {
        name: "a".into(),
        superuser: None,
        login: Some(true),
        salted_hash: Some("h".into()),
    }));
    assert!(log.state.roles().roles["a"].login);
    let hash = Some("secret".to_owned());
    let alter = RoleChange::Alter { name: "a".into(), superuser: None, login: None, salted_hash: hash };
    log.done(role(alter.clone()));
    let logged = format!("{alter:?} {:?}", log.state.roles());
    assert!(!logged.contains("secret"), "hashes stay out of logs: {logged}");
}

#[test]
fn drivers_hear_of_a_member_when_it_holds_its_tokens() {
    let mut log = Log::founded();
    let events = |before: &State, log: &Log| -> Vec<TopologyEvent> {
        Effects::between(before, &log.state).members.iter().flat_map(|change| change.events()).collect()
    };
    let before = log.state.clone();
    log.done(Change::Join(applicant(2)));
    assert!(events(&before, &log).is_empty());
    log.done(Change::FinishJoin(host(2)));
    assert_eq!(events(&before, &log), [TopologyEvent::New(member(2).native)]);
    let before = log.state.clone();
    let mut skips = applicant(3);
    skips.fill = Fill::Skipped;
    log.done(Change::Replace { old: host(2), new: skips });
    log.done(Change::FinishReplace(host(3)));
    assert_eq!(
        events(&before, &log),
        [TopologyEvent::Removed(member(2).native), TopologyEvent::New(member(3).native)]
    );
    let changes = Effects::between(&before, &log.state).members;
    assert!(changes[0].has_left() && !changes[1].has_left());
}

/// A grant that was decided before its table was dropped must not wait for a later table of that name.
#[test]
fn a_grant_decided_before_a_drop_has_moved() {
    let mut log = Log::founded();
    log.done(Change::Schema(vec![keyspace(), schema::Change::PutTable(table("t", 5))]));
    let permissions = Permissions::named("SELECT").expect("known");
    let grant =
        log.command(Change::Role(RoleChange::Grant("cassandra".into(), "data/ks/t".into(), permissions)));
    let truncate = log.command(Change::Truncate { table: TableId(5), at: 1 });
    log.done(Change::Schema(vec![schema::Change::DropTable("ks".into(), "t".into())]));
    log.done(Change::Schema(vec![schema::Change::PutTable(table("t", 5))]));
    assert_eq!(log.send(&Command { id: 1, ..grant }), Outcome::Moved);
    assert_eq!(
        log.send(&Command { id: 2, ..truncate }),
        Outcome::Moved,
        "it meant the table that was dropped"
    );
}

#[test]
fn a_removal_is_refused_and_says_what_to_do_instead() {
    let mut log = Log::of(&[2]);
    assert!(crate::removal_refusal(&log.state, host(2)).contains("replaced by a new node"));
    log.done(Change::Join(applicant(3)));
    assert!(crate::removal_refusal(&log.state, host(3)).contains("abort"));
    assert!(crate::removal_refusal(&log.state, host(9)).contains("no member"));
}

#[test]
fn a_table_id_that_another_table_has_is_refused() {
    let mut log = Log::founded();
    log.done(Change::Schema(vec![keyspace(), schema::Change::PutTable(table("t", 5))]));
    assert!(
        log.refused(Change::Schema(vec![schema::Change::PutTable(table("u", 5))]))
            .contains("has this table's id")
    );
    let nowhere = vec![schema::Change::DropKeyspace("ks".into()), schema::Change::PutTable(table("u", 6))];
    assert!(log.refused(Change::Schema(nowhere)).contains("missing keyspace"));
    let all = schema::Change::All(log.state.schema().clone());
    assert!(log.refused(Change::Schema(vec![all])).contains("only the founding"));
}

#[test]
fn changes_of_roles_come_together_or_not_at_all() {
    let mut log = Log::founded();
    let role = |change| Change::Role(change);
    let create = |name: &str| RoleChange::Create(name.into(), Role { login: true, ..Role::default() });
    let all = Permissions::ALTER | Permissions::DROP;
    let with_grant = |name: &str| {
        let grant = RoleChange::Grant("cassandra".into(), format!("roles/{name}"), all);
        role(RoleChange::All(vec![create(name), grant]))
    };
    log.done(with_grant("a"));
    assert_eq!(log.state.roles().permissions["cassandra"]["roles/a"], all);
    let missing = RoleChange::GrantRole("gone".into(), "b".into());
    let before = log.state.roles().clone();
    assert_eq!(log.refused(role(RoleChange::All(vec![create("b"), missing]))), "gone doesn't exist");
    assert_eq!(log.state.roles(), &before);
    log.done(role(RoleChange::Drop("a".into())));
    assert!(log.state.roles().permissions.is_empty(), "what was granted on it is gone");
}

#[test]
fn datacenters_and_identities_end_with_their_role() {
    let mut log = Log::founded();
    let role = |change| Change::Role(change);
    let login = Role { login: true, ..Role::default() };
    log.done(role(RoleChange::Create("a".into(), login)));
    let before = log.state.clone();
    log.done(role(RoleChange::SetDatacenters("a".into(), ["dc1".to_owned()].into())));
    assert_eq!(Effects::between(&before, &log.state).roles, ["a"]);
    assert_eq!(log.state.roles().datacenters_of("a"), Some(["dc1".to_owned()].into()));
    assert_eq!(log.state.roles().datacenters_of("cassandra"), None, "a superuser may use all");
    let before = log.state.clone();
    log.done(role(RoleChange::AddIdentity("spiffe://a".into(), "a".into())));
    assert_eq!(Effects::between(&before, &log.state).roles, ["a"]);
    let twice = role(RoleChange::AddIdentity("spiffe://a".into(), "cassandra".into()));
    assert_eq!(log.refused(twice), "spiffe://a already exists");
    let read = State::decode(&log.state.encode()).expect("as written");
    assert_eq!(read, log.state);
    log.done(role(RoleChange::Drop("a".into())));
    assert!(log.state.roles().datacenters.is_empty() && log.state.roles().identities.is_empty());
    let gone = role(RoleChange::DropIdentity("spiffe://a".into()));
    assert_eq!(log.refused(gone), "identity 'spiffe://a' doesn't exist");
}

/// A state of before datacenters and identities were known ends where they would begin, as one without any does today.
#[test]
fn states_of_before_datacenters_and_identities_are_read() {
    let mut log = Log::founded();
    let without = log.state.encode();
    let select = Change::Role(RoleChange::Grant("cassandra".into(), "data".into(), Permissions::SELECT));
    log.done(select);
    let none: [u8; 8] = [0; 8];
    assert!(State::decode(&without).expect("as written").roles().datacenters.is_empty());
    let named = Change::Role(RoleChange::SetDatacenters("cassandra".into(), ["dc1".to_owned()].into()));
    log.done(named);
    let with = log.state.encode();
    assert!(without.len() + none.len() < with.len());
    assert_eq!(State::decode(&with).expect("as written").roles().datacenters.len(), 1);
}
