//! TCP. Nagle's algorithm is off on every connection.

use crate::backend::{ListenerHandle, Received, StreamHandle, Transferred};
use crate::limits::ACCEPT_PAUSE;
use crate::shard::with;
use crate::time::sleep;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

/// The addresses of a network interface, such as `eth0`, as the system lists them; those of one link alone are left out.
/// Errors: there is no interface of the name. Asks the system and may block.
pub fn interface_addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes a pointer to a list, or nothing and says so.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut found, mut is_there) = (Vec::new(), false);
    let mut next = first;
    // SAFETY: entries are valid until the list is freed below, each ends the list or points to the next.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: a name is a string that ends in zero.
        let entry_name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        if entry_name.to_bytes() != name.as_bytes() {
            continue;
        }
        is_there = true;
        // SAFETY: an address is none, or says its family first and has that family's form.
        let address = unsafe {
            match entry.ifa_addr.as_ref().map(|address| i32::from(address.sa_family)) {
                Some(libc::AF_INET) => {
                    let v4 = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
                }
                Some(libc::AF_INET6) => {
                    let v6 = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    Some(IpAddr::from(v6.sin6_addr.s6_addr))
                }
                _ => None,
            }
        };
        let is_link_local =
            |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        found.extend(address.filter(|address| !is_link_local(address)));
    }
    // SAFETY: the list came from the call above and is not used any more.
    unsafe { libc::freeifaddrs(first) };
    match is_there {
        true => Ok(found),
        false => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such interface")),
    }
}

/// Accepts connections on one address.
#[derive(Clone)]
pub struct TcpListener {
    handle: ListenerHandle,
}

impl TcpListener {
    /// Listens on an address; port 0 takes a free one.
    pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let backend = with(|shard| shard.backend.clone());
        Ok(TcpListener { handle: backend.bind(address).await? })
    }

    /// Has the system ask from time to time whether silent connections are still there, of those accepted from now on.
    pub fn keep_alive(&self) -> io::Result<()> {
        match &self.handle {
            ListenerHandle::Uring(listener) => listener.keep_alive(),
            ListenerHandle::Epoll(listener) => listener.keep_alive(),
            // Simulated machines do not forget connections.
            ListenerHandle::Sim(_) => Ok(()),
        }
    }

    /// The next connection and who made it. Waits while the process has too many open files.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut told = false;
        loop {
            match self.accept_once().await {
                Err(error) if is_exhausted(&error) => {
                    if !std::mem::replace(&mut told, true) {
                        crate::warn!("cannot accept a connection yet: {error}");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                result => return result,
            }
        }
    }

    async fn accept_once(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (handle, peer) = match &self.handle {
            ListenerHandle::Uring(listener) => {
                let (stream, peer) = listener.accept().await?;
                (StreamHandle::Uring(stream), peer)
            }
            ListenerHandle::Epoll(listener) => {
                let (stream, peer) = listener.accept().await?;
                (StreamHandle::Epoll(stream), peer)
            }
            ListenerHandle::Sim(listener) => {
                let (stream, peer) = listener.accept().await?;
                (StreamHandle::Sim(stream), peer)
            }
        };
        Ok((TcpStream { handle }, peer))
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.handle {
            ListenerHandle::Uring(listener) => listener.local_addr(),
            ListenerHandle::Epoll(listener) => listener.local_addr(),
            ListenerHandle::Sim(listener) => listener.local_addr(),
        }
    }
}

/// Too many files or too little memory: others must close something first.
fn is_exhausted(error: &io::Error) -> bool {
    let code = error.raw_os_error().unwrap_or(0);
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].contains(&code)
}

/// One connection; cloning it gives another handle, the last handle closes it.
#[derive(Clone)]
pub struct TcpStream {
    handle: StreamHandle,
}

impl TcpStream {
    /// Connects, from a given local address if one is named.
    pub async fn connect(address: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
        let backend = with(|shard| shard.backend.clone());
        Ok(TcpStream { handle: backend.connect(address, local).await? })
    }

