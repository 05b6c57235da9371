//! Files of statements and what a server answers to them.
//!
//! ```text
//! -- version: 4            alone in its block: for the rest of the file
//! -- user: alice           the same, in files of `guarded`: who is logged in, with the name as password
//!
//! CREATE TABLE t (k int PRIMARY KEY, v text);
//! INSERT INTO t (k, v) VALUES (1, 'a');      a block without `----`: each line ends a statement, all must succeed
//!
//! -- page: 2               in front of a statement: for that statement
//! -- startup: NAME=VALUE   the same: its connection begins with that option
//! SELECT * FROM t
//! ----
//! k int | v text           what Apache Cassandra answers
//! 1 | 'a'
//! ---- messina             only with `-- differs: why`: what this database answers instead
//! …
//! ```
//! Blocks are parted by empty lines. A file that is read and written again without changes stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

/// What comment lines in front of a statement ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Directives {
    /// `version: N`: the protocol's version.
    pub version: Option<u8>,
    /// `user: NAME`: who is logged in.
    pub user: Option<String>,
    /// `startup: NAME=VALUE`: an option with which the connection begins.
    pub startup: Option<(String, String)>,
    /// `page: N`: rows of a page; all pages are read.
    pub page: Option<i32>,
    /// `bind: 1, 'a', null, unset`: prepares, and executes with these values.
    pub bind: Option<String>,
    /// `prepare`: prepares only, and shows the markers.
    pub prepare: bool,
    /// `unordered`: rows are sorted before they are compared.
    pub unordered: bool,
    /// `consistency: SERIAL`: the level, ONE if nothing is said.
    pub consistency: Option<u16>,
    /// `serial: LOCAL_SERIAL`: the serial level.
    pub serial: Option<u16>,
    /// `batch: logged`, `unlogged`, `counter`: the statements, each ended by `;`, in one BATCH message of this kind.
    pub batch: Option<u8>,
    /// `shape`: values other than null are shown as `…`.
    pub shape: bool,
    /// `differs: why`: this database answers otherwise.
    pub differs: Option<String>,
    /// `worded: why`: this database refuses for the same reason, in other words.
    pub worded: Option<String>,
}

impl Directives {
    /// Takes in one comment line; what is no directive is a remark.
    fn read(&mut self, line: &str) -> Result<(), String> {
        let text = line.trim_start_matches("--").trim();
        let (word, value) = text.split_once(':').map_or((text, ""), |(word, value)| (word, value.trim()));
        let number = || value.parse::<i32>().map_err(|_| format!("{value} is not a number"));
        match word {
            "version" => self.version = Some(number()? as u8),
            "user" if value.is_empty() => return Err("user needs a name".into()),
            "user" => self.user = Some(value.into()),
            "startup" => {
                let (name, value) = value.split_once('=').ok_or("startup needs NAME=VALUE")?;
                self.startup = Some((name.into(), value.into()));
            }
            "page" => self.page = Some(number()?),
            "bind" => self.bind = Some(value.into()),
            "prepare" => self.prepare = true,
            "unordered" => self.unordered = true,
            "consistency" => self.consistency = Some(level(value)?),
            "serial" => self.serial = Some(level(value)?),
            "batch" => {
                let kind = ["logged", "unlogged", "counter"].iter().position(|kind| *kind == value);
                self.batch = Some(kind.ok_or_else(|| format!("{value} is no kind of batch"))? as u8);
            }
            "shape" => self.shape = true,
            "differs" if value.is_empty() => return Err("differs needs a reason".into()),
            "differs" => self.differs = Some(value.into()),
            "worded" if value.is_empty() => return Err("worded needs a reason".into()),
            "worded" => self.worded = Some(value.into()),
            _ => {}
        }
        Ok(())
    }
}

/// The protocol's levels by their numbers.
const LEVELS: [&str; 11] = [
    "ANY",
    "ONE",
    "TWO",
    "THREE",
    "QUORUM",
    "ALL",
    "LOCAL_QUORUM",
    "EACH_QUORUM",
    "SERIAL",
    "LOCAL_SERIAL",
    "LOCAL_ONE",
];

fn level(name: &str) -> Result<u16, String> {
    let number = LEVELS.iter().position(|level| *level == name);
    number.map(|number| number as u16).ok_or_else(|| format!("{name} is no consistency level"))
}

/// A statement with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Comment lines as written.
    pub comments: Vec<String>,
    /// What they ask for.
    pub directives: Directives,
    /// The statement, lines joined by line ends.
    pub statement: String,
    /// Apache Cassandra's answer.
    pub expected: Vec<String>,
    /// This database's answer where it differs.
    pub ours: Option<Vec<String>>,
    /// Line of the statement in its file, from 1.
    pub line: usize,
}

/// A part of a file between empty lines.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Comments, with what they ask for from here on.
    Comments(Vec<String>, Directives),
    /// Statements that must succeed, with the lines they were written as.
    Setup(Vec<String>, Vec<String>),
    /// A statement with its answer.
    Case(Box<Case>),
}

/// A file of statements.
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// Its parts in order.
    pub blocks: Vec<Block>,
}

