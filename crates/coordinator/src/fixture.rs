//! Members for tests.

use base::{HostId, Token};
use std::net::IpAddr;
use topology::{Liveness, Member, MemberState, Members, Snapshot, Version};

/// A member of one shard and one token in a datacenter.
pub(crate) fn member(octet: u8, dc: &str) -> Member {
    let ip = IpAddr::from([127, 0, 0, octet]);
    Member {
        host_id: HostId(u128::from(octet)),
        internode: (ip, 7000).into(),
        native: (ip, 9042).into(),
        dc: dc.to_string(),
        rack: "r".to_string(),
        tokens: vec![Token(i64::from(octet))],
        shards: 1,
        ignore_msb: 0,
        state: MemberState::Normal,
        features: 0,
        release: "test".to_string(),
    }
}

/// All of them alive, seen by the first.
pub(crate) fn snapshot(members: Vec<Member>) -> Snapshot {
    let liveness = Liveness::of(members.iter().map(|member| member.host_id));
    let local = members[0].host_id;
    Snapshot::new(local, Members::new(Version::ZERO, members), &[]).with_liveness(liveness)
}
