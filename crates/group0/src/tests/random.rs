//! Random commands over several replicas: entries, snapshots and jumps lead to the same state and to the same work.

use super::fixture::{CLUSTER, Log, applicant, founding, host, keyspace, member, table};
use crate::{
    Change, Command, Effects, Fill, MemberUpdate, Outcome, Permissions, Role, RoleChange, State,
    TopologyEvent,
};
use base::{HostId, Prng};
use proptest::prelude::*;
use schema::TableId;
use std::collections::{BTreeMap, BTreeSet};
use topology::{MemberState, Version};

fn pick(random: &mut Prng, below: u64) -> u8 {
    (random.u64() % below) as u8
}

fn some_name(random: &mut Prng) -> String {
    ["a", "b", "c", "cassandra"][usize::from(pick(random, 4))].to_owned()
}

fn some_schema(random: &mut Prng) -> Vec<schema::Change> {
    let one = |random: &mut Prng| {
        let number = pick(random, 4);
        let name = format!("t{number}");
        match pick(random, 6) {
            0 => keyspace(),
            1 if pick(random, 4) == 0 => schema::Change::DropKeyspace("ks".into()),
            2 => schema::Change::DropTable("ks".into(), name.as_str().into()),
            // Sometimes under an id that another name has had.
            _ => schema::Change::PutTable(table(&name, u128::from(number + pick(random, 2)))),
        }
    };
    (0..=pick(random, 2)).map(|_| one(random)).collect()
}

fn some_role(random: &mut Prng, state: &State) -> RoleChange {
    let (one, two) = (some_name(random), some_name(random));
    let resource = ["data", "data/ks", "data/ks/t1", "roles/a"][usize::from(pick(random, 4))].to_owned();
    let permissions = Permissions(u32::from(pick(random, 8)));
    match pick(random, 12) {
        7 => {
            let first = match pick(random, 2) {
                0 => RoleChange::Drop(two),
                _ => RoleChange::Create(one.clone(), Role::default()),
            };
            let changes = vec![first, RoleChange::Grant(one, resource, permissions)];
            RoleChange::All(changes)
        }
        8 if pick(random, 2) == 0 => RoleChange::SetDatacenters(one, [two].into()),
        8 => RoleChange::AddIdentity(format!("id-{}", pick(random, 2)), one),
        9 => RoleChange::DropIdentity(format!("id-{}", pick(random, 2))),
        0 | 1 => RoleChange::Create(one, Role { login: pick(random, 2) == 0, ..Role::default() }),
        2 => RoleChange::Alter { name: one, superuser: Some(true), login: None, salted_hash: Some(two) },
        3 => RoleChange::Drop(one),
        4 => RoleChange::GrantRole(one, two),
        5 => RoleChange::Grant(one, resource, permissions),
        _ if pick(random, 2) == 0 => {
            let member = state.roles().roles.iter().find(|(_, role)| !role.member_of.is_empty());
            let granted = member.and_then(|(name, role)| Some((role.member_of.first()?, name)));
            let (role, member) = granted.unwrap_or((&one, &two));
            RoleChange::RevokeRole(role.clone(), member.clone())
        }
        _ => RoleChange::Revoke(one, resource, permissions),
    }
}

fn some_update(random: &mut Prng) -> MemberUpdate {
    let (who, wears) = (member(pick(random, 12)), member(pick(random, 16)));
    MemberUpdate {
        host: who.host_id,
        internode: wears.internode,
        native: wears.native,
        dc: who.dc,
        rack: if pick(random, 9) == 0 { "r9".to_owned() } else { who.rack },
        shards: u16::from(pick(random, 5)),
        ignore_msb: 12,
        features: crate::FEATURES,
        release: "next".to_owned(),
    }
}

