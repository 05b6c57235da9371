//! Log lines: to standard error on a real node, to the world's record in simulation.
//!
//! ```text
//! INFO  2026-01-02 03:04:05,678 [shard 0:main] storage - replayed 12 segments
//! {"time":"2026-01-02T03:04:05.678Z","level":"INFO","shard":0,"group":"main","module":"storage","message":"replayed …"}
//! ```
//! The macros are [`error!`](crate::error), [`warn!`](crate::warn), [`info!`](crate::info), [`debug!`](crate::debug) and
//! [`trace!`](crate::trace). Fields come before the text: `info!(table = name, bytes = 12; "flushed")`. A shard never waits
//! for who reads the lines: see `sink`.

/// Which lines are written.
mod levels;
/// Where lines go.
pub(crate) mod sink;

use crate::backend::Backend;
use crate::limits::LOG_LINE_BYTES;
use base::Instant;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use crate::{debug, error, info, trace, warn};
pub use levels::{Level, Levels, NoLevel, TooManyModules, enabled, levels, set_levels, set_module_level};

/// Lines of real nodes are JSON objects. Configuration of the process, not state of a node.
static JSON: AtomicBool = AtomicBool::new(false);

/// Lines of real nodes are JSON objects from now on, or text.
pub fn set_json(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

/// What a line says beside its text: names and values.
pub type Fields<'a> = &'a [(&'static str, &'a dyn fmt::Display)];

struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LOG_LINE_BYTES.saturating_sub(self.0.len());
        let mut end = room.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push_str(&text[..end]);
        Ok(())
    }
}

/// Writes one line; the macros call this.
pub fn write(level: Level, module: &str, fields: Fields<'_>, message: fmt::Arguments<'_>) {
    if !levels::is_written(level, module) {
        return;
    }
    let mut record = Record { level, module, fields, message, micros: 0, place: None };
    let written = crate::shard::try_with(|shard| {
        record.micros = shard.backend.unix_micros();
        record.place = Some((shard.id.0, shard.executor.context().group.name()));
        matches!(shard.backend, Backend::Sim(_)) && shard.backend.log(level, &record.as_text())
    });
    match written {
        Some(true) => return,
        Some(false) => {}
        None => record.micros = crate::clock::unix_micros(),
    }
    let json = JSON.load(Ordering::Relaxed);
    sink::write(&if json { record.as_json() } else { record.as_text() });
}

struct Record<'a> {
    level: Level,
    module: &'a str,
    fields: Fields<'a>,
    message: fmt::Arguments<'a>,
    micros: i64,
    /// Shard and group, when the line comes from a shard.
    place: Option<(u16, &'static str)>,
}

/// Writing to a string cannot fail.
impl Record<'_> {
    fn as_text(&self) -> String {
        let mut line = Line(String::with_capacity(160));
        let _ = write!(line, "{:<5} {}", self.level.name(), Time(self.micros));
        if let Some((shard, group)) = self.place {
            let _ = write!(line, " [shard {shard}:{group}]");
        }
        let _ = write!(line, " {} - ", self.simple_module());
        let _ = write!(OneLine(&mut line), "{}", self.message);
        for (name, value) in self.fields {
            let _ = write!(OneLine(&mut line), " {name}={value}");
        }
        line.0.push('\n');
        line.0
    }

    fn as_json(&self) -> String {
        let mut line = Line(String::with_capacity(200));
        let time = Time(self.micros).to_string().replace(' ', "T").replace(',', ".");
        let _ = write!(line, "{{\"time\":\"{time}Z\",\"level\":\"{}\"", self.level.name());
        if let Some((shard, group)) = self.place {
            let _ = write!(line, ",\"shard\":{shard},\"group\":\"{group}\"");
        }
        let _ = write!(line, ",\"module\":\"{}\",\"message\":\"", self.module);
        // Cut before it is closed: what is longer than a line stays an object.
        let mut text = Line(String::new());
        let _ = write!(text, "{}", self.message);
        let _ = write!(Escaped(&mut line.0), "{}", text.0);
        line.0.push('"');
        for (name, value) in self.fields {
            let mut text = Line(String::new());
            let _ = write!(text, "{value}");
            let _ = write!(line.0, ",\"{name}\":\"");
            let _ = write!(Escaped(&mut line.0), "{}", text.0);
            line.0.push('"');
        }
        line.0.push_str("}\n");
        line.0
    }

    /// The crate: enough for a reader, and shorter.
    fn simple_module(&self) -> &str {
        self.module.split("::").next().unwrap_or(self.module)
    }
}

/// Writes text without line breaks and other control characters: what a client sent cannot pass for a record of its own,
/// nor steer the terminal it is read on.
struct OneLine<'a>(&'a mut Line);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(char::is_control) {
            let (before, from) = rest.split_at(at);
            self.0.write_str(before)?;
            let mut letters = from.chars();
            if let Some(letter) = letters.next() {
                write!(self.0, "{}", letter.escape_default())?;
            }
            rest = letters.as_str();
        }
        self.0.write_str(rest)
    }
}

/// Writes text as the inside of a JSON string.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                '\n' => self.0.push_str("\\n"),
                control if control < ' ' => write!(self.0, "\\u{:04x}", u32::from(control))?,
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

/// Microseconds since the epoch, as `2026-01-02 03:04:05,678` in UTC.
struct Time(i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.div_euclid(1000);
        let (days, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = base::calendar::civil(days);
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{milli:03}")
    }
}

