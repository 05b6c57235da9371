//! A member of the cluster, as every node knows it.

use base::{ByteReader, HostId, Token, Truncated};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bit of [`Member::features`]: it knows floors of lightweight transactions, behind which ballots are swept.
pub const FEATURE_FLOORS: u64 = 1 << 1;

/// What a member does at the moment. What tokens a member holds in which state: see [`crate::Placements`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It will hold its tokens: writes go to it already, reads do not.
    Joining,
    /// It holds its tokens.
    Normal,
    /// It holds its tokens; writes go to those who will hold them as well.
    Leaving,
    /// It will hold the tokens of this member, which is gone for good.
    Replacing(HostId),
    /// It was a member. It holds nothing and does not come back.
    Left,
    /// It was put out and is refused.
    Banned,
}

impl MemberState {
    /// Whether the member counts: it is shown, called and may hold something now or soon.
    pub fn is_in(self) -> bool {
        !matches!(self, MemberState::Left | MemberState::Banned)
    }

    /// Whether reads may go to it.
    pub fn is_read(self) -> bool {
        matches!(self, MemberState::Normal | MemberState::Leaving)
    }
}

/// A member of the cluster. Written by the cluster's log alone: see [`crate::Members`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its identity for life.
    pub host_id: HostId,
    /// Where other nodes call it: its broadcast address and port.
    pub internode: SocketAddr,
    /// Where clients connect: its broadcast address for them and port.
    pub native: SocketAddr,
    /// Datacenter.
    pub dc: String,
    /// Rack.
    pub rack: String,
    /// Its tokens, ascending.
    pub tokens: Vec<Token>,
    /// How many shards it runs.
    pub shards: u16,
    /// Bits of a token that its shard formula leaves out, from the top.
    pub ignore_msb: u8,
    /// What it does.
    pub state: MemberState,
    /// What it can do, one bit for each feature of its release: [`FEATURE_FLOORS`] and those of the cluster's log.
    pub features: u64,
    /// Its release, in words.
    pub release: String,
}

/// Bytes that are no member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed member: {0}")]
pub struct Malformed(pub &'static str);

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Malformed {
        Malformed("cut short")
    }
}

impl Member {
    /// The address that stands for it in tables, tools and errors.
    pub fn broadcast(&self) -> IpAddr {
        self.internode.ip()
    }

    /// Appends it as bytes. Fields are only ever added behind the others: see [`Member::decode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.host_id.to_bytes());
        put_address(out, self.internode);
        put_address(out, self.native);
        put_text(out, &self.dc);
        put_text(out, &self.rack);
        out.extend_from_slice(&(self.tokens.len() as u32).to_be_bytes());
        self.tokens.iter().for_each(|token| out.extend_from_slice(&token.0.to_be_bytes()));
        out.extend_from_slice(&self.shards.to_be_bytes());
        out.push(self.ignore_msb);
        let (state, other) = match self.state {
            MemberState::Joining => (0, None),
            MemberState::Normal => (1, None),
            MemberState::Leaving => (2, None),
            MemberState::Replacing(other) => (4, Some(other)),
            MemberState::Left => (5, None),
            MemberState::Banned => (6, None),
        };
        out.push(state);
        out.extend(other.into_iter().flat_map(HostId::to_bytes));
        out.extend_from_slice(&self.features.to_be_bytes());
        put_text(out, &self.release);
        let len = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Reads what [`Member::encode`] wrote, here or in a later release whose fields come behind ours.
    pub fn decode(input: &mut ByteReader<'_>) -> Result<Member, Malformed> {
        let len = input.u32()? as usize;
        let input = &mut ByteReader::new(input.bytes(len)?);
        let host_id = HostId::from_bytes(input.array()?);
        let (internode, native) = (address(input)?, address(input)?);
        let (dc, rack) = (text(input)?, text(input)?);
        let count = input.u32()? as usize;
        let bytes = input.bytes(count.checked_mul(8).ok_or(Malformed("too many tokens"))?)?;
        let mut tokens = Vec::with_capacity(count);
        for token in bytes.chunks_exact(8) {
            let token: [u8; 8] = token.try_into().map_err(|_| Malformed("a token"))?;
            tokens.push(Token(i64::from_be_bytes(token)));
        }
        if !tokens.is_sorted_by(|a, b| a < b) {
            return Err(Malformed("tokens out of order"));
        }
        let shards = u16::from_be_bytes(input.array()?);
        let ignore_msb = input.u8()?;
        let state = match input.u8()? {
            0 => MemberState::Joining,
            1 => MemberState::Normal,
            2 => MemberState::Leaving,
            4 => MemberState::Replacing(HostId::from_bytes(input.array()?)),
            5 => MemberState::Left,
            6 => MemberState::Banned,
            _ => return Err(Malformed("a state of a later release")),
        };
        let features = u64::from_be_bytes(input.array()?);
        let release = text(input)?;
        Ok(Member {
            host_id,
            internode,
            native,
            dc,
            rack,
            tokens,
            shards,
            ignore_msb,
            state,
            features,
            release,
        })
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn text(input: &mut ByteReader<'_>) -> Result<String, Malformed> {
    let len = input.u32()? as usize;
    let bytes = input.bytes(len)?;
    Ok(str::from_utf8(bytes).map_err(|_| Malformed("no UTF-8"))?.to_owned())
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(16);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn address(input: &mut ByteReader<'_>) -> Result<SocketAddr, Malformed> {
    let ip = match input.u8()? {
        4 => IpAddr::from(Ipv4Addr::from(input.array::<4>()?)),
        16 => IpAddr::from(Ipv6Addr::from(input.array::<16>()?)),
        _ => return Err(Malformed("an address")),
    };
    Ok(SocketAddr::new(ip, u16::from_be_bytes(input.array()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::member;

    #[test]
    fn a_member_comes_back_from_its_bytes_and_fields_of_later_releases_are_passed_over() {
        let states = [
            MemberState::Joining,
            MemberState::Normal,
            MemberState::Leaving,
            MemberState::Replacing(HostId(9)),
            MemberState::Left,
            MemberState::Banned,
        ];
        for state in states {
            let one = Member {
                state,
                native: (Ipv6Addr::LOCALHOST, 9042).into(),
                ..member(7, "dc1", "r1", &[-5, 0, 9])
            };
            let mut bytes = Vec::new();
            one.encode(&mut bytes);
            assert_eq!(Member::decode(&mut ByteReader::new(&bytes)).as_ref(), Ok(&one));
            for cut in 0..bytes.len() {
                assert!(Member::decode(&mut ByteReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
            }
            bytes.extend_from_slice(b"more");
            let len = bytes.len() as u32 - 4;
            bytes[..4].copy_from_slice(&len.to_be_bytes());
            assert_eq!(Member::decode(&mut ByteReader::new(&bytes)).as_ref(), Ok(&one));
        }
    }
}
