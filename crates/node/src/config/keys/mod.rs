//! Every key of `cassandra.yaml` 5.0 and `scylla.yaml`, one row each: its shape, what holds when nobody sets it, and what
//! it does here.
//!
//! ```text
//! key("read_request_timeout", Time(MS), "5000ms", Checks(|c, v| …))     honoured
//! key("authorizer.class_name", Class, "AllowAll…", Only(&[…], why))     anything else would promise what is not done
//! key("file_cache_size", Size(MIB), "null", Idle(why))                  has no meaning here
//! key("key_cache_size", Size(MIB), "null", Later(why))                  is not there yet
//! ```
//! A key inside another has a name with points: `client_encryption_options.enabled`. To honour a key, change its row, add
//! the field to [`Config`] and use it where the node is wired; `UPDATE=1 cargo test -p node document` writes the row into
//! `docs/operating/configuration.md`.

mod cluster;
mod guardrails;
mod messina;
mod network;
mod reasons;
mod requests;
mod scylla;
mod security;
mod storage;

use super::value::{Shape, Value};
use super::{Config, Seed};
use crate::limits;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::time::Duration;
use std::path::PathBuf;

const SEGMENT_BYTES: RangeInclusive<u64> = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX;
const FRAME_BYTES: RangeInclusive<u64> = limits::FRAME_BYTES_MIN..=limits::FRAME_BYTES_MAX;

/// What a key does.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// Sets something.
    Sets(fn(&mut Config, &Value)),
    /// Sets something unless the value makes no sense; the error says what was expected.
    Checks(fn(&mut Config, &Value) -> Result<(), String>),
    /// Only these values are accepted, for this reason: another one asks for protection or placement that is not there.
    Only(&'static [&'static str], &'static str),
    /// Has no meaning here, for this reason.
    Idle(&'static str),
    /// What it is about is not there yet; this is what happens instead.
    Later(&'static str),
}

/// One key.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// What holds when nobody sets it, as `system_views.settings` shows it; `null` can be set, too.
    pub(crate) standard: &'static str,
    pub(crate) effect: Effect,
}

const fn key(name: &'static str, shape: Shape, standard: &'static str, effect: Effect) -> Key {
    Key { name, shape, standard, effect }
}

/// The keys by topic.
pub(crate) const TOPICS: &[(&str, &[Key])] = &[
    ("The node and its place in the cluster", cluster::KEYS),
    ("Addresses, ports and connections", network::KEYS),
    ("Requests", requests::KEYS),
    ("Files, memory and compaction", storage::KEYS),
    ("Roles, passwords, encryption, audit", security::KEYS),
    ("Guardrails", guardrails::KEYS),
    ("Messina's own", messina::KEYS),
    ("Only in scylla.yaml", scylla::KEYS),
];

/// All keys, topic by topic.
pub(crate) fn all() -> impl Iterator<Item = &'static Key> {
    TOPICS.iter().flat_map(|(_, keys)| keys.iter())
}

/// The key of a name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    all().find(|key| key.name == name)
}

/// Are there keys inside one of this name?
pub(crate) fn is_group(name: &str) -> bool {
    all().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// Errors: the size is not within these bounds.
fn within(value: &Value, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = value.size();
    if bounds.contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("a size from {} to {}", shown_size(*bounds.start()), shown_size(*bounds.end())))
}

/// A size in the largest unit that shows all of it.
fn shown_size(bytes: u64) -> String {
    let fits = |unit: &&(&str, u64)| bytes.is_multiple_of(unit.1);
    let (name, unit) = crate::units::SIZE_UNITS.iter().find(fits).expect("a byte divides every size");
    format!("{}{name}", bytes / unit)
}

/// A count where negative numbers mean "no limit".
fn bound(value: &Value) -> Result<Option<u32>, String> {
    match value.whole() {
        number if number < 0 => Ok(None),
        number => match u32::try_from(number) {
            Ok(count) if 0 < count => Ok(Some(count)),
            _ => Err("a count above zero, or -1 for no limit".into()),
        },
    }
}

fn at_least_one(value: &Value) -> Result<u32, String> {
    match u32::try_from(value.whole()) {
        Ok(count) if 0 < count => Ok(count),
        _ => Err("a count above zero".into()),
    }
}

