//! Which nodes answer fast: Cassandra's dynamic snitch. One of each shard measures reads by key, another one forwarders of writes.
//!
//! ```text
//! answer of a call ─▶ mean of its node ─┐
//! calls under way, no answer since ────────────┴─ every update interval ─▶ class of the node ─▶ order of replicas in a plan
//! ```
//! A plan compares small integers. A node in class 0 answers within a millisecond, or nothing is known of it; each class is `1 + badness threshold`
//! times slower than the one before. Within a class the nearest comes first: differences below the threshold are not worth another rack, or another
//! node's cache. This node is not measured and comes first. Owned by one shard.

use crate::limits::{SNITCH_FLOOR, SNITCH_UNHEARD_MIN, SNITCH_UPDATE_MIN};
use base::{HashMap, HostId, Instant};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use topology::Snapshot;

/// What `dynamic_snitch*` of the configuration say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnitchRules {
    /// Whether latencies count at all.
    pub enabled: bool,
    /// How often classes are worked out anew.
    pub update_interval: Duration,
    /// How often everything is forgotten, so that a node that was slow is tried again.
    pub reset_interval: Duration,
    /// How much slower a node must be to come behind one that is farther, in thousandths: 1000 is twice as slow.
    pub badness_permille: u32,
}

impl SnitchRules {
    /// Cassandra's defaults.
    pub const STANDARD: SnitchRules = SnitchRules {
        enabled: true,
        update_interval: Duration::from_millis(100),
        reset_interval: Duration::from_secs(600),
        badness_permille: 1_000,
    };
}

/// Weight of an answer against what was known before.
const FRESH: f64 = 0.125;
/// Half-lives of what is known of a node that is not asked, in one reset interval.
const HALVINGS: f64 = 20.0;
/// A node comes back to a faster class when it is this much inside of it.
const MARGIN: f64 = 1.25;
const CLASS_MAX: u8 = 200;

/// One node as its answers show it.
#[derive(Default)]
struct Answers {
    mean_us: Cell<f64>,
    in_flight: Cell<u32>,
    /// Since when a call is under way and none was answered.
    silent_since: Cell<Instant>,
    is_fresh: Cell<bool>,
    class: Cell<u8>,
}

/// The order of replicas that follows from their answers.
pub(crate) struct Snitch {
    rules: Cell<SnitchRules>,
    nodes: RefCell<HashMap<HostId, Rc<Answers>>>,
    updated_at: Cell<Instant>,
    reset_at: Cell<Instant>,
}

impl Snitch {
    pub(crate) fn new(rules: SnitchRules) -> Snitch {
        Snitch {
            rules: Cell::new(rules),
            nodes: RefCell::default(),
            updated_at: Cell::new(Instant(0)),
            reset_at: Cell::new(Instant(0)),
        }
    }

    pub(crate) fn set_rules(&self, rules: SnitchRules) {
        self.rules.set(rules);
        self.nodes.borrow_mut().clear();
    }

    /// A node, whose answers to come count; `None`: none do.
    fn node(&self, host: HostId) -> Option<Rc<Answers>> {
        self.rules.get().enabled.then(|| self.nodes.borrow_mut().entry(host).or_default().clone())
    }

    /// A call to a node begins.
    pub(crate) fn begin(&self, host: HostId) -> Timing {
        let (node, begun) = (self.node(host), runtime::now());
        if let Some(node) = &node {
            node.begin(begun);
        }
        Timing { begun, node: RefCell::new(node) }
    }

    /// The class of a node: lower ones are asked first. O(1).
    pub(crate) fn class(&self, host: HostId) -> u8 {
        self.nodes.borrow().get(&host).map_or(0, |node| node.class.get())
    }

    /// Works the classes out anew if it is time. A read calls this before it plans.
    pub(crate) fn update(&self, now: Instant) {
        let SnitchRules { enabled, update_interval, reset_interval, badness_permille } = self.rules.get();
        let since = now.saturating_duration_since(self.updated_at.get());
        if !enabled || since < update_interval.max(SNITCH_UPDATE_MIN) {
            return;
        }
        self.updated_at.set(now);
        let nodes = self.nodes.borrow();
        if reset_interval <= now.saturating_duration_since(self.reset_at.get()) {
            self.reset_at.set(now);
            nodes.values().for_each(|node| node.forget());
        }
        let step = (1.0 + f64::from(badness_permille) / 1e3).max(1.05);
        let kept = 0.5_f64.powf(HALVINGS * since.as_secs_f64() / reset_interval.as_secs_f64().max(1e-3));
        nodes.values().for_each(|node| node.update(now, step, kept));
    }

    /// Forgets what was known of nodes that are back or gone.
    pub(crate) fn take_topology(&self, before: &Snapshot, now: &Snapshot) {
        self.nodes.borrow_mut().retain(|host, _| {
            now.member(*host).is_some() && (before.is_alive(*host) || !now.is_alive(*host))
        });
    }
}

impl Answers {
    /// A call begins.
    fn begin(&self, now: Instant) {
        if self.in_flight.replace(self.in_flight.get() + 1) == 0 {
            self.silent_since.set(now);
        }
    }

    /// A call was answered after this time, or has not been by then.
    fn answered(&self, now: Instant, took: Duration) {
        let (mean, took) = (self.mean_us.get(), took.as_secs_f64() * 1e6);
        self.mean_us.set(if mean == 0.0 { took } else { mean + (took - mean) * FRESH });
        self.is_fresh.set(true);
        self.ended(now);
    }

