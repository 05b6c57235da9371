//! YCSB 0.17.0 as CloudSuite's Data Serving sets it up: SimpleStrategy with three replicas on one node, consistency
//! ONE, ten text fields of 100 bytes; the load phase and workloads a to f, each without a single error.

use std::process::Command;
use std::time::Duration;

use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, packages, python};

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

/// YCSB ends with status 0 whatever happens, so its report decides: every return is OK and all operations were made.
fn judge(text: &str, expected: u64) -> Result<String, String> {
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
    use super::judge;

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
}
