//! The command line, by the rules of the parser behind Cassandra's nodetool.
//!
//! Options may be written `-o v`, `--option v`, `--option=v`, `-ov` and, without values, several behind one dash. What is
//! no option is an argument, also when it begins with a dash; `--` makes arguments of all that follows.

use crate::error::Error;
use std::collections::BTreeMap;

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// How it may be written.
    pub names: &'static [&'static str],
    /// What its value is called; none for a switch.
    pub value: Option<&'static str>,
    /// What it does.
    pub help: &'static str,
    /// Whether its value is a Java `int`, which is looked at before anything else.
    is_int: bool,
}

/// A switch.
pub const fn switch(names: &'static [&'static str], help: &'static str) -> Opt {
    Opt { names, value: None, help, is_int: false }
}

/// An option with a value.
pub const fn valued(names: &'static [&'static str], value: &'static str, help: &'static str) -> Opt {
    Opt { names, value: Some(value), help, is_int: false }
}

/// An option whose value is a number.
pub const fn int(names: &'static [&'static str], value: &'static str, help: &'static str) -> Opt {
    Opt { names, value: Some(value), help, is_int: true }
}

/// The options before the command.
pub const GLOBAL: &[Opt] = &[
    valued(&["-h", "--host"], "host", "The node's host name or address"),
    valued(&["-p", "--port"], "port", "The port of the node's REST interface"),
    switch(&["-pp", "--print-port"], "Tell nodes apart by address and port"),
    valued(&["-pw", "--password"], "password", "Accepted for scripts; the REST interface has no users"),
    valued(&["-pwf", "--password-file"], "passwordFilePath", "Accepted for scripts, as --password"),
    valued(&["-u", "--username"], "username", "Accepted for scripts, as --password"),
];

/// Options and arguments as given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    values: BTreeMap<&'static str, Vec<String>>,
    /// What is no option, in order.
    pub arguments: Vec<String>,
}

impl Given {
    /// Whether an option was given; by its first name.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The last value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.last()).map(String::as_str)
    }

    /// Every value of an option, in order.
    pub fn values(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// The last value of an option that is a number.
    pub fn int(&self, name: &str) -> Option<i32> {
        self.value(name).and_then(|text| text.parse().ok())
    }
}

/// Takes the options at the start of `words`; returns them and what is left.
pub fn leading<'a>(words: &'a [String], known: &[Opt]) -> Result<(Given, &'a [String]), Error> {
    let mut given = Given::default();
    let mut rest = words;
    loop {
        let after = option(rest, known, &mut given)?;
        if after.len() == rest.len() {
            return Ok((given, rest));
        }
        rest = after;
    }
}

/// Takes options and arguments, mixed as they are.
pub fn all(words: &[String], known: &[Opt]) -> Result<Given, Error> {
    let mut given = Given::default();
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        let after = option(rest, known, &mut given)?;
        if after.len() < rest.len() {
            rest = after;
        } else if word == "--" {
            given.arguments.extend_from_slice(behind);
            break;
        } else {
            given.arguments.push(word.clone());
            rest = behind;
        }
    }
    Ok(given)
}

/// Takes one option, or nothing.
fn option<'a>(words: &'a [String], known: &[Opt], given: &mut Given) -> Result<&'a [String], Error> {
    let Some((word, behind)) = words.split_first() else { return Ok(words) };
    let find = |name: &str| known.iter().find(|option| option.names.contains(&name));
    if let Some(found) = find(word) {
        return match (found.value, behind.split_first()) {
            (None, _) => put(given, found, "true", behind),
            (Some(_), Some((value, behind))) => put(given, found, value, behind),
            (Some(title), None) => {
                Err(Error::usage(format!("Required values for option '{title}' not provided")))
            }
        };
    }
    if let Some((name, value)) = word.split_once('=').filter(|(name, _)| name.starts_with("--"))
        && let Some(found) = find(name).filter(|found| found.value.is_some())
    {
        return put(given, found, value, behind);
    }
    Ok(if cluster(word, known, given)? { behind } else { words })
}

/// Several switches behind one dash, the last of them perhaps an option with its value: `-rH`, `-tx`.
fn cluster(word: &str, known: &[Opt], given: &mut Given) -> Result<bool, Error> {
    let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with('-'))
    else {
        return Ok(false);
    };
    let mut found = Vec::new();
    for (at, letter) in letters.char_indices() {
        let name = format!("-{letter}");
        let Some(option) = known.iter().find(|option| option.names.contains(&name.as_str())) else {
            return Ok(false);
        };
        let value = &letters[at + letter.len_utf8()..];
        if option.value.is_some() {
            if value.is_empty() {
                return Ok(false);
            }
            found.push((option, value));
            break;
        }
        found.push((option, "true"));
    }
    for (option, value) in found {
        put(given, option, value, &[])?;
    }
    Ok(true)
}

fn put<'a>(
    given: &mut Given,
    option: &Opt,
    value: &str,
    behind: &'a [String],
) -> Result<&'a [String], Error> {
    if option.is_int && value.parse::<i32>().is_err() {
        let title = option.value.unwrap_or_default();
        return Err(Error::usage(format!("{title}: can not convert \"{value}\" to a int")));
    }
    given.values.entry(option.names[0]).or_default().push(value.to_owned());
    Ok(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Opt] = &[
        switch(&["-r", "--resolve-ip"], ""),
        switch(&["-H", "--human-readable"], ""),
        valued(&["-t", "--tag"], "tag", ""),
    ];

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn every_way_of_writing_an_option() {
        for text in ["-r -t x ks", "ks --resolve-ip --tag x", "--tag=x ks -r", "-rtx ks", "-r -tx ks"] {
            let given = all(&words(text), KNOWN).unwrap();
            assert!(given.has("-r") && !given.has("-H"), "{text}");
            assert_eq!((given.value("-t"), &given.arguments), (Some("x"), &words("ks")), "{text}");
        }
        assert!(all(&words("-rH"), KNOWN).unwrap().has("-H"));
    }

    #[test]
    fn what_is_no_option_is_an_argument() {
        assert_eq!(all(&words("--foo a -- -r"), KNOWN).unwrap().arguments, words("--foo a -r"));
        assert_eq!(all(&words("-rx"), KNOWN).unwrap().arguments, words("-rx"));
    }

    #[test]
    fn a_missing_value_is_named() {
        let error = all(&words("-t"), KNOWN).unwrap_err();
        assert_eq!(error.to_string(), "Required values for option 'tag' not provided");
    }

    #[test]
    fn the_command_ends_the_leading_options() {
        let line = words("-h localhost -p 1 status -r");
        let (given, rest) = leading(&line, GLOBAL).unwrap();
        assert_eq!((given.value("-h"), given.value("-p"), rest), (Some("localhost"), Some("1"), &line[4..]));
    }
}
