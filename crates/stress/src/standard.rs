//! Operations on the two standard tables: rows whose content follows from the number of their partition, and counters.

use crate::distribution::Sampler;
use crate::generate::{Keys, Values};
use crate::ledger::{Found, Known, Ledger, judge};
use crate::population::{Seeds, Tickets};
use crate::session::{Session, statement_text};
use crate::settings::{Schema, Settings};
use crate::work::Touched;
use base::Token;
use client::Statement;
use protocol::request::Parameters;
use protocol::response::Response;
use protocol::rows::Rows;
use protocol::values::ValuesBuilder;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use types::text::{format_hex, quote, quote_name};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a row and compares it.
    Read,
    /// Writes a row.
    Write,
    /// Reads counters.
    CounterRead,
    /// Increments counters.
    CounterWrite,
}

impl Operation {
    /// The operation of a name in small letters.
    pub fn of(name: &str) -> Option<Operation> {
        match name {
            "read" => Some(Operation::Read),
            "write" => Some(Operation::Write),
            "counter_read" => Some(Operation::CounterRead),
            "counter_write" => Some(Operation::CounterWrite),
            _ => None,
        }
    }

    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "READ",
            Operation::Write => "WRITE",
            Operation::CounterRead => "COUNTER_READ",
            Operation::CounterWrite => "COUNTER_WRITE",
        }
    }

    /// Whether it takes the next partition to write.
    pub fn writes(self) -> bool {
        matches!(self, Operation::Write | Operation::CounterWrite)
    }
}

fn pairs(pairs: &[(String, String)]) -> String {
    pairs.iter().map(|(key, value)| format!(", {} : {}", quote(key), quote(value))).collect()
}

/// The statements that make keyspace and tables.
pub fn schema(settings: &Settings) -> Vec<String> {
    let schema = &settings.schema;
    let replication = format!("{{'class': {}{}}}", quote(&schema.strategy), pairs(&schema.replication));
    let mut keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {replication} AND durable_writes = true",
        quote_name(&schema.keyspace)
    );
    if !schema.storage.is_empty() {
        let options: Vec<String> =
            schema.storage.iter().map(|(key, value)| format!("{} : {}", quote(key), quote(value))).collect();
        write!(keyspace, " AND storage = {{{}}}", options.join(", ")).ok();
    }
    vec![keyspace, table(settings, "standard1", "blob"), table(settings, "counter1", "counter")]
}

fn table(settings: &Settings, name: &str, ty: &str) -> String {
    let schema: &Schema = &settings.schema;
    let mut text =
        format!("CREATE TABLE IF NOT EXISTS {}.{name} (key blob PRIMARY KEY", quote_name(&schema.keyspace));
    for column in &settings.columns.names {
        write!(text, "\n, {} {ty}", quote_name(column)).ok();
    }
    let compressor = schema.compression.as_ref().map(|class| format!("'class' : {}", quote(class)));
    write!(text, ") WITH compression = {{{}}}", compressor.unwrap_or_default()).ok();
    if let Some(class) = &schema.compaction {
        write!(text, " AND compaction = {{'class' : {}{}}}", quote(class), pairs(&schema.compaction_options))
            .ok();
    }
    text
}

/// Makes requests of the standard tables and checks their answers. Each worker has its own; what it takes to make them they share.
#[derive(Clone)]
pub struct Standard {
    maker: Rc<RefCell<Maker>>,
    /// What is known of every write, where writes are verified.
    ledger: Option<Rc<RefCell<Ledger>>>,
    /// What was begun.
    operation: Operation,
    partition: i64,
    /// By how much counters grow.
    added: Vec<i64>,
}

