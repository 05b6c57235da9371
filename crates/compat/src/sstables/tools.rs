//! Cassandra's offline tools over the node's files: `sstabledump` and `sstablemetadata` print what `messina sstable dump` and
//! `metadata` print, and `sstableverify` accepts them. One Java machine runs all of them (`cassandra/RunTools.java`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::ours::of_name;
use super::{AllHanded, Exchange, data_files, json};
use crate::suite::Report;
use crate::{cassandra, command, paths};

const LIMIT: Duration = Duration::from_secs(900);
const DUMP: &str = "org.apache.cassandra.tools.SSTableExport";
const METADATA: &str = "org.apache.cassandra.tools.SSTableMetadataViewer";
/// How `sstabledump` ends at a clustering value that is null.
const NULL_VALUE: &str = "java.lang.NullPointerException: Cannot invoke \"java.nio.ByteBuffer.";
const VERIFY: &str = "org.apache.cassandra.tools.StandaloneVerifier";

/// Where a tool's screen is, and the code that it ended with.
struct Screen {
    path: PathBuf,
    code: i32,
    why: String,
}

/// Runs the tools over every file, with the folder of the Cassandra that imported them: the verifier reads its schema.
pub fn run(exchange: &Exchange<'_>, handed: &AllHanded, cassandra: &Path, report: &mut Report) {
    let mut screens = BTreeMap::new();
    report.test("sstables::cassandra_tools", || {
        screens = screens_of(exchange, handed, cassandra)?;
        Ok(format!("{} screens", screens.len()))
    });
    for ((keyspace, table), handed) in handed {
        let name = format!("{keyspace}.{table}");
        report.test(&format!("sstables::tools {name}"), || {
            let files = data_files(&handed.folder);
            let mut partitions = 0;
            let schema = of_name(&exchange.schemas, table)?;
            let with_nulls = schema.has_null_clusterings();
            // Cassandra has written what was added to imported counters.
            let written = usize::from(schema.counts());
            for file in &files {
                metadata(exchange, file, &said(&screens, &format!("metadata {}", file.display()))?)?;
                let theirs = said(&screens, &format!("dump {}", file.display()));
                partitions += match (theirs, with_nulls) {
                    // Cassandra's tool ends there.
                    (Err(why), true) if why.contains(NULL_VALUE) => dumped(exchange, file)?,
                    (theirs, _) => dump(exchange, file, &theirs?)?,
                };
            }
            tool_of_ours(exchange, "verify", &handed.folder)?;
            verified(&said(&screens, &format!("verify {name}"))?, files.len() + written)?;
            Ok(format!("{} files, {partitions} partitions", files.len()))
        });
    }
}

/// The text of a screen whose tool was content.
fn said(screens: &BTreeMap<String, Screen>, name: &str) -> Result<String, String> {
    let screen = screens.get(name).ok_or_else(|| format!("{name} was not run"))?;
    let text = command::read(&screen.path)?;
    match screen.code {
        0 => Ok(text),
        code => Err(format!("{name} ended with {code} {}:\n{}", screen.why, command::tail(&text, 30))),
    }
}

