//! Conversations with a table kept in memory: statements and what they answer, from `testdata/*.txt`.
//!
//! ```text
//! [directives: keyspace ks · bind 1, 'a', null, unset · page 2 · at 1000, step 1000 (microseconds)]
//! statement
//! ----
//! outcome
//! ```
//! Blocks are separated by blank lines. `UPDATE=1` rewrites the outcomes. A file is one conversation: it starts without
//! keyspaces, and every block sees what the blocks before it did. The clock stands at one second unless `at` says,
//! or goes on with every statement by what `step` says, alone in its block.

use crate::{
    BindContext, BoundValue, CasRun, CasStatements, ChangeContext, ClusterFacts, OwnedValue, Page, Plan,
    Prepared, Prior, apply, parse, prepare,
};
use mutation::{Budget, Emit, Key, Mutation, Partition, ReadAnswer, ReadCommand, Resume, Scope, emit};
use proptest::prelude::*;
use schema::{Schema, TableId};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
use types::{CqlType, Value};

/// One node's tables in memory.
struct Node {
    schema: Schema,
    keyspace: Option<String>,
    partitions: BTreeMap<(TableId, Key), Partition>,
    now_micros: i64,
    random: Cell<u64>,
    last_tick: Rc<Cell<i64>>,
    versions: u128,
    /// Microseconds between two statements.
    step_micros: i64,
}

impl Node {
    fn new() -> Node {
        Node {
            schema: Schema::default(),
            keyspace: None,
            partitions: BTreeMap::new(),
            now_micros: 1_000_000,
            random: Cell::new(1),
            last_tick: Rc::default(),
            versions: 0,
            step_micros: 0,
        }
    }

    fn write(&mut self, mutations: &[Mutation]) {
        for mutation in mutations {
            let table = self.schema.table_by_id(mutation.table()).expect("the table exists").clone();
            let view = mutation.view();
            let key = (mutation.table(), Key::new(view.key));
            self.partitions.entry(key).or_default().apply(&table, &view).expect("applies");
        }
    }

    /// What a replica would answer, from the memory of the test.
    fn read(&self, command: &ReadCommand) -> ReadAnswer {
        let mut keys: Vec<Key> = match &command.scope {
            Scope::Keys(keys) => keys.to_vec(),
            Scope::Range(range) => {
                let of_table = self.partitions.keys().filter(|(table, _)| *table == command.table);
                of_table.map(|(_, key)| key.clone()).filter(|k| range.contains(k.token)).collect()
            }
        };
        if let Some(resume) = &command.resume {
            let done = |k: &Key| if resume.after.is_some() { *k < resume.key } else { *k <= resume.key };
            match &command.scope {
                Scope::Range(_) => keys.retain(|k| !done(k)),
                Scope::Keys(_) => {
                    let at = keys.iter().position(|k| *k == resume.key).expect("resumes at a key asked for");
                    keys.drain(..at + usize::from(resume.after.is_none()));
                }
            }
        }
        let mut answer = ReadAnswer::default();
        let nothing = Partition::new();
        let mut keys = keys.iter().peekable();
        while let Some(key) = keys.next() {
            let partition = self.partitions.get(&(command.table, key.clone())).unwrap_or(&nothing);
            let resume = command.resume.as_ref().filter(|r| r.key == *key);
            let taken = resume.map_or(0, |r| r.rows_taken);
            let after = resume.and_then(|r| r.after.as_ref());
            let left = command.row_limit - answer.live_rows;
            let budget = Budget {
                rows: left,
                partition_rows: command.partition_row_limit.saturating_sub(taken),
                bytes: 1 << 20,
                tombstones: u32::MAX,
            };
            if budget.partition_rows == 0 {
                continue;
            }
            let mut partition = partition.clone();
            let table = self.schema.table_by_id(command.table).expect("tables are known");
            partition.hide_dropped(table);
            let emitted = emit(
                &partition,
                &Emit { table: command.table, key, command, after, complete_to: None },
                budget,
            );
            answer.live_rows += emitted.live_rows;
            answer.partitions.extend(emitted.mutation);
            let rows_taken = taken + emitted.live_rows;
            let limit_of_partition = rows_taken >= command.partition_row_limit;
            match emitted.cut_after {
                Some(after) if !limit_of_partition => {
                    answer.stopped = Some(Resume { key: key.clone(), after: Some(after), rows_taken });
                    return answer;
                }
                _ if answer.live_rows >= command.row_limit && keys.peek().is_some() => {
                    answer.stopped = Some(Resume { key: key.clone(), after: None, rows_taken });
                    return answer;
                }
                _ => {}
            }
        }
        answer
    }
}

/// What stands before a statement.
#[derive(Default)]
struct Directives {
    binds: Vec<String>,
    page: Option<u32>,
}

