//! Every response a server writes is the one a client reads; the examples of the specification come out byte by byte; any bytes are safe.

use super::*;
use crate::event::{Change, NodeChange, Target};
use crate::limits::HEADER_BYTES;
use crate::metadata::{ColumnSpec, RowsHeader};
use crate::rows::RowsWriter;
use crate::supported;
use proptest::prelude::*;
use types::CqlType;

fn read(bytes: &[u8]) -> Result<Response<'_>, Error> {
    let header = Header::parse(bytes, Direction::Responses)?.expect("a whole header");
    assert_eq!(header.length as usize, bytes.len() - HEADER_BYTES);
    Response::decode(&header, &bytes[HEADER_BYTES..])
}

fn encoded(reply: Reply<'_>, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    reply.encode(&mut out, version, 1, &Extras::default());
    out
}

fn columns(tables: [&str; 2]) -> Vec<ColumnSpec> {
    tables
        .iter()
        .zip([CqlType::Int, CqlType::list(CqlType::Text)])
        .map(|(table, ty)| ColumnSpec { keyspace: "ks".into(), table: (*table).into(), name: "c".into(), ty })
        .collect()
}

#[test]
fn bytes_of_the_examples() {
    assert_eq!(encoded(Reply::Ready, Version::V4), [0x84, 0, 0, 1, 2, 0, 0, 0, 0]);
    let up = Event::Status(true, "10.0.0.1:9042".parse().expect("an address"));
    let mut out = Vec::new();
    Reply::Event(&up).encode(&mut out, Version::V4, EVENT_STREAM, &Extras::default());
    let mut want = vec![0x84, 0, 0xFF, 0xFF, 0x0C, 0, 0, 0, 0x1C, 0, 0x0D];
    want.extend_from_slice(b"STATUS_CHANGE\0\x02UP\x04\x0a\0\0\x01\0\0\x23\x52");
    assert_eq!(out, want);
    let refused = refusal(&Error::UnsupportedVersion { version: 0x42, stream: 0 }, None);
    assert_eq!(refused[..5], [0x85, 0, 0, 0, 0]);
    assert_eq!(refused[9..13], [0, 0, 0, 0x0A]);
    let text = String::from_utf8_lossy(&refused[15..]).into_owned();
    assert!(text.starts_with("Invalid or unsupported protocol version (66)"), "{text}");
    let old = refusal(&Error::UnsupportedVersion { version: 2, stream: 3 }, None);
    assert_eq!(old[..4], [0x82, 0, 3, 0]);
}

#[test]
fn replies_round_trip() {
    let failure = Failure::new(FailureKind::Invalid, "no");
    let options = supported::options(None);
    let prepared = Prepared {
        id: vec![1; 16],
        result_metadata_id: vec![2; 16],
        markers: columns(["t", "t"]),
        pk_indexes: vec![1],
        columns: Some(columns(["t", "u"])),
    };
    let mut nothing = prepared.clone();
    nothing.columns = None;
    let change = SchemaChange {
        change: Change::Created,
        keyspace: "ks".into(),
        target: Target::Function("f".into(), vec!["int".into()]),
    };
    let moved = Event::Topology(NodeChange::Moved, "[::1]:1".parse().expect("an address"));
    let event = Event::Schema(SchemaChange { target: Target::Keyspace, ..change.clone() });
    let version = Version::V5;
    for (reply, response) in [
        (Reply::Error(&failure), Response::Error(failure.clone())),
        (Reply::Ready, Response::Ready),
        (Reply::Authenticate("c"), Response::Authenticate("c")),
        (Reply::Supported(&options), Response::Supported(options.clone())),
        (Reply::Void, Response::Void),
        (Reply::SetKeyspace("ks"), Response::SetKeyspace("ks")),
        (Reply::Prepared(&prepared), Response::Prepared(prepared.clone())),
        (Reply::Prepared(&nothing), Response::Prepared(nothing.clone())),
        (Reply::SchemaChange(&change), Response::SchemaChange(change.clone())),
        (Reply::AuthChallenge(None), Response::AuthChallenge(None)),
        (Reply::AuthSuccess(Some(b"x")), Response::AuthSuccess(Some(b"x"))),
        (Reply::Event(&moved), Response::Event(moved.clone())),
        (Reply::Event(&event), Response::Event(event.clone())),
    ] {
        assert_eq!(read(&encoded(reply, version)), Ok(response));
    }
}

