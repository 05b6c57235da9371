//! Files that lose their name at once and their bytes by and by.
//!
//! A file system that tells its device about freed blocks (`discard`) keeps it busy for seconds when gigabytes are freed together, as the
//! inputs of a large compaction are; the commitlog's writes wait behind that. So the bytes of removed files are given back in
//! pieces, at a rate that grows with what is left.

use crate::file::{self, File, OpenOptions};
use crate::group::Group;
use crate::limits::{RELEASE_BYTES_PER_SECOND_MIN, RELEASE_PIECE_BYTES, RELEASE_WITHIN};
use crate::shard::with;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// What a shard has removed and not given back. Its task holds it, and ends when it is empty.
#[derive(Default)]
pub(crate) struct Releases {
    files: RefCell<VecDeque<(File, u64)>>,
    bytes: Cell<u64>,
}

/// Where a shard finds its own.
pub(crate) type Slot = RefCell<Weak<Releases>>;

/// Bytes of removed files that the current shard has not given back yet.
pub(crate) fn held() -> u64 {
    with(|shard| shard.releases.borrow().upgrade()).map_or(0, |releases| releases.bytes.get())
}

/// Removes a file whose bytes nobody needs, not even those who have it open: they see it end. The name goes at once, durably after
/// [`file::sync_dir`] of the folder; the bytes of a file without another name go in pieces, as soon as they can where space is short.
/// Errors: the name could not be removed.
pub async fn remove(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let options = OpenOptions { read: false, write: true, ..OpenOptions::READ };
    // One that cannot be held frees its bytes with its last descriptor.
    let held = File::open(path, options).await.ok();
    file::remove(path).await?;
    let Some(file) = held else { return Ok(()) };
    match (file.links(), file.size().await) {
        (Ok(0), Ok(bytes)) if bytes > 0 => hand_over(file, bytes),
        _ => {}
    }
    Ok(())
}

fn hand_over(file: File, bytes: u64) {
    let slot = with(|shard| shard.releases.borrow().upgrade());
    let releases = slot.unwrap_or_else(|| {
        let new = Rc::new(Releases::default());
        with(|shard| *shard.releases.borrow_mut() = Rc::downgrade(&new));
        crate::spawn(Group::COMPACTION, run(new.clone()));
        new
    });
    releases.bytes.set(releases.bytes.get() + bytes);
    releases.files.borrow_mut().push_back((file, bytes));
}

async fn run(releases: Rc<Releases>) {
    loop {
        let next = releases.files.borrow_mut().pop_front();
        let Some((file, bytes)) = next else { return };
        let piece = bytes.min(RELEASE_PIECE_BYTES);
        let rest = bytes - piece;
        let cut = file.truncate(rest).await;
        // What cannot be cut goes whole, with its descriptor.
        let freed = if cut.is_ok() { piece } else { bytes };
        let left = releases.bytes.get() - freed;
        releases.bytes.set(left);
        let folder = file.path().parent().map(Path::to_path_buf).unwrap_or_default();
        if freed < bytes {
            releases.files.borrow_mut().push_front((file, rest));
        }
        // A folder that is gone tells nothing about its device.
        let is_short = file::free_space(folder).await.is_ok_and(|free| free < left.saturating_mul(2));
        if !is_short {
            crate::sleep(pause(freed, left)).await;
        }
    }
}

/// How long to wait after `freed` bytes when `left` are still to be given back.
fn pause(freed: u64, left: u64) -> Duration {
    let rate = (left / RELEASE_WITHIN.as_secs()).max(RELEASE_BYTES_PER_SECOND_MIN);
    Duration::from_secs_f64(freed.min(RELEASE_PIECE_BYTES) as f64 / rate as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, World};
    use std::future::Future;
    use std::net::IpAddr;

    const FILE_BYTES: u64 = 128 << 20;

    /// What `f` gives on a node with so many bytes of disk.
    fn on_disk<T: 'static>(bytes: u64, f: impl Future<Output = T> + 'static) -> T {
        let mut world = World::new(1, SimConfig::calm());
        let node = world.add_client(IpAddr::from([10, 0, 0, 1]));
        world.set_capacity(node, bytes);
        let mut task = world.spawn(node, f);
        assert!(world.run_until(|_| task.done(), Duration::from_secs(60)));
        task.take().expect("done")
    }

    async fn make(path: &str) {
        File::open(path, OpenOptions::CREATE_NEW)
            .await
            .expect("new")
            .allocate(FILE_BYTES)
            .await
            .expect("room");
    }

    /// Milliseconds and free bytes, as often as these change, until nothing is held.
    async fn watch() -> Vec<(u64, u64)> {
        let start = crate::now();
        let mut seen: Vec<(u64, u64)> = Vec::new();
        loop {
            let free = file::free_space("/").await.expect("a disk");
            if seen.last().is_none_or(|last| last.1 != free) {
                seen.push(((crate::now() - start).as_millis() as u64, free));
            }
            if held() == 0 {
                return seen;
            }
            crate::sleep(Duration::from_millis(1)).await;
        }
    }

    #[test]
    fn the_name_goes_at_once_and_the_bytes_at_a_rate() {
        on_disk(1 << 30, async {
            make("/large").await;
            make("/other").await;
            let before = file::free_space("/").await.expect("a disk");
            remove("/large").await.expect("there");
            assert!(!file::exists("/large").await.expect("a disk"));
            remove("/other").await.expect("there");
            assert!(held() >= 2 * FILE_BYTES - RELEASE_PIECE_BYTES, "{}", held());
            let seen = watch().await;
            assert_eq!(seen.last().expect("some").1, before + 2 * FILE_BYTES);
            let steps: Vec<u64> = seen.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
            assert!(steps.iter().all(|step| *step <= RELEASE_PIECE_BYTES), "{steps:?}");
            let (ms, least) = (seen.last().expect("some").0, 2 * FILE_BYTES / RELEASE_BYTES_PER_SECOND_MIN);
            assert!((least * 900..=least * 1050).contains(&ms), "{ms} ms: {seen:?}");
        });
    }

    #[test]
    fn a_file_with_another_name_keeps_its_bytes() {
        on_disk(1 << 30, async {
            make("/large").await;
            file::link("/large", "/kept").await.expect("room");
            let free = file::free_space("/").await.expect("a disk");
            remove("/large").await.expect("there");
            crate::sleep(Duration::from_secs(10)).await;
            assert_eq!((held(), file::free_space("/").await.expect("a disk")), (0, free));
            let kept = File::open("/kept", OpenOptions::READ).await.expect("there");
            assert_eq!(kept.size().await.expect("open"), FILE_BYTES);
        });
    }

    #[test]
    fn space_that_is_short_comes_back_at_once() {
        on_disk(FILE_BYTES + (1 << 20), async {
            make("/large").await;
            remove("/large").await.expect("there");
            let seen = watch().await;
            // Two thirds: then there is twice as much as is held.
            let soon = seen.iter().take_while(|(ms, _)| *ms < 100).last().expect("some");
            assert!(soon.1 >= FILE_BYTES * 2 / 3, "{seen:?}");
        });
    }

    #[test]
    fn a_missing_file_is_told_and_a_large_backlog_goes_faster() {
        on_disk(1 << 30, async {
            assert_eq!(remove("/none").await.unwrap_err().kind(), io::ErrorKind::NotFound);
        });
        let piece = RELEASE_PIECE_BYTES;
        assert_eq!(pause(piece, 0), Duration::from_millis(250));
        assert!(pause(piece, 64 << 30) < Duration::from_millis(5));
        assert!(pause(4096, 0) < Duration::from_micros(100));
    }
}
