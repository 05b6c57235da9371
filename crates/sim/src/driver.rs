//! Runs seeds: each on one thread, several threads side by side, and reports what failed.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use runtime::Bug;
use runtime::sim::{SimConfig, World};

use crate::limits::FAILURES_KEPT;
use crate::{Counts, Outcome, batches, cluster, consensus, counters, crash, engine, lwt, repair, three};

/// What can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One node that loses power again and again, also while it starts.
    Crash,
    /// Three nodes that hold the same rows, slow, cut apart and down one at a time.
    Three,
    /// Three nodes with lightweight transactions.
    Lwt,
    /// Two datacenters with lightweight transactions in one of them.
    LwtLocal,
    /// A node with a part in lightweight transactions is replaced.
    LwtReplace,
    /// Three nodes that count.
    Counters,
    /// Three to nine nodes in one datacenter or two: founded, joined, replaced, with everything that the world can do to them.
    Cluster,
    /// Three whose replicas differ are repaired.
    Repair,
    /// One of three whose disk is gone is replaced.
    Replace,
    /// Three to five whose coordinators of logged batches lose power for good.
    Batches,
    /// A consensus group of three to five members that crash and are cut apart.
    Raft,
    /// The stores of one node under faults of every kind, against a map of every cell.
    Storage,
    /// The same without faults, over many more operations.
    Model,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Scenario; 13] = [
        Scenario::Crash,
        Scenario::Three,
        Scenario::Lwt,
        Scenario::LwtLocal,
        Scenario::LwtReplace,
        Scenario::Counters,
        Scenario::Cluster,
        Scenario::Repair,
        Scenario::Replace,
        Scenario::Batches,
        Scenario::Raft,
        Scenario::Storage,
        Scenario::Model,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Crash => "crash",
            Scenario::Three => "three",
            Scenario::Lwt => "lwt",
            Scenario::LwtLocal => "lwt-local",
            Scenario::LwtReplace => "lwt-replace",
            Scenario::Counters => "counters",
            Scenario::Cluster => "cluster",
            Scenario::Repair => "repair",
            Scenario::Replace => "replace",
            Scenario::Batches => "batches",
            Scenario::Raft => "raft",
            Scenario::Storage => "storage",
            Scenario::Model => "model",
        }
    }

    /// The scenario of that name.
    pub fn of(name: &str) -> Option<Scenario> {
        Scenario::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// The mistakes its checker must find when they are planted.
    pub fn bugs(self) -> &'static [Bug] {
        match self {
            Scenario::Crash => &[
                Bug::SkipSync,
                Bug::IgnoreCrc,
                Bug::ReplayStopsEarly,
                Bug::ProbeBeforeAwait,
                Bug::ForgetTail,
            ],
            Scenario::Three => &[Bug::DigestStopsAtNull, Bug::HintUnheardIsDelivered],
            Scenario::Lwt => &[Bug::AcceptUnfenced, Bug::PaxosLeavesBehind],
            Scenario::LwtLocal => &[Bug::AcceptUnfenced],
            Scenario::LwtReplace => &[Bug::ReplaceWithoutBallots],
            Scenario::Counters => {
                &[Bug::CountSentBeforeDurable, Bug::CountWithoutTurn, Bug::CountRetried, Bug::CountIdShared]
            }
            Scenario::Cluster => &[
                Bug::DigestStopsAtNull,
                Bug::LateWriteAfterTruncate,
                Bug::RolesOfOneShard,
                Bug::HintUnheardIsDelivered,
                Bug::FoundsUnasked,
                Bug::BehindDoesNotPull,
                Bug::PlansBeforeStores,
                Bug::OldFolderLetIn,
                Bug::SnapshotWithoutEffects,
            ],
            Scenario::Replace => &[Bug::ReplaceUnfilled],
            Scenario::Repair => &[Bug::RepairSkipsRest, Bug::RepairForgetsTombstones],
            Scenario::Batches => &[Bug::BatchlogOnlyHere],
            Scenario::Raft => &[Bug::SkipSync, Bug::VoteNotDurable, Bug::HeadCutTooFar, Bug::PullUncommitted],
            Scenario::Storage => &[
                Bug::SkipSync,
                Bug::IgnoreCrc,
                Bug::ReplayStopsEarly,
                Bug::ProbeBeforeAwait,
                Bug::PurgeWithoutProof,
                Bug::PopulationRace,
                Bug::ManifestBeforeData,
                Bug::FilterFalseNegative,
            ],
            Scenario::Model => &[Bug::ProbeBeforeAwait, Bug::PurgeWithoutProof, Bug::FilterFalseNegative],
        }
    }

    /// Whether faults happen in the list of operations that a seed is; `None`: it is no list.
    fn faults_in_list(self) -> Option<bool> {
        match self {
            Scenario::Crash
            | Scenario::Three
            | Scenario::Lwt
            | Scenario::LwtLocal
            | Scenario::LwtReplace
            | Scenario::Counters
            | Scenario::Cluster
            | Scenario::Repair
            | Scenario::Replace
            | Scenario::Batches
            | Scenario::Raft => None,
            Scenario::Storage => Some(true),
            Scenario::Model => Some(false),
        }
    }

    /// Operations of one seed, where a seed is a list of them.
    pub fn operations(self) -> Option<u64> {
        self.faults_in_list().map(engine::operations)
    }

    fn play(
        self,
        world: &mut World,
        seed: u64,
        planted: Option<Bug>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        match self {
            Scenario::Crash => crash::play(world, seed, planted),
            Scenario::Three => three::play(world, seed, planted),
            Scenario::Lwt => lwt::play(world, seed, planted, counts),
            Scenario::LwtLocal => lwt::play_local(world, seed, planted, counts),
            Scenario::LwtReplace => repair::play_transactions(world, seed, planted, counts),
            Scenario::Counters => counters::play(world, seed, planted, counts),
            Scenario::Cluster => cluster::play(world, seed, planted, counts),
            Scenario::Repair => repair::play_repair(world, seed, planted),
            Scenario::Replace => repair::play_replace(world, seed, planted),
            Scenario::Batches => batches::play(world, seed, planted),
            Scenario::Raft => consensus::play(world, seed, planted),
            Scenario::Storage => engine::play(world, seed, true, planted),
            Scenario::Model => engine::play(world, seed, false, planted),
        }
    }
}

