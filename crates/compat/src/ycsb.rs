//! YCSB 0.17.0 as CloudSuite's Data Serving sets it up: SimpleStrategy with three replicas on one node, consistency
//! ONE, ten text fields of 100 bytes; the load phase and workloads a to f, each without a single error. Beside it `messina ycsb`: what
//! one loads the other verifies, and their reports have the same lines.

use std::process::Command;
use std::time::Duration;

use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, packages, paths, python};

const LIMIT: Duration = Duration::from_secs(1800);

/// The properties in which the released workloads differ.
const WORKLOADS: &[(&str, &[&str])] = &[
    ("a", &["readproportion=0.5", "updateproportion=0.5", "requestdistribution=zipfian"]),
    ("b", &["readproportion=0.95", "updateproportion=0.05", "requestdistribution=zipfian"]),
    ("c", &["readproportion=1", "updateproportion=0", "requestdistribution=zipfian"]),
    (
        "d",
        &["readproportion=0.95", "updateproportion=0", "insertproportion=0.05", "requestdistribution=latest"],
    ),
    (
        "e",
        &[
            "readproportion=0",
            "updateproportion=0",
            "scanproportion=0.95",
            "insertproportion=0.05",
            "requestdistribution=zipfian",
            "maxscanlength=100",
            "scanlengthdistribution=uniform",
        ],
    ),
    (
        "f",
        &[
            "readproportion=0.5",
            "updateproportion=0",
            "readmodifywriteproportion=0.5",
            "requestdistribution=zipfian",
        ],
    ),
];

/// Loads once and runs the six workloads.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut ready = None;
    report.test(&format!("ycsb::start --smp {shards}"), || {
        let class_path = packages::ycsb()?;
        let server = options.server("ycsb", shards)?;
        let mut script = python::script_command("cloudsuite_tables", server.address, 4, "none")?;
        command::run(&mut script, &server.folder.join("tables.log"), LIMIT)?;
        ready = Some((server, class_path));
        Ok(String::new())
    });
    let Some((mut server, class_path)) = ready else {
        return;
    };
    report.test(&format!("ycsb::load --smp {shards}"), || {
        phase(options, &server, &class_path, "load", WORKLOADS[0].1)
    });
    for (name, properties) in WORKLOADS {
        report.test(&format!("ycsb::workload_{name} --smp {shards}"), || {
            phase(options, &server, &class_path, name, properties)
        });
    }
    let pair = Pair { options, server: &server, class_path: &class_path };
    let mut test = |name: &str, body: &dyn Fn(&Pair<'_>) -> Result<String, String>| {
        report.test(&format!("ycsb::{name} --smp {shards}"), || body(&pair));
    };
    test("ours_verifies_javas", &|pair| {
        pair.java("load", "java-load", &pair.part(0))?;
        verified(&pair.ours("run", "verify", &pair.part(0))?, options.records)
    });
    test("java_verifies_ours", &|pair| {
        pair.ours("load", "load", &pair.part(1))?;
        verified(&pair.java("run", "java-verify", &pair.part(1))?, options.records)
    });
    test("same_report", &same_report);
    test("reports_of_latencies", &reports_of_latencies);
    report.test(&format!("ycsb::stop --smp {shards}"), || server.stop().map(|()| String::new()));
}

fn phase(
    options: &Options,
    server: &Server,
    class_path: &str,
    name: &str,
    properties: &[&str],
) -> Result<String, String> {
    let mut java = Command::new("java");
    java.args(["-Xmx256M", "-XX:+UseSerialGC", "-cp", class_path, "site.ycsb.Client"])
        .arg(if name == "load" { "-load" } else { "-t" })
        .args(["-db", "messina.CqlBinding", "-threads", "8"]);
    let fixed = [
        "workload=site.ycsb.workloads.CoreWorkload".to_owned(),
        "readallfields=true".to_owned(),
        format!("recordcount={}", options.records),
        format!("operationcount={}", options.records),
        format!("hosts={}", server.address.ip()),
        format!("port={}", server.address.port()),
    ];
    for property in fixed.iter().map(String::as_str).chain(properties.iter().copied()) {
        java.args(["-p", property]);
    }
    let text = command::run(&mut java, &server.folder.join(format!("ycsb-{name}.log")), LIMIT)?;
    judge(&text, options.records)
}

