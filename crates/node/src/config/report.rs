//! What holds, as text: for `system_views.settings`, for `--check-config` and for the document of all keys.

use super::Config;
use super::error::Source;
use super::keys::{self, Effect, Key, TOPICS};
use super::old_names::OLD_NAMES;
use super::value::Shape;
use core::fmt::Write;

impl Config {
    /// Every key with the value that holds, as text, ascending by name; keys that only `scylla.yaml` has, when they are
    /// set. Passwords are not shown, nor maps that may hold some.
    pub fn effective(&self) -> Vec<(String, String)> {
        let rows = self.rows().map(|(key, text, _)| (key.name.to_string(), text));
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        rows
    }

    /// `effective` for a reader: one line per key, and where its value comes from.
    pub fn explain(&self) -> String {
        let mut rows: Vec<_> = self.rows().map(|(key, text, source)| (key.name, text, source)).collect();
        rows.sort_by_key(|row| row.0);
        let mut told = String::new();
        for (name, text, source) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(told, "{name}: {text}  # {source}");
        }
        told
    }

    fn rows(&self) -> impl Iterator<Item = (&'static Key, String, &Source)> {
        keys::all().filter_map(|key| match self.given.get(key.name) {
            Some(given) => Some((key, hidden(key, &given.text), &given.source)),
            None if key.shape == Shape::Any => None,
            None if key.name == "data_file_directories" => {
                Some((key, format!("[{}]", self.data_directory.display()), &Source::Standard))
            }
            None => Some((key, key.standard.to_string(), &Source::Standard)),
        })
    }
}

/// Maps that hold no secrets. In any other there may be some, under names that other servers and their plugins make up.
const SHOWN_MAPS: &[&str] = &[
    "back_pressure_strategy.parameters",
    "commitlog_compression.parameters",
    "default_compaction.parameters",
    "hints_compression.parameters",
    "logger_log_level",
    "memtable.configurations",
    "seed_provider.parameters",
    "sstable.format",
    "startup_checks",
];

fn hidden(key: &Key, text: &str) -> String {
    let is_map = key.shape == Shape::Map || (key.shape == Shape::Any && text.starts_with(['[', '{']));
    let is_empty = ["", "null", "{}", "[]", "[{}]"].contains(&text);
    let may_hold_secrets = !SHOWN_MAPS.contains(&key.name) || names_secret(text);
    let is_secret = names_secret(key.name) || (is_map && may_hold_secrets);
    if is_secret && !is_empty { REDACTED.into() } else { text.into() }
}

/// Stands for what is not shown.
pub(super) const REDACTED: &str = "<REDACTED>";

/// Whether a key, or one within a map, is that of a secret.
pub(super) fn names_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["password=", "passwd=", "secret", "private_key"].iter().any(|word| text.contains(word))
        || ["password", "passwd"].iter().any(|end| text.ends_with(end))
}

/// The tables of `docs/operating/configuration.md`: every key, its standard, what it does here.
pub fn document() -> String {
    let mut text = String::new();
    for (topic, keys) in TOPICS {
        let _ = write!(text, "\n### {topic}\n\n| key | standard | values | here |\n|---|---|---|---|\n");
        for key in *keys {
            let (values, here) = (key.shape.expected(), here(&key.effect));
            let standard = if key.standard.is_empty() { "" } else { key.standard };
            let _ = writeln!(text, "| `{}` | {} | {values} | {here} |", key.name, cell(standard));
        }
    }
    let _ = write!(text, "\n### Old names\n\n| old name | is now |\n|---|---|\n");
    for (old, new, _) in OLD_NAMES {
        let _ = writeln!(text, "| `{old}` | `{new}` |");
    }
    text
}

fn cell(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

fn here(effect: &Effect) -> String {
    match effect {
        Effect::Sets(_) | Effect::Checks(_) => "honoured".into(),
        Effect::Only(values, why) => format!("only {}: {why}", values.join(", ")),
        Effect::Idle(why) => format!("no meaning: {why}"),
        Effect::Later(why) => format!("not yet: {why}"),
    }
}
