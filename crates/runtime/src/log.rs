//! Log lines: to standard error on a real node, to the world's record in simulation.
//!
//! ```text
//! INFO  2026-01-02 03:04:05,678 [shard 0:main] storage - replayed 12 segments
//! ```
//! The macros are [`error!`](crate::error), [`warn!`](crate::warn), [`info!`](crate::info) and [`debug!`](crate::debug).

use crate::limits::LOG_LINE_BYTES;
use base::Instant;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

pub use crate::{debug, error, info, warn};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Data at risk or node unavailable.
    Error,
    /// Something an operator should look at.
    Warn,
    /// Life of the node.
    Info,
    /// For developers.
    Debug,
}

impl Level {
    fn padded(self) -> &'static str {
        match self {
            Level::Error => "ERROR",
            Level::Warn => "WARN ",
            Level::Info => "INFO ",
            Level::Debug => "DEBUG",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = ();

    fn from_str(text: &str) -> Result<Level, ()> {
        match text.to_ascii_lowercase().as_str() {
            "error" => Ok(Level::Error),
            "warn" => Ok(Level::Warn),
            "info" => Ok(Level::Info),
            "debug" | "trace" => Ok(Level::Debug),
            _ => Err(()),
        }
    }
}

/// The process's threshold. One byte of configuration, not state of a node: a simulation records every line of at least this level.
static THRESHOLD: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Lines below this level are not written.
pub fn set_level(level: Level) {
    THRESHOLD.store(level as u8, Ordering::Relaxed);
}

/// Is this level written?
#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 <= THRESHOLD.load(Ordering::Relaxed)
}

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
pub fn write(level: Level, module: &str, message: fmt::Arguments<'_>) {
    if !enabled(level) {
        return;
    }
    let module = module.split("::").next().unwrap_or(module);
    let mut line = Line(String::with_capacity(160));
    // Writing to a string cannot fail.
    let wrote = crate::shard::try_with(|shard| {
        let _ = write!(
            line,
            "{} {} [shard {}:{}] {module} - {message}",
            level.padded(),
            Time(shard.backend.unix_micros()),
            shard.id.0,
            shard.executor.context().group.name()
        );
        line.0.push('\n');
        shard.backend.log(level, &line.0)
    });
    if !wrote.unwrap_or(false) {
        if line.0.is_empty() {
            let _ =
                write!(line, "{} {} {module} - {message}", level.padded(), Time(crate::clock::unix_micros()));
            line.0.push('\n');
        }
        to_stderr(&line.0);
    }
}

fn to_stderr(line: &str) {
    // SAFETY: writes bytes of a live string to a descriptor; a failure loses the line, nothing else.
    let _ = unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Microseconds since the epoch, as `2026-01-02 03:04:05,678` in UTC.
struct Time(i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.div_euclid(1000);
        let (days, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = civil(days);
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{milli:03}")
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years here start in March, so that the leap day is the last; 719,468 days lie between 0000-03-01 and the epoch.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let in_era = shifted.rem_euclid(146_097);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Logs at level error: data at risk or node unavailable.
#[macro_export]
macro_rules! error {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Error, module_path!(), format_args!($($arg)*)) };
}

/// Logs at level warn: something an operator should look at.
#[macro_export]
macro_rules! warn {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Warn, module_path!(), format_args!($($arg)*)) };
}

/// Logs at level info: the life of the node.
#[macro_export]
macro_rules! info {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Info, module_path!(), format_args!($($arg)*)) };
}

/// Logs at level debug; the arguments are evaluated only when the level is on.
#[macro_export]
macro_rules! debug {
    ($($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::Debug) {
            $crate::log::write($crate::log::Level::Debug, module_path!(), format_args!($($arg)*))
        }
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
}
