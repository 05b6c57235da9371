//! Machines that refuse io_uring, as containers do, and calls that block.

use crate::{Folder, config};
use runtime::file::{self, File, OpenOptions};
use runtime::net::{TcpListener, TcpStream};
use runtime::{Group, Reactor, run, sleep, spawn};
use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Has the kernel answer `io_uring_setup` of this thread, and of those it starts from now on, with EPERM.
fn refuse_io_uring() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(load, 0, 0, 0),
        step(equal, 0, 1, libc::SYS_io_uring_setup as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program and its steps live through the calls, which copy them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn epoll_takes_over_where_io_uring_is_refused() {
    let folder = Folder::new("refused");
    let path = folder.0.join("f");
    // The filter stays with the thread, so it gets one of its own.
    let refused = std::thread::spawn(move || {
        refuse_io_uring();
        let serve: runtime::Main = Arc::new(move || {
            let path = path.with_extension(runtime::shard().0.to_string());
            Box::pin(async move {
                assert_eq!(runtime::reactor(), "epoll");
                file::write_new_synced(&path, b"bytes").await.expect("writes");
                let listener =
                    TcpListener::bind("127.0.0.1:0".parse().expect("an address")).await.expect("binds");
                let address = listener.local_addr().expect("has an address");
                let client = spawn(Group::MAIN, async move { TcpStream::connect(address, None).await });
                let (server, _) = listener.accept().await.expect("accepts");
                server.send_all(file::read(&path).await.expect("reads")).await.expect("sends");
                let client = client.await.expect("connects");
                assert_eq!(*client.recv().await.expect("receives"), *b"bytes");
                0
            })
        });
        assert_eq!(run(config(2, Reactor::Auto), serve.clone()), 0);
        // Who insists is told.
        assert_eq!(run(config(2, Reactor::Uring), serve), 1);
    });
    refused.join().expect("no panic");
}

#[test]
fn a_file_that_blocks_does_not_block_the_shard() {
    let folder = Folder::new("pipe");
    let path = folder.0.join("pipe");
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
    // SAFETY: the name is a live C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let body = async move || {
        // Opening a pipe waits until somebody opens its other end.
        let opened = Rc::new(Cell::new(false));
        let (flag, reader) = (opened.clone(), path.clone());
        let opening = spawn(Group::MAIN, async move {
            let file = File::open(reader, OpenOptions::READ).await;
            flag.set(true);
            file
        });
        for _ in 0..20 {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(!opened.get(), "opened without another end");
        let writing = OpenOptions { read: false, write: true, ..OpenOptions::READ };
        let other = File::open(&path, writing).await.expect("opens");
        opening.await.expect("opens");
        drop(other);
        0
    };
    // io_uring asks for a pipe without waiting first, and gets it.
    let body = Arc::new(body);
    let main: runtime::Main = Arc::new(move || {
        let body = body.clone();
        Box::pin(async move { body().await })
    });
    assert_eq!(run(config(1, Reactor::Epoll), main), 0);
}
