//! What tables are and do, and how long requests take: asked of every shard.

use super::{Answer, Failure, Rest, json};
use crate::http::Request;
use base::HashMap;
use coordinator::{Coordinator, Latencies};
use query::{ClientInfo, Engine};
use runtime::Group;
use runtime::metrics::GroupUsage;
use schema::TableId;
use serde_json::{Value, json as value};
use storage::TableStats;
use topology::Member;

/// What every shard says.
async fn each_shard<T: Send + 'static>(ask: impl Fn() -> T + Copy + Send + 'static) -> Vec<T> {
    runtime::on_every_shard(Group::ADMIN, move || async move { ask() }).await
}

/// Latencies of the requests of all shards.
async fn latencies() -> Latencies {
    let mut whole = Latencies::default();
    for shard in each_shard(|| runtime::local::<Coordinator>().latencies()).await {
        whole.merge(&shard);
    }
    whole
}

impl Rest {
    /// The answer to a GET that other shards or files are asked for.
    pub(super) async fn look(&self, path: &[&str], request: &Request) -> Answer {
        match path {
            ["messina", "tables"] => self.tables(request).await,
            ["messina", "repair" | "repairs", ..]
            | ["storage_service", "active_repair" | "repair_async" | "repair_status", ..] => {
                self.look_at_repairs(path, request).await
            }
            ["messina", "proxy"] => Ok(proxy(&latencies().await)),
            ["messina", "pools"] => Ok(pools().await),
            ["messina", "hints", ..] | ["storage_proxy", "hinted_handoff_enabled" | "max_hint_window"] => {
                self.hints(path).await
            }
            ["cache_service", "metrics", "row", what] => self.row_cache(what).await,
            ["cache_service", "metrics", "counter", what] => self.counter_cache(what).await,
            ["messina", "clients"] => Ok(Engine::clients_of_node().await.iter().map(client).collect()),
            ["column_family", "metrics", rest @ ..] => self.column_family(rest).await,
            ["column_family", "sstables", "per_level", name] => {
                let id = self.table_of(name)?;
                let stats = self.coordinator().local().table_stats().await;
                let levels = stats.iter().find(|stats| stats.id == id).map_or(&[][..], |stats| &stats.levels);
                Ok(levels.iter().map(|level| value!(level.0)).collect())
            }
            ["column_family", "autocompaction", name] => {
                Ok(value!(self.coordinator().local().auto_compaction(self.table_of(name)?)?))
            }
            ["column_family", "compaction_strategy", name] => {
                let id = self.table_of(name)?;
                let schema = self.settings.engine.schema();
                let table = schema.table_by_id(id).ok_or_else(Failure::unknown)?;
                let class = table.options.compaction.get("class").map_or("", String::as_str);
                Ok(value!(class.rsplit('.').next()))
            }
            ["column_family", "sstables", "by_key", name] => self.sstables_of_key(name, request).await,
            ["storage_proxy", "metrics", what, "moving_average_histogram"] => {
                let latencies = latencies().await;
                let none = Default::default();
                let of = match *what {
                    "read" => &latencies.read,
                    "range" => &latencies.range,
                    "write" => &latencies.write,
                    // Nothing of the kind is served yet.
                    "cas_read" | "cas_write" | "view_write" => &none,
                    _ => return Err(Failure::unknown()),
                };
                Ok(json::rates_and_histogram(of, self.uptime_s()))
            }
            ["messina", "members"] => self.members().await,
            ["messina", "internode"] => self.internode().await,
            ["storage_service", "load"] => Ok(value!(self.coordinator().local().live_bytes().await)),
            ["storage_service", "load_map"] => {
                let snapshot = self.coordinator().topology();
                let own = self.coordinator().local().live_bytes().await;
                let load = |member: &Member| {
                    if member.host_id == snapshot.local_id() {
                        return Some((member.broadcast().to_string(), own));
                    }
                    // One that is down keeps what it said last.
                    Some((member.broadcast().to_string(), self.settings.peers.heard(member.host_id)?.load))
                };
                Ok(json::map(snapshot.members().iter().filter_map(load)))
            }
            ["storage_service", "metrics", "exceptions"] => {
                // Nothing is thrown here: what fails unseen by any client are compactions.
                Ok(value!(self.coordinator().local().compaction_totals().await.failed))
            }
            ["storage_service", "snapshots"] => self.snapshots().await,
            ["storage_service", "snapshots", "size", "true"] => {
                let all = self.coordinator().local().list_snapshots().await?;
                Ok(value!(all.iter().map(|snapshot| snapshot.true_size).sum::<u64>()))
            }
            _ => self.look_at_compactions(path).await,
        }
    }

