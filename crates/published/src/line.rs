//! Command lines as they were published, with places for what differs from cluster to cluster and from scale to scale.
//!
//! | place | what |
//! |---|---|
//! | `{n}` | operations of one loader |
//! | `{seq}` | its keys: the first and the last of them, `1..700000000` |
//! | `{keys}` | the population of a draw: `1..7000000000` |
//! | `{gaussian}` | the same with mean and standard deviation: `1..7000000000,3500000000,1100000000` |
//! | `{duration}` | how long, `240m` |
//! | `{replication}` | `factor=3`, or a strategy with the factor of each datacenter |
//! | `{nodes}` | addresses |
//! | `{login}` | ` user=… password=…`, if there is a login |
//! | `{log}`, `{graph}` | files |
//! | `{records}`, `{threads}`, `{target}`, `{operations}`, `{more}` | of CloudSuite |

use crate::scale::{Scale, written};
use std::time::Duration;

/// How much a phase does, as published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Operations of all loaders together; 0 where a time ends the phase.
    pub rows: u64,
    /// The first key of a sequence.
    pub first: u64,
    /// Keys of a draw.
    pub keys: u64,
    /// Standard deviation of a draw.
    pub deviation: u64,
    /// How long; nothing where a number of operations ends the phase.
    pub duration: Duration,
}

impl Work {
    /// So many rows, from the first on.
    pub const fn rows(rows: u64, first: u64) -> Work {
        Work { rows, first, keys: rows, deviation: 0, duration: Duration::ZERO }
    }

    /// So many minutes, of keys with a standard deviation around the middle one.
    pub const fn minutes(minutes: u64, keys: u64, deviation: u64) -> Work {
        Work { rows: 0, first: 1, keys, deviation, duration: Duration::from_secs(60 * minutes) }
    }
}

/// What stands in the places that do not follow from the scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Addresses, with commas between.
    pub nodes: String,
    /// What `-schema replication()` holds.
    pub replication: String,
    /// User and password.
    pub login: Option<(String, String)>,
    /// The port, if it is not 9042.
    pub port: Option<u16>,
    /// Where files go.
    pub folder: String,
}

/// Which of the loaders that run the same line, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loader {
    /// From 0.
    pub number: u64,
    /// How many.
    pub of: u64,
}

/// The values of all places, for one loader of a phase.
pub fn places(
    work: &Work,
    scale: Scale,
    loader: Loader,
    around: &Surroundings,
) -> Vec<(&'static str, String)> {
    let n = (scale.rows(work.rows) / loader.of).max(1);
    let before = if work.first > 1 { scale.rows(work.first - 1) } else { 0 };
    let first = before + loader.number * n + 1;
    let keys = scale.rows(work.keys);
    let middle = (keys / 2).max(1);
    let deviation = scale.deviation(work.deviation).min(middle);
    let login = around.login.as_ref().map(|(user, password)| format!(" user={user} password={password}"));
    vec![
        ("{n}", n.to_string()),
        ("{seq}", format!("{first}..{}", first + n - 1)),
        ("{keys}", format!("1..{keys}")),
        ("{gaussian}", format!("1..{keys},{middle},{deviation}")),
        ("{duration}", written(scale.time(work.duration))),
        ("{replication}", around.replication.clone()),
        ("{nodes}", around.nodes.clone()),
        ("{login}", login.unwrap_or_default()),
        ("{records}", keys.to_string()),
    ]
}

/// The line with its places filled.
pub fn filled(template: &str, places: &[(&'static str, String)]) -> String {
    places.iter().fold(template.to_owned(), |line, (place, value)| line.replace(place, value))
}

/// The words of a line as a shell takes it apart: quotes and backslashes keep what they stand for. Of a line of ours: quotes are closed.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_open) = (Vec::new(), None::<String>, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' if !is_open => words.extend(word.take()),
            '"' => {
                is_open = !is_open;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The line without its password.
pub fn shown(line: &str) -> String {
    match line.split_once(" password=") {
        None => line.to_owned(),
        Some((before, rest)) => {
            let after = rest.split_once(' ').map(|(_, after)| format!(" {after}")).unwrap_or_default();
            format!("{before} password=*******{after}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let line = r#"a "b c"=d dist=gaussian\(1..2\) "" e"f g"h"#;
        assert_eq!(words(line), ["a", "b c=d", "dist=gaussian(1..2)", "", "ef gh"]);
        assert_eq!(words("  a  b "), ["a", "b"]);
    }

    #[test]
    fn loaders_take_one_range_after_the_other() {
        let work = Work::rows(7_000_000_000, 1);
        let around = Surroundings::default();
        let seq = |scale, number, work: &Work| {
            let places = places(work, scale, Loader { number, of: 10 }, &around);
            filled("n={n} seq={seq}", &places)
        };
        assert_eq!(seq(Scale::of(1.0), 0, &work), "n=700000000 seq=1..700000000");
        assert_eq!(seq(Scale::of(1.0), 9, &work), "n=700000000 seq=6300000001..7000000000");
        assert_eq!(seq(Scale::of(1e-4), 9, &work), "n=70000 seq=630001..700000");
        // Two runs that follow each other do so at every scale.
        let later = Work::rows(1_000_000_000, 1_000_000_001);
        assert_eq!(seq(Scale::of(1e-4), 0, &later), "n=10000 seq=100001..110000");
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("x user=a password=b -node c"), "x user=a password=******* -node c");
        assert_eq!((shown("x password=b").as_str(), shown("x y").as_str()), ("x password=*******", "x y"));
    }
}
