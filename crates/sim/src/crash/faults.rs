//! What goes wrong with the disk of the crash scenario: no space, syncs that fail, bits that flip.

use std::time::Duration;

use base::Instant;
use runtime::sim::World;

use super::clients::ask;
use super::{End, Run, check, read_all, run_task, shards, violation};
use crate::damage::damageable;
use crate::session::Session;

/// Longest that writes may be refused once a full disk has space again.
const RECOVERY: Duration = Duration::from_secs(30);

/// What happened to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskTrouble {
    None,
    WasFull,
    SyncsFail,
}

/// Now and then the disk is full for a while, or some syncs fail.
pub(super) fn trouble_the_disk(world: &mut World, run: &mut Run) -> Result<DiskTrouble, String> {
    let node = run.host.node;
    let spell = Duration::from_micros(run.rng.below(150_000));
    match run.rng.below(10) {
        0 => {
            let capacity = run.disk_bytes;
            let used = capacity - world.free_space(node);
            world.set_capacity(node, used + run.rng.below(300 << 10));
            run.book.borrow_mut().full = true;
            world.run_for(spell);
            violation(run)?;
            world.set_capacity(node, capacity);
            // Refusals that are on their way still tell of it.
            match run_task(world, run.client, RECOVERY, written_again(run.host.native())) {
                Some(()) => {}
                None => {
                    return Err(format!("writes are refused {RECOVERY:?} after the disk has space again"));
                }
            }
            run.book.borrow_mut().full = false;
            Ok(DiskTrouble::WasFull)
        }
        1 => {
            world.fail_next_syncs(node, 1 + run.rng.below(3) as u32);
            world.run_for(spell);
            Ok(DiskTrouble::SyncsFail)
        }
        _ => Ok(DiskTrouble::None),
    }
}

/// Returns when a write is accepted.
async fn written_again(to: std::net::SocketAddr) {
    loop {
        if let Ok(mut session) = Session::connect(to).await
            && session.query("INSERT INTO ks.p (k) VALUES (1)", ask()).await.is_ok()
        {
            return;
        }
        runtime::sleep(Duration::from_millis(50)).await;
    }
}

/// Flips one bit of an sstable, or of a log segment that is not the last, and boots. Either everything is as it should be, or
/// file and place are named and nothing else is said. Then the power fails, and the bit is flipped back. Returns how what was
/// written before was ended.
pub(super) fn rot(world: &mut World, run: &mut Run, end: End, at: Instant) -> Result<End, String> {
    let files = world.files(run.host.node);
    let candidates = damageable(&files, true);
    let Some((path, size)) = candidates.get(run.rng.below(candidates.len().max(1) as u64) as usize) else {
        return Ok(end);
    };
    let (node, offset, bit) = (run.host.node, run.rng.below(*size), run.rng.below(8) as u8);
    world.flip_bit(node, path, offset, bit);
    // An earlier flip may have been in the same file, and what was said of it then says nothing of this one.
    let said_before = world.log_lines().len();
    let count = shards(run);
    run.host.boot(world, count);
    let named = |text: &str| text.contains(path.as_str()) && text.contains("offset");
    let read = run.host.await_ready(world).and_then(|()| read_all(world, run));
    match read {
        Ok(dump) => check(run, &dump, end, at)
            .map_err(|text| format!("bit {bit} of byte {offset} of {path} is flipped, and {text}"))?,
        Err(text) => {
            let told =
                named(&text) || world.log_lines().iter().skip(said_before).any(|(_, line)| named(line));
            if !told {
                return Err(format!(
                    "bit {bit} of byte {offset} of {path} is flipped, and all that is said: {text}"
                ));
            }
        }
    }
    world.power_cut(node);
    world.flip_bit(node, path, offset, bit);
    Ok(run.end_after_power_cut(end))
}
