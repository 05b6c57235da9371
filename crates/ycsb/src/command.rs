//! The tools from their words to their exit status.

use crate::error::Error;
use crate::limits::SCHEMA_REST;
use crate::report;
use crate::run;
use crate::session;
use crate::settings::{Servers, Settings};
use crate::words::{self, Said, USAGE};
use loadtools::output::Output;
use std::io::{self, Write as _};
use std::rc::Rc;
use std::sync::Arc;

/// Status when the person at the terminal ended the run.
const INTERRUPTED: i32 = 130;
/// Replicas of CloudSuite's table, as its script says.
const CLOUDSUITE_REPLICAS: u32 = 3;
/// The release whose words and output these are.
const RELEASE: &str = "0.17.0";

/// Does what the words of `ycsb` say and gives the exit status.
pub fn main(words: &[String]) -> u8 {
    if words::wants_help(words) {
        say(USAGE.trim_end());
        return 0;
    }
    start(words, Before::Nothing)
}

/// Does what the words of CloudSuite's two scripts say and gives the exit status.
pub fn cloudsuite(words: &[String]) -> u8 {
    match scripts(words) {
        Ok((words, before)) => start(&words, before),
        // The scripts end well when they are called with too little.
        Err(usage) => {
            say(&usage);
            0
        }
    }
}

/// What is done before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// CloudSuite's tables are made.
    Tables,
}

/// The words of `ycsb` that a script of CloudSuite stands for, or how the script is called.
fn scripts(words: &[String]) -> Result<(Vec<String>, Before), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let own = |line: String, rest: &[&str]| -> Vec<String> {
        line.split(' ').map(str::to_owned).chain(rest.iter().map(|word| (*word).to_owned())).collect()
    };
    let workload = "-P workloads/workloada";
    match words.as_slice() {
        ["warmup", hosts, records, rest @ ..] => {
            let threads = rest.first().unwrap_or(&"1");
            let line = format!(
                "load cassandra-cql -p hosts={hosts} {workload} -p recordcount={records} -s -threads {threads}"
            );
            Ok((own(line, rest.get(1..).unwrap_or_default()), Before::Tables))
        }
        ["load", hosts, records, target, rest @ ..] => {
            let threads = rest.first().unwrap_or(&"1");
            // A minute of it. What is no number is refused by its name later.
            let minute = || {
                target
                    .parse::<u64>()
                    .map_or_else(|_| (*target).to_owned(), |rate| rate.saturating_mul(60).to_string())
            };
            let operations = rest.get(1).map_or_else(minute, |count| (*count).to_owned());
            let line = format!(
                "run cassandra-cql -p hosts={hosts} {workload} -p recordcount={records} \
                 -p operationcount={operations} -threads {threads} -target {target} -s"
            );
            Ok((own(line, rest.get(2..).unwrap_or_default()), Before::Nothing))
        }
        ["warmup", ..] => {
            Err("Usage: messina cloudsuite warmup <server_ip> <record_count> <threads=1>".into())
        }
        ["load", ..] => {
            Err("Usage: messina cloudsuite load <server_ip> <record_count> <target_load> <threads=1> \
                             <operation_count=target_load * 60>"
                .into())
        }
        _ => Err("Usage: messina cloudsuite warmup|load <server_ip> <record_count> ...".into()),
    }
}

