//! The yardstick for calls between nodes: two processes of one shard, one of which calls the other, or sends the same bytes over bare TCP.
//!
//! `node_calls serve --port 7000 [--reactor epoll]`
//! `node_calls call --peer 7000 --port 7001 --way task|gather|future|tcp --depth 16 --body 120 --seconds 2 [--count N] [--server PID]`
//! `--way shards` calls each shard from each, with `--shards N` on either side, and checks where the calls run.
//! `tcp` speaks to the runtime's own example `echo`. Prints calls, nanoseconds, and both processes' processor time in nanoseconds.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "tests and measurements look at the operating system directly"
)]

use base::HostId;
use rpc::{
    CallError, Facts, Gatekeeper, Gather, Hello, Identity, Links, Outgoing, Pool, Refusal, Registry, Target,
};
use runtime::net::TcpStream;
use runtime::sync::Event;
use runtime::{Config, Group, Reactor, ShardId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ECHO: u8 = 1;
const FUTURE: u8 = 2;
const WHERE: u8 = 3;
const SERVER: HostId = HostId(1);
const CALLER: HostId = HostId(2);
const TIMEOUT: Duration = Duration::from_secs(10);
const ECHO_HEADER: usize = 9;

#[derive(Clone)]
struct Options {
    serve: bool,
    port: u16,
    peer: u16,
    way: String,
    depth: usize,
    body: usize,
    seconds: f64,
    count: u64,
    server: u32,
    reactor: Reactor,
    shards: u16,
}

fn main() {
    let options = parse();
    let config = Config {
        pin: false,
        overprovisioned: true,
        memory_per_shard: 64 << 20,
        reactor: options.reactor,
        ..Config::new(options.shards)
    };
    let main = move || -> Pin<Box<dyn Future<Output = i32>>> { Box::pin(run(options.clone())) };
    std::process::exit(runtime::run(config, Arc::new(main)));
}

fn parse() -> Options {
    let mut arguments = std::env::args().skip(1);
    let serve = arguments.next().as_deref() == Some("serve");
    let mut options = Options {
        serve,
        port: 17000,
        peer: 17001,
        way: "task".into(),
        depth: 1,
        body: 120,
        seconds: 1.0,
        count: 0,
        server: 0,
        reactor: Reactor::Auto,
        shards: 1,
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} wants a value"));
        let number = || value.parse::<f64>().unwrap_or_else(|_| panic!("{name} wants a number"));
        match name.as_str() {
            "--port" => options.port = number() as u16,
            "--peer" => options.peer = number() as u16,
            "--way" => options.way = value,
            "--depth" => options.depth = number() as usize,
            "--body" => options.body = number() as usize,
            "--seconds" => options.seconds = number(),
            "--count" => options.count = number() as u64,
            "--shards" => options.shards = number() as u16,
            "--server" => options.server = number() as u32,
            "--reactor" if value == "epoll" => options.reactor = Reactor::Epoll,
            "--reactor" => options.reactor = Reactor::Uring,
            _ => panic!("unknown argument {name}"),
        }
    }
    options
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

struct Gate(Identity);

impl Gatekeeper for Gate {
    fn identity(&self) -> Identity {
        self.0.clone()
    }

    fn check(&self, theirs: &Hello) -> Result<(), Refusal> {
        theirs.judge(&self.0, None, runtime::unix_micros())
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }
}

async fn run(options: Options) -> i32 {
    if options.way == "tcp" {
        return tcp(&options).await;
    }
    if runtime::shard().0 != 0 {
        runtime::shutdown_requested().await;
        return 0;
    }
    for shard in 0..runtime::shard_count() {
        let install = || async { drop(Pool::install(registry())) };
        runtime::submit_to(ShardId(shard), Group::MAIN, install).await;
    }
    let pool = runtime::local::<Pool>();
    let host = if options.serve { SERVER } else { CALLER };
    let (shards, address) = (options.shards, Some(local(options.port)));
    let identity = Identity { host, shards, address, ..Identity::default() };
    let links = Links::start(Rc::new(Gate(identity)), registry(), Rc::new(|_| ()));
    if let Err(error) = links.listen(local(options.port), tls::Encryption::None).await {
        runtime::error!("cannot listen: {error}");
        return 1;
    }
    if options.serve {
        runtime::shutdown_requested().await;
        links.close();
        return 0;
    }
    links.add(SERVER, Target { address: local(options.peer), encrypt: false }).await;
    while !pool.is_up(SERVER) {
        runtime::sleep(Duration::from_millis(1)).await;
    }
    if options.way == "shards" {
        every_shard(pool.shards(SERVER)).await;
        links.say_goodbye().await;
        links.close();
        runtime::request_shutdown();
        return 0;
    }
    let meter = Rc::new(Meter::new(&options));
    if options.way == "gather" {
        gathered(&pool, &options, &meter).await;
    } else {
        tasks(&pool, &options, &meter).await;
    }
    meter.print();
    links.close();
    runtime::request_shutdown();
    0
}

fn registry() -> Registry {
    Registry::new()
        .on_now(ECHO, |request, out| out.extend_from_slice(&request.body[..request.body.len().min(20)]))
        .on_future(FUTURE, Group::RPC, |request| {
            let body = request.body[..request.body.len().min(20)].to_vec();
            async move {
                runtime::yield_now().await;
                body
            }
        })
        .on_now(WHERE, |_, out| out.extend_from_slice(&runtime::shard().0.to_be_bytes()))
}

/// Calls every shard of the server from every shard here, at once, and checks where the calls ran.
async fn every_shard(theirs: u16) {
    let from = |shard: u16| {
        let call = move || async move {
            let pool = runtime::local::<Pool>();
            for turn in 0..100 * theirs {
                let outgoing = Outgoing { verb: WHERE, version: 1, timeout: TIMEOUT };
                let answer =
                    pool.call(SERVER, turn % theirs, outgoing, |out| out.resize(out.len() + 100_000, 1));
                assert_eq!(answer.await, Ok((turn % theirs).to_be_bytes().to_vec()), "from {shard}");
            }
        };
        runtime::spawn(Group::MAIN, runtime::submit_to(ShardId(shard), Group::MAIN, call))
    };
    let calling: Vec<_> = (0..runtime::shard_count()).map(from).collect();
    for task in calling {
        task.await;
    }
    println!("{} shards called {theirs}", runtime::shard_count());
}

/// Counts calls from the end of a warm-up to the end of the time, or the count.
struct Meter {
    server: u32,
    warm: Duration,
    measure: Duration,
    count: u64,
    start: Instant,
    calls: Cell<u64>,
    from: Cell<Option<(Instant, u64, u64)>>,
    to: Cell<Option<(Instant, u64, u64)>>,
}

impl Meter {
    fn new(options: &Options) -> Meter {
        let measure = Duration::from_secs_f64(options.seconds);
        Meter {
            server: options.server,
            warm: measure / 5,
            measure,
            count: options.count,
            start: Instant::now(),
            calls: Cell::new(0),
            from: Cell::new(None),
            to: Cell::new(None),
        }
    }

    fn look(&self) -> (Instant, u64, u64) {
        (Instant::now(), cpu_ns(std::process::id()), cpu_ns(self.server))
    }

    /// A call was answered; whether there shall be another.
    fn answered(&self) -> bool {
        let calls = self.calls.get() + 1;
        self.calls.set(calls);
        if 0 < self.count {
            return calls < self.count;
        }
        // The clock is looked at now and then: it costs a twentieth of a call.
        if !calls.is_multiple_of(64) || self.to.get().is_some() {
            return self.to.get().is_none();
        }
        match self.from.get() {
            None if self.warm <= self.start.elapsed() => {
                self.from.set(Some(self.look()));
                self.calls.set(0);
            }
            Some((from, ..)) if self.measure <= from.elapsed() => self.to.set(Some(self.look())),
            _ => {}
        }
        self.to.get().is_none()
    }

    fn print(&self) {
        let (Some(from), Some(to)) = (self.from.get(), self.to.get()) else {
            return println!("{} 0 0 0", self.calls.get());
        };
        println!("{} {} {} {}", self.calls.get(), (to.0 - from.0).as_nanos(), to.1 - from.1, to.2 - from.2);
    }
}

/// Nanoseconds on a processor of all threads of a process.
fn cpu_ns(process: u32) -> u64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return 0 };
    let time = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    threads.flatten().filter_map(|thread| time(thread.path())).sum()
}