fn some_time(value: &Value) -> Result<Duration, String> {
    match value.time() {
        Duration::ZERO => Err("a duration above zero".into()),
        time => Ok(time),
    }
}

fn tokens(value: &Value) -> Result<Vec<i64>, String> {
    let tokens: Result<Vec<i64>, _> = value.text().split(',').map(|t| t.trim().parse()).collect();
    match tokens {
        Ok(tokens) if tokens.len() <= limits::NUM_TOKENS_MAX as usize => Ok(tokens),
        _ => Err("tokens between -2^63 and 2^63-1 with commas between them".into()),
    }
}

/// Seeds out of the parameters of their provider, as one line shows them: `[{seeds=10.0.0.1:7000,node2}]`.
fn seeds(shown: &str) -> Result<Vec<Seed>, String> {
    let expected = || "seeds: hosts or host:port with commas between them".to_owned();
    let Some((_, list)) = shown.split_once("seeds=") else {
        return if matches!(shown, "null" | "[]" | "{}" | "[{}]" | "") {
            Ok(Vec::new())
        } else {
            Err(expected())
        };
    };
    let list = list.split('}').next().unwrap_or_default();
    // Behind the seeds may come another parameter.
    let items = list.split(',').map(str::trim).take_while(|item| !item.contains('='));
    let items: Vec<&str> = items.filter(|item| !item.is_empty()).collect();
    items.into_iter().map(|item| seed(item).ok_or_else(expected)).collect()
}

fn seed(text: &str) -> Option<Seed> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Seed { host: address.ip().to_string(), port: Some(address.port()) });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Seed { host: address.to_string(), port: None });
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    is_name.then(|| Seed { host: host.to_owned(), port })
}

fn only_folder(value: &Value) -> Result<PathBuf, String> {
    match value.list().as_slice() {
        [folder] if !folder.is_empty() => Ok(folder.into()),
        _ => Err("exactly one folder".into()),
    }
}

/// Port 0 is none.
fn some_port(value: &Value) -> Option<u16> {
    u16::try_from(value.whole()).ok().filter(|port| *port != 0)
}

/// For rows that check: puts a value that made sense in its place.
fn set<T>(place: &mut T, value: T) -> Result<(), String> {
    *place = value;
    Ok(())
}

fn uuid(text: &str) -> Result<u128, String> {
    uuid::Uuid::parse_str(text).map(|id| id.as_u128()).map_err(|_| "a uuid".into())
}

/// At least one, or as many as the node thinks right.
fn compactors(value: &Value) -> Result<Option<u32>, String> {
    let count = u32::try_from(value.whole()).ok().filter(|count| *count > 0);
    count.map(Some).ok_or_else(|| "a number above 0".into())
}

/// A part of a whole, in thousandths.
fn part(value: &Value) -> Result<u32, String> {
    let part = value.text().parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
    part.map(|part| (part * 1000.0).round() as u32).ok_or_else(|| "a number from 0 to 1".into())
}

/// A threshold; a negative number is none.
fn most(value: &Value) -> u32 {
    u32::try_from(value.whole()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_hosts_with_or_without_a_port() {
        let shown = |text: &str| {
            let all = seeds(text)?;
            let one = |s: &Seed| s.port.map_or_else(|| s.host.clone(), |port| format!("{} {port}", s.host));
            Ok::<_, String>(all.iter().map(one).collect::<Vec<_>>())
        };
        for (text, expected) in [
            ("[{seeds=127.0.0.1:7000}]", &["127.0.0.1 7000"][..]),
            (
                "{seeds=10.0.0.1, node-2.example.org:7001,::1,[::1]:7002}",
                &["10.0.0.1", "node-2.example.org 7001", "::1", "::1 7002"],
            ),
            ("[{seeds=a, other=b}]", &["a"]),
            ("null", &[]),
            ("[{seeds=}]", &[]),
        ] {
            assert_eq!(shown(text).unwrap(), expected, "{text}");
        }
        for text in ["[{seeds=a b}]", "[{seeds=a:x}]", "[{seed=a}]", "a"] {
            assert!(shown(text).is_err(), "{text}");
        }
    }
}
