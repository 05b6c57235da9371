//! Files that lose their name at once and their bytes by and by.
//!
//! A file system that tells its device about freed blocks (`discard`) keeps it busy for seconds when gigabytes are freed together, as
//! segments of the commitlog are, or the inputs of a large compaction; what is written waits behind that. So the bytes of removed files
//! are given back in pieces, each with a journal commit of its own, at a rate that grows with what is left.

use crate::file::{self, File, OpenOptions};
use crate::group::Group;
use crate::io::Device;
use crate::limits::{
    RELEASE_BYTES_PER_SECOND_MAX, RELEASE_BYTES_PER_SECOND_MIN, RELEASE_FILE_BYTES_MIN, RELEASE_FILES_MAX,
    RELEASE_PIECE_BYTES, RELEASE_WITHIN,
};
use crate::shard::with;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// What a shard has removed from a device and not given back. Its task holds it, and ends when it is empty.
struct Releases {
    /// Open for writing, without a name, and their bytes.
    files: RefCell<VecDeque<(File, u64)>>,
    bytes: Cell<u64>,
}

/// Where a shard finds those of its devices.
#[derive(Default)]
pub(crate) struct Slot(RefCell<Vec<(Rc<Device>, Weak<Releases>)>>);

impl Slot {
    /// Those of a device; true when nobody gives them back yet.
    fn of(&self, device: &Rc<Device>) -> (Rc<Releases>, bool) {
        let mut all = self.0.borrow_mut();
        all.retain(|(_, releases)| releases.strong_count() > 0);
        let known = all.iter().find(|(known, _)| Rc::ptr_eq(known, device));
        let known = known.and_then(|(_, releases)| releases.upgrade());
        if let Some(releases) = known {
            return (releases, false);
        }
        let new = Rc::new(Releases { files: RefCell::default(), bytes: Cell::new(0) });
        all.push((device.clone(), Rc::downgrade(&new)));
        (new, true)
    }

    /// Bytes of removed files that were not given back yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.borrow().iter().filter_map(|(_, releases)| releases.upgrade()).map(|r| r.bytes.get()).sum()
    }
}

/// Removes a file whose bytes nobody needs, not even those who have it open: they see it end. The name goes at once, durably after
/// [`file::sync_dir`] of the folder; the bytes of a large file without another name go in pieces, at once where space is short.
/// Errors: the name could not be removed.
pub async fn remove(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let options = OpenOptions { read: false, write: true, ..OpenOptions::READ };
    // One that cannot be held frees its bytes with its last descriptor.
    let held = File::open(path, options).await.ok();
    file::remove(path).await?;
    let Some(file) = held else { return Ok(()) };
    let least = if crate::rare("release_small_files") { 1 } else { RELEASE_FILE_BYTES_MIN };
    match (file.links(), file.size().await) {
        (Ok(0), Ok(bytes)) if bytes >= least => hand_over(file, bytes),
        _ => {}
    }
    Ok(())
}

fn hand_over(file: File, bytes: u64) {
    let (releases, is_new) = with(|shard| shard.releases.of(file.device()));
    // More descriptors are not kept from others: the file goes with its last one.
    if releases.files.borrow().len() >= RELEASE_FILES_MAX {
        return;
    }
    releases.bytes.set(releases.bytes.get() + bytes);
    releases.files.borrow_mut().push_back((file, bytes));
    if is_new {
        crate::spawn(Group::COMPACTION, run(releases));
    }
}

async fn run(releases: Rc<Releases>) {
    let shards = u64::from(crate::shard_count());
    loop {
        let next = releases.files.borrow_mut().pop_front();
        let Some((file, bytes)) = next else { return };
        let folder = file.path().parent().map(Path::to_path_buf).unwrap_or_default();
        // Ends at whole blocks: the file system has no half of one to clear.
        let unit = if crate::rare("release_small_pieces") { 4096 } else { RELEASE_PIECE_BYTES };
        let rest = (bytes - 1) / unit * unit;
        // What cannot be cut goes whole, with its descriptor.
        let cut = file.truncate(rest).await.is_ok();
        let freed = if cut { bytes - rest } else { bytes };
        let left = releases.bytes.get() - freed;
        releases.bytes.set(left);
        // The other shards may hold as much. A folder that is gone tells nothing about its device.
        let wanted = left.saturating_mul(2 * shards);
        let is_short = file::free_space(folder).await.is_ok_and(|free| free < wanted);
        if cut && !is_short {
            // Freed blocks reach the device with a commit, which else takes those of seconds together. That it fails changes nothing.
            let _tried = file.sync_data().await;
        }
        if freed < bytes {
            releases.files.borrow_mut().push_front((file, rest));
        } else {
            drop(file);
        }
        if !is_short {
            let slow = if crate::rare("release_pauses") { Duration::from_secs(1) } else { Duration::ZERO };
            crate::sleep(pause(freed, left, shards).max(slow)).await;
        }
    }
}

