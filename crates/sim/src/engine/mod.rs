//! The storage engine alone: real stores on one to eight shards, against a map that knows every cell ever written.
//!
//! ```text
//! seed ─► plan: tables, settings, operations ─► run: each played against the stores and the map ─► first difference
//!                                                  └─ shrink: parts of the operations, the same seed
//! ```
//! Two scenarios share it. `model`: many operations, orderly restarts with other shard counts. `storage`: besides, power cuts and
//! kills with writes under way and during starts, flipped bits, full and slow disks, failing syncs and reads.
//! Checked: every answer cell by cell (timestamp, ttl, expiry, value), its order, its limits, its count of rows, its digest;
//! reads that race with writes and flushes show whole writes in their order; after every start each partition is one of the
//! states it may have (in `batch` and `group` mode nothing acknowledged is missing, in `periodic` mode nothing after a kill, and
//! after a power cut nothing older than the
//! period); nothing that was deleted comes back, however short `gc_grace_seconds`; damage is named or does no harm; a disk that
//! is well again is written to; what operators do to sstables (cleanup, scrub, garbagecollect, snapshots that are imported
//! again, …) changes nothing that is read; in the end no temporary file is left, no sstable that does not count.

/// Operations.
mod change;
/// Bounds.
mod limits;
/// What must be there.
mod truth;
/// Tables and their bytes.
mod shape;
/// Lists of operations from seeds.
mod plan;
/// The node.
mod machine;
/// What operators do to sstables.
mod upkeep;
/// Operations, one after the other.
mod run;
/// What is asked and shown.
mod reads;
/// Restarts, rot, and the end.
mod life;
/// The shortest list of operations that fails.
mod shrink;

use runtime::Bug;
use runtime::sim::World;

use change::Op;
use plan::Plan;
use run::Run;

pub(crate) use shrink::shrink;

/// One run; `faults` chooses the scenario.
pub(crate) fn play(world: &mut World, seed: u64, faults: bool, planted: Option<Bug>) -> Result<(), String> {
    let plan = Plan::drawn(seed, faults);
    let ops: Vec<&Op> = plan.ops.iter().collect();
    play_ops(world, &plan, &ops, planted)
}

/// Operations every seed of a scenario has.
pub(crate) fn operations(faults: bool) -> u64 {
    (if faults { limits::FAULT_OPERATIONS } else { limits::MODEL_OPERATIONS }) as u64
}

/// Some of the operations of a plan, in their order.
fn play_ops(world: &mut World, plan: &Plan, ops: &[&Op], planted: Option<Bug>) -> Result<(), String> {
    let mut run = Run::new(world, plan, planted);
    run.begin(world, plan.shards)?;
    for (number, op) in ops.iter().enumerate() {
        run.play(world, op).map_err(|text| format!("operation {number}, {}: {text}", name(op)))?;
    }
    run.finish(world).map_err(|text| format!("in the end: {text}"))
}

/// The first word of an operation.
fn name(op: &Op) -> String {
    let text = format!("{op:?}");
    text.split([' ', '(', '{']).next().unwrap_or_default().to_lowercase()
}
