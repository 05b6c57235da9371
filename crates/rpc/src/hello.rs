//! Who is at the other end: the first message of both sides of a connection, and what is refused.
//!
//! Layout: docs/mechanisms/wire.md. On the wire between releases: fields are only appended.

use crate::error::Malformed;
use crate::fields::{FieldReader, FieldWriter};
use crate::limits::{CLOCK_OFF_MAX, HELLO_BYTES_MAX, PROTOCOL_MAX, PROTOCOL_MIN, TEXT_BYTES_MAX};
use base::{HostId, crc32, unzigzag, zigzag};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;

const HELLO_MAGIC: [u8; 4] = *b"MSNH";
const VERDICT_MAGIC: [u8; 4] = *b"MSNV";
/// Magic, length, checksum.
pub(crate) const GREETING_HEADER_BYTES: usize = 12;

/// What a connection is for. Numbers on the wire; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Liveness and group 0: one per pair of nodes, between their shards 0.
    Control,
    /// Requests from one shard to one shard.
    Data,
    /// A few calls to an address whose host id is not known yet.
    Contact,
}

impl Class {
    fn code(self) -> u64 {
        match self {
            Class::Control => 1,
            Class::Data => 2,
            Class::Contact => 3,
        }
    }

    fn from_code(code: u64) -> Option<Class> {
        [Class::Control, Class::Data, Class::Contact].into_iter().find(|class| class.code() == code)
    }
}

/// What a node says of itself, the same on all its connections at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The cluster's name.
    pub cluster_name: String,
    /// The cluster's identifier; 0 before there is one.
    pub cluster_id: u128,
    /// Epoch of group 0: grows only when a lost majority is recovered.
    pub epoch: u64,
    /// The node's own identifier.
    pub host: HostId,
    /// How often it was started, durable.
    pub starts: u64,
    /// Term of its vote in group 0, durable.
    pub vote_term: u64,
    /// Index it has applied in group 0, durable.
    pub applied_index: u64,
    /// The last version of metadata it has applied.
    pub applied_version: u64,
    /// Its shards.
    pub shards: u16,
    /// Bits of a token that do not count for the choice of a shard.
    pub ignore_msb: u8,
    /// What it knows how to do, a bit each.
    pub features: u64,
    /// Where other nodes reach it.
    pub address: Option<SocketAddr>,
    /// Its release, for people.
    pub release: String,
}

/// The first message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Who it is.
    pub node: Identity,
    /// Oldest and newest protocol it speaks.
    pub protocol: (u16, u16),
    /// What the connection is for; the accepting side repeats it.
    pub class: Class,
    /// The shard that shall serve it, modulo the shards there are.
    pub wanted_shard: u16,
    /// The shard that will use it.
    pub from_shard: u16,
    /// A number drawn at the start of the process: tells two processes of one host id apart.
    pub process: u64,
    /// Its wall clock, in microseconds since the Unix epoch.
    pub unix_micros: i64,
    /// The host it expects to find; zero: any.
    pub expected: HostId,
}

/// What a peer was seen to have, recorded durably by who judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    /// See [`Identity::starts`].
    pub starts: u64,
    /// See [`Identity::vote_term`].
    pub vote_term: u64,
    /// See [`Identity::applied_index`].
    pub applied_index: u64,
}

/// Kinds of refusals. Numbers on the wire; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalKind {
    /// Another name, or another identifier: never try to join.
    ForeignCluster,
    /// The host id may not come back.
    Banned,
    /// No protocol that both speak.
    Protocol,
    /// The clocks are too far apart: set them.
    Clock,
    /// Another process with this host id is connected.
    HostTwice,
    /// A counter, vote or index is lower than recorded: a copied or restored folder.
    Copied,
    /// It missed the recovery of a lost majority.
    OldEpoch,
    /// A node that called itself.
    Myself,
    /// Another node than the expected one answers at this address.
    OtherHost,
    /// The node is about to stop: try again later.
    Draining,
    /// A reason of a newer release, or of the caller's own.
    Other,
}

