//! Requests that were traced: a ring in the memory of the shard that coordinated them, shown as `system_traces` by any node.
//!
//! ```text
//! id      a timeuuid: time ─ shard in the clock sequence ─ node: low 48 bits of the coordinator's host id, as a multicast address
//! trace   u128 id   i64 ms since 1970   i32 µs   address of the client   address of the coordinator   text request
//!         u16 count (text name, text value)*   u32 count event*
//! event   u64 ticks of 100 ns since the beginning   u32 µs   u16 shard   address (the coordinator: none)   text
//! address u8 length (0: none)  IP  u16 port      text  u32 length  UTF-8
//! ```
//! The node part says whom to ask; a real network card never has a multicast address. Ticks are unique on a shard, and shards of one node differ in
//! the clock sequence. Nothing survives a restart of the coordinator.

use crate::limits;
use crate::outcome::{Answer, Outcome};
use base::{ByteReader, HostId};
use core::net::{IpAddr, SocketAddr};
use runtime::tracing::{self, Event, Followed};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// One traced request, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// A timeuuid: what the client is told and asks for.
    pub id: u128,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Who asked.
    pub client: SocketAddr,
    /// Whom; its address for other nodes.
    pub coordinator: SocketAddr,
    /// What kind of request it is, such as `Execute CQL3 query`.
    pub request: String,
    /// What it was asked with.
    pub parameters: BTreeMap<String, String>,
    /// How long it took, in microseconds.
    pub duration_us: i32,
    /// What happened, in the order in which the coordinator heard of it.
    pub events: Vec<Event>,
}

/// A request that is being traced.
#[derive(Debug)]
pub struct Traced {
    /// What is known from its beginning.
    begun: Trace,
    duration_us: Cell<i32>,
    live: Rc<tracing::Trace>,
}

impl Traced {
    /// A trace that begins now, at a tick: 100 ns since the Unix epoch, each later than the one before on this shard.
    pub(crate) fn begin(
        request: &str,
        client: SocketAddr,
        parameters: BTreeMap<String, String>,
        (host, coordinator): (HostId, SocketAddr),
        tick: i64,
    ) -> Traced {
        let id = id_of(tick, runtime::shard().0, host);
        let begun = Trace {
            id,
            started_at_ms: tick.div_euclid(10_000),
            client,
            coordinator,
            request: request.to_owned(),
            parameters,
            duration_us: 0,
            events: Vec::new(),
        };
        let live = tracing::Trace::begin(id, 0);
        live.note(format!("{request} received from /{client} by shard {}", runtime::shard()));
        Traced { begun, duration_us: Cell::new(0), live }
    }

    /// What the client is told.
    pub fn id(&self) -> [u8; 16] {
        self.begun.id.to_be_bytes()
    }

    /// Work for a request, traced if it is.
    pub fn follow<F: Future>(traced: Option<&Traced>, work: F) -> Followed<F> {
        tracing::follow(traced.map(|traced| traced.live.clone()), work)
    }

    /// Notes what became of it.
    pub(crate) fn end(&self, result: Result<&Answer, &crate::Error>) {
        self.live.note(match result.map(|answer| &answer.outcome) {
            Ok(Outcome::Rows(rows)) if rows.paging_state.is_some() => {
                format!("Answered with {} rows and more to come", rows.count)
            }
            Ok(Outcome::Rows(rows)) => format!("Answered with {} rows", rows.count),
            Ok(Outcome::SchemaChange(_)) => "Schema changed on every shard".into(),
            Ok(Outcome::Prepared(_)) => "Prepared on every shard".into(),
            Ok(Outcome::Void | Outcome::SetKeyspace(_)) => "Done".into(),
            Err(error) => format!("Failed: {error}"),
        });
        self.duration_us.set(i32::try_from(self.live.elapsed_us()).unwrap_or(i32::MAX));
    }

    /// What is known by now: replicas that nobody waited for may still add to it.
    fn shown(&self) -> Trace {
        Trace { duration_us: self.duration_us.get(), events: self.live.events(), ..self.begun.clone() }
    }
}

/// The low half of ids, without the bits of the variant: the node part of them, and what makes it a multicast address.
const NODE: u64 = (1 << 48) - 1;
const MULTICAST: u64 = 1 << 40;

fn node_of(host: HostId) -> u64 {
    host.0 as u64 & NODE | MULTICAST
}

fn id_of(tick: i64, shard: u16, host: HostId) -> u128 {
    let low = u64::from(shard) << 48 | node_of(host);
    u128::from_be_bytes(*types::timeuuid::from_ticks(tick, low).as_bytes())
}

/// Whether a trace of this id may be one that a node has coordinated.
pub(crate) fn is_of(id: u128, host: HostId) -> bool {
    id as u64 & NODE == node_of(host)
}

