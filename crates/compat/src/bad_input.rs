//! What no driver would ever send: broken frames, lying lengths, garbage, clients that never read; a folder in use, a
//! port taken, a configuration with mistakes. The node answers with the protocol's error or closes the connection, and
//! goes on serving others all the while.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::certificates::Certificates;
use crate::server::Server;
use crate::stream::{self, Stream};
use crate::suite::{Options, Report};
use crate::wire::{self, Response};
use crate::{command, server};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const PROTOCOL_ERROR: u32 = 0x000A;

/// What the node did with a connection.
#[derive(Debug)]
pub enum Reaction {
    /// An ERROR with its code and text.
    Error(u32, String),
    /// Any other answer.
    Answer(Response),
    /// It closed the connection.
    Closed,
}

type Case = (&'static str, fn(SocketAddr) -> Result<String, String>);

const CASES: &[Case] = &[
    ("truncated_frames", truncated_frames),
    ("oversized_frame", oversized_frame),
    ("unknown_versions", unknown_versions),
    ("unknown_opcodes", unknown_opcodes),
    ("statement_before_startup", statement_before_startup),
    ("startup_without_version", startup_without_version),
    ("invalid_utf8", invalid_utf8),
    ("lying_lengths", lying_lengths),
    ("unknown_statement_id", unknown_statement_id),
    ("broken_segment_header", broken_segment_header),
    ("broken_segment_payload", broken_segment_payload),
    ("segment_of_nothing", segment_of_nothing),
    ("byte_by_byte", byte_by_byte),
    ("many_requests_in_one_write", many_requests_in_one_write),
    ("other_protocols", other_protocols),
    ("mutated_frames", mutated_frames),
    ("connections_opened_and_dropped", connections_opened_and_dropped),
    ("client_that_never_reads", client_that_never_reads),
    ("large_answers_to_a_slow_client", large_answers_to_a_slow_client),
];

/// Runs every case against one server, looking after each whether it still serves; then all of them over TLS.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut running = None;
    report.test(&format!("bad_input::start --smp {shards}"), || {
        running = Some(options.server("bad-input", shards)?);
        Ok(String::new())
    });
    let Some(mut server) = running else { return };
    all_cases(&mut server, "", shards, report);
    if !options.against_cassandra {
        report.test(&format!("bad_input::folder_in_use --smp {shards}"), || {
            folder_in_use(options, &server, shards)
        });
        report.test(&format!("bad_input::port_in_use --smp {shards}"), || {
            port_in_use(options, &server, shards)
        });
        report.test("bad_input::configuration", || configuration(options));
    }
    finish(&mut server, "", shards, report);
    if options.against_cassandra {
        return;
    }
    let mut running = None;
    report.test(&format!("bad_input::start tls --smp {shards}"), || {
        let certificates = Certificates::make(&options.folder("bad-input-certificates")?)?;
        let mut start = options.start(options.folder("bad-input-tls")?, shards);
        start.yaml = certificates.yaml(false);
        let server = start.run()?;
        stream::encrypt(server.address, &certificates.authority)?;
        running = Some(server);
        Ok(String::new())
    });
    let Some(mut server) = running else { return };
    all_cases(&mut server, " tls", shards, report);
    finish(&mut server, " tls", shards, report);
}

fn all_cases(server: &mut Server, how: &str, shards: u16, report: &mut Report) {
    for (name, case) in CASES {
        report.test(&format!("bad_input::{name}{how} --smp {shards}"), || {
            let note = case(server.address)?;
            if !server.alive() {
                return Err(format!("the node died:\n{}", server.last_words()));
            }
            still_serves(server.address)?;
            Ok(note)
        });
    }
}

fn finish(server: &mut Server, how: &str, shards: u16, report: &mut Report) {
    report.test(&format!("bad_input::no_panic{how} --smp {shards}"), || {
        let log = command::read(&server.log)?;
        match log.lines().find(|line| line.contains("panicked")) {
            Some(line) => Err(format!("the log of the node says {line}")),
            None => Ok(String::new()),
        }
    });
    report.test(&format!("bad_input::stop{how} --smp {shards}"), || server.stop().map(|()| String::new()));
}

