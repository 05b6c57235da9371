//! What consensus carries and keeps: commands, outcomes, snapshots of the state. Whatever decodes is applied: applying is total.
#![no_main]

use std::sync::OnceLock;

use group0::{Applicant, Change, Command, Effects, Fill, Founding, Header, Outcome, Role, Roles, State};
use libfuzzer_sys::fuzz_target;
use topology::Version;

static FOUNDED: OnceLock<State> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    match mode % 3 {
        0 => apply(FOUNDED.get_or_init(founded), rest),
        1 => {
            if let Ok(state) = State::decode(rest) {
                let again = State::decode(&state.encode()).expect("what was decoded is encoded as it is read");
                assert_eq!(again.encode(), state.encode());
                let _ = Effects::between(&State::new(), &state);
            }
        }
        _ => {
            if let Ok(outcome) = Outcome::decode(rest) {
                assert_eq!(Outcome::decode(&outcome.encode()).ok(), Some(outcome));
            }
        }
    }
});

fn apply(state: &State, bytes: &[u8]) {
    let at = state.version_at(state.version().index + 1);
    let entry = state.apply_entry(at, bytes);
    let Ok(command) = Command::decode(bytes) else { return };
    assert!(Header::decode(bytes).is_ok());
    let (next, outcome) = entry.expect("what is known here stops nobody");
    if outcome != Outcome::Done(at) {
        assert!(Effects::between(state, &next).is_empty());
    }
    let again = Command::decode(&command.encode()).expect("what was decoded is encoded as it is read");
    assert_eq!(again.encode(), command.encode());
}

/// A cluster of one into which another node is joining.
fn founded() -> State {
    let member = |octet: u8| topology::Member {
        host_id: base::HostId(u128::from(octet)),
        internode: ([127, 0, 0, octet], 7000).into(),
        native: ([127, 0, 0, octet], 9042).into(),
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        tokens: vec![base::Token(i64::from(octet))],
        shards: 1,
        ignore_msb: 0,
        state: topology::MemberState::Joining,
        features: 0,
        release: "fuzz".to_owned(),
    };
    let roles = Roles { roles: [("cassandra".to_owned(), Role::default())].into(), ..Roles::default() };
    let (cluster, name) = (1, "c".to_owned());
    let founding = Founding { cluster, name: name.clone(), member: member(1), schema: Default::default(), roles };
    let joining = Applicant { cluster, name, member: member(2), fill: Fill::Proven };
    let mut state = State::new();
    for change in [Change::Found(Box::new(founding)), Change::Join(Box::new(joining))] {
        let version = Version { epoch: 0, index: state.version().index + 1 };
        let base = state.base(change.scope());
        state = state.apply(version, &Command { id: u128::from(version.index), base, change }).0;
    }
    assert!(state.operation().is_some());
    state
}
