//! Rows of `system.size_estimates`, `system.table_estimates` and `system.compaction_history`.

use super::Source;
use crate::system::row::Row;
use std::collections::BTreeMap;
use storage::TableStats;
use topology::{Member, Snapshot};

/// A range of tokens this node is the first replica of, and its share of all tokens.
#[derive(Debug, PartialEq)]
struct Primary {
    /// Not in the range.
    after: i64,
    last: i64,
    share: f64,
}

/// The ranges that end at this node's tokens.
fn primaries(snapshot: &Snapshot) -> Vec<Primary> {
    let tokens = |member: &Member| member.tokens.iter().map(|token| token.0).collect::<Vec<i64>>();
    let in_ring = snapshot.members().iter().filter(|member| member.state.is_read());
    let mut ring: Vec<i64> = in_ring.flat_map(tokens).collect();
    ring.sort_unstable();
    ring.dedup();
    let own = tokens(snapshot.local());
    if ring.is_empty() {
        return Vec::new();
    }
    let primary = |last: i64| {
        let at = ring.partition_point(|token| *token < last);
        let after = if at == 0 { ring[ring.len() - 1] } else { ring[at - 1] };
        let tokens = last.wrapping_sub(after) as u64;
        // One token owns the whole ring.
        let share = if tokens == 0 { 1.0 } else { tokens as f64 / 2f64.powi(64) };
        Primary { after, last, share }
    };
    own.into_iter().map(primary).collect()
}

/// What connectors that split a table by ranges want to know: keys are spread evenly, so a range holds its share of them.
pub fn estimates(source: &Source<'_>, types: &[&str]) -> Vec<Row> {
    let ranges = primaries(source.snapshot);
    let row = |stats: &TableStats, range: &Primary, range_type: &str| {
        let mean = stats.partition_sizes.mean().unwrap_or(0.0);
        let row = Row::new()
            .text("keyspace_name", &stats.keyspace)
            .text("table_name", &stats.table)
            .text("range_start", &range.after.to_string())
            .text("range_end", &range.last.to_string())
            .bigint("mean_partition_size", mean.round() as i64)
            .bigint("partitions_count", (stats.partitions as f64 * range.share).round() as i64);
        if range_type.is_empty() { row } else { row.text("range_type", range_type) }
    };
    let spread = source.live.tables.iter().filter(|stats| stats.keyspace != "system");
    spread
        .flat_map(|stats| ranges.iter().map(move |range| (stats, range)))
        .flat_map(|(stats, range)| types.iter().map(move |range_type| row(stats, range, range_type)))
        .collect()
}

/// Finished compactions.
pub fn compaction_history(source: &Source<'_>) -> Vec<Row> {
    let row = |record: &storage::CompactionRecord| {
        let mut merged = (record.merged.len() as i32).to_be_bytes().to_vec();
        for (inputs, partitions) in &record.merged {
            merged.extend_from_slice(&4i32.to_be_bytes());
            merged.extend_from_slice(&(*inputs as i32).to_be_bytes());
            merged.extend_from_slice(&8i32.to_be_bytes());
            merged.extend_from_slice(&(*partitions as i64).to_be_bytes());
        }
        let properties = BTreeMap::from([("compaction_type".to_string(), record.kind.name())]);
        Row::new()
            .uuid("id", record.id)
            .bigint("bytes_in", record.bytes_in as i64)
            .bigint("bytes_out", record.bytes_out as i64)
            .text("columnfamily_name", &record.table)
            .bigint("compacted_at", record.at_ms)
            .map("compaction_properties", &properties)
            .text("keyspace_name", &record.keyspace)
            .bytes("rows_merged", merged)
    };
    source.live.history.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::contents::tests::{member, snapshot};

    fn node(tokens: &[i64], of_peer: &[i64]) -> Snapshot {
        let peer = (!of_peer.is_empty()).then(|| member(2, of_peer));
        snapshot([member(1, tokens)].into_iter().chain(peer).collect())
    }

    #[test]
    fn one_token_owns_the_ring() {
        assert_eq!(primaries(&node(&[7], &[])), [Primary { after: 7, last: 7, share: 1.0 }]);
    }

    #[test]
    fn ranges_begin_at_the_token_before_whoever_has_it() {
        let found = primaries(&node(&[1 << 62, i64::MIN], &[0]));
        let expected = [
            Primary { after: 1 << 62, last: i64::MIN, share: 0.25 },
            Primary { after: 0, last: 1 << 62, share: 0.25 },
        ];
        assert_eq!(found, expected);
    }
}
