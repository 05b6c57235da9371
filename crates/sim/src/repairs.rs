//! Repairs, as an operator asks a node for them.

use std::time::Duration;

use coordinator::{Coordinator, RepairOptions, RepairState, Repairs};
use runtime::sim::{NodeId, World};

use crate::limits::{CONVERGE, REPAIR_WITHIN};
use crate::machines::{Run, finished};

/// Repairs a keyspace from the node it runs on; the mutations that were written to replicas.
pub(crate) async fn repair(keyspace: &str, primary_range: bool) -> Result<u64, String> {
    repair_as(keyspace, RepairOptions { primary_range, ..RepairOptions::default() }).await
}

/// The same as an operator words it.
pub(crate) async fn repair_as(keyspace: &str, options: RepairOptions) -> Result<u64, String> {
    let (coordinator, repairs) = (runtime::local::<Coordinator>(), Repairs::default());
    let begun = repairs.start(&coordinator, keyspace, &options, |ranges| ranges.to_string())?;
    let Some(begun) = begun else { return Ok(0) };
    begun.wait(REPAIR_WITHIN).await;
    let (lines, _) = begun.lines(0);
    match begun.state() {
        RepairState::Done if begun.progress().0 == begun.progress().1 => Ok(begun.written().0),
        RepairState::Failed(text) => Err(text),
        state => Err(format!("{state:?} after {lines:?}")),
    }
}

/// Repairs from one node. Who is slow may be taken for dead for a moment, and then the repair says so: it is asked for again.
pub(crate) fn repair_from(
    world: &mut World,
    node: NodeId,
    keyspace: &'static str,
    primary_range: bool,
) -> Result<u64, String> {
    let until = world.now() + CONVERGE;
    loop {
        let mut task = world.spawn(node, repair(keyspace, primary_range));
        match finished(world, &mut task, REPAIR_WITHIN, "a repair")? {
            Err(text) if text.contains("Endpoint not alive") && world.now() < until => {
                world.run_for(Duration::from_secs(5));
            }
            outcome => return outcome.map_err(|text| format!("a repair of {keyspace}: {text}")),
        }
    }
}

/// Repairs every range of every keyspace of registers, each from the first node that holds it.
pub(crate) fn repair_all(world: &mut World, run: &Run) -> Result<(), String> {
    let keyspaces: Vec<&'static str> =
        run.book.borrow().keyspaces.iter().map(|keyspace| keyspace.name).collect();
    for keyspace in keyspaces {
        for host in &run.hosts {
            let repaired = repair_from(world, host.node, keyspace, true);
            repaired.map_err(|text| format!("{}: {text}", host.ip))?;
        }
    }
    Ok(())
}