/// One connection by hand.
pub struct Raw {
    /// The connection itself.
    pub stream: Stream,
    version: u8,
}

impl Raw {
    /// Connects and says nothing yet.
    pub fn connect(address: SocketAddr, version: u8) -> Result<Raw, String> {
        Ok(Raw { stream: Stream::connect(address, PATIENCE)?, version })
    }

    /// Connects and says STARTUP.
    pub fn started(address: SocketAddr, version: u8) -> Result<Raw, String> {
        let mut raw = Raw::connect(address, version)?;
        raw.send(&wire::request(version, wire::STARTUP, 0, &wire::startup_body()));
        match raw.envelope()? {
            Reaction::Answer(response) if response.opcode == wire::READY => Ok(raw),
            other => Err(format!("STARTUP of v{version} was answered with {other:?}")),
        }
    }

    /// Sends bytes; the node may have closed already, which the next read tells.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// Sends a request in the framing of this connection's version.
    pub fn request(&mut self, opcode: u8, stream: i16, body: &[u8]) {
        let envelope = wire::request(self.version, opcode, stream, body);
        if self.version >= 5 {
            self.send(&wire::segment(&envelope));
        } else {
            self.send(&envelope);
        }
    }

    /// What the node makes of one statement.
    pub fn query(&mut self, text: &str) -> Result<Reaction, String> {
        self.request(wire::QUERY, 1, &wire::query_body(self.version, text.as_bytes()));
        self.answer()
    }

    /// How the node ended this connection: told after a request found it closed.
    pub fn how_closed(&mut self) -> String {
        match self.stream.read(&mut [0; 1]) {
            Ok(0) => "closed in order".into(),
            Ok(_) => "closed and not closed".into(),
            Err(error) => format!("cut: {error}"),
        }
    }

    /// Reads one answer outside of segments.
    pub fn envelope(&mut self) -> Result<Reaction, String> {
        let mut header = [0; 9];
        if !self.fill(&mut header)? {
            return Ok(Reaction::Closed);
        }
        let len = u32::from_be_bytes(header[5..].try_into().expect("four bytes"));
        let mut body = vec![0; len as usize];
        if !self.fill(&mut body)? {
            return Ok(Reaction::Closed);
        }
        Ok(reaction(&header, body))
    }

    /// Reads one answer in the framing of this connection's version; answers here fit one segment.
    pub fn answer(&mut self) -> Result<Reaction, String> {
        if self.version < 5 {
            return self.envelope();
        }
        let mut header = [0; 6];
        if !self.fill(&mut header)? {
            return Ok(Reaction::Closed);
        }
        let len = (u32::from_le_bytes([header[0], header[1], header[2], 0]) & 0x1FFFF) as usize;
        let mut payload = vec![0; len + 4];
        if !self.fill(&mut payload)? {
            return Ok(Reaction::Closed);
        }
        if payload[len..] != wire::crc32(&payload[..len]).to_le_bytes() {
            return Err("the node sent a segment with a wrong checksum".into());
        }
        let header: [u8; 9] = payload[..9].try_into().expect("nine bytes");
        Ok(reaction(&header, payload[9..len].to_vec()))
    }

    /// Fills the buffer; `false` when the connection was closed before its end.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, String> {
        match self.stream.read_exact(buffer) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("the node neither answered nor closed within {PATIENCE:?}"))
            }
            Err(_) => Ok(false),
        }
    }
}

fn reaction(header: &[u8; 9], body: Vec<u8>) -> Reaction {
    let stream = i16::from_be_bytes([header[2], header[3]]);
    let response = Response { stream, opcode: header[4], body };
    match response.error() {
        Some((code, text)) => Reaction::Error(code, text),
        None => Reaction::Answer(response),
    }
}

