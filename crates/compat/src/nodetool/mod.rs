//! nodetool's screens: the same tables, the same data and the same commands on a node and on Apache Cassandra 5.0.
//!
//! Of each answer its shape is compared: labels, order, columns, widths, blank lines, error texts and exit codes; numbers,
//! sizes, times, addresses and identities are taken out. `nodetool/shapes.txt` holds Cassandra's shapes. It is written by
//! `compat nodetool --against cassandra --bless`, checked by the same without `--bless`, and what a node's shapes are
//! compared with. Where they differ there must be a reason in `differences`, which is printed.

mod differences;
mod mistakes;
mod shape;
mod steps;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::server::{Server, free_port};
use crate::suite::{Options, Report};
use crate::{cassandra, command, paths, wire};
use steps::{Step, steps};

/// Every command ends within this: Cassandra's starts a Java machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Where nodetool asks.
struct Target<'a> {
    options: &'a Options,
    server: &'a Server,
    /// REST's port, or that of JMX.
    port: u16,
}

/// What a command said.
pub struct Said {
    /// On standard output.
    pub out: String,
    /// On standard error.
    pub err: String,
    /// How it ended.
    pub code: i32,
}

/// Runs every step against one server.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut started = None;
    report.test(&format!("nodetool::start --smp {shards}"), || {
        started = Some(start(options, shards)?);
        Ok(String::new())
    });
    let Some((mut server, port)) = started else { return };
    let mut shapes = String::new();
    report.test(&format!("nodetool::screens --smp {shards}"), || {
        let mut client = load(&server)?;
        let target = Target { options, server: &server, port };
        for step in steps() {
            shapes.push_str(&target.shape_of(step)?);
        }
        // One connection lives on while commands ask for connections.
        client.flush().map_err(|error| format!("the loader's connection: {error}"))?;
        Ok(format!("{} commands", steps().count()))
    });
    let differing = if options.bless && options.against_cassandra { bless(&shapes) } else { Ok(()) };
    report.test(&format!("nodetool::golden --smp {shards}"), || {
        differing?;
        compare(options, &shapes)
    });
    report.test(&format!("nodetool::stop --smp {shards}"), || server.stop().map(|()| String::new()));
}

fn golden_path() -> PathBuf {
    paths::resources().join("nodetool/shapes.txt")
}

fn bless(shapes: &str) -> Result<(), String> {
    let path = golden_path();
    std::fs::write(&path, shapes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compares step by step; what differs needs a reason, and every reason must still be needed.
fn compare(options: &Options, shapes: &str) -> Result<String, String> {
    let golden = command::read(&golden_path())?;
    let (golden, ours) = (sections(&golden), sections(shapes));
    let mut wrong = String::new();
    let mut used = Vec::new();
    for step in steps() {
        let empty = Vec::new();
        let theirs = golden.get(step.name).unwrap_or(&empty);
        let mine = ours.get(step.name).unwrap_or(&empty);
        let differing = differences::between(theirs, mine);
        let mut unexplained = Vec::new();
        for difference in differing {
            let reason = differences::reason(step.name, &difference);
            match reason.filter(|_| !options.against_cassandra) {
                Some(index) => used.push(index),
                None => unexplained.push(difference),
            }
        }
        if !unexplained.is_empty() {
            let _ = writeln!(wrong, "{} (nodetool {}):", step.name, step.words.join(" "));
            for difference in &unexplained {
                let _ = writeln!(wrong, "  {difference}");
            }
        }
    }
    used.sort_unstable();
    used.dedup();
    for index in &used {
        println!("  differs: {}", differences::ALLOWED[*index].reason);
    }
    if !options.against_cassandra {
        let stale = (0..differences::ALLOWED.len()).filter(|index| !used.contains(index));
        for index in stale {
            let _ = writeln!(wrong, "no longer differs: {}", differences::ALLOWED[index].reason);
        }
    }
    if wrong.is_empty() {
        Ok(format!("{} differences, each with its reason", used.len()))
    } else {
        Err(wrong)
    }
}

/// Lines by the name of their step.
fn sections(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        match line.strip_prefix("== ") {
            Some(head) => name = head.split(' ').next().unwrap_or_default(),
            None => found.entry(name).or_default().push(line),
        }
    }
    found
}

fn start(options: &Options, shards: u16) -> Result<(Server, u16), String> {
    if options.against_cassandra {
        let server = options.server("nodetool", shards)?;
        let port = jmx_port(&server)?;
        return Ok((server, port));
    }
    let port = free_port();
    let mut start = options.start(options.folder("nodetool")?, shards);
    start.yaml = format!("api_port: {port}\nnum_tokens: 16\nlog_level: warn\n");
    Ok((start.run()?, port))
}

/// The port that the Java machine was started with.
pub fn jmx_port(server: &Server) -> Result<u16, String> {
    let line = command::read(format!("/proc/{}/cmdline", server.child.id()).as_ref())?;
    let value = line.split('\0').find_map(|word| word.strip_prefix("-Dcassandra.jmx.local.port="));
    value.and_then(|port| port.parse().ok()).ok_or_else(|| "cassandra was started without JMX".into())
}

impl Target<'_> {
    /// Name, command and shape of one step, each line with its end marked.
    fn shape_of(&self, step: &Step) -> Result<String, String> {
        let theirs = step.theirs.filter(|_| self.options.against_cassandra);
        let said = self.say(theirs.unwrap_or(step.words))?;
        let shown = |word: &&'static str| if word.is_empty() { "''" } else { *word };
        let words: Vec<&str> = step.words.iter().map(shown).collect();
        let mut text = format!("== {} {}\n", step.name, words.join(" "));
        for line in shape::lines(&said.out, step.layout) {
            let _ = writeln!(text, "{line}$");
        }
        // What Java adds for its developers is not for the operator.
        let err = said.err.split("-- StackTrace --").next().unwrap_or_default();
        for line in shape::lines(err, shape::Layout::Lines) {
            let _ = writeln!(text, "error> {line}$");
        }
        let _ = writeln!(text, "exit> {}", said.code);
        Ok(text)
    }

    fn say(&self, words: &[&str]) -> Result<Said, String> {
        let port = self.port.to_string();
        let asked = ["-p", &port].into_iter().chain(words.iter().copied());
        let mut command = if self.options.against_cassandra {
            let words: Vec<String> = asked.map(str::to_owned).collect();
            cassandra::tool(&self.server.folder.join("tool"), "org.apache.cassandra.tools.NodeTool", &words)?
        } else {
            let mut command = Command::new(&self.options.binary);
            command.arg("nodetool").args(asked);
            command
        };
        said(&mut command, &self.server.folder.join("nodetool"))
            .map_err(|error| format!("{error}: {}", words.join(" ")))
    }
}

