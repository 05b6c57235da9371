//! What clients and servers send: envelopes of v3 and v4, segments of v5, and the messages inside, in both directions.
//!
//! The first byte chooses the direction and how the rest is dressed: as it is, or as the payload of sound segments, so
//! that the checksums do not hide the decoders behind them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::assembler::Assembler;
use protocol::compression::Compression;
use protocol::envelope::{Direction, Header, Version};
use protocol::limits::HEADER_BYTES;
use protocol::request::Request;
use protocol::response::Response;
use protocol::segment;

/// Bodies larger than this are refused, as the server does with its own limit.
const BODY_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let direction = if mode & 1 == 0 { Direction::Requests } else { Direction::Responses };
    let compression = match (mode & 2 == 0, mode >> 2 & 3, mode & 16 == 0) {
        (true, ..) => Compression::None,
        (false, 0, true) => Compression::Snappy,
        (false, ..) => Compression::Lz4,
    };
    let mut assembler = Assembler::new(direction, BODY_MAX);
    assembler.set_compression(compression);
    let mut dressed = Vec::new();
    let bytes = match mode >> 2 & 3 {
        0 => rest,
        1 => {
            assembler.use_segments();
            rest
        }
        _ => {
            assembler.use_segments();
            for payload in rest.chunks(4096) {
                segment::write(payload, mode & 16 == 0, compression, &mut dressed);
            }
            &dressed
        }
    };
    // Bytes come as the network likes.
    for piece in bytes.chunks(1 + usize::from(mode >> 5) * 97) {
        assembler.push(piece);
        loop {
            match assembler.next() {
                Ok(Some(envelope)) => decode(direction, envelope.header, envelope.body),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});

/// A batch has no values of its own, and only version 5 has keyspaces: what says so all the same is not said again.
fn loses_something(request: &Request<'_>, version: Version) -> bool {
    match request {
        Request::Batch(_) => true,
        Request::Query(query) => version < Version::V5 && query.parameters.keyspace.is_some(),
        Request::Execute(execute) => version < Version::V5 && execute.parameters.keyspace.is_some(),
        _ => false,
    }
}

fn decode(direction: Direction, header: Header, body: &[u8]) {
    match direction {
        Direction::Requests => {
            if let Ok(request) = Request::decode(&header, body) {
                // What was understood can be said again, and means the same.
                let mut out = Vec::new();
                request.encode(&mut out, header.version, header.stream);
                if !loses_something(&request, header.version) {
                    let again = Header::parse(&out, direction).expect("our own").expect("whole");
                    let decoded = Request::decode(&again, &out[HEADER_BYTES..]).expect("our own");
                    assert_eq!(decoded, request);
                }
                if let Request::Startup(options) = &request {
                    let _ = options.check(Version::V5);
                }
            }
        }
        Direction::Responses => {
            let _ = Response::decode(&header, body);
        }
    }
}