/// A fresh connection of each version gets its rows.
pub fn still_serves(address: SocketAddr) -> Result<(), String> {
    for version in [4, 5] {
        let mut raw = Raw::started(address, version)?;
        raw.request(wire::QUERY, 7, &wire::query_body(version, b"SELECT key FROM system.local"));
        match raw.answer()? {
            Reaction::Answer(response) if response.opcode == wire::RESULT && response.stream == 7 => {}
            other => {
                return Err(format!("afterwards, a v{version} client is answered with {other:?}"));
            }
        }
    }
    Ok(())
}

fn expect_protocol_error(what: &str, reaction: Reaction) -> Result<(), String> {
    match reaction {
        Reaction::Error(PROTOCOL_ERROR, _) => Ok(()),
        other => Err(format!("{what}: expected a protocol error, got {other:?}")),
    }
}

fn expect_refused(what: &str, reaction: Reaction) -> Result<(), String> {
    match reaction {
        Reaction::Error(..) | Reaction::Closed => Ok(()),
        Reaction::Answer(response) => Err(format!("{what}: accepted with opcode {:#x}", response.opcode)),
    }
}

fn truncated_frames(address: SocketAddr) -> Result<String, String> {
    let whole = wire::request(4, wire::STARTUP, 0, &wire::startup_body());
    for end in 0..whole.len() {
        let mut raw = Raw::connect(address, 4)?;
        raw.send(&whole[..end]);
        raw.stream.finish();
        expect_refused("half a frame", raw.envelope()?)?;
    }
    Ok(format!("{} lengths", whole.len()))
}

fn oversized_frame(address: SocketAddr) -> Result<String, String> {
    for length in [0x1000_0001u32, 0x7FFF_FFFF, 0xFFFF_FFFF] {
        let mut raw = Raw::started(address, 4)?;
        let mut frame = vec![4, 0, 0, 1, wire::QUERY];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&[0; 64]);
        raw.send(&frame);
        expect_refused("an oversized frame", raw.answer()?)?;
    }
    Ok(String::new())
}

fn unknown_versions(address: SocketAddr) -> Result<String, String> {
    for version in [0u8, 7, 9, 0x42, 0x7F] {
        let mut raw = Raw::connect(address, version)?;
        raw.send(&wire::request(version, wire::OPTIONS, 0, &[]));
        match raw.envelope()? {
            Reaction::Error(PROTOCOL_ERROR, text) if text.contains("protocol version") => {}
            other => return Err(format!("version {version}: {other:?}")),
        }
    }
    // Versions 1 and 2 had a header of 8 bytes, with a stream of one byte, and are answered in it.
    for version in [1u8, 2] {
        let mut raw = Raw::connect(address, version)?;
        raw.send(&[version, 0, 3, wire::OPTIONS, 0, 0, 0, 0]);
        let mut header = [0; 8];
        if !raw.fill(&mut header)? || header[3] != wire::ERROR {
            return Err(format!("version {version} is answered with {header:?}"));
        }
    }
    let mut raw = Raw::connect(address, 4)?;
    raw.send(&wire::request(0x84, wire::OPTIONS, 0, &[]));
    expect_refused("a response sent as a request", raw.envelope()?)?;
    Ok(String::new())
}

fn unknown_opcodes(address: SocketAddr) -> Result<String, String> {
    for version in [4, 5] {
        for opcode in [0x04u8, 0x0C + 0x20, 0x2A, 0x7F, 0xFF] {
            let mut raw = Raw::started(address, version)?;
            raw.request(opcode, 3, &[]);
            expect_refused("an unknown opcode", raw.answer()?)?;
        }
        for opcode in [wire::READY, wire::RESULT, wire::SUPPORTED, wire::ERROR] {
            let mut raw = Raw::started(address, version)?;
            raw.request(opcode, 3, &[0; 8]);
            expect_refused("an opcode of responses", raw.answer()?)?;
        }
    }
    Ok(String::new())
}

