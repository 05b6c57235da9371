//! What an operator reaches while the node runs: the REST interface, and native transport that it switches.

use crate::config::Config;
use crate::internode::Others;
use crate::units;
use admin::{Counted, Heard, Messages, NativeTransport, Peers, Rest, RestSettings, Switched, Traffic};
use base::HostId;
use coordinator::Coordinator;
use core::net::SocketAddr;
use core::time::Duration;
use query::Engine;
use runtime::Group;
use runtime::sync::{Flag, Lock};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The listeners of clients, as they were configured; closed and opened by an operator.
#[derive(Clone)]
pub(crate) struct ClientPort {
    inner: Rc<Inner>,
}

struct Inner {
    settings: transport::Settings,
    /// Connections may outlive the listeners that accepted them, by what is left of their requests.
    slots: transport::Slots,
    server: RefCell<Option<transport::Server>>,
    /// The node has started: operators may switch.
    opened: Flag,
    /// One switch at a time.
    turn: Lock<()>,
}

impl ClientPort {
    /// Accepts nobody yet, and nobody else may begin to: that is for [`ClientPort::open`].
    pub(crate) fn new(settings: transport::Settings) -> ClientPort {
        let slots = transport::Slots::new(settings.connections_max, settings.connections_per_ip_max);
        let (server, opened) = (RefCell::new(None), Flag::new());
        ClientPort { inner: Rc::new(Inner { settings, slots, server, opened, turn: Lock::new(()) }) }
    }

    /// Begins to accept connections. Where clients connect, and the shard-aware port if it is served.
    pub(crate) async fn open(&self) -> Result<(SocketAddr, Option<u16>), transport::Error> {
        let server = transport::Server::start(&self.inner.settings, &self.inner.slots).await?;
        let reached_by = (server.address(), server.shard_aware_port());
        *self.inner.server.borrow_mut() = Some(server);
        self.inner.opened.set();
        Ok(reached_by)
    }

    /// Closes it in the background, and says why in the log; an operator may open it again.
    pub(crate) fn close_for(&self, reason: String) {
        runtime::error!("node: native transport is closed: {reason}");
        let port = self.clone();
        drop(runtime::spawn(runtime::Group::ADMIN, async move {
            if let Err(error) = port.switch(false).await {
                runtime::error!("node: cannot close native transport: {error}");
            }
        }));
    }

    /// Accepts no more connections, and frees the ports; those there are end with their requests.
    pub(crate) async fn close(&self) {
        let server = self.inner.server.take();
        if let Some(server) = server {
            server.stop().await;
        }
        runtime::on_every_shard(Group::MAIN, || async {
            if let Some(shard) = runtime::try_local::<transport::Shard>() {
                shard.drain().await;
            }
        })
        .await;
    }
}

impl NativeTransport for ClientPort {
    fn is_running(&self) -> bool {
        self.inner.server.borrow().is_some()
    }

    fn switch(&self, on: bool) -> Switched {
        let port = self.clone();
        Box::pin(async move {
            port.inner.opened.wait().await;
            let _turn = port.inner.turn.lock().await;
            if !on {
                port.close().await;
            } else if !port.is_running() {
                let server = transport::Server::start(&port.inner.settings, &port.inner.slots).await;
                *port.inner.server.borrow_mut() = Some(server.map_err(|error| error.to_string())?);
            }
            Ok(())
        })
    }
}

/// The other members, for operators.
struct Hearing {
    others: Others,
    /// Whether others are let know that this node lives. A node that is alone only remembers what it was told.
    is_talking: Rc<Cell<bool>>,
}

impl Peers for Hearing {
    fn heard(&self, host: HostId) -> Option<Heard> {
        let heard = self.others.links()?.heard(host)?;
        Some(Heard {
            load: heard.facts.load,
            schema_version: heard.facts.schema_version,
            native_open: heard.facts.native_open,
            started_at_s: heard.facts.started_at_s,
            silent: runtime::now() - heard.at,
            round_trip: heard.round_trip,
            has_left: heard.has_left,
        })
    }

    fn is_talking(&self) -> bool {
        self.is_talking.get()
    }

