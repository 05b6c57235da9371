//! How the tool reads its words: groups of sub-options, each known by what it begins with.
//!
//! A command or option may be written in several ways, of which each is a [`Group`]; the first that takes every word and has all it
//! needs is the one that was meant. Help is printed from the same tables.

use crate::distribution::Distribution;
use crate::error::Error;
use std::fmt::Write as _;

/// What may follow the prefix of a sub-option.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Text that a pattern matches as a whole, letters of either case alike; the empty pattern makes a flag.
    Text(&'static str),
    /// A distribution.
    Distribution,
    /// A distribution over a number, `DIST/D`.
    Ratio,
    /// `name(a=1,b=2)`: sub-options of its own and, where [`Sub::extras`] allows, any other `key=value`.
    Group(Group),
    /// `name(a=1,b=2)`: weights; of the names given, or with none of any.
    Weights(&'static [(&'static str, Option<&'static str>)]),
}

/// A sub-option and what was said of it.
#[derive(Clone, Debug)]
pub struct Sub {
    prefix: &'static str,
    kind: Kind,
    default: Option<String>,
    description: &'static str,
    required: bool,
    value: Option<String>,
    extras: Option<Vec<(String, String)>>,
}

impl Sub {
    /// A value after `prefix=`; the pattern is what the Java tool would print.
    pub fn text(prefix: &'static str, pattern: &'static str, description: &'static str) -> Sub {
        Sub::new(prefix, Kind::Text(pattern), description)
    }

    /// A word alone.
    pub fn flag(word: &'static str, description: &'static str) -> Sub {
        Sub::new(word, Kind::Text(""), description)
    }

    /// A distribution.
    pub fn distribution(prefix: &'static str, description: &'static str) -> Sub {
        Sub::new(prefix, Kind::Distribution, description)
    }

    /// A ratio.
    pub fn ratio(prefix: &'static str, description: &'static str) -> Sub {
        Sub::new(prefix, Kind::Ratio, description)
    }

    /// Sub-options in parentheses.
    pub fn group(name: &'static str, subs: Vec<Sub>, description: &'static str) -> Sub {
        Sub::new(name, Kind::Group(Group::new(subs)), description)
    }

    /// Weights in parentheses, each name with its weight where nothing is said.
    pub fn weights(
        name: &'static str,
        names: &'static [(&'static str, Option<&'static str>)],
        description: &'static str,
    ) -> Sub {
        Sub::new(name, Kind::Weights(names), description)
    }

    fn new(prefix: &'static str, kind: Kind, description: &'static str) -> Sub {
        Sub { prefix, kind, default: None, description, required: false, value: None, extras: None }
    }

    /// What holds when nothing is said.
    pub fn or(mut self, default: impl Into<String>) -> Sub {
        self.default = Some(default.into());
        self
    }

    /// The group is not meant without it.
    pub fn required(mut self) -> Sub {
        self.required = true;
        self
    }

    /// Any other `key=value` is taken as well.
    pub fn with_extras(mut self) -> Sub {
        self.extras = Some(Vec::new());
        self
    }

    /// Takes a word that belongs to this sub-option; `false` when it does not.
    fn accept(&mut self, word: &str) -> Result<bool, Error> {
        match &mut self.kind {
            Kind::Group(_) | Kind::Weights(_) => return self.accept_in_parentheses(word),
            Kind::Text(_) | Kind::Distribution | Kind::Ratio => {}
        }
        let Some(value) = without_prefix(word, self.prefix) else {
            return Ok(false);
        };
        match self.kind {
            Kind::Text(pattern) => {
                if self.value.is_some() {
                    let text = format!("Suboption {} has been specified more than once", self.prefix);
                    return Err(Error::usage(text));
                }
                if !pattern_matches(pattern, value) {
                    return Err(Error::usage(format!("Invalid value {value}; must match pattern {pattern}")));
                }
            }
            Kind::Distribution => {
                Distribution::parse(value)?;
            }
            Kind::Ratio => {
                Ratio::parse(value)?;
            }
            Kind::Group(_) | Kind::Weights(_) => {}
        }
        self.value = Some(value.to_owned());
        Ok(true)
    }

    fn accept_in_parentheses(&mut self, word: &str) -> Result<bool, Error> {
        let inside =
            without_prefix(word, self.prefix).and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
        let Some(inside) = inside else {
            return Ok(false);
        };
        let invalid = |part: &str| Error::usage(format!("Invalid {} specification: {part}", self.prefix));
        if inside.is_empty() {
            self.value = Some(String::new());
            return Ok(true);
        }
        // Commas at the end are as nothing; elsewhere something has to stand before each.
        let parts = inside.trim_end_matches(',');
        for (nth, part) in parts.split(',').enumerate() {
            if part.is_empty() {
                return Err(invalid(word));
            }
            let name = part.split('=').next().unwrap_or(part);
            let same =
                |other: &str| other.split('=').next().is_some_and(|other| other.eq_ignore_ascii_case(name));
            if matches!(self.kind, Kind::Weights(_)) && parts.split(',').take(nth).any(same) {
                return Err(Error::usage(format!("{name} set twice")));
            }
            let taken = match &mut self.kind {
                Kind::Group(group) => group.accept(part)?,
                Kind::Weights(names) => {
                    let (name, weight) = part.split_once('=').unwrap_or((part, ""));
                    let known =
                        names.is_empty() || names.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
                    known && weight.parse::<f64>().is_ok_and(|weight| weight >= 0.0 && weight.is_finite())
                }
                Kind::Text(_) | Kind::Distribution | Kind::Ratio => false,
            };
            match (taken, part.split_once('='), &mut self.extras) {
                (true, _, _) => {}
                (false, Some((key, value)), Some(extras))
                    if !key.is_empty() && !value.is_empty() && !value.contains('=') =>
                {
                    if extras.iter().any(|(known, _)| known == key) {
                        return Err(Error::usage(format!("{key} set twice")));
                    }
                    extras.push((key.to_owned(), value.to_owned()));
                }
                (false, _, _) => return Err(invalid(part)),
            }
        }
        self.value = Some(inside.to_owned());
        Ok(true)
    }

    fn is_happy(&self) -> bool {
        match &self.kind {
            Kind::Group(group) => group.is_happy(),
            // A distribution or ratio without a default has to be given; one that may be left out has none and is not required.
            Kind::Text(_) | Kind::Distribution | Kind::Ratio | Kind::Weights(_) => {
                !self.required || self.value.is_some()
            }
        }
    }

    fn short(&self) -> String {
        let is_optional = match &self.kind {
            Kind::Distribution | Kind::Ratio => self.default.is_some(),
            Kind::Text(_) | Kind::Group(_) | Kind::Weights(_) => !self.required,
        };
        let open = if is_optional { ("[", "]") } else { ("", "") };
        match &self.kind {
            Kind::Text(_) => {
                let more = if self.prefix.ends_with(['=', '<', '>']) { "?" } else { "" };
                format!("{}{}{more}{}", open.0, self.prefix, open.1)
            }
            Kind::Distribution | Kind::Ratio => format!("{}{}DIST(?){}", open.0, self.prefix, open.1),
            Kind::Group(_) | Kind::Weights(_) => format!("{}{}(?){}", open.0, self.prefix, open.1),
        }
    }

    /// The lines of help, the first without indentation.
    fn long(&self) -> Vec<String> {
        match &self.kind {
            Kind::Text("") if self.description.is_empty() && self.default.is_none() => Vec::new(),
            Kind::Text(_) => {
                let more = if self.prefix.ends_with(['=', '<', '>']) { "?" } else { "" };
                let default =
                    self.default.as_ref().map(|text| format!(" (default={text})")).unwrap_or_default();
                vec![format!("{:<40} {}", format!("{}{more}{default}", self.prefix), self.description)]
            }
            Kind::Distribution | Kind::Ratio => {
                let mut lines = vec![format!("{}: {}", self.short(), self.description)];
                lines.extend(DISTRIBUTIONS.iter().map(|(form, meaning)| format!("{form:<36} {meaning}")));
                lines.push("A ~ before the name turns it around: of ~exp(1..10) 10 comes most often.".into());
                lines.push("Aliases: extr, qextr, gauss, normal, norm".into());
                lines
            }
            Kind::Group(group) => {
                let mut inner: String = group.0.iter().map(Sub::short).collect();
                if self.extras.is_some() {
                    inner.push_str("[<option 1..N>=?]");
                }
                let mut lines = vec![format!("{}({inner}): {}", self.prefix, self.description)];
                lines.extend(group.0.iter().flat_map(|sub| sub.long().into_iter().take(1)));
                lines
            }
            Kind::Weights(names) => {
                let one = |(name, default): &(&str, Option<&str>)| {
                    let default = default.map(|weight| format!(" (default={weight})")).unwrap_or_default();
                    format!("{:<40} {}", format!("{name}=?{default}"), "weight of this operation")
                };
                let inner: String = match names.is_empty() {
                    true => "[<option 1..N>=?]".into(),
                    false => names.iter().map(|(name, _)| format!("[{name}=?]")).collect(),
                };
                let mut lines = vec![format!("{}({inner}): {}", self.prefix, self.description)];
                lines.extend(names.iter().map(one));
                lines
            }
        }
    }
}

/// How distributions are written.
const DISTRIBUTIONS: &[(&str, &str)] = &[
    ("EXP(min..max)", "exponential over min..max"),
    ("EXTREME(min..max,shape)", "extreme value (Weibull) over min..max"),
    ("QEXTREME(min..max,shape,quantas)", "the same in groups of equal chance, uniform inside each"),
    ("GAUSSIAN(min..max,stdvrng)", "normal, mean (min+max)/2, deviation (mean-min)/stdvrng"),
    ("GAUSSIAN(min..max,mean,stdev)", "normal, mean and deviation as given"),
    ("UNIFORM(min..max)", "every value of min..max alike"),
    ("FIXED(val)", "always val"),
    ("SEQ(min..max)", "one after the other, again from min after max"),
];

/// A distribution over a number: of a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// What is divided.
    pub distribution: Distribution,
    /// By what.
    pub divisor: f64,
}

