//! `messina cassandra-stress` beside the Java tool of Cassandra 3.11.5, against Messina or Cassandra: the same command lines are taken
//! and refused, and what one writes the other reads and finds right, byte for byte.
//!
//! The Java tool makes its own tables, WITH COMPACT STORAGE.

mod cloudsuite;
mod graph;
mod lines;
mod published;
mod rules;

use std::process::Command;
use std::time::Duration;

use crate::cql::client::{Answer, Client, Parameters};
use crate::server::Server;
use crate::sstables::session::Session;
use crate::suite::{Options, Report};
use crate::{command, packages, paths};

const LIMIT: Duration = Duration::from_secs(600);

/// How each tool is called.
struct Tools<'a> {
    options: &'a Options,
    class_path: String,
    server: Server,
}

/// The Java tool, without its words.
pub fn java(class_path: &str) -> Command {
    let mut tool = Command::new("java");
    // Its timeuuids look into files and channels of the library.
    for package in ["java.io", "java.lang", "sun.nio.ch", "jdk.internal.ref"] {
        tool.args(["--add-opens", &format!("java.base/{package}=ALL-UNNAMED")]);
    }
    tool.args(["-Xmx512M", "-XX:+UseSerialGC", "-cp", class_path, "org.apache.cassandra.stress.Stress"]);
    tool
}

/// What a run said on both streams, whatever its end.
struct Said {
    text: String,
    success: bool,
}

impl Tools<'_> {
    fn ours(&self, words: &[&str], name: &str) -> Result<Said, String> {
        let mut tool = Command::new(&self.options.binary);
        tool.arg("cassandra-stress").args(words);
        self.said(tool, name)
    }

    fn java(&self, words: &[&str], name: &str) -> Result<Said, String> {
        let mut tool = java(&self.class_path);
        tool.args(words);
        self.said(tool, name)
    }

    fn said(&self, mut tool: Command, name: &str) -> Result<Said, String> {
        let log = self.server.folder.join(format!("{name}.log"));
        tool.current_dir(&self.server.folder);
        let ended = command::run(&mut tool, &log, LIMIT);
        Ok(Said { text: command::read(&log)?, success: ended.is_ok() })
    }

    /// The words that lead to the server.
    fn at_server(&self) -> Vec<String> {
        let (ip, port) = (self.server.address.ip(), self.server.address.port());
        format!("-node {ip} -port native={port}").split(' ').map(str::to_owned).collect()
    }

    fn line<'w>(&self, line: &'w str, server: &'w [String]) -> Vec<&'w str> {
        line.split(' ').chain(server.iter().map(String::as_str)).collect()
    }

    /// Runs a command line of ours against the server; it has to end well.
    fn ours_ends_well(&self, line: &str, name: &str) -> Result<String, String> {
        let server = self.at_server();
        self.ours(&self.line(line, &server), name).and_then(|said| said.ended_well(line))
    }

    fn java_ends_well(&self, line: &str, name: &str) -> Result<String, String> {
        let server = self.at_server();
        self.java(&self.line(line, &server), name).and_then(|said| said.ended_well(line))
    }
}

impl Said {
    fn ended_well(self, line: &str) -> Result<String, String> {
        let good = self.success && self.text.lines().any(|line| line == "END");
        let clean = self.text.lines().any(|line| line.starts_with("Total errors              :          0 "));
        if good && clean { Ok(self.text) } else { Err(format!("{line}\n{}", command::tail(&self.text, 40))) }
    }

    /// Whether the words were understood: the tool went on to connect, and failed there.
    fn was_taken(&self) -> bool {
        self.text.contains("(NoHostAvailableException): All host(s) tried for query failed")
    }

    /// The value of all after a label of the results.
    fn value(text: &str, label: &str) -> Result<String, String> {
        let line = text.lines().find(|line| line.starts_with(label)).ok_or(format!("no {label}:\n{text}"))?;
        Ok(line.split_once(": ").map(|(_, value)| value.trim().to_owned()).unwrap_or_default())
    }
}

