//! `cargo x bench mesh`: what a call from one shard to another costs, asleep and spinning, on io_uring and epoll.
//!
//! Two shards, each pinned to a processor; some tasks of the first call the second in a loop. The processor time of an
//! asleep pair holds the wake of a sleeping core, which is the machine's more than ours: a virtual one takes longest.

use std::fmt::Write as _;

use crate::{Outcome, house, machine};

/// Rounds of each row; the median is shown.
const ROUNDS: usize = 5;

/// Runs the bench and writes its result.
pub fn mesh(rest: &[String]) -> Outcome {
    let smoke = rest.iter().any(|word| word == "--smoke");
    let binary = house::example(rest, "runtime", "calls")?;
    let (rounds, millis) = if smoke { (1, "100") } else { (ROUNDS, "1000") };
    let mut text = format!(
        "# bench mesh\n\n{}\ncommit {}; two shards, pinned; median of {rounds} rounds of {millis} ms.\n\n\
         | shards talk by | idle shard | callers | one call, ns | processor time a call, ns |\n|---|---|---:|---:|---:|\n",
        machine::shape(),
        machine::commit(),
    );
    for reactor in ["uring", "epoll"] {
        for idle in ["sleep", "spin"] {
            for callers in ["1", "16", "256"] {
                let mut measured = (0..rounds)
                    .map(|_| {
                        let words = [callers, millis, reactor, idle];
                        two_numbers(&house::output(house::command(&binary).args(words))?)
                    })
                    .collect::<Result<Vec<_>, String>>()?;
                measured.sort_unstable();
                let wall = measured[measured.len() / 2].0;
                measured.sort_unstable_by_key(|(_, cpu)| *cpu);
                let cpu = measured[measured.len() / 2].1;
                let idle = if idle == "sleep" { "sleeps" } else { "spins, then sleeps" };
                writeln!(text, "| {reactor} | {idle} | {callers} | {wall} | {cpu} |").ok();
            }
        }
    }
    println!("{text}");
    if smoke { Ok("bench result: ok. mesh works".into()) } else { machine::record("mesh", &text) }
}

fn two_numbers(line: &str) -> Result<(u64, u64), String> {
    let mut numbers = line.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(wall)), Some(Ok(cpu))) => Ok((wall, cpu)),
        _ => Err(format!("not two numbers: {line}")),
    }
}
