//! Members for tests.

use crate::{Member, MemberState};
use base::{HostId, Token};
use std::net::IpAddr;

/// A normal member of one shard.
pub(crate) fn member(octet: u8, dc: &str, rack: &str, tokens: &[i64]) -> Member {
    let ip = IpAddr::from([127, 0, 0, octet]);
    Member {
        host_id: HostId(u128::from(octet)),
        internode: (ip, 7000).into(),
        native: (ip, 9042).into(),
        dc: dc.to_string(),
        rack: rack.to_string(),
        tokens: tokens.iter().map(|token| Token(*token)).collect(),
        shards: 1,
        ignore_msb: 0,
        state: MemberState::Normal,
        features: 0,
        release: "test".to_string(),
    }
}
