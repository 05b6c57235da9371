//! Dividing what an earlier start left among another number of shards: each token keeps exactly what counted for it.
use super::*;
use crate::fixture::meta;
use base::{Prng, shard_of};
use std::sync::atomic::Ordering;

fn holds(entry: &SstableEntry, token: Token) -> bool {
    entry.meta.covers(token)
        && (entry.ranges.is_empty() || entry.ranges.iter().any(|range| range.contains(token)))
}

/// The manifests that a start with a plan would write.
fn manifests_of(plans: &[ShardPlan]) -> Vec<ManifestState> {
    let shards = plans.len() as u16;
    let manifest = |(shard, plan): (usize, &ShardPlan)| {
        let mut state = ManifestState::new(ManifestHeader { incarnation: 1, shard: shard as u16, shards });
        for planned in &plan.sstables {
            let name = (planned.table, planned.entry.meta.generation);
            assert!(state.sstables.insert(name, planned.entry.clone()).is_none(), "one entry per shard");
        }
        state
    };
    plans.iter().enumerate().map(manifest).collect()
}

#[test]
fn every_token_keeps_what_counted_for_it_over_many_starts() {
    let mut prng = Prng::new(11);
    let table = TableId(1);
    for _ in 0..200 {
        let shards = 1 + prng.below(8) as u16;
        let mut manifests: Vec<ManifestState> = (0..shards)
            .map(|shard| ManifestState::new(ManifestHeader { incarnation: 1, shard, shards }))
            .collect();
        for (shard, manifest) in manifests.iter_mut().enumerate() {
            let own = interval_of(shard as u16, shards);
            let mut bounds = [0; 2].map(|_| {
                let width = (own.last.0 as i128 - own.first.0 as i128) as u64;
                Token((own.first.0 as i128 + i128::from(prng.below(width.max(1)))) as i64)
            });
            bounds.sort();
            let entry =
                SstableEntry { meta: meta(shard as u64 + 1, bounds[0], bounds[1]), ranges: Vec::new() };
            manifest.sstables.insert((table, shard as u64 + 1), entry);
        }
        for _ in 0..4 {
            // A shard that rewrote its share no longer holds the sstable.
            let rewritten = prng.below(manifests.len() as u64) as usize;
            if prng.chance(0.5) {
                manifests[rewritten].sstables.pop_first();
            }
            let next = 1 + prng.below(8) as u16;
            let mut plans: Vec<ShardPlan> = (0..next).map(|_| ShardPlan::default()).collect();
            plan_sstables(&manifests, next, &mut plans);
            let after = manifests_of(&plans);
            let old = manifests.len() as u16;
            for _ in 0..200 {
                let token = Token(prng.u64() as i64);
                for generation in 1..=u64::from(shards) {
                    let held = |manifests: &[ManifestState], shards: u16| {
                        let manifest = &manifests[shard_of(token, shards) as usize];
                        manifest.sstables.get(&(table, generation)).is_some_and(|entry| holds(entry, token))
                    };
                    assert_eq!(held(&manifests, old), held(&after, next), "{token} in {generation}");
                }
            }
            let count = |holders: &Arc<AtomicU32>| holders.load(Ordering::Relaxed) as usize;
            for planned in plans.iter().flat_map(|plan| &plan.sstables) {
                let meta = &planned.entry.meta;
                let sharing = after
                    .iter()
                    .filter(|state| state.sstables.contains_key(&(table, meta.generation)))
                    .count();
                assert_eq!(planned.holders.as_ref().map_or(1, count), sharing);
                // Who owns tokens of a file knows of it as long as somebody holds more than counts for him.
                let first = u32::from(shard_of(meta.first_token, next));
                let last = u32::from(shard_of(meta.last_token, next));
                let is_own = first == last && planned.entry.ranges.is_empty();
                assert_eq!(planned.holders.is_none(), is_own);
                let told = |plan: &ShardPlan, holders: &Arc<AtomicU32>| {
                    let shares = plan.sstables.iter().filter_map(|planned| planned.holders.as_ref());
                    let spent = plan.spent.iter().map(|(_, holders)| holders);
                    shares.chain(spent).filter(|known| Arc::ptr_eq(known, holders)).count()
                };
                let Some(holders) = &planned.holders else { continue };
                for (shard, plan) in (0..).zip(&plans) {
                    let expected = usize::from((first..=last).contains(&shard));
                    assert_eq!(told(plan, holders), expected, "shard {shard} of {next}");
                }
            }
            manifests = after;
        }
    }
}

#[test]
fn ranges_are_joined_where_they_touch() {
    let range = |first, last| TokenRange::new(Token(first), Token(last));
    let joined = union(vec![range(5, 9), range(0, 3), range(4, 4), range(20, 30), range(25, 40)]);
    assert_eq!(joined, [range(0, 9), range(20, 40)]);
    let edge = union(vec![range(i64::MAX, i64::MAX), range(i64::MIN, i64::MAX - 1)]);
    assert_eq!(edge, [TokenRange::ALL]);
}

#[test]
fn the_node_file_is_checked() {
    let node = NodeFile { incarnation: 7, shards: 3 };
    let bytes = node.encode();
    assert_eq!(NodeFile::decode(&bytes), Some(node));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(NodeFile::decode(&damaged), None);
    }
    assert_eq!(NodeFile::decode(&bytes[..10]), None);
}
