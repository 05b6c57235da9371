//! TCP: accepts on demand, multishot receive into shared buffers, plain non-blocking sends.
//!
//! A stream's receive op is armed by the first `recv` and stays armed. When a client is faster than its reader the op
//! is cancelled after a few unread buffers and armed again once they are read. While buffers are scarce an op receives one
//! buffer's worth.

use super::Uring;
use super::ops::{Keep, Op};
use super::recv_buffers::{GROUP, RingBytes};
use crate::backend::socket::{
    accept_one, bind, keep_alive, listen, name, set_non_blocking, set_option, shutdown, socket, to_raw,
    try_recv, try_send,
};
use crate::limits::{RECV_BUFFER_BYTES, RECV_BUFFERS_PER_STREAM};
use io_uring::{cqueue, opcode, squeue, types};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

impl Uring {
    pub(crate) fn bind(self: &Rc<Self>, address: SocketAddr) -> io::Result<Rc<UringListener>> {
        let fd = listen(address)?;
        set_non_blocking(&fd)?;
        Ok(Rc::new(UringListener { uring: self.clone(), fd: Rc::new(fd) }))
    }

    pub(crate) async fn connect(
        self: &Rc<Self>,
        address: SocketAddr,
        local: Option<SocketAddr>,
    ) -> io::Result<Rc<UringStream>> {
        let fd = socket(address)?;
        if let Some(local) = local {
            bind(&fd, local)?;
        }
        let (raw, len) = to_raw(address);
        let entry = opcode::Connect::new(types::Fd(fd.as_raw_fd()), (&raw const *raw).cast(), len).build();
        let fd = Rc::new(fd);
        let keep = Keep::Address { _fd: fd.clone(), _address: raw };
        let (result, keep) = self.submit(keep, true, entry).await;
        drop(keep);
        if result < 0 {
            return Err(io::Error::from_raw_os_error(-result));
        }
        let fd = Rc::into_inner(fd).expect("the op is over and gave its handle back");
        Ok(self.adopt(fd))
    }

    pub(crate) fn adopt(self: &Rc<Self>, fd: OwnedFd) -> Rc<UringStream> {
        let core = Rc::new(StreamCore { fd, state: RefCell::default() });
        Rc::new(UringStream { uring: self.clone(), core: Some(core) })
    }
}

/// Accepts by plain system calls, waiting on the ring while there is nobody: a connection takes a descriptor when somebody wants it,
/// not before. An accept op of the kernel's would take as many as come in a burst, whatever the node can serve.
pub(crate) struct UringListener {
    uring: Rc<Uring>,
    fd: Rc<OwnedFd>,
}

impl UringListener {
    pub(crate) fn keep_alive(&self) -> io::Result<()> {
        keep_alive(&self.fd)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        name(&self.fd, libc::getsockname)
    }