/// Both tools and a server.
struct Pair<'a> {
    options: &'a Options,
    server: &'a Server,
    class_path: &'a str,
}

impl Pair<'_> {
    /// Every record of one part of two, once, with values that follow from the keys.
    fn part(&self, part: u64) -> Vec<String> {
        let records = self.options.records;
        let all = [
            format!("recordcount={}", 2 * records),
            format!("insertstart={}", part * records),
            format!("insertcount={records}"),
            format!("operationcount={records}"),
            "readproportion=1".to_owned(),
            "updateproportion=0".to_owned(),
            "requestdistribution=sequential".to_owned(),
            "dataintegrity=true".to_owned(),
        ];
        all.into()
    }

    fn properties(&self, properties: &[String]) -> Vec<String> {
        let (ip, port) = (self.server.address.ip(), self.server.address.port());
        let fixed = [
            "workload=site.ycsb.workloads.CoreWorkload".to_owned(),
            format!("hosts={ip}"),
            format!("port={port}"),
        ];
        fixed.iter().chain(properties).flat_map(|property| ["-p".to_owned(), property.clone()]).collect()
    }

    fn ours(&self, phase: &str, name: &str, properties: &[String]) -> Result<String, String> {
        let mut tool = Command::new(&self.options.binary);
        tool.args(["ycsb", phase, "cassandra-cql", "-threads", "8"]).args(self.properties(properties));
        command::run(&mut tool, &self.server.folder.join(format!("ycsb-{name}.log")), LIMIT)
    }

    fn java(&self, phase: &str, name: &str, properties: &[String]) -> Result<String, String> {
        let mut java = Command::new("java");
        java.args(["-Xmx256M", "-XX:+UseSerialGC", "-cp", self.class_path, "site.ycsb.Client"])
            .arg(if phase == "load" { "-load" } else { "-t" })
            .args(["-db", "messina.CqlBinding", "-threads", "8"])
            .args(self.properties(properties));
        command::run(&mut java, &self.server.folder.join(format!("ycsb-{name}.log")), LIMIT)
    }
}

/// Every record was there and was what it should be.
fn verified(text: &str, records: u64) -> Result<String, String> {
    let good = |block: &str| text.lines().any(|line| line == format!("[{block}], Return=OK, {records}"));
    if good("READ") && good("VERIFY") && !text.contains("UNEXPECTED_STATE") {
        Ok(format!("{records} records"))
    } else {
        Err(command::tail(text, 60))
    }
}

/// The reports of both tools have the same lines in the same order, but for those of collectors of garbage.
fn same_report(pair: &Pair<'_>) -> Result<String, String> {
    let records = pair.options.records;
    let mut lines = 0;
    for (name, properties) in WORKLOADS.iter().filter(|(name, _)| matches!(*name, "a" | "c" | "e")) {
        let mut all: Vec<String> = properties.iter().map(|property| (*property).to_owned()).collect();
        all.extend([format!("recordcount={records}"), format!("operationcount={records}")]);
        all.extend(["measurement.interval=both".to_owned(), "target=20000".to_owned()]);
        let ours = labels(&pair.ours("run", &format!("report-{name}"), &all)?);
        let javas = labels(&pair.java("run", &format!("java-report-{name}"), &all)?);
        if ours != javas {
            return Err(format!("workload {name}\n{ours:#?}\ninstead of\n{javas:#?}"));
        }
        lines += ours.len();
    }
    Ok(format!("{lines} lines"))
}

