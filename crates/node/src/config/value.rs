//! What a key can be set to: its shape, and a value read in that shape.
//!
//! Units are Cassandra's: a number stands directly before its unit (`500ms`, `64MiB`, `24MiB/s`), a key says which unit is
//! the smallest it accepts, and case matters.

use crate::units::{self, RATE_UNITS, SIZE_UNITS, TIME_UNITS};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

/// The shapes of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// `true` or `false`, or what else YAML calls by these names.
    Flag,
    /// A whole number between two others.
    Whole(i64, i64),
    /// A number with a point.
    Real,
    /// A duration; the smallest unit accepted, in nanoseconds.
    Time(u64),
    /// A duration of at least seconds, or a plain number of seconds, as three keys of Cassandra are written.
    SecondsOrTime,
    /// A size; the smallest unit accepted, in bytes.
    Size(u64),
    /// A size; a plain number counts in this many bytes.
    PlainSize(u64),
    /// A size per second.
    Rate,
    /// Text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// The name of a class, with its package or without.
    Class,
    /// An IP address or `localhost`.
    Address,
    /// A list of texts; one text is a list of one.
    List,
    /// A map or a list, kept as text.
    Map,
    /// Whatever it is: the key comes from another database and has no effect.
    Any,
}

/// A value in the shape of its key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    Whole(i64),
    Time(Duration),
    /// Bytes, or bytes per second.
    Size(u64),
    Text(String),
    List(Vec<String>),
    Address(IpAddr),
}

/// The accessors below are called for keys of the one shape only: a test sets every key there is.
impl Value {
    pub(crate) fn flag(&self) -> bool {
        matches!(self, Value::Flag(true))
    }

    pub(crate) fn whole(&self) -> i64 {
        match self {
            Value::Whole(number) => *number,
            other => unreachable!("a whole number is asked of {other:?}"),
        }
    }

    pub(crate) fn time(&self) -> Duration {
        match self {
            Value::Time(time) => *time,
            other => unreachable!("a duration is asked of {other:?}"),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Value::Size(bytes) => *bytes,
            other => unreachable!("a size is asked of {other:?}"),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => unreachable!("a text is asked of {other:?}"),
        }
    }

    pub(crate) fn list(&self) -> Vec<String> {
        match self {
            Value::List(items) => items.clone(),
            other => unreachable!("a list is asked of {other:?}"),
        }
    }

    pub(crate) fn address(&self) -> IpAddr {
        match self {
            Value::Address(address) => *address,
            other => unreachable!("an address is asked of {other:?}"),
        }
    }
}

impl Shape {
    /// Reads a node of a document in this shape.
    /// Errors: what was expected.
    pub(crate) fn read(self, node: &yaml::Node) -> Result<Value, String> {
        match self {
            Shape::List => items(node).map(Value::List).ok_or_else(|| self.expected()),
            Shape::Map | Shape::Any => Ok(Value::Text(show(node))),
            _ => match &node.value {
                yaml::Value::Scalar(text) => self.read_text(text),
                _ => Err(self.expected()),
            },
        }
    }