    pub(super) fn uptime_s(&self) -> f64 {
        let started = i64::from(self.settings.engine.info().started_at_s);
        (runtime::unix_micros() as f64 / 1e6 - started as f64).max(0.0)
    }

    async fn tables(&self, request: &Request) -> Answer {
        let (keyspace, table) = (request.parameter("keyspace"), request.parameter("table"));
        if let Some(keyspace) = &keyspace {
            self.tables_of(keyspace, table.clone())?;
        }
        let mut snapshots: HashMap<(String, String), u64> = HashMap::default();
        for snapshot in self.coordinator().local().list_snapshots().await? {
            *snapshots.entry((snapshot.keyspace, snapshot.table)).or_default() += snapshot.true_size;
        }
        let mut retries: HashMap<TableId, u64> = HashMap::default();
        for shard in each_shard(|| runtime::local::<Coordinator>().speculative_retries()).await {
            shard.into_iter().for_each(|(table, count)| *retries.entry(table).or_default() += count);
        }
        let mut tables = Vec::new();
        for stats in self.coordinator().local().table_stats().await {
            let wanted = |name: &Option<String>, of: &str| name.as_deref().is_none_or(|name| name == of);
            if !wanted(&keyspace, &stats.keyspace) || !wanted(&table, &stats.table) {
                continue;
            }
            let own = snapshots.get(&(stats.keyspace.clone(), stats.table.clone()));
            let retries = retries.get(&stats.id).copied().unwrap_or(0);
            tables.push(table_value(&stats, own.copied().unwrap_or(0), retries));
            runtime::yield_if_needed().await;
        }
        Ok(Value::Array(tables))
    }

    async fn column_family(&self, path: &[&str]) -> Answer {
        let (what, name, is_histogram) = match path {
            [what @ ("read_latency" | "write_latency"), "moving_average_histogram"] => (*what, None, true),
            [what @ ("read_latency" | "write_latency"), "moving_average_histogram", name] => {
                (*what, Some(*name), true)
            }
            [what] => (*what, None, false),
            [what, name] => (*what, Some(*name), false),
            _ => return Err(Failure::unknown()),
        };
        let id = name.map(|name| self.table_of(name)).transpose()?;
        let mut all = self.coordinator().local().table_stats().await;
        all.retain(|stats| id.is_none_or(|id| stats.id == id));
        let mut all = all.into_iter();
        let mut stats = all.next().ok_or_else(Failure::unknown)?;
        all.for_each(|other| stats.add(&other));
        if is_histogram {
            let of = if what == "read_latency" { &stats.reads } else { &stats.writes };
            return Ok(json::rates_and_histogram(of, self.uptime_s()));
        }
        if what == "snapshots_size" {
            let all = self.coordinator().local().list_snapshots().await?;
            let is_of = |s: &&storage::snapshot::Snapshot| {
                id.is_none() || (s.keyspace == stats.keyspace && s.table == stats.table)
            };
            return Ok(value!(all.iter().filter(is_of).map(|snapshot| snapshot.true_size).sum::<u64>()));
        }
        metric(&stats, what).ok_or_else(Failure::unknown)
    }

    async fn sstables_of_key(&self, name: &str, request: &Request) -> Answer {
        let id = self.table_of(name)?;
        let (keyspace, table) = name.split_once(':').unwrap_or((name, ""));
        let key = self.key_of(keyspace, table, request)?;
        let paths = self.coordinator().local().sstables_of_key(id, key).await?;
        Ok(value!(paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()))
    }

