//! A simulated member: a state machine that is a list of commands, and a listener for members and clients.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::HostId;
use raft::{BoxFuture, Change, Error, Group, Position, Settings, StateMachine};
use runtime::net::TcpListener;
use runtime::sim::main_of;

use super::history::Applied;
use super::wire::{MEMBER, Tcp, Wire, address, host};

/// Longest a member works on a client's request.
const REQUEST: Duration = Duration::from_secs(5);

/// Longest a member tries to pull from another.
const PULL_TIMEOUT: Duration = Duration::from_secs(1);

/// What clients ask of a member; the answer's status is one of the following.
pub(super) const WRITE: u8 = 1;
pub(super) const READ: u8 = 2;
pub(super) const STATUS: u8 = 3;
pub(super) const CHANGE: u8 = 4;
pub(super) const PULL: u8 = 5;
pub(super) const SHOW: u8 = 6;

pub(super) const DONE: u8 = 0;
pub(super) const NOT_DONE: u8 = 1;
pub(super) const UNKNOWN: u8 = 2;

/// How one machine's member is set up, across restarts.
pub(super) struct Setup {
    pub(super) machine: u64,
    /// How often the machine was wiped: each time it is another host.
    pub(super) wiped: AtomicU64,
    /// Whether the state machine keeps its state on disk.
    pub(super) durable: bool,
    pub(super) snapshot_every: u64,
    pub(super) keep_entries: u64,
    pub(super) applied: Arc<Mutex<Applied>>,
}

impl Setup {
    pub(super) fn host(&self) -> HostId {
        host(self.machine, self.wiped.load(Ordering::Relaxed))
    }
}

struct State {
    position: Option<Position>,
    commands: Vec<u64>,
}

/// The list of all commands. Kept in one file with its position, or in memory alone.
struct List {
    host: HostId,
    file: Option<PathBuf>,
    state: RefCell<State>,
    applied: Arc<Mutex<Applied>>,
}

fn numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    bytes.chunks(8).map(|chunk| Some(u64::from_be_bytes(chunk.try_into().ok()?))).collect()
}

fn bytes(commands: &[u64]) -> Vec<u8> {
    commands.iter().flat_map(|command| command.to_be_bytes()).collect()
}

impl List {
    async fn open(host: HostId, file: Option<PathBuf>, applied: Arc<Mutex<Applied>>) -> io::Result<List> {
        let mut state = State { position: None, commands: Vec::new() };
        if let Some(file) = &file
            && runtime::file::exists(file).await?
        {
            let stored = runtime::file::read(file).await?;
            let (at, rest) = stored.split_at_checked(Position::BYTES).ok_or(io::ErrorKind::InvalidData)?;
            state.position = Some(Position::from_bytes(at).map_err(io::Error::other)?);
            state.commands = numbers(rest).ok_or(io::ErrorKind::InvalidData)?;
        }
        Ok(List { host, file, state: RefCell::new(state), applied })
    }

    async fn store(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let stored = {
            let state = self.state.borrow();
            let Some(position) = state.position else { return Ok(()) };
            let mut stored = position.to_bytes().to_vec();
            stored.extend(bytes(&state.commands));
            stored
        };
        runtime::file::replace_atomic(file, &stored).await
    }

    fn commands(&self) -> Vec<u8> {
        bytes(&self.state.borrow().commands)
    }
}

impl StateMachine for List {
    fn position(&self) -> Option<Position> {
        self.state.borrow().position
    }

    fn apply<'a>(&'a self, at: Position, command: &'a [u8]) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        Box::pin(async move {
            if runtime::rare("slow_apply") {
                runtime::sleep(Duration::from_millis(runtime::random_u64() % 50)).await;
            }
            let number = command.try_into().map(u64::from_be_bytes).map_err(io::Error::other)?;
            self.applied.lock().unwrap_or_else(PoisonError::into_inner).apply(self.host, at, number);
            {
                let mut state = self.state.borrow_mut();
                if state.position.is_some_and(|before| before.index >= at.index) {
                    return Err(io::Error::other(format!("entry {} comes twice", at.index)));
                }
                state.position = Some(at);
                state.commands.push(number);
            }
            self.store().await?;
            Ok((self.state.borrow().commands.len() as u64).to_be_bytes().to_vec())
        })
    }

    fn snapshot(&self) -> Vec<u8> {
        self.commands()
    }

    fn restore<'a>(&'a self, at: Position, snapshot: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let commands = numbers(snapshot).ok_or(io::ErrorKind::InvalidData)?;
            {
                let mut state = self.state.borrow_mut();
                if !commands.starts_with(&state.commands) {
                    return Err(io::Error::other("a snapshot does not extend the state"));
                }
                *state = State { position: Some(at), commands };
            }
            self.store().await
        })
    }
}

/// The process of a member.
pub(super) fn main(setup: Arc<Setup>) -> runtime::Main {
    main_of(move || {
        let setup = setup.clone();
        async move {
            match start(&setup).await {
                Ok(()) => 0,
                Err(error) => {
                    runtime::error!("member on machine {} does not start: {error}", setup.machine);
                    1
                }
            }
        }
    })
}

