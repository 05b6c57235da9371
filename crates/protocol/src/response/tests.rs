//! Every response a server writes is the one a client reads; the examples of the specification come out byte by byte; any bytes are safe.

use super::*;
use crate::event::{Change, NodeChange, Target};
use crate::limits::HEADER_BYTES;
use crate::metadata::{ColumnSpec, RowsHeader};
use crate::rows::RowsWriter;
use crate::supported;
use proptest::prelude::*;
use types::{CqlType, UdtType};

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
    let replies = [
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
    ];
    for (reply, response) in replies.clone() {
        assert_eq!(read(&encoded(reply, Version::V5)), Ok(response));
    }
    for version in [Version::V3, Version::V4] {
        for (reply, response) in replies.clone() {
            let told = match response {
                // Version 3 cannot say where the partition key is, only version 5 has an id of the columns.
                Response::Prepared(mut prepared) => {
                    prepared.result_metadata_id.clear();
                    prepared.pk_indexes.retain(|_| version == Version::V4);
                    Response::Prepared(prepared)
                }
                Response::SchemaChange(change) if version == Version::V3 => {
                    let keyspace = change.keyspace;
                    let target = Target::Keyspace;
                    Response::SchemaChange(SchemaChange { change: Change::Updated, keyspace, target })
                }
                other => other,
            };
            assert_eq!(read(&encoded(reply, version)), Ok(told));
        }
    }
}

#[test]
fn warnings_are_for_v4_and_above_trace_ids_for_all() {
    let warnings = ["careful".to_owned()];
    let extras = Extras { trace_id: Some([7; 16]), warnings: &warnings };
    for (version, flags) in [
        (Version::V3, flag::TRACING),
        (Version::V4, flag::TRACING | flag::WARNING),
        (Version::V5, flag::TRACING | flag::WARNING),
    ] {
        let mut out = Vec::new();
        Reply::SetKeyspace("ks").encode(&mut out, version, 1, &extras);
        assert_eq!(out[1], flags);
        assert_eq!(out[HEADER_BYTES..HEADER_BYTES + 16], [7; 16]);
        assert_eq!(read(&out), Ok(Response::SetKeyspace("ks")));
    }
}

#[test]
fn rows_are_written_in_place() {
    for version in [Version::V3, Version::V4, Version::V5] {
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

fn version() -> impl Strategy<Value = Version> {
    proptest::sample::select(&[Version::V3, Version::V4, Version::V5][..])
}

fn ty() -> impl Strategy<Value = CqlType> {
    let scalars = [CqlType::Int, CqlType::Date, CqlType::Smallint, CqlType::Duration, CqlType::Text];
    let leaf = proptest::sample::select(scalars.to_vec());
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(CqlType::list),
            inner.clone().prop_map(CqlType::set),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| CqlType::map(k, v)),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(CqlType::tuple),
            proptest::collection::vec(("[a-z]{1,5}", inner), 1..4).prop_map(|fields| {
                let fields = fields.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
                CqlType::Udt(UdtType { keyspace: "ks".into(), name: "u".into(), fields }.into())
            }),
        ]
    })
}

fn column() -> impl Strategy<Value = ColumnSpec> {
    ("[ab]", "[ab]", ".{0,8}", ty()).prop_map(|(keyspace, table, name, ty)| ColumnSpec {
        keyspace: keyspace.into(),
        table: table.into(),
        name: name.into(),
        ty,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_prepared_statement_round_trips(
        version in version(),
        markers in proptest::collection::vec(column(), 0..5),
        columns in proptest::option::of(proptest::collection::vec(column(), 1..5)),
    ) {
        let prepared = Prepared {
            id: vec![1; 16],
            result_metadata_id: if version == Version::V5 { vec![2; 16] } else { Vec::new() },
            markers,
            pk_indexes: Vec::new(),
            columns,
        };
        let encoded = encoded(Reply::Prepared(&prepared), version);
        prop_assert_eq!(read(&encoded), Ok(Response::Prepared(prepared)));
    }

    #[test]
    fn any_rows_round_trip(
        version in version(),
        columns in proptest::collection::vec(column(), 1..4),
        cells in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), 0..30),
        state in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
    ) {
        let header = RowsHeader { paging_state: state.as_deref(), ..RowsHeader::default() };
        let mut out = Vec::new();
        let mut writer = RowsWriter::begin(&mut out, version, 5, &Extras::default(), &columns, header);
        let rows: Vec<_> = cells.chunks_exact(columns.len()).collect();
        for row in &rows {
            row.iter().for_each(|cell| writer.value(cell.as_deref()));
            writer.end_row();
        }
        writer.finish();
        let Ok(Response::Rows(back)) = read(&out) else { panic!("rows") };
        prop_assert_eq!(back.metadata.paging_state, state.as_deref());
        prop_assert_eq!(back.metadata.columns.as_deref(), Some(&*columns));
        let values: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(Option::as_deref).collect()).collect();
        prop_assert_eq!(back.iter().collect::<Vec<_>>(), values);
    }

    #[test]
    fn any_bytes_are_safe(opcode in 0u8..20, flags in 0u8..32, version in version(), body: Vec<u8>, kind in 0i32..7) {
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
