//! A traced request brings an id, and the tables of traces know it.

use crate::harness::*;
use protocol::envelope::flag;
use runtime::net::TcpStream;
use types::{Consistency, Value};

/// Reads one v4 response: its flags and its body.
pub async fn receive(stream: &TcpStream, pending: &mut Vec<u8>) -> (u8, Vec<u8>) {
    loop {
        if pending.len() >= 9 {
            let length = u32::from_be_bytes(pending[5..9].try_into().unwrap()) as usize;
            if pending.len() >= 9 + length {
                let whole: Vec<u8> = pending.drain(..9 + length).collect();
                return (whole[1], whole[9..].to_vec());
            }
        }
        let received = stream.recv().await.unwrap();
        assert!(!received.is_empty(), "the node closed the connection");
        pending.extend_from_slice(&received);
    }
}

/// A v4 request.
pub fn frame(flags: u8, opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![4, flags, 0, 1, opcode];
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The body of a QUERY at a level.
pub fn query(text: &str, level: Consistency) -> Vec<u8> {
    let mut body = (text.len() as u32).to_be_bytes().to_vec();
    body.extend_from_slice(text.as_bytes());
    body.extend_from_slice(&(level as u16).to_be_bytes());
    body.push(0);
    body
}

/// A trace's id in a traced response, as CQL has it.
pub fn id_in(body: &[u8]) -> String {
    let id: String = body[..16].iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..])
}

#[test]
fn a_traced_request_is_found_in_the_tables_of_traces() {
    let mut stage = stage(61, 3);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let stream = TcpStream::connect(native(), None).await.unwrap();
        let mut pending = Vec::new();
        let startup = b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0";
        stream.send_all(frame(0, 1, startup)).await.unwrap();
        receive(&stream, &mut pending).await;
        let text = "SELECT * FROM ks.kv";
        stream.send_all(frame(0, 7, &query(text, Consistency::One))).await.unwrap();
        let (flags, _) = receive(&stream, &mut pending).await;
        assert_eq!(flags & flag::TRACING, 0);
        assert!(rows(&connection, "SELECT * FROM system_traces.sessions").await.rows.is_empty());
        stream.send_all(frame(flag::TRACING, 7, &query(text, Consistency::One))).await.unwrap();
        let (flags, body) = receive(&stream, &mut pending).await;
        assert_eq!(flags & flag::TRACING, flag::TRACING);
        let id = id_in(&body);
        let session = rows(
            &connection,
            &format!(
                "SELECT request, duration, coordinator, parameters, started_at, client FROM system_traces.sessions \
                 WHERE session_id = {id}"
            ),
        )
        .await;
        assert_eq!(session.value(0, 0).unwrap(), Value::Text("Execute CQL3 query".into()));
        assert!(session.rows[0].iter().all(Option::is_some), "{:?}", session.rows);
        let parameters = session.value(0, 3).unwrap().to_cql();
        assert!(parameters.contains(text) && parameters.contains("ONE"), "{parameters}");
        let events = rows(
            &connection,
            &format!(
                "SELECT activity, event_id, source, source_elapsed, thread FROM system_traces.events \
                 WHERE session_id = {id}"
            ),
        )
        .await;
        let activity = |row: usize| events.value(row, 0).unwrap().to_cql();
        let activities: Vec<String> = (0..events.rows.len()).map(activity).collect();
        let expected = [
            "Execute CQL3 query received from",
            "Parsing SELECT",
            "Preparing statement",
            "Reading data at ONE from /10.0.0.1:7000",
            // One of each shard.
            "Merged data of kv",
            "Merged data of kv",
            "Merged data of kv",
            "Answered with 0 rows",
        ];
        assert_eq!(activities.len(), expected.len(), "{activities:#?}");
        for (activity, expected) in activities.iter().zip(expected) {
            assert!(activity.contains(expected), "{activities:#?}");
        }
    });
}
