//! Statements of files, one after another, and whether their answers are Apache Cassandra's.
//!
//! The expectation is always what Cassandra 5.0 answers: `--against cassandra --bless` writes it down. Where this
//! database answers otherwise on purpose, the statement is marked `-- differs: why`, holds both answers, and the reason
//! stands in `docs/operating/differences.md`, word for word. An error's code must be the same; a text behind `~` is
//! worded otherwise here, and the reason must be the same: a mistake of syntax at the same place, or a line
//! `-- worded: why` that tells how both come to the same. `--bless` alone writes down those two kinds of differences, and
//! nothing else.
//!
//! Each file runs in a keyspace of its own, made afresh and named `cql_` and the file. Those in `guarded` run on a server with passwords and
//! permissions, as the users that they name; the others on a server with AllowAllAuthorizer, those in `dropped` on one that has
//! `drop_compact_storage_enabled`.

pub mod client;
mod file;
pub mod types;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Answer, Client, Column, Parameters, Value};
use file::{Block, Case, Directives, File};

use crate::paths;
use crate::suite::{Options, Report};

/// Runs every file, each against the server of its kind.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut listed = BTreeMap::new();
    for kind in [Kind::Open, Kind::Guarded, Kind::Dropped] {
        run_kind(kind, options, shards, report, &mut listed);
    }
    report.test("cql::differences_are_listed", || differences_are_listed(&listed));
}

/// What a file runs against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A server with AllowAllAuthorizer.
    Open,
    /// One with passwords and permissions.
    Guarded,
    /// One where COMPACT STORAGE can be dropped.
    Dropped,
}

impl Kind {
    /// The folder of its files below `cql`, and its name in reports.
    fn folder(self) -> &'static str {
        match self {
            Kind::Open => "",
            Kind::Guarded => "guarded",
            Kind::Dropped => "dropped",
        }
    }

    /// What the files expect was told by Cassandra with its stock configuration, whose tables are compacted in tiers. Its caches of roles and
    /// permissions are off: a change is in force at once here.
    fn yaml(self, options: &Options) -> String {
        let stock = match options.against_cassandra {
            true => "",
            false => "default_compaction:\n  class_name: SizeTieredCompactionStrategy\n",
        };
        let guarded = match self {
            Kind::Open => "",
            Kind::Dropped => "drop_compact_storage_enabled: true\n",
            Kind::Guarded => {
                "authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer\n\
                 network_authorizer: CassandraNetworkAuthorizer\npermissions_validity: 0ms\nroles_validity: 0ms\n\
                 credentials_validity: 0ms\n"
            }
        };
        format!("{stock}{guarded}")
    }

    /// Who makes the keyspace of a file.
    fn user(self) -> Option<&'static str> {
        match self {
            Kind::Open | Kind::Dropped => None,
            Kind::Guarded => Some("cassandra"),
        }
    }
}

fn run_kind(
    kind: Kind,
    options: &Options,
    shards: u16,
    report: &mut Report,
    listed: &mut BTreeMap<String, String>,
) {
    let files = match files(kind, options.only.as_deref()) {
        Ok(files) if files.is_empty() => return,
        Ok(files) => files,
        Err(error) => return report.test("cql::files", || Err(error)),
    };
    let mut server = None;
    let mut address = options.at;
    if address.is_none() {
        report.test(&format!("cql::start {} --smp {shards}", kind.folder()), || {
            let started = options.server_with("cql", shards, kind.yaml(options))?;
            wait_for_role(started.address, kind)?;
            address = Some(started.address);
            server = Some(started);
            Ok(String::new())
        });
    }
    let Some(address) = address else { return };
    for path in files {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        report.test(&format!("cql::{name} --smp {shards}"), || {
            let mut file = File::open(&path)?;
            for case in file.blocks.iter().filter_map(as_case) {
                if let Some(why) = &case.directives.differs {
                    listed.insert(why.clone(), format!("{name}:{}", case.line));
                }
            }
            let keyspace = format!("cql_{}", file.name());
            let user = kind.user().map(str::to_owned);
            let mut session = Session { address, clients: BTreeMap::new(), keyspace, user };
            run_file(&mut session, &mut file, options)
        });
    }
    if let Some(mut server) = server {
        report.test(&format!("cql::stop --smp {shards}"), || server.stop().map(|()| String::new()));
    }
}