impl RefusalKind {
    const ALL: [(RefusalKind, u64); 11] = [
        (RefusalKind::ForeignCluster, 1),
        (RefusalKind::Banned, 2),
        (RefusalKind::Protocol, 3),
        (RefusalKind::Clock, 4),
        (RefusalKind::HostTwice, 5),
        (RefusalKind::Copied, 6),
        (RefusalKind::OldEpoch, 7),
        (RefusalKind::Myself, 8),
        (RefusalKind::OtherHost, 9),
        (RefusalKind::Draining, 10),
        (RefusalKind::Other, 11),
    ];

    fn code(self) -> u64 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(11, |(_, code)| *code)
    }

    fn from_code(code: u64) -> RefusalKind {
        Self::ALL.iter().find(|(_, known)| *known == code).map_or(RefusalKind::Other, |(kind, _)| *kind)
    }
}

/// Why a connection is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What programs tell apart.
    pub kind: RefusalKind,
    /// What people read.
    pub text: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Refusal {
        Refusal { kind, text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Something that is made durable; else the reason why not.
pub type Recording<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// Decides who may connect.
pub trait Gatekeeper {
    /// What this node says of itself now.
    fn identity(&self) -> Identity;

    /// Judges a peer's hello, of connections made and of connections accepted. [`Hello::judge`] holds the usual rules. Protocols,
    /// the own host id, another host id than expected and a second live process of one host id have been refused before.
    fn check(&self, theirs: &Hello) -> Result<(), Refusal>;

    /// Makes durable what a peer that was let in has said, before its control connection is used. Calls on other connections do not wait for it.
    /// Errors: it is not, and there is no connection.
    fn record<'a>(&'a self, _theirs: &'a Hello) -> Recording<'a> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A peer has called this node's address and expects another host there. It is refused whatever this does: it is for what that says
    /// of this node, such as that it has lost its folder.
    fn misdirected(&self, _theirs: &Hello) {}

    /// What pings and pongs carry now.
    fn facts(&self) -> crate::frame::Facts;
}

impl Hello {
    /// The rules that need no state but what is given: cluster, epoch, clock, and what was recorded of the peer.
    pub fn judge(
        &self,
        ours: &Identity,
        recorded: Option<&Recorded>,
        now_micros: i64,
    ) -> Result<(), Refusal> {
        let refuse = |kind, text: String| Err(Refusal::new(kind, text));
        let node = &self.node;
        if node.cluster_name != ours.cluster_name {
            let (theirs, ours) = (&node.cluster_name, &ours.cluster_name);
            return refuse(
                RefusalKind::ForeignCluster,
                format!("cluster names differ: \"{ours}\" and \"{theirs}\""),
            );
        }
        let both_founded = node.cluster_id != 0 && ours.cluster_id != 0;
        if both_founded && node.cluster_id != ours.cluster_id {
            let (theirs, ours) = (HostId(node.cluster_id), HostId(ours.cluster_id));
            return refuse(
                RefusalKind::ForeignCluster,
                format!("another cluster of the same name: {ours} and {theirs}"),
            );
        }
        if both_founded && node.epoch < ours.epoch {
            let text = format!(
                "host {} is of epoch {}, the cluster of epoch {}: it missed a recovery",
                node.host, node.epoch, ours.epoch
            );
            return refuse(RefusalKind::OldEpoch, text);
        }
        let apart = self.unix_micros.abs_diff(now_micros);
        if u128::from(apart) > CLOCK_OFF_MAX.as_micros() {
            let text = format!(
                "clocks are {} ms apart, more than the {} ms allowed: set the clocks",
                apart / 1000,
                CLOCK_OFF_MAX.as_millis()
            );
            return refuse(RefusalKind::Clock, text);
        }
        recorded.map_or(Ok(()), |recorded| self.judge_age(recorded))
    }

    fn judge_age(&self, recorded: &Recorded) -> Result<(), Refusal> {
        let node = &self.node;
        for (what, theirs, known) in [
            ("start counter", node.starts, recorded.starts),
            ("vote", node.vote_term, recorded.vote_term),
            ("applied index", node.applied_index, recorded.applied_index),
        ] {
            if theirs < known {
                let text = format!(
                    "host {} has {what} {theirs} but had {known} before: a copied or restored data folder",
                    node.host
                );
                return Err(Refusal::new(RefusalKind::Copied, text));
            }
        }
        Ok(())
    }

    /// The protocol that both speak.
    pub(crate) fn agree(&self) -> Result<u16, Refusal> {
        let newest = self.protocol.1.min(PROTOCOL_MAX);
        if self.protocol.0.max(PROTOCOL_MIN) <= newest {
            return Ok(newest);
        }
        let text = format!(
            "no common protocol: release {} speaks {} to {}, this one {PROTOCOL_MIN} to {PROTOCOL_MAX}",
            self.node.release, self.protocol.0, self.protocol.1
        );
        Err(Refusal::new(RefusalKind::Protocol, text))
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let node = &self.node;
        wrap(HELLO_MAGIC, out, |out| {
            FieldWriter::new(out)
                .u64(self.protocol.0.into())
                .u64(self.protocol.1.into())
                .u64(self.class.code())
                .u64(self.wanted_shard.into())
                .u64(self.from_shard.into())
                .u64(self.process)
                .u128(node.host.0)
                .text(&node.cluster_name)
                .u128(node.cluster_id)
                .u64(node.epoch)
                .u64(node.starts)
                .u64(node.vote_term)
                .u64(node.applied_index)
                .u64(node.applied_version)
                .u64(node.shards.into())
                .u64(node.ignore_msb.into())
                .u64(zigzag(self.unix_micros))
                .u64(node.features)
                .bytes(&address_bytes(node.address))
                .text(&node.release)
                .u128(self.expected.0);
        });
    }

    /// Reads the payload of a message.
    pub fn decode(payload: &[u8]) -> Result<Hello, Malformed> {
        let mut fields = FieldReader::new("hello", payload);
        let protocol = (fields.number()?, fields.number()?);
        let class = Class::from_code(fields.u64()?).ok_or(Malformed::new("hello", "unknown class"))?;
        let (wanted_shard, from_shard, process) = (fields.number()?, fields.number()?, fields.u64()?);
        let host = HostId(fields.u128()?);
        let (cluster_name, cluster_id) = (fields.text(TEXT_BYTES_MAX)?, fields.u128()?);
        let [epoch, starts, vote_term, applied_index, applied_version] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let (shards, ignore_msb) = (fields.number()?, fields.number()?);
        let (unix_micros, features) = (unzigzag(fields.u64()?), fields.u64()?);
        let address = address_of(fields.bytes()?)?;
        let (release, expected) = (fields.text(TEXT_BYTES_MAX)?, HostId(fields.u128()?));
        let node = Identity {
            cluster_name,
            cluster_id,
            epoch,
            host,
            starts,
            vote_term,
            applied_index,
            applied_version,
            shards,
            ignore_msb,
            features,
            address,
            release,
        };
        Ok(Hello { node, protocol, class, wanted_shard, from_shard, process, unix_micros, expected })
    }
}

/// What a side answers to a hello.
pub type Verdict = Result<(), Refusal>;

/// Appends a verdict.
pub fn encode_verdict(verdict: &Verdict, out: &mut Vec<u8>) {
    wrap(VERDICT_MAGIC, out, |out| {
        let mut fields = FieldWriter::new(out);
        match verdict {
            Ok(()) => fields.u64(0),
            Err(refusal) => {
                let mut end = refusal.text.len().min(TEXT_BYTES_MAX);
                while !refusal.text.is_char_boundary(end) {
                    end -= 1;
                }
                fields.u64(refusal.kind.code()).text(&refusal.text[..end])
            }
        };
    });
}

/// Reads the payload of a verdict.
pub fn decode_verdict(payload: &[u8]) -> Result<Verdict, Malformed> {
    let mut fields = FieldReader::new("verdict", payload);
    let (code, text) = (fields.u64()?, fields.text(TEXT_BYTES_MAX)?);
    Ok(if code == 0 { Ok(()) } else { Err(Refusal { kind: RefusalKind::from_code(code), text }) })
}

fn wrap(magic: [u8; 4], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&magic);
    out.extend_from_slice(&[0; 8]);
    write(out);
    let payload = &out[start + GREETING_HEADER_BYTES..];
    let (length, checksum) = (payload.len() as u32, crc32(payload));
    out[start + 4..start + 8].copy_from_slice(&length.to_be_bytes());
    out[start + 8..start + GREETING_HEADER_BYTES].copy_from_slice(&checksum.to_be_bytes());
}

/// Which message of a greeting is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// A hello.
    Hello,
    /// A verdict.
    Verdict,
}