fn statement_before_startup(address: SocketAddr) -> Result<String, String> {
    for (opcode, body) in [
        (wire::QUERY, wire::query_body(4, b"SELECT key FROM system.local")),
        (wire::PREPARE, b"\0\0\0\x06SELECT".to_vec()),
    ] {
        let mut raw = Raw::connect(address, 4)?;
        raw.send(&wire::request(4, opcode, 0, &body));
        expect_protocol_error("a statement before STARTUP", raw.envelope()?)?;
    }
    Ok(String::new())
}

fn startup_without_version(address: SocketAddr) -> Result<String, String> {
    for body in [&[0u8, 0][..], &[], &[0, 1, 0], &[0, 1, 0, 1, b'x', 0, 9, b'y'], &[0xFF, 0xFF]] {
        let mut raw = Raw::connect(address, 4)?;
        raw.send(&wire::request(4, wire::STARTUP, 0, body));
        expect_refused("STARTUP without CQL_VERSION", raw.envelope()?)?;
    }
    let mut body = vec![0, 2];
    for text in [&b"CQL_VERSION"[..], b"3.0.0", b"COMPRESSION", b"nosuch"] {
        wire::string(&mut body, text);
    }
    let mut raw = Raw::connect(address, 4)?;
    raw.send(&wire::request(4, wire::STARTUP, 0, &body));
    expect_protocol_error("an unknown compression", raw.envelope()?)?;
    Ok(String::new())
}

