//! cqlsh as people type it: create, insert, select, DESCRIBE and what it prints, COPY TO and FROM.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::server::Server;
use crate::suite::{Options, Report};
use crate::{command, packages};

const LIMIT: Duration = Duration::from_secs(600);

const SETUP: &str = "\
CREATE KEYSPACE shell WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
USE shell;
CREATE TABLE people (id int, seen timestamp, name text, tags set<text>, scores map<text, int>, photo blob,
  PRIMARY KEY (id, seen)) WITH CLUSTERING ORDER BY (seen DESC) AND comment = 'who came';
INSERT INTO people (id, seen, name, tags, scores, photo) VALUES
  (1, '2024-02-29 12:00:00+0000', 'Ada', {'x', 'y'}, {'a': 1}, 0xcafe);
INSERT INTO people (id, seen, name) VALUES (1, '2024-03-01 12:00:00+0000', 'Grace');
SELECT id, seen, name, tags, scores, photo FROM people WHERE id = 1;
CONSISTENCY
SELECT count(*) FROM people;
";

/// Lines that must be in the answer to `SETUP`, as cqlsh 6.2 draws them.
const SETUP_ANSWER: &[&str] = &[
    " id | seen                            | name  | tags       | scores   | photo",
    "  1 | 2024-03-01 12:00:00.000000+0000 | Grace |       null |     null |   null",
    "  1 | 2024-02-29 12:00:00.000000+0000 |   Ada | {'x', 'y'} | {'a': 1} | 0xcafe",
    "(2 rows)",
    "Current consistency level is ONE.",
];

const TABLE_TEXT: &[&str] = &[
    "CREATE TABLE shell.people (",
    "    id int,",
    "    seen timestamp,",
    "    name text,",
    "    photo blob,",
    "    scores map<text, int>,",
    "    tags set<text>,",
    "    PRIMARY KEY (id, seen)",
    ") WITH CLUSTERING ORDER BY (seen DESC)",
    "    AND comment = 'who came'",
];

/// Runs every test against one server.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut server = None;
    report.test(&format!("cqlsh::start --smp {shards}"), || {
        packages::python_cassandra()?;
        server = Some(options.server("cqlsh", shards)?);
        Ok(String::new())
    });
    let Some(mut server) = server else { return };
    report.test(&format!("cqlsh::create_insert_select --smp {shards}"), || {
        let answer = shell(&server, "setup", SETUP)?;
        holds(&answer, SETUP_ANSWER)
    });
    report.test(&format!("cqlsh::describe --smp {shards}"), || {
        let answer = shell(&server, "describe", "DESCRIBE TABLE shell.people;\nDESCRIBE KEYSPACE shell;\n")?;
        holds(&answer, TABLE_TEXT)?;
        holds(&answer, &["CREATE KEYSPACE shell WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'}  AND durable_writes = true;"])?;
        let answer = shell(&server, "describe-all", "DESCRIBE KEYSPACES;\nDESCRIBE TABLES;\nDESCRIBE CLUSTER;\n")?;
        holds(&answer, &["Cluster: compat", "Partitioner: Murmur3Partitioner", "Keyspace shell"])?;
        shell(&server, "describe-schema", "DESCRIBE SCHEMA;\nDESCRIBE FULL SCHEMA;\nSHOW VERSION;\nSHOW HOST;\n").map(drop)?;
        recreate(&server)
    });
    report.test(&format!("cqlsh::mistakes --smp {shards}"), || mistakes(&server));
    report.test(&format!("cqlsh::copy --smp {shards}"), || copy(&server, options.copy_rows));
    report.test(&format!("cqlsh::stop --smp {shards}"), || server.stop().map(|()| String::new()));
}

/// What DESCRIBE prints must be accepted again and print the same.
fn recreate(server: &Server) -> Result<String, String> {
    let first = shell(server, "described", "DESCRIBE TABLE shell.people;\n")?;
    shell(server, "recreate", &format!("DROP TABLE shell.people;\n{first}"))?;
    let second = shell(server, "described-again", "DESCRIBE TABLE shell.people;\n")?;
    if first == second { Ok(String::new()) } else { Err(format!("described {first}\nthen {second}")) }
}