fn some_change(random: &mut Prng, state: &State) -> Change {
    let who = host(pick(random, 12));
    let running = state.operation().map_or(who, |operation| operation.host);
    let mut new = applicant(pick(random, 12));
    if pick(random, 8) == 0 {
        new.fill = Fill::Skipped;
        new.member.tokens = member(pick(random, 12)).tokens;
    }
    match pick(random, 16) {
        0 => Change::Found(founding()),
        1..=4 => Change::Schema(some_schema(random)),
        5 | 6 => Change::Join(new),
        7 => Change::FinishJoin(running),
        8 => Change::Replace { old: who, new },
        9 => Change::FinishReplace(running),
        10 => Change::Abort(running),
        11 => Change::Update((0..=pick(random, 2)).map(|_| some_update(random)).collect()),
        12 if pick(random, 3) == 0 => Change::Ban(who),
        12 | 13 => {
            Change::Truncate { table: TableId(u128::from(pick(random, 5))), at: i64::from(pick(random, 100)) }
        }
        _ => Change::Role(some_role(random, state)),
    }
}

/// A history: what was proposed, on what, with repetitions and proposals that come too late.
fn history(seed: u64, len: usize) -> Vec<Command> {
    let mut random = Prng::new(seed);
    let mut log = Log::founded();
    let mut sent: Vec<Command> =
        vec![Command { id: 1_000, base: Version::ZERO, change: Change::Found(founding()) }];
    let mut late: Vec<Command> = Vec::new();
    while sent.len() < len {
        let change = some_change(&mut random, &log.state);
        let base = log.state.base(change.scope());
        let command = Command { id: u128::from(random.u64()), base, change };
        let command = match pick(&mut random, 8) {
            0 => {
                late.push(command);
                continue;
            }
            1 if !late.is_empty() => late.remove(0),
            2 => sent[usize::from(pick(&mut random, sent.len().min(200) as u64))].clone(),
            _ => command,
        };
        log.send(&command);
        sent.push(command);
    }
    sent
}

fn entry(state: &State, index: usize, command: &Command) -> (State, Outcome) {
    state.apply_entry(state.version_at(index as u64), &command.encode()).expect("of this release")
}

/// All states of a history, the empty one first.
fn states(commands: &[Command]) -> Vec<State> {
    let mut states = vec![State::new()];
    for (at, command) in commands.iter().enumerate() {
        let (next, _) = entry(&states[at], at + 1, command);
        states.push(next);
    }
    states
}

fn check_invariants(before: &State, state: &State, outcome: &Outcome) {
    let mut tokens: BTreeMap<i64, HostId> = BTreeMap::new();
    let pending: Vec<_> = state
        .members()
        .iter()
        .filter(|member| matches!(member.state, MemberState::Joining | MemberState::Replacing(_)))
        .collect();
    assert!(pending.len() <= 1, "one operation at a time");
    assert_eq!(
        pending.first().map(|member| member.host_id),
        state.operation().map(|operation| operation.host)
    );
    for member in state.members().iter() {
        for token in &member.tokens {
            let holder = tokens.insert(token.0, member.host_id);
            let shared = holder.is_some_and(|holder| {
                let of = |host, other| {
                    state.members().get(host).map(|m| m.state) == Some(MemberState::Replacing(other))
                };
                !of(holder, member.host_id) && !of(member.host_id, holder)
            });
            assert!(!shared, "token {} is held twice", token.0);
        }
    }
    let counted: Vec<_> = state.counted().map(|member| member.internode).collect();
    assert_eq!(counted.iter().collect::<BTreeSet<_>>().len(), counted.len(), "two at one address");
    for member in before.members().ever() {
        if !member.state.is_in() {
            let now = state.members().get(member.host_id).map(|member| member.state.is_in());
            assert_eq!(now, Some(false), "who left does not come back");
        }
    }
    assert!(state.cluster().is_some() || state.members().ever().is_empty(), "no member before the founding");
    assert!(state.cluster().is_none() || state.members().iter().any(|member| state.serves(member.host_id)));
    for (id, truncation) in before.schema().tables().filter_map(|t| Some((t.id, before.truncation(t.id)?))) {
        let dropped = state.dropped(id).is_some_and(|version| before.version() < version);
        assert!(dropped || state.truncation(id).is_some_and(|now| truncation.at <= now.at), "{id}");
    }
    if !matches!(outcome, Outcome::Done(version) if *version == state.version()) {
        assert!(Effects::between(before, state).is_empty(), "{outcome:?} did something");
    }
    assert!(state.cluster().is_none_or(|cluster| cluster.id == CLUSTER));
}

