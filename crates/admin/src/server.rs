//! The HTTP listener of one shard, and the one that serves metrics, which asks every shard for its samples.

use crate::http::{self, Parsed, Request};
use crate::limits;
use core::net::SocketAddr;
use runtime::metrics::Sample;
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::Gate;
use runtime::{Group, ShardId};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

/// Why something is not served over HTTP.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on. The node goes on without, or stops, as it was told to.
    #[error("cannot listen on {address} for {what}: {}", listen_reason(source))]
    Listen {
        /// What would have been served there.
        what: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Why an address cannot be listened on, in an operator's words.
pub fn listen_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "another process listens there already".into(),
        std::io::ErrorKind::PermissionDenied => "this user may not listen there".into(),
        std::io::ErrorKind::AddrNotAvailable => "this machine does not have that address".into(),
        _ => error.to_string(),
    }
}

/// What answers a request.
pub(crate) type Handler = Rc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = Vec<u8>>>>>;

/// A listener that answers requests until it is closed.
pub struct Server {
    address: SocketAddr,
    gate: Rc<Gate>,
}

impl Server {
    /// Listens on `address` from the current shard and answers `GET /metrics`.
    pub async fn start(address: SocketAddr) -> Result<Server, Error> {
        let handler: Handler = Rc::new(|request| Box::pin(async move { respond(&request).await }));
        Server::listen(address, "metrics", handler).await
    }

    pub(crate) async fn listen(
        address: SocketAddr,
        what: &'static str,
        handler: Handler,
    ) -> Result<Server, Error> {
        let listen = |source| Error::Listen { what, address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let gate = Rc::new(Gate::new());
        let inside = gate.clone();
        drop(runtime::spawn(Group::ADMIN, async move { accept(listener, inside, handler).await }));
        Ok(Server { address, gate })
    }

    /// The address listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests. Connections end by themselves.
    pub fn stop(&self) {
        let gate = self.gate.clone();
        drop(runtime::spawn(Group::ADMIN, async move { gate.close().await }));
    }
}

/// A head and its body.
const REQUEST_BYTES_ALL: usize = limits::REQUEST_BYTES_MAX + limits::BODY_BYTES_MAX;

async fn accept(listener: TcpListener, gate: Rc<Gate>, handler: Handler) {
    let open = Rc::new(Cell::new(0usize));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                runtime::warn!("admin: cannot accept a connection: {error}");
                runtime::sleep(core::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        if gate.is_closed() {
            return;
        }
        if open.get() >= limits::CONNECTIONS_MAX {
            stream.shutdown();
            continue;
        }
        open.set(open.get() + 1);
        let (open, gate, handler) = (open.clone(), gate.clone(), handler.clone());
        drop(runtime::spawn(Group::ADMIN, async move {
            serve(stream, gate, handler).await;
            open.set(open.get() - 1);
        }));
    }
}

async fn serve(stream: TcpStream, gate: Rc<Gate>, handler: Handler) {
    let mut received: Vec<u8> = Vec::new();
    loop {
        match http::parse(&received) {
            Parsed::Malformed => return stream.shutdown(),
            Parsed::Request(request, end) => {
                received.drain(..end);
                if gate.is_closed() {
                    return stream.shutdown();
                }
                let keep_alive = request.keep_alive;
                let answer = handler(request).await;
                let sent = runtime::timeout(limits::SEND, stream.send_all(answer)).await;
                if !matches!(sent, Ok(Ok(_))) || !keep_alive {
                    return stream.shutdown();
                }
            }
            Parsed::Incomplete if received.len() > REQUEST_BYTES_ALL => return stream.shutdown(),
            Parsed::Incomplete => match runtime::timeout(limits::IDLE, stream.recv()).await {
                Ok(Ok(bytes)) if !bytes.is_empty() => received.extend_from_slice(&bytes),
                _ => return stream.shutdown(),
            },
        }
    }
}

async fn respond(request: &Request) -> Vec<u8> {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    let keep = request.keep_alive;
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/metrics") => {
            let mut samples = Vec::new();
            for shard in 0..runtime::shard_count() {
                samples.extend(samples_of(ShardId(shard)).await);
            }
            if let Some(wanted) = wanted_name(&request.query) {
                samples.retain(|sample| wanted.matches(&sample.name));
            }
            http::answer("200 OK", TEXT, &runtime::metrics::to_prometheus(&samples), keep)
        }
        ("GET", "/") => http::answer("200 OK", TEXT, "metrics are at /metrics\n", keep),
        ("GET", _) => http::answer("404 Not Found", TEXT, "not found\n", keep),
        _ => http::answer("405 Method Not Allowed", TEXT, "only GET is answered\n", keep),
    }
}

async fn samples_of(shard: ShardId) -> Vec<Sample> {
    if shard == runtime::shard() {
        return runtime::metrics::render_local();
    }
    runtime::submit_to(shard, Group::ADMIN, || async { runtime::metrics::render_local() }).await
}

/// The `__name__` of a query: a whole name, or a prefix that ends in `*`.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    name: &'a str,
    is_prefix: bool,
}

impl Wanted<'_> {
    fn matches(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(self.name) } else { name == self.name }
    }
}

fn wanted_name(query: &str) -> Option<Wanted<'_>> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("__name__="))?;
    let (name, is_prefix) = match value.strip_suffix('*') {
        Some(name) => (name, true),
        None => (value, false),
    };
    Some(Wanted { name, is_prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_filter_whole_or_by_prefix() {
        assert_eq!(wanted_name("a=b"), None);
        let prefix = wanted_name("x=1&__name__=cql_*").unwrap();
        assert!(prefix.matches("cql_reads") && !prefix.matches("reactor"));
        let whole = wanted_name("__name__=cql").unwrap();
        assert!(whole.matches("cql") && !whole.matches("cql_reads"));
    }
}
