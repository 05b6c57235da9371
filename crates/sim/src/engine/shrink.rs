//! From a run that fails to one with few operations that fails as well.
//!
//! Delta debugging: parts of the list are left out, halves first, then smaller ones, as long as what is left still fails.
//! Each attempt is a whole run of the same seed, so it is as repeatable as the first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use runtime::Bug;
use runtime::sim::{SimConfig, World};

use super::change::Op;
use super::limits::SHRINK_RUNS;
use super::plan::Plan;

/// Whether these operations fail, and how.
fn fails(plan: &Plan, ops: &[&Op], planted: Option<Bug>) -> Option<String> {
    let mut world = World::new(plan.seed, SimConfig::drawn(plan.seed));
    let result = catch_unwind(AssertUnwindSafe(|| super::play_ops(&mut world, plan, ops, planted)));
    match result {
        Ok(Ok(())) => None,
        Ok(Err(text)) => Some(text),
        Err(payload) => {
            // A task panicked in the middle of its step: its destructors cannot be trusted any more.
            #[allow(clippy::mem_forget, reason = "see above")]
            std::mem::forget(world);
            Some(crate::driver::panic_text(&*payload))
        }
    }
}

/// Few operations of a seed that fail, with how; `None` when it does not fail.
pub(crate) fn shrink(seed: u64, faults: bool, planted: Option<Bug>) -> Option<String> {
    let plan = Plan::drawn(seed, faults);
    let mut ops: Vec<&Op> = plan.ops.iter().collect();
    let mut failure = fails(&plan, &ops, planted)?;
    // Nothing behind the failing operation matters.
    let mut runs = 0;
    if let Some(number) =
        failure.strip_prefix("operation ").and_then(|text| text.split(',').next()?.parse::<usize>().ok())
        && let Some(text) = fails(&plan, &ops[..=number], planted)
    {
        ops.truncate(number + 1);
        failure = text;
    }
    let mut size = ops.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut smaller = false;
        while at < ops.len() && runs < SHRINK_RUNS {
            let end = (at + size).min(ops.len());
            let left: Vec<&Op> = ops[..at].iter().chain(&ops[end..]).copied().collect();
            runs += 1;
            match fails(&plan, &left, planted) {
                Some(text) => (ops, failure, smaller) = (left, text, true),
                None => at = end,
            }
        }
        if runs >= SHRINK_RUNS || (size == 1 && !smaller) {
            break;
        }
        size = if size > 1 { size.div_ceil(2) } else { 1 };
    }
    let list: String = ops.iter().map(|op| format!("  {op:?}\n")).collect();
    let tables: String = plan.shapes.iter().map(|shape| format!("  {}\n", shape.told())).collect();
    Some(format!(
        "seed {seed}: {} of {} operations fail after {runs} runs\n{tables}  log {:?}, {} shards\n{list}{failure}",
        ops.len(),
        plan.ops.len(),
        plan.sync,
        plan.shards
    ))
}
