//! cqlsh as people type it: create, insert, select, DESCRIBE of everything and what it prints, COPY TO and
//! FROM of every type, pages, passwords and TLS.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::certificates::Certificates;
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
    report.test(&format!("cqlsh::copy_every_type --smp {shards}"), || copy_every_type(&server));
    report.test(&format!("cqlsh::options_expand_paging --smp {shards}"), || ways_of_asking(&server));
    report.test(&format!("cqlsh::describe_everything --smp {shards}"), || describe_everything(&server));
    report.test(&format!("cqlsh::stop --smp {shards}"), || server.stop().map(|()| String::new()));
    report.test(&format!("cqlsh::tls_and_password --smp {shards}"), || secure(options, shards));
}

/// One column of every type that COPY carries, with what each holds in two rows; a third row is empty.
const EVERY_TYPE: &[(&str, &str, &str)] = &[
    ("ascii", "'it''s'", "'~'"),
    ("bigint", "-9223372036854775808", "9223372036854775807"),
    ("blob", "0xcafe00", "0x"),
    ("boolean", "true", "false"),
    ("date", "'2024-02-29'", "'1969-12-31'"),
    ("decimal", "-1.50", "1E+20"),
    ("double", "-1.5e-3", "Infinity"),
    ("duration", "1y2mo3d4h", "-1ns"),
    ("float", "0.5", "-Infinity"),
    ("inet", "'127.0.0.1'", "'2001:db8::1'"),
    ("int", "-2147483648", "2147483647"),
    ("smallint", "-32768", "32767"),
    ("text", "'a, \"b\" ''c'' €'", "'line'"),
    ("time", "'12:34:56.789012345'", "'00:00:00'"),
    ("timestamp", "'2024-02-29T23:59:59.999+0000'", "'1969-12-31T23:59:59.000+0000'"),
    ("timeuuid", "c2cb1b30-8d1a-11ee-b9d1-0242ac120002", "00000000-0000-1000-8080-808080808080"),
    ("tinyint", "-128", "127"),
    ("uuid", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "00000000-0000-0000-0000-000000000000"),
    ("varint", "-1000000000000000000000000000000", "255"),
    ("list<text>", "['b', 'a, c']", "['x']"),
    ("set<int>", "{3, -1}", "{0}"),
    ("map<text, int>", "{'k': 1, 'l': -2}", "{'': 0}"),
    ("frozen<list<frozen<map<int, text>>>>", "[{1: 'a'}, {2: 'b'}]", "[]"),
    ("tuple<int, text>", "(1, 'a')", "(-1, 'b')"),
    ("frozen<spot>", "{x: 1, y: 'a'}", "{x: -1, y: 'b'}"),
    ("spot", "{x: 2, y: 'c'}", "{x: -2, y: 'd'}"),
];

/// What COPY TO writes, COPY FROM reads: the same rows, and the same file again.
fn copy_every_type(server: &Server) -> Result<String, String> {
    let names: Vec<String> = (0..EVERY_TYPE.len()).map(|column| format!("c{column}")).collect();
    let columns: Vec<String> =
        names.iter().zip(EVERY_TYPE).map(|(name, (kind, ..))| format!("{name} {kind}")).collect();
    let values =
        |row: fn(&(&str, &str, &str)) -> String| EVERY_TYPE.iter().map(row).collect::<Vec<_>>().join(", ");
    let insert = |key: u8, values: String| {
        format!("INSERT INTO shell.source (k, {}) VALUES ({key}, {values});\n", names.join(", "))
    };
    let mut text = "CREATE TYPE shell.spot (x int, y text);\nUSE shell;\n".to_owned();
    for table in ["source", "target"] {
        text += &format!("CREATE TABLE {table} (k int PRIMARY KEY, {});\n", columns.join(", "));
    }
    text += &insert(1, values(|(_, first, _)| (*first).to_owned()));
    text += &insert(2, values(|(_, _, second)| (*second).to_owned()));
    text += "INSERT INTO source (k) VALUES (3);\n";
    let files = ["every-first.csv", "every-second.csv"].map(|name| server.folder.join(name));
    text += &format!(
        "COPY source TO '{}';\nCOPY target FROM '{0}' WITH PREPAREDSTATEMENTS = false;\n",
        files[0].display()
    );
    text += &format!("COPY target TO '{}';\n", files[1].display());
    let answer = shell(server, "every-type", &text)?;
    holds(&answer, &["3 rows exported to 1 files in", "3 rows imported from 1 files in"])?;
    let sorted = |path: &Path| -> Result<Vec<String>, String> {
        let mut lines: Vec<String> = command::read(path)?.lines().map(str::to_owned).collect();
        lines.sort();
        Ok(lines)
    };
    let (first, second) = (sorted(&files[0])?, sorted(&files[1])?);
    if first != second {
        return Err(format!("copied out {first:#?}\nin and out again {second:#?}"));
    }
    let rows = |table: &str| {
        let answer = shell(server, "every-rows", &format!("EXPAND ON;\nSELECT * FROM shell.{table};\n"))?;
        Ok::<_, String>(answer)
    };
    let (source, target) = (rows("source")?, rows("target")?);
    if source != target {
        return Err(format!("copied {source}\nas {target}"));
    }
    Ok(format!("{} types", EVERY_TYPE.len()))
}