fn run(node: &mut Node, input: &str) -> String {
    node.now_micros += node.step_micros;
    let mut directives = Directives::default();
    let mut statement = String::new();
    for line in input.lines() {
        match line.split_once(' ') {
            Some(("keyspace", name)) if statement.is_empty() => node.keyspace = Some(name.to_string()),
            Some(("bind", values)) if statement.is_empty() => {
                directives.binds = values.split(", ").map(str::to_string).collect();
            }
            Some(("page", rows)) if statement.is_empty() => directives.page = rows.parse().ok(),
            Some(("step", micros)) if statement.is_empty() => {
                node.step_micros = micros.parse().expect("a number");
                return "ok\n".to_string();
            }
            Some(("at", micros)) if statement.is_empty() => {
                node.now_micros = micros.parse().expect("a number")
            }
            _ => {
                statement.push_str(line);
                statement.push('\n');
            }
        }
    }
    match execute(node, statement.trim_end(), &directives) {
        Ok(text) => text,
        Err(error) => format!("{}: {error}\n", error_kind(&error)),
    }
}

fn error_kind(error: &crate::Error) -> &'static str {
    use crate::Error;
    match error {
        Error::Syntax { .. } => "syntax error",
        Error::Invalid { .. } => "invalid",
        Error::Unsupported { .. } => "unsupported",
        Error::Configuration { .. } => "configuration error",
        Error::AlreadyExists { .. } => "already exists",
        Error::Unauthorized { .. } => "unauthorized",
        Error::Function { .. } => "function failure",
        Error::Protocol { .. } => "protocol error",
        Error::Corrupt { .. } => "corrupt",
    }
}

fn execute(node: &mut Node, statement: &str, directives: &Directives) -> crate::Result<String> {
    let prepared = prepare(&node.schema, node.keyspace.as_deref(), parse(statement)?)?;
    let bytes: Vec<Option<Vec<u8>>> = bind_bytes(&prepared, &directives.binds);
    let values: Vec<BoundValue<'_>> = bytes
        .iter()
        .zip(&directives.binds)
        .map(|(bytes, text)| match (bytes, text.as_str()) {
            (Some(bytes), _) => BoundValue::Bytes(bytes),
            (None, "unset") => BoundValue::Unset,
            (None, _) => BoundValue::Null,
        })
        .collect();
    let counter = Cell::new(node.random.get());
    let random = || {
        counter.set(counter.get() + 1);
        counter.get()
    };
    let now_s = (node.now_micros / 1_000_000) as u32;
    let last = node.last_tick.clone();
    let now = node.now_micros * 10;
    let ticks = || {
        last.set(now.max(last.get() + 1));
        last.get()
    };
    let context = BindContext {
        timestamp: node.now_micros,
        now_micros: node.now_micros,
        now_s,
        random: &random,
        ticks: &ticks,
    };
    let out = match &prepared.plan {
        Plan::Select(_) => select(node, &prepared, &values, &context, directives.page)?,
        Plan::Modify(plan) if plan.is_conditional() => {
            decide(node, CasStatements::One(plan.clone()), &values, &context)?
        }
        Plan::Batch(plan) if plan.is_conditional() => {
            decide(node, CasStatements::Batch(plan.clone()), &values, &context)?
        }
        Plan::Modify(plan) => {
            let prior = prior(node, plan.prior_read(&values, &context)?);
            let mut mutations = Vec::new();
            plan.bind_into(&values, &context, &prior, &mut mutations)?;
            node.write(&mutations);
            String::new()
        }
        Plan::Batch(plan) => {
            let prior = prior(node, plan.prior_reads(&values, &context)?);
            let mutations = plan.bind(&values, &context, &prior)?;
            node.write(&mutations);
            String::new()
        }
        Plan::Role(_) => return Err(crate::Error::Unsupported { feature: "roles" }),
        Plan::SchemaChange(change) => {
            node.versions += 1;
            let context = ChangeContext {
                version: node.versions,
                table_id: node.versions,
                now_micros: node.now_micros,
                datacenters: vec!["dc1".to_string()],
                default_compaction: None,
                drop_compact_storage: true,
            };
            match apply(&node.schema, change, &context)? {
                Some(applied) => {
                    node.schema = applied.schema;
                    let event = applied.event;
                    format!(
                        "{} {} {} {}",
                        event.change.name(),
                        event.target.name(),
                        event.keyspace,
                        event.name
                    )
                    .trim_end()
                    .to_string()
                        + "\n"
                }
                None => "nothing\n".to_string(),
            }
        }
        Plan::Use { keyspace } => {
            node.keyspace = Some(keyspace.to_string());
            String::new()
        }
        Plan::Truncate { keyspace, table } => {
            let id = crate::find_table(&node.schema, &keyspace, &table)?.id;
            node.partitions.retain(|(of, _), _| *of != id);
            String::new()
        }
        Plan::Describe(plan) => {
            let facts = ClusterFacts {
                name: "Test".into(),
                partitioner: "Murmur3Partitioner".into(),
                snitch: "SimpleSnitch".into(),
                ranges: Vec::new(),
            };
            let mut out = String::new();
            for row in plan.rows(&node.schema, &facts)? {
                let cells: Vec<String> = row
                    .iter()
                    .map(|c| String::from_utf8_lossy(c.as_deref().unwrap_or(b"null")).into_owned())
                    .collect();
                let _ = writeln!(out, "{}", cells.join(" | "));
            }
            out
        }
    };
    node.random.set(counter.get());
    Ok(if out.is_empty() { "ok\n".to_string() } else { out })
}

