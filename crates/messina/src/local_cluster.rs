//! `messina cluster`: several nodes of one cluster on this machine, each a process of its own, until it is told to stop.
//!
//! The supervisor listens on a socket in the cluster's folder: `messina cluster status`, `kill N`, `stop N` and `start N` from another terminal are a
//! line there and lines back. Each change of a node's state is a line on standard output.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a supervisor of processes: nothing in it serves requests that could be kept waiting"
)]

use crate::arguments::LocalCluster;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long all nodes together may take until clients can connect.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long a node may take to stop in order before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// How often nodes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long who asks may take to say what.
const ASK_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of a question.
const ASK_BYTES_MAX: u64 = 64;

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was started and does not serve clients yet.
    Starting,
    /// It serves clients.
    Ready,
    /// It was asked to stop.
    Stopping,
    /// It has no process.
    Gone,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Starting => "starting",
            Stage::Ready => "ready",
            Stage::Stopping => "stopping",
            Stage::Gone => "stopped",
        }
    }
}

/// One node of the cluster.
struct Member {
    address: Ipv4Addr,
    dc: String,
    rack: String,
    folder: PathBuf,
    stage: Stage,
    process: Option<Child>,
}

/// All of them, and what they are started with.
struct Cluster {
    arguments: LocalCluster,
    members: Vec<Member>,
}

/// Starts the nodes, says where they are, and stops them when this process is told to; or asks one that does.
pub(crate) fn run(arguments: &LocalCluster) -> ExitCode {
    if let Some(action) = &arguments.action {
        return match ask(&arguments.data, &action.line()) {
            Ok(answer) => {
                // Nobody may listen.
                let _closed = write!(std::io::stdout(), "{answer}");
                ExitCode::SUCCESS
            }
            Err(reason) => {
                complain(&reason);
                ExitCode::FAILURE
            }
        };
    }
    let arguments = arguments.clone();
    // The runtime is here for its signals: it knows how a process is asked to stop.
    let config = runtime::Config { pin: false, overprovisioned: true, ..runtime::Config::new(1) };
    let main = move || -> core::pin::Pin<Box<dyn Future<Output = i32>>> {
        let arguments = arguments.clone();
        Box::pin(async move {
            match serve(arguments).await {
                Ok(()) => 0,
                Err(reason) => {
                    complain(&reason);
                    1
                }
            }
        })
    };
    ExitCode::from(u8::try_from(runtime::run(config, Arc::new(main))).unwrap_or(1))
}

fn complain(text: &str) {
    let _closed = writeln!(std::io::stderr(), "messina cluster: {text}");
}

/// A change of state. A closed terminal does not end the cluster.
fn tell(text: &str) {
    let _closed = writeln!(std::io::stdout(), "{text}");
}

fn socket_of(data: &Path) -> PathBuf {
    data.join("cluster.sock")
}

/// Sends a line to the cluster that runs in a folder. Errors: none does, or it refuses.
fn ask(data: &Path, line: &str) -> Result<String, String> {
    let path = socket_of(data);
    let told = |error: std::io::Error| format!("no cluster runs in {}: {error}", data.display());
    let mut stream = UnixStream::connect(&path).map_err(told)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    match answer.strip_prefix("refused: ") {
        Some(reason) => Err(reason.trim_end().to_owned()),
        None => Ok(answer),
    }
}

async fn serve(arguments: LocalCluster) -> Result<(), String> {
    let data = &arguments.data;
    std::fs::create_dir_all(data).map_err(|error| format!("{}: {error}", data.display()))?;
    if ask(data, "status").is_ok() {
        return Err(format!("a cluster runs in {} already", data.display()));
    }
    // Of a supervisor that was killed: nobody listens there.
    let path = socket_of(data);
    let _none = std::fs::remove_file(&path);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let listener = UnixListener::bind(&path).map_err(told)?;
    listener.set_nonblocking(true).map_err(told)?;
    let mut cluster = Cluster { members: Vec::new(), arguments };
    let served = cluster.start_and_serve(&listener).await;
    let stopped = cluster.stop_all().await;
    let _gone = std::fs::remove_file(&path);
    served.and(stopped)
}