/// Runs all, against a node with so many shards.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut ready = None;
    report.test(&format!("stress::start --smp {shards}"), || {
        let class_path = packages::stress()?;
        let server = options.server("stress", shards)?;
        ready = Some(Tools { options, class_path, server });
        Ok(String::new())
    });
    let Some(mut tools) = ready else { return };
    let rows = options.records;
    let mut test = |name: &str, body: &dyn Fn(&Tools<'_>) -> Result<String, String>| {
        // The first that writes fills the table that others read.
        let is_wanted = |word: &String| name.contains(word.as_str()) || name == "java_reads_ours";
        if !options.only.as_ref().is_none_or(is_wanted) {
            return;
        }
        report.test(&format!("stress::{name} --smp {shards}"), || body(&tools));
    };
    test("command_lines", &lines::agreed);
    test("java_reads_ours", &|tools| {
        tools.ours_ends_well(&format!("write n={rows} -rate threads=50 -log no-settings"), "write")?;
        let line = format!("read n={rows} no-warmup -pop seq=1..{rows} -rate threads=20 -log no-settings");
        let text = tools.java_ends_well(&line, "java-read")?;
        Said::value(&text, "Total partitions")
    });
    test("ours_reads_javas", &|tools| {
        let shape =
            "-col n=fixed(3) size=uniform(1..70) -schema keyspace=javas replication(strategy=SimpleStrategy)";
        let rate = "-rate threads=20 -log no-settings";
        tools.java_ends_well(
            &format!("write n={rows} keysize=23 no-warmup -pop seq=1..{rows} {shape} {rate}"),
            "java-write",
        )?;
        let text = tools.ours_ends_well(
            &format!("read n={rows} keysize=23 no-warmup -pop seq=1..{rows} {shape} {rate}"),
            "read",
        )?;
        Said::value(&text, "Total partitions")
    });
    test("javas_own_table", &own_table);
    test("both_mixed", &|tools| {
        let line = format!(
            "mixed ratio(read=2,write=1) n={rows} no-warmup -pop dist=gaussian(1..{rows}) -rate threads=20 -log no-settings"
        );
        let (ours, javas) =
            (tools.ours_ends_well(&line, "mixed")?, tools.java_ends_well(&line, "java-mixed")?);
        same_shape(&ours, &javas)?;
        Said::value(&ours, "Op rate")
    });
    test("profiles", &profiles);
    test("counters", &counters);
    test("histograms", &histograms);
    test("rules", &rules::recomputed);
    test("graph", &graph::drawn);
    test("published", &published::scaled);
    test("published_unchanged", &|tools| {
        published::unchanged(tools, tools.options.server("stress-unchanged", shards)?)
    });
    test("bench_runs", &published::bench_runs);
    // An image's scripts know no port: they want a node of their own on the standard one.
    if !options.against_cassandra {
        test("cloudsuite_scripts", &|tools| cloudsuite::scripts(tools.options, shards));
    }
    report.test(&format!("stress::stop --smp {shards}"), || tools.server.stop().map(|()| String::new()));
}