    fn talk(&self, on: bool) -> Switched {
        let (others, is_talking) = (self.others.clone(), self.is_talking.clone());
        Box::pin(async move {
            is_talking.set(on);
            others.talk(on).await;
            Ok(())
        })
    }

    fn say_facts(&self) {
        if let Some(links) = self.others.links() {
            links.say_facts();
        }
    }

    fn traffic(&self) -> Counted {
        let control = self.others.links().map(|links| links.traffic()).unwrap_or_default();
        Box::pin(async move {
            let mut data = rpc::Counts::default();
            let ask = || async { runtime::try_local::<rpc::Pool>().map(|pool| pool.traffic()) };
            for counts in runtime::on_every_shard(Group::ADMIN, ask).await.into_iter().flatten() {
                data.add(&counts);
            }
            let of = |counts: &rpc::Counts, sent| Messages {
                sent,
                pending: counts.in_flight,
                failed: counts.failed,
            };
            Traffic {
                // Calls are counted where most of them are: among the small ones.
                large: Messages { sent: data.large_messages, ..Messages::default() },
                small: of(&data, data.messages - data.large_messages),
                control: of(&control, control.messages),
            }
        })
    }

    fn put_out(&self, host: HostId) -> Switched {
        let others = self.others.clone();
        Box::pin(async move {
            match others {
                Others::Cluster(group0) => group0.put_out(host).await.map_err(|error| error.to_string()),
                Others::None | Others::Fixed(_) => Err(NO_LOG.to_owned()),
            }
        })
    }

    fn is_put_out(&self, host: HostId) -> bool {
        matches!(&self.others, Others::Cluster(group0) if group0.is_put_out(host))
    }

    fn removal_refusal(&self, host: HostId) -> String {
        match &self.others {
            Others::Cluster(group0) => group0.removal_refusal(host),
            Others::None | Others::Fixed(_) => NO_LOG.to_owned(),
        }
    }
}

/// Why nobody can be put out where no log says who belongs to the cluster.
const NO_LOG: &str = "the members of this node are named in its configuration";

/// Begins to answer operators, where the configuration says so.
pub(crate) async fn serve_operators(
    config: &Config,
    clients: &ClientPort,
    others: Others,
) -> Result<Option<admin::Server>, admin::Error> {
    let Some(port) = config.api_port else { return Ok(None) };
    let settings = RestSettings {
        coordinator: runtime::local::<Coordinator>(),
        engine: runtime::local::<Engine>(),
        native: Rc::new(clients.clone()),
        timeouts: timeouts(config),
        peers: Rc::new(Hearing { others, is_talking: Rc::new(Cell::new(true)) }),
    };
    match Rest::start(SocketAddr::new(config.api_address, port), settings).await {
        Ok(server) => Ok(Some(server)),
        // Nobody asked for this port by name: a second node on the machine works without it.
        Err(error) if !config.is_given("api_port") && !config.is_given("api_address") => {
            runtime::warn!("node: nodetool cannot reach this node: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Timeouts by the names of `nodetool gettimeout`, milliseconds.
fn timeouts(config: &Config) -> Vec<(&'static str, u64)> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut timeouts = vec![
        ("read", millis(config.read_timeout)),
        ("range", millis(config.range_timeout)),
        ("write", millis(config.write_timeout)),
        ("counterwrite", millis(config.counter_write_timeout)),
        ("truncate", millis(config.truncate_timeout)),
        ("cascontention", millis(config.cas_contention_timeout)),
    ];
    // Kept as they are written; nothing waits for them yet.
    let others = [
        ("internodeconnect", "internode_tcp_connect_timeout"),
        ("internodeuser", "internode_tcp_user_timeout"),
        ("internodestreaminguser", "internode_streaming_tcp_user_timeout"),
        ("misc", "request_timeout"),
    ];
    let effective = config.effective();
    for (kind, key) in others {
        let value = effective.iter().find(|(name, _)| name == key);
        let ms = value.and_then(|(_, text)| units::time(text, 1)).map(millis);
        timeouts.extend(ms.map(|ms| (kind, ms)));
    }
    timeouts
}