/// Makes the requests of all workers: everything of them follows from the number of a partition. With thousands of workers, memory of
/// their own for what they send would be memory that no cache of the processor holds.
struct Maker {
    keys: Keys,
    values: Vec<Values>,
    add: Sampler,
    /// Reads give every column, the key first.
    slice: bool,
    validates: bool,
    /// By operation; of those that are not used nothing is there.
    statements: [Option<Statement>; 4],
    /// Operations by their number.
    operations: Vec<Operation>,
    /// What was made last.
    bound: ValuesBuilder,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The row as it should come back, with the length of each value before it.
    expected: Vec<u8>,
}

impl Maker {
    /// Makes the key of a partition; what its values follow from.
    fn make_key(&mut self, partition: i64) -> i64 {
        self.key.clear();
        self.keys.write(partition, &mut self.key)
    }

    /// Binds the values of an operation on a partition.
    fn bind(&mut self, operation: Operation, partition: i64, added: &[i64]) {
        let identity = self.make_key(partition);
        self.bound.clear();
        match operation {
            Operation::Write => {
                for values in &mut self.values {
                    self.value.clear();
                    values.write(identity, &mut self.value);
                    self.bound.bytes(&self.value);
                }
            }
            Operation::CounterWrite => added.iter().for_each(|added| {
                self.bound.bytes(&added.to_be_bytes());
            }),
            Operation::Read | Operation::CounterRead => {}
        }
        self.bound.bytes(&self.key);
    }

    /// Makes the row of a partition as it should come back.
    fn expect(&mut self, partition: i64) {
        let identity = self.make_key(partition);
        self.expected.clear();
        let mut put = |value: &[u8]| {
            self.expected.extend_from_slice(&(value.len() as u32).to_be_bytes());
            self.expected.extend_from_slice(value);
        };
        if self.slice {
            put(&self.key);
        }
        for values in &mut self.values {
            self.value.clear();
            values.write(identity, &mut self.value);
            put(&self.value);
        }
    }

    fn statement(&self, operation: Operation) -> Result<&Statement, client::Error> {
        self.statements[operation as usize]
            .as_ref()
            .ok_or(client::Error::Unexpected("an operation that was not prepared"))
    }

    /// What a row is, with the times of its values behind them.
    fn found_in(&mut self, partition: i64, rows: &Rows<'_>) -> Result<Found, client::Error> {
        let mut all = rows.iter();
        let Some(row) = all.next() else { return Ok(Found::Nothing) };
        let columns = self.values.len();
        if row.len() != 2 * columns {
            return Err(client::Error::Unexpected("a SELECT: other columns than were asked for"));
        }
        let mut content = Vec::new();
        for value in &row[..columns] {
            protocol::wire::put_bytes(&mut content, *value);
        }
        self.expect(partition);
        let is_right = content == self.expected && all.next().is_none();
        let times = row[columns..].iter().map(|time| {
            let bytes = (*time)?.try_into().ok()?;
            Some(i64::from_be_bytes(bytes))
        });
        let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
        for time in times {
            oldest = oldest.min(time.unwrap_or(i64::MIN));
            newest = newest.max(time.unwrap_or(i64::MIN));
        }
        Ok(Found::Row { oldest, newest, is_right })
    }
}

impl Standard {
    /// Prepares the statements of these operations. What they write is noted in the ledger, if there is one.
    pub async fn prepare(
        session: &Session,
        settings: &Settings,
        operations: Vec<Operation>,
        ledger: Option<Rc<RefCell<Ledger>>>,
    ) -> Result<Standard, client::Error> {
        let mut statements = [None, None, None, None];
        for operation in &operations {
            let text = text(settings, *operation);
            statements[*operation as usize] = Some(session.pool.prepare(&text).await?);
        }
        let columns = &settings.columns;
        let maker = Maker {
            keys: Keys::new(settings.command.key_bytes),
            values: columns.names.iter().map(|name| Values::new(name, &columns.size)).collect(),
            add: settings.command.add.sampler(runtime::random_u64() as i64),
            // With their times, columns are named.
            slice: columns.slice && !settings.verify,
            validates: !settings.errors.skip_validation,
            statements,
            operations,
            bound: ValuesBuilder::new(),
            key: Vec::new(),
            value: Vec::new(),
            expected: Vec::new(),
        };
        let maker = Rc::new(RefCell::new(maker));
        Ok(Standard { maker, ledger, operation: Operation::Read, partition: 0, added: Vec::new() })
    }

