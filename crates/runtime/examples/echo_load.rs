//! A quick loader for the echo example: some connections, each with a number of frames in flight, in lockstep. Prints
//! requests per second and, given the server's process, its CPU time per request.
//!
//! `echo_load --port 19042 --connections 64 --depth 1 --seconds 2 --answer-bytes 60 [--server <process>]`

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests and measurements look at the operating system directly"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const REQUEST_BODY: usize = 100;

fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|a| a != name).skip(1);
    arguments.next().map_or(default, |v| v.parse().expect("a number"))
}

/// Nanoseconds on the processor of all threads of a process.
fn cpu_ns(process: usize) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return 0;
    };
    let time = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads.flatten().filter_map(|t| time(t.path())).sum()
}

fn main() {
    let (connections, depth) = (argument("--connections", 64), argument("--depth", 1));
    let answer_bytes = argument("--answer-bytes", 60);
    let server = argument("--server", 0);
    let limit = Duration::from_millis(1000 * argument("--seconds", 2) as u64);
    let address = ("127.0.0.1", argument("--port", 19042) as u16);
    let connect = |_| {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket option");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..connections).map(connect).collect();
    let mut frame = vec![4, 0, 0, 0, 10];
    frame.extend_from_slice(&(REQUEST_BODY as u32).to_be_bytes());
    frame.resize(9 + REQUEST_BODY, 7);
    let batch = frame.repeat(depth);
    let mut answers = vec![0; depth * answer_bytes];
    let mut round = |streams: &mut Vec<TcpStream>| {
        for stream in streams.iter_mut() {
            stream.write_all(&batch).expect("sends");
        }
        for stream in streams.iter_mut() {
            stream.read_exact(&mut answers).expect("receives");
        }
    };
    for _ in 0..20 {
        round(&mut streams);
    }
    let (start, cpu) = (Instant::now(), cpu_ns(server));
    let mut requests = 0u64;
    while start.elapsed() < limit {
        round(&mut streams);
        requests += (connections * depth) as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    let used = (cpu_ns(server) - cpu) as f64 / 1000.0 / requests as f64;
    println!(
        "{connections}x{depth}: {:.0} requests/s, {used:.3} us of server CPU per request",
        requests as f64 / seconds
    );
}