    async fn snapshots(&self) -> Answer {
        let mut all = self.coordinator().local().list_snapshots().await?;
        all.sort_by(|left, right| left.tag.cmp(&right.tag));
        let mut tags: Vec<(String, Vec<Value>)> = Vec::new();
        for snapshot in all {
            let item = value!({
                "ks": snapshot.keyspace, "cf": snapshot.table,
                "total": snapshot.size, "live": snapshot.true_size,
                "created_at": snapshot.created_ms, "expires_at": snapshot.expires_ms,
            });
            match tags.last_mut() {
                Some((tag, items)) if *tag == snapshot.tag => items.push(item),
                _ => tags.push((snapshot.tag, vec![item])),
            }
        }
        Ok(json::map(tags))
    }
}

/// One number of a table by ScyllaDB's name.
impl Rest {
    /// How often what leaders have counted was in memory. It lies with other rows: what it takes is not told apart.
    async fn counter_cache(&self, what: &str) -> Answer {
        let reads = self.coordinator().local().counter_reads().await;
        Ok(match what {
            "entries" | "size" | "capacity" => value!(0),
            "hits_moving_avrage" => value!(reads.hits),
            "requests_moving_avrage" => value!(reads.requests),
            "hit_rate" => value!(reads.hits as f64 / reads.requests.max(1) as f64),
            _ => return Err(Failure::unknown()),
        })
    }

    /// What the row cache holds and does. The two averages are totals since the start: nobody asks for their rates.
    async fn row_cache(&self, what: &str) -> Answer {
        let cache = self.coordinator().local().row_cache().await;
        Ok(match what {
            "entries" => value!(cache.rows),
            "size" => value!(cache.bytes),
            "capacity" => value!(cache.capacity),
            "hits_moving_avrage" => value!(cache.hits),
            "requests_moving_avrage" => value!(cache.requests),
            "hit_rate" => value!(cache.hits as f64 / cache.requests.max(1) as f64),
            _ => return Err(Failure::unknown()),
        })
    }
}

fn metric(stats: &TableStats, what: &str) -> Option<Value> {
    let ratio = |ratio: Option<f64>| value!(ratio.unwrap_or(0.0));
    Some(match what {
        "live_ss_table_count" => value!(stats.sstables),
        "live_disk_space_used" => value!(stats.live_bytes),
        "total_disk_space_used" => value!(stats.total_bytes),
        "memtable_off_heap_size" | "memtable_live_data_size" => value!(stats.memtable_bytes),
        "bloom_filter_off_heap_memory_used" | "bloom_filter_disk_space_used" => value!(stats.filter_bytes),
        "index_summary_off_heap_memory_used" => value!(stats.summary_bytes),
        "compression_metadata_off_heap_memory_used" => value!(stats.checksum_bytes),
        "compression_ratio" => ratio(stats.compression_ratio()),
        "estimated_row_count" => value!(stats.partitions),
        "memtable_columns_count" => value!(stats.memtable_cells),
        "memtable_switch_count" => value!(stats.memtable_switches),
        "pending_flushes" => value!(stats.pending_flushes),
        "pending_compactions" => value!(stats.pending_compactions),
        "bloom_filter_false_positives" => value!(stats.filter_mistakes),
        "recent_bloom_filter_false_ratio" | "bloom_filter_false_ratio" => {
            value!(stats.filter_mistake_ratio())
        }
        "min_row_size" => value!(stats.partition_sizes.min()),
        "max_row_size" => value!(stats.partition_sizes.max()),
        "mean_row_size" => value!(stats.partition_sizes.mean().unwrap_or(0.0) as u64),
        "estimated_row_size_histogram" => json::estimated(&stats.partition_sizes),
        "estimated_column_count_histogram" => json::estimated(&stats.partition_cells),
        "sstables_per_read_histogram" => json::estimated(&stats.sstables_per_read.recent),
        "live_scanned_histogram" => json::distribution(&stats.live_rows),
        "tombstone_scanned_histogram" => json::distribution(&stats.tombstones),
        "read_latency" => value!(stats.reads.sum),
        "write_latency" => value!(stats.writes.sum),
        "read" => value!(stats.reads.count),
        "write" => value!(stats.writes.count),
        _ => return None,
    })
}