    /// Begins an operation; how many partitions it touches, none when the run ends.
    pub fn begin(&mut self, nth: usize, seeds: &Seeds, tickets: &Tickets) -> u64 {
        if tickets.take(1) == 0 {
            return 0;
        }
        let mut maker = self.maker.borrow_mut();
        let operation = maker.operations[nth];
        let partition = if operation.writes() { seeds.for_write() } else { seeds.for_read() };
        let Some(partition) = partition else { return 0 };
        (self.operation, self.partition) = (operation, partition);
        if operation == Operation::CounterWrite {
            // Drawn once: another try adds the same.
            let columns = maker.values.len();
            self.added.clear();
            self.added.extend((0..columns).map(|_| maker.add.draw()));
        }
        1
    }

    /// What was sent has ended, well or not.
    pub fn end(&self, seeds: &Seeds) {
        if self.operation.writes() {
            seeds.written(self.partition);
        }
    }

    /// Sends what was begun. What came back or was written; `Ok(None)` when it is not what was written.
    pub async fn send(&self, session: &Session) -> Result<Option<Touched>, client::Error> {
        match (self.operation, &self.ledger) {
            (Operation::Write | Operation::CounterWrite, _) => self.write(session).await,
            (Operation::Read, Some(ledger)) => self.follow(session, ledger).await,
            (Operation::Read | Operation::CounterRead, _) => self.read(session).await,
        }
    }

    async fn ask(
        &self,
        session: &Session,
        timestamp: Option<i64>,
    ) -> Result<client::outcome::Answer, client::Error> {
        let parameters =
            Parameters { skip_metadata: session.prepared, timestamp, ..Parameters::at(session.level) };
        let sent = {
            let mut maker = self.maker.borrow_mut();
            maker.bind(self.operation, self.partition, &self.added);
            let statement = maker.statement(self.operation)?;
            session.send_now(statement, Parameters { values: maker.bound.values(), ..parameters })
        };
        if let Some(sent) = sent {
            let answer = sent?.await?;
            if !answer.is_unprepared() {
                return answer.result();
            }
        }
        // Something has to be waited for first: with values of its own.
        let (statement, bound) = {
            let mut maker = self.maker.borrow_mut();
            // Others have used it meanwhile, if an answer was waited for.
            maker.bind(self.operation, self.partition, &self.added);
            (maker.statement(self.operation)?.clone(), maker.bound.clone())
        };
        session.send(&statement, Parameters { values: bound.values(), ..parameters }).await
    }

    async fn write(&self, session: &Session) -> Result<Option<Touched>, client::Error> {
        let timestamp = session.timestamp();
        let written = self.ask(session, Some(timestamp)).await;
        if let (Operation::Write, Some(ledger)) = (self.operation, &self.ledger) {
            ledger.borrow_mut().wrote(self.partition, timestamp, &written);
        }
        written.map(|_| Some(Touched { partitions: 1, rows: 1 }))
    }

    async fn read(&self, session: &Session) -> Result<Option<Touched>, client::Error> {
        let answer = self.ask(session, None).await?;
        let Response::Rows(rows) = answer.response()? else {
            return Err(client::Error::Unexpected("a SELECT"));
        };
        let mut maker = self.maker.borrow_mut();
        if self.operation == Operation::Read && maker.validates {
            maker.expect(self.partition);
            let same = rows.row_count == 1 && rows.content() == maker.expected;
            return Ok(same.then_some(Touched { partitions: 1, rows: 1 }));
        }
        Ok(Some(Touched { partitions: 1, rows: rows.row_count as u64 }))
    }