const ANSWER: &str = "----";
const OURS: &str = "---- messina";

impl File {
    /// Reads and parses; an error names file and line.
    pub fn open(path: &Path) -> Result<File, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let blocks = parse(&text).map_err(|error| format!("{}:{error}", path.display()))?;
        Ok(File { path: path.into(), blocks })
    }

    /// The file's name without its extension, fit for a keyspace's name.
    pub fn name(&self) -> String {
        self.path.file_stem().map(|stem| stem.to_string_lossy().replace('-', "_")).unwrap_or_default()
    }

    /// Writes all blocks back.
    pub fn save(&self) -> Result<(), String> {
        fs::write(&self.path, format(&self.blocks))
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

fn parse(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let ended = text.lines().chain([""]).enumerate();
    for (index, line) in ended {
        if !line.trim().is_empty() {
            lines.push(line.trim_end().to_owned());
            continue;
        }
        if !lines.is_empty() {
            let first = index + 1 - lines.len();
            blocks
                .push(block(std::mem::take(&mut lines), first).map_err(|error| format!("{first}: {error}"))?);
        }
    }
    Ok(blocks)
}

fn block(lines: Vec<String>, first: usize) -> Result<Block, String> {
    let comments: Vec<String> =
        lines.iter().take_while(|line| line.starts_with("--") && *line != ANSWER).cloned().collect();
    let mut directives = Directives::default();
    comments.iter().try_for_each(|line| directives.read(line))?;
    let rest = &lines[comments.len()..];
    if rest.is_empty() {
        return Ok(Block::Comments(lines, directives));
    }
    let Some(at) = rest.iter().position(|line| line == ANSWER) else {
        return Ok(Block::Setup(statements(rest)?, lines));
    };
    let (statement, answer) = (rest[..at].join("\n"), &rest[at + 1..]);
    let mut parts = answer.splitn(2, |line| line == OURS);
    let expected = parts.next().unwrap_or_default().to_vec();
    let ours = parts.next().map(<[String]>::to_vec);
    if ours.is_some() && directives.differs.is_none() {
        return Err(format!("`{OURS}` needs a reason: `-- differs: why`"));
    }
    let line = first + comments.len();
    Ok(Block::Case(Box::new(Case { comments, directives, statement, expected, ours, line })))
}

/// Statements that each end with `;` at the end of a line.
pub fn statements(lines: &[String]) -> Result<Vec<String>, String> {
    let mut out = vec![String::new()];
    for line in lines.iter().filter(|line| !line.starts_with("--")) {
        let last = out.last_mut().expect("there is one");
        if !last.is_empty() {
            last.push('\n');
        }
        match line.strip_suffix(';') {
            Some(line) => {
                last.push_str(line);
                out.push(String::new());
            }
            None => last.push_str(line),
        }
    }
    match out.pop() {
        Some(rest) if rest.is_empty() => Ok(out),
        _ => Err("a statement without `----` must end with `;`".into()),
    }
}

fn format(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        if !out.is_empty() {
            out.push('\n');
        }
        let mut put = |line: &str| {
            out.push_str(line);
            out.push('\n');
        };
        match block {
            Block::Comments(lines, _) | Block::Setup(_, lines) => lines.iter().for_each(|line| put(line)),
            Block::Case(case) => {
                case.comments.iter().for_each(|line| put(line));
                put(&case.statement);
                put(ANSWER);
                case.expected.iter().for_each(|line| put(line));
                if let Some(ours) = &case.ours {
                    put(OURS);
                    ours.iter().for_each(|line| put(line));
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "-- version: 4\n\nCREATE TABLE t (\n  k int PRIMARY KEY);\nINSERT INTO t (k) VALUES (1);\n\n\
        -- page: 2\n-- differs: the reason\nSELECT *\nFROM t\n----\nk int\n1\n---- messina\nerror: 0x2200 no\n";

    #[test]
    fn a_file_comes_back_as_it_was() {
        let blocks = parse(TEXT).expect("it parses");
        assert_eq!(format(&blocks), TEXT);
        let Block::Setup(statements, _) = &blocks[1] else { panic!("a block without an answer") };
        assert_eq!(
            statements[..],
            ["CREATE TABLE t (\n  k int PRIMARY KEY)", "INSERT INTO t (k) VALUES (1)"]
        );
        let Block::Case(case) = &blocks[2] else { panic!("a block with an answer") };
        assert_eq!((case.line, case.statement.as_str()), (9, "SELECT *\nFROM t"));
        assert_eq!((case.directives.page, case.directives.differs.as_deref()), (Some(2), Some("the reason")));
        assert_eq!(case.expected[..], ["k int", "1"]);
        assert_eq!(case.ours.as_deref(), Some(&["error: 0x2200 no".to_owned()][..]));
    }

    #[test]
    fn mistakes_are_found() {
        assert!(parse("-- page: x\nSELECT 1\n----\n").is_err());
        assert!(parse("SELECT 1\n").is_err(), "no answer and no semicolon");
        assert!(parse("SELECT 1\n----\nok\n---- messina\nno\n").is_err(), "no reason");
    }
}