/// Statements on the command line, rows below each other, small pages.
fn ways_of_asking(server: &Server) -> Result<String, String> {
    let mut cqlsh = cqlsh_command(server)?;
    cqlsh.args(["-e", "SELECT key, cluster_name FROM system.local; SELECT k FROM shell.source WHERE k = 1"]);
    let answer = command::run(&mut cqlsh, &log(&server.folder, "execute"), LIMIT)?;
    holds(&answer, &[" key   | cluster_name", " local |       compat", "(1 rows)"])?;
    let mut cqlsh = cqlsh_command(server)?;
    cqlsh.args(["-e", "SELECT nothing FROM system.local"]);
    if command::run(&mut cqlsh, &log(&server.folder, "execute-mistake"), LIMIT).is_ok() {
        return Err("a mistake on the command line ended with success".into());
    }
    let answer = shell(server, "expand", "EXPAND ON;\nSELECT k, c10 FROM shell.source WHERE k = 1;\n")?;
    holds(&answer, &["@ Row 1", " k   | 1", " c10 | -2147483648", "(1 rows)"])?;
    let mut text = "CREATE TABLE shell.paged (k int, c int, PRIMARY KEY (k, c));\n".to_owned();
    for c in 0..35 {
        text += &format!("INSERT INTO shell.paged (k, c) VALUES (1, {c});\n");
    }
    text += "PAGING 10;\nSELECT c FROM shell.paged;\nPAGING OFF;\nTRACING ON;\nSELECT c FROM shell.paged LIMIT 1;\n";
    text += "TRACING OFF;\nCONSISTENCY QUORUM;\nSELECT c FROM shell.paged LIMIT 2;\nSERIAL CONSISTENCY;\n";
    let answer = shell(server, "paging", &text)?;
    holds(&answer, &["Page size: 10", "(35 rows)", "Tracing session: ", "Request complete", "(2 rows)"])
}

/// DESCRIBE of everything there is, told by the server; what it says of a keyspace makes it again.
fn describe_everything(server: &Server) -> Result<String, String> {
    let setup = "CREATE KEYSPACE told WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\nUSE told;\n\
        CREATE TYPE inner_t (a int, b text);\nCREATE TYPE \"Outer\" (i frozen<inner_t>, l list<int>);\n\
        CREATE TABLE \"Mixed\" (\"K\" int, c timeuuid, s text static, o frozen<\"Outer\">, t tuple<int, text>, \
        PRIMARY KEY ((\"K\"), c)) WITH CLUSTERING ORDER BY (c DESC) AND gc_grace_seconds = 5;\n\
        CREATE TABLE counted (k int PRIMARY KEY, n counter);\n";
    shell(server, "told", setup)?;
    let text = "USE told;\nDESCRIBE KEYSPACES;\nDESCRIBE KEYSPACE;\nDESCRIBE TABLES;\nDESCRIBE TYPES;\nDESCRIBE TYPE inner_t;\n\
        DESCRIBE TYPE \"Outer\";\nDESCRIBE TABLE \"Mixed\";\nDESCRIBE counted;\nDESCRIBE CLUSTER;\nDESCRIBE SCHEMA;\n\
        DESCRIBE FULL SCHEMA;\nDESCRIBE FUNCTIONS;\nDESCRIBE AGGREGATES;\n";
    let answer = shell(server, "tell", text)?;
    holds(
        &answer,
        &[
            "CREATE TYPE told.inner_t (",
            "CREATE TYPE told.\"Outer\" (",
            "CREATE TABLE told.\"Mixed\" (",
            "    n counter\n",
        ],
    )?;
    let first = shell(server, "tell-keyspace", "DESCRIBE KEYSPACE told;\n")?;
    shell(server, "told-again", &format!("DROP KEYSPACE told;\n{first}"))?;
    let second = shell(server, "tell-again", "DESCRIBE KEYSPACE told;\n")?;
    if first == second { Ok(String::new()) } else { Err(format!("described {first}\nthen {second}")) }
}

/// A password and TLS, by options and by the file of settings; a wrong password is refused.
fn secure(options: &Options, shards: u16) -> Result<String, String> {
    let certificates = Certificates::make(&options.folder("cqlsh-certificates")?)?;
    let mut server = options.secure_server("cqlsh-secure", shards, &certificates)?;
    // cqlsh compares no certificate with the authority it is given; the drivers' own suites do.
    let settings = server.folder.join("cqlshrc");
    let text = format!("[ssl]\ncertfile = {}\nvalidate = true\n", certificates.authority.display());
    fs::write(&settings, text).map_err(|error| error.to_string())?;
    let ask = |name: &str, password: &str| {
        let mut cqlsh = cqlsh_command(&server)?;
        cqlsh.arg("--cqlshrc").arg(&settings);
        cqlsh.args(["--ssl", "-u", "cassandra", "-p", password, "-e", "SELECT key FROM system.local"]);
        command::run(&mut cqlsh, &log(&server.folder, name), LIMIT)
    };
    holds(&ask("right", "cassandra")?, &[" local"])?;
    match ask("wrong", "wrong") {
        Ok(answer) => return Err(format!("a wrong password was accepted: {answer}")),
        Err(error) if error.contains("AuthenticationFailed") => {}
        Err(error) => return Err(format!("a wrong password: {error}")),
    }
    server.stop().map(|()| String::new())
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
