//! A directory says what an ordered map says, whatever the tokens: uniform, crowded, equal, outside of its range.
use super::*;
use base::Prng;
use std::collections::BTreeMap;

type Model = BTreeMap<(i64, u32), u32>;

/// Values are keys here: the key of value `v` is `v / 4`, so that a key can have another value.
fn order(a: u32, b: u32) -> Ordering {
    (a / 4).cmp(&(b / 4))
}

fn insert(directory: &mut TokenDirectory, model: &mut Model, token: i64, key: u32) {
    let known = directory.get(Token(token), |value| (value / 4).cmp(&key));
    assert_eq!(known, model.get(&(token, key)).copied());
    if known.is_none() {
        directory.insert(Token(token), key * 4, order);
        model.insert((token, key), key * 4);
    }
}

fn walk(directory: &TokenDirectory) -> Vec<(i64, u32)> {
    let (mut all, mut batch) = (Vec::new(), Batch::new());
    let mut next = directory.batch_behind(Token(i64::MIN), |_| true, order, &mut batch);
    loop {
        all.extend(batch.iter().map(|(token, value)| (token.0, *value)));
        next = match next {
            Next::End => return all,
            Next::At(place) => directory.batch_at(place, order, &mut batch),
            Next::Behind => {
                let last = *batch.last().expect("a walk that goes on gave something");
                let behind = |value| order(value, last.1) == Ordering::Greater;
                directory.batch_behind(last.0, behind, order, &mut batch)
            }
        };
    }
}

fn check(directory: &TokenDirectory, model: &Model) {
    assert_eq!(directory.len(), model.len());
    let expected: Vec<(i64, u32)> = model.iter().map(|((token, _), value)| (*token, *value)).collect();
    assert_eq!(walk(directory), expected);
    assert_eq!(directory.bytes(), counted(directory));
    for (token, value) in expected {
        let token = Token(token);
        directory.prefetch_node(token);
        directory.prefetch_entry(token);
        directory.prefetch_bucket(token);
        // Another key of that token will do; of crowded tokens nothing is told.
        let peeked = directory.peek(token);
        let is_of_token = |peeked| model.iter().any(|((of, _), value)| (*of, *value) == (token.0, peeked));
        assert!(peeked.is_none_or(|peeked| peeked == value || is_of_token(peeked)));
    }
}

fn counted(directory: &TokenDirectory) -> usize {
    let nodes: usize = directory.nodes.iter().map(|node| node.entries.capacity() * 4).sum();
    let runs = directory.runs.iter().map(|run| {
        let blocks: usize = run.blocks.iter().map(|block| block.capacity() * 16).sum();
        blocks + run.blocks.capacity() * 24
    });
    let slabs = directory.nodes.bytes() + directory.buckets.bytes() + directory.runs.bytes();
    nodes + runs.sum::<usize>() + slabs + (directory.free.capacity() + directory.free_nodes.capacity()) * 4
}

/// Tokens of one kind: uniform, crowded in a small interval, few different ones, powers of two and their neighbours.
fn token(prng: &mut Prng, kind: u64) -> i64 {
    match kind {
        0 => prng.u64() as i64,
        1 => (7 << 40) + prng.below(100_000) as i64,
        2 => prng.below(3) as i64 - 1,
        _ => (1i64 << prng.below(64)).wrapping_add(prng.below(3) as i64 - 1),
    }
}

#[test]
fn it_says_what_an_ordered_map_says() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let ranges = [
            TokenRange::ALL,
            TokenRange::new(Token(1000), Token(1 << 50)),
            TokenRange::new(Token(i64::MIN), Token(-1)),
            TokenRange::new(Token(5), Token(5)),
        ];
        let mut directory = TokenDirectory::new(ranges[seed as usize % 4]);
        assert_eq!(directory.bytes(), 0, "an empty directory takes nothing");
        let mut model = Model::new();
        for step in 0..6_000u64 {
            let kind = if seed < 4 { seed } else { prng.below(4) };
            let (token, key) = (token(&mut prng, kind), prng.below(300) as u32);
            insert(&mut directory, &mut model, token, key);
            if prng.below(3) == 0
                && let Some((&(token, key), &value)) = model.range((token, 0)..).next()
            {
                let compare = |value: u32| (value / 4).cmp(&key);
                if prng.below(2) == 0 {
                    assert_eq!(directory.remove(Token(token), compare), Some(value));
                    model.remove(&(token, key));
                    assert_eq!(directory.remove(Token(token), compare), None);
                } else {
                    assert_eq!(directory.replace(Token(token), value ^ 1, compare), Some(value));
                    model.insert((token, key), value ^ 1);
                }
            }
            if step % 1500 == 0 {
                check(&directory, &model);
            }
        }
        check(&directory, &model);
        for (token, key) in model.keys() {
            assert!(directory.remove(Token(*token), |value| (value / 4).cmp(key)).is_some());
        }
        assert!(directory.is_empty());
        assert_eq!(walk(&directory), []);
    }
}

