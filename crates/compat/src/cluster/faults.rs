//! Links between nodes that are late, narrow, deaf, cut one way or both, and reset again and again, while drivers load at QUORUM.
//!
//! One client speaks only to the two nodes that still have each other: whatever happens to the third, it must never hear Unavailable, and of other
//! errors only until its nodes have noticed. Another one is an ordinary driver, which also asks the node that is cut off: what that says is counted
//! by class, and must end with the fault.

use std::time::{Duration, Instant};

use super::UP_WITHIN;
use super::load::{Loads, Settings};
use super::nodes::{Nodes, Place, Way};
use super::proxy::{Flow, Link, Proxy};
use crate::suite::Options;

/// The one whose links fail.
const VICTIM: usize = 1;
/// How long its neighbours may take to notice that it is silent (2.5 s), and to answer what had waited for it.
const NOTICED_WITHIN: f64 = 5.0;
/// How long a driver may take to be as before, longest of all for a request that the cut-off node never answers.
const OVER_WITHIN: f64 = 16.0;
/// How long a fault lasts, when nothing else is said.
const LASTS: Duration = Duration::from_secs(10);
/// Between two resets of all connections.
const RESETS_EVERY: Duration = Duration::from_millis(250);

struct Fault {
    name: &'static str,
    lasts: Duration,
    begin: fn(&Proxy),
    /// What is done again and again.
    again: Option<fn(&Proxy)>,
    /// Whether the victim must be shown as down by the others.
    is_down: bool,
    /// Whether links of all nodes fail, so that Unavailable is what may be said.
    is_everywhere: bool,
}

const FAULTS: [Fault; 6] = [
    Fault {
        name: "200 ms late",
        lasts: LASTS,
        begin: |proxy| proxy.around(&[VICTIM], Link::late(Duration::from_millis(200))),
        again: None,
        is_down: false,
        is_everywhere: false,
    },
    Fault {
        name: "64 KiB/s",
        lasts: LASTS,
        begin: |proxy| proxy.around(&[VICTIM], Link::narrow(64 << 10)),
        again: None,
        is_down: false,
        is_everywhere: false,
    },
    Fault {
        name: "reads nothing",
        lasts: LASTS,
        begin: |proxy| [0, 2].iter().for_each(|other| proxy.set(*other, VICTIM, Link::that(Flow::Stalls))),
        again: None,
        is_down: true,
        is_everywhere: false,
    },
    Fault {
        name: "cut one way",
        lasts: LASTS,
        begin: |proxy| [0, 2].iter().for_each(|other| proxy.set(VICTIM, *other, Link::that(Flow::Cut))),
        again: None,
        is_down: true,
        is_everywhere: false,
    },
    Fault {
        name: "cut both ways",
        lasts: Duration::from_secs(30),
        begin: |proxy| proxy.around(&[VICTIM], Link::that(Flow::Cut)),
        again: None,
        is_down: true,
        is_everywhere: false,
    },
    Fault {
        name: "resets",
        lasts: LASTS,
        begin: |_| {},
        again: Some(Proxy::reset),
        is_down: false,
        is_everywhere: true,
    },
];

/// All of them, one after the other, on one cluster.
pub fn run(options: &Options, shards: u16) -> Result<String, String> {
    let places = [Place::PLAIN; 3];
    let mut nodes = Nodes::lay_out(options, &places, shards, Way::Proxied)?;
    nodes.start_all()?;
    nodes.wait_until_all_up(UP_WITHIN)?;
    nodes.make_table("3")?;
    for fault in &FAULTS {
        let said = play(&mut nodes, fault).map_err(|error| format!("{}: {error}", fault.name))?;
        println!("    {}: {said}", fault.name);
    }
    let passed = nodes.proxy().passed();
    nodes.stop()?;
    Ok(passed.to_string())
}

fn play(nodes: &mut Nodes, fault: &Fault) -> Result<String, String> {
    let pinned = Settings { contacts: Some(vec![0, 2]), is_pinned: true, ..Settings::quorum(16) };
    let near = Loads::start(nodes, &["python"], &pinned)?;
    let mut ordinary = Loads::start(nodes, &["java4"], &Settings::quorum(16))?;
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    (fault.begin)(nodes.proxy());
    if fault.is_down {
        for other in [0, 2] {
            nodes.wait_for_state(other, VICTIM, "DN", Duration::from_secs(10))?;
        }
    }
    while begun.elapsed() < fault.lasts {
        match fault.again {
            Some(again) => {
                again(nodes.proxy());
                std::thread::sleep(RESETS_EVERY);
            }
            None => std::thread::sleep(fault.lasts.saturating_sub(begun.elapsed())),
        }
    }
    if !fault.is_down && !fault.is_everywhere {
        let states = nodes.states(0)?;
        if states.iter().any(|state| state != "UN") {
            return Err(format!("a link that is only slow made nodes {states:?}"));
        }
    }
    let ended = Instant::now();
    nodes.proxy().heal();
    nodes.wait_until_all_up(UP_WITHIN)?;
    let healed = ended.elapsed();
    std::thread::sleep(Duration::from_secs(3));
    let table = format!("behind_{}", fault.name.replace([' ', '/'], "_").to_lowercase());
    ordinary.create(0, &table)?;
    ordinary.all_see(&table)?;
    let (near, ordinary) = (near.stop()?, ordinary.stop()?);
    for node in 0..nodes.count() {
        if !nodes.is_alive(node) {
            return Err(format!("node {} ended", node + 1));
        }
    }
    for summary in &near {
        if fault.is_everywhere {
            summary.judge_outside(&[(begun, ended)], NOTICED_WITHIN)?;
        } else {
            summary.judge(&[begun, ended], NOTICED_WITHIN)?;
        }
    }
    for summary in &ordinary {
        summary.judge_outside(&[(begun, ended)], OVER_WITHIN)?;
    }
    let checked = nodes.check_acked()?;
    let told: Vec<String> = near.iter().chain(&ordinary).map(|summary| summary.told()).collect();
    Ok(format!("all up {healed:.1?} after; {checked}; {}", told.join("; ")))
}