/// Runs nodetool to its end; `log` is the name of files for what it says, without an ending.
pub fn said(nodetool: &mut Command, log: &Path) -> Result<Said, String> {
    let file = |name: &str| {
        let path = log.with_extension(name);
        std::fs::File::create(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    nodetool.stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
    let mut child = nodetool.spawn().map_err(|error| format!("nodetool: {error}"))?;
    if command::wait(&mut child, LIMIT).is_none() {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("nodetool did not end within {LIMIT:?}"));
    }
    let status = child.wait().map_err(|error| format!("nodetool: {error}"))?;
    let text = |name: &str| command::read(&log.with_extension(name));
    Ok(Said { out: text("out")?, err: text("err")?, code: status.code().unwrap_or(-1) })
}

/// The lines that only one of two screens has, each with whose it is.
pub fn between(theirs: &[String], ours: &[String]) -> Vec<String> {
    let (theirs, ours): (Vec<&str>, Vec<&str>) =
        (theirs.iter().map(String::as_str).collect(), ours.iter().map(String::as_str).collect());
    differences::between(&theirs, &ours).iter().map(ToString::to_string).collect()
}

/// A line without numbers, sizes, times, addresses and ids.
pub fn without_numbers(line: &str) -> String {
    shape::lines(line, shape::Layout::Lines).concat().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Makes the tables and fills them; the connection is returned and stays open.
fn load(server: &Server) -> Result<TcpStream, String> {
    run_statements(server.address, &steps::statements())
}

/// Runs statements; the connection is returned and stays open.
pub fn run_statements(address: SocketAddr, statements: &[String]) -> Result<TcpStream, String> {
    let told = |error: std::io::Error| format!("loading: {error}");
    let mut stream = TcpStream::connect(address).map_err(told)?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(told)?;
    let ask = |stream: &mut TcpStream, opcode: u8, body: &[u8]| -> Result<(u8, Vec<u8>), String> {
        stream.write_all(&wire::request(4, opcode, 1, body)).map_err(told)?;
        let mut header = [0; 9];
        stream.read_exact(&mut header).map_err(told)?;
        let length = u32::from_be_bytes(header[5..].try_into().expect("four bytes")) as usize;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).map_err(told)?;
        Ok((header[4], body))
    };
    ask(&mut stream, wire::STARTUP, &wire::startup_body())?;
    for statement in statements {
        let (opcode, body) = ask(&mut stream, wire::QUERY, &wire::query_body(4, statement.as_bytes()))?;
        if opcode == wire::ERROR {
            return Err(format!("{statement}: {}", String::from_utf8_lossy(&body)));
        }
    }
    Ok(stream)
}
