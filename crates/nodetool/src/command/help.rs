//! Help: all commands with a line each, or a page on one.

use super::list::{self, COMMANDS};
use super::{Arguments, Command};
use crate::options::{GLOBAL, Opt};

/// Columns of a page.
const WIDTH: usize = 80;

/// What `nodetool` and `nodetool help` print.
pub fn overview() -> String {
    let mut text = String::from("usage: nodetool");
    let synopsis = synopsis(GLOBAL, &["<command>".into(), "[<args>]".into()]);
    text.push_str(&wrapped(&synopsis, "usage: nodetool".len(), "        "));
    text.push_str("\nThe most commonly used nodetool commands are:\n");
    for command in COMMANDS {
        text.push_str(&format!("    {:<25} {}\n", command.name, command.about));
    }
    text.push_str("\nSee 'nodetool help <command>' for more information on a specific command.\n\n");
    text
}

/// What `nodetool help [command]` prints.
pub fn of(name: Option<&str>) -> String {
    match name {
        None => overview(),
        Some(name) => match list::find(name) {
            Some(command) => page(command),
            None => format!("Unknown command {name}\n\n"),
        },
    }
}

fn page(command: &Command) -> String {
    let mut text = format!("NAME\n        nodetool {} - ", command.name);
    let about: Vec<String> = command.about.split(' ').map(str::to_owned).collect();
    let first = 20 + command.name.len();
    text.push_str(wrapped(&about, first, "        ").trim_start());
    text.push_str("\nSYNOPSIS\n        nodetool");
    let mut words = synopsis(GLOBAL, &[command.name.into()]);
    let arguments = match command.arguments {
        Arguments::None => vec![],
        Arguments::One { title, required, .. } => {
            let title = if required { format!("<{title}>") } else { format!("[<{title}>]") };
            vec!["[--]".into(), title]
        }
        Arguments::Many { title, .. } => vec!["[--]".into(), title.to_owned()],
    };
    words.extend(synopsis(command.options, &arguments));
    text.push_str(&wrapped(&words, 16, "                "));
    text.push_str("\nOPTIONS\n");
    let mut options: Vec<&Opt> = GLOBAL.iter().chain(command.options).collect();
    options.sort_by_key(|option| option.names[0].trim_start_matches('-').to_lowercase());
    for option in options {
        let named = option.names.iter().map(|name| with_value(name, option));
        entry(&named.collect::<Vec<_>>().join(", "), option.help, &mut text);
    }
    if let Arguments::One { title, about, .. } | Arguments::Many { title, about } = command.arguments {
        entry("--", "What follows are arguments, also when it looks like an option", &mut text);
        let title = if title.starts_with('[') { title.to_owned() } else { format!("[<{title}>]") };
        entry(&title, about, &mut text);
    }
    text.push('\n');
    text
}

fn entry(head: &str, about: &str, text: &mut String) {
    let words: Vec<String> = about.split(' ').map(str::to_owned).collect();
    text.push_str(&format!("        {head}\n"));
    text.push_str(&format!("           {}\n", wrapped(&words, 11, "            ")));
}

fn with_value(name: &str, option: &Opt) -> String {
    option.value.map_or(name.to_owned(), |value| format!("{name} <{value}>"))
}

/// `[(-h <host> | --host <host>)]` for each option, then what follows.
fn synopsis(options: &[Opt], behind: &[String]) -> Vec<String> {
    let option = |option: &Opt| {
        let named: Vec<String> = option.names.iter().map(|name| with_value(name, option)).collect();
        if let [one] = named.as_slice() { format!("[{one}]") } else { format!("[({})]", named.join(" | ")) }
    };
    options.iter().map(option).chain(behind.iter().cloned()).collect()
}

/// Words behind blanks, on lines of at most `WIDTH` columns, with a line end. Starts at column `at`.
fn wrapped(words: &[String], mut at: usize, indent: &str) -> String {
    let mut text = String::new();
    for word in words {
        if at + 1 + word.chars().count() > WIDTH {
            text.push_str(&format!("\n{indent}"));
            at = indent.len();
        } else {
            text.push(' ');
            at += 1;
        }
        text.push_str(word);
        at += word.chars().count();
    }
    text.push('\n');
    text
}
