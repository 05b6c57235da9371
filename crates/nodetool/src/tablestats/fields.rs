//! One table's lines, and the same as a tree.

use crate::java;
use crate::rest::{Histogram, Table};
use crate::size;
use crate::tree::Tree;
use std::fmt::Write;

/// Sstables that a level of the levelled strategy should hold: 4 in the first, then powers of its fan-out.
fn level_limit(level: usize) -> u64 {
    if level == 0 { 4 } else { 10u64.saturating_pow(u32::try_from(level).unwrap_or(u32::MAX)) }
}

fn levels(table: &Table) -> Vec<String> {
    let level = |(level, count): (usize, &u64)| {
        let limit = level_limit(level).saturating_mul(table.shards.max(1));
        if *count > limit { format!("{count}/{limit}") } else { count.to_string() }
    };
    table.sstables_per_level.iter().enumerate().map(level).collect()
}

fn level_bytes(table: &Table) -> Vec<String> {
    table.sstable_bytes_per_level.iter().map(u64::to_string).collect()
}

fn millis(latency: &Histogram) -> String {
    let mean = if latency.count == 0 { f64::NAN } else { latency.mean / 1000.0 };
    java::fixed(mean, 3)
}

fn read_write_ratio(table: &Table) -> f64 {
    if table.write.count > 0 { table.read.count as f64 / table.write.count as f64 } else { 0.0 }
}

/// Hundredths of a percent at most.
fn percent(table: &Table) -> f64 {
    (table.percent_repaired * 100.0).round() / 100.0
}

fn slice_max(histogram: &Histogram) -> u64 {
    if histogram.count == 0 { 0 } else { histogram.max as u64 }
}

/// The mean of nothing is not a number.
fn slice_mean(histogram: &Histogram) -> f64 {
    if histogram.count == 0 { f64::NAN } else { histogram.mean }
}

fn ratio(value: f64) -> String {
    java::fixed(if value.is_nan() { 0.0 } else { value }, 5)
}

/// Prints a table under a name, every line behind `indent`, with an empty line at its end.
pub fn print(table: &Table, name: &str, indent: &str, human: bool, locations: bool, out: &mut String) {
    let bytes = |value: u64| size::chosen(value, human);
    let mut line = |label: &str, value: String| {
        let _ = writeln!(out, "{indent}{label}: {value}");
    };
    line("Table", name.to_owned());
    line("SSTable count", table.sstable_count.to_string());
    line("Old SSTable count", table.old_sstable_count.to_string());
    line("Max SSTable size", size::memory(table.max_sstable_bytes));
    if !table.sstables_per_level.is_empty() {
        line("SSTables in each level", format!("[{}]", levels(table).join(", ")));
        line("SSTable bytes in each level", format!("[{}]", level_bytes(table).join(", ")));
    }
    line("Space used (live)", bytes(table.space_live));
    line("Space used (total)", bytes(table.space_total));
    line("Space used by snapshots (total)", bytes(table.space_snapshots));
    line("Off heap memory used (total)", bytes(table.off_heap_bytes()));
    line("SSTable Compression Ratio", java::fixed(table.compression_ratio, 5));
    line("Number of partitions (estimate)", table.partitions_estimate.to_string());
    line("Memtable cell count", table.memtable_cells.to_string());
    line("Memtable data size", bytes(table.memtable_data_bytes));
    line("Memtable off heap memory used", bytes(table.memtable_off_heap_bytes));
    line("Memtable switch count", table.memtable_switches.to_string());
    line("Speculative retries", table.speculative_retries.to_string());
    line("Local read count", table.read.count.to_string());
    line("Local read latency", format!("{} ms", millis(&table.read)));
    line("Local write count", table.write.count.to_string());
    line("Local write latency", format!("{} ms", millis(&table.write)));
    line("Local read/write ratio", ratio(read_write_ratio(table)));
    line("Pending flushes", table.pending_flushes.to_string());
    line("Percent repaired", java::double(percent(table)));
    line("Bytes repaired", size::memory(table.bytes_repaired));
    line("Bytes unrepaired", size::memory(table.bytes_unrepaired));
    line("Bytes pending repair", size::memory(table.bytes_pending_repair));
    line("Bloom filter false positives", table.bloom_false_positives.to_string());
    line("Bloom filter false ratio", ratio(table.bloom_false_ratio));
    line("Bloom filter space used", bytes(table.bloom_space));
    line("Bloom filter off heap memory used", bytes(table.bloom_off_heap));
    line("Index summary off heap memory used", bytes(table.index_summary_off_heap));
    line("Compression metadata off heap memory used", bytes(table.compression_metadata_off_heap));
    line("Compacted partition minimum bytes", table.partition_min.to_string());
    line("Compacted partition maximum bytes", table.partition_max.to_string());
    line("Compacted partition mean bytes", table.partition_mean.to_string());
    let (live, dead) = (&table.live_per_slice, &table.tombstones_per_slice);
    line("Average live cells per slice (last five minutes)", java::double(slice_mean(live)));
    line("Maximum live cells per slice (last five minutes)", slice_max(live).to_string());
    line("Average tombstones per slice (last five minutes)", java::double(slice_mean(dead)));
    line("Maximum tombstones per slice (last five minutes)", slice_max(dead).to_string());
    line("Droppable tombstone ratio", ratio(table.droppable_tombstone_ratio));
    if locations {
        line("SSTables in correct location", "true".into());
    }
    out.push('\n');
}

