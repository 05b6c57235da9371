//! Connections to the servers, the statements of the two bindings, and what comes of them.

use crate::error::Error;
use crate::limits::SCAN_PAGE_ROWS;
use crate::settings::Servers;
use crate::workload::Workload;
use base::Token;
use client::{Pool, PoolOptions, Statement, Usable, contact};
use protocol::envelope::Version;
use protocol::metadata::ColumnSpec;
use protocol::request::Parameters;
use protocol::response::Response;
use protocol::values::{Values, ValuesBuilder};
use runtime::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tls::{ClientSettings, Connector};
use types::Consistency;

/// The key's column.
pub const KEY: &str = "y_id";

/// Which fields a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// All that there are, whatever their names.
    Any,
    /// All, by name.
    Named,
    /// One, by its index.
    One(usize),
}

/// A statement, prepared when it is first needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Reads a record.
    Read(Fields),
    /// Reads records from a key on.
    Scan(Fields),
    /// Writes all fields of a record that is not there.
    Insert,
    /// Writes all fields of a record that is there.
    UpdateAll,
    /// Writes one field.
    Update(usize),
}

/// Statements that are not about one field.
const COMMON: usize = 6;
/// Statements about one field.
const EACH: usize = 3;

impl Shape {
    /// Its place among the statements.
    fn slot(self) -> usize {
        match self {
            Shape::Read(Fields::Any) => 0,
            Shape::Read(Fields::Named) => 1,
            Shape::Scan(Fields::Any) => 2,
            Shape::Scan(Fields::Named) => 3,
            Shape::Insert => 4,
            Shape::UpdateAll => 5,
            Shape::Read(Fields::One(field)) => COMMON + EACH * field,
            Shape::Scan(Fields::One(field)) => COMMON + EACH * field + 1,
            Shape::Update(field) => COMMON + EACH * field + 2,
        }
    }

    fn writes(self) -> bool {
        matches!(self, Shape::Insert | Shape::UpdateAll | Shape::Update(_))
    }
}

/// A record that was read: its columns and their bytes, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(pub Vec<(Rc<str>, Option<Vec<u8>>)>);

/// What the threads of a run use to speak with the servers.
pub struct Session {
    pool: Pool,
    workload: Rc<Workload>,
    table: String,
    read_level: Consistency,
    write_level: Consistency,
    is_conditional: bool,
    /// How long an operation may take.
    patience: Duration,
    /// The last timestamp given: each is larger than the one before.
    last_timestamp: Cell<i64>,
    statements: RefCell<Vec<Option<Statement>>>,
    /// Held by who prepares: the others use what comes of it.
    preparing: Semaphore,
}

/// Connects to the servers: with the newest protocol that they know, to the nodes of one datacenter. Requests go to the replicas of
/// a keyspace.
pub async fn connect(servers: &Servers, keyspace: &str) -> Result<Pool, Error> {
    let refused = |error: client::Error| Error::Connect(contact::named(&error));
    let addresses = contact::addresses(&servers.hosts, servers.port)
        .map_err(|error| Error::Connect(error.to_string()))?;
    let tls = match &servers.tls {
        None => None,
        Some(tls) => {
            let certificate = tls.certificate.clone().map(|file| (file.clone(), file));
            let files = ClientSettings { trust: tls.trust.clone(), certificate };
            Some(Connector::load(&files).await.map_err(|error| Error::Connect(error.to_string()))?)
        }
    };
    let versions = [Version::V5, Version::V4, Version::V3];
    let pool = |addresses: Vec<SocketAddr>, datacenter: Option<String>| {
        let tls = tls.clone();
        async move {
            let options = |version| {
                let connection = client::Options {
                    credentials: servers.credentials.clone(),
                    connect_timeout: servers.connect_timeout,
                    request_timeout: Some(servers.request_timeout),
                    // Every thread may have its request on the way.
                    in_flight: client::limits::STREAMS_MAX,
                    tls: tls.clone(),
                    ..client::Options::new(version)
                };
                let usable = Usable { datacenter: datacenter.clone(), ..Usable::default() };
                PoolOptions {
                    connections_per_node: servers.connections,
                    usable,
                    keyspace: Some(keyspace.to_owned()),
                    ..PoolOptions::new(connection)
                }
            };
            contact::connect_newest(&addresses, &versions, options).await
        }
    };
    let all = pool(addresses.clone(), servers.datacenter.clone()).await.map_err(refused)?;
    // Without a name the datacenter is that of the first node that answers, as the Java driver has it.
    let first = all.places().next().map(|place| place.datacenter.clone());
    match first {
        Some(name) if all.places().any(|place| place.datacenter != name) => {
            pool(addresses, Some(name)).await.map_err(refused)
        }
        _ => Ok(all),
    }
}