#[test]
fn a_walk_begins_anywhere() {
    let mut directory = TokenDirectory::new(TokenRange::ALL);
    let mut model = Model::new();
    let mut prng = Prng::new(3);
    for _ in 0..2000 {
        let kind = prng.below(3);
        let token = token(&mut prng, kind);
        let key = prng.below(40) as u32;
        insert(&mut directory, &mut model, token, key);
    }
    for _ in 0..2000 {
        let kind = prng.below(4);
        let (from, key) = (token(&mut prng, kind), prng.below(40) as u32);
        let mut batch = Batch::new();
        let behind = |value: u32| value / 4 > key;
        directory.batch_behind(Token(from), behind, order, &mut batch);
        let expected = model.range((from, key + 1)..).map(|((token, _), value)| (*token, *value));
        let count = batch.len().max(1);
        let got: Vec<(i64, u32)> = batch.into_iter().map(|(token, value)| (token.0, value)).collect();
        assert_eq!(got, expected.take(count).collect::<Vec<_>>());
    }
}

#[test]
fn chosen_tokens_cost_memory_and_time_in_proportion() {
    // As many keys of one token, of neighbouring tokens, of tokens that share all but a few high bits.
    for kind in 0..3 {
        let mut directory = TokenDirectory::new(TokenRange::ALL);
        let count = 40_000u32;
        for key in 0..count {
            let token = match kind {
                0 => 42,
                1 => i64::from(key) * 3,
                _ => (i64::from(key % 64) << 57) + i64::from(key / 16),
            };
            directory.insert(Token(token), key * 4, order);
        }
        assert_eq!(walk(&directory).len(), count as usize);
        let each = directory.bytes() / count as usize;
        assert!(each < 80, "{each} bytes per entry");
    }
}

#[test]
fn uniform_tokens_cost_about_twenty_bytes_and_a_narrow_range_no_more() {
    for range in [TokenRange::ALL, TokenRange::new(Token(77), Token(77 + (1 << 40)))] {
        let mut directory = TokenDirectory::new(range);
        let mut prng = Prng::new(1);
        let width = (range.last.0 as u64).wrapping_sub(range.first.0 as u64);
        for key in 0..200_000u32 {
            let token = range.first.0.wrapping_add((prng.u64() % width) as i64);
            directory.insert(Token(token), key * 4, order);
        }
        let each = directory.bytes() as f64 / 200_000.0;
        assert!((13.0..24.0).contains(&each), "{each} bytes per entry");
        assert!(directory.runs.iter().next().is_none(), "hashes do not crowd");
    }
}

#[test]
fn what_is_taken_out_makes_room() {
    let mut directory = TokenDirectory::new(TokenRange::ALL);
    let mut prng = Prng::new(9);
    let tokens: Vec<i64> = (0..50_000).map(|_| prng.u64() as i64).collect();
    tokens.iter().for_each(|token| directory.insert(Token(*token), 4, order));
    let full = directory.bytes();
    for _ in 0..3 {
        for token in &tokens {
            assert!(directory.remove(Token(*token), |_| Ordering::Equal).is_some());
        }
        let free = directory.free.len();
        assert!(free > 4000, "buckets are joined: {free}");
        tokens.iter().for_each(|token| directory.insert(Token(*token), 4, order));
    }
    assert!(directory.bytes() < full + full / 10, "{} after {full}", directory.bytes());
}

#[test]
fn a_peek_tells_what_is_there() {
    let (mut directory, mut model) = (TokenDirectory::new(TokenRange::ALL), Model::new());
    assert_eq!(directory.peek(Token(7)), None, "of nothing, nothing");
    directory.prefetch_node(Token(7));
    directory.prefetch_entry(Token(7));
    directory.prefetch_bucket(Token(7));
    let mut prng = Prng::new(3);
    for key in 0..100_000 {
        insert(&mut directory, &mut model, prng.u64() as i64, key);
    }
    let told = model.iter().filter(|((token, _), value)| directory.peek(Token(*token)) == Some(**value));
    assert_eq!(told.count(), model.len(), "uniform tokens are never crowded");
    assert_eq!(directory.peek(Token(prng.u64() as i64)), None);
}

#[test]
fn marks_stay_with_their_entries() {
    let (mut directory, mut model) = (TokenDirectory::new(TokenRange::ALL), Model::new());
    let mut marked = std::collections::BTreeSet::new();
    let mut prng = Prng::new(5);
    assert!(!directory.is_any_marked());
    for round in 0..60_000u32 {
        let some = model.range((prng.u64() as i64, 0)..).next().map(|(at, _)| *at);
        match (prng.below(8), some) {
            (0, Some((token, key))) => {
                let compare = |value: u32| (value / 4).cmp(&key);
                assert_eq!(directory.get_marked(Token(token), compare), Some(model[&(token, key)]));
                marked.insert(token);
            }
            // More come than go, and later fewer.
            (1..3, Some((token, key))) | (3..6, Some((token, key))) if round % 20_000 > 10_000 => {
                directory.remove(Token(token), |value| (value / 4).cmp(&key)).expect("it is there");
                model.remove(&(token, key));
                marked.remove(&token);
            }
            (1, Some((token, key))) => {
                directory.replace(Token(token), key * 4 + 1, |value| (value / 4).cmp(&key));
                model.insert((token, key), key * 4 + 1);
            }
            _ => insert(&mut directory, &mut model, prng.u64() as i64, round),
        }
    }
    assert!(directory.is_any_marked() && marked.len() > 100 && directory.runs.bytes() == 0);
    for (token, key) in model.keys() {
        let found = directory.is_marked(Token(*token), |value| (value / 4).cmp(key));
        assert_eq!(found, marked.contains(token));
    }
    assert!(!directory.is_marked(Token(prng.u64() as i64), |_| Ordering::Equal));
}
