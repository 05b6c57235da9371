//! The orders that `tablestats -s` knows: largest first, equal ones by name.

use crate::rest::{Histogram, Table};
use std::cmp::Ordering;

/// The words after `-s`, as Cassandra lists them.
pub const KEYS: [&str; 47] = [
    "average_live_cells_per_slice_last_five_minutes",
    "average_tombstones_per_slice_last_five_minutes",
    "bloom_filter_false_positives",
    "bloom_filter_false_ratio",
    "bloom_filter_off_heap_memory_used",
    "bloom_filter_space_used",
    "compacted_partition_maximum_bytes",
    "compacted_partition_mean_bytes",
    "compacted_partition_minimum_bytes",
    "compression_metadata_off_heap_memory_used",
    "dropped_mutations",
    "full_name",
    "index_summary_off_heap_memory_used",
    "local_read_count",
    "local_read_latency_ms",
    "local_write_latency_ms",
    "maximum_live_cells_per_slice_last_five_minutes",
    "maximum_tombstones_per_slice_last_five_minutes",
    "memtable_cell_count",
    "memtable_data_size",
    "memtable_off_heap_memory_used",
    "memtable_switch_count",
    "number_of_partitions_estimate",
    "off_heap_memory_used_total",
    "pending_flushes",
    "percent_repaired",
    "read_latency",
    "reads",
    "space_used_by_snapshots_total",
    "space_used_live",
    "space_used_total",
    "sstable_compression_ratio",
    "sstable_count",
    "table_name",
    "write_latency",
    "writes",
    "max_sstable_size",
    "local_read_write_ratio",
    "twcs_max_duration",
    "sai_local_query_latency_ms",
    "sai_post_filtering_read_latency",
    "sai_disk_used_bytes",
    "sai_sstable_indexes_hit",
    "sai_index_segments_hit",
    "sai_rows_filtered",
    "sai_total_query_timeouts",
    // The last of Cassandra's, whose tables have no such indexes here either.
    "sai_total_queryable_index_ratio",
];

/// Compares two tables by one of [`KEYS`].
pub fn compare(key: &str, left: &Table, right: &Table) -> Ordering {
    match key {
        "full_name" => right.full_name().cmp(&left.full_name()),
        "table_name" => right.table.cmp(&left.table),
        _ => {
            let order = number(key, right).total_cmp(&number(key, left));
            order.then_with(|| left.full_name().cmp(&right.full_name()))
        }
    }
}

/// What a key counts; what is not a number counts as zero.
fn number(key: &str, table: &Table) -> f64 {
    let mean = |histogram: &Histogram| histogram.mean;
    let value = match key {
        "average_live_cells_per_slice_last_five_minutes" => mean(&table.live_per_slice),
        "average_tombstones_per_slice_last_five_minutes" => mean(&table.tombstones_per_slice),
        "bloom_filter_false_positives" => table.bloom_false_positives as f64,
        "bloom_filter_false_ratio" => table.bloom_false_ratio,
        "bloom_filter_off_heap_memory_used" => table.bloom_off_heap as f64,
        "bloom_filter_space_used" => table.bloom_space as f64,
        "compacted_partition_maximum_bytes" => table.partition_max as f64,
        "compacted_partition_mean_bytes" => table.partition_mean as f64,
        "compacted_partition_minimum_bytes" => table.partition_min as f64,
        "compression_metadata_off_heap_memory_used" => table.compression_metadata_off_heap as f64,
        "dropped_mutations" => table.dropped_mutations as f64,
        "index_summary_off_heap_memory_used" => table.index_summary_off_heap as f64,
        "local_read_count" | "reads" => table.read.count as f64,
        "local_read_latency_ms" | "read_latency" => mean(&table.read),
        "local_write_latency_ms" | "write_latency" => mean(&table.write),
        "local_read_write_ratio" => {
            table.read.count as f64 / (table.write.count as f64).max(f64::MIN_POSITIVE)
        }
        "maximum_live_cells_per_slice_last_five_minutes" => table.live_per_slice.max,
        "maximum_tombstones_per_slice_last_five_minutes" => table.tombstones_per_slice.max,
        "max_sstable_size" => table.max_sstable_bytes as f64,
        "memtable_cell_count" => table.memtable_cells as f64,
        "memtable_data_size" => table.memtable_data_bytes as f64,
        "memtable_off_heap_memory_used" => table.memtable_off_heap_bytes as f64,
        "memtable_switch_count" => table.memtable_switches as f64,
        "number_of_partitions_estimate" => table.partitions_estimate as f64,
        "off_heap_memory_used_total" => table.off_heap_bytes() as f64,
        "pending_flushes" => table.pending_flushes as f64,
        "percent_repaired" => table.percent_repaired,
        "space_used_by_snapshots_total" => table.space_snapshots as f64,
        "space_used_live" => table.space_live as f64,
        "space_used_total" => table.space_total as f64,
        "sstable_compression_ratio" => table.compression_ratio,
        "sstable_count" => table.sstable_count as f64,
        "writes" => table.write.count as f64,
        _ => 0.0,
    };
    if value.is_nan() { 0.0 } else { value }
}
