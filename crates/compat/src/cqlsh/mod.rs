//! cqlsh as people type it: create, insert, select, DESCRIBE of everything and what it prints, COPY TO and
//! FROM of every type, files, pages, passwords and TLS.

mod copy;

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
    report.test(&format!("cqlsh::copy --smp {shards}"), || copy::many_rows(&server, options.copy_rows));
    report.test(&format!("cqlsh::copy_every_type --smp {shards}"), || copy::every_type(&server));
    report.test(&format!("cqlsh::copy_what_cqlsh_cannot --smp {shards}"), || copy::beyond_cqlsh(&server));
    report.test(&format!("cqlsh::copy_options --smp {shards}"), || copy::ways(&server));
    report.test(&format!("cqlsh::options_expand_paging --smp {shards}"), || ways_of_asking(&server));
    report.test(&format!("cqlsh::describe_everything --smp {shards}"), || describe_everything(&server));
    report.test(&format!("cqlsh::stop --smp {shards}"), || server.stop().map(|()| String::new()));
    report.test(&format!("cqlsh::tls_and_password --smp {shards}"), || secure(options, shards));
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
    let sourced = server.folder.join("sourced.cql");
    fs::write(&sourced, "SELECT k FROM source WHERE k = 2;\n").map_err(|error| error.to_string())?;
    let mut cqlsh = cqlsh_command(server)?;
    let text = format!("SOURCE '{}'; SELECT k FROM source WHERE k = 1", sourced.display());
    cqlsh.args(["-k", "shell", "-e", &text]);
    let answer = command::run(&mut cqlsh, &log(&server.folder, "keyspace"), LIMIT)?;
    holds(&answer, &[" 2\n", " 1\n"])?;
    let captured = server.folder.join("captured.txt");
    let text = format!("CAPTURE '{}';\nSELECT k FROM shell.source WHERE k = 2;\n", captured.display());
    shell(server, "capture", &text)?;
    holds(&command::read(&captured)?, &[" 2\n", "(1 rows)"])?;
    for (text, line) in
        [("DESCRIBE KEYSPACES", "shell"), ("DESC TYPE shell.spot", "CREATE TYPE shell.spot (")]
    {
        let mut cqlsh = cqlsh_command(server)?;
        cqlsh.args(["-e", text]);
        holds(&command::run(&mut cqlsh, &log(&server.folder, "execute-describe"), LIMIT)?, &[line])?;
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
        DESCRIBE FULL SCHEMA;\nDESCRIBE FUNCTIONS;\nDESCRIBE AGGREGATES;\nDESC TYPES;\nDESCRIBE COLUMNFAMILY counted;\n\
        DESCRIBE ONLY KEYSPACE told;\nDESCRIBE KEYSPACE told WITH INTERNALS;\nDESCRIBE TABLE counted WITH INTERNALS;\n\
        DESC system.local;\nDESCRIBE told;\nDESCRIBE told.counted;\n";
    let answer = shell(server, "tell", text)?;
    holds(
        &answer,
        &[
            "CREATE TYPE told.inner_t (",
            "CREATE TYPE told.\"Outer\" (",
            "CREATE TABLE told.\"Mixed\" (",
            "    n counter\n",
            ") WITH ID = ",
            "CREATE TABLE system.local (",
        ],
    )?;
    let only = shell(server, "tell-only", "DESCRIBE ONLY KEYSPACE told;\n")?;
    if !only.contains("CREATE KEYSPACE told ") || only.contains("CREATE T") {
        return Err(format!("only the keyspace was asked for: {only}"));
    }
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
    let ask = |name: &str, password: &str, text: &str| {
        let mut cqlsh = cqlsh_command(&server)?;
        cqlsh.arg("--cqlshrc").arg(&settings);
        cqlsh.args(["--ssl", "-u", "cassandra", "-p", password, "-e", text]);
        command::run(&mut cqlsh, &log(&server.folder, name), LIMIT)
    };
    let select = "SELECT key FROM system.local";
    holds(&ask("right", "cassandra", select)?, &[" local"])?;
    // COPY's own processes log in and encrypt, too.
    let (from, to) = (server.folder.join("secret.csv"), server.folder.join("secret-again.csv"));
    let rows: String = (0..100).map(|k| format!("{k},row {k}\n")).collect();
    fs::write(&from, &rows).map_err(|error| error.to_string())?;
    let copy = format!(
        "CREATE KEYSPACE secret WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}; \
         CREATE TABLE secret.rows (k int PRIMARY KEY, v text); COPY secret.rows FROM '{}'; COPY secret.rows TO '{}';",
        from.display(),
        to.display()
    );
    holds(
        &ask("copy", "cassandra", &copy)?,
        &["100 rows imported from 1 files", "100 rows exported to 1 files"],
    )?;
    let written = command::read(&to)?;
    if !rows.lines().all(|row| written.lines().any(|line| line == row)) {
        return Err(format!("copied out: {written}"));
    }
    match ask("wrong", "wrong", select) {
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
        ("DESCRIBE TABLE shell.nowhere;", "'nowhere' not found in keyspace 'shell'"),
        ("DESCRIBE KEYSPACE nowhere;", "'nowhere' not found in keyspaces"),
        ("DESCRIBE TYPE shell.nowhere;", "User defined type 'nowhere' not found in 'shell'"),
        ("DESCRIBE INDEX shell.nowhere;", "Table for existing index 'nowhere' not found in 'shell'"),
        ("DESCRIBE MATERIALIZED VIEW shell.nowhere;", "Materialized view 'nowhere' not found in 'shell'"),
        ("DESCRIBE FUNCTION shell.nowhere;", "User defined function 'nowhere' not found in 'shell'"),
        ("DESCRIBE AGGREGATE shell.nowhere;", "User defined aggregate 'nowhere' not found in 'shell'"),
        ("SOURCE '/nowhere.cql';", "Could not open '/nowhere.cql'"),
    ] {
        match shell(server, "mistake", text) {
            Ok(accepted) => return Err(format!("accepted {text}: {accepted}")),
            Err(error) if error.contains(answer) => {}
            Err(error) => return Err(format!("{text} should say {answer}, but: {error}")),
        }
    }
    Ok(String::new())
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
    // COPY leaves the rows it could not read in the folder it runs in.
    cqlsh.current_dir(&server.folder);
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
