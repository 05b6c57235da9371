//! Members of one group on one shard, with a transport that calls them directly.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use base::HostId;
use raft::{BoxFuture, Group, Position, SendError, Settings, StateMachine, Transport};
use runtime::sim::{SimConfig, World};

pub const SECOND: Duration = Duration::from_secs(1);

/// Runs a future on a simulated shard with an empty disk.
pub fn on_shard<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    let mut world = World::new(1, SimConfig::calm());
    let node = world.add_client([10, 0, 0, 1].into());
    let mut task = world.spawn(node, future);
    assert!(world.run_until(|_| task.done(), Duration::from_secs(300)), "the test hangs");
    task.take().expect("done")
}

/// Adds up what it is told; the answer is the sum. The state is `padding` zeros and the numbers.
#[derive(Default)]
pub struct Sum {
    pub numbers: RefCell<Vec<u8>>,
    pub at: RefCell<Option<Position>>,
    /// Whether the position is kept, as if the state were durable.
    pub kept: bool,
    pub padding: usize,
}

impl Sum {
    pub fn value(&self) -> u64 {
        self.numbers.borrow().iter().map(|n| u64::from(*n)).sum()
    }
}

impl StateMachine for Sum {
    fn position(&self) -> Option<Position> {
        if self.kept { *self.at.borrow() } else { None }
    }

    fn apply<'a>(&'a self, at: Position, command: &'a [u8]) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        Box::pin(async move {
            self.numbers.borrow_mut().extend(command);
            *self.at.borrow_mut() = Some(at);
            Ok(self.value().to_be_bytes().to_vec())
        })
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = vec![0; self.padding];
        out.extend(&*self.numbers.borrow());
        out
    }

    fn restore<'a>(&'a self, at: Position, snapshot: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            *self.numbers.borrow_mut() = snapshot.iter().copied().filter(|n| *n > 0).collect();
            *self.at.borrow_mut() = Some(at);
            Ok(())
        })
    }
}

/// All members that run, and which ways are cut.
#[derive(Default)]
pub struct Cluster {
    pub groups: RefCell<BTreeMap<HostId, Rc<Group>>>,
    pub sums: RefCell<BTreeMap<HostId, Rc<Sum>>>,
    /// Messages from the one to the other are not sent.
    pub cut: RefCell<BTreeSet<(u64, u64)>>,
    /// Answers to this host are lost.
    pub deaf: RefCell<BTreeSet<u64>>,
    /// Whether snapshots are made for the bytes of entries alone.
    pub seldom: bool,
    pub padding: usize,
}

struct Direct {
    from: u64,
    cluster: Rc<Cluster>,
}

pub fn host(n: u64) -> HostId {
    HostId(u128::from(n))
}

impl Transport for Direct {
    fn send(
        &self,
        to: HostId,
        kind: u8,
        body: Vec<u8>,
        _timeout: Duration,
    ) -> BoxFuture<'_, Result<Vec<u8>, SendError>> {
        Box::pin(async move {
            assert!(body.len() <= raft::limits::MESSAGE_BYTES_MAX, "{} bytes", body.len());
            runtime::sleep(Duration::from_micros(100)).await;
            let cut = self.cluster.cut.borrow().contains(&(self.from, to.0 as u64));
            let group = self.cluster.groups.borrow().get(&to).cloned();
            let Some(group) = group.filter(|_| !cut) else {
                return Err(SendError::NotSent("cut".to_string()));
            };
            let answer = group.handle(kind, &body).await;
            if self.cluster.deaf.borrow().contains(&self.from) {
                return Err(SendError::NoAnswer("lost".to_string()));
            }
            Ok(answer)
        })
    }
}

pub fn folder(n: u64) -> PathBuf {
    PathBuf::from(format!("/member-{n}"))
}

impl Cluster {
    pub async fn open(self: &Rc<Self>, n: u64) -> Result<Rc<Group>, raft::Error> {
        let sum = Rc::new(Sum { padding: self.padding, ..Sum::default() });
        self.open_with(n, sum).await
    }

    pub async fn open_with(self: &Rc<Self>, n: u64, sum: Rc<Sum>) -> Result<Rc<Group>, raft::Error> {
        let settings = Settings {
            id: host(n),
            folder: folder(n),
            snapshot_every: if self.seldom { 100_000 } else { 10 },
            keep_entries: if self.seldom { 100_000 } else { 2 },
            log_bytes: 20_000,
            rewrite_bytes: 500,
        };
        let transport = Rc::new(Direct { from: n, cluster: self.clone() });
        let group = Group::open(settings, sum.clone(), transport).await?;
        self.groups.borrow_mut().insert(host(n), group.clone());
        self.sums.borrow_mut().insert(host(n), sum);
        Ok(group)
    }

    pub async fn stop(&self, n: u64) {
        let group = self.groups.borrow_mut().remove(&host(n)).expect("it runs");
        group.stop().await;
    }

    pub fn sum(&self, n: u64) -> u64 {
        self.sums.borrow()[&host(n)].value()
    }

    pub fn cut(&self, a: u64, b: u64) {
        self.cut.borrow_mut().extend([(a, b), (b, a)]);
    }
}