fn mistakes(server: &Server) -> Result<String, String> {
    for (text, answer) in [
        ("SELEC 1;", "SyntaxException"),
        ("SELECT * FROM shell.nowhere;", "table nowhere does not exist"),
        ("SELECT nothing FROM shell.people;", "Undefined column name nothing"),
        ("DESCRIBE TABLE shell.nowhere;", "nowhere"),
    ] {
        match shell(server, "mistake", text) {
            Ok(accepted) => return Err(format!("accepted {text}: {accepted}")),
            Err(error) if error.contains(answer) => {}
            Err(error) => return Err(format!("{text} should say {answer}, but: {error}")),
        }
    }
    Ok(String::new())
}

fn copy(server: &Server, rows: u64) -> Result<String, String> {
    let from = server.folder.join("from.csv");
    let to = server.folder.join("to.csv");
    let mut lines: Vec<String> = (0..rows)
        .map(|i| {
            format!(
                "{i},\"name, {i}\",{}.5,\"{{'a{i}', 'b'}}\",2024-02-29 00:00:{:02}.000+0000",
                i * 3,
                i % 60
            )
        })
        .collect();
    fs::write(&from, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", from.display()))?;
    let columns = "(id, name, score, tags, seen)";
    let text = format!(
        "CREATE TABLE shell.copied (id int PRIMARY KEY, name text, score double, tags set<text>, seen timestamp);\n\
         COPY shell.copied {columns} FROM '{}' WITH NUMPROCESSES=2;\n\
         COPY shell.copied {columns} TO '{}' WITH NUMPROCESSES=2 AND DATETIMEFORMAT='%Y-%m-%d %H:%M:%S.000%z';\n\
         SELECT count(*) FROM shell.copied;\n",
        from.display(),
        to.display()
    );
    let answer = shell(server, "copy", &text)?;
    holds(
        &answer,
        &[&format!("{rows} rows imported from 1 files in"), &format!("{rows} rows exported to 1 files in")],
    )?;
    let written = command::read(&to)?;
    let mut got: Vec<&str> = written.lines().map(str::trim_end).collect();
    got.sort_unstable();
    lines.sort_unstable();
    match got.iter().zip(&lines).find(|(got, wrote)| **got != wrote.as_str()) {
        Some((got, wrote)) => Err(format!("copied {wrote} in and {got} out")),
        None if got.len() != lines.len() => Err(format!("{} rows in and {} out", lines.len(), got.len())),
        None => Ok(format!("{rows} rows")),
    }
}

/// Runs a file of statements through cqlsh and returns what it printed, without its remark on versions.
fn shell(server: &Server, name: &str, text: &str) -> Result<String, String> {
    let script = server.folder.join(format!("{name}.cql"));
    fs::write(&script, text).map_err(|error| format!("{}: {error}", script.display()))?;
    let mut cqlsh = cqlsh_command(server)?;
    cqlsh.arg("--file").arg(&script);
    let answer = command::run(&mut cqlsh, &log(&server.folder, name), LIMIT)?;
    let kept: Vec<&str> =
        answer.lines().filter(|line| !line.starts_with("WARNING: cqlsh was built")).collect();
    Ok(kept.join("\n") + "\n")
}

fn cqlsh_command(server: &Server) -> Result<Command, String> {
    let mut cqlsh = Command::new(packages::python_cassandra()?.join("cqlsh"));
    cqlsh
        .env("HOME", &server.folder)
        .env("TZ", "UTC")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["--no-color", "--request-timeout=60", "--connect-timeout=60"])
        .arg(server.address.ip().to_string())
        .arg(server.address.port().to_string());
    Ok(cqlsh)
}

fn log(folder: &Path, name: &str) -> std::path::PathBuf {
    folder.join(format!("cqlsh-{name}.log"))
}

/// Asserts that every one of these texts is in the answer.
fn holds(answer: &str, texts: &[&str]) -> Result<String, String> {
    match texts.iter().find(|text| !answer.contains(**text)) {
        Some(text) => Err(format!("the answer lacks the line:\n{text}\nit says:\n{answer}")),
        None => Ok(String::new()),
    }
}