/// What is at the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut<'a> {
    /// A message: its payload, and how many bytes it has in all.
    Whole(&'a [u8], usize),
    /// So many bytes are missing, at least; never more than belong to the message.
    Short(usize),
}

/// Takes one message of a greeting from the front of `bytes`.
pub fn split_greeting(kind: Greeting, bytes: &[u8]) -> Result<Cut<'_>, Malformed> {
    let (what, magic) = match kind {
        Greeting::Hello => ("hello", HELLO_MAGIC),
        Greeting::Verdict => ("verdict", VERDICT_MAGIC),
    };
    let known = bytes.len().min(magic.len());
    if bytes[..known] != magic[..known] {
        return Err(Malformed::new(what, "wrong magic"));
    }
    let Some((header, rest)) = bytes.split_first_chunk::<GREETING_HEADER_BYTES>() else {
        return Ok(Cut::Short(GREETING_HEADER_BYTES - bytes.len()));
    };
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let length = number(4) as usize;
    if length > HELLO_BYTES_MAX {
        return Err(Malformed::new(what, "too long"));
    }
    let Some(payload) = rest.get(..length) else {
        return Ok(Cut::Short(length - rest.len()));
    };
    if crc32(payload) != number(8) {
        return Err(Malformed::new(what, "checksum differs"));
    }
    Ok(Cut::Whole(payload, GREETING_HEADER_BYTES + length))
}