    /// The next bytes from the other side, empty at its end. One task at a time may wait. Dropping the future loses
    /// nothing. Give the buffer back (drop it) soon: a shard has few.
    pub async fn recv(&self) -> io::Result<RecvBuf> {
        match &self.handle {
            StreamHandle::Uring(stream) => Ok(RecvBuf(Received::Uring(stream.recv().await?))),
            StreamHandle::Epoll(stream) => Ok(RecvBuf(Received::Bytes(stream.recv().await?))),
            StreamHandle::Sim(stream) => Ok(RecvBuf(Received::Bytes(stream.recv().await?))),
        }
    }

    /// As [`recv`](TcpStream::recv), but no more than `max` bytes are taken from the connection, so that it may still go to another
    /// shard. Costs more: for the first bytes of a connection. Whoever drops the future before its end must not transfer the connection.
    pub async fn recv_at_most(&self, max: usize) -> io::Result<Vec<u8>> {
        match &self.handle {
            StreamHandle::Uring(stream) => stream.recv_at_most(max).await,
            StreamHandle::Epoll(stream) => stream.recv_at_most(max).await,
            StreamHandle::Sim(stream) => stream.recv_at_most(max).await,
        }
    }

    /// Gives the kernel as many bytes as it takes without waiting, and says how many; 0 when its buffer is full.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.handle {
            StreamHandle::Uring(stream) => stream.try_send(bytes),
            StreamHandle::Epoll(stream) => stream.try_send(bytes),
            StreamHandle::Sim(stream) => stream.try_send(bytes),
        }
    }

    /// Sends all bytes and gives the buffer back. One task at a time may send.
    pub async fn send_all(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match &self.handle {
            StreamHandle::Uring(stream) => stream.send_all(bytes).await,
            StreamHandle::Epoll(stream) => stream.send_all(bytes).await,
            StreamHandle::Sim(stream) => stream.send_all(bytes).await,
        }
    }

    /// Ends both directions: the other side sees the end of the stream, a pending `recv` here too.
    pub fn shutdown(&self) {
        match &self.handle {
            StreamHandle::Uring(stream) => stream.shutdown(),
            StreamHandle::Epoll(stream) => stream.shutdown(),
            StreamHandle::Sim(stream) => stream.shutdown(),
        }
    }

    /// The other side's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.handle {
            StreamHandle::Uring(stream) => stream.peer_addr(),
            StreamHandle::Epoll(stream) => stream.peer_addr(),
            StreamHandle::Sim(stream) => stream.peer_addr(),
        }
    }

    /// This side's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.handle {
            StreamHandle::Uring(stream) => stream.local_addr(),
            StreamHandle::Epoll(stream) => stream.local_addr(),
            StreamHandle::Sim(stream) => stream.local_addr(),
        }
    }

    /// Packs the connection for another shard of the node. `InvalidInput` once `recv` has been called: bytes may be on
    /// their way to this shard.
    pub fn into_transfer(self) -> io::Result<Transfer> {
        Ok(Transfer(match self.handle {
            StreamHandle::Uring(stream) => Transferred::Real(stream.take_fd()?),
            StreamHandle::Epoll(stream) => Transferred::Real(stream.take_fd()?),
            StreamHandle::Sim(stream) => Transferred::Sim(stream.into_transfer()?),
        }))
    }

    /// Unpacks a connection on the shard that will serve it.
    pub fn from_transfer(transfer: Transfer) -> TcpStream {
        TcpStream { handle: with(|shard| shard.backend.adopt(transfer.0)) }
    }
}

/// A connection on its way to another shard.
pub struct Transfer(Transferred);

/// Received bytes, in a buffer of the shard.
pub struct RecvBuf(Received);

impl Deref for RecvBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Received::Uring(bytes) => bytes,
            Received::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_its_addresses_and_an_unknown_one_is_named() {
        let addresses = interface_addresses("lo").expect("every machine has it");
        assert!(addresses.contains(&IpAddr::from([127, 0, 0, 1])), "{addresses:?}");
        let unknown = interface_addresses("none0").expect_err("nobody calls one so");
        assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
    }
}