impl Session {
    /// Connects. Statements are prepared when they are first needed.
    pub async fn connect(servers: &Servers, workload: Rc<Workload>) -> Result<Session, Error> {
        let (keyspace, table) = match workload.table.split_once('.') {
            Some((keyspace, _)) => (keyspace, workload.table.clone()),
            None => (&*servers.keyspace, format!("{}.{}", servers.keyspace, workload.table)),
        };
        let pool = connect(servers, keyspace).await?;
        Ok(Session {
            pool,
            table,
            read_level: servers.read_level,
            write_level: servers.write_level,
            is_conditional: servers.is_conditional,
            patience: servers.request_timeout,
            last_timestamp: Cell::new(0),
            statements: RefCell::new(vec![None; COMMON + EACH * workload.fields.len()]),
            preparing: Semaphore::new(1),
            workload,
        })
    }

    /// Writes fields of a record.
    pub async fn write(&self, shape: Shape, key: &str, values: &ValuesBuilder) -> Result<(), client::Error> {
        self.send(shape, key, values.values(), None).await.map(drop)
    }

    /// Reads a record: whether it is there. `record`: is given its columns, if they are wanted.
    pub async fn read(
        &self,
        fields: Fields,
        key: &str,
        record: Option<&mut Record>,
    ) -> Result<bool, client::Error> {
        let mut values = ValuesBuilder::new();
        values.bytes(key.as_bytes());
        let shape = Shape::Read(fields);
        let answer = self.send(shape, key, values.values(), None).await?;
        let Response::Rows(rows) = answer.response()? else {
            return Err(client::Error::Unexpected("a SELECT"));
        };
        if let (Some(record), Some(row)) = (record, rows.iter().next()) {
            let known = self.statement(shape).await?.columns();
            let columns: &[ColumnSpec] = match (&rows.metadata.columns, &known) {
                (Some(columns), _) => columns,
                (None, Some(columns)) => columns,
                (None, None) => return Err(client::Error::Unexpected("a SELECT: no columns")),
            };
            let cells = columns.iter().zip(row);
            record.0 =
                cells.map(|(column, cell)| (column.name.as_ref().into(), cell.map(<[u8]>::to_vec))).collect();
        }
        Ok(0 < rows.row_count)
    }

    /// Reads so many records from a key's token on, page by page: how many there were.
    pub async fn scan(&self, fields: Fields, key: &str, records: i32) -> Result<u64, client::Error> {
        let mut values = ValuesBuilder::new();
        values.bytes(key.as_bytes()).bytes(&records.to_be_bytes());
        let mut state: Option<Vec<u8>> = None;
        let mut read = 0;
        loop {
            let answer = self.send(Shape::Scan(fields), key, values.values(), state.as_deref()).await?;
            let Response::Rows(rows) = answer.response()? else {
                return Err(client::Error::Unexpected("a SELECT"));
            };
            read += rows.row_count as u64;
            match rows.metadata.paging_state {
                Some(next) => state = Some(next.to_vec()),
                None => return Ok(read),
            }
        }
    }

