//! M7: the token directory beside other indexes of tokens.
//!
//! All map tokens to numbers and are asked the same: insert all, find each, walk all in ring order. A hash table has no
//! order: its walk is a sort. Why no other is here: `docs/decisions/0014-token-directory.md`.

use super::{Bench, Case, boxed};
use crate::meter::{Meter, median};
use base::{Prng, Token};
use mutation::TokenRange;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hint::black_box;
use storage::memory::directory::{Batch, Next, TokenDirectory};

/// The cases of this module.
pub const CASES: &[Case] =
    &[Case { name: "M7", what: "indexes of tokens: directory, tree, hash", run: |bench| boxed(m7(bench)) }];

/// What is compared.
trait Index {
    fn insert(&mut self, token: i64, value: u32);
    fn get(&self, token: i64) -> Option<u32>;
    /// The sum of the values, each times its place in the order.
    fn walk(&self) -> u64;
}

impl Index for TokenDirectory {
    fn insert(&mut self, token: i64, value: u32) {
        TokenDirectory::insert(self, Token(token), value, |a, b| a.cmp(&b));
    }

    fn get(&self, token: i64) -> Option<u32> {
        TokenDirectory::get(self, Token(token), |_| Ordering::Equal)
    }

    fn walk(&self) -> u64 {
        let (mut sum, mut place, mut batch) = (0u64, 0u64, Batch::new());
        let mut next = self.batch_behind(Token(i64::MIN), |_| true, |a, b| a.cmp(&b), &mut batch);
        loop {
            for (_, value) in &batch {
                sum = sum.wrapping_add(place * u64::from(*value));
                place += 1;
            }
            next = match next {
                Next::End => return sum,
                Next::At(place) => self.batch_at(place, |a, b| a.cmp(&b), &mut batch),
                Next::Behind => {
                    let (token, last) = batch.last().copied().unwrap_or((Token(i64::MAX), 0));
                    self.batch_behind(token, |value| last < value, |a, b| a.cmp(&b), &mut batch)
                }
            };
        }
    }
}

fn weighed(values: impl Iterator<Item = u32>) -> u64 {
    values.zip(0u64..).fold(0, |sum, (value, place)| sum.wrapping_add(place * u64::from(value)))
}

impl Index for BTreeMap<i64, u32> {
    fn insert(&mut self, token: i64, value: u32) {
        BTreeMap::insert(self, token, value);
    }

    fn get(&self, token: i64) -> Option<u32> {
        BTreeMap::get(self, &token).copied()
    }

    fn walk(&self) -> u64 {
        weighed(self.values().copied())
    }
}

impl Index for base::HashMap<i64, u32> {
    fn insert(&mut self, token: i64, value: u32) {
        base::HashMap::insert(self, token, value);
    }

    fn get(&self, token: i64) -> Option<u32> {
        base::HashMap::get(self, &token).copied()
    }

    fn walk(&self) -> u64 {
        let mut all: Vec<(i64, u32)> = self.iter().map(|(token, value)| (*token, *value)).collect();
        all.sort_unstable();
        weighed(all.into_iter().map(|(_, value)| value))
    }
}

async fn m7(bench: Bench) -> Result<(), String> {
    let mut random = Prng::new(7);
    let uniform =
        |count: u64, random: &mut Prng| -> Vec<i64> { (0..count).map(|_| random.u64() as i64).collect() };
    let small = uniform(bench.options.scaled(100_000), &mut random);
    let large = uniform(bench.options.scaled(4_000_000), &mut random);
    // Chosen by somebody who inverts the hash: neighbours, in no order.
    let count = bench.options.scaled(1_000_000) as i64;
    let crowded: Vec<i64> = (0..count).map(|n| 42 + n.wrapping_mul(0x9e37_79b1) % count * 3).collect();
    for (what, tokens) in [("uniform", &small), ("uniform", &large), ("crowded", &crowded)] {
        let what = |index: &str| format!("{} {what} tokens, {index}", tokens.len());
        measure(&bench, &what("directory"), tokens, || TokenDirectory::new(TokenRange::ALL))?;
        measure(&bench, &what("BTreeMap"), tokens, BTreeMap::new)?;
        measure(&bench, &what("hash, walked by a sort"), tokens, base::HashMap::default)?;
        let longest = longest_insert(tokens, || TokenDirectory::new(TokenRange::ALL));
        let mut directory = TokenDirectory::new(TokenRange::ALL);
        tokens.iter().zip(0..).for_each(|(token, value)| Index::insert(&mut directory, *token, value));
        let each = directory.bytes() as f64 / tokens.len() as f64;
        bench.fact(&what("directory"), &format!("{each:.1} B each; longest insert {longest} us"));
        let longest = longest_insert(tokens, base::HashMap::<i64, u32>::default);
        bench.fact(&what("hash"), &format!("longest insert {longest} us"));
    }
    Ok(())
}

/// Microseconds on the clock, of the best of some runs: anything may come between.
fn longest_insert<I: Index>(tokens: &[i64], make: impl Fn() -> I) -> u128 {
    let longest = |_| {
        let mut index = make();
        let inserts = tokens.iter().zip(0..).map(|(token, value)| {
            let clock = std::time::Instant::now();
            index.insert(*token, value);
            clock.elapsed().as_micros()
        });
        inserts.max().unwrap_or(0)
    };
    (0..5).map(longest).min().unwrap_or(0)
}

fn measure<I: Index>(bench: &Bench, what: &str, tokens: &[i64], make: impl Fn() -> I) -> Result<(), String> {
    let (mut inserts, mut gets, mut walks) = (Vec::new(), Vec::new(), Vec::new());
    let count = tokens.len() as u64;
    let mut order: Vec<i64> = tokens.to_vec();
    let mut random = Prng::new(1);
    (1..order.len()).for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize));
    let mut sum = None;
    for _ in 0..bench.options.rounds {
        let mut index = make();
        let meter = Meter::start();
        tokens.iter().zip(0..).for_each(|(token, value)| index.insert(*token, value));
        inserts.push(meter.stop(count));
        let meter = Meter::start();
        let found = order.iter().filter(|token| black_box(index.get(**token)).is_some()).count();
        gets.push(meter.stop(count));
        if found != tokens.len() {
            return Err(format!("{what}: {found} of {count} found"));
        }
        let meter = Meter::start();
        let walked = index.walk();
        walks.push(meter.stop(count));
        if sum.replace(walked).is_some_and(|before| before != walked) {
            return Err(format!("{what}: two walks differ"));
        }
    }
    bench.cost(&format!("insert: {what}"), median(inserts));
    bench.cost(&format!("find: {what}"), median(gets));
    bench.cost(&format!("walk: {what}"), median(walks));
    Ok(())
}