/// Logs at level error: data at risk or node unavailable.
#[macro_export]
macro_rules! error {
    ($($field:ident = $value:expr),+ ; $($arg:tt)*) => {
        $crate::log_at!($crate::log::Level::Error, $($field = $value),+ ; $($arg)*)
    };
    ($($arg:tt)*) => { $crate::log_at!($crate::log::Level::Error, ; $($arg)*) };
}

/// Logs at level warn: something an operator should look at.
#[macro_export]
macro_rules! warn {
    ($($field:ident = $value:expr),+ ; $($arg:tt)*) => {
        $crate::log_at!($crate::log::Level::Warn, $($field = $value),+ ; $($arg)*)
    };
    ($($arg:tt)*) => { $crate::log_at!($crate::log::Level::Warn, ; $($arg)*) };
}

/// Logs at level info: the life of the node.
#[macro_export]
macro_rules! info {
    ($($field:ident = $value:expr),+ ; $($arg:tt)*) => {
        $crate::log_at!($crate::log::Level::Info, $($field = $value),+ ; $($arg)*)
    };
    ($($arg:tt)*) => { $crate::log_at!($crate::log::Level::Info, ; $($arg)*) };
}

/// Logs at level debug; the arguments are evaluated only when the level is on.
#[macro_export]
macro_rules! debug {
    ($($field:ident = $value:expr),+ ; $($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::Debug) {
            $crate::log_at!($crate::log::Level::Debug, $($field = $value),+ ; $($arg)*)
        }
    };
    ($($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::Debug) {
            $crate::log_at!($crate::log::Level::Debug, ; $($arg)*)
        }
    };
}

/// Logs at level trace; the arguments are evaluated only when the level is on.
#[macro_export]
macro_rules! trace {
    ($($field:ident = $value:expr),+ ; $($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::Trace) {
            $crate::log_at!($crate::log::Level::Trace, $($field = $value),+ ; $($arg)*)
        }
    };
    ($($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::Trace) {
            $crate::log_at!($crate::log::Level::Trace, ; $($arg)*)
        }
    };
}

/// What the macros of the levels have in common.
#[doc(hidden)]
#[macro_export]
macro_rules! log_at {
    ($level:expr, $($field:ident = $value:expr),* ; $($arg:tt)*) => {
        $crate::log::write($level, module_path!(), &[$((stringify!($field), &$value)),*], format_args!($($arg)*))
    };
}

/// Lets a line through now and then: what goes on for as long as trouble lasts must not fill the log.
#[derive(Debug)]
pub struct Sparse {
    every: Duration,
    last: Cell<Option<Instant>>,
}

impl Sparse {
    /// At most one line in this time.
    pub fn new(every: Duration) -> Sparse {
        Sparse { every, last: Cell::new(None) }
    }

    /// Whether the line may be written now; then it counts as written.
    pub fn take(&self) -> bool {
        let now = crate::now();
        let due = self.last.get().is_none_or(|at| self.every <= now - at);
        if due {
            self.last.set(Some(now));
        }
        due
    }

    /// The trouble is over: the next line is let through.
    pub fn reset(&self) {
        self.last.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let text = |micros| Time(micros).to_string();
        assert_eq!(text(0), "1970-01-01 00:00:00,000");
        assert_eq!(text(951_782_400_000_000), "2000-02-29 00:00:00,000");
        assert_eq!(text(1_735_689_599_999_999), "2024-12-31 23:59:59,999");
        assert_eq!(text(-1), "1969-12-31 23:59:59,999");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let mut line = Line(String::new());
        let _ = write!(line, "{}", "ä".repeat(LOG_LINE_BYTES));
        assert_eq!(line.0.len(), LOG_LINE_BYTES);
        assert_eq!("WARN".parse(), Ok(Level::Warn));
    }

    #[test]
    fn a_record_is_a_line_of_text_or_an_object() {
        let record = |message| Record {
            level: Level::Warn,
            module: "storage::flush",
            fields: &[("table", &"ks.t"), ("bytes", &12)],
            message,
            micros: 951_782_400_000_000,
            place: Some((3, "flush")),
        };
        assert_eq!(
            record(format_args!("slow")).as_text(),
            "WARN  2000-02-29 00:00:00,000 [shard 3:flush] storage - slow table=ks.t bytes=12\n"
        );
        assert_eq!(
            record(format_args!("a\r\nERROR forged\tß\u{1b}[2J\u{7f}")).as_text(),
            "WARN  2000-02-29 00:00:00,000 [shard 3:flush] storage - \
             a\\r\\nERROR forged\\tß\\u{1b}[2J\\u{7f} table=ks.t bytes=12\n"
        );
        assert_eq!(
            record(format_args!("a \"quote\"\nand \u{1}")).as_json(),
            "{\"time\":\"2000-02-29T00:00:00.000Z\",\"level\":\"WARN\",\"shard\":3,\"group\":\"flush\",\
             \"module\":\"storage::flush\",\"message\":\"a \\\"quote\\\"\\nand \\u0001\",\
             \"table\":\"ks.t\",\"bytes\":\"12\"}\n"
        );
        let long = "x".repeat(3 * LOG_LINE_BYTES);
        assert!(record(format_args!("{long}")).as_json().ends_with("\"bytes\":\"12\"}\n"));
    }
}
