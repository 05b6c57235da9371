//! The list of commands, what each takes, and help.

mod help;
mod list;

use crate::context::Context;
use crate::error::Error;
use crate::http::Endpoint;
use crate::limits;
use crate::options::{self, GLOBAL, Opt};
use crate::rest::Node;

/// One command.
pub(crate) struct Command {
    /// Its name.
    name: &'static str,
    /// Other names it is known by.
    aliases: &'static [&'static str],
    /// What it does, in one line.
    about: &'static str,
    options: &'static [Opt],
    arguments: Arguments,
    /// Of the last argument.
    check: Option<Check>,
    run: fn(&mut Context<'_>) -> Result<(), Error>,
}

/// Whether a text can be what it is for; otherwise what Java calls that.
type Check = fn(&str) -> Result<(), &'static str>;

/// What a command takes beside options.
#[derive(Clone, Copy)]
pub(crate) enum Arguments {
    /// Nothing.
    None,
    /// One value, which may be left out; of several the last counts.
    One {
        /// What it is called.
        title: &'static str,
        /// What it is.
        about: &'static str,
        /// Whether it must be there.
        required: bool,
    },
    /// Any number.
    Many {
        /// How help writes them.
        title: &'static str,
        /// What they are.
        about: &'static str,
    },
}

/// Runs one command line; what is printed goes to `out`. `show`: prints and takes away what is there, for commands that take long.
pub fn run(words: &[String], out: &mut String, show: &mut dyn FnMut(&mut String)) -> Result<(), Error> {
    let (global, rest) = options::leading(words, GLOBAL)?;
    let Some((name, rest)) = rest.split_first() else {
        out.push_str(&help::overview());
        return Ok(());
    };
    if name == "help" {
        out.push_str(&help::of(rest.first().map(String::as_str)));
        return Ok(());
    }
    let Some(command) = list::find(name) else {
        let words: Vec<&str> = std::iter::once(name).chain(rest).map(String::as_str).collect();
        return Err(Error::usage(format!("Found unexpected parameters: [{}]", words.join(", "))));
    };
    let given = options::all(rest, command.options)?;
    match command.arguments {
        Arguments::None if !given.arguments.is_empty() => {
            let words = given.arguments.join(", ");
            return Err(Error::usage(format!("Found unexpected parameters: [{words}]")));
        }
        Arguments::One { title, required: true, .. } if given.arguments.is_empty() => {
            return Err(Error::usage(format!("Required parameters are missing: {title}")));
        }
        _ => {}
    }
    if let (Arguments::One { title, .. } | Arguments::Many { title, .. }, Some(check)) =
        (command.arguments, command.check)
    {
        let title = title.trim_matches(['[', ']', '<', '>']);
        if let Some(last) = given.arguments.last() {
            check(last)
                .map_err(|kind| Error::usage(format!("{title}: can not convert \"{last}\" to a {kind}")))?;
        }
    }
    let host = global.value("-h").unwrap_or("127.0.0.1").to_owned();
    let port = global.value("-p").map_or(Ok(limits::PORT), |text| port(&host, text))?;
    let node = Node::new(Endpoint { host, port });
    // Whatever else may be wrong: that nobody is there is said first.
    node.greet()?;
    let mut context = Context { node, given, print_port: global.has("-pp"), out, show };
    (command.run)(&mut context)
}