impl Trace {
    /// The id of an event: its time on the coordinator's clock, and its number.
    pub(crate) fn event_id(&self, number: usize) -> u128 {
        let began = types::timeuuid::unix_ticks(&uuid::Uuid::from_u128(self.id)).unwrap_or_default();
        let at = i64::try_from(self.events[number].at).unwrap_or(i64::MAX);
        let id = types::timeuuid::from_ticks(began.saturating_add(at), number as u64);
        u128::from_be_bytes(*id.as_bytes())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&self.started_at_ms.to_be_bytes());
        out.extend_from_slice(&self.duration_us.to_be_bytes());
        put_address(&mut out, Some(self.client));
        put_address(&mut out, Some(self.coordinator));
        put_text(&mut out, &self.request);
        out.extend_from_slice(&(self.parameters.len() as u16).to_be_bytes());
        for (name, value) in &self.parameters {
            put_text(&mut out, name);
            put_text(&mut out, value);
        }
        out.extend_from_slice(&(self.events.len() as u32).to_be_bytes());
        for event in &self.events {
            out.extend_from_slice(&event.at.to_be_bytes());
            out.extend_from_slice(&event.elapsed_us.to_be_bytes());
            out.extend_from_slice(&event.shard.to_be_bytes());
            put_address(&mut out, event.source);
            put_text(&mut out, &event.activity);
        }
        out
    }

    /// Reads what [`Trace::encode`] wrote; what stands behind it belongs to later releases. `None`: it is cut.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Trace> {
        let mut input = ByteReader::new(bytes);
        let (id, started_at_ms) = (input.u128().ok()?, input.i64().ok()?);
        let duration_us = input.i32().ok()?;
        let (client, coordinator) = (take_address(&mut input)??, take_address(&mut input)??);
        let request = take_text(&mut input)?;
        let mut parameters = BTreeMap::new();
        for _ in 0..input.u16().ok()? {
            parameters.insert(take_text(&mut input)?, take_text(&mut input)?);
        }
        let mut events = Vec::new();
        for _ in 0..input.u32().ok()? {
            let (at, elapsed_us, shard) = (input.u64().ok()?, input.u32().ok()?, input.u16().ok()?);
            let (source, activity) = (take_address(&mut input)?, take_text(&mut input)?);
            events.push(Event { at, elapsed_us, shard, source, activity });
        }
        Some(Trace { id, started_at_ms, client, coordinator, request, parameters, duration_us, events })
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_text(input: &mut ByteReader<'_>) -> Option<String> {
    let length = input.u32().ok()? as usize;
    Some(String::from_utf8_lossy(input.bytes(length).ok()?).into_owned())
}

fn put_address(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    let Some(address) = address else { return out.push(0) };
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

fn take_address(input: &mut ByteReader<'_>) -> Option<Option<SocketAddr>> {
    let ip = match input.u8().ok()? {
        0 => return Some(None),
        4 => IpAddr::from(input.array::<4>().ok()?),
        16 => IpAddr::from(input.array::<16>().ok()?),
        _ => return None,
    };
    Some(Some(SocketAddr::new(ip, input.u16().ok()?)))
}

/// The newest traces of one shard.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    ring: RefCell<VecDeque<Traced>>,
}

impl Traces {
    /// Keeps a trace; the oldest makes room.
    pub fn keep(&self, traced: Traced) {
        let mut ring = self.ring.borrow_mut();
        if ring.len() >= limits::TRACES_MAX {
            ring.pop_front();
        }
        ring.push_back(traced);
    }

    /// Those of these ids, or with `None` all of them, oldest first.
    pub fn of(&self, ids: Option<&[u128]>) -> Vec<Trace> {
        let ring = self.ring.borrow();
        let wanted = |traced: &&Traced| ids.is_none_or(|ids| ids.contains(&traced.begun.id));
        ring.iter().filter(wanted).map(Traced::shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Trace {
        let address = |text: &str| text.parse().unwrap();
        let event = |at: u64, source: Option<&str>| Event {
            at,
            elapsed_us: 9,
            shard: 1,
            source: source.map(address),
            activity: format!("event at {at}"),
        };
        Trace {
            id: id_of(17_000_000_000_000_000, 3, HostId(u128::MAX << 7)),
            started_at_ms: 1,
            client: address("10.0.0.9:40000"),
            coordinator: address("[fd00::1]:7000"),
            request: "Execute CQL3 query".into(),
            parameters: [("query".to_owned(), "SELECT é".to_owned())].into(),
            duration_us: 77,
            events: vec![event(1, None), event(5, Some("10.0.0.2:7000")), event(5, Some("[fd00::2]:7000"))],
        }
    }

    #[test]
    fn traces_read_back_and_are_never_read_from_less() {
        let trace = sample();
        let bytes = trace.encode();
        assert_eq!(Trace::decode(&bytes).as_ref(), Some(&trace));
        (0..bytes.len()).for_each(|cut| assert_eq!(Trace::decode(&bytes[..cut]), None, "cut at {cut}"));
    }

    #[test]
    fn ids_differ_between_shards_and_say_who_coordinated() {
        let (one, other) = (HostId(0x1234_5678_9abc_def0_1122_3344_5566_7788), HostId(1));
        let ids = [id_of(5, 0, one), id_of(5, 1, one), id_of(6, 0, one), id_of(5, 0, other)];
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert!(ids[..3].iter().all(|id| is_of(*id, one) && !is_of(*id, other)));
        assert!(is_of(ids[3], other));
        for id in ids {
            assert_eq!(
                (id >> 76 & 0xf, id >> 62 & 3, id >> 40 & 1),
                (1, 2, 1),
                "version, variant, multicast"
            );
        }
    }

    #[test]
    fn events_have_ids_of_their_own_in_the_order_of_their_times() {
        let trace = sample();
        let ids: Vec<uuid::Uuid> =
            (0..3).map(|number| uuid::Uuid::from_u128(trace.event_id(number))).collect();
        let ticks: Vec<i64> = ids.iter().map(|id| types::timeuuid::unix_ticks(id).unwrap()).collect();
        assert_eq!(ticks, [1, 5, 5].map(|at| 17_000_000_000_000_000 + at));
        assert_ne!(ids[1], ids[2]);
    }
}
