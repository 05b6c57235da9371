//! What clients of the simulator's lightweight transactions saw, judged by a second program: the Go package porcupine must agree with the simulator's own
//! checker about every run, with those of a planted bug among them, which both must refuse.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command;
use crate::packages;
use crate::suite::Options;

/// How long all histories may take to be checked.
const CHECKED_WITHIN: Duration = Duration::from_secs(1_200);
/// Of so many runs one may be left undecided by the other checker.
const UNDECIDED_SHARE: usize = 20;
/// A bug that makes histories wrong in most runs.
const PLANTED: &str = "accept-unfenced";
/// What the simulator's checker says of a history that is not linearizable.
const REFUSED: &str = "no order explains";

/// Runs the simulator seed by seed, and the checker over all of it.
pub fn run(options: &Options) -> Result<String, String> {
    let (sound, wrong) = if options.quick { (10, 5) } else { (500, 50) };
    let (sound, wrong) = (agree(options, sound, None)?, agree(options, wrong, Some(PLANTED))?);
    Ok(format!("{sound}; with {PLANTED} planted {wrong}"))
}

/// One run: what it said, without the lines of its nodes.
fn simulated(binary: &Path, seed: u64, planted: Option<&str>) -> Result<(Vec<String>, bool), String> {
    let mut run = Command::new(binary);
    run.args(["simulate", "--scenario", "lwt", "--seed", &seed.to_string()]);
    run.args(planted.map(|bug| ["--plant", bug]).into_iter().flatten()).stdin(Stdio::null());
    let output = run.output().map_err(|error| format!("{}: {error}", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let history: Vec<String> = text
        .lines()
        .filter_map(|line| Some(line.split_once("history {")?.1))
        .map(|rest| format!("{{{rest}"))
        .collect();
    if history.is_empty() {
        return Err(format!("seed {seed} tells no history:\n{}", command::tail(&text, 10)));
    }
    let refused = text.contains(REFUSED);
    if output.status.success() == refused || (!output.status.success() && planted.is_none()) {
        return Err(format!("seed {seed}: {}", command::tail(&text, 10)));
    }
    Ok((history, refused))
}

fn agree(options: &Options, seeds: u64, planted: Option<&str>) -> Result<String, String> {
    let checker = packages::porcupine()?;
    let folder = options.folder("histories")?;
    let file = folder.join("calls.json");
    let (mut lines, mut ours) = (Vec::new(), Vec::new());
    for seed in 0..seeds {
        let (history, refused) = match simulated(&options.binary, seed, planted) {
            // A planted bug may show in another way.
            Err(_) if planted.is_some() => continue,
            other => other?,
        };
        lines.push("history".to_owned());
        lines.extend(history);
        ours.push((seed, refused));
    }
    let calls = lines.len() - ours.len();
    std::fs::write(&file, lines.join("\n")).map_err(|error| format!("{}: {error}", file.display()))?;
    let said = command::run(Command::new(checker).arg(&file), &folder.join("porcupine.log"), CHECKED_WITHIN)?;
    let theirs: Vec<&str> = said.lines().collect();
    if theirs.len() != ours.len() {
        return Err(format!("{} verdicts about {} runs", theirs.len(), ours.len()));
    }
    let mut undecided = 0;
    for ((seed, refused), verdict) in ours.iter().zip(&theirs) {
        // It searches without leaving out worlds that another one covers: many calls that nobody answered are too much for it.
        if verdict.starts_with("UNDECIDED") {
            undecided += 1;
            continue;
        }
        let wanted = if *refused { "ILLEGAL" } else { "LINEARIZABLE" };
        if !verdict.starts_with(wanted) {
            return Err(format!("seed {seed}: {verdict}; our checker would say {wanted}"));
        }
    }
    if undecided * UNDECIDED_SHARE > ours.len() {
        return Err(format!("{undecided} of {} runs are not decided", ours.len()));
    }
    let refused = ours.iter().filter(|(_, refused)| *refused).count();
    if planted.is_some() && refused == 0 {
        return Err("no run with the planted bug was refused".into());
    }
    Ok(format!(
        "{} runs of {calls} calls, {refused} refused by both, {undecided} not decided by the other",
        ours.len()
    ))
}
