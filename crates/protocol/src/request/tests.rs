//! Requests survive the trip in every version; the examples of the specification are read; any bytes are safe.

use super::*;
use crate::limits::HEADER_BYTES;
use crate::values::ValuesBuilder;
use crate::wire::RawValue;
use proptest::prelude::*;

fn decode(bytes: &[u8]) -> Result<Request<'_>, Error> {
    let header = Header::parse(bytes, Direction::Requests)?.expect("a whole header");
    assert_eq!(header.length as usize, bytes.len() - HEADER_BYTES);
    Request::decode(&header, &bytes[HEADER_BYTES..])
}

#[test]
fn bytes_of_the_examples() {
    let mut startup = vec![4, 0, 0, 1, 1, 0, 0, 0, 0x16, 0, 1, 0, 0x0B];
    startup.extend_from_slice(b"CQL_VERSION\0\x053.0.0");
    let options = vec![("CQL_VERSION", "3.0.0")];
    let request = Request::Startup(Startup { options });
    assert_eq!(decode(&startup), Ok(request.clone()));
    let mut out = Vec::new();
    request.encode(&mut out, Version::V4, 1);
    assert_eq!(out, startup);
    let mut query = vec![4, 0, 0, 2, 7, 0, 0, 0, 0x0F, 0, 0, 0, 8];
    query.extend_from_slice(b"SELECT 1\0\x01\0");
    let request = Request::Query(Query { query: "SELECT 1", parameters: Parameters::at(Consistency::One) });
    assert_eq!(decode(&query), Ok(request));
}

const VERSIONS: [Version; 3] = [Version::V3, Version::V4, Version::V5];

fn version() -> impl Strategy<Value = Version> {
    proptest::sample::select(&VERSIONS[..])
}

fn full<'a>(values: &'a ValuesBuilder, version: Version) -> Parameters<'a> {
    let v5 = version == Version::V5;
    Parameters {
        values: values.values(),
        skip_metadata: true,
        page_size: Some(100),
        paging_state: Some(b"state"),
        serial_consistency: Some(Consistency::LocalSerial),
        timestamp: Some(-7),
        keyspace: v5.then_some("ks"),
        now_s: v5.then_some(12),
        ..Parameters::at(Consistency::LocalQuorum)
    }
}

#[test]
fn requests_round_trip() {
    let mut values = ValuesBuilder::new();
    values.push(RawValue::Null).bytes(b"abc");
    let mut named = ValuesBuilder::new();
    named.push_named("a", RawValue::Bytes(b"1"));
    for version in VERSIONS {
        let v5 = version == Version::V5;
        let tail = Parameters {
            values: Values::default(),
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            ..full(&values, version)
        };
        for request in [
            Request::Options,
            Request::AuthResponse(Some(b"\0user\0secret")),
            Request::AuthResponse(None),
            Request::Query(Query { query: "q", parameters: full(&named, version) }),
            Request::Prepare(Prepare { query: "q", keyspace: v5.then_some("ks") }),
            Request::Execute(Execute {
                id: b"id",
                result_metadata_id: v5.then_some(b"meta"),
                parameters: full(&values, version),
            }),
            Request::Batch(Batch {
                kind: BatchKind::Unlogged,
                statements: vec![
                    BatchStatement { source: BatchSource::Query("q"), values: values.values() },
                    BatchStatement { source: BatchSource::Prepared(b"id"), values: Values::default() },
                ],
                parameters: tail,
            }),
            Request::Register(vec![EventType::SchemaChange, EventType::StatusChange]),
        ] {
            let mut out = Vec::new();
            request.encode(&mut out, version, 77);
            assert_eq!(decode(&out), Ok(request));
        }
    }
    let read: Vec<_> = values.values().iter().map(|(_, v)| v).collect();
    assert_eq!(read, [RawValue::Null, RawValue::Bytes(b"abc")]);
    let read: Vec<_> = named.values().iter().collect();
    assert_eq!(read, [(Some("a"), RawValue::Bytes(&b"1"[..]))]);
}

#[test]
fn startup_is_checked() {
    let check = |options: &[(&'static str, &'static str)], version| {
        let startup = Startup { options: options.to_vec() };
        startup.check(version).map_err(|e| e.to_string())
    };
    let cql = ("CQL_VERSION", "3.0.0");
    assert_eq!(check(&[cql], Version::V4), Ok(Compression::None));
    assert_eq!(check(&[cql, ("compression", "LZ4")], Version::V5), Ok(Compression::Lz4));
    for (options, version, text) in [
        (&[][..], Version::V4, "Missing value CQL_VERSION in STARTUP message"),
        (
            &[cql, ("COMPRESSION", "snappy")],
            Version::V5,
            "Snappy compression is not supported in protocol V5",
        ),
        (&[cql, ("COMPRESSION", "zstd")], Version::V4, "Unknown compression algorithm: zstd"),
    ] {
        assert_eq!(check(options, version), Err(text.to_owned()));
    }
    for version in [Version::V3, Version::V4] {
        assert_eq!(check(&[cql, ("COMPRESSION", "Snappy")], version), Ok(Compression::Snappy));
    }
    assert_eq!(check(&[("CQL_VERSION", "2.99.0")], Version::V4), Ok(Compression::None));
    assert!(check(&[("CQL_VERSION", "2.98.9")], Version::V4).is_err());
    assert!(check(&[("CQL_VERSION", "x")], Version::V4).is_err());
}

