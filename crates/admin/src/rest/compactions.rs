//! What compactions do and have done.

use super::{Answer, Failure, Rest, json};
use serde_json::{Value, json as value};
use storage::{CompactionProgress, CompactionRecord};

fn id(id: u128) -> String {
    uuid::Uuid::from_u128(id).to_string()
}

impl Rest {
    pub(super) async fn look_at_compactions(&self, path: &[&str]) -> Answer {
        let local = self.coordinator().local();
        match path {
            ["compaction_manager", "compactions"] => {
                Ok(Value::Array(local.compactions().await.iter().map(running).collect()))
            }
            ["compaction_manager", "compaction_history"] => {
                Ok(Value::Array(local.compaction_history().await.iter().map(finished).collect()))
            }
            ["compaction_manager", "metrics", "bytes_compacted"] => {
                Ok(value!(local.compaction_totals().await.bytes_in))
            }
            ["compaction_manager", "metrics", "completed_tasks"] => {
                Ok(value!(local.compaction_totals().await.completed))
            }
            ["compaction_manager", "metrics", "pending_tasks"] => {
                let tables = local.table_stats().await;
                Ok(value!(tables.iter().map(|table| table.pending_compactions).sum::<u64>()))
            }
            ["compaction_manager", "metrics", "pending_tasks_by_table"] => {
                let tables = local.table_stats().await;
                let pending = tables.iter().filter(|table| table.pending_compactions > 0);
                let item = |table: &storage::TableStats| value!({ "ks": table.keyspace, "cf": table.table, "task": table.pending_compactions });
                Ok(Value::Array(pending.map(item).collect()))
            }
            ["messina", "compaction"] => {
                let totals = local.compaction_totals().await;
                let uptime_s = self.uptime_s();
                let mean = if uptime_s > 0.0 { totals.completed as f64 / uptime_s } else { 0.0 };
                Ok(value!({
                    "concurrent_compactors": local.concurrent_compactions(),
                    "completed": totals.completed,
                    "bytes_compacted": totals.bytes_in,
                    "aborted": totals.failed + totals.stopped,
                    "mean_rate": mean,
                }))
            }
            _ => Err(Failure::unknown()),
        }
    }
}

fn running(progress: &CompactionProgress) -> Value {
    value!({
        "id": id(progress.id), "ks": progress.keyspace, "cf": progress.table,
        "completed": progress.completed, "total": progress.total,
        "task_type": progress.kind.name(), "unit": "bytes",
    })
}

fn finished(record: &CompactionRecord) -> Value {
    value!({
        "id": id(record.id), "ks": record.keyspace, "cf": record.table,
        "compacted_at": record.at_ms, "bytes_in": record.bytes_in, "bytes_out": record.bytes_out,
        "rows_merged": json::map(record.merged.iter().map(|(inputs, count)| (*inputs, *count))),
        "compaction_type": record.kind.name(),
    })
}
