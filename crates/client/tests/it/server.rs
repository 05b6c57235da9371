//! A little server: enough of the protocol to hold a conversation, a table in memory, two shards, and a few statements that misbehave.

use base::{HashMap, Token};
use protocol::assembler::Assembler;
use protocol::envelope::{Direction, Header, Version};
use protocol::event::{Change, Event, NodeChange, SchemaChange, Target};
use protocol::extras::Extras;
use protocol::failure::{Failure, FailureKind};
use protocol::limits::BODY_BYTES_MAX;
use protocol::metadata::{ColumnSpec, Prepared, RowsHeader};
use protocol::outgoing::Outgoing;
use protocol::request::{BatchSource, Execute, Request};
use protocol::response::{EVENT_STREAM, Reply};
use protocol::rows::RowsWriter;
use protocol::supported::{self, Sharding};
use protocol::wire::RawValue;
use runtime::Group;
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use types::{CqlType, Value};

pub const PORT: u16 = 9042;
pub const SHARD_PORT: u16 = 19042;
pub const SHARDS: u16 = 3;

/// The last byte of its address, its datacenter, rack and token.
type Peer = (u8, &'static str, &'static str, i64);

#[derive(Default)]
pub struct Data {
    rows: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    /// Texts by id.
    prepared: RefCell<HashMap<Vec<u8>, String>>,
    /// So many statements are forgotten as soon as they are prepared.
    forgetful: Cell<usize>,
    /// So many looks at the peers show one with a schema of its own.
    disagrees: Cell<usize>,
    /// The peers; nothing for the two that never answer.
    peers: RefCell<Option<Vec<Peer>>>,
    /// Keyspaces beside `twice`, with two replicas as well.
    keyspaces: RefCell<Vec<String>>,
    /// What this server calls itself.
    name: RefCell<String>,
    /// Where events go: connections that asked for them, each with its dress.
    listeners: RefCell<Vec<(TcpStream, Outgoing, Version)>>,
}

pub fn main() -> runtime::Main {
    named("one")
}

/// A server that says its name when it is asked.
pub fn named(name: &'static str) -> runtime::Main {
    runtime::sim::main_of(move || async move {
        let data = Rc::new(Data::default());
        name.clone_into(&mut data.name.borrow_mut());
        for port in [PORT, SHARD_PORT] {
            let any = IpAddr::from([0, 0, 0, 0]);
            let listener = TcpListener::bind(SocketAddr::new(any, port)).await.expect("a free port");
            let data = data.clone();
            runtime::spawn(Group::MAIN, async move {
                while let Ok((stream, peer)) = listener.accept().await {
                    let shard = if port == SHARD_PORT { peer.port() % SHARDS } else { 0 };
                    runtime::spawn(Group::QUERY, converse(stream, shard, data.clone()));
                }
            });
        }
        runtime::shutdown_requested().await;
        0
    })
}

async fn converse(stream: TcpStream, shard: u16, data: Rc<Data>) {
    let mut assembler = Assembler::new(Direction::Requests, BODY_BYTES_MAX);
    let mut outgoing: Option<Outgoing> = None;
    let turn = Semaphore::new(1);
    while let Ok(bytes) = stream.recv().await {
        if bytes.is_empty() {
            return;
        }
        assembler.push(&bytes);
        while let Some(envelope) = assembler.next().expect("our own client") {
            let (header, body) = (envelope.header, envelope.body.to_vec());
            let dress = *outgoing.get_or_insert(Outgoing::bare(header.version));
            if let Ok(Request::Startup(startup)) = Request::decode(&header, &body) {
                let mut next = dress;
                next.compression = startup.check(header.version).expect("a good STARTUP");
                assembler.set_compression(next.compression);
                if header.version == Version::V5 {
                    assembler.use_segments();
                    next.segmented = true;
                }
                outgoing = Some(next);
            }
            let (stream, data, turn) = (stream.clone(), data.clone(), turn.clone());
            if let Ok(Request::Register(_)) = Request::decode(&header, &body) {
                data.listeners.borrow_mut().push((stream.clone(), dress, header.version));
            }
            let answering = async move {
                let envelope = answer(&header, &body, shard, &data).await;
                let mut wire = Vec::new();
                dress.write(&envelope, &mut wire);
                let _turn = turn.acquire(1).await;
                // The client may have gone: nobody wants the answer.
                let _gone = stream.send_all(wire).await;
            };
            runtime::spawn_now(Group::QUERY, answering);
        }
    }
}