impl Cluster {
    async fn start_and_serve(&mut self, listener: &UnixListener) -> Result<(), String> {
        for number in 0..self.arguments.nodes {
            let member = place(&self.arguments, number)?;
            self.members.push(member);
            self.start(usize::from(number))?;
        }
        let begun = Instant::now();
        let mut is_up = false;
        while !runtime::shutdown_is_requested() {
            self.look();
            if self.members.iter().all(|member| member.stage == Stage::Gone) && !is_up {
                return Err("no node is left: see their logs".to_owned());
            }
            if !is_up && self.members.iter().all(|member| member.stage == Stage::Ready) {
                is_up = true;
                tell(&format!(
                    "{} nodes are ready after {:.2} s",
                    self.members.len(),
                    begun.elapsed().as_secs_f64()
                ));
            }
            if !is_up && READY_WITHIN < begun.elapsed() {
                return Err(format!(
                    "not every node serves clients after {} s: see their logs",
                    READY_WITHIN.as_secs()
                ));
            }
            self.answer(listener);
            runtime::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Notices who is ready and who has ended.
    fn look(&mut self) {
        let port = self.arguments.native_transport_port;
        for (number, member) in (1..).zip(&mut self.members) {
            let Member { address, dc, rack, folder, stage, process: held } = member;
            let Some(process) = held else { continue };
            if let Ok(Some(status)) = process.try_wait() {
                match stage {
                    Stage::Stopping => tell(&format!("node {number}  {address}  stopped")),
                    _ => tell(&format!(
                        "node {number}  {address}  ended with {status}: see {}",
                        log_of(folder).display()
                    )),
                }
                (*held, *stage) = (None, Stage::Gone);
            } else if *stage == Stage::Starting && accepts(*address, port) {
                tell(&format!("node {number}  {address}:{port}  {dc}  {rack}  ready  {}", folder.display()));
                *stage = Stage::Ready;
            }
        }
    }

    /// Answers who asks from another terminal.
    fn answer(&mut self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            // Who asks and says nothing in time is let go; the line is short and comes at once.
            let ready =
                stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(ASK_WITHIN)));
            let mut line = String::new();
            if ready.is_err() || BufReader::new((&stream).take(ASK_BYTES_MAX)).read_line(&mut line).is_err() {
                continue;
            }
            let answer = match self.act(line.trim_end()) {
                Ok(text) => text,
                Err(reason) => format!("refused: {reason}\n"),
            };
            let _gone = (&stream).write_all(answer.as_bytes());
        }
    }

    fn act(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let count = self.members.len();
        let number = |word: &str| {
            let number = word.parse::<usize>().ok().filter(|number| (1..=count).contains(number));
            number.map(|number| number - 1).ok_or(format!("there are nodes 1 to {count}, no {word}"))
        };
        match words[..] {
            ["status"] => Ok(self.status()),
            ["kill", word] => {
                let at = number(word)?;
                let process = self.members[at].process.as_mut().ok_or("it does not run")?;
                process.kill().map_err(|error| format!("cannot kill it: {error}"))?;
                Ok(format!("node {word} was killed\n"))
            }
            ["stop", word] => {
                let member = &mut self.members[number(word)?];
                let process = member.process.as_ref().ok_or("it does not run")?;
                ask_to_stop(process);
                member.stage = Stage::Stopping;
                Ok(format!("node {word} was asked to stop\n"))
            }
            ["start", word] => {
                let at = number(word)?;
                if self.members[at].process.is_some() {
                    return Err("it runs".to_owned());
                }
                self.start(at)?;
                Ok(format!("node {word} was started\n"))
            }
            _ => Err(format!("unknown: {line}")),
        }
    }

    fn status(&self) -> String {
        let port = self.arguments.native_transport_port;
        let line = |(number, member): (usize, &Member)| {
            let Member { address, dc, rack, stage, process, folder } = member;
            let id = process.as_ref().map_or("-".to_owned(), |process| process.id().to_string());
            let (stage, folder) = (stage.name(), folder.display());
            format!("{number}  {address}:{port}  {dc}  {rack}  {stage}  {id}  {folder}\n")
        };
        (1..).zip(&self.members).map(line).collect()
    }

    fn start(&mut self, at: usize) -> Result<(), String> {
        let process = spawn(&self.arguments, &self.members[at])?;
        let member = &mut self.members[at];
        (member.process, member.stage) = (Some(process), Stage::Starting);
        Ok(())
    }

    /// Asks every node to stop, and kills those that do not.
    async fn stop_all(&mut self) -> Result<(), String> {
        for member in &mut self.members {
            if let Some(process) = &member.process {
                ask_to_stop(process);
                member.stage = Stage::Stopping;
            }
        }
        let deadline = Instant::now() + STOPPED_WITHIN;
        while Instant::now() < deadline && self.members.iter().any(|member| member.process.is_some()) {
            self.look();
            runtime::sleep(LOOK_EVERY).await;
        }
        let mut late = Vec::new();
        for member in &mut self.members {
            if let Some(process) = &mut member.process {
                late.push(member.address.to_string());
                let _gone = process.kill();
                let _reaped = process.wait();
            }
        }
        if late.is_empty() {
            Ok(())
        } else {
            Err(format!("killed, as they did not stop in time: {}", late.join(", ")))
        }
    }
}