fn invalid_utf8(address: SocketAddr) -> Result<String, String> {
    for version in [4, 5] {
        for text in
            [&b"SELECT '\xff\xfe' FROM system.local"[..], b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x90\x28\xbc"]
        {
            let mut raw = Raw::started(address, version)?;
            raw.request(wire::QUERY, 1, &wire::query_body(version, text));
            expect_refused("text that is not UTF-8", raw.answer()?)?;
        }
    }
    Ok(String::new())
}

fn lying_lengths(address: SocketAddr) -> Result<String, String> {
    let text = b"SELECT key FROM system.local";
    for version in [4, 5] {
        let good = wire::query_body(version, text);
        let mut bodies = Vec::new();
        for claimed in [text.len() as u32 + 1, 1 << 20, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000] {
            let mut body = good.clone();
            body[..4].copy_from_slice(&claimed.to_be_bytes());
            bodies.push(body);
        }
        bodies.extend((0..good.len()).step_by(3).map(|end| good[..end].to_vec()));
        // Flags that promise values, a page size or a paging state which are not there.
        for flags in [0x01u8, 0x04, 0x08, 0x10, 0x20, 0x41] {
            let mut body = good.clone();
            *body.last_mut().expect("flags are last") = flags;
            bodies.push(body);
        }
        // A batch of 65,535 statements that ends at once, and one of an unknown kind.
        for body in [&[0u8, 0xFF, 0xFF][..], &[9, 0, 0, 0, 1, 0]] {
            let mut raw = Raw::started(address, version)?;
            raw.request(wire::BATCH, 1, body);
            expect_refused("a lying batch", raw.answer()?)?;
        }
        let count = bodies.len();
        for (index, body) in bodies.into_iter().enumerate() {
            let mut raw = Raw::started(address, version)?;
            raw.request(wire::QUERY, 1, &body);
            expect_refused(&format!("lying body {index} of {count}"), raw.answer()?)?;
        }
    }
    Ok(String::new())
}

fn unknown_statement_id(address: SocketAddr) -> Result<String, String> {
    for version in [4, 5] {
        let id = [7u8; 16];
        let mut body = Vec::new();
        wire::string(&mut body, &id);
        if version >= 5 {
            wire::string(&mut body, &id);
        }
        body.extend_from_slice(&wire::query_body(version, b"")[4..]);
        let mut raw = Raw::started(address, version)?;
        raw.request(wire::EXECUTE, 9, &body);
        match raw.answer()? {
            Reaction::Error(0x2500, _) => {}
            other => return Err(format!("v{version}: expected Unprepared, got {other:?}")),
        }
    }
    Ok(String::new())
}

fn broken_segment_header(address: SocketAddr) -> Result<String, String> {
    let envelope = wire::request(5, wire::OPTIONS, 1, &[]);
    for bit in 0..48 {
        let mut raw = Raw::started(address, 5)?;
        let mut bytes = wire::segment(&envelope);
        bytes[bit / 8] ^= 1 << (bit % 8);
        raw.send(&bytes);
        expect_refused("a segment header with one flipped bit", raw.answer()?)?;
    }
    Ok("48 bits".into())
}

fn broken_segment_payload(address: SocketAddr) -> Result<String, String> {
    let envelope = wire::request(5, wire::QUERY, 1, &wire::query_body(5, b"SELECT key FROM system.local"));
    let whole = wire::segment(&envelope);
    for at in (6..whole.len()).step_by(5) {
        let mut raw = Raw::started(address, 5)?;
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        raw.send(&bytes);
        expect_refused("a segment with a flipped bit", raw.answer()?)?;
    }
    Ok(String::new())
}

fn segment_of_nothing(address: SocketAddr) -> Result<String, String> {
    let mut raw = Raw::started(address, 5)?;
    // Many empty segments, then a good one: either refused or served, but not waited for.
    for _ in 0..100 {
        raw.send(&wire::segment(&[]));
    }
    raw.request(wire::OPTIONS, 4, &[]);
    raw.answer().map(|_| String::new())
}

fn byte_by_byte(address: SocketAddr) -> Result<String, String> {
    for version in [4, 5] {
        let mut raw = Raw::started(address, version)?;
        let envelope = wire::request(
            version,
            wire::QUERY,
            5,
            &wire::query_body(version, b"SELECT key FROM system.local"),
        );
        let bytes = if version >= 5 { wire::segment(&envelope) } else { envelope };
        for byte in bytes {
            raw.send(&[byte]);
            std::thread::sleep(Duration::from_millis(1));
        }
        match raw.answer()? {
            Reaction::Answer(response) if response.opcode == wire::RESULT => {}
            other => return Err(format!("{other:?}")),
        }
    }
    Ok(String::new())
}

fn many_requests_in_one_write(address: SocketAddr) -> Result<String, String> {
    const COUNT: i16 = 500;
    for version in [4, 5] {
        let mut raw = Raw::started(address, version)?;
        let mut bytes = Vec::new();
        for stream in 0..COUNT {
            let body = wire::query_body(version, b"SELECT key FROM system.local");
            let envelope = wire::request(version, wire::QUERY, stream, &body);
            bytes.extend(if version >= 5 { wire::segment(&envelope) } else { envelope });
        }
        raw.send(&bytes);
        if version >= 5 {
            // Answers may share segments, so only the first segment is looked at here.
            raw.answer()?;
            continue;
        }
        let mut seen = vec![false; COUNT as usize];
        for _ in 0..COUNT {
            match raw.answer()? {
                Reaction::Answer(response) if response.opcode == wire::RESULT => {
                    seen[response.stream as usize] = true
                }
                other => return Err(format!("{other:?}")),
            }
        }
        if seen.contains(&false) {
            return Err("some streams were never answered".into());
        }
    }
    Ok(String::new())
}

fn other_protocols(address: SocketAddr) -> Result<String, String> {
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"*1\r\n$4\r\nPING\r\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        let mut raw = Raw::connect(address, 4)?;
        raw.send(bytes);
        raw.stream.finish();
        expect_refused("another protocol", raw.envelope()?)?;
    }
    Ok(String::new())
}