fn column(name: &str, ty: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: "load".into(), table: "kv".into(), name: name.into(), ty }
}

/// Every statement prepared here has text or blob markers, key first.
fn markers(text: &str) -> Vec<ColumnSpec> {
    let both = [column("key", CqlType::Text), column("value", CqlType::Blob)];
    both.into_iter().take(text.matches('?').count()).collect()
}

fn statement_id(text: &str) -> Vec<u8> {
    base::murmur3(text.as_bytes()).0.to_be_bytes().to_vec()
}

async fn answer(header: &Header, body: &[u8], shard: u16, data: &Data) -> Vec<u8> {
    let mut out = Vec::new();
    let (version, stream) = (header.version, header.stream);
    let say = |reply: Reply<'_>, out: &mut Vec<u8>| reply.encode(out, version, stream, &Extras::default());
    match Request::decode(header, body).expect("our own client") {
        Request::Options => {
            let sharding = Sharding {
                shard,
                shards: SHARDS,
                shard_aware_port: Some(SHARD_PORT),
                shard_aware_port_ssl: None,
            };
            say(Reply::Supported(&supported::options(Some(&sharding))), &mut out);
        }
        Request::Startup(_) | Request::Register(_) => say(Reply::Ready, &mut out),
        Request::AuthResponse(_) => say(Reply::AuthSuccess(None), &mut out),
        Request::Prepare(prepare) => {
            let id = statement_id(prepare.query);
            match data.forgetful.get() {
                0 => drop(data.prepared.borrow_mut().insert(id.clone(), prepare.query.to_owned())),
                left => data.forgetful.set(left - 1),
            }
            let reading = prepare.query.starts_with("SELECT");
            let prepared = Prepared {
                id,
                result_metadata_id: vec![1],
                markers: markers(prepare.query),
                pk_indexes: vec![0],
                columns: reading.then(|| vec![column("value", CqlType::Blob)]),
            };
            say(Reply::Prepared(&prepared), &mut out);
        }
        Request::Execute(execute) => run_prepared(&execute, header, data, &mut out),
        Request::Batch(batch) => {
            let unknown = batch.statements.iter().find_map(|s| match s.source {
                BatchSource::Prepared(id) if !data.prepared.borrow().contains_key(id) => Some(id.to_vec()),
                _ => None,
            });
            match unknown {
                Some(id) => unprepared(header, id, &mut out),
                None => say(Reply::Void, &mut out),
            }
        }
        Request::Query(query) => match query.query {
            "SELECT cluster_name, data_center, rack, tokens FROM system.local" => {
                let columns = ring_columns("cluster_name", CqlType::Text);
                let cells = ring_cells(b"test", "dc1", "r1", "0");
                rows(header, &columns, &[&cells.each_ref().map(|cell| Some(&cell[..]))], None, &mut out);
            }
            "SELECT rpc_address, data_center, rack, tokens FROM system.peers" => {
                let columns = ring_columns("rpc_address", CqlType::Inet);
                let away = vec![(2, "dc1", "r2", 1000), (3, "dc2", "r1", -1000)];
                let (first, peers) = match &*data.peers.borrow() {
                    None => ([127, 0, 0], away),
                    Some(peers) => ([10, 0, 0], peers.clone()),
                };
                let cells: Vec<[Vec<u8>; 4]> = peers
                    .iter()
                    .map(|(last, datacenter, rack, token)| {
                        let [a, b, c] = first;
                        ring_cells(&[a, b, c, *last], datacenter, rack, &token.to_string())
                    })
                    .collect();
                let cells: Vec<[Option<&[u8]>; 4]> =
                    cells.iter().map(|cells| cells.each_ref().map(|cell| Some(&cell[..]))).collect();
                let slices: Vec<&[Option<&[u8]>]> = cells.iter().map(|cells| &cells[..]).collect();
                rows(header, &columns, &slices, None, &mut out);
            }
            "SELECT schema_version FROM system.local" => {
                let columns = [column("schema_version", CqlType::Uuid)];
                rows(header, &columns, &[&[Some(&[1; 16])]], None, &mut out);
            }
            "SELECT rpc_address, schema_version FROM system.peers" => {
                let columns = [column("rpc_address", CqlType::Inet), column("schema_version", CqlType::Uuid)];
                let left = data.disagrees.get();
                data.disagrees.set(left.saturating_sub(1));
                let version = [if left > 0 { 2 } else { 1 }; 16];
                rows(header, &columns, &[&[Some(&[10, 0, 0, 2]), Some(&version)]], None, &mut out);
            }
            "CREATE TABLE by_and_by" => {
                data.disagrees.set(3);
                say(Reply::Void, &mut out);
            }
            "SELECT keyspace_name, replication FROM system_schema.keyspaces" => {
                let ty = CqlType::map(CqlType::Text, CqlType::Text);
                let columns = [column("keyspace_name", CqlType::Text), column("replication", ty.clone())];
                let pair = |key: &str, value: &str| (Value::text(key), Value::text(value));
                let simple = vec![pair("class", "SimpleStrategy"), pair("replication_factor", "2")];
                let simple = Value::Map(simple).encode(&ty).expect("texts");
                let names = data.keyspaces.borrow();
                let names = std::iter::once("twice").chain(names.iter().map(String::as_str));
                let cells: Vec<[Option<&[u8]>; 2]> =
                    names.map(|name| [Some(name.as_bytes()), Some(&simple[..])]).collect();
                let slices: Vec<&[Option<&[u8]>]> = cells.iter().map(|cells| &cells[..]).collect();
                rows(header, &columns, &slices, None, &mut out);
            }
            // One more node, or one fewer: whoever listens is told.
            "join" | "leave" => {
                let is_new = query.query == "join";
                let near = (2, "dc1", "r2", 1000);
                *data.peers.borrow_mut() = Some(if is_new { vec![near] } else { Vec::new() });
                let change = if is_new { NodeChange::New } else { NodeChange::Removed };
                tell(data, &Event::Topology(change, SocketAddr::from(([10, 0, 0, 2], PORT)))).await;
                say(Reply::Void, &mut out);
            }
            // A table of its own that nobody need know of, then a keyspace.
            "CREATE KEYSPACE later" => {
                for (target, keyspace) in [(Target::Table("t".into()), "twice"), (Target::Keyspace, "later")]
                {
                    let keyspace = keyspace.to_owned();
                    let change = SchemaChange { change: Change::Created, keyspace, target };
                    data.keyspaces.replace(vec!["later".into()]);
                    tell(data, &Event::Schema(change)).await;
                }
                say(Reply::Void, &mut out);
            }
            "who" => say(Reply::SetKeyspace(&data.name.borrow()), &mut out),
            "forget" => {
                data.prepared.borrow_mut().clear();
                say(Reply::Void, &mut out);
            }
            "forget three more" => {
                data.prepared.borrow_mut().clear();
                data.forgetful.set(3);
                say(Reply::Void, &mut out);
            }
            "slow" => {
                runtime::sleep(Duration::from_secs(1)).await;
                say(Reply::SetKeyspace("slow"), &mut out);
            }
            "pages" => {
                let at = query.parameters.paging_state.map_or(0, |state| state[0]);
                let size = query.parameters.page_size.expect("a page size") as u8;
                let last = (at + size).min(10);
                let values: Vec<[u8; 1]> = (at..last).map(|n| [n]).collect();
                let cells: Vec<[Option<&[u8]>; 1]> = values.iter().map(|v| [Some(&v[..])]).collect();
                let slices: Vec<&[Option<&[u8]>]> = cells.iter().map(|c| &c[..]).collect();
                let more = [last];
                let state = if last < 10 { Some(&more[..]) } else { None };
                rows(header, &[column("n", CqlType::Tinyint)], &slices, state, &mut out);
            }
            "bad" => {
                let failure = Failure::new(FailureKind::Invalid, "bad statement");
                say(Reply::Error(&failure), &mut out);
            }
            _ => say(Reply::Void, &mut out),
        },
    }
    out
}