#[test]
fn unset_values_are_null_in_v3() {
    let mut values = ValuesBuilder::new();
    values.push(RawValue::Null).push(RawValue::Unset).bytes(b"abc");
    for (version, second) in [(Version::V3, RawValue::Null), (Version::V4, RawValue::Unset)] {
        let parameters = Parameters { values: values.values(), ..Parameters::at(Consistency::One) };
        let mut out = Vec::new();
        Request::Query(Query { query: "q", parameters }).encode(&mut out, version, 1);
        let Ok(Request::Query(query)) = decode(&out) else { panic!("a query") };
        let read: Vec<_> = query.parameters.values.iter().map(|(_, v)| v).collect();
        assert_eq!(read, [RawValue::Null, second, RawValue::Bytes(b"abc")]);
    }
}

#[test]
fn custom_payloads_are_skipped_but_not_known_to_v3() {
    let mut body = vec![0, 1, 0, 1, b'k', 0, 0, 0, 2, 9, 9];
    body.extend_from_slice(&[0, 0, 0, 1, b'q', 0, 1, 0]);
    let header = |version| Header {
        version,
        flags: flag::CUSTOM_PAYLOAD,
        stream: 0,
        opcode: 7,
        length: body.len() as u32,
    };
    let query = Request::Query(Query { query: "q", parameters: Parameters::at(Consistency::One) });
    assert_eq!(Request::decode(&header(Version::V4), &body), Ok(query));
    assert_eq!(
        Request::decode(&header(Version::V3), &body),
        Err(Error::message("Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4"))
    );
}

/// What a random request is made of.
#[derive(Clone, Debug)]
struct Drawn {
    version: Version,
    text: String,
    id: Vec<u8>,
    values: Vec<Option<Vec<u8>>>,
    names: bool,
    flags: u16,
    numbers: (u32, i64, i32),
    kind: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let values = proptest::collection::vec(proptest::option::of(bytes()), 0..6);
    let numbers = (1u32..=i32::MAX as u32, i64::MIN + 1..=i64::MAX, any::<i32>());
    (version(), ".{0,30}", bytes(), values, any::<(bool, u16)>(), numbers, 0u8..6).prop_map(
        |(version, text, id, values, (names, flags), numbers, kind)| Drawn {
            version,
            text,
            id,
            values,
            names,
            flags,
            numbers,
            kind,
        },
    )
}

impl Drawn {
    fn values(&self) -> ValuesBuilder {
        let mut builder = ValuesBuilder::new();
        for value in &self.values {
            let value = value.as_deref().map_or(RawValue::Null, RawValue::Bytes);
            match self.names && self.kind != 3 {
                true => builder.push_named(&self.text, value),
                false => builder.push(value),
            };
        }
        builder
    }

    /// Everything the flags ask for that the version has.
    fn parameters<'a>(&'a self, values: &'a ValuesBuilder) -> Parameters<'a> {
        let v5 = self.version == Version::V5;
        let asks = |bit: u16| self.flags & 1 << bit != 0;
        let (size, timestamp, now) = self.numbers;
        Parameters {
            consistency: Consistency::try_from(self.flags % 11).expect("a level"),
            values: values.values(),
            skip_metadata: asks(0),
            page_size: asks(1).then_some(size),
            paging_state: asks(2).then_some(&*self.id),
            serial_consistency: asks(3).then_some(Consistency::Serial),
            timestamp: asks(4).then_some(timestamp),
            keyspace: (v5 && asks(5)).then_some(&*self.text),
            now_s: (v5 && asks(6)).then_some(now),
        }
    }

