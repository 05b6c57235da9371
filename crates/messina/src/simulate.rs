//! `messina simulate`: the shipped node code in a world made from a seed.

use crate::arguments::Simulate;
use sim::{Bug, Outcome, Scenario};
use std::process::ExitCode;

/// Runs one seed or many. The exit code is 0 when the checker found nothing wrong.
pub fn run(arguments: &Simulate) -> ExitCode {
    match simulate(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("messina: {text}");
            ExitCode::from(2)
        }
    }
}

fn simulate(arguments: &Simulate) -> Result<bool, String> {
    let scenario = Scenario::of(&arguments.scenario).ok_or_else(|| {
        let known: Vec<&str> = Scenario::ALL.iter().map(|s| s.name()).collect();
        format!("--scenario: expected {}, got \"{}\"", known.join(" or "), arguments.scenario)
    })?;
    let planted = arguments.plant.as_deref().map(bug).transpose()?;
    let seeds = match (&arguments.seeds, arguments.seed) {
        (Some(text), _) => range(text)?,
        (None, Some(seed)) => seed..seed.saturating_add(1),
        (None, None) => return Err("--seed or --seeds is needed".into()),
    };
    if arguments.shrink {
        return Ok(shrink(scenario, seeds, planted));
    }
    let verbose = arguments.seeds.is_none();
    let mut good = true;
    for seed in seeds {
        let (outcome, lines) = sim::run_verbose(scenario, seed, planted);
        if verbose || outcome.failure.is_some() {
            lines.iter().for_each(|line| println!("{line}"));
        }
        println!("{}", told(scenario, &outcome));
        if !outcome.counts.is_empty() {
            println!("{}", counted(scenario, &outcome));
        }
        good &= outcome.failure.is_none();
    }
    Ok(good)
}

/// Tells the fewest operations of each failing seed.
fn shrink(scenario: Scenario, seeds: core::ops::Range<u64>, planted: Option<Bug>) -> bool {
    let told = seeds.filter_map(|seed| sim::shrunk(scenario, seed, planted));
    let failing = told.inspect(|text| println!("{} {text}", scenario.name())).count();
    println!("{failing} seeds fail");
    failing == 0
}

fn told(scenario: Scenario, outcome: &Outcome) -> String {
    let verdict = match &outcome.failure {
        None => "ok".to_string(),
        Some(failure) => format!("FAILED: {failure}"),
    };
    format!(
        "{} seed {} trace {:016x} {} steps {} ms {verdict}",
        scenario.name(),
        outcome.seed,
        outcome.trace_hash,
        outcome.steps,
        outcome.virtual_millis
    )
}

/// What happened in a run, by kind; `cargo x sim` adds these lines up.
fn counted(scenario: Scenario, outcome: &Outcome) -> String {
    let kinds: Vec<String> = outcome.counts.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
    format!("{} seed {} happened: {}", scenario.name(), outcome.seed, kinds.join("; "))
}

fn range(text: &str) -> Result<core::ops::Range<u64>, String> {
    let wrong = || format!("--seeds: expected A..B with A below B, got \"{text}\"");
    let (first, end) = text.split_once("..").ok_or_else(wrong)?;
    let number = |part: &str| part.parse::<u64>().map_err(|_| wrong());
    let seeds = number(first)?..number(end)?;
    if seeds.is_empty() { Err(wrong()) } else { Ok(seeds) }
}

fn bug(name: &str) -> Result<Bug, String> {
    const BUGS: [(&str, Bug); 42] = [
        ("skip-sync", Bug::SkipSync),
        ("ignore-crc", Bug::IgnoreCrc),
        ("replay-stops-early", Bug::ReplayStopsEarly),
        ("probe-before-await", Bug::ProbeBeforeAwait),
        ("digest-stops-at-null", Bug::DigestStopsAtNull),
        ("skip-batchlog", Bug::SkipBatchlog),
        ("batchlog-only-here", Bug::BatchlogOnlyHere),
        ("purge-without-proof", Bug::PurgeWithoutProof),
        ("population-race", Bug::PopulationRace),
        ("forget-tail", Bug::ForgetTail),
        ("manifest-before-data", Bug::ManifestBeforeData),
        ("filter-false-negative", Bug::FilterFalseNegative),
        ("vote-not-durable", Bug::VoteNotDurable),
        ("head-cut-too-far", Bug::HeadCutTooFar),
        ("pull-uncommitted", Bug::PullUncommitted),
        ("late-write-after-truncate", Bug::LateWriteAfterTruncate),
        ("roles-of-one-shard", Bug::RolesOfOneShard),
        ("hint-unheard-is-delivered", Bug::HintUnheardIsDelivered),
        ("repair-skips-rest", Bug::RepairSkipsRest),
        ("repair-forgets-tombstones", Bug::RepairForgetsTombstones),
        ("replace-unfilled", Bug::ReplaceUnfilled),
        ("founds-unasked", Bug::FoundsUnasked),
        ("behind-does-not-pull", Bug::BehindDoesNotPull),
        ("plans-before-stores", Bug::PlansBeforeStores),
        ("old-folder-let-in", Bug::OldFolderLetIn),
        ("snapshot-without-effects", Bug::SnapshotWithoutEffects),
        ("promise-not-durable", Bug::PromiseNotDurable),
        ("accept-unfenced", Bug::AcceptUnfenced),
        ("ballot-reused", Bug::BallotReused),
        ("paxos-no-fence", Bug::PaxosNoFence),
        ("paxos-leaves-behind", Bug::PaxosLeavesBehind),
        ("prune-early", Bug::PruneEarly),
        ("replace-without-ballots", Bug::ReplaceWithoutBallots),
        ("sweep-without-floor", Bug::SweepWithoutFloor),
        ("floor-does-not-wait", Bug::FloorDoesNotWait),
        ("floor-not-durable", Bug::FloorNotDurable),
        ("sweep-unsettled", Bug::SweepUnsettled),
        ("swept-is-never", Bug::SweptIsNever),
        ("count-sent-before-durable", Bug::CountSentBeforeDurable),
        ("count-without-turn", Bug::CountWithoutTurn),
        ("count-retried", Bug::CountRetried),
        ("count-id-shared", Bug::CountIdShared),
    ];
    let found = BUGS.iter().find(|(known, _)| *known == name);
    found.map(|(_, bug)| *bug).ok_or_else(|| {
        let known: Vec<&str> = BUGS.iter().map(|(known, _)| *known).collect();
        format!("--plant: expected {}, got \"{name}\"", known.join(" or "))
    })
}
