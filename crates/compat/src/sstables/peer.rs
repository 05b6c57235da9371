//! A running Apache Cassandra that is given files, filled and asked, and its offline writer.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use super::session::Session;
use crate::server::Server;
use crate::{cassandra, command, nodetool, paths};

const LIMIT: Duration = Duration::from_secs(600);

/// What Cassandra writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Big sstables as Cassandra 4 reads them.
    Nb,
    /// Big sstables of Cassandra 5.
    Oa,
    /// Tries.
    Da,
}

impl Written {
    /// All of them.
    pub const ALL: [Written; 3] = [Written::Nb, Written::Oa, Written::Da];

    /// Letters in the names of files.
    pub fn letters(self) -> &'static str {
        match self {
            Written::Nb => "nb",
            Written::Oa => "oa",
            Written::Da => "da",
        }
    }

    /// `big` or `bti`.
    pub fn format(self) -> &'static str {
        if self == Written::Da { "bti" } else { "big" }
    }

    /// Only with CASSANDRA_4 it writes what Cassandra 4 reads, and then it reads nothing newer.
    pub fn compatibility(self) -> &'static str {
        if self == Written::Nb { "CASSANDRA_4" } else { "NONE" }
    }

    fn yaml(self) -> String {
        format!(
            "authenticator: AllowAllAuthenticator\nstorage_compatibility_mode: {}\nsstable:\n  selected_format: {}\n",
            self.compatibility(),
            self.format()
        )
    }
}

/// One node, and the program that asks it what is no CQL.
pub struct Peer {
    server: Server,
    operator: Operator,
}

/// `cassandra/Operate.java`, which runs as long as the node.
struct Operator {
    child: Child,
    /// Its answers, read by a thread, so that waiting for them has an end.
    said: Receiver<String>,
}

impl Peer {
    /// Starts one that keeps everything in `folder`.
    pub fn start(folder: &Path, written: Written) -> Result<Peer, String> {
        let server = cassandra::start_with(folder, &written.yaml())?;
        let operator = Operator::start(&server)?;
        Ok(Peer { server, operator })
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Session, String> {
        Session::connect(self.server.address)
    }

    /// Has it do what `cassandra/Operate.java` knows, a line each; the first that failed is the error.
    pub fn operate(&mut self, lines: &[String]) -> Result<(), String> {
        lines.iter().try_for_each(|line| self.operate_one(line))
    }

    /// The same for one line.
    pub fn operate_one(&mut self, line: &str) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{line}: {error}");
        let stdin = self.operator.child.stdin.as_mut().ok_or("the operator was ended")?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).map_err(told)?;
        match self.operator.said.recv_timeout(LIMIT) {
            Ok(said) if said.strip_prefix("ok ") == Some(line) => Ok(()),
            Ok(said) => Err(format!("{said}\n{}", self.server.last_words())),
            Err(error) => Err(format!("{line}: {error}\n{}", self.server.last_words())),
        }
    }

    /// The folder of a table's files.
    pub fn table_folder(&self, keyspace: &str, table: &str) -> Result<PathBuf, String> {
        table_folder(&self.server.folder.join("data"), keyspace, table)
    }

    /// Ends it.
    pub fn stop(&mut self) -> Result<(), String> {
        self.operator.stop();
        self.server.stop()
    }
}

impl Operator {
    fn start(server: &Server) -> Result<Operator, String> {
        let folder = server.folder.join("operate");
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(told)?;
        let port = nodetool::jmx_port(server)?.to_string();
        let program = paths::resources().join("cassandra/Operate.java").display().to_string();
        let mut tool = cassandra::tool(&folder, &program, &[port])?;
        let log = File::create(folder.join("operate.log")).map_err(told)?;
        let mut child =
            tool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().map_err(told)?;
        let output = child.stdout.take().ok_or("the operator has no output")?;
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // Nobody listens any more when it is ended.
            lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Ok(Operator { child, said })
    }

    fn stop(&mut self) {
        // It ends with its input.
        drop(self.child.stdin.take());
        if command::wait(&mut self.child, Duration::from_secs(10)).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop();
    }
}

/// `<data>/<keyspace>/<table>-<id>`, of the only table of that name.
pub fn table_folder(data: &Path, keyspace: &str, table: &str) -> Result<PathBuf, String> {
    let folder = data.join(keyspace);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.rsplit_once('-').is_some_and(|(name, _)| name == table)
    };
    paths.find(is_it).ok_or_else(|| format!("{} has no folder of {table}", folder.display()))
}

/// Writes sstables of one version with Cassandra's own offline writer; `lines` are for `cassandra/WriteSstables.java`.
pub fn write_offline(
    folder: &Path,
    lines: &[String],
    formats: &[&str],
    written: Written,
) -> Result<String, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let list = folder.join("lines");
    write(&list, lines)?;
    let program = paths::resources().join("cassandra/WriteSstables.java").display().to_string();
    let mut words = vec![list.display().to_string()];
    words.extend(formats.iter().map(|format| (*format).to_owned()));
    let mut tool = cassandra::tool_of(folder, written.compatibility(), &program, &words)?;
    command::run(&mut tool, &folder.join("write.log"), LIMIT)
}

fn write(path: &Path, lines: &[String]) -> Result<(), String> {
    fs::write(path, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", path.display()))
}
