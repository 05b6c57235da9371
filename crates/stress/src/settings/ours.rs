//! Options that the Java tool does not have, and what is said of its options where they mean nothing.

use super::tables::Kind;
use super::{Columns, Command, Errors, Graph, Node};
use crate::error::Error;

/// Where a Messina node tells its numbers, unless it is configured otherwise.
const METRICS_PORT: u16 = 9180;
/// Servers whose numbers are asked for: each is asked twice in every interval.
const SCRAPED_MAX: usize = 256;

/// Where a server tells its numbers: `http://host:port/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or number.
    pub host: String,
    /// Port.
    pub port: u16,
    /// With its slash.
    pub path: String,
}

impl Address {
    /// Reads an address. Errors: what is wrong with it.
    pub fn parse(text: &str) -> Result<Address, String> {
        let rest = text
            .strip_prefix("http://")
            .ok_or("an address such as http://10.0.0.1:9180/metrics is wanted")?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        let (host, port) = place.rsplit_once(':').ok_or("the port is missing")?;
        let port = port.parse::<u16>().map_err(|_| format!("{port} is no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || path.contains(['?', '#']) || path.contains(char::is_whitespace) {
            return Err("a host and a path without a query are wanted".into());
        }
        Ok(Address { host: host.to_owned(), port, path: format!("/{path}") })
    }
}

/// `--verify`: what was written is followed and read back. Errors: it has no meaning beside the other words.
pub fn verify(
    words: Option<Vec<String>>,
    command: &Command,
    columns: &Columns,
    errors: &Errors,
) -> Result<bool, Error> {
    let Some(words) = words else { return Ok(false) };
    let refused = |text: &str| Err(Error::usage(format!("--verify {text}")));
    if let Some(word) = words.first() {
        return refused(&format!("takes no words: {word}"));
    }
    match command.kind {
        Kind::Write | Kind::Mixed => {}
        Kind::User => {
            return refused(
                "is for write and mixed: with user, the operation validate compares rows with what inserts made",
            );
        }
        Kind::Read | Kind::CounterRead | Kind::CounterWrite => {
            let name = command.kind.words()[0];
            return refused(&format!("is for write and mixed, not for {name}"));
        }
    }
    if command.weights.iter().any(|(name, _)| name.starts_with("counter")) {
        return refused("does not follow counters: leave counter_write and counter_read out of ratio()");
    }
    if command.level == "ANY" {
        return refused("reads at the level of the writes, and nothing is read at cl=ANY");
    }
    if columns.timestamp.is_some() {
        return refused("tells writes apart by their timestamps: leave -col timestamp= out");
    }
    if errors.skip_validation {
        return refused("compares what is read: leave -errors skip-read-validation out");
    }
    Ok(true)
}

/// `--scrape`: addresses of metrics; without words those of the nodes at the port they have by default.
pub fn scraped(words: Option<Vec<String>>, node: &Node, graph: &Graph) -> Result<Vec<Address>, Error> {
    let Some(words) = words else { return Ok(Vec::new()) };
    if graph.file.is_none() {
        return Err(Error::usage("--scrape draws charts: it wants -graph file="));
    }
    let mut all: Vec<String> = words
        .iter()
        .flat_map(|word| word.split(','))
        .filter(|address| !address.is_empty())
        .map(str::to_owned)
        .collect();
    if all.is_empty() {
        all = node
            .nodes
            .iter()
            .map(|node| format!("http://{}:{METRICS_PORT}/metrics", bracketed(node)))
            .collect();
    }
    if all.len() > SCRAPED_MAX {
        return Err(Error::usage(format!("--scrape asks at most {SCRAPED_MAX} servers, not {}", all.len())));
    }
    let parsed = all.iter().map(|address| {
        Address::parse(address).map_err(|text| Error::usage(format!("--scrape {address}: {text}")))
    });
    parsed.collect()
}

/// A host as it stands in an address of the web.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// What is said of options that mean nothing for a command, here as in the Java tool.
pub fn without_effect(said: &[String], kind: Kind) -> Vec<String> {
    if kind == Kind::User {
        return Vec::new();
    }
    let reason = |option: &str| match option {
        "-insert" => Some("rows of the standard tables are written whole, each by a statement of its own"),
        "-tokenrange" => Some("only profiles have queries over token ranges"),
        _ => None,
    };
    let name = kind.words()[0];
    let told =
        |option: &String| Some(format!("WARNING: {option} has no effect with {name}: {}", reason(option)?));
    said.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{read, split};

    #[test]
    fn addresses_are_whole_or_refused() {
        let of = |text: &str| Address::parse(text).map(|a| (a.host, a.port, a.path));
        assert_eq!(of("http://10.0.0.1:9180/metrics"), Ok(("10.0.0.1".into(), 9180, "/metrics".into())));
        assert_eq!(of("http://[::1]:1"), Ok(("::1".into(), 1, "/metrics".into())));
        assert_eq!(of("http://a.b:80/x/y"), Ok(("a.b".into(), 80, "/x/y".into())));
        for wrong in [
            "",
            "10.0.0.1:9180",
            "https://a:1/",
            "http://a/metrics",
            "http://a:0x/m",
            "http://:1/m",
            "http://a:1/m?x=1",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    fn settings(line: &str) -> Result<crate::settings::Settings, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        split(&words).and_then(read).map_err(|error| error.to_string())
    }

    #[test]
    fn what_cannot_be_verified_is_refused_by_name() {
        for line in
            ["write n=5 --verify", "mixed n=5 cl=QUORUM --verify", "write duration=5s -pop seq=1..9 --verify"]
        {
            assert_eq!(settings(line).map(|settings| settings.verify), Ok(true), "{line}");
        }
        assert_eq!(settings("write n=5").map(|settings| settings.verify), Ok(false));
        for (line, word) in [
            ("user profile=a ops(insert=1) n=5 --verify", "validate"),
            ("read n=5 --verify", "read"),
            ("counter_write n=5 --verify", "counter_write"),
            ("mixed ratio(write=1,counter_read=1) n=5 --verify", "counter_read"),
            ("write n=5 cl=any --verify", "cl=ANY"),
            ("write n=5 -col timestamp=9 --verify", "timestamp="),
            ("write n=5 -errors skip-read-validation --verify", "skip-read-validation"),
            ("write n=5 --verify all", "all"),
        ] {
            let error = settings(line).expect_err(line);
            assert!(error.starts_with("--verify ") && error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn servers_to_scrape_are_the_nodes_unless_they_are_named() {
        let of = |line: &str| {
            let all = settings(&format!("write n=5 {line}"))?.scraped;
            Ok::<_, String>(
                all.iter().map(|a| format!("{} {} {}", a.host, a.port, a.path)).collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(""), Ok(Vec::new()));
        assert_eq!(
            of("-graph file=g.html -node 10.0.0.1,::1 --scrape"),
            Ok(vec!["10.0.0.1 9180 /metrics".into(), "::1 9180 /metrics".into()])
        );
        assert_eq!(
            of("-graph file=g.html --scrape http://a:1/m,http://b:2/m http://c:3/m"),
            Ok(vec!["a 1 /m".into(), "b 2 /m".into(), "c 3 /m".into()])
        );
        assert!(of("--scrape").is_err_and(|error| error.contains("-graph file=")));
        assert!(of("-graph file=g.html --scrape a:1").is_err_and(|error| error.contains("--scrape a:1: ")));
    }

    #[test]
    fn words_that_mean_nothing_for_a_command_are_told() {
        let warnings = |line: &str| settings(line).expect(line).warnings;
        assert!(warnings("write n=5").is_empty());
        let told = warnings("read n=5 -tokenrange wrap -insert visits=fixed(2)");
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("WARNING: -tokenrange has no effect with read: "), "{told:?}");
        assert!(
            warnings("user profile=a ops(insert=1) n=5 -insert visits=fixed(2) -tokenrange wrap").is_empty()
        );
    }

    #[test]
    fn who_is_near_must_be_said_where_others_stand_in() {
        for line in [
            "a loadbalance=round-robin datacenter=dc1",
            "a loadbalance=round-robin rack=r1",
            "a remote-dc=dc2",
        ] {
            let error = settings(&format!("read n=1 -node {line}")).expect_err(line);
            assert!(error.contains("datacenter"), "{error}");
        }
    }
}
