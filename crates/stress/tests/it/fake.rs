//! A server with faults: it speaks as much of the protocol as the tool needs, over one table in memory, and breaks its word where it is told
//! to.

use base::Token;
use protocol::assembler::Assembler;
use protocol::envelope::{Direction, Version};
use protocol::extras::Extras;
use protocol::failure::{Failure, FailureKind};
use protocol::metadata::{ColumnSpec, Prepared, RowsHeader};
use protocol::request::{Parameters, Request};
use protocol::response::Reply;
use protocol::rows::RowsWriter;
use protocol::wire::RawValue;
use runtime::Group;
use runtime::net::{TcpListener, TcpStream};
use runtime::sim::{NodeId, World};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use types::{CqlType, Value};

/// What a server does wrong, with which of its writes or reads, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Acknowledges a write and forgets it.
    Forgets(u64),
    /// Acknowledges a write and keeps another value.
    Garbles(u64),
    /// Makes a row of its own after a write.
    Invents(u64),
    /// Answers no more writes from one on, although it does them.
    Hangs(u64),
    /// Refuses writes from one on for certain.
    Refuses(u64),
    /// Shows nothing to a read, once.
    Overlooks(u64),
    /// Answers no more reads by key from one on.
    Mute(u64),
}

/// A node of the ring.
#[derive(Clone, Debug)]
pub struct Member {
    pub ip: IpAddr,
    pub datacenter: &'static str,
    pub rack: &'static str,
    pub token: i64,
}

struct Row {
    values: Vec<Vec<u8>>,
    time: i64,
}

/// What a server holds and has seen.
#[derive(Default)]
pub struct State {
    rows: BTreeMap<Vec<u8>, Row>,
    pub faults: Vec<Fault>,
    pub writes: u64,
    pub reads: u64,
}

/// A server: the first member is itself.
#[derive(Clone)]
pub struct Server {
    pub members: Vec<Member>,
    pub state: Arc<Mutex<State>>,
}

impl Server {
    /// The only one of its ring.
    pub fn alone(ip: IpAddr, faults: &[Fault]) -> Server {
        let member = Member { ip, datacenter: "dc1", rack: "r1", token: 0 };
        Server::new(vec![member], faults)
    }

    pub fn new(members: Vec<Member>, faults: &[Fault]) -> Server {
        let state = State { faults: faults.to_vec(), ..State::default() };
        Server { members, state: Arc::new(Mutex::new(state)) }
    }

    /// Begins to listen.
    pub fn boot(&self, world: &mut World, node: NodeId) {
        let server = self.clone();
        let main: runtime::Main = Arc::new(move || {
            let server = server.clone();
            Box::pin(async move {
                let address = SocketAddr::new(server.members[0].ip, 9042);
                let listener = TcpListener::bind(address).await.expect("a port");
                loop {
                    let Ok((stream, _)) = listener.accept().await else { return 0 };
                    drop(runtime::spawn(Group::MAIN, serve(server.clone(), stream)));
                }
            })
        });
        world.boot(node, 1, main);
    }
}

async fn serve(server: Server, stream: TcpStream) {
    let mut assembler = Assembler::new(Direction::Requests, 1 << 20);
    loop {
        let Ok(bytes) = stream.recv().await else { return };
        if bytes.is_empty() {
            return;
        }
        assembler.push(&bytes);
        drop(bytes);
        let mut out = Vec::new();
        while let Some(envelope) = assembler.next().expect("a frame") {
            let header = envelope.header;
            let request = Request::decode(&header, envelope.body).expect("a request");
            server.answer(&request, header.version, header.stream, &mut out);
        }
        if !out.is_empty() && stream.send_all(out).await.is_err() {
            return;
        }
    }
}

fn column(name: &str, ty: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: "keyspace1".into(), table: "standard1".into(), name: name.into(), ty }
}

/// The columns that a SELECT names, with their types.
fn selected(text: &str) -> Vec<ColumnSpec> {
    let list = text.strip_prefix("SELECT ").and_then(|rest| rest.split_once(" FROM ")).expect("a SELECT").0;
    let ty = |name: &str| if name.starts_with("WRITETIME") { CqlType::Bigint } else { CqlType::Blob };
    list.split(',').map(|name| column(name.trim(), ty(name.trim()))).collect()
}

/// The number after some words of a statement.
fn number(text: &str, after: &str) -> Option<i64> {
    let rest = text.split_once(after)?.1;
    rest.split(' ').next()?.parse().ok()
}

type Cells = Vec<Option<Vec<u8>>>;