/// Valid conversations with a few bytes changed anywhere: no hang, no crash.
fn mutated_frames(address: SocketAddr) -> Result<String, String> {
    const COUNT: u32 = 600;
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut chance = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for turn in 0..COUNT {
        let version = if turn % 2 == 0 { 4 } else { 5 };
        let mut raw = Raw::started(address, version)?;
        let _ = raw.stream.socket().set_read_timeout(Some(Duration::from_millis(20)));
        let mut envelope = match turn % 4 {
            0 | 1 => wire::request(
                version,
                wire::QUERY,
                1,
                &wire::query_body(version, b"SELECT key FROM system.local WHERE key = ?"),
            ),
            2 => wire::request(version, wire::PREPARE, 1, b"\0\0\0\x1cSELECT key FROM system.local\0\0\0\0"),
            _ => wire::request(
                version,
                wire::BATCH,
                1,
                &[0, 0, 1, 0, 0, 0, 0, 2, b'x', b'y', 0, 0, 0, 1, 0, 0, 0, 0, 0],
            ),
        };
        for _ in 0..=chance(4) {
            let at = chance(envelope.len());
            envelope[at] = chance(256) as u8;
        }
        let bytes = if version >= 5 { wire::segment(&envelope) } else { envelope };
        raw.send(&bytes);
        let mut answer = [0; 64];
        let _ = raw.stream.read(&mut answer);
    }
    Ok(format!("{COUNT} connections"))
}

fn connections_opened_and_dropped(address: SocketAddr) -> Result<String, String> {
    let mut kept = Vec::new();
    for turn in 0..600 {
        let mut raw = Raw::connect(address, 4)?;
        if turn % 3 == 0 {
            raw.send(&wire::request(4, wire::OPTIONS, 0, &[]));
        }
        if turn % 2 == 0 {
            kept.push(raw);
        }
    }
    still_serves(address)?;
    Ok(format!("600, {} of them kept open", kept.len()))
}

/// Asks for much and reads nothing: the node must stop reading from it, not buffer without bound, and serve others.
fn client_that_never_reads(address: SocketAddr) -> Result<String, String> {
    let mut silent = Vec::new();
    let mut accepted = 0usize;
    for number in 0..4 {
        let since = Instant::now();
        let mut raw = Raw::started(address, 4)?;
        if since.elapsed() > PATIENCE / 4 {
            return Err(format!("client {number} waited {:?} for its first answer", since.elapsed()));
        }
        let _ = raw.stream.socket().set_write_timeout(Some(Duration::from_millis(300)));
        let body = wire::query_body(4, b"SELECT * FROM system_schema.columns");
        let frame = wire::request(4, wire::QUERY, 1, &body);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end && raw.stream.write_all(&frame).is_ok() {
            accepted += 1;
        }
        silent.push(raw);
    }
    let since = Instant::now();
    still_serves(address)?;
    let took = since.elapsed();
    if took > PATIENCE / 4 {
        return Err(format!("another client waited {took:?}"));
    }
    drop(silent);
    Ok(format!(
        "{accepted} requests taken before the node stopped reading; another client waited {} ms",
        took.as_millis()
    ))
}

/// Answers far beyond what a socket takes at once, to a client that is slow at first: they arrive whole and in order, and
/// others are served all the while.
fn large_answers_to_a_slow_client(address: SocketAddr) -> Result<String, String> {
    const ROWS: usize = 32;
    const BYTES: usize = 256 << 10;
    const ANSWERS: i16 = 4;
    let mut raw = Raw::started(address, 4)?;
    let mut texts = vec![
        "CREATE KEYSPACE IF NOT EXISTS large WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
            .to_owned(),
        "CREATE TABLE IF NOT EXISTS large.t (k int PRIMARY KEY, v text)".to_owned(),
    ];
    let letter = |row: usize| char::from(b'a' + (row % 26) as u8).to_string();
    texts
        .extend((0..ROWS).map(|row| {
            format!("INSERT INTO large.t (k, v) VALUES ({row}, '{}')", letter(row).repeat(BYTES))
        }));
    for text in &texts {
        if let Reaction::Error(code, error) = raw.query(text)? {
            return Err(format!("{}: {code:#x} {error}", &text[..60]));
        }
    }
    for stream in 0..ANSWERS {
        raw.request(wire::QUERY, stream, &wire::query_body(4, b"SELECT v FROM large.t"));
    }
    let mut first = [0; 9];
    raw.fill(&mut first)?;
    for _ in 0..5 {
        still_serves(address)?;
    }
    let mut header = first;
    let mut missing: BTreeSet<i16> = (0..ANSWERS).collect();
    let mut whole = Vec::new();
    for answer in 0..ANSWERS {
        if answer > 0 && !raw.fill(&mut header)? {
            return Err(format!("closed before answer {answer}"));
        }
        let mut body = vec![0; u32::from_be_bytes(header[5..].try_into().expect("four bytes")) as usize];
        if header[4] != wire::RESULT || !raw.fill(&mut body)? {
            return Err(format!("answer {answer} is opcode {:#x} or cut short", header[4]));
        }
        if !missing.remove(&i16::from_be_bytes([header[2], header[3]])) {
            return Err(format!("answer {answer} is of a stream that was answered or not asked"));
        }
        // One pass: a client that looks at an answer for long is one that does not read.
        if answer > 0 && body != whole {
            return Err(format!("answer {answer} differs from the first one"));
        }
        let values = if answer == 0 { unbroken(&body, BYTES) } else { ROWS };
        if values != ROWS {
            return Err(format!("answer {answer} holds {values} values of {ROWS}"));
        }
        whole = body;
    }
    Ok(format!("{} MiB", (ROWS * BYTES * ANSWERS as usize) >> 20))
}

