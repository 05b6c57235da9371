//! Where lines go on a real node: a bounded queue and one thread that writes it to standard error.
//!
//! A shard only takes a short lock; if whoever reads standard error is slow, lines wait, and beyond the queue's bound they
//! are counted and left out. Before a node runs and after it has ended a line is written where it arises.

use crate::inbox::lock;
use crate::limits::{LOG_FLUSH, LOG_QUEUE_BYTES};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The process has one standard error, so it has one queue.
static QUEUE: Mutex<Option<Arc<Queue>>> = Mutex::new(None);

pub(super) struct Queue {
    state: Mutex<State>,
    /// Rung when there is something to write, and when everything is written.
    bell: Condvar,
    fd: i32,
}

#[derive(Default)]
struct State {
    waiting: String,
    left_out: u64,
    writing: bool,
    over: bool,
}

impl Queue {
    fn new(fd: i32) -> Arc<Queue> {
        Arc::new(Queue { state: Mutex::default(), bell: Condvar::new(), fd })
    }

    fn push(&self, line: &str) {
        let mut state = lock(&self.state);
        if state.over || state.waiting.len() + line.len() > LOG_QUEUE_BYTES {
            state.left_out += 1;
            return;
        }
        let was_empty = state.waiting.is_empty();
        state.waiting.push_str(line);
        drop(state);
        if was_empty {
            self.bell.notify_all();
        }
    }

    /// Writes until the queue is over and empty.
    fn serve(&self) {
        let mut state = lock(&self.state);
        loop {
            if state.waiting.is_empty() {
                state.writing = false;
                self.bell.notify_all();
                if state.over {
                    return;
                }
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.writing = true;
            let mut lines = std::mem::take(&mut state.waiting);
            let left_out = std::mem::take(&mut state.left_out);
            drop(state);
            if left_out > 0 {
                lines.push_str(&format!("{left_out} log lines were left out: standard error is not read\n"));
            }
            write_all(self.fd, lines.as_bytes());
            state = lock(&self.state);
        }
    }

    /// Waits until everything is written, not longer than `limit`.
    fn flush(&self, limit: Duration) {
        self.wait_written(lock(&self.state), limit);
    }

    /// Takes no more lines, and waits as [`Queue::flush`] does; whether everything is written.
    fn end(&self, limit: Duration) -> bool {
        let mut state = lock(&self.state);
        state.over = true;
        self.bell.notify_all();
        self.wait_written(state, limit)
    }

    fn wait_written(&self, state: MutexGuard<'_, State>, limit: Duration) -> bool {
        let busy = |state: &mut State| !state.waiting.is_empty() || state.writing;
        let waited = self.bell.wait_timeout_while(state, limit, busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !busy(&mut state)
    }
}

/// Writes what it can; a failure loses lines, nothing else.
fn write_all(fd: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: writes bytes of a live slice to a descriptor.
        let wrote = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(wrote) {
            Ok(count) => bytes = &bytes[count..],
            Err(_) => {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    // Standard error may have been made non-blocking by whoever shares it.
                    io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(10)),
                    _ => return,
                }
            }
        }
    }
}

/// Hands a line to the thread, or writes it here when there is none.
pub(super) fn write(line: &str) {
    let queue = lock(&QUEUE).clone();
    match queue {
        Some(queue) => queue.push(line),
        None => write_all(2, line.as_bytes()),
    }
}

/// Waits a bounded time until what was written so far is out: before a process ends by itself.
pub(crate) fn flush() {
    let queue = lock(&QUEUE).clone();
    if let Some(queue) = queue {
        queue.flush(LOG_FLUSH);
    }
}

/// What led to a panic must not be lost in the queue.
fn flush_before_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            flush();
            hook(panic);
        }));
    });
}

/// The thread that writes; dropping this waits a bounded time for what is queued.
pub(crate) struct Writer {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. Without it lines are written where they arise.
    pub(crate) fn start() -> Option<Writer> {
        let mut place = lock(&QUEUE);
        if place.is_some() {
            // Another node of this process has one.
            return None;
        }
        flush_before_panics();
        let writer = Writer::of(Queue::new(2))?;
        *place = Some(writer.queue.clone());
        Some(writer)
    }

    fn of(queue: Arc<Queue>) -> Option<Writer> {
        let served = queue.clone();
        let builder = std::thread::Builder::new().name("log".into()).stack_size(128 * 1024);
        let thread = builder.spawn(move || served.serve()).ok()?;
        Some(Writer { queue, thread: Some(thread) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A thread that is stuck in a write is left behind, and its queue stays in place: a line written directly would be
        // stuck as well. The process ends soon.
        if !self.queue.end(LOG_FLUSH) {
            return;
        }
        let mut place = lock(&QUEUE);
        if place.as_ref().is_some_and(|queue| Arc::ptr_eq(queue, &self.queue)) {
            *place = None;
        }
        drop(place);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::time::Instant;

    fn pipe() -> (File, File) {
        let mut ends = [0; 2];
        // SAFETY: fills an array of two; both descriptors are new.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
        }
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_nobody() {
        let (mut reader, writer) = pipe();
        let queue = Queue::new(writer.as_raw_fd());
        let served = queue.clone();
        let thread = std::thread::spawn(move || served.serve());
        let line = format!("{}\n", "x".repeat(999));
        let started = Instant::now();
        let lines = LOG_QUEUE_BYTES / 1000 * 3;
        for _ in 0..lines {
            queue.push(&line);
        }
        queue.flush(Duration::from_millis(20));
        assert!(started.elapsed() < Duration::from_secs(5), "a push waited for the reader");
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        queue.flush(Duration::from_secs(10));
        queue.push("the last\n");
        assert!(queue.end(Duration::from_secs(10)));
        thread.join().unwrap();
        drop((queue, writer));
        let text = read.join().unwrap().unwrap();
        assert!(text.ends_with("the last\n"));
        let written = text.lines().filter(|line| line.starts_with('x')).count();
        // Told once for every time that the queue was full.
        let told = text
            .lines()
            .filter_map(|line| line.strip_suffix(" log lines were left out: standard error is not read"))
            .map(|count| count.parse::<usize>().unwrap());
        assert_eq!(told.sum::<usize>() + written, lines);
    }

    #[test]
    fn a_reader_that_does_not_read_does_not_hold_up_the_end() {
        let (mut reader, end) = pipe();
        let writer = Writer::of(Queue::new(end.as_raw_fd())).unwrap();
        // More than a pipe holds, and less than the queue: the thread has taken all of it and is stuck.
        writer.queue.push(&"x".repeat(LOG_QUEUE_BYTES / 2));
        while !lock(&writer.queue.state).waiting.is_empty() {
            std::thread::yield_now();
        }
        let queue = writer.queue.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let dropper = std::thread::spawn(move || {
            drop(writer);
            tell.send(()).unwrap();
        });
        let ended = told.recv_timeout(LOG_FLUSH * 5);
        // Lets the thread go, whatever came out.
        let read = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text.len())
        });
        dropper.join().unwrap();
        assert!(queue.end(Duration::from_secs(10)));
        drop(end);
        assert_eq!(read.join().unwrap().unwrap(), LOG_QUEUE_BYTES / 2);
        assert!(ended.is_ok(), "the end waits for the reader");
    }
}