    pub(crate) async fn accept(&self) -> io::Result<(Rc<UringStream>, SocketAddr)> {
        loop {
            let fd = match accept_one(&self.fd) {
                Ok(fd) => fd,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.somebody_waits().await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
            // A connection that was reset meanwhile has no name.
            if let Ok(peer) = name(&fd, libc::getpeername) {
                return Ok((self.uring.adopt(fd), peer));
            }
        }
    }

    async fn somebody_waits(&self) -> io::Result<()> {
        let entry = opcode::PollAdd::new(types::Fd(self.fd.as_raw_fd()), libc::POLLIN as u32).build();
        let (result, keep) = self.uring.submit(Keep::Listener { _fd: self.fd.clone() }, true, entry).await;
        drop(keep);
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}

impl Drop for UringListener {
    fn drop(&mut self) {
        // New connections are refused from now on; the descriptor closes with the last op.
        shutdown(&self.fd);
    }
}

/// The user's side of a connection: dropping it stops receiving.
pub(crate) struct UringStream {
    uring: Rc<Uring>,
    /// `None` only after `take_fd`.
    core: Option<Rc<StreamCore>>,
}

/// The part that a receive op keeps.
pub(super) struct StreamCore {
    fd: OwnedFd,
    state: RefCell<RecvState>,
}

#[derive(Default)]
struct RecvState {
    used: bool,
    armed: Option<u64>,
    cancelling: bool,
    closed: bool,
    unread: VecDeque<RingBytes>,
    end: Option<End>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
enum End {
    Eof,
    Error(i32),
}

impl StreamCore {
    /// Receives whatever comes until it is cancelled; where buffers are scarce, one buffer's worth.
    fn arm(self: &Rc<Self>, uring: &Rc<Uring>, state: &mut RecvState) {
        let fd = types::Fd(self.fd.as_raw_fd());
        let entry = if uring.buffers.are_scarce() {
            let once = opcode::Recv::new(fd, std::ptr::null_mut(), RECV_BUFFER_BYTES as u32);
            once.buf_group(GROUP).build().flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(fd, GROUP).build()
        };
        let user_data = uring.ops.borrow_mut().insert(Op::Recv(self.clone()));
        state.armed = Some(user_data);
        state.cancelling = false;
        uring.push(&entry.user_data(user_data));
    }

    /// A completion of the receive op.
    pub(super) fn received(self: &Rc<Self>, uring: &Rc<Uring>, result: i32, flags: u32) {
        let scarce = uring.buffers.are_scarce();
        let mut bytes = cqueue::buffer_select(flags).map(|id| RingBytes::new(uring.clone(), id, result));
        if scarce {
            bytes.as_mut().into_iter().for_each(RingBytes::leave_ring);
        }
        let mut state = self.state.borrow_mut();
        self.note(uring, &mut state, bytes, result, flags);
        if state.unread.len() >= if scarce { 1 } else { RECV_BUFFERS_PER_STREAM } {
            if !state.cancelling
                && let Some(user_data) = state.armed
            {
                state.cancelling = true;
                uring.cancel(user_data);
            }
            // Its reader may not come back for long: its client may have stopped reading answers.
            if uring.buffers.are_held() {
                state.unread.iter_mut().for_each(RingBytes::leave_ring);
            }
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn note(
        self: &Rc<Self>,
        uring: &Rc<Uring>,
        state: &mut RecvState,
        bytes: Option<RingBytes>,
        result: i32,
        flags: u32,
    ) {
        if !cqueue::more(flags) {
            state.armed = None;
        }
        if state.closed {
            return;
        }
        match -result {
            0 => state.end = Some(End::Eof),
            code if code < 0 => state.unread.extend(bytes),
            // Those that were given out came back, or do when their completions are looked at. With unread bytes the
            // reader arms it.
            libc::ENOBUFS if state.unread.is_empty() => self.arm(uring, state),
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            code => state.end = Some(End::Error(code)),
        }
    }
}

impl UringStream {
    fn core(&self) -> &Rc<StreamCore> {
        self.core.as_ref().expect("only take_fd empties it, and it consumes the stream")
    }

    pub(crate) async fn recv(&self) -> io::Result<RingBytes> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    /// By a plain system call, waiting on the ring: no receive op is armed that would take more.
    pub(crate) async fn recv_at_most(&self, max: usize) -> io::Result<Vec<u8>> {
        loop {
            match try_recv(&self.core().fd, max) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let fd = types::Fd(self.core().fd.as_raw_fd());
                    let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).build();
                    let keep = Keep::Socket { _core: self.core().clone(), bytes: Vec::new() };
                    let (result, keep) = self.uring.submit(keep, true, entry).await;
                    drop(keep);
                    if result < 0 {
                        return Err(io::Error::from_raw_os_error(-result));
                    }
                }
                received => return received,
            }
        }
    }

    fn poll_recv(&self, context: &mut Context<'_>) -> Poll<io::Result<RingBytes>> {
        let core = self.core();
        let mut state = core.state.borrow_mut();
        state.used = true;
        let bytes = state.unread.pop_front();
        let idle = state.armed.is_none() && state.end.is_none();
        if idle && state.unread.len() <= RECV_BUFFERS_PER_STREAM / 2 {
            core.arm(&self.uring, &mut state);
        }
        if let Some(bytes) = bytes {
            return Poll::Ready(Ok(bytes));
        }
        match state.end {
            Some(End::Eof) => Poll::Ready(Ok(RingBytes::end())),
            Some(End::Error(code)) => Poll::Ready(Err(io::Error::from_raw_os_error(code))),
            None => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    empty => *empty = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    pub(crate) fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        try_send(&self.core().fd, bytes)
    }

    pub(crate) async fn send_all(&self, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut sent = self.try_send(&bytes)?;
        while sent < bytes.len() {
            let rest = &bytes[sent..];
            let fd = types::Fd(self.core().fd.as_raw_fd());
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            let entry = opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).flags(flags).build();
            let keep = Keep::Socket { _core: self.core().clone(), bytes };
            let (result, keep) = self.uring.submit(keep, true, entry).await;
            let Keep::Socket { bytes: back, .. } = keep else {
                unreachable!("an op gives back what it kept")
            };
            bytes = back;
            match -result {
                code if code <= 0 => sent += result as usize,
                libc::EINTR | libc::EAGAIN => {}
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
        Ok(bytes)
    }

    pub(crate) fn shutdown(&self) {
        shutdown(&self.core().fd);
    }

    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        name(&self.core().fd, libc::getpeername)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        name(&self.core().fd, libc::getsockname)
    }

    /// The descriptor alone, if nothing was received and nobody else holds the stream.
    pub(crate) fn take_fd(self: Rc<Self>) -> io::Result<OwnedFd> {
        if self.core().state.borrow().used {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut stream = Rc::into_inner(self).ok_or(io::ErrorKind::InvalidInput)?;
        let core = stream.core.take().and_then(Rc::into_inner).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: ownership of the descriptor moves to the new value.
        Ok(unsafe { OwnedFd::from_raw_fd(core.fd.into_raw_fd()) })
    }
}

impl Drop for UringStream {
    fn drop(&mut self) {
        let Some(core) = &self.core else { return };
        let mut state = core.state.borrow_mut();
        state.closed = true;
        state.waker = None;
        let unread = std::mem::take(&mut state.unread);
        let armed = state.armed.filter(|_| !state.cancelling);
        drop(state);
        drop(unread);
        if let Some(user_data) = armed {
            self.uring.cancel(user_data);
        }
    }
}