/// A port as Java reads one.
fn port(host: &str, text: &str) -> Result<u16, Error> {
    let number: i32 = text.parse().map_err(|_| Error::usage(format!("For input string: \"{text}\"")))?;
    if number < 0 {
        let why = format!("IllegalArgumentException: 'invalid authority: {host}:{number}'");
        return Err(Error::Connect(format!("Failed to connect to '{host}:{number}' - {why}.")));
    }
    u16::try_from(number).map_err(|_| Error::usage(format!("port out of range:{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn said(line: &str) -> (Result<(), String>, String) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let mut out = String::new();
        let result = run(&words, &mut out, &mut |_| {}).map_err(|error| error.to_string());
        (result, out)
    }

    /// What a node that greets and knows nothing else leaves a command to say.
    fn refused(line: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 512]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n\"5.0.6\"").unwrap();
        });
        said(&format!("-p {port} {line}")).0.unwrap_err()
    }

    #[test]
    fn mistakes_are_said_in_cassandras_words() {
        assert_eq!(refused("foo bar"), "Found unexpected parameters: [foo, bar]");
        assert_eq!(refused("version extra"), "Found unexpected parameters: [extra]");
        assert_eq!(refused("describering"), "Required parameters are missing: keyspace");
        assert_eq!(refused("settraceprobability"), "Required parameters are missing: trace_probability");
        assert_eq!(refused("settraceprobability 2"), "Trace probability must be between 0 and 1");
        assert_eq!(refused("tablestats -F xml"), "arguments for -F are json,yaml only.");
        assert_eq!(refused("tablestats -t 1"), "cannot filter top K tables without specifying a sort key.");
        assert_eq!(refused("cfstats -F xml"), "arguments for -F are json,yaml only.");
        assert_eq!(
            refused("tablehistograms shop"),
            "tablehistograms requires keyspace and table name arguments"
        );
        assert_eq!(refused("clearsnapshot"), "Specify snapshot name or --all");
        assert_eq!(refused("clearsnapshot -t a --all"), "Specify only one of snapshot name or --all");
        assert_eq!(
            refused("getendpoints shop"),
            "getendpoints requires keyspace, table and partition key arguments"
        );
        assert!(refused("tablestats -s foo").starts_with("argument for sort must be one of: average_live"));
        assert!(
            refused("gettimeout").starts_with("gettimeout requires a timeout type, one of (read, range, ")
        );
    }

    #[test]
    fn values_that_do_not_fit_are_said_before_the_node_is_asked() {
        let unasked = |line: &str| said(&format!("-p 1 {line}")).0.unwrap_err();
        assert_eq!(unasked("cleanup -j x shop"), "jobs: can not convert \"x\" to a int");
        assert_eq!(unasked("cleanup -jx shop"), "jobs: can not convert \"x\" to a int");
        assert_eq!(unasked("scrub --jobs=1.5"), "jobs: can not convert \"1.5\" to a int");
        assert_eq!(unasked("tablestats -t x"), "top: can not convert \"x\" to a int");
        assert_eq!(
            unasked("setcompactionthroughput abc"),
            "compaction_throughput: can not convert \"abc\" to a Integer"
        );
        assert_eq!(
            unasked("settraceprobability abc"),
            "trace_probability: can not convert \"abc\" to a Double"
        );
        assert_eq!(unasked("stop FOO"), "compaction_type: can not convert \"FOO\" to a OperationType");
        assert_eq!(unasked("stop -id"), "Required values for option 'compactionId' not provided");
        assert_eq!(said("-p abc status").0.unwrap_err(), "For input string: \"abc\"");
        assert_eq!(said("-p 99999 status").0.unwrap_err(), "port out of range:99999");
        assert_eq!(
            said("-p -1 status").0.unwrap_err(),
            "Failed to connect to '127.0.0.1:-1' - IllegalArgumentException: 'invalid authority: 127.0.0.1:-1'."
        );
    }

    #[test]
    fn nobody_there_is_said_before_what_else_is_wrong() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let nobody =
            format!("Failed to connect to '127.0.0.1:{free}' - ConnectException: 'Connection refused'.");
        for line in
            ["getendpoints", "clearsnapshot", "compact -s --user-defined x", "tablestats -F xml", "snapshot"]
        {
            let (result, out) = said(&format!("-p {free} {line}"));
            assert_eq!((result, out.as_str()), (Err(nobody.clone()), ""), "{line}");
        }
    }

    #[test]
    fn help_names_every_command_and_each_has_a_page() {
        let (result, overview) = said("help");
        assert!(result.is_ok() && overview == said("").1);
        for command in list::COMMANDS {
            assert!(
                overview.contains(&format!("\n    {:<25} {}\n", command.name, command.about)),
                "{}",
                command.name
            );
            let page = said(&format!("help {}", command.name)).1;
            assert!(page.starts_with(&format!("NAME\n        nodetool {} - ", command.name)), "{page}");
            assert!(page.lines().all(|line| line.len() <= 98 && !line.ends_with(' ')), "{page}");
        }
        assert_eq!(said("help nope"), (Ok(()), "Unknown command nope\n\n".into()));
    }

    #[test]
    fn commands_are_sorted_and_none_is_there_twice() {
        let mut names: Vec<&str> = list::COMMANDS.iter().map(|command| command.name).collect();
        assert!(names.is_sorted());
        names.extend(list::COMMANDS.iter().flat_map(|command| command.aliases));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
