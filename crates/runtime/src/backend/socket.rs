//! Socket addresses and options: the plain system calls that both real backends use.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Closes a descriptor that a completion brought and nobody wants.
pub(super) fn close_raw(fd: i32) {
    if 0 <= fd {
        // SAFETY: the kernel gave us this descriptor and nobody else knows it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

pub(super) fn last_error<T>() -> io::Result<T> {
    Err(io::Error::last_os_error())
}

pub(super) fn to_raw(address: SocketAddr) -> (Box<libc::sockaddr_storage>, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid sockaddr_storage.
    let mut storage: Box<libc::sockaddr_storage> = Box::new(unsafe { std::mem::zeroed() });
    let place: *mut libc::sockaddr_storage = &mut *storage;
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is large and aligned enough for every socket address.
            unsafe { place.cast::<libc::sockaddr_in>().write(raw) };
            (storage, size_of::<libc::sockaddr_in>() as libc::socklen_t)
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(raw) };
            (storage, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
        }
    }
}

pub(super) fn from_raw(storage: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    let place: *const libc::sockaddr_storage = storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which type the storage holds.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Ok(SocketAddr::new(IpAddr::V4(ip), u16::from_be(raw.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Ok(SocketAddr::V6(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id)))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

pub(super) type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

pub(super) fn name(fd: &OwnedFd, call: NameCall) -> io::Result<SocketAddr> {
    // SAFETY: storage and length are valid for the call, which fills at most the length given.
    let (result, storage) = unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        (call(fd.as_raw_fd(), (&raw mut storage).cast(), &mut len), storage)
    };
    if result != 0 {
        return last_error();
    }
    from_raw(&storage)
}

pub(super) fn set_option(fd: &OwnedFd, level: i32, option: i32) -> io::Result<()> {
    let on: i32 = 1;
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: passes a live integer and its size.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const on).cast(), len) };
    if result == 0 { Ok(()) } else { last_error() }
}

pub(super) fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: plain system call without pointers.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return last_error();
    }
    // SAFETY: just created.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Inherited by accepted sockets on Linux.
    set_option(&fd, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
    Ok(fd)
}

pub(super) fn set_non_blocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain system calls on an open descriptor.
    let result = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The next connection of the kernel's backlog.
pub(super) fn accept_one(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let none = std::ptr::null_mut();
    // SAFETY: no address is asked for.
    let accepted = unsafe { libc::accept4(fd.as_raw_fd(), none, std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
    if accepted < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(accepted) })
}

pub(super) fn bind(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    let (raw, len) = to_raw(address);
    // SAFETY: passes a live address and its length.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const *raw).cast(), len) };
    if result == 0 { Ok(()) } else { last_error() }
}

/// Turns keep-alive probes on; connections accepted from a listener inherit it on Linux.
pub(super) fn keep_alive(fd: &OwnedFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE)
}

/// Listens on an address.
pub(super) fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket(address)?;
    bind(&fd, address)?;
    // SAFETY: plain system call on an open socket.
    if unsafe { libc::listen(fd.as_raw_fd(), crate::limits::LISTEN_BACKLOG) } != 0 {
        return last_error();
    }
    Ok(fd)
}

/// Sends what the kernel takes without waiting; 0 when its buffer is full.
pub(super) fn try_send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    loop {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the slice is valid for the call.
        let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        if 0 <= sent {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(0),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Received bytes, at most so many; `WouldBlock` while there are none. Nothing beyond them leaves the kernel.
pub(super) fn try_recv(fd: &OwnedFd, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; max];
    // SAFETY: the buffer has room for `max` bytes.
    let count = unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), max, libc::MSG_DONTWAIT) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    bytes.truncate(count as usize);
    Ok(bytes)
}

/// Ends both directions. An error means that the other side was faster.
pub(super) fn shutdown(fd: &OwnedFd) {
    // SAFETY: plain system call on an open socket.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}
