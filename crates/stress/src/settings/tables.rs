//! The sub-options of every command and option, as tables: what is accepted, what holds by default, what the help says.

use crate::grammar::{Group, Sub};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads of rows that `write` made, compared byte by byte.
    Read,
    /// Rows of the standard table.
    Write,
    /// Several of the others, drawn by weights.
    Mixed,
    /// Increments.
    CounterWrite,
    /// Reads of counters.
    CounterRead,
    /// Statements of a profile.
    User,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] =
        [Kind::Read, Kind::Write, Kind::Mixed, Kind::CounterWrite, Kind::CounterRead, Kind::User];

    /// Its name, as in output: READ.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "READ",
            Kind::Write => "WRITE",
            Kind::Mixed => "MIXED",
            Kind::CounterWrite => "COUNTER_WRITE",
            Kind::CounterRead => "COUNTER_READ",
            Kind::User => "USER",
        }
    }

    /// The words that mean it.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Kind::Read => &["read"],
            Kind::Write => &["write", "insert"],
            Kind::Mixed => &["mixed"],
            Kind::CounterWrite => &["counter_write", "counterwrite", "counter_add", "counteradd"],
            Kind::CounterRead => &["counter_read", "counterread", "counter_get", "counterget"],
            Kind::User => &["user"],
        }
    }

    /// What it does, for the help.
    pub fn description(self) -> &'static str {
        match self {
            Kind::Read => "Reads rows that a write run has made, and compares them byte by byte",
            Kind::Write => "Writes rows",
            Kind::Mixed => "Draws from the other commands by weights; rows must have been written before",
            Kind::CounterWrite => "Increments counters",
            Kind::CounterRead => "Reads counters that a counter_write run has made",
            Kind::User => "Runs the inserts and queries of a profile, drawn by weights",
        }
    }

    /// Whether it changes data.
    pub fn updates(self) -> bool {
        !matches!(self, Kind::Read | Kind::CounterRead)
    }

    /// The command a word means.
    pub fn of(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.words().iter().any(|known| known.eq_ignore_ascii_case(word)))
    }
}

/// Operations of the mixed command, with the weights they have by default.
const MIXED: &[(&str, Option<&str>)] =
    &[("read", Some("1")), ("write", Some("1")), ("counter_write", None), ("counter_read", None)];

/// Consistency levels.
pub const LEVELS: &str =
    "ONE|QUORUM|LOCAL_QUORUM|EACH_QUORUM|ALL|ANY|TWO|THREE|LOCAL_ONE|SERIAL|LOCAL_SERIAL";

/// How a command may be written: until the rate has settled, a number of operations, or a time.
pub fn command(kind: Kind) -> Vec<Group> {
    let until_settled = || {
        vec![
            Sub::text("err<", "0\\.[0-9]+", "Ends when the standard error of the mean is below this share")
                .or("0.02"),
            Sub::text("n>", "[0-9]+", "Measurements at least, before that may end the run").or("30"),
            Sub::text("n<", "[0-9]+", "Measurements at most").or("200"),
        ]
    };
    let count = || vec![Sub::text("n=", "[0-9]+[bmk]?", "Number of operations").required()];
    let duration = || {
        vec![Sub::text("duration=", "[0-9]+[smh]?", "Time to run, in seconds, minutes or hours").required()]
    };
    let group = |first: Vec<Sub>| {
        let mut subs = first;
        subs.extend([
            Sub::flag("no-warmup", "Does not warm up"),
            Sub::text(
                "truncate=",
                "never|once|always",
                "Empties the table: never, before the first or before every run",
            )
            .or("never"),
            Sub::text("cl=", LEVELS, "Consistency level").or("LOCAL_ONE"),
            Sub::text("serial-cl=", "SERIAL|LOCAL_SERIAL", "Consistency level of lightweight transactions")
                .or("SERIAL"),
        ]);
        match kind {
            Kind::User => subs.extend([
                Sub::weights("ops", &[], "Weights of inserts and queries: ops(insert=2,query1=1)").required(),
                Sub::text("profile=", ".*", "Profiles in YAML, with commas between them").required(),
                Sub::distribution("clustering=", "Length of runs of one operation").or("gaussian(1..10)"),
            ]),
            Kind::Read | Kind::Write | Kind::Mixed | Kind::CounterWrite | Kind::CounterRead => subs.extend([
                Sub::distribution("add=", "Increments of counters").or("fixed(1)"),
                Sub::text("keysize=", "[0-9]+", "Bytes of a key").or("10"),
            ]),
        }
        if kind == Kind::Mixed {
            subs.extend([
                Sub::distribution("clustering=", "Length of runs of one operation").or("GAUSSIAN(1..10)"),
                Sub::weights("ratio", MIXED, "Weights of operations: ratio(read=2,write=1)"),
            ]);
        }
        Group::new(subs)
    };
    vec![group(until_settled()), group(count()), group(duration())]
}