#[test]
fn rows_are_written_in_place() {
    for version in [Version::V4, Version::V5] {
        for tables in [["t", "t"], ["t", "u"]] {
            let specs = columns(tables);
            let mut out = vec![9, 9];
            let header = RowsHeader { paging_state: Some(b"next"), ..RowsHeader::default() };
            let warnings = ["careful".to_owned()];
            let extras = Extras { trace_id: Some([7; 16]), warnings: &warnings };
            let mut writer = RowsWriter::begin(&mut out, version, 5, &extras, &specs, header);
            writer.value(Some(&[0, 0, 0, 1]));
            writer.value(None);
            writer.end_row();
            assert_eq!(writer.row_bytes(), 12);
            writer.value(Some(b"gone"));
            writer.discard_row();
            writer.value_with(|out| out.push(3));
            writer.value(Some(b""));
            writer.end_row();
            assert_eq!(writer.rows(), 2);
            writer.value(Some(b"unfinished"));
            writer.finish();
            let Ok(Response::Rows(rows)) = read(&out[2..]) else {
                panic!("rows");
            };
            assert_eq!(rows.metadata.columns, Some(specs));
            assert_eq!(rows.metadata.paging_state, Some(&b"next"[..]));
            let values: Vec<_> = rows.iter().collect();
            assert_eq!(values, [vec![Some(&[0, 0, 0, 1][..]), None], vec![Some(&[3]), Some(b"")]]);
        }
    }
}

#[test]
fn metadata_is_left_out_or_renewed() {
    let specs = columns(["t", "t"]);
    for (version, header, sent) in [
        (Version::V4, RowsHeader { skip_metadata: true, ..RowsHeader::default() }, false),
        (
            Version::V4,
            RowsHeader { skip_metadata: true, new_metadata_id: Some(b"id"), ..RowsHeader::default() },
            false,
        ),
        (
            Version::V5,
            RowsHeader { skip_metadata: true, new_metadata_id: Some(b"id"), ..RowsHeader::default() },
            true,
        ),
    ] {
        let mut out = Vec::new();
        RowsWriter::begin(&mut out, version, 5, &Extras::default(), &specs, header).finish();
        let Ok(Response::Rows(rows)) = read(&out) else {
            panic!("rows");
        };
        assert_eq!(rows.metadata.column_count, 2);
        assert_eq!(rows.metadata.columns.is_some(), sent);
        assert_eq!(rows.metadata.new_metadata_id.is_some(), sent);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_safe(opcode in 0u8..20, flags in 0u8..32, v5: bool, body: Vec<u8>, kind in 0i32..7) {
        let version = if v5 { Version::V5 } else { Version::V4 };
        let header = Header { version, flags, stream: 0, opcode, length: body.len() as u32 };
        if let Ok(Response::Rows(rows)) = Response::decode(&header, &body) {
            prop_assert_eq!(rows.iter().count(), rows.row_count);
        }
        let mut result = kind.to_be_bytes().to_vec();
        result.extend_from_slice(&body);
        let _ = Response::decode(&Header { flags: 0, opcode: 8, ..header }, &result);
    }

    #[test]
    fn damaged_rows_are_safe(at in any::<usize>(), to in any::<u8>()) {
        let specs = columns(["t", "u"]);
        let mut out = Vec::new();
        let mut writer = RowsWriter::begin(&mut out, Version::V5, 5, &Extras::default(), &specs, RowsHeader::default());
        writer.value(Some(b"abcd"));
        writer.value(None);
        writer.end_row();
        writer.finish();
        let at = HEADER_BYTES + at % (out.len() - HEADER_BYTES);
        out[at] = to;
        if let Ok(Response::Rows(rows)) = read(&out) {
            prop_assert_eq!(rows.iter().count(), rows.row_count);
        }
    }
}
