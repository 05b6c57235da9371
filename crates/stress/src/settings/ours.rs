//! Options that the Java tool does not have, and what is said of its options where they mean nothing.

use super::tables::Kind;
use super::{Columns, Command, Errors, Graph, Node, Transport};
use crate::error::Error;
use crate::grammar::Group;

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

/// A sub-option that is taken and changes nothing.
struct Unheeded {
    option: &'static str,
    prefix: &'static str,
    /// Values that ask for what happens anyway.
    usual: &'static [&'static str],
    reason: &'static str,
}

const fn of(
    option: &'static str,
    prefix: &'static str,
    usual: &'static [&'static str],
    reason: &'static str,
) -> Unheeded {
    Unheeded { option, prefix, usual, reason }
}

/// What command lines of the Java tool may have, and this tool has no use for.
const UNHEEDED: [Unheeded; 12] = [
    of("-col", "comparator=", &["AsciiType", "UTF8Type"], "columns are ordered by the bytes of their names"),
    of("-log", "level=", &["minimal", "normal"], "there is no more to say than at normal"),
    of("-mode", "port=", &[], "the port is that of -port native="),
    of("-port", "thrift=", &["9160"], "servers speak Thrift no longer"),
    of("-port", "jmx=", &["7199"], "nothing is asked over JMX"),
    of("-transport", "factory=", &[], "it names a class of the Java tool"),
    of("-transport", "truststore-password=", &[], "the file is a PEM file, which has none"),
    of("-transport", "keystore-password=", &[], "the file is a PEM file, which has none"),
    of("-transport", "ssl-protocol=", &["TLS"], "TLS 1.2 and 1.3 are spoken"),
    of("-transport", "ssl-alg=", &["SunX509"], "it names a class of the Java tool"),
    of("-transport", "store-type=", &["PEM"], "the files are PEM files"),
    of("-transport", "ssl-ciphers=", &[], "those that are safe are offered"),
];

/// What is said of sub-options that are taken and change nothing. A password is not repeated.
pub fn unheeded(option: &str, group: &Group) -> Vec<String> {
    let told = UNHEEDED.iter().filter(|unheeded| unheeded.option == option).filter_map(|unheeded| {
        let Unheeded { prefix, usual, reason, .. } = unheeded;
        let value = group.said(prefix)?;
        if usual.iter().any(|usual| usual.eq_ignore_ascii_case(value)) {
            return None;
        }
        let value = if prefix.ends_with("password=") { "" } else { value };
        Some(format!("WARNING: {option} {prefix}{value} has no effect: {reason}"))
    });
    told.collect()
}

/// What is said of values that are not what they seem to be.
pub fn said_in_vain(columns: &Columns, errors: &Errors, transport: &Transport) -> Vec<String> {
    let mut warnings = Vec::new();
    if columns.count.as_ref().is_some_and(|count| count.min() < count.max()) {
        let most = columns.names.len();
        warnings
            .push(format!("WARNING: -col n= is a range: every row has the greatest number, {most} columns"));
    }
    if errors.fail_fast && errors.ignore {
        warnings
            .push("WARNING: -errors fail-fast has no effect beside ignore: no failure ends the run".into());
    }
    if transport.key.is_some() && transport.trust.is_none() {
        warnings.push(
            "WARNING: -transport keystore= without truststore=: any certificate of a server is believed"
                .into(),
        );
    }
    warnings
}

/// Who says anything about TLS wants it: without a file of certificates it would be the clear. Errors: names the sub-option.
pub fn refuse_plaintext(transport: &Group) -> Result<(), Error> {
    const ABOUT_TLS: [&str; 7] = [
        "truststore-password=",
        "keystore-password=",
        "ssl-protocol=",
        "ssl-alg=",
        "store-type=",
        "ssl-ciphers=",
        "hostname-verification=",
    ];
    if transport.said("truststore=").is_some() || transport.said("keystore=").is_some() {
        return Ok(());
    }
    let makes_tls = |class: &str| class.to_ascii_lowercase().contains("ssl");
    let factory = transport.said("factory=").filter(|class| makes_tls(class)).map(|_| "factory=");
    let said = ABOUT_TLS.into_iter().find(|prefix| transport.said(prefix).is_some());
    match said.or(factory) {
        None => Ok(()),
        Some(prefix) => Err(Error::usage(format!(
            "-transport {prefix} wants truststore=, too: without it connections would not be encrypted"
        ))),
    }
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
    fn what_is_taken_and_changes_nothing_is_told() {
        let warnings = |line: &str| settings(&format!("write n=5 {line}")).expect(line).warnings;
        let tls = "-transport truststore=a.pem";
        for (line, told) in [
            ("-col comparator=TimeUUIDType", "-col comparator=TimeUUIDType has no effect: "),
            ("-col n=uniform(2..7)", "-col n= is a range: every row has the greatest number, 7 columns"),
            ("-log level=verbose", "-log level=verbose has no effect: "),
            ("-errors ignore fail-fast", "-errors fail-fast has no effect beside ignore: "),
            ("-mode native cql3 port=9999", "-mode port=9999 has no effect: "),
            ("-mode simplenative cql3 port=9999", "-mode port=9999 has no effect: "),
            ("-port thrift=1", "-port thrift=1 has no effect: "),
            ("-port native=9 jmx=1", "-port jmx=1 has no effect: "),
            ("-transport factory=a.B", "-transport factory=a.B has no effect: "),
            ("-transport keystore=a.pem", "-transport keystore= without truststore=: "),
            (&format!("{tls} truststore-password=secret"), "-transport truststore-password= has no effect: "),
            (
                &format!("{tls} keystore=k keystore-password=secret"),
                "-transport keystore-password= has no effect: ",
            ),
            (&format!("{tls} ssl-protocol=TLSv1.3"), "-transport ssl-protocol=TLSv1.3 has no effect: "),
            (&format!("{tls} ssl-alg=X"), "-transport ssl-alg=X has no effect: "),
            (&format!("{tls} store-type=JKS"), "-transport store-type=JKS has no effect: "),
            (&format!("{tls} ssl-ciphers=A,B"), "-transport ssl-ciphers=A,B has no effect: "),
        ] {
            let all = warnings(line);
            assert!(all.len() == 1 && all[0].starts_with(&format!("WARNING: {told}")), "{line}: {all:?}");
        }
        for line in [
            "-col n=fixed(3) comparator=UTF8Type",
            "-log level=minimal",
            "-errors fail-fast",
            "-port native=9042 thrift=9160 jmx=7199",
            "-transport truststore=a.pem ssl-protocol=TLS ssl-alg=SunX509 store-type=PEM hostname-verification=false",
        ] {
            assert!(warnings(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn who_wants_tls_does_not_get_the_clear() {
        for prefix in [
            "truststore-password=a",
            "keystore-password=a",
            "ssl-protocol=TLS",
            "ssl-alg=SunX509",
            "store-type=JKS",
            "ssl-ciphers=a",
            "hostname-verification=false",
            "factory=org.apache.cassandra.thrift.SSLTransportFactory",
        ] {
            let name = prefix.split_inclusive('=').next().expect("a name");
            assert_eq!(
                settings(&format!("write n=5 -transport {prefix}")).expect_err(prefix),
                format!(
                    "-transport {name} wants truststore=, too: without it connections would not be encrypted"
                )
            );
        }
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
