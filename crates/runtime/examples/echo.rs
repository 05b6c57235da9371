//! The yardstick for a server on this runtime: reads frames with a nine-byte header (length in bytes 5 to 8, big
//! endian), answers each with a frame of a fixed size, and does nothing else. Answers are batched per receive.
//!
//! `echo --port 9042 --shards 1 --answer-bytes 60 [--pin]`; `--answer-bytes 0` says back what it hears.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests and measurements look at the operating system directly"
)]

use runtime::net::{TcpListener, TcpStream, Transfer};
use runtime::{Config, Group, ShardId, shard, shard_count, shutdown_requested, spawn, submit_to};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

const HEADER: usize = 9;
/// Longest request body accepted: a broken client must not make the server collect bytes without end.
const BODY_MAX: usize = 16 << 20;

#[derive(Clone, Copy)]
struct Options {
    port: u16,
    shards: u16,
    answer_bytes: usize,
    pin: bool,
}

fn main() {
    let options = parse();
    let config = Config { pin: options.pin, overprovisioned: !options.pin, ..Config::new(options.shards) };
    let main = move || -> Pin<Box<dyn Future<Output = i32>>> { Box::pin(serve(options)) };
    std::process::exit(runtime::run(config, Arc::new(main)));
}

fn parse() -> Options {
    let mut options = Options { port: 19042, shards: 1, answer_bytes: 60, pin: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut number = || {
            let value = arguments.next().and_then(|v| v.parse::<usize>().ok());
            value.unwrap_or_else(|| panic!("{name} wants a number"))
        };
        match name.as_str() {
            "--port" => options.port = number() as u16,
            "--shards" => options.shards = number() as u16,
            "--answer-bytes" => options.answer_bytes = number(),
            "--pin" => options.pin = true,
            _ => panic!("unknown argument {name}"),
        }
    }
    options
}

async fn serve(options: Options) -> i32 {
    if shard().0 == 0 {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], options.port));
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                runtime::error!("cannot listen on {address}: {error}");
                runtime::request_shutdown();
                return 1;
            }
        };
        spawn(Group::MAIN, accept(listener, options.answer_bytes));
    }
    shutdown_requested().await;
    0
}

async fn accept(listener: TcpListener, answer_bytes: usize) {
    let mut next = 0;
    while let Ok((stream, _)) = listener.accept().await {
        let target = ShardId(next % shard_count());
        next = next.wrapping_add(1);
        if target == shard() {
            spawn(Group::QUERY, connection(stream, answer_bytes));
        } else if let Ok(transfer) = stream.into_transfer() {
            submit_to(target, Group::QUERY, move || adopt(transfer, answer_bytes)).await;
        }
    }
}

async fn adopt(transfer: Transfer, answer_bytes: usize) {
    spawn(Group::QUERY, connection(TcpStream::from_transfer(transfer), answer_bytes));
}

async fn connection(stream: TcpStream, answer_bytes: usize) {
    let mut partial: Vec<u8> = Vec::new();
    let mut answers: Vec<u8> = Vec::new();
    while let Ok(bytes) = stream.recv().await {
        if bytes.is_empty() {
            return;
        }
        let used = if partial.is_empty() {
            let used = answer_all(&bytes, answer_bytes, &mut answers);
            used.inspect(|used| partial.extend_from_slice(&bytes[*used..]))
        } else {
            partial.extend_from_slice(&bytes);
            let used = answer_all(&partial, answer_bytes, &mut answers);
            used.inspect(|used| drop(partial.drain(..*used)))
        };
        drop(bytes);
        if used.is_none() {
            return;
        }
        match stream.try_send(&answers) {
            Ok(sent) if sent == answers.len() => answers.clear(),
            Ok(sent) => {
                answers.drain(..sent);
                match stream.send_all(std::mem::take(&mut answers)).await {
                    Ok(back) => answers = back,
                    Err(_) => return,
                }
                answers.clear();
            }
            Err(_) => return,
        }
    }
}

/// Answers every whole frame and returns how many bytes they took; `None` when a frame is too long.
fn answer_all(bytes: &[u8], answer_bytes: usize, answers: &mut Vec<u8>) -> Option<usize> {
    let mut used = 0;
    while let Some(header) = bytes.get(used..used + HEADER) {
        let body = u32::from_be_bytes(header[5..9].try_into().expect("four bytes")) as usize;
        if BODY_MAX < body {
            return None;
        }
        if bytes.len() < used + HEADER + body {
            break;
        }
        if answer_bytes == 0 {
            answers.extend_from_slice(&bytes[used..used + HEADER + body]);
            used += HEADER + body;
            continue;
        }
        // The greeting of a CQL client gets READY, anything else a RESULT of the wanted size.
        let (opcode, len) = if header[4] == 1 { (2, HEADER) } else { (8, answer_bytes.max(HEADER)) };
        let start = answers.len();
        answers.extend_from_slice(&[header[0] | 0x80, 0, header[2], header[3], opcode]);
        answers.extend_from_slice(&((len - HEADER) as u32).to_be_bytes());
        answers.resize(start + len, 0);
        used += HEADER + body;
    }
    Some(used)
}