/// So many tasks, each with one call in flight.
async fn tasks(pool: &Rc<Pool>, options: &Options, meter: &Meter) {
    let verb = if options.way == "future" { FUTURE } else { ECHO };
    let body = vec![7; options.body];
    let (pool, body) = (&pool, &body);
    let one = async move || {
        loop {
            let outgoing = Outgoing { verb, version: 1, timeout: TIMEOUT };
            match pool.call(SERVER, 0, outgoing, |out| out.extend_from_slice(body)).await {
                Ok(answer) => assert_eq!(answer.len(), body.len().min(20)),
                Err(error) => panic!("{error}"),
            }
            if !meter.answered() {
                return;
            }
        }
    };
    let mut running: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
        (0..options.depth).map(|_| Box::pin(one()) as _).collect();
    // Polled together in one task: what is measured is the call, not the tasks around it.
    std::future::poll_fn(|context| {
        running.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Calls again as soon as it is answered, without a task.
struct Again {
    pool: Rc<Pool>,
    meter: Rc<Meter>,
    body: Vec<u8>,
    left: Cell<usize>,
    done: Event,
    me: RefCell<Option<Rc<Again>>>,
}

impl Again {
    fn send(&self) {
        let outgoing = Outgoing { verb: ECHO, version: 1, timeout: TIMEOUT };
        let me = self.me.borrow().clone().expect("set at the start");
        let sent = self.pool.send(SERVER, 0, outgoing, (me, 0), |out| out.extend_from_slice(&self.body));
        sent.expect("it is up");
    }
}

impl Gather for Again {
    fn answered(&self, _: u16, answer: Result<&[u8], CallError>) {
        assert_eq!(answer.map(<[u8]>::len), Ok(self.body.len().min(20)));
        if self.meter.answered() {
            return self.send();
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.done.notify();
        }
    }
}

async fn gathered(pool: &Rc<Pool>, options: &Options, meter: &Rc<Meter>) {
    let again = Rc::new(Again {
        pool: pool.clone(),
        meter: meter.clone(),
        body: vec![7; options.body],
        left: Cell::new(options.depth),
        done: Event::new(),
        me: RefCell::default(),
    });
    *again.me.borrow_mut() = Some(again.clone());
    (0..options.depth).for_each(|_| again.send());
    again.done.wait().await;
    again.me.take();
}

/// The same bytes over bare TCP, to a server that only echoes frames.
async fn tcp(options: &Options) -> i32 {
    let Ok(stream) = TcpStream::connect(local(options.peer), None).await else { return 1 };
    let meter = Meter::new(options);
    let mut frame = vec![4, 0, 0, 0, 7];
    // As long as a request is with its headers.
    let size = options.body + 28;
    frame.extend_from_slice(&((size - ECHO_HEADER) as u32).to_be_bytes());
    frame.resize(size, 7);
    let mut wire = frame.repeat(options.depth);
    let (mut partial, mut in_flight) = (0, options.depth);
    while 0 < in_flight {
        if !wire.is_empty() {
            let Ok(mut sent) = stream.send_all(wire).await else { return 1 };
            sent.clear();
            wire = sent;
        }
        let Ok(bytes) = stream.recv().await else { return 1 };
        partial += bytes.len();
        while ANSWER_BYTES <= partial {
            partial -= ANSWER_BYTES;
            if meter.answered() {
                wire.extend_from_slice(&frame);
            } else {
                in_flight -= 1;
            }
        }
    }
    meter.print();
    runtime::request_shutdown();
    0
}

/// What the echo server is told to answer: as long as a response with its header.
const ANSWER_BYTES: usize = 36;