fn screens_of(
    exchange: &Exchange<'_>,
    handed: &AllHanded,
    cassandra: &Path,
) -> Result<BTreeMap<String, Screen>, String> {
    let folder = exchange.folder("screens");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut asked = Vec::new();
    for ((keyspace, table), handed) in handed {
        for file in data_files(&handed.folder) {
            asked.push((
                format!("dump {}", file.display()),
                vec![DUMP.to_owned(), file.display().to_string()],
            ));
            asked.push((
                format!("metadata {}", file.display()),
                vec![METADATA.to_owned(), file.display().to_string()],
            ));
        }
        let words = [VERIFY, "--extended", "--force", keyspace, table].map(str::to_owned);
        asked.push((format!("verify {keyspace}.{table}"), words.to_vec()));
    }
    // The verifier starts more of Cassandra than the others expect.
    asked.sort_by_key(|(name, _)| name.starts_with("verify"));
    let lines: Vec<String> = asked
        .iter()
        .enumerate()
        .map(|(at, (_, words))| format!("{}\t{}", folder.join(at.to_string()).display(), words.join("\t")))
        .collect();
    let list = folder.join("lines");
    fs::write(&list, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", list.display()))?;
    let program = paths::resources().join("cassandra/RunTools.java").display().to_string();
    let mut tool = cassandra::tool(cassandra, &program, &[list.display().to_string()])?;
    let text = command::run(&mut tool, &folder.join("tools.log"), LIMIT)?;
    let mut screens = BTreeMap::new();
    for (at, (name, _)) in asked.into_iter().enumerate() {
        let path = folder.join(at.to_string());
        let shown = path.display().to_string();
        let line = text.lines().find_map(|line| {
            let (code, rest) = line.split_once(' ')?;
            let why = rest.strip_prefix(&shown).filter(|why| why.is_empty() || why.starts_with(' '))?;
            Some((code.parse().ok()?, why.to_owned()))
        });
        let (code, why) = line.ok_or_else(|| format!("{name} did not run:\n{}", command::tail(&text, 20)))?;
        screens.insert(name, Screen { path, code, why });
    }
    Ok(screens)
}

/// Compares the two dumps; says how many partitions there were.
fn dump(exchange: &Exchange<'_>, file: &Path, theirs: &str) -> Result<usize, String> {
    let ours = tool_of_ours(exchange, "dump", file)?;
    let told = |error: String| format!("{}: {error}", file.display());
    let theirs = json::parse(theirs).map_err(|error| told(format!("sstabledump: {error}")))?;
    let ours = json::parse(&ours).map_err(told)?;
    if let Some(difference) = json::difference(&ours, &theirs) {
        return Err(told(difference));
    }
    partitions_of(file, &ours)
}

/// How many partitions our dump holds.
fn dumped(exchange: &Exchange<'_>, file: &Path) -> Result<usize, String> {
    let ours = tool_of_ours(exchange, "dump", file)?;
    partitions_of(file, &json::parse(&ours).map_err(|error| format!("{}: {error}", file.display()))?)
}

fn partitions_of(file: &Path, dump: &json::Json) -> Result<usize, String> {
    match dump {
        json::Json::List(partitions) if !partitions.is_empty() => Ok(partitions.len()),
        _ => Err(format!("{}: no partition was dumped", file.display())),
    }
}

/// What sstablemetadata tells of the time since the file was written.
const OF_NOW: &str = "Estimated droppable tombstones:";

/// Both screens are the same, line by line, but for what follows from the time of looking.
fn metadata(exchange: &Exchange<'_>, file: &Path, theirs: &str) -> Result<(), String> {
    let ours = tool_of_ours(exchange, "metadata", file)?;
    let lasting = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with(OF_NOW)).map(str::to_owned).collect()
    };
    let (ours, theirs) = (lasting(&ours), lasting(theirs));
    let differs = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    if let Some((ours, theirs)) = differs {
        return Err(format!("{}: {ours:?} here, {theirs:?} there", file.display()));
    }
    match (ours.len(), theirs.len()) {
        (0, _) => Err(format!("{}: an empty screen", file.display())),
        (ours, theirs) if ours != theirs => {
            Err(format!("{}: {ours} lines here, {theirs} there", file.display()))
        }
        _ => Ok(()),
    }
}

/// The verifier has looked at all files and was content with each.
fn verified(screen: &str, files: usize) -> Result<(), String> {
    let count = |words: &str| screen.lines().filter(|line| line.contains(words)).count();
    match (count("Verifying "), count("succeeded. All ")) {
        (begun, ended) if begun == files && ended == files => Ok(()),
        (begun, ended) => {
            let tail = command::tail(screen, 30);
            Err(format!("sstableverify looked at {begun} of {files} files and accepted {ended}:\n{tail}"))
        }
    }
}

/// Runs `messina sstable WORD` on a file or a folder; its screen, when it is content.
pub fn tool_of_ours(exchange: &Exchange<'_>, word: &str, path: &Path) -> Result<String, String> {
    let mut tool = Command::new(&exchange.options.binary);
    tool.args(["sstable", word]).arg(path);
    command::run(&mut tool, &exchange.folder("tool.log"), LIMIT)
}