/// The same for JSON and YAML, names in the order of Cassandra's map. What belongs to secondary indexes and to windows of
/// time is there because readers of the JSON expect it; there are none.
pub fn tree(table: &Table, human: bool, locations: bool) -> Tree {
    let bytes = |value: u64| Tree::text(size::chosen(value, human));
    let texts = |values: Vec<String>| Tree::List(values.into_iter().map(Tree::Text).collect());
    let mut entries = vec![
        ("twcs", Tree::Null),
        ("sai_total_queryable_index_ratio", Tree::Null),
        ("memtable_switch_count", Tree::count(table.memtable_switches)),
        ("sai_post_filtering_read_latency", Tree::text("0.000")),
        ("speculative_retries", Tree::count(table.speculative_retries)),
        ("average_live_cells_per_slice_last_five_minutes", Tree::Double(slice_mean(&table.live_per_slice))),
        ("local_read_latency_ms", Tree::text(millis(&table.read))),
        ("sstable_count", Tree::count(table.sstable_count)),
        ("compacted_partition_minimum_bytes", Tree::count(table.partition_min)),
        ("sstable_compression_ratio", Tree::Double(table.compression_ratio)),
        ("max_sstable_size", Tree::count(table.max_sstable_bytes)),
        ("sai_index_segments_hit", Tree::Double(0.0)),
        ("memtable_off_heap_memory_used", bytes(table.memtable_off_heap_bytes)),
        ("bloom_filter_space_used", bytes(table.bloom_space)),
        ("compacted_partition_maximum_bytes", Tree::count(table.partition_max)),
        ("sai_rows_filtered", Tree::Double(0.0)),
        ("droppable_tombstone_ratio", Tree::text(ratio(table.droppable_tombstone_ratio))),
        ("compression_metadata_off_heap_memory_used", bytes(table.compression_metadata_off_heap)),
        ("bloom_filter_false_ratio", Tree::text(ratio(table.bloom_false_ratio))),
        ("percent_repaired", Tree::Double(percent(table))),
        (
            "average_tombstones_per_slice_last_five_minutes",
            Tree::Double(slice_mean(&table.tombstones_per_slice)),
        ),
        ("top_tombstone_partitions", Tree::Map(Vec::new())),
        ("sai_total_query_timeouts", Tree::Int(0)),
        ("bloom_filter_off_heap_memory_used", bytes(table.bloom_off_heap)),
        ("bytes_pending_repair", Tree::count(table.bytes_pending_repair)),
        (
            "maximum_tombstones_per_slice_last_five_minutes",
            Tree::count(slice_max(&table.tombstones_per_slice)),
        ),
        ("memtable_cell_count", Tree::count(table.memtable_cells)),
        ("memtable_data_size", bytes(table.memtable_data_bytes)),
        ("local_write_latency_ms", Tree::text(millis(&table.write))),
        ("pending_flushes", Tree::count(table.pending_flushes)),
        ("local_read_count", Tree::count(table.read.count)),
        ("top_size_partitions", Tree::Map(Vec::new())),
        ("bloom_filter_false_positives", Tree::count(table.bloom_false_positives)),
        ("off_heap_memory_used_total", bytes(table.off_heap_bytes())),
        ("index_summary_off_heap_memory_used", bytes(table.index_summary_off_heap)),
        ("sai_local_query_latency_ms", Tree::text("0.000")),
        ("sstables_in_each_level", texts(levels(table))),
        ("sstable_bytes_in_each_level", texts(level_bytes(table))),
        ("space_used_total", bytes(table.space_total)),
        ("local_write_count", Tree::count(table.write.count)),
        ("sai_sstable_indexes_hit", Tree::Double(0.0)),
        ("local_read_write_ratio", Tree::text(ratio(read_write_ratio(table)))),
        ("number_of_partitions_estimate", Tree::count(table.partitions_estimate)),
        ("sai_disk_used_bytes", Tree::Null),
        ("bytes_repaired", Tree::count(table.bytes_repaired)),
        ("maximum_live_cells_per_slice_last_five_minutes", Tree::count(slice_max(&table.live_per_slice))),
        ("space_used_live", bytes(table.space_live)),
        ("compacted_partition_mean_bytes", Tree::count(table.partition_mean)),
        ("old_sstable_count", Tree::count(table.old_sstable_count)),
        ("bytes_unrepaired", Tree::count(table.bytes_unrepaired)),
        ("space_used_by_snapshots_total", bytes(table.space_snapshots)),
    ];
    if locations {
        // Where a map of this size puts it.
        entries.push(("sstables_in_correct_location", Tree::text("true")));
    }
    Tree::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