/// What the Java tool does when it is called with nothing but numbers and the server: it makes its default keyspace and tables, writes,
/// reads all of it, and does both. The tables have COMPACT STORAGE then.
fn own_table(tools: &Tools<'_>) -> Result<String, String> {
    let mut client = Client::connect(tools.server.address, 4)?;
    let mut run = |statement: &str| match client.query(statement, &Parameters::default())?.0 {
        Answer::Error(_, text) => Err(format!("{statement}: {text}")),
        answer => Ok(answer),
    };
    run("DROP KEYSPACE IF EXISTS keyspace1")?;
    let (rows, rate) = (tools.options.records, "-rate threads=20");
    let written = tools.java_ends_well(&format!("write n={rows} {rate}"), "java-own-write")?;
    let flags = "SELECT table_name, flags FROM system_schema.tables WHERE keyspace_name = 'keyspace1'";
    let Answer::Rows { columns, rows: tables, .. } = run(flags)? else { return Err("no tables".into()) };
    let shown = |row: &Vec<Option<Vec<u8>>>| {
        row.iter()
            .zip(&columns)
            .map(|(value, column)| column.ty.value(value.as_deref()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let tables: Vec<String> = tables.iter().map(shown).collect();
    if tables != ["'counter1' {'counter'}", "'standard1' {}"] {
        return Err(format!("its tables are {tables:?}"));
    }
    tools.java_ends_well(&format!("read n={rows} {rate}"), "java-own-read")?;
    tools.java_ends_well(&format!("mixed n={rows} {rate}"), "java-own-mixed")?;
    // The same of ours, in the tables that it finds.
    tools.ours_ends_well(&format!("read n={rows} {rate} -log no-settings"), "own-read")?;
    Said::value(&written, "Total partitions")
}

/// Rows of a profile with a column of every type of which both make values: what the Java tool writes ours finds right, all at once and
/// slice by slice. (The Java tool's own `validate` asks for Thrift, which no server speaks any more.)
fn profiles(tools: &Tools<'_>) -> Result<String, String> {
    let partitions = (tools.options.records / 20).max(20);
    let text = command::read(&paths::resources().join("stress/profile.yaml"))?;
    let mut told = Vec::new();
    for (keyspace, contents) in [("arbitrary", ""), ("sorted", " contents=sorted")] {
        let file = tools.server.folder.join(format!("{keyspace}.yaml"));
        std::fs::write(&file, text.replace("somewhere", keyspace)).map_err(|error| error.to_string())?;
        let line = |operation: &str| {
            format!(
                "user profile={keyspace}.yaml ops({operation}=1) n={partitions} no-warmup -pop seq=1..{partitions}{contents} -rate threads=9"
            )
        };
        let javas = tools.java_ends_well(&line("insert"), "java-insert")?;
        let ours = tools.ours_ends_well(&line("validate"), "validate")?;
        let batches = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("Generating batches with"));
            line.map(str::to_owned).ok_or("no line about batches")
        };
        let (of_ours, of_javas) = (batches(&ours)?, batches(&javas)?);
        if of_ours != of_javas {
            return Err(format!("{of_ours}\n{of_javas}"));
        }
        told.push(Said::value(&ours, "Row rate")?);
    }
    Ok(told.join("; "))
}

/// Both tools count in the same rows; what they have counted together is there.
fn counters(tools: &Tools<'_>) -> Result<String, String> {
    let rows = tools.options.records;
    let rest = "-rate threads=10 -log no-settings -errors retries=0";
    let write = format!("counter_write n={rows} no-warmup add=fixed(3) {rest}");
    tools.ours_ends_well(&write, "counter-write")?;
    // Alone it would make its tables.
    let javas =
        format!("mixed ratio(counter_write=1) n={rows} no-warmup add=fixed(3) -pop seq=1..{rows} {rest}");
    tools.java_ends_well(&javas, "java-counter-write")?;
    let read = format!("counter_read n={rows} no-warmup -pop seq=1..{rows} {rest}");
    tools.java_ends_well(&read, "java-counter-read")?;
    let text = tools.ours_ends_well(&read, "counter-read")?;
    let sum = counted(tools)?;
    if sum != 2 * 3 * rows as i64 {
        return Err(format!("counted {sum}, not 3 by each tool in each of {rows} rows"));
    }
    Said::value(&text, "Row rate")
}

/// The sum of a column of all rows that were counted in.
fn counted(tools: &Tools<'_>) -> Result<i64, String> {
    let mut session = Session::connect(tools.server.address)?;
    let sums = session.select("SELECT sum(\"C0\") FROM keyspace1.counter1", &[], 100)?;
    let value = sums.rows.first().and_then(|row| row.first()).and_then(Option::as_ref).ok_or("no sum")?;
    <[u8; 8]>::try_from(&value[..]).map(i64::from_be_bytes).map_err(|_| "a sum of another size".to_string())
}

/// The library's own reader finds every operation in the file, in three histograms each where there is a schedule.
fn histograms(tools: &Tools<'_>) -> Result<String, String> {
    let rows = tools.options.records;
    let line = format!(
        "mixed ratio(read=1,write=1) n={rows} no-warmup -pop dist=uniform(1..{rows}) -rate threads=20 fixed=4000/s -log no-settings interval=100ms hdrfile=run.hdr"
    );
    let said = tools.ours_ends_well(&line, "histograms")?;
    let number = |line: &str, nth: usize| line.split(' ').nth(nth)?.parse::<u64>().ok();
    let mut java = Command::new("java");
    java.current_dir(&tools.server.folder);
    java.args(["-Xmx256M", "-cp", &tools.class_path, "messina.Histograms", "run.hdr"]);
    let text = command::run(&mut java, &tools.server.folder.join("java-histograms.log"), LIMIT)?;
    let counts: Vec<(&str, u64)> =
        text.lines().filter_map(|line| Some((line.split(' ').next()?, number(line, 1)?))).collect();
    let longest = text.lines().filter(|line| line.contains("-rt ")).filter_map(|line| number(line, 3)).max();
    let told: f64 = Said::value(&said, "Latency max")?
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0);
    if !longest.is_some_and(|longest| (longest as f64 / 1e6 - told).abs() < 0.1) {
        return Err(format!("the longest was {told} ms; in the file:\n{text}"));
    }
    let of = |suffix: &str| {
        counts.iter().filter(|(tag, _)| tag.ends_with(suffix)).map(|(_, count)| count).sum::<u64>()
    };
    let all = [of("-st"), of("-rt"), of("-wt")];
    if counts.len() == 6 && all == [rows; 3] {
        Ok(text.lines().collect::<Vec<_>>().join("; "))
    } else {
        Err(text)
    }
}

