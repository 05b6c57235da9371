//! Accepting: one shard listens, every shard serves.
//!
//! On the ordinary port connections go round the shards; on the shard-aware port the client has chosen by its source
//! port (`port % shards`).

use crate::connection::Connection;
use crate::limits;
use crate::serve;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::slots::{Full, Slot, Slots};
use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;
use runtime::log::Sparse;
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::Flag;
use runtime::{Group, JoinHandle, ShardId};
use tls::{Encryption, Watch};

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
    /// Keys or certificates cannot be used.
    #[error("client_encryption_options: {0}")]
    Tls(#[from] tls::Error),
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
    ssl_port: Option<u16>,
    keep_alive: bool,
    slots: Slots,
    stop: Flag,
    acceptors: Vec<JoinHandle<()>>,
}

/// A port, before it is listened on.
#[derive(Clone, Copy)]
struct Port {
    number: u16,
    placement: Placement,
    encryption: Encryption,
    /// Whether the node must not start without it.
    required: bool,
}

impl Server {
    /// Listens from the current shard. Every shard must have its [`Shard`] installed (`runtime::install`) before.
    /// `slots` outlive the server: connections do.
    pub async fn start(settings: &Settings, slots: &Slots) -> Result<Server, Error> {
        let watch = match &settings.tls {
            Some(keys) if settings.encryption != Encryption::None => {
                let (acceptor, watch) = Watch::start(keys.clone()).await?;
                distribute(&acceptor).await;
                Some(watch)
            }
            _ => None,
        };
        let ordinary = bind(settings.address).await?;
        let address = local(&ordinary, settings.address)?;
        let mut server = Server {
            address,
            shard_aware_port: None,
            ssl_port: None,
            keep_alive: settings.keep_alive,
            slots: slots.clone(),
            stop: Flag::new(),
            acceptors: Vec::new(),
        };
        let mut listening = vec![(ordinary, Placement::RoundRobin, settings.ordinary_encryption())];
        let mut told = (0, 0);
        for port in server.further_ports(settings) {
            let Some((listener, number)) = server.listen(port).await? else { continue };
            match port.placement {
                Placement::RoundRobin => server.ssl_port = Some(number),
                Placement::SourcePort => {
                    server.shard_aware_port.get_or_insert(number);
                    if port.encryption != Encryption::Required {
                        told.0 = number;
                    }
                    if port.encryption != Encryption::None {
                        told.1 = number;
                    }
                }
            }
            listening.push((listener, port.placement, port.encryption));
        }
        announce(told).await;
        for (listener, placement, encryption) in listening {
            server.accept(listener, placement, encryption);
        }
        if let Some(watch) = watch {
            drop(runtime::spawn(Group::MAIN, renew(watch, server.stop.clone())));
        }
        Ok(server)
    }

    /// The ports beside the ordinary one.
    fn further_ports(&self, settings: &Settings) -> Vec<Port> {
        let mut ports = Vec::new();
        if let Some(number) = settings.ssl_port.filter(|number| *number != settings.address.port()) {
            let (placement, encryption) = (Placement::RoundRobin, settings.encryption);
            ports.push(Port { number, placement, encryption, required: true });
        }
        let placement = Placement::SourcePort;
        if let Some(number) = settings.shard_aware_port {
            let required = settings.shard_aware_port_required;
            // A shard-aware port of its own for encrypted connections leaves the other to plain ones.
            let encryption = match settings.shard_aware_port_ssl {
                Some(ssl) if ssl != number => Encryption::None,
                _ => settings.ordinary_encryption(),
            };
            ports.push(Port { number, placement, encryption, required });
        }
        let ssl = settings.shard_aware_port_ssl.filter(|ssl| Some(*ssl) != settings.shard_aware_port);
        if let Some(number) = ssl {
            ports.push(Port { number, placement, encryption: settings.encryption, required: true });
        }
        ports
    }

