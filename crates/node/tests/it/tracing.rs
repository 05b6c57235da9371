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

#[test]
fn a_prepared_statement_is_traced_where_it_would_end_within_a_step() {
    let mut stage = stage(62, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'one')").await;
        let stream = TcpStream::connect(native(), None).await.unwrap();
        let mut pending = Vec::new();
        stream.send_all(frame(0, 1, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")).await.unwrap();
        receive(&stream, &mut pending).await;
        let text = "SELECT v FROM ks.kv WHERE k = 1";
        let mut prepare = (text.len() as u32).to_be_bytes().to_vec();
        prepare.extend_from_slice(text.as_bytes());
        stream.send_all(frame(0, 9, &prepare)).await.unwrap();
        let (_, prepared) = receive(&stream, &mut pending).await;
        assert_eq!(prepared[..4], [0, 0, 0, 4], "PREPARED");
        let id = &prepared[4..4 + 2 + usize::from(prepared[5])];
        let execute = [id, &[0, 1, 0]].concat();
        let ask = |flags| stream.send_all(frame(flags, 10, &execute));
        ask(0).await.unwrap();
        let (_, plain) = receive(&stream, &mut pending).await;
        assert!(rows(&connection, "SELECT * FROM system_traces.events").await.rows.is_empty());
        ask(flag::TRACING).await.unwrap();
        let (flags, traced) = receive(&stream, &mut pending).await;
        assert_eq!((flags & flag::TRACING, &traced[16..]), (flag::TRACING, &plain[..]), "the same rows");
        let text = format!("SELECT activity FROM system_traces.events WHERE session_id = {}", id_in(&traced));
        let events = rows(&connection, &text).await;
        let activities: Vec<String> =
            (0..events.rows.len()).map(|row| events.value(row, 0).unwrap().to_cql()).collect();
        assert_eq!(activities.len(), 4, "{activities:#?}");
        assert!(activities[2].contains("read 1 live rows"), "{activities:#?}");
        // One that cannot be executed has a trace, too.
        let unknown = [&[0, 16][..], &[7; 16], &[0, 1, 0]].concat();
        stream.send_all(frame(flag::TRACING, 10, &unknown)).await.unwrap();
        let (_, body) = receive(&stream, &mut pending).await;
        let text = format!("SELECT duration FROM system_traces.sessions WHERE session_id = {}", id_in(&body));
        assert_eq!(rows(&connection, &text).await.rows.len(), 1);
    });
}
