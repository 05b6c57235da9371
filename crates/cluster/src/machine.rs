//! The state of the cluster on this node, as consensus drives it.

use crate::applied::{Applied, Known, Seen, version_of};
use crate::error::Error;
use base::HostId;
use group0::State;
use raft::{BoxFuture, Position, StateMachine};
use runtime::sync::{Event, Lock};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// What has to happen on this node between two applied states: see [`Machine::on_change`].
type Hook<T> = Rc<dyn Fn(State, State) -> BoxFuture<'static, T>>;

/// The applied state. Lives on shard 0.
pub(crate) struct Machine {
    state: RefCell<State>,
    position: Cell<Option<Position>>,
    asked: Cell<Option<u128>>,
    applied: Lock<Applied>,
    /// Called before a state is durable.
    prepare: RefCell<Option<Hook<io::Result<()>>>>,
    /// Called when a state is durable.
    publish: RefCell<Option<Hook<()>>>,
    changed: Event,
}

impl Machine {
    pub(crate) fn new(applied: Applied, known: Known) -> Rc<Machine> {
        Rc::new(Machine {
            state: RefCell::new(known.state),
            position: Cell::new(known.position),
            asked: Cell::new(known.asked),
            applied: Lock::new(applied),
            prepare: RefCell::default(),
            publish: RefCell::default(),
            changed: Event::new(),
        })
    }

    /// Has two functions called with each state that follows another, whether an entry or a snapshot brought it: `prepare` before it is
    /// durable, `publish` when it is; the next one waits for both. What they do follows from the difference of the two. A state that cannot be
    /// prepared does not become durable, and nothing follows it: the next start takes it again.
    pub(crate) fn on_change(
        &self,
        prepare: impl Fn(State, State) -> BoxFuture<'static, io::Result<()>> + 'static,
        publish: impl Fn(State, State) -> BoxFuture<'static, ()> + 'static,
    ) {
        *self.prepare.borrow_mut() = Some(Rc::new(prepare));
        *self.publish.borrow_mut() = Some(Rc::new(publish));
    }

    /// The cluster that this node has asked to take it.
    pub(crate) fn asked(&self) -> Option<u128> {
        self.asked.get()
    }

    /// Remembers which cluster this node asks to take it. Durable when this returns.
    pub(crate) async fn note_asked(&self, cluster: u128) -> Result<(), Error> {
        self.applied.lock().await.note_asked(cluster).await?;
        self.asked.set(Some(cluster));
        Ok(())
    }

    /// Remembers what other members were seen to have. Durable when this returns.
    pub(crate) async fn note_seen(&self, news: &[(HostId, Seen)]) -> Result<(), Error> {
        let mut applied = self.applied.lock().await;
        let state = self.state();
        applied.note_seen(news, self.position.get(), &state).await
    }

    /// The newest applied state.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Wakes when the state has changed.
    pub(crate) fn changed(&self) -> &Event {
        &self.changed
    }

    async fn call<T>(hook: &RefCell<Option<Hook<T>>>, before: &State, after: &State) -> Option<T> {
        let hook = hook.borrow().clone();
        match hook {
            Some(hook) => Some(hook(before.clone(), after.clone()).await),
            None => None,
        }
    }

    fn take(&self, at: Position, state: State) {
        *self.state.borrow_mut() = state;
        self.position.set(Some(at));
    }

    async fn follow(&self, at: Position, command: &[u8]) -> io::Result<Vec<u8>> {
        let before = self.state();
        let (after, outcome) = before.apply_entry(version_of(at), command).map_err(io::Error::other)?;
        Machine::call(&self.prepare, &before, &after).await.transpose()?;
        self.applied.lock().await.append(at, command, &after).await.map_err(io::Error::other)?;
        self.take(at, after.clone());
        Machine::call(&self.publish, &before, &after).await;
        self.changed.notify_all();
        Ok(outcome.encode())
    }

    async fn jump(&self, at: Position, snapshot: &[u8]) -> io::Result<()> {
        let before = self.state();
        let after = State::decode(snapshot).map_err(io::Error::other)?;
        if !runtime::planted(runtime::Bug::SnapshotWithoutEffects) {
            Machine::call(&self.prepare, &before, &after).await.transpose()?;
        }
        self.applied.lock().await.replace(at, &after).await.map_err(io::Error::other)?;
        self.take(at, after.clone());
        Machine::call(&self.publish, &before, &after).await;
        self.changed.notify_all();
        Ok(())
    }
}

impl StateMachine for Machine {
    fn position(&self) -> Option<Position> {
        self.position.get()
    }

    fn apply<'a>(&'a self, at: Position, command: &'a [u8]) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        Box::pin(self.follow(at, command))
    }

    fn snapshot(&self) -> Vec<u8> {
        self.state.borrow().encode()
    }

    fn restore<'a>(&'a self, at: Position, snapshot: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(self.jump(at, snapshot))
    }
}