/// `-pop`.
pub fn population(limit: &str) -> Vec<Group> {
    let contents = || {
        Sub::text(
            "contents=",
            "(sorted|shuffled)",
            "Order of rows inside a partition; else arbitrary, but always the same",
        )
    };
    vec![
        Group::new(vec![
            Sub::text("seq=", "[0-9]+[MBK]?\\.\\.+[0-9]+[MBK]?", "Partitions one after the other")
                .or(format!("1..{limit}"))
                .required(),
            Sub::flag("no-wrap", "Ends the run with the last partition of the range"),
            Sub::distribution("read-lookback=", "Reads visit what was written so many partitions ago"),
            contents(),
        ]),
        Group::new(vec![
            Sub::distribution("dist=", "Partitions are drawn from this distribution")
                .or(format!("gaussian(1..{limit})")),
            contents(),
        ]),
    ]
}

/// `-insert`.
pub fn insert() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::distribution("revisit=", "Which of the partitions that are not written whole is visited again")
            .or("uniform(1..1M)"),
        Sub::distribution("visits=", "Visits in which a partition is written").or("fixed(1)"),
        Sub::distribution("partitions=", "Partitions of one batch"),
        Sub::text("batchtype=", "unlogged|logged|counter", "Kind of batch"),
        Sub::ratio("select-ratio=", "Share of a partition's rows that a visit writes"),
        Sub::ratio("row-population-ratio=", "Share of a row's columns that have a value").or("fixed(1)/1"),
    ])]
}

/// `-col`.
pub fn columns() -> Vec<Group> {
    let group = |first: Sub| {
        Group::new(vec![
            first,
            Sub::flag("slice", "Reads all columns instead of naming them"),
            Sub::text("super=", "[0-9]+", "Super columns, which exist no longer").or("0"),
            Sub::text("comparator=", "TimeUUIDType|AsciiType|UTF8Type", "Order of columns by name")
                .or("AsciiType"),
            Sub::text("timestamp=", "[0-9]+", "Timestamp of every write"),
            Sub::distribution("size=", "Bytes of a value").or("FIXED(34)"),
        ])
    };
    vec![
        group(Sub::text("names=", ".*", "Names of columns").required()),
        group(Sub::distribution("n=", "Number of columns").or("FIXED(5)")),
    ]
}

/// `-rate`.
pub fn rate() -> Vec<Group> {
    vec![
        Group::new(vec![
            Sub::text("threads>=", "[0-9]+", "Requests in flight at first").or("4"),
            Sub::text("threads<=", "[0-9]+", "Requests in flight at most").or("1000"),
            Sub::flag("auto", "Ends when more of them bring nothing"),
        ]),
        Group::new(vec![
            Sub::text("threads=", "[0-9]+", "Requests in flight").required(),
            Sub::text("throttle=", "[0-9]+/s", "Operations in a second at most, without a schedule")
                .or("0/s"),
            Sub::text(
                "fixed=",
                "[0-9]+/s",
                "Operations in a second by a schedule, from which latencies count",
            )
            .or("0/s"),
        ]),
    ]
}

/// `-mode`: by the words that choose the way to connect.
pub fn mode() -> Vec<Group> {
    let driver = |word: &'static str| {
        Group::new(vec![
            Sub::flag(word, "The native protocol").required(),
            Sub::flag("cql3", ""),
            Sub::flag("prepared", "Prepares statements, as it does anyway"),
            Sub::flag("unprepared", "Sends the text of statements with every request"),
            Sub::text("compression=", "none|lz4|snappy", "Compression of frames").or("none"),
            Sub::text("port=", "[0-9]+", "Has no effect; see -port").or("9046"),
            Sub::text("user=", ".+", "User"),
            Sub::text("password=", ".+", "Password"),
            Sub::text("auth-provider=", ".*", "Class that makes credentials; only plain text is known"),
            Sub::text("maxPending=", "[0-9]+", "Requests in flight on one connection").or("128"),
            Sub::text("connectionsPerHost=", "[0-9]+", "Connections to one node").or("8"),
            Sub::text("protocolVersion=", "[2-5]|NEWEST_SUPPORTED|DEFAULT", "Version of the protocol")
                .or("NEWEST_SUPPORTED"),
            Sub::text("requestTimeout=", "[0-9]+", "Milliseconds that an answer may take").or("12000"),
        ])
    };
    // The words may be left out, as in later versions of the tool.
    let bare = {
        let mut group = driver("native");
        group.relax("native");
        group
    };
    let simple = Group::new(vec![
        Sub::flag("simplenative", "One connection, one request at a time").required(),
        Sub::flag("prepared", "Prepares statements"),
        Sub::flag("cql3", ""),
        Sub::text("port=", "[0-9]+", "Has no effect; see -port").or("9046"),
    ]);
    let thrift = Group::new(vec![
        Sub::flag("thrift", "The protocol before CQL, which is refused").required(),
        Sub::flag("smart", ""),
        Sub::text("user=", ".+", ""),
        Sub::text("password=", ".+", ""),
    ]);
    vec![driver("native"), driver("4x"), simple, thrift, bare]
}

