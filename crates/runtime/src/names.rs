//! Addresses of host names.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The addresses of a host, which may be an address itself. The system is asked on a thread of its own; a simulated world has no names.
#[allow(clippy::disallowed_methods, reason = "asking for names blocks, and is done on a thread for that")]
pub async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    if crate::simulated() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("no host is called {host}")));
    }
    let host = host.to_owned();
    crate::offload(move || Ok((host.as_str(), port).to_socket_addrs()?.collect())).await
}