    /// A call is over; how long it took says nothing.
    fn ended(&self, now: Instant) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.silent_since.set(now);
    }

    fn forget(&self) {
        self.mean_us.set(0.0);
        self.class.set(0);
    }

    fn update(&self, now: Instant, step: f64, kept: f64) {
        let silence = if self.in_flight.get() == 0 {
            Duration::ZERO
        } else {
            now.saturating_duration_since(self.silent_since.get())
        };
        if !self.is_fresh.replace(false) && silence.is_zero() {
            self.mean_us.set(self.mean_us.get() * kept);
        }
        let score = self.mean_us.get().max(silence.as_secs_f64() * 1e6);
        let class = self.class.get();
        let up = class_of(score, step);
        if class < up {
            self.class.set(up);
        } else {
            self.class.set(class.min(class_of(score * MARGIN, step)));
        }
    }
}

/// A call whose answer shows how fast its node is.
pub(crate) struct Timing {
    begun: Instant,
    /// Until the call ends; `None`: it is not measured.
    node: RefCell<Option<Rc<Answers>>>,
}

impl Timing {
    /// Of a call that says nothing of its node.
    pub(crate) fn none() -> Timing {
        Timing { begun: Instant(0), node: RefCell::new(None) }
    }

    /// The call is over.
    pub(crate) fn end(&self, is_answered: bool) {
        let Some(node) = self.node.take() else { return };
        let now = runtime::now();
        let took = now.since(self.begun);
        // A connection that breaks at once says nothing of how fast a node is.
        if is_answered || SNITCH_UNHEARD_MIN <= took { node.answered(now, took) } else { node.ended(now) }
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.ended(runtime::now());
        }
    }
}

/// How many steps a latency is above the floor.
fn class_of(micros: f64, step: f64) -> u8 {
    let steps = (micros / (SNITCH_FLOOR.as_secs_f64() * 1e6)).max(1.0).ln() / step.ln();
    // Cut: the first step is class 0, too.
    (steps as u8).min(CLASS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SLOW: HostId = HostId(7);

    fn snitch(change: impl FnOnce(&mut SnitchRules)) -> Snitch {
        let mut rules = SnitchRules::STANDARD;
        change(&mut rules);
        let snitch = Snitch::new(rules);
        snitch.update(Instant(0) + Duration::from_secs(3_600));
        snitch
    }

    fn answer(snitch: &Snitch, now: Instant, took: Duration) {
        let node = snitch.node(SLOW).expect("it is on");
        node.begin(now);
        node.answered(now + took, took);
    }

    #[test]
    fn a_node_is_behind_others_when_it_is_slower_than_the_threshold() {
        for (badness, took, class) in [
            (1_000, 400, 0),
            (1_000, 900, 0),
            (1_000, 1_100, 1),
            (1_000, 2_100, 2),
            (100, 600, 1),
            (9_000, 4_000, 0),
        ] {
            let snitch = snitch(|rules| rules.badness_permille = badness);
            let now = Instant(0) + Duration::from_secs(3_601);
            answer(&snitch, now, Duration::from_micros(took));
            assert_eq!(snitch.class(SLOW), 0, "not before the interval ends");
            snitch.update(now + 100 * MS);
            assert_eq!(snitch.class(SLOW), class, "{badness} {took}");
        }
    }

    #[test]
    fn silence_counts_before_any_answer_is_late_for_its_caller() {
        let snitch = snitch(|_| {});
        let now = Instant(0) + Duration::from_secs(3_601);
        (0..50).for_each(|_| answer(&snitch, now, MS / 2));
        snitch.update(now + 100 * MS);
        assert_eq!(snitch.class(SLOW), 0);
        let node = snitch.node(SLOW).expect("it is on");
        node.begin(now + 100 * MS);
        snitch.update(now + 200 * MS);
        let silent = snitch.class(SLOW);
        assert!(6 < silent, "{silent}");
        node.ended(now + 250 * MS);
        snitch.update(now + 300 * MS);
        assert_eq!(snitch.class(SLOW), 0, "the connection broke: nothing was learned");
    }

    #[test]
    fn a_slow_node_that_is_not_asked_is_tried_again() {
        let snitch = snitch(|_| {});
        let mut now = Instant(0) + Duration::from_secs(3_601);
        answer(&snitch, now, 200 * MS);
        snitch.update(now + 100 * MS);
        let slow = snitch.class(SLOW);
        assert_eq!(slow, 8);
        now += Duration::from_secs(60);
        snitch.update(now);
        assert_eq!(snitch.class(SLOW), 6, "half after thirty seconds");
        now += Duration::from_secs(540);
        snitch.update(now);
        assert_eq!(snitch.class(SLOW), 0, "and nothing after the reset");
    }

    #[test]
    fn a_class_is_left_only_with_a_margin() {
        let snitch = snitch(|_| {});
        let mut now = Instant(0) + Duration::from_secs(3_601);
        let mut class_after = |took: u64| {
            (0..100).for_each(|_| answer(&snitch, now, Duration::from_micros(took)));
            now += 100 * MS;
            snitch.update(now);
            snitch.class(SLOW)
        };
        assert_eq!((class_after(1_050), class_after(950), class_after(790)), (1, 1, 0));
    }

    #[test]
    fn nothing_is_measured_when_it_is_off() {
        let snitch = snitch(|rules| rules.enabled = false);
        assert!(snitch.node(SLOW).is_none());
        assert_eq!(snitch.class(SLOW), 0);
    }
}