fn address_bytes(address: Option<SocketAddr>) -> Vec<u8> {
    let Some(address) = address else { return Vec::new() };
    let mut bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend_from_slice(&address.port().to_be_bytes());
    bytes
}

fn address_of(bytes: &[u8]) -> Result<Option<SocketAddr>, Malformed> {
    let Some((ip, port)) = bytes.split_last_chunk::<2>() else {
        return if bytes.is_empty() { Ok(None) } else { Err(Malformed::new("hello", "an address is cut")) };
    };
    let ip = match *ip {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => match <[u8; 16]>::try_from(ip) {
            Ok(octets) => IpAddr::V6(Ipv6Addr::from(octets)),
            Err(_) => return Err(Malformed::new("hello", "an address of another size")),
        },
    };
    Ok(Some(SocketAddr::new(ip, u16::from_be_bytes(*port))))
}

#[cfg(test)]
mod tests {
    //! Hellos read back, are cut and damaged, and are judged by the rules.
    use super::*;

    fn sample() -> Hello {
        Hello {
            node: Identity {
                cluster_name: "test".into(),
                cluster_id: 5,
                epoch: 2,
                host: HostId(77),
                starts: 9,
                vote_term: 3,
                applied_index: 400,
                applied_version: 401,
                shards: 8,
                ignore_msb: 12,
                features: 0b101,
                address: Some("10.0.0.1:7000".parse().expect("an address")),
                release: "0.1".into(),
            },
            protocol: (1, 3),
            class: Class::Data,
            wanted_shard: 6,
            from_shard: 2,
            process: 0xabcd,
            unix_micros: 1_704_067_200_000_000,
            expected: HostId(78),
        }
    }

    fn read(bytes: &[u8]) -> Result<Hello, Malformed> {
        let Cut::Whole(payload, size) = split_greeting(Greeting::Hello, bytes)? else {
            return Err(Malformed::new("hello", "cut"));
        };
        assert_eq!(size, bytes.len());
        Hello::decode(payload)
    }

