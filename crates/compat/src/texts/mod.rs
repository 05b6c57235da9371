//! Texts of values at their edges: what becomes of every type in `CAST AS text`, in JSON, in literals, and in conversions,
//! here and in Apache Cassandra 5.0.
//!
//! ```text
//! edges   bytes of values  ── bound ──► a row ── selections of it: casts, toJson, functions, arithmetic
//!                                         └──── SELECT JSON ── INSERT JSON of that ──► the same bytes?
//! forms   literals, JSON   ── written ─► a row ── its bytes
//! ```
//! Without `--quick` both databases are asked, side by side. With it a part of the cases is asked of this one alone, and
//! compared with Cassandra's answers of `crates/compat/texts/answers.txt`, which `--against cassandra --bless` writes. Of
//! errors the codes are compared. What differs on purpose is listed in `differences`, and its reason in
//! `docs/operating/differences.md`, word for word.

mod bytes;
mod differences;
mod edges;
mod forms;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cql::client::{Answer, Client, Parameters, Prepared, Value};
use crate::suite::{Options, Report};
use crate::{cassandra, paths};
use bytes::hex;
use forms::Form;

/// Asks and compares.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let name = |part: &str| format!("texts::{part} --smp {shards}");
    let mut started = Vec::new();
    let mut asked = None;
    report.test(&name("ask"), || {
        let address = match options.at {
            Some(address) => address,
            None => {
                started.push(options.server("texts", shards)?);
                started.last().expect("it was just started").address
            }
        };
        let answers = ask(address, options)?;
        let note = format!("{} answers", answers.len());
        asked = Some(answers);
        Ok(note)
    });
    let Some(asked) = asked else { return };
    if options.bless && options.against_cassandra {
        return report.test(&name("bless"), || save(&asked));
    }
    let mut expected = None;
    report.test(&name("expect"), || {
        let answers = if options.quick || options.against_cassandra {
            recorded()?
        } else {
            let peer = match options.peer {
                Some(address) => address,
                None => {
                    started.push(cassandra::start(&options.folder("texts-cassandra")?)?);
                    started.last().expect("it was just started").address
                }
            };
            ask(peer, options)?
        };
        let note = format!("{} answers", answers.len());
        expected = Some(answers);
        Ok(note)
    });
    if let Some(expected) = expected {
        report.test(&name("compare"), || compare(&asked, &expected));
    }
    report.test(&name("differences_are_listed"), differences::are_listed);
    for mut server in started {
        report.test(&name("stop"), || server.stop().map(|()| String::new()));
    }
}

/// A case: the type, what is asked, the value. In the order of these.
type Case = (String, String, String);
/// What was answered: bytes, a text, or an error's code.
type Answers = BTreeMap<Case, String>;

/// Of the cases of a type one in so many is asked by `--quick`; no divisor of the lengths of lists in `edges`.
const QUICK_STEP: usize = 19;

fn is_quick(options: &Options) -> bool {
    options.quick || options.against_cassandra
}

fn ask(address: SocketAddr, options: &Options) -> Result<Answers, String> {
    let mut session = Session::open(address)?;
    let only = options.only.as_deref();
    for (index, form) in forms::all()?.iter().enumerate() {
        if only.is_none_or(|word| form.ty.contains(word)) {
            session.ask_form(index, form, if is_quick(options) { QUICK_STEP } else { 1 })?;
        }
    }
    Ok(session.answers)
}

/// One connection, and what was answered so far.
struct Session {
    address: SocketAddr,
    client: Client,
    answers: Answers,
    /// The next row's key.
    row: i32,
}

/// Stands for the code of an error when there was no answer.
const BROKEN: u32 = u32::MAX;
const KEYSPACE: &str = "compat_texts";

