//! What an operator reaches while the node runs: the REST interface, and the port of clients that it switches.

use crate::config::Config;
use crate::units;
use admin::{NativeTransport, Rest, RestSettings, Switched};
use coordinator::Coordinator;
use core::net::SocketAddr;
use core::time::Duration;
use query::Engine;
use runtime::sync::Lock;
use std::cell::RefCell;
use std::rc::Rc;

/// The listeners of clients, as they were configured; closed and opened by an operator.
#[derive(Clone)]
pub(crate) struct ClientPort {
    inner: Rc<Inner>,
}

struct Inner {
    settings: transport::Settings,
    /// Connections outlive the listeners that accepted them.
    slots: transport::Slots,
    address: SocketAddr,
    shard_aware_port: Option<u16>,
    server: RefCell<Option<transport::Server>>,
    /// One switch at a time.
    turn: Lock<()>,
}

impl ClientPort {
    /// Begins to accept connections.
    pub(crate) async fn open(settings: transport::Settings) -> Result<ClientPort, transport::Error> {
        let slots = transport::Slots::new(settings.connections_max, settings.connections_per_ip_max);
        let server = transport::Server::start(&settings, &slots).await?;
        let (address, shard_aware_port) = (server.address(), server.shard_aware_port());
        let server = RefCell::new(Some(server));
        let inner = Inner { settings, slots, address, shard_aware_port, server, turn: Lock::new(()) };
        Ok(ClientPort { inner: Rc::new(inner) })
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// The shard-aware port, if it is served.
    pub(crate) fn shard_aware_port(&self) -> Option<u16> {
        self.inner.shard_aware_port
    }

    /// Accepts no more connections, and frees the ports; those there are go on.
    pub(crate) async fn close(&self) {
        let server = self.inner.server.take();
        if let Some(server) = server {
            server.stop().await;
        }
    }
}

impl NativeTransport for ClientPort {
    fn is_running(&self) -> bool {
        self.inner.server.borrow().is_some()
    }

    fn switch(&self, on: bool) -> Switched {
        let port = self.clone();
        Box::pin(async move {
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

/// Begins to answer operators, where the configuration says so.
pub(crate) async fn serve_operators(
    config: &Config,
    clients: &ClientPort,
) -> Result<Option<admin::Server>, admin::Error> {
    let Some(port) = config.api_port else { return Ok(None) };
    let settings = RestSettings {
        coordinator: runtime::local::<Coordinator>(),
        engine: runtime::local::<Engine>(),
        native: Rc::new(clients.clone()),
        timeouts: timeouts(config),
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
        ("truncate", millis(config.truncate_timeout)),
    ];
    // Kept as they are written; nothing waits for them yet.
    let others = [
        ("counterwrite", "counter_write_request_timeout"),
        ("cascontention", "cas_contention_timeout"),
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