    /// Listens on a port; `None` when it cannot be had and need not be.
    async fn listen(&self, port: Port) -> Result<Option<(TcpListener, u16)>, Error> {
        match bind(SocketAddr::new(self.address.ip(), port.number)).await {
            Ok(listener) => {
                let number = local(&listener, self.address)?.port();
                Ok(Some((listener, number)))
            }
            Err(error) if port.required => Err(error),
            Err(error) => {
                runtime::warn!("transport: no shard-aware port: {error}");
                Ok(None)
            }
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The shard-aware port, if it is served.
    pub fn shard_aware_port(&self) -> Option<u16> {
        self.shard_aware_port
    }

    /// The port of its own for encrypted connections, if there is one.
    pub fn ssl_port(&self) -> Option<u16> {
        self.ssl_port
    }

    /// Takes no more connections; when this ends the ports are free. Those accepted go on; see [`Shard::drain`].
    pub async fn stop(self) {
        self.stop.set();
        for acceptor in self.acceptors {
            acceptor.await;
        }
    }

    fn accept(&mut self, listener: TcpListener, placement: Placement, encryption: Encryption) {
        if self.keep_alive
            && let Err(error) = listener.keep_alive()
        {
            runtime::warn!("transport: no keep-alive of connections: {error}");
        }
        let acceptor = Acceptor {
            listener,
            placement,
            encryption,
            slots: self.slots.clone(),
            next: 0,
            stop: self.stop.clone(),
            told: Sparse::new(limits::REFUSAL_LOG_EVERY),
        };
        self.acceptors.push(runtime::spawn(Group::MAIN, acceptor.run()));
    }
}

fn local(listener: &TcpListener, address: SocketAddr) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|source| Error::Listen { address, source })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Tells every shard the shard-aware ports, plain and encrypted, for SUPPORTED.
async fn announce((plain, ssl): (u16, u16)) {
    for shard in 0..runtime::shard_count() {
        let tell = move || async move {
            let shard = runtime::local::<Shard>();
            shard.shard_aware_port.set(plain);
            shard.shard_aware_port_ssl.set(ssl);
        };
        runtime::submit_to(ShardId(shard), Group::MAIN, tell).await;
    }
}

/// Has every shard use these keys for new connections.
async fn distribute(acceptor: &tls::Acceptor) {
    for shard in 0..runtime::shard_count() {
        let acceptor = acceptor.clone();
        let tell = move || async move { runtime::local::<Shard>().set_tls(acceptor) };
        runtime::submit_to(ShardId(shard), Group::MAIN, tell).await;
    }
}

/// Looks from time to time whether keys and certificates were renewed. Connections made before keep theirs.
async fn renew(mut watch: Watch, stop: Flag) {
    loop {
        if runtime::timeout(tls::limits::LOOK_EVERY, stop.wait()).await.is_ok() {
            return;
        }
        match watch.look().await {
            None => {}
            Some(Ok(acceptor)) => {
                distribute(&acceptor).await;
                runtime::info!("transport: new connections get the renewed keys and certificates");
            }
            Some(Err(error)) => {
                runtime::warn!("transport: keys and certificates stay as they were: {error}");
            }
        }
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
    encryption: Encryption,
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
        let slot = match self.slots.take(peer.ip()) {
            Ok(slot) => slot,
            Err(full) => {
                let key = match full {
                    Full::Node => "native_transport_max_concurrent_connections",
                    Full::Address => "native_transport_max_concurrent_connections_per_ip",
                };
                self.tell(&format!("refusing {peer}: as many connections as allowed, see {key}"));
                return stream.shutdown();
            }
        };
        let encryption = self.encryption;
        let shards = runtime::shard_count();
        let target = match self.placement {
            Placement::SourcePort => peer.port() % shards,
            Placement::RoundRobin => {
                self.next = (self.next + 1) % shards;
                self.next
            }
        };
        if ShardId(target) == runtime::shard() {
            return begin(&stream, encryption, slot);
        }
        let Ok(transfer) = stream.into_transfer() else { return };
        let moved = runtime::submit_to(ShardId(target), Group::MAIN, move || async move {
            begin(&TcpStream::from_transfer(transfer), encryption, slot);
        });
        drop(runtime::spawn(Group::MAIN, moved));
    }
}

fn begin(stream: &TcpStream, encryption: Encryption, slot: Slot) {
    let Some(shard) = runtime::try_local::<Shard>() else { return stream.shutdown() };
    // A connection that is already gone has no address and needs no serving.
    if let Ok(connection) = Connection::new(shard, stream.clone(), encryption, slot) {
        drop(runtime::spawn(Group::QUERY, serve::serve(connection)));
    }
}