/// Runs a conditional request as a coordinator does.
fn decide(
    node: &mut Node,
    statements: CasStatements,
    values: &[BoundValue<'_>],
    context: &BindContext<'_>,
) -> crate::Result<String> {
    let owned = values.iter().map(OwnedValue::of).collect();
    let (now_micros, now_s) = (context.now_micros, context.now_s);
    let context = BindContext { timestamp: now_micros, now_micros, now_s, random: &|| 7, ticks: &|| 0 };
    let run = CasRun::new(statements, vec![owned], context)?;
    let answer = node.read(run.command());
    let decided = run.decide(&answer, now_micros)?;
    let mut rows: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
    match &decided {
        Some(mutation) => node.write(std::slice::from_ref(mutation)),
        None => {
            run.rows(&answer, &mut |row| {
                rows.push(row.iter().map(|cell| cell.map(<[u8]>::to_vec)).collect())
            })?;
        }
    }
    let columns = run.columns(decided.is_some(), rows.len());
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    let mut out = format!("{}\n", names.join(" | "));
    if rows.is_empty() {
        rows.push(Vec::new());
    }
    for row in &rows {
        let cells = row.iter().zip(&columns[1..]).map(|(cell, column)| show(&column.ty, cell.as_deref()));
        let shown: Vec<String> = std::iter::once(decided.is_some().to_string()).chain(cells).collect();
        out.push_str(&shown.join(" | "));
        out.push('\n');
    }
    Ok(out)
}

fn prior(node: &Node, commands: impl IntoIterator<Item = ReadCommand>) -> Prior {
    let mut prior = Prior::default();
    for mut command in commands {
        // Two rows at a time, so that reads go on behind where they stopped.
        command.row_limit = 2;
        loop {
            command.resume = prior.add(node.read(&command));
            if command.resume.is_none() {
                break;
            }
        }
    }
    prior
}

fn bind_bytes(prepared: &Prepared, texts: &[String]) -> Vec<Option<Vec<u8>>> {
    texts
        .iter()
        .enumerate()
        .map(|(index, text)| match text.as_str() {
            "null" | "unset" => None,
            hex if hex.starts_with("raw:") => Some(types::text::parse_hex(&hex[4..]).expect("hex")),
            text => {
                let ty = prepared.binds.get(index).map_or(CqlType::Blob, |spec| spec.ty.clone());
                Some(bound_literal(&ty, text))
            }
        })
        .collect()
}

/// `a+b+c` is a list or tuple, anything else a scalar.
fn bound_literal(ty: &CqlType, text: &str) -> Vec<u8> {
    let parts = text.split('+').filter(|p| !p.is_empty());
    match ty.unfrozen() {
        CqlType::List(e) | CqlType::Set(e) => {
            let items: Vec<Vec<u8>> = parts.map(|p| bound_literal(e, p)).collect();
            types::collection::build(items.iter().map(|i| &i[..]))
        }
        CqlType::Tuple(fields) => {
            let items: Vec<Vec<u8>> = parts.zip(fields.iter()).map(|(p, ty)| bound_literal(ty, p)).collect();
            types::collection::build_tuple(items.iter().map(|i| Some(&i[..])))
        }
        ty => types::literal::from_text(ty, text.trim_matches('\'')).expect("a literal of the marker's type"),
    }
}

fn select(
    node: &Node,
    prepared: &Prepared,
    values: &[BoundValue<'_>],
    context: &BindContext<'_>,
    page: Option<u32>,
) -> crate::Result<String> {
    let Plan::Select(plan) = &prepared.plan else { unreachable!("only called for SELECT") };
    let columns = plan.columns().clone();
    let names: Vec<String> = columns.iter().map(|c| format!("{} {}", c.name, c.ty)).collect();
    let mut out = format!("{}\n", names.join(" | "));
    let mut state = None;
    loop {
        let mut sink = |cells: &[Option<&[u8]>]| {
            let cells: Vec<String> =
                cells.iter().zip(&*columns).map(|(cell, column)| show(&column.ty, *cell)).collect();
            let _ = writeln!(out, "{}", cells.join(" | "));
        };
        let mut run = plan.start(
            values,
            context,
            Page { rows: page, bytes: 1 << 20, tombstones: u32::MAX, state: state.take() },
        )?;
        while let Some(command) = run.next() {
            let answer = node.read(command);
            run.feed(&answer, &mut sink)?;
        }
        state = run.finish(&mut sink)?;
        if state.is_none() {
            return Ok(out);
        }
        out.push_str("-- page\n");
    }
}

fn show(ty: &CqlType, cell: Option<&[u8]>) -> String {
    cell.map_or("null".to_string(), |bytes| match Value::decode(ty, bytes) {
        Ok(value) => value.to_cql(),
        Err(error) => format!("BAD {error}"),
    })
}

/// Runs one file; with `UPDATE=1` writes the outcomes back.
fn converse(name: &str) {
    // Cargo runs a crate's tests in its folder.
    let path = format!("testdata/{name}");
    let text = std::fs::read_to_string(&path).expect("testdata is there");
    let update = std::env::var_os("UPDATE").is_some();
    let mut node = Node::new();
    let mut rewritten = String::new();
    for block in text.split("\n\n").map(str::trim).filter(|b| !b.is_empty()) {
        if block.starts_with('#') {
            let _ = write!(rewritten, "{block}\n\n");
            continue;
        }
        let (input, wanted) = block.split_once("\n----").unwrap_or((block, ""));
        let got = run(&mut node, input).replace("\n\n", "\n");
        let got: String = got.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        let _ = write!(rewritten, "{input}\n----\n{got}\n");
        if !update {
            assert_eq!(got.trim(), wanted.trim(), "{name}:\n{input}");
        }
    }
    if update {
        std::fs::write(&path, rewritten.trim_end().to_string() + "\n").expect("testdata is writable");
    }
}

#[test]
fn schema_statements() {
    converse("schema.txt");
}

#[test]
fn compact_storage() {
    converse("compact.txt");
}

#[test]
fn writes() {
    converse("writes.txt");
}

#[test]
fn conditions() {
    converse("conditions.txt");
}

#[test]
fn reads() {
    converse("reads.txt");
}

#[test]
fn mistakes() {
    converse("mistakes.txt");
}

#[test]
fn user_types() {
    converse("user_types.txt");
}

#[test]
fn altered_tables() {
    converse("alter.txt");
}

#[test]
fn terms() {
    converse("terms.txt");
}

#[test]
fn json() {
    converse("json.txt");
}

#[test]
fn edges() {
    converse("edges.txt");
}

#[test]
fn descriptions() {
    converse("describe.txt");
}

fn node_with(statements: &[&str]) -> Node {
    let mut node = Node::new();
    for statement in statements {
        execute(&mut node, statement, &Directives::default()).expect(statement);
    }
    node
}

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

#[test]
fn a_described_table_creates_itself() {
    let types = "CREATE TYPE u (a int, \"B\" frozen<list<text>>)";
    let mut node = node_with(&[KEYSPACE, "USE ks", types, "CREATE TABLE t0 (k int PRIMARY KEY)"]);
    let texts = [
        "CREATE TABLE t1 (a int, b text, c timeuuid, d date, s int static, \"V\" map<text, frozen<u>>, w vector<float, 3>, \
         x frozen<tuple<int, text>>, y decimal, PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND \
         comment = 'it''s' AND compaction = {'class': 'LeveledCompactionStrategy'} AND compression = {'enabled': 'false'} \
         AND default_time_to_live = 5 AND extensions = {'e': '0xab'} AND speculative_retry = '50ms'",
    ];
    for text in texts {
        execute(&mut node, text, &Directives::default()).expect(text);
    }
    let keyspace = node.schema.keyspace("ks").expect("exists").clone();
    for table in keyspace.tables.values() {
        let described = crate::create_table(table, true);
        let mut copy = node_with(&[KEYSPACE, "USE ks", types]);
        execute(&mut copy, &described, &Directives::default()).expect(&described);
        let copied = copy.schema.table("ks", &table.name).expect("created");
        assert_eq!(crate::create_table(copied, true), described);
    }
}

/// What a snapshot keeps can be run, which what is described cannot: it names the order of a column that no statement may name.
#[test]
fn a_table_with_compact_storage_is_made_again() {
    let mut node = node_with(&[KEYSPACE, "USE ks"]);
    for text in [
        "CREATE TABLE t1 (k int PRIMARY KEY, a int, column1 text, b blob) WITH COMPACT STORAGE AND comment = 'static'",
        "CREATE TABLE t2 (k int, c text, v int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c DESC)",
        "CREATE TABLE t3 (k int, a int, b int, PRIMARY KEY (k, a, b)) WITH COMPACT STORAGE",
        "ALTER TABLE t1 DROP b USING TIMESTAMP 7",
    ] {
        execute(&mut node, text, &Directives::default()).expect(text);
    }
    let keyspace = node.schema.keyspace("ks").expect("exists").clone();
    for table in keyspace.tables.values() {
        let again = crate::create_table_again(table);
        let mut copy = node_with(&[KEYSPACE, "USE ks"]);
        for statement in again.split_inclusive(';').filter(|statement| !statement.trim().is_empty()) {
            execute(&mut copy, statement, &Directives::default()).expect(statement);
        }
        let copied = copy.schema.table("ks", &table.name).expect("created");
        assert_eq!((copied.id, copied.compact), (table.id, table.compact));
        assert_eq!(crate::create_table_again(copied), again);
        assert!(copied.columns().map(|c| (&c.name, c.kind)).eq(table.columns().map(|c| (&c.name, c.kind))));
    }
}

#[test]
fn markers_are_named_as_drivers_expect() {
    let node = node_with(&[
        KEYSPACE,
        "CREATE TABLE ks.t (a int, b text, c int, d int, m map<text, int>, l set<int>, PRIMARY KEY ((a, b), c, d))",
    ]);
    let names = |text: &str| {
        let prepared = prepare(&node.schema, Some("ks"), parse(text).expect(text)).expect(text);
        let names: Vec<String> = prepared.binds.iter().map(|b| format!("{} {}", b.name, b.ty)).collect();
        (names.join("; "), prepared.pk_binds)
    };
    for (text, binds, key) in [
        (
            "SELECT * FROM t WHERE b = ? AND a = ? AND c IN ? AND d > :low PER PARTITION LIMIT ? LIMIT ?",
            "b text; a int; in(c) list<int>; low int; [per_partition_limit] int; [limit] int",
            vec![1, 0],
        ),
        (
            "INSERT INTO t (a, b, c, d, m) VALUES (?, 'x', ?, ?, {'k': ?}) USING TTL ? AND TIMESTAMP ?",
            "a int; c int; d int; value(m) int; [ttl] int; [timestamp] bigint",
            vec![],
        ),
        (
            "SELECT * FROM t WHERE token(a, b) > ? AND token(a, b) <= ?",
            "partition key token bigint; partition key token bigint",
            vec![],
        ),
        (
            "UPDATE t USING TIMEOUT ? SET m[?] = ?, l = l + ? WHERE a = ? AND b = ? AND (c, d) = ?",
            "[timeout] duration; key(m) text; value(m) int; l set<int>; a int; b text; (c,d) frozen<tuple<int, int>>",
            vec![4, 5],
        ),
        (
            "SELECT * FROM t WHERE a = ? AND b IN (?, ?) AND m CONTAINS ? AND m CONTAINS KEY ? ALLOW FILTERING",
            "a int; b text; b text; value(m) int; key(m) text",
            vec![],
        ),
    ] {
        assert_eq!(names(text), (binds.to_string(), key), "{text}");
    }
}

/// Keys are limited to 65,535 bytes, what is compared with them and what lies inside of values is not.
#[test]
fn only_keys_are_limited_to_64_kib() {
    let mut node = node_with(&[
        KEYSPACE,
        "USE ks",
        "CREATE TABLE c (k int, c blob, d blob, v int, PRIMARY KEY (k, c, d))",
        "CREATE TABLE p (p blob, q blob, v int, PRIMARY KEY ((p, q)))",
        "CREATE TABLE s (k int PRIMARY KEY, s set<blob>, m map<blob, int>)",
        "INSERT INTO c (k, c, d, v) VALUES (1, 0x01, 0x01, 1)",
    ]);
    let bytes = |count: usize| format!("0x{}", "61".repeat(count));
    let (big, half) = (bytes(65_536), bytes(32_768));
    let mut ask = |text: String| run(&mut node, &text).trim().replace('\n', " ");
    for text in [
        format!("INSERT INTO s (k, s, m) VALUES (1, {{{big}}}, {{{big}: 1}})"),
        format!("UPDATE s SET m[{big}] = 2, s = s - {{{big}}} WHERE k = 1"),
        format!("DELETE FROM c WHERE k = 1 AND c > {big} AND c < 0x62"),
    ] {
        assert_eq!(ask(text), "ok");
    }
    for (clause, rows) in [
        (format!("c = {big} AND d = 0x01"), "v int"),
        (format!("c > {big}"), "v int"),
        (format!("c < {big}"), "v int 1"),
        (format!("(c, d) < ({half}, {half})"), "v int 1"),
        (format!("c IN (0x01, {big})"), "v int 1"),
    ] {
        assert_eq!(ask(format!("SELECT v FROM c WHERE k = 1 AND {clause}")).trim(), rows);
    }
    let too_long = |bytes| format!("invalid: Key length of {bytes} is longer than maximum of 65535");
    for (text, bytes) in [
        (format!("INSERT INTO c (k, c, d) VALUES (1, {half}, {half})"), 65_536),
        (format!("UPDATE c SET v = 1 WHERE k = 1 AND c IN (0x01, {big}) AND d = 0x0102"), 65_538),
        (format!("DELETE FROM c WHERE k = 1 AND c = {big} AND d = 0x"), 65_536),
        (format!("INSERT INTO p (p, q) VALUES ({big}, 0x01)"), 65_537),
        (format!("SELECT v FROM p WHERE p = {half} AND q = {}", bytes(32_767)), 65_541),
    ] {
        assert_eq!(ask(text), too_long(bytes));
    }
    let refused = ask(format!("DELETE FROM c WHERE k = 1 AND c > {}", bytes(200_000)));
    assert!(refused.starts_with("invalid: a bound of a deletion has 200004 bytes"), "{refused}");
}

#[test]
fn descriptions_come_in_pages_of_one_schema() {
    let node = node_with(&[
        KEYSPACE,
        "CREATE TABLE ks.a (k int PRIMARY KEY)",
        "CREATE TABLE ks.b (k int PRIMARY KEY)",
        "CREATE TABLE ks.c (k int PRIMARY KEY)",
    ]);
    let prepared = prepare(&node.schema, Some("ks"), parse("DESCRIBE TABLES").expect("parses"));
    let Plan::Describe(plan) = prepared.expect("prepares").plan else { panic!("a description") };
    let cluster =
        ClusterFacts { name: "c".into(), partitioner: "p".into(), snitch: "s".into(), ranges: Vec::new() };
    let page = |schema: &Schema, state| {
        plan.page(schema, &cluster, &Page { rows: Some(2), bytes: 0, tombstones: 0, state })
    };
    let (rows, next) = page(&node.schema, None).expect("the first page");
    assert_eq!(rows.len(), 2);
    let (rows, end) = page(&node.schema, next.clone()).expect("the second page");
    assert_eq!((rows.len(), end), (1, None));
    let moved = node.schema.without_keyspace(77, "none");
    let error = page(&moved, next).expect_err("the rows may have moved").to_string();
    assert!(error.starts_with("The schema has changed since the previous page"), "{error}");
    assert!(matches!(page(&node.schema, Some(vec![1, 2])), Err(crate::Error::Protocol { .. })));
}

#[test]
fn others_are_told_of_all_that_a_change_touches() {
    let node = node_with(&[
        KEYSPACE,
        "CREATE TYPE ks.a (x int)",
        "CREATE TYPE ks.b (y frozen<a>)",
        "CREATE TYPE ks.c (y int)",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v frozen<b>)",
        "CREATE TABLE ks.u (k int PRIMARY KEY)",
    ]);
    let told = |statement: &str| {
        let prepared = prepare(&node.schema, None, parse(statement).expect("parses")).expect("prepares");
        let Plan::SchemaChange(change) = &prepared.plan else { panic!("a schema change") };
        let context = ChangeContext {
            version: 9,
            table_id: 9,
            now_micros: 9,
            datacenters: Vec::new(),
            default_compaction: None,
            drop_compact_storage: true,
        };
        let applied = apply(&node.schema, change, &context).expect("applies").expect("changes");
        let events = applied.events(&node.schema).into_iter();
        events.map(|e| format!("{} {} {}", e.change.name(), e.target.name(), e.name)).collect::<Vec<_>>()
    };
    assert_eq!(told("ALTER TYPE ks.a ADD z int"), ["UPDATED TYPE a", "UPDATED TYPE b", "UPDATED TABLE t"]);
    assert_eq!(told("ALTER TABLE ks.u ADD z int"), ["UPDATED TABLE u"]);
    let dropped = ["TABLE t", "TABLE u", "TYPE a", "TYPE b", "TYPE c", "KEYSPACE "];
    assert_eq!(told("DROP KEYSPACE ks"), dropped.map(|what| format!("DROPPED {what}")));
}

#[test]
fn a_column_that_comes_back_has_its_ordinal_again() {
    let mut node = node_with(&[
        KEYSPACE,
        "CREATE TABLE ks.t (k int PRIMARY KEY, a int, b int)",
        "ALTER TABLE ks.t DROP a",
        "ALTER TABLE ks.t ADD a int",
        "ALTER TABLE ks.t ADD c int",
    ]);
    let ordinals = |node: &Node| {
        let table = node.schema.table("ks", "t").expect("exists").clone();
        table.regulars.iter().map(|c| (c.name.to_string(), c.ordinal)).collect::<Vec<_>>()
    };
    let want = |pairs: &[(&str, u16)]| pairs.iter().map(|(n, o)| (n.to_string(), *o)).collect::<Vec<_>>();
    assert_eq!(ordinals(&node), want(&[("a", 0), ("b", 1), ("c", 2)]));
    let error = execute(&mut node, "ALTER TABLE ks.t ADD a text", &Directives::default());
    assert!(error.is_err());
    let table = node.schema.table("ks", "t").expect("exists");
    assert_eq!(table.dropped.iter().map(|d| d.ordinal).collect::<Vec<_>>(), [0]);
    assert_eq!(table.hidden_to(false, 0), table.dropped[0].dropped_at);
    assert_eq!((table.hidden_to(false, 1), table.hidden_to(true, 0)), (i64::MIN, i64::MIN));
}

#[test]
fn a_second_drop_with_an_earlier_time_shows_nothing_again() {
    let node = node_with(&[
        KEYSPACE,
        "CREATE TABLE ks.t (k int PRIMARY KEY, a int, b int)",
        "ALTER TABLE ks.t DROP a USING TIMESTAMP 2000",
        "ALTER TABLE ks.t ADD a int",
        "ALTER TABLE ks.t DROP a USING TIMESTAMP 1000",
        "ALTER TABLE ks.t ADD a int",
    ]);
    assert_eq!(node.schema.table("ks", "t").expect("exists").hidden_to(false, 0), 2000);
}

/// What is written `count` times, with its number for `#`.
fn many(count: usize, text: &str) -> String {
    let each: Vec<String> = (0..count).map(|n| text.replace('#', &n.to_string())).collect();
    each.join(", ")
}

fn refusal(node: &mut Node, statement: &str) -> String {
    match execute(node, statement, &Directives::default()) {
        Ok(outcome) => panic!("{}: {outcome}", &statement[..statement.len().min(200)]),
        Err(error) => error.to_string(),
    }
}

#[test]
fn tables_have_so_many_columns_however_they_come() {
    let mut node = node_with(&[KEYSPACE, "CREATE TABLE ks.t (k int PRIMARY KEY, a int)"]);
    let columns = many(crate::limits::COLUMNS - 1, "c# int");
    let told = "has more than 16384 columns";
    assert!(refusal(&mut node, &format!("ALTER TABLE ks.t ADD ({columns})")).ends_with(told));
    let columns = many(70_000, "c# int");
    assert!(refusal(&mut node, &format!("ALTER TABLE ks.t ADD ({columns})")).ends_with(told));
    assert!(refusal(&mut node, &format!("ALTER TABLE ks.t DROP ({})", many(20_000, "c#"))).ends_with(told));
    assert!(refusal(&mut node, &format!("CREATE TABLE ks.u (k int PRIMARY KEY, {columns})")).ends_with(told));
}

#[test]
fn types_that_could_not_be_read_back_are_refused() {
    let mut node =
        node_with(&[KEYSPACE, "USE ks", "CREATE TABLE t (k int PRIMARY KEY)", "CREATE TYPE u0 (a int)"]);
    let deep = |levels: usize| format!("frozen<{}int{}>", "list<".repeat(levels), ">".repeat(levels));
    let told = "too large: with all types in it";
    for statement in [
        format!("CREATE TABLE d (k int PRIMARY KEY, v {})", deep(40)),
        format!("ALTER TABLE t ADD v {}", deep(40)),
        format!("CREATE TYPE d (v {})", deep(40)),
        format!("CREATE TABLE d (k int PRIMARY KEY, v tuple<{}>)", many(1025, "int")),
        format!("CREATE TYPE d (v tuple<{}>)", many(3, &format!("tuple<{}>", many(1000, "int")))),
    ] {
        let error = refusal(&mut node, &statement);
        assert!(error.contains(told), "{error}");
    }
    // Every level has ten times the fields of the one below.
    let mut levels = 0;
    for level in 1..40 {
        let fields = many(10, &format!("f# frozen<u{}>", level - 1));
        match execute(&mut node, &format!("CREATE TYPE u{level} ({fields})"), &Directives::default()) {
            Ok(_) => levels = level,
            Err(error) => {
                assert!(error.to_string().contains(told), "{error}");
                break;
            }
        }
    }
    assert_eq!(levels, 2);
    // A small type that grows grows whatever uses it.
    let grows = format!("ALTER TYPE u0 ADD b tuple<{}>", many(100, "int"));
    assert!(refusal(&mut node, &grows).contains(told));
    let decoded = Schema::decode(&node.schema.encode()).expect("it can be read back");
    assert_eq!(decoded.encode(), node.schema.encode());
}

#[test]
fn vectors_no_value_fits_are_refused() {
    let mut node =
        node_with(&[KEYSPACE, "USE ks", "CREATE TABLE t (k int PRIMARY KEY, v vector<float, 4194304>)"]);
    for ty in [
        "vector<float, 4194305>",
        "vector<text, 2147483647>",
        "frozen<list<vector<vector<int, 65536>, 65536>>>",
        "'org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 2147483647)'",
    ] {
        let error = refusal(&mut node, &format!("ALTER TABLE t ADD w {ty}"));
        assert!(error.contains("bytes at least, more than the maximum of 16777216"), "{error}");
    }
}

#[test]
fn statements_of_many_parts_are_analysed() {
    let mut node =
        node_with(&[KEYSPACE, "USE ks", "CREATE TABLE t (k int PRIMARY KEY, m map<int, int>, l list<int>)"]);
    let relations = many(100_000, "m CONTAINS #").replace(',', " AND");
    let error = refusal(&mut node, &format!("SELECT * FROM t WHERE {relations} ALLOW FILTERING"));
    assert_eq!(error, "WHERE has more than 1024 relations");
    let error = refusal(&mut node, &format!("UPDATE t SET {} WHERE k = 1", many(70_000, "m[#] = 1")));
    assert!(error.contains("no more than 65535"), "{error}");
    let error = refusal(&mut node, &format!("DELETE {} FROM t WHERE k = 1", many(70_000, "m[#]")));
    assert!(error.contains("no more than 65535"), "{error}");
    let update = format!("UPDATE t SET {} WHERE k = 1", many(20_000, "m[#] = 1"));
    execute(&mut node, &update, &Directives::default()).expect("it is written");
    let key = format!("CREATE TABLE u (k int, PRIMARY KEY (k, {}))", many(200_000, "c#"));
    assert!(refusal(&mut node, &key).contains("Unknown column"));
    let columns = many(4_000, "c# int");
    let table = format!("CREATE TABLE u (k int, {columns}, PRIMARY KEY (k, {}))", many(2_000, "c#"));
    execute(&mut node, &table, &Directives::default()).expect("it is created");
}

#[test]
fn ordinals_end() {
    let mut builder = schema::TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int);
    for round in 0..schema::ORDINALS_MAX {
        builder.add("a", schema::ColumnKind::Regular, CqlType::Int);
        builder.drop_column("a", round as i64);
    }
    let mut builder = builder.build().expect("one ordinal was given").to_builder();
    for round in 0..=schema::ORDINALS_MAX {
        builder.add(&format!("c{round}"), schema::ColumnKind::Regular, CqlType::Int);
    }
    let error = builder.build().expect_err("there are no more").to_string();
    assert!(error.contains("has had 32768 columns"), "{error}");
}