/// `-errors`.
pub fn errors() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::text("retries=", "[0-9]+", "Tries again so often before an operation has failed").or("9"),
        Sub::flag("ignore", "Goes on after failures"),
        Sub::flag("fail-fast", "Ends at once when an operation has failed"),
        Sub::flag("skip-read-validation", "Does not compare what is read"),
        Sub::flag("skip-unsupported-columns", "Leaves out columns of types that cannot be made"),
        Sub::text("delay-policy=", "constant|linear|exponential", "How the time before the next try grows")
            .or("constant"),
        Sub::text("min-delay-ms=", "[0-9]+", "Milliseconds before the first next try").or("0"),
        Sub::text("max-delay-ms=", "[0-9]+", "Milliseconds before any").or("20000"),
    ])]
}

/// `-schema`.
pub fn schema() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::group(
            "replication",
            vec![
                Sub::text("strategy=", ".+", "Replication strategy").or("NetworkTopologyStrategy"),
                Sub::text("factor=", "[0-9]+", "Number of replicas").or("1"),
            ],
            "Replication of the keyspace",
        )
        .with_extras(),
        Sub::text("keyspace=", ".*", "Keyspace").or("keyspace1"),
        Sub::group(
            "compaction",
            vec![Sub::text("strategy=", ".+", "Compaction strategy")],
            "Compaction of the tables",
        )
        .with_extras(),
        Sub::text("compression=", ".*", "Compressor of sstables; none unless given"),
        Sub::group(
            "storage",
            vec![Sub::text("type=", ".+", "Kind of storage")],
            "Storage of the keyspace, where known",
        )
        .with_extras(),
    ])]
}

/// `-node`.
pub fn node() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::text("datacenter=", ".*", "Datacenter to send requests to"),
        Sub::text("rack=", ".*", "Rack to send requests to"),
        Sub::flag("whitelist", "Speaks to the nodes given and to no other"),
        Sub::text("file=", ".*", "File of nodes, one in each line"),
        Sub::text("loadbalance=", "round-robin|dc-aware|rack-aware", "Which nodes are asked"),
        Sub::text("remote-dc=", ".*", "Datacenter to ask when the near one cannot be reached"),
        Sub::text("", "[^=,]+(,[^=,]+)*", "Nodes, with commas between them").or("localhost"),
    ])]
}

/// `-log`.
pub fn log() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::text("level=", "(minimal|normal|verbose)", "How much is said").or("normal"),
        Sub::flag("no-summary", "Leaves the results out"),
        Sub::text("file=", ".*", "File that has everything as well"),
        Sub::text("hdrfile=", ".*", "File of histograms"),
        Sub::text("interval=", "[0-9]+(ms|s|)", "Time from line to line, in seconds or milliseconds")
            .or("1s"),
        Sub::flag("no-settings", "Leaves the settings out"),
        Sub::flag("print-statements-on-error", "Prints the statement of a failed operation"),
    ])]
}

/// `-transport`.
pub fn transport() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::text("factory=", ".*", "Class that opens connections, which has no meaning here"),
        Sub::text("truststore=", ".*", "PEM file of certificates to trust"),
        Sub::text("truststore-password=", ".*", "Its password; PEM files have none"),
        Sub::text("keystore=", ".*", "PEM file of this client's key and certificate"),
        Sub::text("keystore-password=", ".*", "Its password; PEM files have none"),
        Sub::text("ssl-protocol=", ".*", "Has no effect: TLS 1.2 and 1.3 are spoken").or("TLS"),
        Sub::text("ssl-alg=", ".*", "Has no effect").or("SunX509"),
        Sub::text("store-type=", ".*", "Kind of the two files").or("JKS"),
        Sub::text("ssl-ciphers=", ".*", "Has no effect: the safe ones are offered")
            .or("TLS_RSA_WITH_AES_128_CBC_SHA,TLS_RSA_WITH_AES_256_CBC_SHA"),
        Sub::text("hostname-verification=", "true|false", "Whether the certificate must name the node")
            .or("false"),
    ])]
}

/// `-port`.
pub fn port() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::text("native=", "[0-9]+", "Port of CQL").or("9042"),
        Sub::text("thrift=", "[0-9]+", "Has no effect").or("9160"),
        Sub::text("jmx=", "[0-9]+", "Has no effect").or("7199"),
    ])]
}

/// `-graph`.
pub fn graph() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::text("file=", ".*", "HTML file to make, or to add this run to").required(),
        Sub::text("revision=", ".*", "Name of what is measured").or("unknown"),
        Sub::text("title=", ".*", "Title of the page; else the date"),
        Sub::text("op=", ".*", "Name of the operation; else the command"),
    ])]
}

/// `-tokenrange`.
pub fn token_range() -> Vec<Group> {
    vec![Group::new(vec![
        Sub::flag("wrap", "Begins again with the first range after the last"),
        Sub::text("split-factor=", "[0-9]+[bmk]?", "Parts of every range").or("1"),
    ])]
}