thread_local! {
    /// Text and place of the last panic on this thread, kept by the hook below.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    /// Is this thread inside a run? Panics elsewhere are printed as always.
    static RUNNING: RefCell<bool> = const { RefCell::new(false) };
}

/// Panics inside a run are the checker's to report, not to print.
fn keep_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if RUNNING.with_borrow(|running| *running) {
                PANIC.with_borrow_mut(|text| *text = info.to_string());
            } else {
                usual(info);
            }
        }));
    });
}

pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let kept = PANIC.with_borrow_mut(std::mem::take);
    if !kept.is_empty() {
        return kept;
    }
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_string())
}

/// Runs one seed. The same scenario, seed and planted mistake give the same outcome, bit for bit.
pub fn run(scenario: Scenario, seed: u64, planted: Option<Bug>) -> Outcome {
    run_verbose(scenario, seed, planted).0
}

/// Few operations of a seed that fail as it does, told one by one. `None`: it does not fail, or the scenario has no list.
pub fn shrunk(scenario: Scenario, seed: u64, planted: Option<Bug>) -> Option<String> {
    keep_panics();
    RUNNING.with_borrow_mut(|running| *running = true);
    let told = scenario.faults_in_list().and_then(|faults| engine::shrink(seed, faults, planted));
    RUNNING.with_borrow_mut(|running| *running = false);
    told
}

/// Like [`run`], with every log line of every node.
pub fn run_verbose(scenario: Scenario, seed: u64, planted: Option<Bug>) -> (Outcome, Vec<String>) {
    keep_panics();
    let mut world = World::new(seed, SimConfig::drawn(seed));
    world.expect_nothing_left();
    let start = world.now();
    let mut counts = Counts::new();
    RUNNING.with_borrow_mut(|running| *running = true);
    let result = catch_unwind(AssertUnwindSafe(|| scenario.play(&mut world, seed, planted, &mut counts)));
    RUNNING.with_borrow_mut(|running| *running = false);
    let failure = match &result {
        Ok(Ok(())) => None,
        Ok(Err(text)) => Some(text.clone()),
        Err(payload) => Some(panic_text(&**payload)),
    };
    let outcome = Outcome {
        seed,
        trace_hash: world.trace_hash(),
        steps: world.steps(),
        virtual_millis: (world.now() - start).as_millis() as u64,
        counts,
        failure,
    };
    let lines = world.log_lines().into_iter().map(|(_, line)| line).collect();
    if result.is_err() {
        // A task panicked in the middle of its step: its destructors cannot be trusted any more.
        #[allow(clippy::mem_forget, reason = "see above")]
        std::mem::forget(world);
    }
    (outcome, lines)
}

/// What a range of seeds gave.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Seeds that ran.
    pub ran: u64,
    /// Seeds that failed.
    pub failed: u64,
    /// What happened to machines and links in all of them.
    pub counts: Counts,
    /// The first failing outcomes, by seed.
    pub failures: Vec<Outcome>,
    /// Combined trace of all seeds, whatever the number of threads.
    pub trace_hash: u64,
}

/// Runs every seed of a range on `threads` threads; `stop_at_first` ends early once a seed has failed.
/// `progress` hears of each outcome, in no order.
#[allow(
    clippy::disallowed_methods,
    reason = "each thread drives worlds of its own; nothing simulated sees it"
)]
pub fn run_range(
    scenario: Scenario,
    seeds: Range<u64>,
    threads: usize,
    planted: Option<Bug>,
    stop_at_first: bool,
    progress: impl Fn(&Outcome) + Sync,
) -> Report {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seeds.end <= seed {
                        return;
                    }
                    let outcome = run(scenario, seed, planted);
                    progress(&outcome);
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.ran += 1;
                    for (kind, count) in &outcome.counts {
                        *report.counts.entry(kind).or_default() += count;
                    }
                    // Order does not matter to a sum of mixed hashes.
                    let mixed =
                        (outcome.trace_hash ^ seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    report.trace_hash = report.trace_hash.wrapping_add(mixed);
                    if outcome.failure.is_some() {
                        report.failed += 1;
                        stop.store(stop_at_first, Ordering::Relaxed);
                        report.failures.push(outcome);
                        report.failures.sort_by_key(|outcome| outcome.seed);
                        report.failures.truncate(FAILURES_KEPT);
                    }
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}
