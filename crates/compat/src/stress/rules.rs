//! A program in another language recomputes, from the published rules alone, every byte that `messina cassandra-stress write` wrote: the
//! keys and values of the standard table. It reads the rows by the Java driver, and it says so when a byte is another one.

use std::process::Command;

use super::{LIMIT, Tools};
use crate::{command, packages};

/// All rows are as the rules say; with one byte changed, one is not.
pub fn recomputed(tools: &Tools<'_>) -> Result<String, String> {
    let rows = tools.options.records;
    let class_path = packages::java_driver("java4")?;
    tools.ours_ends_well(
        &format!("write n={rows} -schema keyspace=rules -rate threads=50 -log no-settings"),
        "rules-write",
    )?;
    let (ip, port) = (tools.server.address.ip().to_string(), tools.server.address.port().to_string());
    let java = |more: &[&str], name: &str| {
        let mut java = Command::new("java");
        java.args(["-Xmx256M", "-XX:+UseSerialGC", "-cp", &class_path, "messina.Rules"]);
        java.args([&ip, &port, "rules", &rows.to_string()]).args(more);
        command::run(&mut java, &tools.server.folder.join(name), LIMIT)
    };
    let last = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    let said = last(&java(&[], "rules.log")?);
    if said != format!("{rows} rows, 0 mismatches") {
        return Err(said);
    }
    // The last byte of a value of the row in the middle.
    let middle = (rows / 2).to_string();
    java(&["spoil", &middle, "C3", "33"], "rules-spoil.log")?;
    match java(&[], "rules-spoilt.log") {
        Err(text)
            if text.contains(&format!("C3 of seed {middle}: ")) && text.contains(" rows, 1 mismatches") =>
        {
            Ok(said)
        }
        Ok(text) | Err(text) => Err(format!("a byte was changed, and it says:\n{text}")),
    }
}