/// Lines and results of two runs look alike: the same titles, as many fields, the same labels and units.
fn same_shape(ours: &str, javas: &str) -> Result<(), String> {
    let titles = |text: &str| text.lines().find(|line| line.starts_with("type  ")).map(str::to_owned);
    if titles(ours).is_none() || titles(ours) != titles(javas) {
        return Err(format!("{:?} instead of {:?}", titles(ours), titles(javas)));
    }
    let widths = |text: &str| -> Vec<Vec<usize>> {
        let rows = text
            .lines()
            .filter(|line| ["total,", "READ,", "WRITE,"].iter().any(|kind| line.starts_with(kind)));
        // The first two fields are one column as wide as both.
        let of = |line: &str| line.split(',').skip(2).map(str::len).chain([line.len()]).collect();
        rows.map(of).collect()
    };
    let all = [widths(ours), widths(javas)].concat();
    if all.iter().any(|row| *row != all[0]) {
        return Err(format!("fields of different widths:\n{ours}\n{javas}"));
    }
    let shape = |text: &str| -> Vec<String> {
        let from = text.lines().skip_while(|line| !line.starts_with("type  "));
        let mut lines: Vec<String> = from
            .filter(|line| !line.starts_with("INFO") && !line.contains("SLF4J"))
            .map(|line| {
                let mut shape: String =
                    line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
                // How many digits a number has says nothing.
                while shape.contains("00") || shape.contains("0,0") {
                    shape = shape.replace("00", "0").replace("0,0", "0");
                }
                shape.split_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect();
        // Runs take a different number of intervals.
        lines.dedup();
        lines.sort();
        lines.dedup();
        lines
    };
    let rows =
        |lines: &[String]| lines.iter().filter(|line| !line.contains("stderr")).cloned().collect::<Vec<_>>();
    let (ours, javas) = (rows(&shape(ours)), rows(&shape(javas)));
    let labels = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| line.contains(" : ") || line.contains(": 0")).cloned().collect()
    };
    if labels(&ours) == labels(&javas) {
        Ok(())
    } else {
        Err(format!("{:#?}\ninstead of\n{:#?}", labels(&ours), labels(&javas)))
    }
}