/// Waits until the server has made its default role: it answers earlier, and the file of roles asks for it.
fn wait_for_role(address: SocketAddr, kind: Kind) -> Result<(), String> {
    let end = Instant::now() + ROLE_WAIT;
    if kind == Kind::Guarded {
        while let Err(error) = Client::connect_as(address, VERSION, kind.user(), None) {
            if end <= Instant::now() {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        return Ok(());
    }
    let mut client = Client::connect(address, VERSION)?;
    while Instant::now() < end {
        let (answer, _) = client.query("SELECT role FROM system_auth.roles", &Parameters::default())?;
        if matches!(&answer, Answer::Rows { rows, .. } if !rows.is_empty()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("no default role after {ROLE_WAIT:?}"))
}

fn as_case(block: &Block) -> Option<&Case> {
    match block {
        Block::Case(case) => Some(case),
        Block::Comments(..) | Block::Setup(..) => None,
    }
}

fn files(kind: Kind, only: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let folder = paths::resources().join("cql").join(kind.folder());
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cql"))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            only.is_none_or(|word| name.contains(word))
        })
        .collect();
    files.sort();
    Ok(files)
}

/// Every reason of a `-- differs:` line stands in the documentation.
fn differences_are_listed(listed: &BTreeMap<String, String>) -> Result<String, String> {
    let path = paths::repository().join("docs/operating/differences.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let missing: Vec<String> = listed
        .iter()
        .filter(|(why, _)| !text.contains(why.as_str()))
        .map(|(why, at)| format!("{at}: `{why}` is not in {}", path.display()))
        .collect();
    if missing.is_empty() { Ok(format!("{} reasons", listed.len())) } else { Err(missing.join("\n")) }
}

/// What a connection of a file is told apart by: protocol version, user, an option of its begin.
type Begun = (u8, Option<String>, Option<(String, String)>);

/// Connections of one file.
struct Session {
    address: SocketAddr,
    clients: BTreeMap<Begun, Client>,
    keyspace: String,
    /// Who asks.
    user: Option<String>,
}

/// The protocol's version where a file does not say.
const VERSION: u8 = 5;
/// How long a server may take to make its default role.
const ROLE_WAIT: Duration = Duration::from_secs(60);
/// Pages after which a statement is taken to have no end.
const PAGES: usize = 10_000;
/// Failures of one file that are shown.
const SHOWN: usize = 60;

impl Session {
    fn client(&mut self, version: u8, startup: Option<&(String, String)>) -> Result<&mut Client, String> {
        let key = (version, self.user.clone(), startup.cloned());
        if !self.clients.contains_key(&key) {
            let mut client = Client::connect_as(self.address, version, self.user.as_deref(), startup)?;
            client.query(&format!("USE {}", self.keyspace), &Parameters::default())?;
            self.clients.insert(key.clone(), client);
        }
        Ok(self.clients.get_mut(&key).expect("it was put there"))
    }

    fn fresh_keyspace(&mut self) -> Result<(), String> {
        let mut client = Client::connect_as(self.address, 4, self.user.as_deref(), None)?;
        let keyspace = &self.keyspace;
        let statements = [
            format!("DROP KEYSPACE IF EXISTS {keyspace}"),
            format!(
                "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', \
                 'replication_factor': 1}}"
            ),
        ];
        for statement in statements {
            if let (Answer::Error(_, text), _) = client.query(&statement, &Parameters::default())? {
                return Err(format!("{statement}: {text}"));
            }
        }
        Ok(())
    }

    /// A statement's answer as lines of text.
    fn lines(&mut self, case: &Case, version: u8) -> Vec<String> {
        match self.ask(case, version) {
            Ok(lines) => lines,
            Err(error) => {
                self.clients.remove(&(version, self.user.clone(), case.directives.startup.clone()));
                vec![format!("connection: {error}")]
            }
        }
    }

    fn ask(&mut self, case: &Case, version: u8) -> Result<Vec<String>, String> {
        let directives = &case.directives;
        let client = self.client(version, directives.startup.as_ref())?;
        let mut parameters = Parameters {
            page: directives.page,
            consistency: directives.consistency,
            serial: directives.serial,
            ..Parameters::default()
        };
        let mut prepared = None;
        if directives.prepare || directives.bind.is_some() {
            match client.prepare(&case.statement)? {
                // Cassandra warns of every statement prepared under USE, and names it by a number.
                (Answer::Prepared(found), _) if directives.prepare => return Ok(shown_prepared(&found)),
                (Answer::Prepared(found), _) => {
                    parameters.values =
                        bound(&found.markers, directives.bind.as_deref().unwrap_or_default())?;
                    prepared = Some(found);
                }
                (answer, warnings) => return Ok(with_warnings(shown(&answer), &warnings)),
            }
        }
        let batched = match directives.batch {
            Some(_) => file::statements(&case.statement.lines().map(str::to_owned).collect::<Vec<_>>())?,
            None => Vec::new(),
        };
        let mut pages = Pages::default();
        for _ in 0..PAGES {
            let (answer, warnings) = match (&prepared, directives.batch) {
                (Some(prepared), _) => client.execute(prepared, &parameters)?,
                (None, Some(kind)) => client.batch(kind, &batched, &parameters)?,
                (None, None) => client.query(&case.statement, &parameters)?,
            };
            let Answer::Rows { columns, rows, next } = answer else {
                return Ok(with_warnings(shown(&answer), &warnings));
            };
            pages.add(&columns, &rows, warnings, directives);
            parameters.state = next;
            if parameters.state.is_none() || directives.page.is_none() {
                return Ok(pages.lines(directives));
            }
        }
        Err("the pages have no end".into())
    }
}

/// Rows of all pages of one statement, as text.
#[derive(Default)]
struct Pages {
    header: String,
    rows: Vec<String>,
    sizes: Vec<usize>,
    warnings: Vec<String>,
}

impl Pages {
    fn add(
        &mut self,
        columns: &[Column],
        rows: &[Vec<Option<Vec<u8>>>],
        warnings: Vec<String>,
        directives: &Directives,
    ) {
        self.header = shown_columns(columns);
        for row in rows {
            let cells = row.iter().zip(columns).map(|(value, column)| match value {
                Some(_) if directives.shape => "…".into(),
                value => column.ty.value(value.as_deref()),
            });
            self.rows.push(cells.collect::<Vec<String>>().join(" | "));
        }
        // A last page without rows says nothing about the answer; Cassandra sends one where it cannot know better.
        if !rows.is_empty() {
            self.sizes.push(rows.len());
        }
        self.warnings.extend(warnings);
    }

    fn lines(mut self, directives: &Directives) -> Vec<String> {
        if directives.unordered {
            self.rows.sort();
        }
        let mut lines = vec![self.header];
        lines.append(&mut self.rows);
        if directives.page.is_some() {
            let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
            lines.push(format!("pages: {}", sizes.join(" ")));
        }
        self.warnings.dedup();
        with_warnings(lines, &self.warnings)
    }
}

fn shown_columns(columns: &[Column]) -> String {
    columns.iter().map(|c| format!("{} {}", c.name, c.ty.text())).collect::<Vec<_>>().join(" | ")
}

fn shown(answer: &Answer) -> Vec<String> {
    vec![match answer {
        Answer::Void => "ok".into(),
        Answer::Rows { columns, .. } | Answer::Prepared(client::Prepared { columns, .. }) => {
            shown_columns(columns)
        }
        Answer::Keyspace(name) => format!("keyspace: {name}"),
        Answer::Schema(words) => format!("schema: {}", words.join(" ")),
        Answer::Error(code, text) => {
            let text = without_signatures(text);
            let text = text.split_whitespace().map(without_port).collect::<Vec<_>>().join(" ");
            format!("error: 0x{code:04X} {text}").trim_end().into()
        }
    }]
}

/// An error without the signatures of the functions it is about, which Cassandra lists in no order.
fn without_signatures(text: &str) -> &str {
    let lists = [" (known type signatures: ", " (can be matched by following signatures: "];
    let cut = lists.iter().filter_map(|list| text.find(list)).min();
    &text[..cut.unwrap_or(text.len())]
}

/// A node's address without its port, which is another one on every run.
fn without_port(word: &str) -> &str {
    match word.strip_prefix("/127.0.0.1:") {
        Some(_) => "/127.0.0.1",
        None => word,
    }
}

fn shown_prepared(prepared: &client::Prepared) -> Vec<String> {
    let key: Vec<String> = prepared.key.iter().map(u16::to_string).collect();
    vec![
        format!("markers: {}", shown_columns(&prepared.markers)).trim_end().into(),
        format!("key: {}", key.join(" ")).trim_end().into(),
        format!("columns: {}", shown_columns(&prepared.columns)).trim_end().into(),
    ]
}

fn with_warnings(mut lines: Vec<String>, warnings: &[String]) -> Vec<String> {
    lines.extend(
        warnings.iter().map(|w| format!("warning: {}", w.split_whitespace().collect::<Vec<_>>().join(" "))),
    );
    lines
}

fn bound(markers: &[Column], text: &str) -> Result<Vec<Value>, String> {
    let values = types::split(text);
    // One value too few or too many is a mistake that a test may make; it is sent as bytes.
    let any = types::Type::Native("blob");
    let types = markers.iter().map(|m| &m.ty).chain(std::iter::repeat(&any));
    values
        .iter()
        .zip(types)
        .map(|(text, ty)| match text.as_str() {
            "null" => Ok(Value::Null),
            "unset" => Ok(Value::Unset),
            text => ty.encode(text).map(Value::Bytes),
        })
        .collect()
}

/// Runs a file's statements in order; an error holds what came otherwise.
fn run_file(session: &mut Session, file: &mut File, options: &Options) -> Result<String, String> {
    session.fresh_keyspace()?;
    let mut version = VERSION;
    let (mut count, mut failures, mut different, mut worded) = (0, Vec::new(), 0, 0);
    for block in &mut file.blocks {
        match block {
            Block::Comments(_, directives) => {
                version = directives.version.unwrap_or(version);
                if directives.user.is_some() {
                    session.user.clone_from(&directives.user);
                }
            }
            Block::Setup(statements, _) => {
                for statement in statements.iter() {
                    let client = session.client(version, None)?;
                    let (answer, _) = client.query(statement, &Parameters::default())?;
                    if let Answer::Error(code, text) = answer {
                        failures.push(format!("{statement}\n    error: 0x{code:04X} {text}"));
                    }
                }
            }
            Block::Case(case) => {
                count += 1;
                let actual = session.lines(case, case.directives.version.unwrap_or(version));
                if options.bless {
                    bless(case, &actual, options.against_cassandra);
                }
                different += usize::from(case.directives.differs.is_some());
                worded += usize::from(case.expected.iter().any(|line| line.contains(WORDED)));
                if let Some(failure) = failure(case, &actual, options.against_cassandra) {
                    failures.push(failure);
                }
            }
        }
    }
    if options.bless {
        file.save()?;
    }
    if failures.is_empty() {
        return Ok(format!(
            "{count} statements: {different} answered otherwise on purpose, {worded} worded otherwise"
        ));
    }
    let more = failures.len().saturating_sub(SHOWN);
    let shown = failures[..failures.len() - more].join("\n");
    Err(format!("{shown}\n{} of {count} statements failed", failures.len()))
}

/// In front of a text that is worded otherwise here.
const WORDED: &str = " ~";

/// A line's beginning that must be the same, and its text; `None` when all of it must.
fn parts(line: &str) -> Option<(&str, &str)> {
    let text = line.strip_prefix("error: 0x")?;
    let (code, text) = text.split_once(' ')?;
    Some((code, text))
}

/// Whether an expected line is met; `exact`: also where it is marked as worded otherwise.
fn same_line(expected: &str, actual: &str, exact: bool) -> bool {
    match (parts(expected), parts(actual)) {
        (Some((code, text)), Some((other, actual))) if text.starts_with('~') => {
            code == other && (!exact || &text[1..] == actual)
        }
        _ => expected == actual,
    }
}

fn same(expected: &[String], actual: &[String], exact: bool) -> bool {
    expected.len() == actual.len() && expected.iter().zip(actual).all(|(e, a)| same_line(e, a, exact))
}

/// Why a statement's answer is not the one its file wants.
fn failure(case: &Case, actual: &[String], cassandra: bool) -> Option<String> {
    let wanted = match (&case.ours, cassandra) {
        (Some(ours), false) => ours,
        _ => &case.expected,
    };
    let told = |what: &str, lines: &[String]| -> String {
        let lines: Vec<String> = lines.iter().map(|line| format!("\n    {line}")).collect();
        format!("{what}{}", lines.concat())
    };
    let at = format!("line {}: {}", case.line, case.statement);
    if !same(wanted, actual, cassandra) {
        return Some(format!("{at}\n{}\n{}", told("  expected", wanted), told("  got", actual)));
    }
    if cassandra {
        return None;
    }
    if case.ours.is_some() && same(&case.expected, actual, false) {
        return Some(format!("{at}\n  does not differ any more"));
    }
    let why = match_of_words(case, actual)?;
    Some(format!("{at}\n  {why}\n{}\n{}", told("  expected", wanted), told("  got", actual)))
}

/// What is wrong with the mark of a text that is worded otherwise.
fn match_of_words(case: &Case, actual: &[String]) -> Option<&'static str> {
    let marked = |line: &String| parts(line).is_some_and(|(_, text)| text.starts_with('~'));
    let (Some(expected), Some(actual)) = (case.expected.iter().find(|line| marked(line)), actual.first())
    else {
        return case.directives.worded.is_some().then_some("is not worded otherwise");
    };
    if same(&case.expected, std::slice::from_ref(actual), true) {
        return Some("is not worded otherwise any more");
    }
    let same_reason = case.directives.worded.is_some() || same_place(expected, actual);
    (!same_reason).then_some("is worded otherwise, and no `-- worded:` says why the reason is the same")
}

/// Whether two mistakes of syntax are at the same place. Cassandra knows no place at the end of a text.
fn same_place(expected: &str, actual: &str) -> bool {
    let place = |line: &str| {
        let (_, rest) = line.split_once("line ")?;
        rest.split_once(' ').map(|(place, _)| place.to_owned())
    };
    match (place(expected), place(actual)) {
        (Some(expected), Some(_)) if expected == "0:-1" => actual.contains("input '<EOF>'"),
        (Some(expected), Some(actual)) => expected == actual,
        _ => false,
    }
}

/// Writes an answer down: Cassandra's as the expectation, ours only where it may differ.
fn bless(case: &mut Case, actual: &[String], cassandra: bool) {
    if cassandra {
        let marked = case.expected.iter().any(|line| line.contains(WORDED));
        case.expected = actual.to_vec();
        if let (true, Some((code, text))) = (marked, actual.first().and_then(|line| parts(line))) {
            case.expected[0] = format!("error: 0x{code}{WORDED}{text}");
        }
        return;
    }
    if case.directives.differs.is_some() {
        case.ours = Some(actual.to_vec());
        return;
    }
    let ([expected], [actual]) = (&case.expected[..], actual) else { return };
    if let (Some((code, text)), Some((ours, actual))) = (parts(expected), parts(actual))
        && code == ours
    {
        let text = text.trim_start_matches('~');
        let mark = if text == actual { " " } else { WORDED };
        case.expected = vec![format!("error: 0x{code}{mark}{text}")];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_must_be_equal_and_texts_where_not_marked() {
        let met = |expected: &str, actual: &str| same_line(expected, actual, false);
        assert!(met("error: 0x2200 no", "error: 0x2200 no"));
        assert!(!met("error: 0x2200 no", "error: 0x2200 nay"));
        assert!(met("error: 0x2200 ~no", "error: 0x2200 nay"));
        assert!(!met("error: 0x2200 ~no", "error: 0x2000 no"));
        assert!(!same_line("error: 0x2200 ~no", "error: 0x2200 nay", true), "Cassandra says what it says");
    }

    #[test]
    fn what_is_worded_otherwise_has_the_same_reason() {
        let syntax = "error: 0x2000 line 1:5 no viable alternative at input 'x'";
        let actual = |text: &str| vec![text.to_owned()];
        let marked = case("error: 0x2000 ~line 1:5 mismatched input 'x'");
        assert_eq!(failure(&marked, &actual(syntax), false), None);
        assert!(failure(&marked, &actual(&syntax.replace("1:5", "1:6")), false).is_some());
        let at_end = case("error: 0x2000 ~line 0:-1 mismatched input '<EOF>'");
        assert_eq!(failure(&at_end, &actual("error: 0x2000 line 1:9 at input '<EOF>'"), false), None);
        assert!(failure(&at_end, &actual(syntax), false).is_some());
        let mut told = case("error: 0x2200 ~no");
        assert!(failure(&told, &actual("error: 0x2200 nay"), false).is_some());
        told.directives.worded = Some("both say no".into());
        assert_eq!(failure(&told, &actual("error: 0x2200 nay"), false), None);
        assert!(failure(&told, &actual("error: 0x2200 no"), false).is_some());
        assert_eq!(failure(&told, &actual("error: 0x2200 no"), true), None);
    }

    #[test]
    fn what_changes_from_run_to_run_is_left_out() {
        let text = "none match (known type signatures: system.abs : (int) -> int)";
        assert_eq!(without_signatures(text), "none match");
        assert_eq!(without_signatures("no (other) text"), "no (other) text");
        assert_eq!(without_port("/127.0.0.1:7000"), "/127.0.0.1");
    }

    fn case(text: &str) -> Case {
        let words = |text: &str| vec![text.to_owned()];
        Case {
            comments: Vec::new(),
            directives: Directives::default(),
            statement: "SELECT".into(),
            expected: words(text),
            ours: None,
            line: 1,
        }
    }

    #[test]
    fn blessing_keeps_what_cassandra_says() {
        let mut asked = case("error: 0x2200 no");
        bless(&mut asked, &["error: 0x2200 nay".into()], false);
        assert_eq!(asked.expected, ["error: 0x2200 ~no"]);
        bless(&mut asked, &["error: 0x2200 never".into()], true);
        assert_eq!(asked.expected, ["error: 0x2200 ~never"]);
        bless(&mut asked, &["error: 0x2000 nay".into()], false);
        assert_eq!(asked.expected, ["error: 0x2200 ~never"], "another code is no other wording");
        assert!(failure(&asked, &["ok".into()], false).is_some());
    }

    #[test]
    fn a_difference_that_is_gone_is_a_failure() {
        let mut asked = case("ok");
        asked.ours = Some(vec!["error: 0x2200 no".into()]);
        assert!(failure(&asked, &["error: 0x2200 no".into()], false).is_none());
        asked.ours = Some(vec!["ok".into()]);
        assert!(failure(&asked, &["ok".into()], false).is_some_and(|text| text.contains("any more")));
    }
}