/// Tells an event to whoever listens.
async fn tell(data: &Data, event: &Event) {
    let listeners = data.listeners.borrow().clone();
    for (listener, dress, version) in listeners {
        let (mut envelope, mut wire) = (Vec::new(), Vec::new());
        Reply::Event(event).encode(&mut envelope, version, EVENT_STREAM, &Extras::default());
        dress.write(&envelope, &mut wire);
        // Listeners come and go.
        let _gone = listener.send_all(wire).await;
    }
}

fn unprepared(header: &Header, id: Vec<u8>, out: &mut Vec<u8>) {
    let failure = Failure::new(FailureKind::Unprepared { id }, "prepare it again");
    Reply::Error(&failure).encode(out, header.version, header.stream, &Extras::default());
}

fn run_prepared(execute: &Execute<'_>, header: &Header, data: &Data, out: &mut Vec<u8>) {
    let Some(text) = data.prepared.borrow().get(execute.id).cloned() else {
        return unprepared(header, execute.id.to_vec(), out);
    };
    let values: Vec<Vec<u8>> = execute
        .parameters
        .values
        .iter()
        .map(|(_, value)| match value {
            RawValue::Bytes(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        })
        .collect();
    let token = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().expect("a bigint"));
    match values.as_slice() {
        [key] if text.starts_with("DELETE") => {
            data.rows.borrow_mut().remove(key);
            Reply::Void.encode(out, header.version, header.stream, &Extras::default());
        }
        [after, to] if text.starts_with("SELECT") => {
            let inside = token(after)..token(to);
            let all = data.rows.borrow();
            let found = all.values().zip(all.keys().map(|key| Token::of_key(key).0));
            let found = found.filter(|(_, token)| inside.start < *token && *token <= inside.end);
            let cells: Vec<[Option<&[u8]>; 1]> = found.map(|(value, _)| [Some(&value[..])]).collect();
            let slices: Vec<&[Option<&[u8]>]> = cells.iter().map(|row| &row[..]).collect();
            rows(header, &[column("value", CqlType::Blob)], &slices, None, out);
        }
        [key, value] => {
            data.rows.borrow_mut().insert(key.clone(), value.clone());
            Reply::Void.encode(out, header.version, header.stream, &Extras::default());
        }
        [key] => {
            let found = data.rows.borrow().get(key).cloned();
            let row = [found.as_deref()];
            let all: &[&[Option<&[u8]>]] = if found.is_some() { &[&row] } else { &[] };
            rows(header, &[column("value", CqlType::Blob)], all, None, out);
        }
        _ => panic!("one or two values"),
    }
}

fn rows(
    header: &Header,
    columns: &[ColumnSpec],
    rows: &[&[Option<&[u8]>]],
    paging_state: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let head = RowsHeader { paging_state, ..RowsHeader::default() };
    let mut writer = RowsWriter::begin(out, header.version, header.stream, &Extras::default(), columns, head);
    for row in rows {
        for value in *row {
            writer.value(*value);
        }
        writer.end_row();
    }
    writer.finish();
}

/// Columns of a row of the ring.
fn ring_columns(first: &'static str, ty: CqlType) -> [ColumnSpec; 4] {
    let text = CqlType::Text;
    let tokens = column("tokens", CqlType::set(CqlType::Text));
    [column(first, ty), column("data_center", text.clone()), column("rack", text), tokens]
}

fn ring_cells(first: &[u8], datacenter: &str, rack: &str, token: &str) -> [Vec<u8>; 4] {
    let tokens = Value::Set(vec![Value::text(token)]).encode(&CqlType::set(CqlType::Text)).expect("texts");
    [first.to_vec(), datacenter.into(), rack.into(), tokens]
}