/// What a chain of effects says in the end, where it must say what the jump says.
#[derive(Debug, Default, PartialEq)]
struct Work {
    dropped: BTreeSet<TableId>,
    truncated: BTreeMap<TableId, crate::Truncation>,
    refused: BTreeSet<HostId>,
    roles: BTreeSet<String>,
    members: BTreeSet<HostId>,
}

impl Work {
    fn add(&mut self, effects: &Effects) {
        for id in &effects.dropped {
            self.truncated.remove(id);
        }
        self.dropped.extend(&effects.dropped);
        self.truncated.extend(effects.truncated.iter().copied());
        self.refused.extend(&effects.refused);
        self.roles.extend(effects.roles.iter().cloned());
        self.members.extend(effects.members.iter().map(|change| change.host));
    }
}

fn check_jump(states: &[State], from: usize, to: usize) {
    let mut chain = Work::default();
    for pair in states[from..=to].windows(2) {
        chain.add(&Effects::between(&pair[0], &pair[1]));
    }
    let (first, last) = (&states[from], &states[to]);
    // By snapshot, as a node that was away gets it.
    let snapshot = State::decode(&last.encode()).expect("as written");
    let effects = Effects::between(first, &snapshot);
    let mut jump = Work::default();
    jump.add(&effects);
    assert_eq!(chain.dropped, jump.dropped, "what must be forgotten");
    assert_eq!(chain.truncated, jump.truncated, "what was truncated and is still there");
    // Intermediate: a replacement that was given up refuses the old member for a while only; a role or member may have become what it was.
    let still: BTreeSet<HostId> = chain
        .refused
        .iter()
        .copied()
        .filter(|host| last.is_refused(*host) && !first.is_refused(*host))
        .collect();
    assert_eq!(still, jump.refused);
    assert!(jump.roles.is_subset(&chain.roles) && jump.members.is_subset(&chain.members));
    for name in chain.roles.difference(&jump.roles) {
        assert_eq!(first.roles().roles.get(name), last.roles().roles.get(name));
    }
    for host in chain.members.difference(&jump.members) {
        assert_eq!(first.members().get(*host), last.members().get(*host));
    }
    check_events(first, last, &effects);
}