    /// Sends a statement to where the key's partition lives, and gives the answer undecoded. All of it takes no longer than a request
    /// may: the wait for who prepares the statement, and for a connection, as well. One whose statement the server has forgotten has its
    /// time once more.
    async fn send(
        &self,
        shape: Shape,
        key: &str,
        values: Values<'_>,
        paging_state: Option<&[u8]>,
    ) -> Result<client::outcome::Answer, client::Error> {
        let parameters = self.parameters(shape, values, paging_state);
        // Mostly nothing has to be waited for but the answer, whose time the connection watches.
        if let Some(sent) = self.send_now(shape, key, parameters) {
            let answer = sent?.await?;
            if !answer.is_unprepared() {
                return answer.result();
            }
        }
        let sent = runtime::timeout(self.patience, self.send_patiently(shape, key, parameters));
        sent.await.unwrap_or(Err(client::Error::Timeout))
    }

    /// Sends a statement if it is prepared, its connection is there and has room.
    fn send_now(
        &self,
        shape: Shape,
        key: &str,
        parameters: Parameters<'_>,
    ) -> Option<Result<client::Sent, client::Error>> {
        let statements = self.statements.borrow();
        let statement = statements[shape.slot()].as_ref()?;
        let connection = self.pool.ready(Some(Token::of_key(key.as_bytes())))?;
        connection.execute_now(statement, parameters)
    }

    async fn send_patiently(
        &self,
        shape: Shape,
        key: &str,
        parameters: Parameters<'_>,
    ) -> Result<client::outcome::Answer, client::Error> {
        let statement = self.statement(shape).await?;
        let connection = self.pool.connection(Some(Token::of_key(key.as_bytes()))).await?;
        connection.execute_undecoded(&statement, parameters).await?.result()
    }

    fn parameters<'a>(
        &self,
        shape: Shape,
        values: Values<'a>,
        paging_state: Option<&'a [u8]>,
    ) -> Parameters<'a> {
        Parameters {
            values,
            skip_metadata: true,
            page_size: (!shape.writes()).then_some(SCAN_PAGE_ROWS),
            paging_state,
            // The servers choose those of conditional writes.
            timestamp: (shape.writes() && !self.is_conditional).then(|| self.timestamp()),
            ..Parameters::at(if shape.writes() { self.write_level } else { self.read_level })
        }
    }

    fn timestamp(&self) -> i64 {
        let next = runtime::unix_micros().max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(next);
        next
    }

    async fn statement(&self, shape: Shape) -> Result<Statement, client::Error> {
        let known = || self.statements.borrow()[shape.slot()].clone();
        if let Some(statement) = known() {
            return Ok(statement);
        }
        let _preparing = self.preparing.acquire(1).await;
        if let Some(statement) = known() {
            return Ok(statement);
        }
        let statement = self.pool.prepare(&self.text(shape)).await?;
        self.statements.borrow_mut()[shape.slot()] = Some(statement.clone());
        Ok(statement)
    }

    fn text(&self, shape: Shape) -> String {
        text(shape, &self.table, &self.workload, self.is_conditional)
    }
}