impl Server {
    fn answer(&self, request: &Request<'_>, version: Version, stream: i16, out: &mut Vec<u8>) {
        let mut say = |reply: Reply<'_>| reply.encode(out, version, stream, &Extras::default());
        match request {
            Request::Options => say(Reply::Supported(&[])),
            // It has no news to tell whoever wants them.
            Request::Startup(_) | Request::Register(_) => say(Reply::Ready),
            Request::Prepare(prepare) => say(Reply::Prepared(&prepared(prepare.query))),
            Request::Query(query) if query.query.starts_with("SELECT") => {
                let (columns, rows) = self.select(query.query);
                put_rows(out, version, stream, &columns, &rows);
            }
            Request::Query(_) => say(Reply::Void),
            Request::Execute(execute) => {
                let text = std::str::from_utf8(execute.id).expect("our id").to_owned();
                if text.starts_with("UPDATE") {
                    match self.write(&execute.parameters) {
                        Written::Done => say(Reply::Void),
                        Written::Refused => say(Reply::Error(&Failure::new(FailureKind::Overloaded, "full"))),
                        Written::Silent => {}
                    }
                } else {
                    let columns = selected(&text);
                    if let Some(rows) = self.read(&columns, &execute.parameters) {
                        put_rows(out, version, stream, &columns, &rows);
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn select(&self, text: &str) -> (Vec<ColumnSpec>, Vec<Cells>) {
        let of = |value: Value, ty: &CqlType| value.encode_nullable(ty).expect("a value");
        let named = |member: &Member| {
            let set = CqlType::Set(CqlType::Text.into());
            let token = Value::Set(vec![Value::Text(member.token.to_string())]);
            vec![
                of(Value::Text(member.datacenter.into()), &CqlType::Text),
                of(Value::Text(member.rack.into()), &CqlType::Text),
                of(token, &set),
            ]
        };
        let columns = |first: ColumnSpec| {
            let set = CqlType::Set(CqlType::Text.into());
            vec![
                first,
                column("data_center", CqlType::Text),
                column("rack", CqlType::Text),
                column("tokens", set),
            ]
        };
        if text.contains("system.local") {
            let mut row = vec![of(Value::Text("faulty".into()), &CqlType::Text)];
            row.extend(named(&self.members[0]));
            return (columns(column("cluster_name", CqlType::Text)), vec![row]);
        }
        if text.contains("system.peers") {
            let rows = self.members[1..].iter().map(|member| {
                let mut row = vec![of(Value::Inet(member.ip), &CqlType::Inet)];
                row.extend(named(member));
                row
            });
            return (columns(column("rpc_address", CqlType::Inet)), rows.collect());
        }
        let state = self.state.lock().expect("one thread");
        let above = number(text, "token(key) > ").unwrap_or(i64::MIN);
        let upto = number(text, "token(key) <= ").unwrap_or(i64::MAX);
        let inside = state.rows.iter().filter(|(key, _)| {
            let token = Token::of_key(key).0;
            above < token && token <= upto
        });
        let rows = inside.map(|(key, row)| vec![Some(key.clone()), Some(row.time.to_be_bytes().to_vec())]);
        (selected(text), rows.collect())
    }

    fn write(&self, parameters: &Parameters<'_>) -> Written {
        let mut state = self.state.lock().expect("one thread");
        state.writes += 1;
        let mut values: Vec<Vec<u8>> = parameters
            .values
            .iter()
            .map(|(_, value)| match value {
                RawValue::Bytes(bytes) => bytes.to_vec(),
                RawValue::Null | RawValue::Unset => panic!("every value is bound"),
            })
            .collect();
        let key = values.pop().expect("the key is last");
        let (nth, time) = (state.writes, parameters.timestamp.expect("a client's timestamp"));
        let (mut end, mut is_kept) = (Written::Done, true);
        for fault in state.faults.clone() {
            match fault {
                Fault::Forgets(at) if at == nth => is_kept = false,
                Fault::Garbles(at) if at == nth => values[0][0] ^= 1,
                Fault::Invents(at) if at == nth => {
                    state.rows.insert(b"invented".to_vec(), Row { values: values.clone(), time });
                }
                Fault::Hangs(from) if from <= nth => end = Written::Silent,
                Fault::Refuses(from) if from <= nth => {
                    is_kept = false;
                    end = Written::Refused;
                }
                _ => {}
            }
        }
        if is_kept && state.rows.get(&key).is_none_or(|row| row.time < time) {
            state.rows.insert(key, Row { values, time });
        }
        end
    }

    /// Nothing where no answer is given.
    fn read(&self, columns: &[ColumnSpec], parameters: &Parameters<'_>) -> Option<Vec<Cells>> {
        let mut state = self.state.lock().expect("one thread");
        state.reads += 1;
        let nth = state.reads;
        if state.faults.iter().any(|fault| matches!(fault, Fault::Mute(from) if *from <= nth)) {
            return None;
        }
        if state.faults.contains(&Fault::Overlooks(nth)) {
            return Some(Vec::new());
        }
        let Some((_, RawValue::Bytes(key))) = parameters.values.iter().next() else {
            panic!("a key is bound")
        };
        let Some(row) = state.rows.get(key) else { return Some(Vec::new()) };
        let cell = |(nth, column): (usize, &ColumnSpec)| match column.ty {
            CqlType::Bigint => Some(row.time.to_be_bytes().to_vec()),
            _ => row.values.get(nth).cloned(),
        };
        Some(vec![columns.iter().enumerate().map(cell).collect()])
    }
}

/// How a write is answered.
enum Written {
    Done,
    Refused,
    Silent,
}

fn prepared(text: &str) -> Prepared {
    let count = text.matches('?').count();
    Prepared {
        id: text.as_bytes().to_vec(),
        result_metadata_id: Vec::new(),
        markers: (0..count).map(|nth| column(&format!("m{nth}"), CqlType::Blob)).collect(),
        // The key comes last.
        pk_indexes: vec![count as u16 - 1],
        columns: text.starts_with("SELECT").then(|| selected(text)),
    }
}

fn put_rows(out: &mut Vec<u8>, version: Version, stream: i16, columns: &[ColumnSpec], rows: &[Cells]) {
    let extras = Extras::default();
    let mut writer = RowsWriter::begin(out, version, stream, &extras, columns, RowsHeader::default());
    for row in rows {
        row.iter().for_each(|cell| writer.value(cell.as_deref()));
        writer.end_row();
    }
    writer.finish();
}