impl Session {
    fn open(address: SocketAddr) -> Result<Session, String> {
        let client = Client::connect(address, 4)?;
        let mut session = Session { address, client, answers: Answers::new(), row: 0 };
        for statement in [
            format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"),
            format!(
                "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ),
            format!("CREATE TYPE {KEYSPACE}.u (a int, b text)"),
            format!("USE {KEYSPACE}"),
        ] {
            session.must(&statement)?;
        }
        Ok(session)
    }

    fn must(&mut self, statement: &str) -> Result<(), String> {
        match self.client.query(statement, &Parameters::default())?.0 {
            Answer::Error(code, text) => Err(format!("{statement}: 0x{code:04X} {text}")),
            _ => Ok(()),
        }
    }

    /// A statement by its text; one that breaks the connection is an answer, too.
    fn query(&mut self, statement: &str) -> Result<Answer, String> {
        match self.client.query(statement, &Parameters::default()) {
            Ok((answer, _)) => Ok(answer),
            Err(error) => self.broken(&error),
        }
    }

    fn execute(&mut self, prepared: &Prepared, values: Vec<Value>) -> Result<Answer, String> {
        match self.client.execute(prepared, &Parameters { values, ..Parameters::default() }) {
            Ok((answer, _)) => Ok(answer),
            Err(error) => self.broken(&error),
        }
    }

    fn broken(&mut self, error: &str) -> Result<Answer, String> {
        self.client = Client::connect(self.address, 4)?;
        self.must(&format!("USE {KEYSPACE}"))?;
        Ok(Answer::Error(BROKEN, error.to_owned()))
    }

    fn next_row(&mut self) -> i32 {
        self.row += 1;
        self.row
    }

    fn prepare(&mut self, statement: &str) -> Result<Result<Prepared, String>, String> {
        Ok(match self.client.prepare(statement)?.0 {
            Answer::Prepared(prepared) => Ok(prepared),
            answer => Err(shown(&answer)),
        })
    }

    fn ask_form(&mut self, index: usize, form: &Form, step: usize) -> Result<(), String> {
        let table = format!("t{index}");
        self.must(&format!("CREATE TABLE {table} (k int PRIMARY KEY, v {})", form.ty))?;
        let read = self.prepare(&format!("SELECT v FROM {table} WHERE k = ?"))??;
        let read_json = self.prepare(&format!("SELECT JSON v FROM {table} WHERE k = ?"))??;
        let insert = self.prepare(&format!("INSERT INTO {table} (k, v) VALUES (?, ?)"))??;
        let mut selects = Vec::new();
        for select in &form.selects {
            match self.prepare(&format!("SELECT {select} FROM {table} WHERE k = ?"))? {
                Ok(prepared) => selects.push((select, prepared)),
                Err(refused) => self.note(form, select, "", refused),
            }
        }
        for value in edges::of(form.ty).into_iter().step_by(step) {
            let shown_value = hex(&value);
            let row = self.next_row();
            let answer = self.execute(&insert, vec![int(row), Value::Bytes(value)])?;
            if let Answer::Error(..) = answer {
                self.note(form, "bind", &shown_value, shown(&answer));
                continue;
            }
            let answer = self.execute(&read, vec![int(row)])?;
            self.note(form, "bind", &shown_value, shown(&answer));
            for (select, prepared) in &selects {
                let answer = self.execute(prepared, vec![int(row)])?;
                self.note(form, select, &shown_value, shown(&answer));
            }
            let json = self.execute(&read_json, vec![int(row)])?;
            self.note(form, "SELECT JSON", &shown_value, shown(&json));
            self.write_json_back(form, &table, &shown_value, &json, &read)?;
        }
        for literal in form.literals.iter().step_by(step.div_ceil(3)) {
            let row = self.next_row();
            let answer = self.query(&format!("INSERT INTO {table} (k, v) VALUES ({row}, {literal})"))?;
            self.read_back(form, "literal", literal, answer, &read)?;
        }
        for json in form.json.iter().step_by(step.div_ceil(3)) {
            let row = self.next_row();
            let object = format!("{{\"k\": {row}, \"v\": {json}}}");
            let answer = self.query(&insert_json(&table, &object))?;
            self.read_back(form, "JSON", json, answer, &read)?;
        }
        self.must(&format!("DROP TABLE {table}"))
    }

    /// What SELECT JSON gave must be the same value again.
    fn write_json_back(
        &mut self,
        form: &Form,
        table: &str,
        value: &str,
        json: &Answer,
        read: &Prepared,
    ) -> Result<(), String> {
        let Answer::Rows { rows, .. } = json else { return Ok(()) };
        let Some(Some(text)) = rows.first().and_then(|row| row.first()) else { return Ok(()) };
        let row = self.next_row();
        let text = String::from_utf8_lossy(text).replacen('{', &format!("{{\"k\": {row}, "), 1);
        let answer = self.query(&insert_json(table, &text))?;
        self.read_back(form, "INSERT JSON of SELECT JSON", value, answer, read)
    }

    /// Notes the bytes of what a statement wrote into the newest row, or its error.
    fn read_back(
        &mut self,
        form: &Form,
        asked: &str,
        value: &str,
        answer: Answer,
        read: &Prepared,
    ) -> Result<(), String> {
        let answer = match answer {
            Answer::Error(..) => answer,
            _ => self.execute(read, vec![int(self.row)])?,
        };
        self.note(form, asked, value, shown(&answer));
        Ok(())
    }

    fn note(&mut self, form: &Form, asked: &str, value: &str, answer: String) {
        self.answers.insert((form.ty.to_owned(), asked.to_owned(), escaped(value)), answer);
    }
}

fn insert_json(table: &str, object: &str) -> String {
    format!("INSERT INTO {table} JSON '{}'", object.replace('\'', "''"))
}

fn int(n: i32) -> Value {
    Value::Bytes(n.to_be_bytes().to_vec())
}

/// An answer on one line: texts as they are, other values in hexadecimal, errors by their code.
fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Error(BROKEN, text) => format!("connection: {text}"),
        Answer::Error(code, _) => format!("error 0x{code:04X}"),
        Answer::Rows { columns, rows, .. } => {
            let (Some(column), Some(row)) = (columns.first(), rows.first()) else { return "no row".into() };
            let is_text = matches!(column.ty.text().as_str(), "text" | "ascii");
            match row.first() {
                Some(Some(bytes)) if is_text => match std::str::from_utf8(bytes) {
                    Ok(text) => format!("\"{}\"", escaped(text)),
                    Err(_) => hex(bytes),
                },
                Some(Some(bytes)) => hex(bytes),
                _ => "null".into(),
            }
        }
        _ => "ok".into(),
    }
}

