//! The yardstick for a CQL client: a server that knows its answers by heart. It stands before a real one, which answers what opens a
//! conversation, statements in text and preparations, and the first EXECUTE of each prepared statement; what that said is said again
//! to every other one. So any client may be measured against next to no server, and what it measures is itself.
//!
//! `canned --port 9142 --before 9042`: protocol v3 and v4, without compression; newer versions are refused, as older servers do.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests and measurements look at the operating system directly"
)]

use protocol::assembler::{Assembler, Envelope};
use protocol::envelope::{Direction, Opcode, Version};
use protocol::extras::Extras;
use protocol::failure::{Failure, FailureKind};
use protocol::limits::{BODY_BYTES_MAX, RESPONSE_BODY_BYTES_MAX};
use protocol::response::Reply;
use runtime::net::{TcpListener, TcpStream};
use runtime::{Config, Group};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Answers by what an EXECUTE says before its values.
type Learned = Rc<RefCell<HashMap<Vec<u8>, Answer>>>;

/// What the server behind said; what comes before its message is left out.
#[derive(Clone)]
struct Answer {
    flags: u8,
    opcode: u8,
    body: Vec<u8>,
}

fn main() {
    let (mut port, mut before) = (0, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let number = arguments.next().and_then(|word| word.parse::<u16>().ok());
        let number = number.unwrap_or_else(|| panic!("{name} wants a number"));
        match name.as_str() {
            "--port" => port = number,
            "--before" => before = number,
            _ => panic!("unknown argument {name}"),
        }
    }
    let local = move |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let config = Config { overprovisioned: true, ..Config::new(1) };
    let main = move || -> Pin<Box<dyn Future<Output = i32>>> { Box::pin(serve(local(port), local(before))) };
    std::process::exit(runtime::run(config, Arc::new(main)));
}

async fn serve(address: SocketAddr, upstream: SocketAddr) -> i32 {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            runtime::error!("cannot listen on {address}: {error}");
            return 1;
        }
    };
    let learned = Learned::default();
    runtime::spawn(Group::MAIN, async move {
        while let Ok((stream, _)) = listener.accept().await {
            let learned = learned.clone();
            runtime::spawn(Group::QUERY, async move {
                // Clients come and go: how a connection ended is theirs to tell.
                let _ended = converse(stream, upstream, learned).await;
            });
        }
    });
    runtime::shutdown_requested().await;
    0
}

/// One client, and the connection to the server behind that is made for it.
async fn converse(client: TcpStream, upstream: SocketAddr, learned: Learned) -> io::Result<()> {
    let upstream = TcpStream::connect(upstream, None).await?;
    let mut requests = Assembler::new(Direction::Requests, BODY_BYTES_MAX);
    let mut answers = Assembler::new(Direction::Responses, RESPONSE_BODY_BYTES_MAX);
    let mut out = Vec::new();
    loop {
        let bytes = client.recv().await?;
        if bytes.is_empty() {
            return Ok(());
        }
        requests.push(&bytes);
        drop(bytes);
        while let Some(request) = requests.next().map_err(io::Error::other)? {
            if request.header.version == Version::V5 {
                refuse(&request, &mut out);
                continue;
            }
            if request.header.opcode == Opcode::Options as u8 {
                // It tells of no shards: their ports are those of the server behind.
                let options = [("CQL_VERSION", vec!["3.4.7".to_owned()]), ("COMPRESSION", Vec::new())];
                let options = options.map(|(name, values)| (name.to_owned(), values));
                let supported = Reply::Supported(&options);
                supported.encode(&mut out, request.header.version, request.header.stream, &Extras::default());
                continue;
            }
            let execute = execute(&request);
            if let Some(execute) = execute
                && let Some(answer) = learned.borrow().get(execute)
            {
                answer.put(&mut out, &request);
                continue;
            }
            let mut whole = Vec::new();
            put_request(&mut whole, &request);
            upstream.send_all(whole).await?;
            let answer = answer_to(request.header.stream, &upstream, &mut answers).await?;
            if let Some(execute) = execute
                && (answer.opcode, answer.flags) == (Opcode::Result as u8, 0)
            {
                learned.borrow_mut().insert(execute.to_vec(), answer.clone());
            }
            answer.put(&mut out, &request);
        }
        out = client.send_all(out).await?;
        out.clear();
    }
}

/// The next answer on a stream; events are left out.
async fn answer_to(stream: i16, upstream: &TcpStream, answers: &mut Assembler) -> io::Result<Answer> {
    loop {
        while let Some(answer) = answers.next().map_err(io::Error::other)? {
            let header = answer.header;
            if header.stream == stream {
                let body = answer.body.to_vec();
                return Ok(Answer { flags: header.flags, opcode: header.opcode, body });
            }
        }
        let bytes = upstream.recv().await?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answers.push(&bytes);
    }
}

/// What an EXECUTE says before its values: the statement's id, the level, and which parameters follow.
fn execute<'a>(request: &Envelope<'a>) -> Option<&'a [u8]> {
    const LEVEL_AND_FLAGS: usize = 3;
    let is_execute = request.header.opcode == Opcode::Execute as u8;
    let id = usize::from(u16::from_be_bytes(*request.body.first_chunk::<2>()?));
    is_execute.then(|| request.body.get(..2 + id + LEVEL_AND_FLAGS)).flatten()
}

fn put_request(out: &mut Vec<u8>, request: &Envelope<'_>) {
    let header = &request.header;
    let [high, low] = header.stream.to_be_bytes();
    out.extend_from_slice(&[header.version as u8, header.flags, high, low, header.opcode]);
    out.extend_from_slice(&(request.body.len() as u32).to_be_bytes());
    out.extend_from_slice(request.body);
}

impl Answer {
    /// Says it to a request.
    fn put(&self, out: &mut Vec<u8>, request: &Envelope<'_>) {
        let [high, low] = request.header.stream.to_be_bytes();
        let version = request.header.version as u8 | 0x80;
        out.extend_from_slice(&[version, self.flags, high, low, self.opcode]);
        out.extend_from_slice(&(self.body.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.body);
    }
}

fn refuse(request: &Envelope<'_>, out: &mut Vec<u8>) {
    let text = "Invalid or unsupported protocol version (5); supported versions are (3/v3, 4/v4)";
    let failure = Failure::new(FailureKind::Protocol, text);
    Reply::Error(&failure).encode(out, Version::V4, request.header.stream, &Extras::default());
}