    #[test]
    fn reads_back_and_waits_when_cut() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        assert_eq!(read(&bytes), Ok(sample()));
        for cut in 0..bytes.len() {
            let Ok(Cut::Short(more)) = split_greeting(Greeting::Hello, &bytes[..cut]) else {
                panic!("whole at {cut}");
            };
            assert!(0 < more && more <= bytes.len() - cut, "at {cut} {more} more");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let split = split_greeting(Greeting::Hello, &damaged);
            assert!(!matches!(split, Ok(Cut::Whole(..))), "byte {at} gave {split:?}");
        }
    }

    #[test]
    fn a_newer_hello_is_read_and_an_older_one_has_defaults() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        let mut payload = bytes[GREETING_HEADER_BYTES..].to_vec();
        FieldWriter::new(&mut payload).text("of the future").u64(1);
        assert_eq!(Hello::decode(&payload), Ok(sample()));
        let mut old = Vec::new();
        FieldWriter::new(&mut old).u64(1).u64(1).u64(1).u64(0).u64(0).u64(3).u128(77);
        let hello = Hello::decode(&old).expect("fields behind have defaults");
        assert_eq!((hello.node.host, hello.node.shards, hello.node.address), (HostId(77), 0, None));
    }

    #[test]
    fn verdicts_read_back_and_unknown_ones_keep_their_text() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        for refusal in RefusalKind::ALL.map(|(kind, _)| Refusal::new(kind, "why")) {
            let mut bytes = Vec::new();
            encode_verdict(&Err(refusal.clone()), &mut bytes);
            assert_eq!(decode_verdict(&bytes[GREETING_HEADER_BYTES..]), Ok(Err(refusal)));
        }
        let mut bytes = Vec::new();
        encode_verdict(&Err(Refusal::new(RefusalKind::Clock, long)), &mut bytes);
        let read =
            decode_verdict(&bytes[GREETING_HEADER_BYTES..]).expect("cut to the limit").expect_err("refused");
        assert_eq!(read.text.len(), TEXT_BYTES_MAX);
        let mut newer = Vec::new();
        FieldWriter::new(&mut newer).u64(99).text("moon phase");
        assert_eq!(decode_verdict(&newer), Ok(Err(Refusal::new(RefusalKind::Other, "moon phase"))));
    }

    #[test]
    fn the_rules() {
        let theirs = sample();
        let ours = Identity { host: HostId(1), ..theirs.node.clone() };
        let now = theirs.unix_micros;
        let kind = |hello: &Hello, recorded: Option<&Recorded>, now| {
            hello.judge(&ours, recorded, now).err().map(|refusal| refusal.kind)
        };
        assert_eq!(kind(&theirs, None, now), None);
        let changed = |change: fn(&mut Identity)| {
            let mut hello = theirs.clone();
            change(&mut hello.node);
            kind(&hello, None, now)
        };
        assert_eq!(changed(|node| node.cluster_name.push('x')), Some(RefusalKind::ForeignCluster));
        assert_eq!(changed(|node| node.cluster_id = 6), Some(RefusalKind::ForeignCluster));
        assert_eq!(changed(|node| (node.cluster_id, node.epoch) = (0, 0)), None, "it has no cluster yet");
        assert_eq!(changed(|node| node.epoch = 1), Some(RefusalKind::OldEpoch));
        assert_eq!(changed(|node| node.epoch = 3), None, "it is we who missed a recovery: it will refuse us");
        let limit = CLOCK_OFF_MAX.as_micros() as i64;
        assert_eq!((kind(&theirs, None, now + limit), kind(&theirs, None, now - limit)), (None, None));
        for off in [now + limit + 1, now - limit - 1, i64::MIN] {
            assert_eq!(kind(&theirs, None, off), Some(RefusalKind::Clock));
        }
        let known = Recorded { starts: 9, vote_term: 3, applied_index: 400 };
        assert_eq!(kind(&theirs, Some(&known), now), None);
        for higher in [
            Recorded { starts: 10, ..known },
            Recorded { vote_term: 4, ..known },
            Recorded { applied_index: 401, ..known },
        ] {
            assert_eq!(kind(&theirs, Some(&higher), now), Some(RefusalKind::Copied));
        }
    }

    #[test]
    fn protocols_overlap_or_not() {
        let with =
            |low, high| Hello { protocol: (low, high), ..sample() }.agree().map_err(|refusal| refusal.kind);
        assert_eq!((with(1, 9), with(0, 1)), (Ok(1), Ok(1)));
        assert_eq!((with(2, 9), with(0, 0)), (Err(RefusalKind::Protocol), Err(RefusalKind::Protocol)));
    }
}
