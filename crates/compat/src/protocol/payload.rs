//! Custom payloads: nobody here reads them, so that they change nothing, whatever they hold.

use std::net::SocketAddr;

use super::talk::{Envelope, Talk};
use crate::wire::{self, CUSTOM_PAYLOAD};

const PROTOCOL_ERROR: u32 = 0x000A;

/// A payload with these values; `None` is a null.
fn payload(entries: &[(&str, Option<&[u8]>)]) -> Vec<u8> {
    let mut out = (entries.len() as u16).to_be_bytes().to_vec();
    for (key, value) in entries {
        wire::string(&mut out, key.as_bytes());
        match value {
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(value) => {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value);
            }
        }
    }
    out
}

fn ask(talk: &mut Talk, opcode: u8, payload: &[u8], body: &[u8]) -> Result<Envelope, String> {
    let stream = talk.send(opcode, CUSTOM_PAYLOAD, &[payload, body].concat());
    Ok(talk.answer(stream)?.0)
}

/// The answer, which must be of this kind and carry no payload.
fn plain(opcode: u8, answer: Envelope) -> Result<Vec<u8>, String> {
    let Envelope { flags, response } = answer;
    if response.opcode == opcode && flags & CUSTOM_PAYLOAD == 0 {
        return Ok(response.body);
    }
    Err(format!("flags {flags:#x}, {:?}, {response:?}", response.error()))
}

/// The tail of a request without values: consistency ONE and no flags.
fn tail(version: u8) -> Vec<u8> {
    if version >= 5 { vec![0, 1, 0, 0, 0, 0] } else { vec![0, 1, 0] }
}

fn setup(address: SocketAddr, version: u8) -> Result<Talk, String> {
    let mut talk = Talk::open(address, version)?;
    talk.run(
        "CREATE KEYSPACE IF NOT EXISTS payloads WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )?;
    talk.run("CREATE TABLE IF NOT EXISTS payloads.rows (k int PRIMARY KEY, v int)")?;
    talk.run("TRUNCATE payloads.rows")?;
    Ok(talk)
}

/// Requests of every kind with a payload do what they do without; by version 3, which has none, they are refused.
pub fn every_request(address: SocketAddr, version: u8, _: usize) -> Result<String, String> {
    let mut talk = setup(address, version)?;
    let held = payload(&[("key", Some(b"value")), ("null", None), ("", Some(b"")), ("key", Some(b"again"))]);
    let query = |text: &str| wire::query_body(version, text.as_bytes());
    if version < 4 {
        let answer = ask(&mut talk, wire::QUERY, &held, &query("SELECT key FROM system.local"))?;
        return match answer.response.error() {
            Some((PROTOCOL_ERROR, _)) => Ok(String::new()),
            _ => Err(format!("{:?}", answer.response)),
        };
    }
    plain(wire::SUPPORTED, ask(&mut talk, wire::OPTIONS, &held, &[])?)?;
    plain(wire::READY, ask(&mut talk, wire::REGISTER, &held, &[0, 0])?)?;
    plain(
        wire::RESULT,
        ask(&mut talk, wire::QUERY, &held, &query("INSERT INTO payloads.rows (k, v) VALUES (1, 1)"))?,
    )?;
    let text = b"INSERT INTO payloads.rows (k, v) VALUES (2, 2)";
    let mut prepare = (text.len() as u32).to_be_bytes().to_vec();
    prepare.extend_from_slice(text);
    prepare.extend_from_slice(if version >= 5 { &[0; 4] } else { &[] });
    let prepared = plain(wire::RESULT, ask(&mut talk, wire::PREPARE, &held, &prepare)?)?;
    // Kind, then the statement's id, in version 5 the result's, too: all that EXECUTE wants to hear.
    let id = |from: usize| {
        let len = prepared.get(from..from + 2).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])));
        len.and_then(|len| prepared.get(from..from + 2 + len)).ok_or("PREPARE was answered without an id")
    };
    let mut execute = id(4)?.to_vec();
    if version >= 5 {
        execute.extend_from_slice(id(4 + execute.len())?);
    }
    execute.extend(tail(version));
    plain(wire::RESULT, ask(&mut talk, wire::EXECUTE, &held, &execute)?)?;
    let text = b"INSERT INTO payloads.rows (k, v) VALUES (3, 3)";
    let mut batch = vec![1, 0, 1, 0];
    batch.extend_from_slice(&(text.len() as u32).to_be_bytes());
    batch.extend_from_slice(text);
    batch.extend_from_slice(&[0, 0]);
    batch.extend(tail(version));
    plain(wire::RESULT, ask(&mut talk, wire::BATCH, &held, &batch)?)?;
    let rows = plain(
        wire::RESULT,
        ask(&mut talk, wire::QUERY, &held, &query("SELECT count(*) FROM payloads.rows"))?,
    );
    // The last column of the only row: eight bytes.
    match rows?.as_slice() {
        [.., 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3] => {}
        other => return Err(format!("three rows were written; counted {other:?}")),
    }
    let answer = ask(&mut talk, wire::QUERY, &held, &query("SELECT nothing FROM payloads.rows"))?;
    plain(wire::ERROR, answer).map(|_| String::new())
}

/// Many entries, and long ones.
pub fn large(address: SocketAddr, version: u8, _: usize) -> Result<String, String> {
    if version < 4 {
        return Ok("there are none".into());
    }
    let mut talk = setup(address, version)?;
    let long = vec![7; 5 << 20];
    let names: Vec<String> = (0..u16::MAX).map(|i| i.to_string()).collect();
    let many: Vec<(&str, Option<&[u8]>)> = names.iter().map(|name| (&**name, Some(&b"value"[..]))).collect();
    let key = "k".repeat(usize::from(u16::MAX));
    for held in [payload(&[("long", Some(&long))]), payload(&many), payload(&[(&key, Some(b""))])] {
        let answer =
            ask(&mut talk, wire::QUERY, &held, &wire::query_body(version, b"SELECT key FROM system.local"))?;
        plain(wire::RESULT, answer).map_err(|error| format!("{} bytes: {error}", held.len()))?;
    }
    Ok(String::new())
}

/// A payload that ends early, or says that it is longer than the request, is a mistake of the protocol's.
pub fn broken(address: SocketAddr, version: u8, _: usize) -> Result<String, String> {
    if version < 4 {
        return Ok("there are none".into());
    }
    let query = wire::query_body(version, b"SELECT key FROM system.local");
    let whole = payload(&[("key", Some(b"value"))]);
    let mut cases: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    let mut longer = payload(&[("key", Some(b""))]);
    let end = longer.len();
    // Not more: Cassandra takes memory for what it is told, and ends when there is none.
    longer[end - 4..].copy_from_slice(&(1i32 << 24).to_be_bytes());
    cases.push([&longer[..], &query].concat());
    cases.push([&[0xFF, 0xFF][..], &whole[2..], &query].concat());
    for case in &cases {
        let mut talk = Talk::open(address, version)?;
        let answer = ask(&mut talk, wire::QUERY, case, &[])?;
        match answer.response.error() {
            Some((PROTOCOL_ERROR, _)) => {}
            // What a buffer of Java's says: Cassandra's own way to tell it.
            Some((0, why)) if why.starts_with("java.lang.IndexOutOfBounds") => {}
            _ => return Err(format!("{case:?} was answered with {:?}", answer.response)),
        }
    }
    Ok(format!("{} mistakes", cases.len()))
}