/// The file that the unit tests of `messina ycsb` hold its reports against is what the released classes make of the same latencies,
/// byte for byte: every way to keep them, in every form.
fn reports_of_latencies(pair: &Pair<'_>) -> Result<String, String> {
    let file = paths::resources().join("../ycsb/testdata/reports.txt");
    let mut java = Command::new("java");
    java.args(["-Xmx256M", "-XX:+UseSerialGC", "-cp", pair.class_path, "messina.Reports"]).arg(&file);
    let javas = command::run(&mut java, &pair.server.folder.join("ycsb-reports.log"), LIMIT)?;
    let ours = command::read(&file)?;
    match ours.lines().zip(javas.lines()).find(|(ours, javas)| ours != javas) {
        Some((ours, javas)) => Err(format!("{javas}\nstands in the file as\n{ours}")),
        None if ours == javas => Ok(format!("{} lines", ours.lines().count())),
        None => Err(format!("{} lines instead of {}", javas.lines().count(), ours.lines().count())),
    }
}

/// Block and name of each line of a report.
fn labels(text: &str) -> Vec<String> {
    let collectors = ["[TOTAL_GCS_", "[TOTAL_GC_TIME_"];
    let is_of_one = |line: &str| {
        collectors.iter().any(|start| line.starts_with(start)) && !line.starts_with("[TOTAL_GC_TIME_%],")
    };
    text.lines()
        .filter(|line| line.starts_with('[') && line.contains("], ") && !is_of_one(line))
        .filter_map(|line| Some(line.rsplit_once(", ")?.0.to_owned()))
        .collect()
}

/// YCSB ends with status 0 whatever happens, so its report decides: every return is OK and all operations were made.
pub fn judge(text: &str, expected: u64) -> Result<String, String> {
    let mut done = 0;
    let mut rate = String::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split(", ").collect();
        let &[block, name, value] = parts.as_slice() else {
            continue;
        };
        if name == "Throughput(ops/sec)" {
            rate = format!("{value:.8} operations/s");
        }
        if let Some(status) = name.strip_prefix("Return=") {
            if status != "OK" {
                return Err(format!(
                    "{value} operations of {block} ended with {status}\n{}",
                    command::tail(text, 60)
                ));
            }
            // A read-modify-write counts as itself and as its two halves.
            if block != "[READ-MODIFY-WRITE]" {
                done += value.parse::<u64>().unwrap_or(0);
            }
        }
    }
    if text.contains("-FAILED]") || text.contains("operation failed:") {
        return Err(format!("operations failed\n{}", command::tail(text, 60)));
    }
    if done < expected {
        return Err(format!("{done} operations instead of {expected}\n{}", command::tail(text, 60)));
    }
    Ok(format!("{done} operations, {rate}"))
}

#[cfg(test)]
mod tests {
    use super::{judge, labels};

    #[test]
    fn the_report_decides() {
        let good =
            "[OVERALL], Throughput(ops/sec), 4969.4379\n[READ], Return=OK, 60\n[UPDATE], Return=OK, 40\n";
        assert!(judge(good, 100).is_ok());
        assert!(judge(good, 101).is_err());
        assert!(judge(&good.replace("[UPDATE], Return=OK", "[UPDATE], Return=ERROR"), 60).is_err());
        assert!(judge("[READ-FAILED], Operations, 1\n[READ], Return=OK, 9\n", 5).is_err());
        assert!(judge("", 1).is_err());
    }

    #[test]
    fn lines_of_collectors_are_left_out() {
        let text = "[OVERALL], RunTime(ms), 5\n[TOTAL_GCS_Copy], Count, 1\n[TOTAL_GC_TIME_%_Copy], Time(%), 0.1\n\
                    [TOTAL_GC_TIME_%], Time(%), 0.1\n[READ: Count=1, Max=2, Min=3] \n";
        assert_eq!(labels(text), ["[OVERALL], RunTime(ms)", "[TOTAL_GC_TIME_%], Time(%)"]);
    }
}
