//! Command lines are read and printed as by the Java tool.

use crate::Error;
use crate::settings::*;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn settings(line: &str) -> Result<Settings, Error> {
    read(split(&words(line))?)
}

fn said(line: &str) -> String {
    settings(line).unwrap_err().to_string()
}

#[test]
fn settings_are_printed_as_the_java_tool_prints_them() {
    let text = include_str!("../../../testdata/settings.txt");
    let mut cases = 0;
    for case in text.split("\n> ").skip(1) {
        let (line, expected) = case.split_once("\n----\n").expect("a case");
        let printed = block(&settings(line).expect(line));
        // A password is not printed here, and transports of Thrift are not a default.
        let same = |text: &str| -> Vec<String> {
            let words = |line: &str| {
                // The class of a protocol that is gone, and a password.
                let words = line
                    .split_inclusive("; ")
                    .filter(|word| !word.contains("factory=") && !word.starts_with("truststore-password="));
                words.collect::<String>().trim().to_owned()
            };
            text.trim_end().lines().map(words).collect()
        };
        let (printed, expected) = (same(&printed), same(expected));
        assert_eq!(printed, expected, "{line}");
        cases += 1;
    }
    assert_eq!(cases, 7);
}

#[test]
fn what_is_not_understood_is_said() {
    assert_eq!(said("foo"), "No command specified");
    assert_eq!(said("write n=5 foo"), "Invalid parameter foo of write");
    assert_eq!(said("write n=5x"), "Invalid value 5x; must match pattern [0-9]+[bmk]? (write n=5x)");
    assert_eq!(
        said("write n=5 -pop dist=zipf(1..2)"),
        "Illegal distribution type: zipf (-pop dist=zipf(1..2))"
    );
    assert_eq!(said("write n=5 duration=5s"), "Invalid WRITE options provided, see output for valid options");
    assert_eq!(
        said("write n=5 -bar 1 2 -baz"),
        "Error processing command line arguments. The following were ignored:\n-bar 1 2\n-baz"
    );
    assert_eq!(
        said("write n=1 -rate threads=1 throttle=1/s fixed=1/s"),
        "can't have both fixed and throttle set, choose one. (-rate fixed= throttle=)"
    );
    assert_eq!(
        said("write n=1 -port native=1 -port native=2"),
        "-port is defined multiple times. Each option/command can be specified at most once."
    );
    assert_eq!(
        said("mixed n=1 ratio(read=0)"),
        "Must specify at least one command with a non-zero ratio (mixed ratio())"
    );
    assert_eq!(
        said("write n=1 -log interval=0s"),
        "Log interval must be greater than zero (-log interval=0s)"
    );
    assert_eq!(
        said("write n=1 -insert revisit=uniform(1..9b)"),
        "sample range is invalid (-insert revisit=uniform(1..9b))"
    );
    assert!(
        said("user profile=a ops(insert=1) n=1 -schema keyspace=a")
            .starts_with("-schema can only be provided with")
    );
}

/// What the Java tool has or takes and this one does not, and numbers beyond bounds: each is named with its option.
#[test]
fn what_is_refused_is_named() {
    for (line, text) in [
        (
            "write n=1 -mode thrift",
            "-mode thrift is not supported: servers speak it no longer. Use -mode native cql3.",
        ),
        (
            "write n=1 -mode native cql3 protocolVersion=2",
            "-mode protocolVersion=2 is not supported: from 3 to 5",
        ),
        (
            "write n=1 -mode native cql3 auth-provider=a.B",
            "Invalid auth provider class: a.B; only PlainTextAuthProvider is known (-mode auth-provider=)",
        ),
        (
            "write n=1 -sendto somewhere",
            "-sendto is not supported: its protocol is that of Java objects. Run this program on the other machine.",
        ),
        (
            "write n=1 -sample report-count=1",
            "-sample no longer exists: every operation is counted in histograms of fixed size.",
        ),
        ("write n=1 -col super=1", "-col super= is not supported: super columns exist no longer"),
        (
            "write n=1 -transport truststore=a hostname-verification=true",
            "-transport hostname-verification=true is not supported: names in certificates are not looked at",
        ),
        ("write n=1 -col n=fixed(65535)", "Invalid number of columns of -col n=: from 1 to 65534"),
        ("write n=1 -col n=fixed(0)", "Invalid number of columns of -col n=: from 1 to 65534"),
        ("write n=1 -col names=a,,b", "-col names= wants different names, none of them empty"),
        ("write n=1 -pop seq=5..1", "Invalid value 5..1 of -pop seq=: the range is empty or too large"),
        (
            "write n=99999999999999999999",
            "Invalid value 99999999999999999999 of n=: at most 9223372036854775807",
        ),
        ("write n=1 -rate threads=99999999999", "Invalid value 99999999999 of threads=: at most 1048576"),
        ("write n=1 -port native=70000", "Invalid value 70000 of native=: at most 65535"),
        (
            "write n=1 -node file=/does/not/exist",
            "-node file=/does/not/exist: No such file or directory (os error 2)",
        ),
        ("write duration=9999999999999h", "Invalid value 9999999999999h of duration=: too long"),
        (
            "read n=10 -pop seq=1..10 read-lookback=fixed(12)",
            "Invalid lookback distribution; max value is 12, but series only ranges from 0 to 11 (-pop read-lookback=)",
        ),
    ] {
        assert_eq!(said(line), text, "{line}");
    }
}

#[test]
fn shells_and_people_may_put_spaces_into_groups() {
    let apart = settings("write n = 5 -schema replication( factor = 3 , dc1 = 2 )").expect("joined");
    let together = settings("write n=5 -schema replication(factor=3,dc1=2)").expect("read");
    assert_eq!(apart, together);
}

#[test]
fn defaults_depend_on_the_command() {
    let of = |line: &str| settings(line).expect(line);
    assert_eq!(of("write n=9").rate, Rate::Threads { threads: 200, limit: None });
    assert_eq!(of("read n=9").rate, Rate::Steps { least: 4, most: 1000, auto: true });
    assert!(matches!(
        of("write duration=1m").population.visited,
        Visited::Sequence { first: 1, last: 1_000_000, .. }
    ));
    assert!(matches!(of("read n=9").population.visited, Visited::Drawn(d) if (d.min(), d.max()) == (1, 9)));
    assert!(matches!(
        of("user profile=p ops(insert=1) n=9").population.visited,
        Visited::Sequence { last: 9, .. }
    ));
    assert!(matches!(of("user profile=p ops(insert=1,q=1) n=9").population.visited, Visited::Drawn(_)));
    assert_eq!(of("counteradd n=1").command.kind, tables::Kind::CounterWrite);
    assert_eq!(of("WRITE N=1 CL=quorum").command.level, "QUORUM");
    let mode = of("read n=1 -mode native cql3 unprepared maxPending=7").mode;
    assert_eq!((mode.prepared, mode.pending_max, mode.timeout.as_millis()), (false, Some(7), 12_000));
    assert_eq!(
        of("write n=1 -schema keyspace=k").schema.strategy,
        "org.apache.cassandra.locator.NetworkTopologyStrategy"
    );
}