    /// Reads a row and compares it with what had been acknowledged before.
    async fn follow(
        &self,
        session: &Session,
        ledger: &RefCell<Ledger>,
    ) -> Result<Option<Touched>, client::Error> {
        let since = ledger.borrow().known(self.partition).since;
        let found = self.found(session).await?;
        // Other writes are on their way: any of them may be there.
        let known = Known { since, newest: Some(i64::MAX) };
        let mut ledger = ledger.borrow_mut();
        if let Some((finding, text)) = judge(known, found, ledger.start()) {
            ledger.early.add(finding, &text, || self.name());
            return Ok(None);
        }
        let rows = u64::from(found != Found::Nothing);
        Ok(Some(Touched { partitions: 1, rows }))
    }

    /// Reads a partition with the times of its values.
    pub async fn read_back(&mut self, session: &Session, partition: i64) -> Result<Found, client::Error> {
        (self.operation, self.partition) = (Operation::Read, partition);
        self.found(session).await
    }

    async fn found(&self, session: &Session) -> Result<Found, client::Error> {
        let answer = self.ask(session, None).await?;
        match answer.response()? {
            Response::Rows(rows) => self.maker.borrow_mut().found_in(self.partition, &rows),
            _ => Err(client::Error::Unexpected("a SELECT")),
        }
    }

    /// The key and its partition, as findings name it.
    pub fn name(&self) -> String {
        format!("key {} (partition {})", self.key_text(), self.partition)
    }

    /// The token of a partition.
    pub fn token_of(&self, partition: i64) -> Token {
        let mut maker = self.maker.borrow_mut();
        maker.make_key(partition);
        Token::of_key(&maker.key)
    }

    /// What was sent: its text and values.
    pub fn statement_text(&self) -> String {
        let mut maker = self.maker.borrow_mut();
        maker.bind(self.operation, self.partition, &self.added);
        match maker.statement(self.operation) {
            Ok(statement) => statement_text(statement.text(), maker.bound.values()),
            Err(_) => String::new(),
        }
    }

    /// The key, in hexadecimal, as failures name it.
    pub fn key_text(&self) -> String {
        let mut maker = self.maker.borrow_mut();
        maker.make_key(self.partition);
        format_hex(&maker.key)
    }
}

fn text(settings: &Settings, operation: Operation) -> String {
    let keyspace = quote_name(&settings.schema.keyspace);
    let names: Vec<String> = settings.columns.names.iter().map(|name| quote_name(name)).collect();
    let times = || names.iter().map(|name| format!("WRITETIME({name})"));
    let selected = match (settings.verify, settings.columns.slice) {
        (true, _) => names.iter().cloned().chain(times()).collect::<Vec<_>>().join(","),
        (false, true) => "*".to_owned(),
        (false, false) => names.join(","),
    };
    match operation {
        Operation::Read => format!("SELECT {selected} FROM {keyspace}.\"standard1\" WHERE KEY=?"),
        Operation::CounterRead => format!("SELECT {selected} FROM {keyspace}.\"counter1\" WHERE KEY=?"),
        Operation::Write => {
            let assigned: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
            let timestamp = settings
                .columns
                .timestamp
                .map(|timestamp| format!(" USING TIMESTAMP {timestamp}"))
                .unwrap_or_default();
            format!("UPDATE {keyspace}.\"standard1\"{timestamp} SET {} WHERE KEY=?", assigned.join(","))
        }
        Operation::CounterWrite => {
            let assigned: Vec<String> = names.iter().map(|name| format!("{name}={name}+?")).collect();
            format!("UPDATE {keyspace}.counter1 SET {} WHERE KEY=?", assigned.join(","))
        }
    }
}

/// The first half of a statement that reads every key with the time of its first column.
pub fn scan_text(settings: &Settings) -> String {
    let first = settings.columns.names.first().map_or_else(|| quote_name("C0"), |name| quote_name(name));
    format!("SELECT key, WRITETIME({first}) FROM {}.\"standard1\"", quote_name(&settings.schema.keyspace))
}