impl Ratio {
    /// Reads `DIST/D`.
    pub fn parse(text: &str) -> Result<Ratio, Error> {
        let illegal = || Error::usage(format!("Illegal ratio specification: {text}"));
        let (distribution, divisor) = text.rsplit_once('/').ok_or_else(illegal)?;
        let divisor: f64 =
            divisor.parse().ok().filter(|d: &f64| *d > 0.0 && d.is_finite()).ok_or_else(illegal)?;
        Ok(Ratio { distribution: Distribution::parse(distribution)?, divisor })
    }
}

/// Sub-options that belong together.
#[derive(Clone, Debug)]
pub struct Group(Vec<Sub>);

impl Group {
    /// A group of these.
    pub fn new(subs: Vec<Sub>) -> Group {
        Group(subs)
    }

    fn accept(&mut self, word: &str) -> Result<bool, Error> {
        for sub in &mut self.0 {
            if sub.accept(word)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_happy(&self) -> bool {
        self.0.iter().all(Sub::is_happy)
    }

    /// No longer wants a sub-option.
    pub fn relax(&mut self, prefix: &str) {
        for sub in self.0.iter_mut().filter(|sub| sub.prefix == prefix) {
            sub.required = false;
        }
    }

    fn sub(&self, prefix: &str) -> Option<&Sub> {
        self.0.iter().find(|sub| sub.prefix == prefix)
    }

    /// True when there is a sub-option of this prefix.
    pub fn knows(&self, prefix: &str) -> bool {
        self.sub(prefix).is_some()
    }

    /// What was said, or holds when nothing was.
    pub fn value(&self, prefix: &str) -> Option<&str> {
        let sub = self.sub(prefix)?;
        sub.value.as_deref().or(sub.default.as_deref())
    }

    /// What was said.
    pub fn said(&self, prefix: &str) -> Option<&str> {
        self.sub(prefix)?.value.as_deref()
    }

    /// The same as a number.
    pub fn number(&self, prefix: &str) -> Result<Option<u64>, Error> {
        let Some(text) = self.value(prefix) else { return Ok(None) };
        let invalid = || Error::usage(format!("Invalid value {text}; {prefix} is too large"));
        text.parse().map(Some).map_err(|_| invalid())
    }

    /// The same as a distribution.
    pub fn distribution(&self, prefix: &str) -> Result<Option<Distribution>, Error> {
        self.value(prefix).map(Distribution::parse).transpose()
    }

    /// The same as a ratio.
    pub fn ratio(&self, prefix: &str) -> Result<Option<Ratio>, Error> {
        self.value(prefix).map(Ratio::parse).transpose()
    }

    /// The sub-options in parentheses of a name, and what else stood there.
    pub fn inner(&self, name: &str) -> Option<(&Group, &[(String, String)])> {
        let sub = self.sub(name)?;
        match &sub.kind {
            Kind::Group(group) => Some((group, sub.extras.as_deref().unwrap_or_default())),
            Kind::Text(_) | Kind::Distribution | Kind::Ratio | Kind::Weights(_) => None,
        }
    }

    /// Weights by name, as said or else as they are by default; those of nothing are left out.
    pub fn weights(&self, name: &str) -> Vec<(String, f64)> {
        let Some(sub) = self.sub(name) else { return Vec::new() };
        let said = sub.value.as_deref().filter(|text| !text.is_empty());
        let pairs: Vec<(String, f64)> = match (said, &sub.kind) {
            (Some(text), _) => text
                .split(',')
                .filter_map(|part| {
                    let (name, weight) = part.split_once('=')?;
                    Some((name.to_ascii_lowercase(), weight.parse().ok()?))
                })
                .collect(),
            (None, Kind::Weights(names)) => names
                .iter()
                .filter_map(|(name, default)| Some(((*name).to_owned(), default.as_ref()?.parse().ok()?)))
                .collect(),
            (None, _) => Vec::new(),
        };
        pairs.into_iter().filter(|(_, weight)| *weight > 0.0).collect()
    }
}

/// Hands every word to every group and gives the first that took all of them and has all it needs; `None` when there is none.
/// Errors: a word that none of them takes, told with the name of the command or option it stands behind.
pub fn select(name: &str, words: &[String], mut groups: Vec<Group>) -> Result<Option<Group>, Error> {
    let mut taken = vec![0; groups.len()];
    for word in words {
        let mut known = false;
        for (group, taken) in groups.iter_mut().zip(&mut taken) {
            if group.accept(word).map_err(|error| with_place(error, name, word))? {
                *taken += 1;
                known = true;
            }
        }
        if !known {
            return Err(Error::usage(format!("Invalid parameter {word} of {name}")));
        }
    }
    let all = words.len();
    Ok(groups
        .into_iter()
        .zip(taken)
        .find(|(group, taken)| *taken == all && group.is_happy())
        .map(|(group, _)| group))
}

/// The Java tool's words about a value, and behind them where it stands: there may be several of its kind.
fn with_place(error: Error, name: &str, word: &str) -> Error {
    match error {
        Error::Usage(text) => Error::Usage(format!("{text} ({name} {word})")),
        other @ (Error::Options { .. } | Error::Ignored(_) | Error::Run(_)) => other,
    }
}

/// The help of a command or option that may be written in these ways.
pub fn usage(name: &str, groups: &[Group]) -> String {
    let mut text = String::from("\n");
    for (nth, group) in groups.iter().enumerate() {
        if nth > 0 {
            text.push_str(" OR \n");
        }
        let words: String = group.0.iter().map(|sub| format!(" {}", sub.short())).collect();
        writeln!(text, "Usage: {name}{words}").ok();
    }
    text.push('\n');
    let mut printed: Vec<&str> = Vec::new();
    for sub in groups.iter().flat_map(|group| &group.0) {
        if printed.contains(&sub.prefix) {
            continue;
        }
        printed.push(sub.prefix);
        for (nth, line) in sub.long().iter().enumerate() {
            writeln!(text, "{}{line}", if nth == 0 { "  " } else { "      " }).ok();
        }
    }
    text
}

fn without_prefix<'a>(word: &'a str, prefix: &str) -> Option<&'a str> {
    let start = word.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &word[prefix.len()..])
}