proptest! {
    /// Pages put together are the unpaged answer, whatever the page size, limits and filters.
    #[test]
    fn pages_are_the_whole(
        rows in prop::collection::vec((0..5i32, 0..6i32, 0..4i32), 0..40),
        statics in prop::collection::vec(0..7i32, 0..4),
        deleted in prop::collection::vec((0..5i32, 0..6i32), 0..10),
        page in 1..7u32, which in 0..SELECTS.len(),
    ) {
        let mut node = node_with(&[
            KEYSPACE, "USE ks", "CREATE TABLE t (k int, c int, s int static, v int, m set<int>, PRIMARY KEY (k, c))",
        ]);
        let mut go = |text: String| { execute(&mut node, &text, &Directives::default()).expect("runs"); };
        for (k, c, v) in rows {
            go(format!("INSERT INTO t (k, c, v, m) VALUES ({k}, {c}, {v}, {{{v}, {c}}})"));
        }
        for k in statics {
            go(format!("INSERT INTO t (k, s) VALUES ({k}, {k})"));
        }
        for (k, c) in deleted {
            go(format!("DELETE FROM t USING TIMESTAMP 2000000 WHERE k = {k} AND c = {c}"));
        }
        let whole = execute(&mut node, SELECTS[which], &Directives::default()).expect("runs");
        let paged = Directives { page: Some(page), ..Directives::default() };
        let pages = execute(&mut node, SELECTS[which], &paged).expect("runs").replace("-- page\n", "");
        prop_assert_eq!(whole, pages);
    }

    /// A scalar's literal, read and printed, is the same value.
    #[test]
    fn literals_round_trip(number in any::<i64>(), text in "[ -~]{0,12}", bytes in prop::collection::vec(any::<u8>(), 0..9), real in any::<f64>()) {
        prop_assume!(real.is_finite());
        let cases = [
            (CqlType::Bigint, Value::decode(&CqlType::Bigint, &number.to_be_bytes())),
            (CqlType::Text, Value::decode(&CqlType::Text, text.as_bytes())),
            (CqlType::Blob, Value::decode(&CqlType::Blob, &bytes)),
            (CqlType::Double, Value::decode(&CqlType::Double, &real.to_be_bytes())),
            (CqlType::Varint, Value::decode(&CqlType::Varint, &number.to_be_bytes())),
        ];
        for (ty, value) in cases {
            let value = value.expect("decodes");
            let mut node = node_with(&[KEYSPACE, "USE ks"]);
            let create = format!("CREATE TABLE t (k int PRIMARY KEY, v {ty})");
            execute(&mut node, &create, &Directives::default()).expect("creates");
            let insert = format!("INSERT INTO t (k, v) VALUES (0, {})", value.to_cql());
            execute(&mut node, &insert, &Directives::default()).expect("inserts");
            let got = execute(&mut node, "SELECT v FROM t WHERE k = 0", &Directives::default()).expect("reads");
            prop_assert_eq!(got, format!("v {ty}\n{}\n", value.to_cql()));
        }
    }

    /// Paging states are client's bytes: any of them is refused or resumes, never panics.
    #[test]
    fn foreign_paging_states_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), format in any::<bool>()) {
        let node = node_with(&[KEYSPACE, "USE ks", "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))"]);
        let statement = parse("SELECT * FROM t").expect("parses");
        let prepared = prepare(&node.schema, Some("ks"), statement).expect("prepares");
        let Plan::Select(plan) = &prepared.plan else { panic!("a select") };
        let mut state = bytes;
        if format {
            state.insert(0, 1);
        }
        let random = || 0;
        let context = BindContext { timestamp: 0, now_micros: 0, now_s: 0, random: &random, ticks: &|| 0 };
        let _ = plan.start(&[], &context, Page { rows: Some(1), bytes: 1, tombstones: 1, state: Some(state) });
    }
}

const SELECTS: [&str; 10] = [
    "SELECT * FROM t",
    "SELECT k, c FROM t WHERE k IN (4, 1, 0, 3)",
    "SELECT * FROM t PER PARTITION LIMIT 2",
    "SELECT * FROM t LIMIT 9",
    "SELECT * FROM t WHERE v = 2 ALLOW FILTERING",
    "SELECT k, c, m FROM t WHERE m CONTAINS 3 PER PARTITION LIMIT 1 ALLOW FILTERING",
    "SELECT DISTINCT k, s FROM t",
    "SELECT * FROM t WHERE k = 1 ORDER BY c DESC",
    "SELECT * FROM t WHERE c > 1 AND c < 5 LIMIT 5 ALLOW FILTERING",
    "SELECT v, s FROM t WHERE s = 1 LIMIT 4 ALLOW FILTERING",
];
