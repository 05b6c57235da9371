//! Which log lines are written: a level for all, and other levels for some modules.

use crate::limits::{LOG_MODULE_BYTES, LOG_MODULES_MAX};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No line has this level; as a threshold it lets none through.
    Off,
    /// Data at risk or node unavailable.
    Error,
    /// Something an operator should look at.
    Warn,
    /// Life of the node.
    Info,
    /// For developers.
    Debug,
    /// For developers, in every detail.
    Trace,
}

impl Level {
    /// Its name, as Cassandra's tools spell it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "OFF",
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
            Level::Trace => "TRACE",
        }
    }

    fn from_number(number: u8) -> Level {
        const ALL: [Level; 6] =
            [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
        ALL[usize::from(number).min(ALL.len() - 1)]
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// As many modules have a level of their own as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyModules;

/// The text names no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLevel;

impl FromStr for Level {
    type Err = NoLevel;

    /// Any case; `all` is every line, as in Cassandra.
    fn from_str(text: &str) -> Result<Level, NoLevel> {
        match text.to_ascii_lowercase().as_str() {
            "off" => Ok(Level::Off),
            "error" => Ok(Level::Error),
            "warn" | "warning" => Ok(Level::Warn),
            "info" => Ok(Level::Info),
            "debug" => Ok(Level::Debug),
            "trace" | "all" => Ok(Level::Trace),
            _ => Err(NoLevel),
        }
    }
}

/// Thresholds: one for all modules, and others for those below a prefix, such as `storage` or `storage::commitlog`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// What holds where no prefix fits.
    pub root: Level,
    /// Prefixes, ascending and distinct.
    modules: Vec<(String, Level)>,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels { root: Level::Info, modules: Vec::new() }
    }
}

impl FromStr for Levels {
    type Err = NoLevel;

    /// `info,storage=debug,query::engine=trace`; the part without a module is for all others.
    fn from_str(text: &str) -> Result<Levels, NoLevel> {
        let mut levels = Levels::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some((module, level)) => levels.set(module.trim(), Some(level.trim().parse()?)),
                None => levels.root = part.trim().parse()?,
            }
        }
        Ok(levels)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root.name().to_ascii_lowercase())?;
        for (module, level) in &self.modules {
            write!(f, ",{module}={}", level.name().to_ascii_lowercase())?;
        }
        Ok(())
    }
}

fn is_root(module: &str) -> bool {
    module.is_empty() || module.eq_ignore_ascii_case("root")
}

impl Levels {
    /// Sets the threshold of the modules below a prefix, `None` takes it back. `ROOT` and the empty prefix are all modules;
    /// points may stand for `::`.
    pub fn set(&mut self, module: &str, level: Option<Level>) {
        if is_root(module) {
            self.root = level.unwrap_or(Level::Info);
            return;
        }
        let module = module.replace('.', "::");
        let place = self.modules.binary_search_by(|(known, _)| known.as_str().cmp(&module));
        match (place, level) {
            (Ok(index), Some(level)) => self.modules[index].1 = level,
            (Ok(index), None) => drop(self.modules.remove(index)),
            (Err(index), Some(level)) => self.modules.insert(index, (module, level)),
            (Err(_), None) => {}
        }
    }

    /// The threshold that was set for exactly this prefix.
    fn own(&self, module: &str) -> Option<Level> {
        if is_root(module) {
            return Some(self.root);
        }
        let module = module.replace('.', "::");
        self.modules.iter().find(|(known, _)| *known == module).map(|(_, level)| *level)
    }

