//! One shard's calls to shards of other nodes, and the connections it accepts.
//!
//! A connection to `(host, shard)` is opened by shard 0 when it is first called, and comes here once both sides have said yes; calls wait for it in
//! its outbox. Whether a peer is up, and which connections are worth nothing any more, is read from its `Standing`.

use crate::calls::Gather;
use crate::conn::{Conn, Ends, Outgoing, Setup, Side};
use crate::error::CallError;
use crate::greet::Handed;
use crate::hello::Class;
use crate::limits::{DATA_CONNECTIONS_MAX, RECONNECT_PAUSE_MIN};
use crate::load::Load;
use crate::standing::Standing;
use crate::traffic::Counts;
use crate::verbs::Registry;
use base::{HashMap, HostId, Instant};
use runtime::{Group, ShardId};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// A connection on its way to a shard, or why there is none.
pub(crate) type Dialing = Pin<Box<dyn Future<Output = Result<Handed, String>>>>;

/// Makes connections for all shards; installed on shard 0.
pub(crate) trait Dial {
    /// Connects a shard of this node to a shard of a peer.
    fn open_data(self: Rc<Self>, host: HostId, from: u16, wanted: u16) -> Dialing;
}

/// The shard's slot for it.
pub(crate) struct Dialer(pub(crate) Rc<dyn Dial>);

/// The data connections of one shard. Installed on every shard before the node's links start.
pub struct Pool {
    verbs: Rc<Registry>,
    load: Rc<Load>,
    routes: RefCell<HashMap<HostId, Rc<Route>>>,
    open: Cell<usize>,
}

/// The connections to one peer.
struct Route {
    standing: Arc<Standing>,
    /// By the peer's shard.
    conns: RefCell<Vec<Option<Rc<Conn>>>>,
    failed: Cell<Option<Instant>>,
}

impl Pool {
    /// Installs this shard's pool, which answers other nodes by `verbs`.
    pub fn install(verbs: Registry) -> Rc<Pool> {
        let load = Load::new("data");
        let pool = Rc::new(Pool {
            verbs: Rc::new(verbs),
            load: load.clone(),
            routes: RefCell::default(),
            open: Cell::new(0),
        });
        runtime::install(pool.clone());
        drop(runtime::spawn(Group::RPC, load.flush_all()));
        pool
    }

    /// Asks a shard of another node and waits for the answer. The request may run on another shard than that: modulo the shards there are, and
    /// with very many connections on one that has one. Handlers look whether they own what is asked.
    pub async fn call(
        &self,
        host: HostId,
        shard: u16,
        outgoing: Outgoing,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<u8>, CallError> {
        self.connection(host, shard)?.call(&outgoing, encode).await
    }

    /// Asks a shard of another node; the answer goes to `gather` with `index`, also when it is late or the connection breaks. No task, no
    /// allocation but in the outbox. Errors: nothing was sent and `gather` will not hear of it.
    pub fn send(
        &self,
        host: HostId,
        shard: u16,
        outgoing: Outgoing,
        gather: (Rc<dyn Gather>, u16),
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), CallError> {
        self.connection(host, shard)?.send(&outgoing, gather, encode)
    }

    /// Asks a shard of another node once for several answers, each of which goes to `gather` with an index of its own. Who serves the request answers
    /// the first as ever, and the others by the calls that `encode` is given for them, in their order, and writes into the body
    /// ([`Responder::beside`](crate::Responder::beside)). Each index is heard of once, as if it were a call of its own, but for one thing: when the
    /// first fails because the request was not begun there, the others are heard of at the deadline only. Errors: nothing was sent.
    pub fn send_for_many(
        &self,
        host: HostId,
        shard: u16,
        outgoing: Outgoing,
        (gather, first, others): (&Rc<dyn Gather>, u16, &[u16]),
        encode: impl FnOnce(&[u64], &mut Vec<u8>),
    ) -> Result<(), CallError> {
        self.connection(host, shard)?.send_for_many(&outgoing, gather, (first, others), encode)
    }

    /// Whether the peer is known and up, as far as this node knows.
    pub fn is_up(&self, host: HostId) -> bool {
        self.routes.borrow().get(&host).is_some_and(|route| route.standing.is_up())
    }

    /// Shards of a peer; 0 before it was met.
    pub fn shards(&self, host: HostId) -> u16 {
        self.routes.borrow().get(&host).map_or(0, |route| route.standing.shards())
    }

    /// Whether a peer has said that it knows what all these bits stand for: see [`Registry::with_features`].
    pub fn knows(&self, host: HostId, features: u64) -> bool {
        self.routes.borrow().get(&host).is_some_and(|route| route.standing.features() & features == features)
    }

    /// What this node's hellos say that its verbs know.
    pub(crate) fn features(&self) -> u64 {
        self.verbs.features()
    }

    /// What went between this shard and all peers by connections of data.
    pub fn traffic(&self) -> Counts {
        self.load.traffic.sum()
    }

    /// Calls in flight, and their bytes.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        let routes = self.routes.borrow();
        let conns = routes.values().flat_map(|route| route.conns.borrow().clone()).flatten();
        (conns.map(|conn| conn.calls_in_flight()).sum(), self.load.unanswered.get())
    }

    /// Bytes of requests that are worked on.
    #[cfg(test)]
    pub(crate) fn served(&self) -> usize {
        self.load.served.get()
    }