    fn request<'a>(&'a self, values: &'a ValuesBuilder) -> Request<'a> {
        let v5 = self.version == Version::V5;
        let (query, parameters) = (&*self.text, self.parameters(values));
        match self.kind {
            0 => Request::Query(Query { query, parameters }),
            1 => Request::Prepare(Prepare { query, keyspace: parameters.keyspace }),
            2 => Request::Execute(Execute {
                id: &self.id,
                result_metadata_id: v5.then_some(&*self.id),
                parameters,
            }),
            3 => {
                let text = BatchStatement { source: BatchSource::Query(query), values: values.values() };
                let prepared = BatchStatement { source: BatchSource::Prepared(&self.id), ..text };
                let tail = Parameters {
                    values: Values::default(),
                    skip_metadata: false,
                    page_size: None,
                    paging_state: None,
                    ..parameters
                };
                let kind =
                    [BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter][self.values.len() % 3];
                Request::Batch(Batch { kind, statements: vec![text, prepared, text], parameters: tail })
            }
            4 => Request::Startup(Startup { options: vec![("CQL_VERSION", query); self.values.len()] }),
            _ => Request::AuthResponse(self.names.then_some(&self.id)),
        }
    }
}

#[test]
fn a_negative_page_size_is_no_paging_and_none_of_no_rows_is_refused() {
    let decode = |size: i32| {
        let mut body = vec![0, 0, 0, 1, b'q', 0, 1, 4];
        body.extend_from_slice(&size.to_be_bytes());
        let header = Header { version: Version::V4, flags: 0, stream: 0, opcode: 7, length: 12 };
        match Request::decode(&header, &body) {
            Ok(Request::Query(query)) => Ok(query.parameters.page_size),
            Ok(_) => panic!("a query"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(decode(-1), Ok(None));
    assert_eq!(decode(7), Ok(Some(7)));
    assert_eq!(decode(0), Err("The page size cannot be 0".to_string()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_request_round_trips(drawn in drawn(), stream: i16) {
        let values = drawn.values();
        let request = drawn.request(&values);
        let mut out = Vec::new();
        request.encode(&mut out, drawn.version, stream);
        let header = Header::parse(&out, Direction::Requests).expect("our own").expect("whole");
        prop_assert_eq!((header.version, header.stream), (drawn.version, stream));
        prop_assert_eq!(decode(&out), Ok(request));
    }

    #[test]
    fn any_bytes_are_safe(opcode in 0u8..20, flags in 0u8..32, version in version(), body: Vec<u8>) {
        let header = Header { version, flags, stream: 0, opcode, length: body.len() as u32 };
        let _ = Request::decode(&header, &body);
    }

    #[test]
    fn damaged_requests_are_safe(version in version(), batch: bool, at in any::<usize>(), to in any::<u8>(), cut in any::<usize>()) {
        let mut values = ValuesBuilder::new();
        values.push(RawValue::Unset).bytes(b"abc");
        let parameters = full(&values, version);
        let request = if batch {
            let statement = BatchStatement { source: BatchSource::Query("q"), values: values.values() };
            Request::Batch(Batch { kind: BatchKind::Logged, statements: vec![statement; 3], parameters })
        } else {
            Request::Execute(Execute { id: b"id", result_metadata_id: None, parameters })
        };
        let mut out = Vec::new();
        request.encode(&mut out, version, 0);
        let header = Header::parse(&out, Direction::Requests).expect("our own").expect("whole");
        let body = &mut out[HEADER_BYTES..];
        let at = at % body.len();
        body[at] = to;
        let cut = cut % (body.len() + 1);
        if let Ok(Request::Execute(execute)) = Request::decode(&header, &body[..cut]) {
            let values = execute.parameters.values;
            prop_assert_eq!(values.iter().count(), values.len());
        }
    }
}

#[test]
fn a_glance_sees_id_and_values() {
    let mut values = ValuesBuilder::new();
    values.push(RawValue::Null).bytes(b"abc");
    let mut named = ValuesBuilder::new();
    named.push_named("a", RawValue::Bytes(b"1"));
    for version in VERSIONS {
        let result_metadata_id = (version == Version::V5).then_some(&b"metadata"[..]);
        let glanced = |parameters: Parameters<'_>| {
            let mut out = Vec::new();
            let execute = Execute { id: b"0123456789abcdef", result_metadata_id, parameters };
            Request::Execute(execute).encode(&mut out, version, 1);
            Execute::glance(version, &out[HEADER_BYTES..]).map(|(id, values)| {
                (id.to_vec(), values.iter().map(|(_, value)| format!("{value:?}")).collect())
            })
        };
        let seen: Option<(Vec<u8>, Vec<String>)> = glanced(full(&values, version));
        let expected = values.values().iter().map(|(_, value)| format!("{value:?}")).collect();
        assert_eq!(seen, Some((b"0123456789abcdef".to_vec(), expected)));
        assert_eq!(glanced(Parameters { values: named.values(), ..Parameters::at(Consistency::One) }), None);
        assert_eq!(glanced(Parameters::at(Consistency::One)), None, "without values there is nothing to see");
    }
}

proptest! {
    #[test]
    fn a_glance_at_any_bytes_is_safe(version in version(), body in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Some((id, values)) = Execute::glance(version, &body) {
            prop_assert!(id.len() <= body.len() && values.iter().count() <= body.len());
        }
    }
}