/// What drivers believe who apply the events of a jump is what is.
fn check_events(first: &State, last: &State, effects: &Effects) {
    let shown = |state: &State| -> BTreeSet<std::net::SocketAddr> {
        state.members().iter().filter(|member| member.state.is_read()).map(|member| member.native).collect()
    };
    // Addresses may be swapped within one step: removals come first.
    let events: Vec<TopologyEvent> = effects.members.iter().flat_map(|change| change.events()).collect();
    let mut believed = shown(first);
    for event in &events {
        if let TopologyEvent::Removed(address) = event {
            believed.remove(address);
        }
    }
    for event in &events {
        if let TopologyEvent::New(address) = event {
            believed.insert(*address);
        }
    }
    assert_eq!(believed, shown(last));
    let names =
        |state: &State| -> BTreeSet<String> { state.schema().tables().map(|t| t.name.to_string()).collect() };
    let mut tables = names(first);
    for event in
        effects.schema.iter().flat_map(|step| &step.events).filter(|e| e.target == crate::EventTarget::Table)
    {
        match event.kind {
            crate::EventKind::Created => assert!(tables.insert(event.name.clone())),
            crate::EventKind::Updated => assert!(tables.contains(&event.name)),
            crate::EventKind::Dropped => assert!(tables.remove(&event.name)),
        }
    }
    assert_eq!(tables, names(last));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// One replica applies entries, one entries decoded and encoded, one restarts from a snapshot before each: all are equal.
    #[test]
    fn replicas_agree_after_every_entry(seed in any::<u64>()) {
        let commands = history(seed, 120);
        let (mut one, mut two) = (State::new(), State::new());
        for (at, command) in commands.iter().enumerate() {
            let bytes = command.encode();
            prop_assert_eq!(&Command::decode(&bytes).expect("as written"), command);
            let (next, outcome) = entry(&one, at + 1, command);
            two = State::decode(&two.encode()).expect("as written");
            let (other, said) = two.apply(two.version_at(at as u64 + 1), &Command::decode(&bytes).expect("as written"));
            prop_assert_eq!(&outcome, &said);
            prop_assert_eq!(Outcome::decode(&outcome.encode()).expect("as written"), said);
            check_invariants(&one, &next, &outcome);
            (one, two) = (next, other);
            prop_assert_eq!(&one, &two);
            prop_assert_eq!(one.encode(), two.encode());
        }
    }

    /// ⚔ Local effects are the difference of two applied states, whether entries or a snapshot brought the second.
    #[test]
    fn a_jump_does_what_the_entries_do(seed in any::<u64>()) {
        let states = states(&history(seed, 120));
        let mut random = Prng::new(seed);
        for _ in 0..30 {
            let to = usize::from(pick(&mut random, states.len() as u64));
            let from = usize::from(pick(&mut random, to as u64 + 1));
            check_jump(&states, from, to);
        }
    }

    /// A command sent again, at any time, changes nothing.
    #[test]
    fn what_is_sent_again_is_applied_once(seed in any::<u64>()) {
        let commands = history(seed, 60);
        let states = states(&commands);
        let last = &states[states.len() - 1];
        for command in &commands {
            let first = last.outcome(command.id).cloned().expect("it is remembered");
            let (again, outcome) = last.apply(last.version_at(9_999), command);
            prop_assert_eq!(outcome, first);
            prop_assert!(Effects::between(last, &again).is_empty());
        }
    }

    /// Bytes of others give errors, never panics; what decodes encodes to something that decodes to the same.
    #[test]
    fn damaged_bytes_are_refused_or_read(seed in any::<u64>()) {
        let commands = history(seed, 40);
        let states = states(&commands);
        let mut random = Prng::new(seed);
        let all = commands.iter().map(Command::encode).chain(states.iter().rev().take(3).map(State::encode));
        for mut bytes in all {
            for cut in [bytes.len() / 2, bytes.len() - 1] {
                prop_assert!(Command::decode(&bytes[..cut]).is_err() && State::decode(&bytes[..cut]).is_err());
            }
            for _ in 0..20 {
                let at = random.u64() as usize % bytes.len();
                bytes[at] ^= 1 << pick(&mut random, 8);
                if let Ok(command) = Command::decode(&bytes) {
                    let again = Command::decode(&command.encode());
                    prop_assert_eq!(again.as_ref().map(Command::encode), Ok(command.encode()));
                    let last = &states[states.len() - 1];
                    let _ = last.apply(last.version_at(9_999), &command);
                }
                let _ = State::decode(&bytes).map(|state| State::decode(&state.encode()).expect("as written"));
            }
        }
    }
}

/// The histories do what they are for: every kind of change happens and every kind of outcome comes about.
#[test]
fn histories_reach_every_kind_of_change_and_outcome() {
    let mut done: BTreeMap<u16, u32> = BTreeMap::new();
    let mut others = [0, 0];
    for seed in 0..60 {
        let commands = history(seed, 120);
        let mut state = State::new();
        for (at, command) in commands.iter().enumerate() {
            let (next, outcome) = entry(&state, at + 1, command);
            match outcome {
                Outcome::Done(version) if version == next.version() => {
                    *done.entry(command.change.kind()).or_default() += 1
                }
                Outcome::Done(_) => {}
                Outcome::Moved => others[0] += 1,
                Outcome::Refused(_) => others[1] += 1,
            }
            state = next;
        }
    }
    assert_eq!(done.keys().copied().collect::<Vec<u16>>(), (1..=21).collect::<Vec<u16>>(), "{done:?}");
    assert!(others.iter().all(|count| 50 < *count), "{others:?}");
}