/// How long one of so many shards waits after `freed` bytes when `left` are still to be given back.
fn pause(freed: u64, left: u64, shards: u64) -> Duration {
    let least = RELEASE_BYTES_PER_SECOND_MIN / shards;
    let rate = (left / RELEASE_WITHIN.as_secs()).clamp(least, RELEASE_BYTES_PER_SECOND_MAX);
    Duration::from_secs_f64(freed.min(RELEASE_PIECE_BYTES) as f64 / rate as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimConfig, World};
    use std::future::Future;
    use std::net::IpAddr;

    /// Not a multiple of anything.
    const FILE_BYTES: u64 = (128 << 20) + 1234;

    fn held() -> u64 {
        with(|shard| shard.releases.bytes())
    }

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
            // What is left of the first file may go with a piece of the next.
            assert!(steps.iter().all(|step| *step < RELEASE_PIECE_BYTES + 4096), "{steps:?}");
            let (ms, least) = (seen.last().expect("some").0, 2 * FILE_BYTES / RELEASE_BYTES_PER_SECOND_MIN);
            assert!((least * 900..=least * 1100).contains(&ms), "{ms} ms: {seen:?}");
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
        assert_eq!(pause(piece, 0, 1), Duration::from_millis(250));
        assert_eq!(pause(piece, 0, 4), Duration::from_secs(1));
        assert_eq!(pause(piece, (128 * 32) << 20, 4), Duration::from_millis(125));
        assert_eq!(pause(piece, u64::MAX, 4), Duration::from_millis(62) + Duration::from_micros(500));
        assert!(pause(4096, 0, 1) < Duration::from_micros(100));
    }

    #[test]
    fn more_files_than_may_be_held_go_at_once() {
        on_disk(1 << 30, async {
            let one = RELEASE_FILE_BYTES_MIN;
            let name = |nth: usize| format!("/{nth}");
            for nth in 0..RELEASE_FILES_MAX + 50 {
                let file = File::open(name(nth), OpenOptions::CREATE_NEW).await.expect("new");
                file.allocate(one).await.expect("room");
            }
            let free = file::free_space("/").await.expect("a disk");
            for nth in 0..RELEASE_FILES_MAX + 50 {
                remove(name(nth)).await.expect("there");
            }
            let (held, now) = (held(), file::free_space("/").await.expect("a disk"));
            assert!(held <= RELEASE_FILES_MAX as u64 * one);
            assert!(now - free >= 40 * one, "{} of {held} held", now - free);
            watch().await;
        });
    }

    #[test]
    fn a_power_cut_leaves_nothing_or_a_name_that_can_be_removed_again() {
        for seed in 0..40 {
            let mut world = World::new(seed, SimConfig::drawn(seed));
            let node = world.add_node(IpAddr::from([10, 0, 0, 1]));
            let main = crate::sim::main_of(|| async {
                if file::exists("/large").await.expect("a disk") {
                    remove("/large").await.expect("there");
                } else {
                    let file = File::open("/large", OpenOptions::CREATE_NEW).await.expect("new");
                    file.allocate(5 << 20).await.expect("room");
                    file.sync_data().await.ok();
                    file::sync_dir("/").await.ok();
                }
                crate::shutdown_requested().await;
                0
            });
            for _ in 0..6 {
                world.boot(node, 1, main.clone());
                let moment = Duration::from_micros(world.rng().below(400_000));
                world.run_for(moment);
                world.power_cut(node);
            }
            world.boot(node, 1, main);
            world.run_for(Duration::from_secs(20));
            world.stop(node);
            assert!(world.run_until(|w| !w.alive(node), Duration::from_secs(10)), "seed {seed}");
            assert_eq!(world.exit_code(node), Some(0), "seed {seed}");
        }
    }
}