    /// The threshold of a module: that of the longest prefix that fits.
    pub fn of(&self, module: &str) -> Level {
        let fits = |prefix: &str| {
            module.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let fitting = self.modules.iter().filter(|(prefix, _)| fits(prefix));
        fitting.max_by_key(|(prefix, _)| prefix.len()).map_or(self.root, |(_, level)| *level)
    }

    /// `ROOT` and every prefix with its threshold.
    pub fn rows(&self) -> Vec<(String, Level)> {
        let root = std::iter::once(("ROOT".to_string(), self.root));
        root.chain(self.modules.iter().cloned()).collect()
    }

    /// The most that is written anywhere.
    fn most(&self) -> Level {
        self.modules.iter().map(|(_, level)| *level).fold(self.root, Level::max)
    }
}

/// The most that any module writes: most lines below it end here. Configuration of the process, not state of a node.
static MOST: AtomicU8 = AtomicU8::new(Level::Info as u8);
/// `None` is the default.
static LEVELS: Mutex<Option<Thresholds>> = Mutex::new(None);

/// The thresholds of a process as they are, and as they were configured.
#[derive(Clone, Default)]
struct Thresholds {
    configured: Levels,
    current: Levels,
}

impl Thresholds {
    fn set(&mut self, module: &str, level: Option<Level>) -> Result<(), TooManyModules> {
        let level = level.or_else(|| self.configured.own(module));
        let is_new = level.is_some() && self.current.own(module).is_none();
        if is_new && (self.current.modules.len() >= LOG_MODULES_MAX || module.len() > LOG_MODULE_BYTES) {
            return Err(TooManyModules);
        }
        self.current.set(module, level);
        Ok(())
    }
}

/// The thresholds of this process.
pub fn levels() -> Levels {
    let levels = LEVELS.lock().unwrap_or_else(PoisonError::into_inner);
    levels.as_ref().map(|levels| levels.current.clone()).unwrap_or_default()
}

/// Replaces the thresholds of this process: of every shard, at once. These are the configured ones from now on.
pub fn set_levels(levels: Levels) {
    let mut place = LEVELS.lock().unwrap_or_else(PoisonError::into_inner);
    MOST.store(levels.most() as u8, Ordering::Relaxed);
    *place = Some(Thresholds { configured: levels.clone(), current: levels });
}

/// Sets the threshold of the modules below a prefix (see [`Levels::set`]) while the node runs; `None` gives back the
/// configured one. Errors: too many modules have one, or the name is longer than any module's.
pub fn set_module_level(module: &str, level: Option<Level>) -> Result<(), TooManyModules> {
    let mut place = LEVELS.lock().unwrap_or_else(PoisonError::into_inner);
    let levels = place.get_or_insert_default();
    levels.set(module, level)?;
    MOST.store(levels.current.most() as u8, Ordering::Relaxed);
    Ok(())
}

/// Does any module write lines of this level? One relaxed load.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 <= MOST.load(Ordering::Relaxed)
}

/// Does this module write lines of this level?
pub(crate) fn is_written(level: Level, module: &str) -> bool {
    if !enabled(level) {
        return false;
    }
    let levels = LEVELS.lock().unwrap_or_else(PoisonError::into_inner);
    let threshold = match &*levels {
        Some(levels) => levels.current.of(module),
        None => Level::from_number(MOST.load(Ordering::Relaxed)),
    };
    level <= threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let levels: Levels = "warn,storage=debug,storage::commitlog=error".parse().unwrap();
        assert_eq!(levels.of("query::engine"), Level::Warn);
        assert_eq!(levels.of("storage"), Level::Debug);
        assert_eq!(levels.of("storage::flush"), Level::Debug);
        assert_eq!(levels.of("storage::commitlog::log"), Level::Error);
        assert_eq!(levels.of("storages"), Level::Warn);
        assert_eq!(levels.most(), Level::Debug);
        assert_eq!(levels.to_string(), "warn,storage=debug,storage::commitlog=error");
        assert_eq!(levels.to_string().parse(), Ok(levels));
    }

    #[test]
    fn what_was_configured_comes_back() {
        let configured: Levels = "warn,storage=debug".parse().unwrap();
        let mut levels = Thresholds { configured: configured.clone(), current: configured.clone() };
        for module in ["ROOT", "storage", "query.engine"] {
            levels.set(module, Some(Level::Trace)).unwrap();
        }
        assert_eq!(levels.current.to_string(), "trace,query::engine=trace,storage=trace");
        for module in ["ROOT", "storage", "query.engine", "unknown"] {
            levels.set(module, None).unwrap();
        }
        assert_eq!(levels.current, configured);
        assert_eq!(levels.set(&"x".repeat(LOG_MODULE_BYTES + 1), Some(Level::Info)), Err(TooManyModules));
        let filled =
            (0..LOG_MODULES_MAX * 2).filter(|n| levels.set(&format!("m{n}"), Some(Level::Info)).is_ok());
        assert_eq!(filled.count(), LOG_MODULES_MAX - 1, "one was configured");
        assert_eq!(levels.set("storage", Some(Level::Off)), Ok(()), "there already");
    }

    #[test]
    fn levels_are_set_and_taken_back() {
        let mut levels = Levels::default();
        levels.set("query.engine", Some(Level::Trace));
        assert_eq!(levels.of("query::engine"), Level::Trace);
        levels.set("ROOT", Some(Level::Error));
        assert_eq!(levels.rows(), [("ROOT".into(), Level::Error), ("query::engine".into(), Level::Trace)]);
        levels.set("query::engine", None);
        assert_eq!(levels.of("query::engine"), Level::Error);
        assert_eq!("loud".parse::<Levels>(), Err(NoLevel));
        assert_eq!("info,storage".parse::<Levels>(), Err(NoLevel));
    }
}