/// Values of so many equal letters, unbroken.
fn unbroken(body: &[u8], bytes: usize) -> usize {
    body.chunk_by(|left, right| left == right)
        .filter(|run| run.len() == bytes && run[0].is_ascii_lowercase())
        .count()
}

fn folder_in_use(options: &Options, server: &Server, shards: u16) -> Result<String, String> {
    let mut start = options.start(server.folder.clone(), shards);
    start.port = server::free_port();
    // The configuration file of the running node is not read again, so the second start may rewrite it.
    let mut second = start.spawn()?;
    match command::wait(&mut second.child, PATIENCE) {
        Some(false) => {}
        Some(true) => return Err("the second process ended as if all was well".into()),
        None => return Err("the second process runs on the same folder".into()),
    }
    let log = second.last_words();
    if !log.contains("is used by another process") {
        return Err(format!("the second process does not say why it ended:\n{log}"));
    }
    still_serves(server.address).map(|()| String::new())
}

fn port_in_use(options: &Options, server: &Server, shards: u16) -> Result<String, String> {
    let mut start = options.start(options.folder("port-in-use")?, shards);
    start.port = server.address.port();
    let mut second = start.spawn()?;
    match command::wait(&mut second.child, PATIENCE) {
        Some(false) => {}
        Some(true) => return Err("the second process ended as if all was well".into()),
        None => return Err("the second process runs on the same port".into()),
    }
    let log = second.last_words();
    if !log.contains(&server.address.port().to_string()) {
        return Err(format!("the second process does not name the port:\n{log}"));
    }
    still_serves(server.address).map(|()| String::new())
}

fn configuration(options: &Options) -> Result<String, String> {
    let folder = options.folder("configuration")?;
    let file = folder.join("bad.yaml");
    let run = |text: &str| -> Result<String, String> {
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut node = Command::new(&options.binary);
        node.args(["node", "--overprovisioned", "--smp", "1", "--config"]).arg(&file);
        match command::run(&mut node, &folder.join("log"), PATIENCE) {
            Ok(text) => Err(format!("started with a wrong configuration: {text}")),
            Err(error) => Ok(error),
        }
    };
    for (text, key, line) in [
        ("cluster_name: x\nnative_transport_port: eleven\n", "native_transport_port", ":2"),
        ("native_transport_port: 70000\n", "native_transport_port", ":1"),
        ("\n\ncommitlog_sync: sometimes\n", "commitlog_sync", ":3"),
        ("cluster_name: [\n", "", ":"),
    ] {
        let said = run(text)?;
        if !said.contains(key) || !said.contains(&format!("bad.yaml{line}")) {
            return Err(format!("for {text:?} it says:\n{said}"));
        }
    }
    Ok(String::new())
}
