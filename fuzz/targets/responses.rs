//! What a client reads: the body of one response of any version, straight from the input.
//!
//! `version opcode flags body`: the first three bytes are the header, so that every input reaches a decoder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::envelope::{Header, Version};
use protocol::extras::Extras;
use protocol::response::{Reply, Response};

fuzz_target!(|data: &[u8]| {
    let [version, opcode, flags, body @ ..] = data else { return };
    let version = match version % 3 {
        0 => Version::V3,
        1 => Version::V4,
        _ => Version::V5,
    };
    let length = body.len() as u32;
    let header = Header { version, flags: flags & 0x1e, stream: 1, opcode: opcode % 17, length };
    let Ok(response) = Response::decode(&header, body) else { return };
    if let Response::Rows(rows) = &response {
        assert_eq!(rows.iter().count(), rows.row_count);
    }
    // What was understood can be said again, and means the same.
    let mut out = Vec::new();
    let extras = Extras::default();
    let reply = match &response {
        Response::Error(failure) if version == Version::V5 => Reply::Error(failure),
        Response::Supported(options) => Reply::Supported(options),
        Response::Prepared(prepared) => Reply::Prepared(prepared),
        Response::SchemaChange(change) if version != Version::V3 => Reply::SchemaChange(change),
        Response::SetKeyspace(keyspace) => Reply::SetKeyspace(keyspace),
        Response::AuthChallenge(token) => Reply::AuthChallenge(*token),
        Response::AuthSuccess(token) => Reply::AuthSuccess(*token),
        _ => return,
    };
    reply.encode(&mut out, version, 1, &extras);
    let again =
        Header::parse(&out, protocol::envelope::Direction::Responses).expect("our own").expect("whole");
    let decoded = Response::decode(&again, &out[protocol::limits::HEADER_BYTES..]).expect("our own");
    if let (Response::Prepared(before), Response::Prepared(after)) = (&response, &decoded) {
        // Indexes go with one table for all markers, and a type keeps no marks of being frozen.
        assert_eq!(before.id, after.id);
        assert_eq!(before.markers.len(), after.markers.len());
        return;
    }
    if let (Response::Error(before), Response::Error(after)) = (&response, &decoded) {
        assert_eq!(before.kind.code(), after.kind.code());
        return;
    }
    assert_eq!(decoded, response);
});