/// A statement as the Java tool's bindings write it, but for the keyspace before the table.
fn text(shape: Shape, table: &str, workload: &Workload, is_conditional: bool) -> String {
    let fields = &workload.fields;
    let names = |order: &[usize]| order.iter().map(|index| fields[*index].as_str()).collect::<Vec<_>>();
    let selected = |which| match which {
        Fields::Any => "*".to_owned(),
        Fields::Named => names(&workload.read_order).join(","),
        Fields::One(field) => fields[field].clone(),
    };
    let condition = |text: &str| if is_conditional { format!(" {text}") } else { String::new() };
    let update = |names: Vec<&str>| {
        let assigned: Vec<String> = names.iter().map(|name| format!("{name}=?")).collect();
        format!("UPDATE {table} SET {} WHERE {KEY}=?{};", assigned.join(","), condition("IF EXISTS"))
    };
    match shape {
        Shape::Read(which) => format!("SELECT {} FROM {table} WHERE {KEY}=? LIMIT 1;", selected(which)),
        Shape::Scan(which) => {
            format!("SELECT {} FROM {table} WHERE token({KEY}) >= token(?) LIMIT ?", selected(which))
        }
        Shape::Insert => {
            let names = names(&workload.write_order);
            let marks = ",?".repeat(names.len());
            let condition = condition("IF NOT EXISTS");
            format!("INSERT INTO {table} ({KEY},{}) VALUES (?{marks}){condition};", names.join(","))
        }
        Shape::UpdateAll => update(names(&workload.write_order)),
        Shape::Update(field) => update(vec![fields[field].as_str()]),
    }
}

/// Makes CloudSuite's keyspace and table, with so many replicas.
pub async fn create_cloudsuite(servers: &Servers, replicas: u32) -> Result<(), Error> {
    let pool = connect(servers, &servers.keyspace).await?;
    let fields: Vec<String> = (0..10).map(|field| format!("field{field} varchar")).collect();
    for text in [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS ycsb WITH REPLICATION = \
             {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS ycsb.usertable ({KEY} varchar PRIMARY KEY, {})",
            fields.join(", ")
        ),
    ] {
        pool.define(&text, Consistency::One).await.map_err(|error| Error::Connect(contact::named(&error)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Properties;

    fn workload(count: &str) -> Workload {
        let mut properties = Properties::default();
        properties.set("workload", "site.ycsb.workloads.CoreWorkload");
        properties.set("fieldcount", count);
        Workload::read(&properties).expect("properties")
    }

    #[test]
    fn statements_are_those_of_the_bindings() {
        let workload = workload("10");
        let of = |shape| text(shape, "ycsb.usertable", &workload, false);
        assert_eq!(of(Shape::Read(Fields::Any)), "SELECT * FROM ycsb.usertable WHERE y_id=? LIMIT 1;");
        assert_eq!(
            of(Shape::Read(Fields::One(3))),
            "SELECT field3 FROM ycsb.usertable WHERE y_id=? LIMIT 1;"
        );
        assert_eq!(
            of(Shape::Scan(Fields::Any)),
            "SELECT * FROM ycsb.usertable WHERE token(y_id) >= token(?) LIMIT ?"
        );
        assert_eq!(of(Shape::Update(3)), "UPDATE ycsb.usertable SET field3=? WHERE y_id=?;");
        assert_eq!(
            of(Shape::Insert),
            "INSERT INTO ycsb.usertable (y_id,field1,field0,field7,field6,field9,field8,field3,field2,field5,field4) \
             VALUES (?,?,?,?,?,?,?,?,?,?,?);"
        );
        let conditional = |shape| text(shape, "t", &workload, true);
        assert_eq!(conditional(Shape::Update(0)), "UPDATE t SET field0=? WHERE y_id=? IF EXISTS;");
        assert!(conditional(Shape::Insert).ends_with("?) IF NOT EXISTS;"));
    }

    #[test]
    fn every_statement_has_a_place_of_its_own() {
        let mut shapes = vec![Shape::Insert, Shape::UpdateAll];
        for fields in [Fields::Any, Fields::Named, Fields::One(0), Fields::One(1)] {
            shapes.extend([Shape::Read(fields), Shape::Scan(fields)]);
        }
        shapes.extend([Shape::Update(0), Shape::Update(1)]);
        let mut slots: Vec<usize> = shapes.iter().map(|shape| shape.slot()).collect();
        slots.sort();
        slots.dedup();
        assert_eq!((slots.len(), slots.last().copied()), (shapes.len(), Some(COMMON + EACH * 2 - 1)));
    }
}