/// Without what would break a line of a file, or looks like something else.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Differences that are shown.
const SHOWN: usize = 4000;

fn compare(asked: &Answers, expected: &Answers) -> Result<String, String> {
    let mut failures = Vec::new();
    let (mut listed, mut same) = (0, 0);
    for (case, theirs) in expected {
        let (ty, _, value) = case;
        // What was not written is not asked further; that it was not is a difference of its own.
        let bind = (ty.clone(), "bind".to_owned(), value.clone());
        let unwritten = asked.get(&bind).is_some_and(|answer| answer.starts_with("error"));
        let Some(ours) = asked.get(case) else {
            if !unwritten {
                failures.push(format!("{} | {} | {} was not asked", case.0, case.1, case.2));
            }
            continue;
        };
        if ours == theirs {
            same += 1;
            continue;
        }
        if differences::reason(case, ours, theirs).is_some() {
            listed += 1;
            continue;
        }
        let (ty, question, value) = case;
        failures.push(format!("{ty} | {question} | {value}\n    Cassandra {theirs}\n    Messina   {ours}"));
    }
    if failures.is_empty() {
        return Ok(format!("{same} the same, {listed} different with a reason"));
    }
    let count = failures.len();
    failures.truncate(SHOWN);
    Err(format!("{}\n{count} of {} answers differ", failures.join("\n"), expected.len()))
}

fn answers_path() -> PathBuf {
    paths::resources().join("texts/answers.txt")
}

fn save(answers: &Answers) -> Result<String, String> {
    let path = answers_path();
    let mut text = String::from(
        "# Answers of Apache Cassandra 5.0.6, written by `cargo x compat texts --against cassandra --bless`.\n",
    );
    for ((ty, question, value), answer) in answers {
        text.push_str(&format!("{ty}\t{question}\t{value}\t{answer}\n"));
    }
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(told)?;
    fs::write(&path, text).map_err(told)?;
    Ok(format!("{} answers written", answers.len()))
}

fn recorded() -> Result<Answers, String> {
    let path = answers_path();
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut answers = Answers::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [ty, question, value, answer] = parts[..] else {
            return Err(format!("{}: not four columns: {line}", path.display()));
        };
        answers.insert((ty.into(), question.into(), value.into()), answer.into());
    }
    Ok(answers)
}