fn ask_to_stop(process: &Child) {
    // One that has ended already is what is wanted.
    let id = process.id().to_string();
    let _gone = Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status();
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("node.log")
}

/// The address of a node: the first one's and those behind it.
fn address(arguments: &LocalCluster, number: u8) -> Result<Ipv4Addr, String> {
    let first = u32::from(arguments.first_address);
    let address = Ipv4Addr::from(first + u32::from(number));
    if address.is_loopback() {
        Ok(address)
    } else {
        Err(format!("{address} is no address of this machine alone"))
    }
}

/// Where a node stands, before it has a process.
fn place(arguments: &LocalCluster, number: u8) -> Result<Member, String> {
    let address = address(arguments, number)?;
    let folder = arguments.data.join(address.to_string());
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // The names of a lone datacenter and rack are those that drivers and examples expect.
    let dc = match arguments.datacenters {
        1 => "datacenter1".to_owned(),
        count => format!("dc{}", 1 + number % count),
    };
    let rack = format!("rack{}", 1 + number / arguments.datacenters % arguments.racks);
    Ok(Member { address, dc, rack, folder, stage: Stage::Gone, process: None })
}

fn spawn(arguments: &LocalCluster, member: &Member) -> Result<Child, String> {
    let Member { address, dc, rack, folder, .. } = member;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let log = File::options().create(true).append(true).open(log_of(folder)).map_err(told)?;
    let second_log = log.try_clone().map_err(told)?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.args(["node", "--overprovisioned", "--smp", &arguments.smp.to_string()]);
    command.args(["--memory", &arguments.memory, "--data"]).arg(folder.join("data"));
    command.args(["--listen-address", &address.to_string(), "--rpc-address", &address.to_string()]);
    command.args(["--native-transport-port", &arguments.native_transport_port.to_string()]);
    command.args(["--seeds", &arguments.first_address.to_string()]);
    for setting in [
        format!("cluster_name={}", arguments.cluster_name),
        format!("data_center={dc}"),
        format!("rack={rack}"),
        format!("api_address={address}"),
        format!("prometheus_address={address}"),
    ] {
        command.args(["--set", &setting]);
    }
    for setting in &arguments.set {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::null()).stdout(log).stderr(second_log).spawn().map_err(told)
}

fn accepts(address: Ipv4Addr, port: u16) -> bool {
    let address = SocketAddr::new(IpAddr::V4(address), port);
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}