async fn start(setup: &Setup) -> Result<(), String> {
    let id = setup.host();
    let folder = PathBuf::from(format!("/group0-{}", setup.wiped.load(Ordering::Relaxed)));
    runtime::file::create_dir_all(&folder).await.map_err(|e| e.to_string())?;
    runtime::file::sync_dir("/").await.map_err(|e| e.to_string())?;
    let file = setup.durable.then(|| folder.join("state"));
    let list = List::open(id, file, setup.applied.clone()).await.map_err(|e| e.to_string())?;
    let list = Rc::new(list);
    let settings = Settings {
        id,
        folder,
        snapshot_every: setup.snapshot_every,
        keep_entries: setup.keep_entries,
        log_bytes: 1 << 20,
        rewrite_bytes: 2048,
    };
    let group =
        Group::open(settings, list.clone(), Rc::new(Tcp::default())).await.map_err(|e| e.to_string())?;
    if id == host(1, 0) && !group.is_member() {
        group.found().await.map_err(|e| e.to_string())?;
    }
    let listener = TcpListener::bind(address(setup.machine)).await.map_err(|e| e.to_string())?;
    let serving = Rc::new(Serving { id, group: group.clone(), list });
    runtime::spawn(runtime::Group::ADMIN, serving.listen(listener));
    let ended = async {
        let mut changes = group.changes();
        while changes.changed().await.is_ok() && group.status().ended.is_none() {}
        format!("{:?}", group.status().ended)
    };
    // A member whose disk failed ends, and its machine is started again.
    first_of(ended, runtime::shutdown_requested()).await
}

async fn first_of(
    ended: impl Future<Output = String>,
    stopped: impl Future<Output = ()>,
) -> Result<(), String> {
    let (mut ended, mut stopped) = (std::pin::pin!(ended), std::pin::pin!(stopped));
    std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(text) = ended.as_mut().poll(cx) {
            return std::task::Poll::Ready(Err(text));
        }
        stopped.as_mut().poll(cx).map(Ok)
    })
    .await
}

struct Serving {
    id: HostId,
    group: Rc<Group>,
    list: Rc<List>,
}

impl Serving {
    async fn listen(self: Rc<Self>, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = self.clone();
            runtime::spawn(runtime::Group::ADMIN, async move {
                let mut wire = Wire::new(stream);
                while let Ok((tag, body)) = wire.recv().await {
                    let (status, answer) = serving.answer(tag, &body).await;
                    if wire.send(status, &answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    async fn answer(&self, tag: u8, body: &[u8]) -> (u8, Vec<u8>) {
        match tag {
            MEMBER => match body.split_at_checked(17) {
                Some((head, message)) if head[..16] == self.id.to_bytes() => {
                    (DONE, self.group.handle(head[16], message).await)
                }
                _ => (NOT_DONE, Vec::new()),
            },
            WRITE => status(
                self.group
                    .propose(body.to_vec(), REQUEST)
                    .await
                    .map(|(index, _)| index.to_be_bytes().to_vec()),
            ),
            READ => status(self.group.read_barrier(REQUEST).await.map(|()| self.list.commands())),
            STATUS => {
                let known = self.group.status();
                let mut out = vec![u8::from(known.settled), known.voters.len() as u8];
                known.voters.iter().chain(&known.learners).for_each(|id| out.extend(id.to_bytes()));
                (DONE, out)
            }
            PULL => match hosts(body).and_then(|hosts| hosts.first().copied()) {
                Some(from) => {
                    let index = self.group.applied().map_or(0, |at| at.index + 1);
                    let pulled = self.group.pull(from, index, PULL_TIMEOUT).await;
                    status(pulled.map(|()| Vec::new()))
                }
                None => (NOT_DONE, Vec::new()),
            },
            SHOW => (DONE, format!("{:?}", self.group.status()).into_bytes()),
            CHANGE => match change(body) {
                Some(change) => status(self.group.change(change, REQUEST).await.map(|()| Vec::new())),
                None => (NOT_DONE, Vec::new()),
            },
            _ => (NOT_DONE, Vec::new()),
        }
    }
}

fn status(result: Result<Vec<u8>, Error>) -> (u8, Vec<u8>) {
    match result {
        Ok(answer) => (DONE, answer),
        Err(error @ Error::NotDone(_)) => (NOT_DONE, error.to_string().into_bytes()),
        Err(error) => (UNKNOWN, error.to_string().into_bytes()),
    }
}

/// Hosts, one after the other.
pub(super) fn hosts(bytes: &[u8]) -> Option<Vec<HostId>> {
    bytes.chunks(16).map(|chunk| Some(HostId::from_bytes(chunk.try_into().ok()?))).collect()
}

/// What a client asks for: a letter and hosts.
fn change(body: &[u8]) -> Option<Change> {
    let (word, rest) = body.split_first()?;
    let hosts = hosts(rest)?;
    Some(match word {
        b'a' => Change::AddLearner(*hosts.first()?),
        b'v' => Change::SetVoters(hosts.into_iter().collect()),
        b'r' => Change::Remove(*hosts.first()?),
        _ => return None,
    })
}