/// One table as nodetool's screens show it. What is left out has no meaning here.
fn table_value(stats: &TableStats, snapshots: u64, retries: u64) -> Value {
    let mut whole = value!({
        "keyspace": stats.keyspace,
        "table": stats.table,
        "id": uuid::Uuid::from_u128(stats.id.0).to_string(),
        "strategy": stats.strategy,
        "sstable_count": stats.sstables,
        "old_sstable_count": 0,
        "max_sstable_bytes": stats.largest_sstable,
        "space_live": stats.live_bytes,
        "space_total": stats.total_bytes,
        "space_snapshots": snapshots,
        "uncompressed_bytes": stats.repaired_bytes + stats.unrepaired_bytes,
        "compression_ratio": stats.compression_ratio().unwrap_or(-1.0),
        "partitions_estimate": stats.partitions,
        "memtable_cells": stats.memtable_cells,
        "memtable_data_bytes": stats.memtable_bytes,
        "memtable_off_heap_bytes": stats.memtable_bytes,
        "memtable_switches": stats.memtable_switches,
        "speculative_retries": retries,
        "read": json::distribution(&stats.reads),
        "write": json::distribution(&stats.writes),
        "local_scan": json::distribution(&stats.scans),
        "pending_flushes": stats.pending_flushes,
        "pending_compactions": stats.pending_compactions,
        "percent_repaired": stats.percent_repaired(),
        "bytes_repaired": stats.repaired_bytes,
        "bytes_unrepaired": stats.unrepaired_bytes,
        "bloom_false_positives": stats.filter_mistakes,
        "bloom_false_ratio": stats.filter_mistake_ratio(),
        "bloom_space": stats.filter_bytes,
        "bloom_off_heap": stats.filter_bytes,
        "index_summary_off_heap": stats.summary_bytes,
        "compression_metadata_off_heap": stats.checksum_bytes,
        "partition_min": stats.partition_sizes.min(),
        "partition_max": stats.partition_sizes.max(),
        "partition_mean": stats.partition_sizes.mean().unwrap_or(0.0) as u64,
        "live_per_slice": json::distribution(&stats.live_rows),
        "tombstones_per_slice": json::distribution(&stats.tombstones),
        "sstables_per_read": json::distribution(&stats.sstables_per_read),
        "droppable_tombstone_ratio": stats.droppable_ratio(),
        "partition_sizes": json::histogram_or_null(&stats.partition_sizes),
        "partition_cells": json::histogram_or_null(&stats.partition_cells),
    });
    // Each of them has levels of its own.
    whole["shards"] = value!(runtime::shard_count());
    whole["sstables_per_level"] = stats.levels.iter().map(|level| value!(level.0)).collect();
    whole["sstable_bytes_per_level"] = stats.levels.iter().map(|level| value!(level.1)).collect();
    whole
}

/// One connection of a client.
fn client(client: &ClientInfo) -> Value {
    let (protocol, cipher) = client.tls.as_ref().map(|(protocol, suite)| (*protocol, suite.as_str())).unzip();
    value!({
        "address": client.address.ip().to_string(),
        "port": client.address.port(),
        "ssl": client.tls.is_some(),
        "protocol": protocol,
        "cipher": cipher,
        "version": client.protocol_version,
        "user": client.user.as_deref().unwrap_or("anonymous"),
        "keyspace": client.keyspace,
        "requests": client.request_count,
        "driver_name": client.options.get("DRIVER_NAME"),
        "driver_version": client.options.get("DRIVER_VERSION"),
        "options": client.options,
    })
}

fn proxy(latencies: &Latencies) -> Value {
    let none = json::distribution(&Default::default());
    value!({
        "read": json::distribution(&latencies.read),
        "range": json::distribution(&latencies.range),
        "write": json::distribution(&latencies.write),
        "cas_read": none, "cas_write": none, "view_write": none,
    })
}

/// Scheduling groups of all shards: what waits, and how often tasks have run.
async fn pools() -> Value {
    let mut all: Vec<GroupUsage> = Vec::new();
    for shard in each_shard(runtime::metrics::groups).await {
        for group in shard {
            match all.iter_mut().find(|known| known.name == group.name) {
                Some(known) => {
                    known.queued += group.queued;
                    known.polls += group.polls;
                }
                None => all.push(group),
            }
        }
    }
    let pool = |group: GroupUsage| {
        value!({
            "name": group.name, "pending": group.queued, "completed": group.polls,
            "active_limit": runtime::shard_count(),
        })
    };
    Value::Array(all.into_iter().map(pool).collect())
}