fn say(text: &str) {
    // A terminal that is gone does not change the status.
    let _gone = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

/// Says what is wrong, where the Java tool says it, and gives the status.
fn refuse(error: &Error) -> u8 {
    match error {
        Error::Usage(text) => say(&format!("{USAGE}{text}")),
        Error::Property { .. }
        | Error::Refused(_)
        | Error::Bounds(_)
        | Error::Line { .. }
        | Error::Read { .. }
        | Error::Export { .. }
        | Error::Connect(_) => complain(&error.to_string()),
        // It has been said of which file.
        Error::NotWhole => {}
    }
    error.status()
}

/// Runs on a shard of its own.
fn start(words: &[String], before: Before) -> u8 {
    let said = match words::read(words) {
        Ok(said) => said,
        Err(error) => return refuse(&error),
    };
    said.warnings.iter().for_each(|warning| complain(warning));
    complain(&format!("{}\nYCSB Client {RELEASE}\n\nLoading workload...", said.command_line));
    let main: runtime::Main = Arc::new(move || {
        let said = said.clone();
        Box::pin(async move {
            match whole(&said, before).await {
                Ok(()) if runtime::shutdown_is_requested() => INTERRUPTED,
                Ok(()) => 0,
                Err(error) => i32::from(refuse(&error)),
            }
        })
    });
    loadtools::shard::run(main)
}

/// Reads the properties, runs, reports.
async fn whole(said: &Said, before: Before) -> Result<(), Error> {
    let output = Output::new(None, false).map_err(|source| exporting("the terminal", source))?;
    let output = Rc::new(output);
    let settings = Settings::read(&said.properties, said.binding, &output)?;
    if settings.workload.integrity {
        output.line("Data integrity is enabled.");
    }
    match before {
        Before::Nothing => {}
        Before::Tables => {
            if !tables(&settings, &output).await {
                return Ok(());
            }
        }
    }
    let (form, file) = (settings.form, settings.report_file.clone());
    if let Some(file) = &file {
        // A file that cannot be written is told before hours of load, not after.
        write_report(file, "").map_err(|source| exporting(file, source))?;
    }
    let ended = run::run(settings, output.clone()).await?;
    let text = report::format(&ended.lines, form);
    match file {
        None => {
            let mut terminal = io::stdout().lock();
            let written = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
            written.map_err(|source| exporting("the terminal", source))?;
        }
        Some(file) => write_report(&file, &text).map_err(|source| {
            // What was measured is worth more than where it was wanted.
            say(text.trim_end());
            exporting(&file, source)
        })?,
    }
    if output.is_whole() { Ok(()) } else { Err(Error::NotWhole) }
}

fn exporting(file: &str, source: io::Error) -> Error {
    Error::Export { file: file.to_owned(), source }
}

#[allow(clippy::disallowed_methods, reason = "a tool's own file, after the load")]
fn write_report(file: &str, text: &str) -> io::Result<()> {
    std::fs::write(file, text)
}

/// Makes CloudSuite's keyspace and table. `replicas`: its script says three, whatever the number of nodes. Errors: of the servers.
pub async fn create_tables(servers: &Servers, replicas: u32) -> Result<(), Error> {
    session::create_cloudsuite(servers, replicas).await
}

/// Does on this shard what the words of CloudSuite's two scripts say, for those who want its numbers; makes the tables with so many
/// replicas, once. Errors: of the words, of the servers.
pub async fn cloudsuite_here(
    words: &[String],
    replicas: u32,
    output: &Rc<Output>,
) -> Result<run::Ended, Error> {
    let (words, before) = scripts(words).map_err(Error::Usage)?;
    let said = words::read(&words)?;
    said.warnings.iter().for_each(|warning| output.complain(warning));
    let settings = Settings::read(&said.properties, said.binding, output)?;
    if before == Before::Tables {
        create_tables(&settings.servers, replicas).await?;
    }
    let form = settings.form;
    let ended = run::run(settings, output.clone()).await?;
    output.line(report::format(&ended.lines, form).trim_end());
    Ok(ended)
}

/// Makes CloudSuite's tables, again and again until it succeeds; false when somebody wants the end before.
async fn tables(settings: &Settings, output: &Output) -> bool {
    // The script asks the first server alone.
    let mut first = settings.servers.clone();
    first.hosts.truncate(1);
    loop {
        let Err(error) = create_tables(&first, CLOUDSUITE_REPLICAS).await else { return true };
        output
            .complain(&format!("{error}\nThe tables are not made yet: again in {} s", SCHEMA_REST.as_secs()));
        if runtime::timeout(SCHEMA_REST, runtime::shutdown_requested()).await.is_ok() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(String, Before), String> {
        let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        scripts(&words).map(|(words, before)| (words.join(" "), before))
    }

    #[test]
    fn scripts_are_words_of_ycsb() {
        assert_eq!(
            of("warmup 10.0.0.1,10.0.0.2 1000"),
            Ok((
                "load cassandra-cql -p hosts=10.0.0.1,10.0.0.2 -P workloads/workloada -p recordcount=1000 -s -threads 1"
                    .into(),
                Before::Tables
            ))
        );
        assert_eq!(
            of("load 10.0.0.1 1000 500 8"),
            Ok((
                "run cassandra-cql -p hosts=10.0.0.1 -P workloads/workloada -p recordcount=1000 -p operationcount=30000 \
                 -threads 8 -target 500 -s"
                    .into(),
                Before::Nothing
            ))
        );
        assert!(of("load 10.0.0.1 1000 500 8 77").expect("good").0.contains("-p operationcount=77 "));
        assert!(of("warmup a 10 4 -p port=9999").expect("more").0.ends_with("-threads 4 -p port=9999"));
    }

    #[test]
    fn too_few_words_end_with_the_usage() {
        for line in ["", "stop", "warmup", "warmup a", "load", "load a 10"] {
            let usage = of(line).expect_err(line);
            assert!(usage.starts_with("Usage: messina cloudsuite ") && usage.lines().count() == 1, "{usage}");
        }
    }
}
