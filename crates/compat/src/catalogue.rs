//! `messina bench run file-catalogue`, small: a catalogue is generated, imported, compared, operated on and counted against a running node,
//! and every answer must be right; an import of CSV beside it is timed, a damaged file must be named.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::command;
use crate::server::Server;
use crate::suite::{Options, Report};

const LIMIT: Duration = Duration::from_secs(300);

/// Runs all, against a node with so many shards.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut ready = None;
    report.test(&format!("catalogue::start --smp {shards}"), || {
        ready = Some(options.server("catalogue", shards)?);
        Ok(String::new())
    });
    let Some(mut server) = ready else { return };
    let mut test = |name: &str, body: &dyn Fn(&Server) -> Result<String, String>| {
        report.test(&format!("catalogue::{name} --smp {shards}"), || body(&server));
    };
    test("bench_run", &|server| {
        let folder = server.folder.join("report").display().to_string();
        let words = ["bench", "run", "file-catalogue", "--scale", "tiny", "--folder", &folder];
        messina(options, server, &words, "bench")?;
        let page = command::read(&server.folder.join("report/file-catalogue.md"))?;
        let clean = page.contains("index entries of the database: all the same.");
        if clean && !page.contains("**Failed:**") { line_with(&page, "rows/s") } else { Err(page) }
    });
    test("import_csv", &|server| {
        let file = server.folder.join("files.csv").display().to_string();
        let generate = ["catalogue", "generate", "--files", "50000", "--seed", "7", &file];
        tool(options, server, &generate, "generate")?;
        let since = Instant::now();
        let words = ["catalogue", "import", "--keyspace", "other", &file];
        let said = messina(options, server, &words, "import")?;
        if !said.contains("all the same") {
            return Err(said);
        }
        Ok(format!(
            "{} (with the comparison {} ms)",
            line_with(&said, "rows/s")?,
            since.elapsed().as_millis()
        ))
    });
    test("bad_row_is_named", &|server| {
        let file = server.folder.join("bad.csv");
        let told = |error: std::io::Error| format!("{}: {error}", file.display());
        std::fs::write(&file, "path,owner,permissions,size,changed,guid,locations\n/a/b,me,644,many,0,,\n")
            .map_err(told)?;
        let file = file.display().to_string();
        match messina(options, server, &["catalogue", "import", "--keyspace", "third", &file], "bad") {
            Ok(said) => Err(format!("it was imported: {said}")),
            Err(said) if said.contains("bad.csv:2: size is \"many\"") => Ok(String::new()),
            Err(said) => Err(said),
        }
    });
    report.test(&format!("catalogue::stop --smp {shards}"), || server.stop().map(|()| String::new()));
}

/// Runs the binary against the server; it has to end well.
fn messina(options: &Options, server: &Server, words: &[&str], name: &str) -> Result<String, String> {
    let (ip, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let at = ["--node", &ip, "--port", &port];
    tool(options, server, &[words, &at].concat(), name)
}

fn tool(options: &Options, server: &Server, words: &[&str], name: &str) -> Result<String, String> {
    let mut tool = Command::new(&options.binary);
    tool.current_dir(&server.folder).args(words);
    let log = server.folder.join(format!("{name}.log"));
    command::run(&mut tool, &log, LIMIT)
}

fn line_with(text: &str, part: &str) -> Result<String, String> {
    let line = text.lines().find(|line| line.contains(part)).ok_or(format!("no {part}:\n{text}"))?;
    Ok(line.trim_start_matches("- ").to_owned())
}
