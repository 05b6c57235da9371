//! Accepting: one shard listens, every shard serves.
//!
//! On the ordinary port connections go round the shards; on the shard-aware port the client has chosen by its source
//! port (`port % shards`).

use crate::connection::Connection;
use crate::limits;
use crate::serve;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::slots::{Slot, Slots};
use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;
use runtime::log::Sparse;
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::Flag;
use runtime::{Group, ShardId};

/// Why clients cannot be served. The node must not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for clients: {}", reason(source))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "another process listens there already".into(),
        std::io::ErrorKind::PermissionDenied => "this user may not listen there".into(),
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        _ => error.to_string(),
    }
}

/// The listeners of a node, on the shard that accepts.
pub struct Server {
    address: SocketAddr,
    shard_aware_port: Option<u16>,
    slots: Slots,
    stop: Flag,
}

impl Server {
    /// Listens from the current shard. Every shard must have its [`Shard`] installed (`runtime::install`) before.
    pub async fn start(settings: &Settings) -> Result<Server, Error> {
        let ordinary = bind(settings.address).await?;
        let address = local(&ordinary, settings.address)?;
        let shard_aware = match settings.shard_aware_port {
            None => None,
            Some(port) => match bind(SocketAddr::new(address.ip(), port)).await {
                Ok(listener) => Some(listener),
                Err(error) if settings.shard_aware_port_required => return Err(error),
                Err(error) => {
                    runtime::warn!("transport: no shard-aware port: {error}");
                    None
                }
            },
        };
        let shard_aware_port = match &shard_aware {
            Some(listener) => Some(local(listener, address)?.port()),
            None => None,
        };
        announce(shard_aware_port.unwrap_or(0)).await;
        let server = Server {
            address,
            shard_aware_port,
            slots: Slots::new(settings.connections_max),
            stop: Flag::new(),
        };
        server.accept(ordinary, Placement::RoundRobin);
        if let Some(listener) = shard_aware {
            server.accept(listener, Placement::SourcePort);
        }
        Ok(server)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The shard-aware port, if it is served.
    pub fn shard_aware_port(&self) -> Option<u16> {
        self.shard_aware_port
    }

    /// Takes no more connections. Those accepted go on; see [`Shard::drain`].
    pub fn stop(&self) {
        self.stop.set();
    }

    fn accept(&self, listener: TcpListener, placement: Placement) {
        let acceptor = Acceptor {
            listener,
            placement,
            slots: self.slots.clone(),
            next: 0,
            stop: self.stop.clone(),
            told: Sparse::new(limits::REFUSAL_LOG_EVERY),
        };
        drop(runtime::spawn(Group::MAIN, acceptor.run()));
    }
}

fn local(listener: &TcpListener, address: SocketAddr) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|source| Error::Listen { address, source })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Tells every shard the shard-aware port, for SUPPORTED.
async fn announce(port: u16) {
    for shard in 0..runtime::shard_count() {
        let tell = move || async move { runtime::local::<Shard>().shard_aware_port.set(port) };
        runtime::submit_to(ShardId(shard), Group::MAIN, tell).await;
    }
}

#[derive(Clone, Copy)]
enum Placement {
    RoundRobin,
    SourcePort,
}

struct Acceptor {
    listener: TcpListener,
    placement: Placement,
    slots: Slots,
    next: u16,
    stop: Flag,
    /// Connections not taken that are worth a line in the log.
    told: Sparse,
}

impl Acceptor {
    async fn run(mut self) {
        while let Some(accepted) = self.accept_unless_stopped().await {
            match accepted {
                Ok((stream, peer)) => self.place(stream, peer),
                Err(error) => {
                    self.tell(&format!("cannot accept a connection: {error}"));
                    runtime::sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Says now and then what goes wrong: clients that are refused try again at once.
    fn tell(&self, text: &str) {
        if self.told.take() {
            runtime::warn!("transport: {text}");
        }
    }

    /// The next connection, or nothing once the server is told to stop.
    async fn accept_unless_stopped(&self) -> Option<std::io::Result<(TcpStream, SocketAddr)>> {
        let mut stopped = pin!(self.stop.wait());
        let mut accepted = pin!(self.listener.accept());
        poll_fn(|context| match stopped.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => accepted.as_mut().poll(context).map(Some),
        })
        .await
    }

    fn place(&mut self, stream: TcpStream, peer: SocketAddr) {
        let Some(slot) = self.slots.take() else {
            self.tell(&format!(
                "refusing {peer}: as many connections as allowed, see native_transport_max_concurrent_connections"
            ));
            return stream.shutdown();
        };
        let shards = runtime::shard_count();
        let target = match self.placement {
            Placement::SourcePort => peer.port() % shards,
            Placement::RoundRobin => {
                self.next = (self.next + 1) % shards;
                self.next
            }
        };
        if ShardId(target) == runtime::shard() {
            return begin(&stream, slot);
        }
        let Ok(transfer) = stream.into_transfer() else { return };
        let moved = runtime::submit_to(ShardId(target), Group::MAIN, move || async move {
            begin(&TcpStream::from_transfer(transfer), slot);
        });
        drop(runtime::spawn(Group::MAIN, moved));
    }
}

fn begin(stream: &TcpStream, slot: Slot) {
    let Some(shard) = runtime::try_local::<Shard>() else { return stream.shutdown() };
    // A connection that is already gone has no address and needs no serving.
    if let Ok(connection) = Connection::new(shard, stream.clone(), slot) {
        drop(runtime::spawn(Group::QUERY, serve::serve(connection)));
    }
}
