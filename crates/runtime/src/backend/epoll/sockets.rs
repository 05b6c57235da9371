//! TCP over non-blocking system calls.

use super::{Direction, Epoll, Source};
use crate::backend::socket::{
    accept_one, keep_alive, listen, name, set_non_blocking, set_option, shutdown, socket, to_raw, try_recv,
    try_send,
};
use crate::limits::RECV_BUFFER_BYTES;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;

/// A registered socket; dropping it takes it out of the set before it closes.
struct Registered {
    epoll: Rc<Epoll>,
    source: Rc<Source>,
}

impl Registered {
    fn new(epoll: &Rc<Epoll>, fd: OwnedFd) -> Registered {
        Registered { epoll: epoll.clone(), source: Source::new(fd) }
    }

    /// Tries a call until it does not block.
    async fn retry<T>(
        &self,
        direction: Direction,
        call: impl Fn(&OwnedFd) -> io::Result<T>,
    ) -> io::Result<T> {
        std::future::poll_fn(|context| {
            loop {
                if self.source.is_ready(direction) {
                    match call(&self.source.fd) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            self.source.blocked(direction)
                        }
                        result => return Poll::Ready(result),
                    }
                }
                self.source.leave_waker(direction, context);
                if self.source.token.get().is_some() {
                    return Poll::Pending;
                }
                // The first event may have been before the registration: try once more after it.
                if let Err(error) = self.epoll.register(&self.source) {
                    return Poll::Ready(Err(error));
                }
                self.source.readable.set(true);
                self.source.writable.set(true);
            }
        })
        .await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.epoll.forget(&self.source);
    }
}

impl Epoll {
    pub(crate) fn bind(self: &Rc<Self>, address: SocketAddr) -> io::Result<Rc<EpollListener>> {
        let fd = listen(address)?;
        set_non_blocking(&fd)?;
        Ok(Rc::new(EpollListener { socket: Registered::new(self, fd) }))
    }

    pub(crate) async fn connect(
        self: &Rc<Self>,
        address: SocketAddr,
        local: Option<SocketAddr>,
    ) -> io::Result<Rc<EpollStream>> {
        let fd = socket(address)?;
        set_non_blocking(&fd)?;
        if let Some(local) = local {
            crate::backend::socket::bind(&fd, local)?;
        }
        let (raw, len) = to_raw(address);
        // SAFETY: passes a live address and its length.
        let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const *raw).cast(), len) };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EINPROGRESS) {
                return Err(error);
            }
        }
        let stream = self.adopt(fd);
        stream.socket().retry(Direction::Write, connected).await?;
        Ok(stream)
    }

    pub(crate) fn adopt(self: &Rc<Self>, fd: OwnedFd) -> Rc<EpollStream> {
        Rc::new(EpollStream { socket: Some(Registered::new(self, fd)), used: Cell::new(false) })
    }
}

/// The outcome of a connect that is under way, `WouldBlock` before there is one.
fn connected(fd: &OwnedFd) -> io::Result<()> {
    let mut code: i32 = 0;
    let mut len = size_of::<i32>() as libc::socklen_t;
    let place = (&raw mut code).cast();
    // SAFETY: the call writes one integer into a live local variable.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, place, &mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    match name(fd, libc::getpeername) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
        other => other.map(|_| ()),
    }
}

pub(crate) struct EpollListener {
    socket: Registered,
}

impl EpollListener {
    pub(crate) fn keep_alive(&self) -> io::Result<()> {
        keep_alive(&self.socket.source.fd)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        name(&self.socket.source.fd, libc::getsockname)
    }

    pub(crate) async fn accept(&self) -> io::Result<(Rc<EpollStream>, SocketAddr)> {
        loop {
            let fd = self.socket.retry(Direction::Read, accept_one).await?;
            set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
            // A connection that was reset meanwhile has no name.
            if let Ok(peer) = name(&fd, libc::getpeername) {
                return Ok((self.socket.epoll.adopt(fd), peer));
            }
        }
    }
}

pub(crate) struct EpollStream {
    /// `None` only after `take_fd`.
    socket: Option<Registered>,
    used: Cell<bool>,
}

impl EpollStream {
    fn socket(&self) -> &Registered {
        self.socket.as_ref().expect("only take_fd empties it, and it consumes the stream")
    }

    fn fd(&self) -> &OwnedFd {
        &self.socket().source.fd
    }

    pub(crate) async fn recv(&self) -> io::Result<Vec<u8>> {
        self.used.set(true);
        let socket = self.socket();
        socket
            .retry(Direction::Read, |fd| {
                let mut scratch = socket.epoll.scratch.borrow_mut();
                scratch.resize(RECV_BUFFER_BYTES, 0);
                let (place, len) = (scratch.as_mut_ptr().cast(), scratch.len());
                // SAFETY: the scratch buffer has room for `len` bytes.
                let count = unsafe { libc::recv(fd.as_raw_fd(), place, len, libc::MSG_DONTWAIT) };
                if count < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(scratch[..count as usize].to_vec())
            })
            .await
    }

    pub(crate) async fn recv_at_most(&self, max: usize) -> io::Result<Vec<u8>> {
        self.socket().retry(Direction::Read, |fd| try_recv(fd, max)).await
    }

    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        try_send(self.fd(), bytes)
    }

    pub(crate) async fn send_all(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut sent = try_send(self.fd(), &bytes)?;
        while sent < bytes.len() {
            let rest = &bytes[sent..];
            let send = |fd: &OwnedFd| match try_send(fd, rest)? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                count => Ok(count),
            };
            sent += self.socket().retry(Direction::Write, send).await?;
        }
        Ok(bytes)
    }

    pub(crate) fn shutdown(&self) {
        shutdown(self.fd());
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        name(self.fd(), libc::getpeername)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        name(self.fd(), libc::getsockname)
    }

    /// The descriptor alone, if nothing was received and nobody else holds the stream.
    pub(crate) fn take_fd(self: Rc<Self>) -> io::Result<OwnedFd> {
        if self.used.get() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut stream = Rc::into_inner(self).ok_or(io::ErrorKind::InvalidInput)?;
        let socket = stream.socket.take().ok_or(io::ErrorKind::InvalidInput)?;
        let source = socket.source.clone();
        drop(socket);
        let source = Rc::into_inner(source).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: ownership of the descriptor moves to the new value.
        Ok(unsafe { OwnedFd::from_raw_fd(source.fd.into_raw_fd()) })
    }
}