    fn read_text(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Shape::Flag => flag(text).map(Value::Flag),
            Shape::Whole(least, most) => {
                let number = text.parse().ok().filter(|n| (least..=most).contains(n));
                number.map(Value::Whole)
            }
            Shape::Real => {
                text.parse().ok().filter(|n: &f64| n.is_finite()).map(|_| Value::Text(text.into()))
            }
            Shape::Time(least) => units::time(text, least).map(Value::Time),
            Shape::SecondsOrTime => {
                let plain = text.parse().ok().map(Duration::from_secs);
                plain.or_else(|| units::time(text, SECOND)).map(Value::Time)
            }
            Shape::Size(least) => units::exact_size(text, least).map(Value::Size),
            Shape::PlainSize(unit) => units::size(text, unit).map(Value::Size),
            Shape::Rate => units::rate(text).map(Value::Size),
            Shape::OneOf(choices) => choices.contains(&text).then(|| Value::Text(text.into())),
            Shape::Class => (!text.is_empty()).then(|| Value::Text(text.into())),
            Shape::Address => address(text).map(Value::Address),
            Shape::Text | Shape::List | Shape::Map | Shape::Any => Some(Value::Text(text.into())),
        };
        value.ok_or_else(|| self.expected())
    }

    /// What a value of this shape looks like, for messages and the document.
    pub(crate) fn expected(self) -> String {
        let of_units = |units: &[(&str, u64)], least: u64| {
            let names: Vec<&str> = units.iter().filter(|u| least <= u.1).map(|u| u.0).collect();
            names.join(", ")
        };
        match self {
            Shape::Flag => "true or false".into(),
            Shape::Whole(i64::MIN, i64::MAX) | Shape::Whole(INT_MIN, INT_MAX) => "a whole number".into(),
            Shape::Whole(least, most) => format!("a number from {least} to {most}"),
            Shape::Real => "a number".into(),
            Shape::Time(least) => {
                format!("a duration such as {}, in {}", example(least), of_units(TIME_UNITS, least))
            }
            Shape::SecondsOrTime => "a duration such as 4h, or a number of seconds".into(),
            Shape::Size(least) => format!("a size such as 64MiB, in {}", of_units(SIZE_UNITS, least)),
            Shape::PlainSize(_) => "a size such as 64MiB, or a plain number".into(),
            Shape::Rate => format!("a rate such as 24MiB/s, in {}", of_units(RATE_UNITS, 0)),
            Shape::Text => "text".into(),
            Shape::OneOf(choices) => choices.join(" or "),
            Shape::Class => "the name of a class".into(),
            Shape::Address => "an IP address or localhost".into(),
            Shape::List => "a list".into(),
            Shape::Map => "a map".into(),
            Shape::Any => "anything".into(),
        }
    }
}

/// Units of durations, in nanoseconds.
pub(crate) const NS: u64 = 1;
pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
/// Units of sizes, in bytes.
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

const INT_MIN: i64 = i32::MIN as i64;
const INT_MAX: i64 = i32::MAX as i64;
/// A whole number as Cassandra's four-byte ones.
pub(crate) const INT: Shape = Shape::Whole(INT_MIN, INT_MAX);
/// A whole number as Cassandra's eight-byte ones.
pub(crate) const LONG: Shape = Shape::Whole(i64::MIN, i64::MAX);
/// A port; 0 takes a free one or none, as the key says.
pub(crate) const PORT: Shape = Shape::Whole(0, 65535);

fn example(least: u64) -> &'static str {
    match least {
        MINUTE => "60m",
        SECOND => "30s",
        _ => "500ms",
    }
}

/// YAML 1.1 has many words for two values.
fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn address(text: &str) -> Option<IpAddr> {
    if text == "localhost" {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().ok()
}

fn items(node: &yaml::Node) -> Option<Vec<String>> {
    match &node.value {
        yaml::Value::Scalar(text) => Some(vec![text.clone()]),
        yaml::Value::List(items) => items
            .iter()
            .map(|item| match &item.value {
                yaml::Value::Scalar(text) => Some(text.clone()),
                _ => None,
            })
            .collect(),
        yaml::Value::Null | yaml::Value::Map(_) => None,
    }
}

/// A node as one line of text, as `system_views.settings` shows it.
pub(crate) fn show(node: &yaml::Node) -> String {
    match &node.value {
        yaml::Value::Null => "null".into(),
        yaml::Value::Scalar(text) => text.clone(),
        yaml::Value::List(items) => {
            let texts: Vec<String> = items.iter().map(show).collect();
            format!("[{}]", texts.join(", "))
        }
        yaml::Value::Map(entries) => {
            let texts: Vec<String> =
                entries.iter().map(|e| format!("{}={}", e.key, show(&e.value))).collect();
            format!("{{{}}}", texts.join(", "))
        }
    }
}