    /// As if so many connections were open.
    #[cfg(test)]
    pub(crate) fn pretend_open(&self, count: usize) {
        self.open.set(count);
    }

    /// Bytes that no socket has taken.
    #[cfg(test)]
    pub(crate) fn unsent(&self) -> usize {
        self.load.unsent.get()
    }

    fn connection(&self, host: HostId, shard: u16) -> Result<Rc<Conn>, CallError> {
        let unreachable = |reason: &str| CallError::Unreachable { peer: host, reason: reason.into() };
        let routes = self.routes.borrow();
        let route = routes.get(&host).ok_or_else(|| unreachable("it is no known peer"))?;
        if !route.standing.is_up() {
            return Err(unreachable("it is down"));
        }
        let shard = self.choose(route, shard);
        let index = usize::from(shard);
        if let Some(Some(conn)) = route.conns.borrow().get(index)
            && !conn.is_closed()
            && !conn.is_stale()
        {
            return Ok(conn.clone());
        }
        if route.failed.get().is_some_and(|at| runtime::now() < at + RECONNECT_PAUSE_MIN) {
            return Err(unreachable("the last attempt failed just now"));
        }
        let route = route.clone();
        drop(routes);
        Ok(self.dial(&route, shard))
    }

    /// The shard that is connected to: the wanted one, or with too many connections the one that goes with this shard.
    fn choose(&self, route: &Route, wanted: u16) -> u16 {
        let shards = route.standing.shards().max(1);
        let wanted = wanted % shards;
        let is_open = matches!(route.conns.borrow().get(usize::from(wanted)), Some(Some(_)));
        if is_open || self.open.get() < DATA_CONNECTIONS_MAX { wanted } else { runtime::shard().0 % shards }
    }

    fn dial(&self, route: &Rc<Route>, shard: u16) -> Rc<Conn> {
        let host = route.standing.host;
        let conn = Conn::new(Setup {
            peer: host,
            class: Class::Data,
            side: Side::Dialed,
            verbs: self.verbs.clone(),
            load: self.load.clone(),
            standing: Some(route.standing.clone()),
            hooks: None,
        });
        let old = route.put(shard, Some(conn.clone()));
        match old {
            Some(old) => old.close("it was replaced"),
            None => self.open.set(self.open.get() + 1),
        }
        let (route, dialed, from) = (route.clone(), conn.clone(), runtime::shard().0);
        let ends = Ends::with(&conn);
        drop(runtime::spawn(Group::RPC, async move {
            let open = move || async move {
                match runtime::try_local::<Dialer>() {
                    Some(dialer) => dialer.0.clone().open_data(host, from, shard).await,
                    None => Err("this node has no connections yet".to_owned()),
                }
            };
            match runtime::submit_to(ShardId(0), Group::CONTROL, open).await {
                Ok(handed) => {
                    route.failed.set(None);
                    dialed.open(handed.into_link());
                    ends.pass();
                }
                Err(reason) => {
                    route.failed.set(Some(runtime::now()));
                    dialed.close(&reason);
                }
            }
        }));
        conn
    }

    /// Takes a connection that another node made to this shard.
    pub(crate) fn accept(&self, peer: HostId, standing: Option<Arc<Standing>>, handed: Handed) {
        let conn = Conn::new(Setup {
            peer,
            class: Class::Data,
            side: Side::Accepted,
            verbs: self.verbs.clone(),
            load: self.load.clone(),
            standing,
            hooks: None,
        });
        conn.open(handed.into_link());
    }

    /// A peer that may be called from now on.
    pub(crate) fn learn(&self, standing: Arc<Standing>) {
        let host = standing.host;
        let known =
            self.routes.borrow().get(&host).is_some_and(|route| Arc::ptr_eq(&route.standing, &standing));
        if known || standing.is_gone() {
            return;
        }
        self.forget(host);
        let route = Route { standing, conns: RefCell::default(), failed: Cell::new(None) };
        self.routes.borrow_mut().insert(host, Rc::new(route));
    }

    /// Something has changed for a peer: closes what is worth nothing any more.
    pub(crate) fn look(&self, host: HostId) {
        let route = self.routes.borrow().get(&host).cloned();
        let Some(route) = route else { return };
        if route.standing.is_gone() {
            return self.forget(host);
        }
        let stale = |conn: &Rc<Conn>| conn.is_stale() || conn.is_closed();
        let conns: Vec<(usize, Rc<Conn>)> = {
            let conns = route.conns.borrow();
            let all = conns.iter().enumerate().filter_map(|(index, conn)| Some((index, conn.clone()?)));
            all.filter(|(_, conn)| stale(conn)).collect()
        };
        for (index, conn) in conns {
            route.put(index as u16, None);
            self.open.set(self.open.get() - 1);
            conn.close("the node went down or was started again");
        }
        route.failed.set(None);
    }

    fn forget(&self, host: HostId) {
        self.load.traffic.forget(host);
        let Some(route) = self.routes.borrow_mut().remove(&host) else { return };
        for conn in route.conns.take().into_iter().flatten() {
            self.open.set(self.open.get() - 1);
            conn.close("it is no peer any more");
        }
    }
}

impl Route {
    fn put(&self, shard: u16, conn: Option<Rc<Conn>>) -> Option<Rc<Conn>> {
        let mut conns = self.conns.borrow_mut();
        let index = usize::from(shard);
        if conns.len() <= index {
            conns.resize(index + 1, None);
        }
        std::mem::replace(&mut conns[index], conn)
    }
}