/// Whether a pattern of this module's tables matches a whole text.
fn pattern_matches(pattern: &str, text: &str) -> bool {
    regex_lite::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .case_insensitive(true)
        .build()
        .is_ok_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn rates() -> Vec<Group> {
        let auto = Group::new(vec![
            Sub::text("threads>=", "[0-9]+", "at least").or("4"),
            Sub::text("threads<=", "[0-9]+", "at most").or("1000"),
            Sub::flag("auto", "by itself"),
        ]);
        let fixed = Group::new(vec![
            Sub::text("threads=", "[0-9]+", "so many").required(),
            Sub::text("throttle=", "[0-9]+/s", "no faster").or("0/s"),
        ]);
        vec![auto, fixed]
    }

    #[test]
    fn the_first_group_that_takes_every_word_is_meant() {
        let chosen = select("-rate", &words("threads=20 throttle=5/s"), rates()).unwrap().unwrap();
        assert_eq!((chosen.said("threads="), chosen.value("throttle=")), (Some("20"), Some("5/s")));
        let chosen = select("-rate", &words("THREADS>=8 Auto"), rates()).unwrap().unwrap();
        assert_eq!((chosen.value("threads>="), chosen.value("threads<=")), (Some("8"), Some("1000")));
        assert!(chosen.said("auto").is_some());
        // Words of two groups belong to none; a required one may not be missing.
        assert!(select("-rate", &words("threads=20 auto"), rates()).unwrap().is_none());
        assert!(select("-rate", &words("throttle=5/s"), rates()).unwrap().is_none());
    }

    #[test]
    fn what_is_wrong_is_said_as_the_java_tool_says_it() {
        let said = |line: &str| select("-rate", &words(line), rates()).unwrap_err().to_string();
        assert_eq!(said("threads=x"), "Invalid value x; must match pattern [0-9]+ (-rate threads=x)");
        assert_eq!(said("automatic"), "Invalid value matic; must match pattern  (-rate automatic)");
        assert_eq!(said("thread=3"), "Invalid parameter thread=3 of -rate");
        assert_eq!(
            said("threads=3 threads=4"),
            "Suboption threads= has been specified more than once (-rate threads=4)"
        );
    }

    fn schema() -> Vec<Group> {
        let replication = Sub::group(
            "replication",
            vec![
                Sub::text("strategy=", ".*", "class").or("Simple"),
                Sub::text("factor=", "[0-9]+", "copies"),
            ],
            "where",
        );
        vec![Group::new(vec![replication.with_extras(), Sub::text("keyspace=", ".*", "").or("keyspace1")])]
    }

    #[test]
    fn words_in_parentheses_are_options_and_other_pairs() {
        let chosen =
            select("-schema", &words("replication(factor=3,dc1=2,dc2=1)"), schema()).unwrap().unwrap();
        let (inner, extras) = chosen.inner("replication").unwrap();
        assert_eq!((inner.value("factor="), inner.value("strategy=")), (Some("3"), Some("Simple")));
        let pairs: Vec<String> = extras.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        assert_eq!(pairs, ["dc1:2", "dc2:1"]);
        let said = |line: &str| select("-schema", &words(line), schema()).unwrap_err().to_string();
        assert_eq!(
            said("replication(factor=3,,dc1=1)"),
            "Invalid replication specification: replication(factor=3,,dc1=1) (-schema replication(factor=3,,dc1=1))"
        );
        assert_eq!(
            said("replication(dc1)"),
            "Invalid replication specification: dc1 (-schema replication(dc1))"
        );
        assert_eq!(said("replication(dc1=1,dc1=2)"), "dc1 set twice (-schema replication(dc1=1,dc1=2))");
        assert_eq!(said("replication(factor=3"), "Invalid parameter replication(factor=3 of -schema");
    }

    #[test]
    fn weights_are_of_known_names_or_of_any() {
        const NAMES: &[(&str, Option<&str>)] =
            &[("read", Some("1")), ("write", Some("1")), ("counter_read", None)];
        let groups = |names| vec![Group::new(vec![Sub::weights("ratio", names, "how often")])];
        let weights = |line: &str, names| {
            select("mixed", &words(line), groups(names)).map(|chosen| chosen.unwrap().weights("ratio"))
        };
        let pairs =
            |pairs: &[(&str, f64)]| pairs.iter().map(|(n, w)| ((*n).to_owned(), *w)).collect::<Vec<_>>();
        assert_eq!(weights("", NAMES).unwrap(), pairs(&[("read", 1.0), ("write", 1.0)]));
        assert_eq!(
            weights("ratio(read=10,write=0.5)", NAMES).unwrap(),
            pairs(&[("read", 10.0), ("write", 0.5)])
        );
        assert_eq!(weights("ratio(read=1,write=0)", NAMES).unwrap(), pairs(&[("read", 1.0)]));
        assert_eq!(weights("ratio(insert=1,Mine=2)", &[]).unwrap(), pairs(&[("insert", 1.0), ("mine", 2.0)]));
        let wrong = weights("ratio(delete=1)", NAMES).unwrap_err().to_string();
        assert_eq!(wrong, "Invalid ratio specification: delete=1 (mixed ratio(delete=1))");
        assert!(weights("ratio(read=x)", NAMES).is_err());
        assert_eq!(
            weights("ratio(read=1,READ=2)", NAMES).unwrap_err().to_string(),
            "READ set twice (mixed ratio(read=1,READ=2))"
        );
    }
}
