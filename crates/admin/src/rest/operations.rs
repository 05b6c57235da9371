//! What an operator has the node do.

use super::{Answer, Failure, Mode, Rest};
use crate::http::Request;
use base::Token;
use runtime::log::Level;
use serde_json::{Value, json};
use storage::snapshot::SnapshotOptions;
use storage::{CompactionKind, Granularity, MajorCompaction};

/// Shortest life of a snapshot, milliseconds, as in Cassandra.
const TTL_MS_MIN: i64 = 60_000;

impl Rest {
    /// The answer to a POST or DELETE.
    pub(super) async fn act(&self, path: &[&str], request: &Request) -> Answer {
        let post = request.method != "DELETE";
        match path {
            ["storage_service", "flush"] if post => self.flush(self.all_tables()).await,
            ["storage_service", "keyspace_flush", keyspace] if post => {
                self.flush(self.tables_of(keyspace, request.parameter("cf"))?).await
            }
            ["storage_service", "compact"] if post => self.compact(self.all_tables(), request).await,
            ["storage_service", "keyspace_compaction", keyspace] if post => {
                self.compact(self.tables_of(keyspace, request.parameter("cf"))?, request).await
            }
            ["storage_service", "cleanup_all"] if post => self.cleanup_all().await,
            ["storage_service", "keyspace_cleanup", keyspace] if post => {
                self.cleanup(keyspace, self.tables_of(keyspace, request.parameter("cf"))?).await
            }
            ["storage_service", "keyspace_scrub", keyspace] if post => {
                self.scrub(self.tables_of(keyspace, request.parameter("cf"))?, request).await
            }
            ["storage_service", "keyspace_upgrade_sstables", keyspace] if post => {
                let tables = self.tables_of(keyspace, request.parameter("cf"))?;
                let every = request.parameter("exclude_current_version").as_deref() == Some("false");
                self.coordinator().local().upgrade(&tables, every).await?;
                Ok(json!(0))
            }
            ["storage_service", "compaction_throughput"] if post => self.set_throughput(request).await,
            ["compaction_manager", "stop_compaction"] if post => self.stop_compaction(request).await,
            ["messina", "garbage_collect", keyspace] if post => {
                let tables = self.tables_of(keyspace, request.parameter("cf"))?;
                let granularity = granularity(request)?;
                self.coordinator().local().garbage_collect(&tables, granularity).await?;
                Ok(Value::Null)
            }
            ["messina", "compact_files"] if post => {
                let files = request.parameter("files").unwrap_or_default();
                let files =
                    files.split(',').map(str::trim).filter(|file| !file.is_empty()).map(str::to_string);
                Ok(json!(self.coordinator().local().compact_files(files.collect()).await?))
            }
            ["storage_service", "snapshots"] if post => self.snapshot(request).await,
            ["storage_service", "snapshots"] => self.clear_snapshot(request).await,
            ["storage_service", "sstables", keyspace] if post => self.refresh(keyspace, request).await,
            ["messina", "import", keyspace] if post => self.import(keyspace, request).await,
            ["storage_service", "drain"] if post => self.drain().await,
            ["storage_service", "auto_compaction", keyspace] => {
                let tables = self.tables_of(keyspace, request.parameter("cf"))?;
                self.coordinator().local().set_auto_compaction(&tables, post).await?;
                Ok(Value::Null)
            }
            ["storage_service", "native_transport"] => self.switch_native(post).await,
            ["storage_service", "incremental_backups"] if post => {
                self.coordinator().local().set_incremental_backups(request.is_on("value")).await;
                Ok(Value::Null)
            }
            ["column_family", "autocompaction", name] => {
                self.coordinator().local().set_auto_compaction(&[self.table_of(name)?], post).await?;
                Ok(Value::Null)
            }
            ["column_family", "major_compaction", name] if post => {
                self.compact(vec![self.table_of(name)?], request).await
            }
            ["hinted_handoff" | "storage_proxy", _] | ["messina", "hints", ..] => {
                self.switch_hints(path, request).await
            }
            ["storage_service", "gossiping"] => self.switch_gossip(post).await,
            ["gossiper", "assassinate", address] if post => self.assassinate(address).await,
            ["storage_service", "remove_node"] if post => self.remove_node(request),
            ["storage_service", "force_remove_completion"] if post => Ok(Value::Null),
            ["storage_service", "decommission"] if post => self.decommission(),
            ["storage_service", "move"] if post => self.move_node(request),
            ["storage_service", "rebuild"] if post => self.rebuild(request),
            ["storage_service", "join_ring"] if post => {
                Err(Failure::new(400, "This node has already joined the ring."))
            }
            ["storage_service", "trace_probability"] => {
                Err(Failure::new(501, "Messina has nothing of the kind"))
            }
            ["storage_service", "repair_async", keyspace] if post => self.repair(keyspace, request),
            ["storage_service", "force_terminate_repair"] if post => self.stop_repairs(None),
            ["messina", "stop_repair"] if post => self.stop_repairs(request.parameter("id")),
            ["system", "logger"] if post => set_all_levels(request),
            ["system", "logger", name] if post => set_level(name, request),
            _ => Err(Failure::unknown()),
        }
    }

    async fn flush(&self, tables: Vec<schema::TableId>) -> Answer {
        self.coordinator().local().flush(&tables).await?;
        Ok(Value::Null)
    }

    async fn compact(&self, tables: Vec<schema::TableId>, request: &Request) -> Answer {
        let local = self.coordinator().local();
        if request.parameter("flush_memtables").as_deref() != Some("false") {
            local.flush(&tables).await?;
        }
        let split_output = request.is_on("split_output");
        let how = MajorCompaction { split_output, range: token_range(request)? };
        local.compact(&tables, how).await?;
        Ok(Value::Null)
    }

    async fn cleanup_all(&self) -> Answer {
        let local = self.coordinator().local();
        let mut keyspaces: Vec<String> =
            local.table_names().into_iter().map(|(keyspace, ..)| keyspace).collect();
        keyspaces.sort();
        keyspaces.dedup();
        for keyspace in keyspaces {
            // One that was dropped meanwhile has nothing left to clean up.
            if let Ok(tables) = self.tables_of(&keyspace, None) {
                self.cleanup(&keyspace, tables).await?;
            }
        }
        Ok(json!(0))
    }

    async fn cleanup(&self, keyspace: &str, tables: Vec<schema::TableId>) -> Answer {
        let owned = self.owned_ranges(keyspace)?;
        self.coordinator().local().cleanup(&tables, owned).await?;
        Ok(json!(0))
    }

    /// Scrubs tables, after a snapshot of each unless that is not wanted.
    async fn scrub(&self, tables: Vec<schema::TableId>, request: &Request) -> Answer {
        let local = self.coordinator().local();
        if !request.is_on("disable_snapshot") {
            let tag = format!("pre-scrub-{}", runtime::unix_micros() / 1000);
            let options = SnapshotOptions { tag, skip_flush: false, ttl_ms: None };
            local.snapshot(options, tables.clone()).await?;
        }
        let mut lost = 0;
        for table in tables {
            let scrubbed = local.scrub(table).await?;
            lost += scrubbed.lost_partitions;
            if scrubbed.lost_partitions > 0 {
                runtime::warn!("admin: scrub lost {} partitions of table {table}", scrubbed.lost_partitions);
            }
        }
        Ok(json!(lost))
    }

    async fn set_throughput(&self, request: &Request) -> Answer {
        let text = request.parameter("value").unwrap_or_default();
        let bad = || Failure::new(400, format!("\"{text}\" is no rate in MiB per second"));
        let mib: u64 = text.parse().map_err(|_| bad())?;
        let bytes = mib.checked_mul(1 << 20).ok_or_else(bad)?;
        self.coordinator().local().set_compaction_throughput(bytes).await;
        Ok(Value::Null)
    }

    /// Ends compactions by their kind, or one by its id.
    async fn stop_compaction(&self, request: &Request) -> Answer {
        let word = request.parameter("type").filter(|word| !word.is_empty());
        let kind = match &word {
            None => None,
            Some(word) => {
                let named = |kind: &CompactionKind| kind.word().eq_ignore_ascii_case(word);
                match CompactionKind::ALL.into_iter().find(named) {
                    Some(kind) => Some(kind),
                    None => {
                        return Err(Failure::new(400, format!("No compactions of type {word} are known")));
                    }
                }
            }
        };
        let id = request.parameter("id").filter(|id| !id.is_empty());
        let parse = |id: String| {
            let bad = |_| Failure::new(400, format!("\"{id}\" is no compaction id"));
            uuid::Uuid::parse_str(&id).map(|id| id.as_u128()).map_err(bad)
        };
        let id = id.map(parse).transpose()?;
        Ok(json!(self.coordinator().local().stop_compactions(kind, id).await))
    }

    async fn snapshot(&self, request: &Request) -> Answer {
        let text = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
        let tag = text("tag").unwrap_or_else(|| (runtime::unix_micros() / 1000).to_string());
        let ttl_ms = text("ttl").map(|ttl| parse_ttl(&ttl)).transpose()?;
        let skip_flush = matches!(text("sf").as_deref(), Some("true" | "1"));
        let keyspaces = text("kn").map(|names| names.split(',').map(str::to_string).collect::<Vec<_>>());
        let tables = match (keyspaces, text("cf")) {
            (None, None) => self.all_tables(),
            (None, Some(named)) => self.qualified(&named)?,
            (Some(keyspaces), named) => {
                if named.is_some() && keyspaces.len() != 1 {
                    let why =
                        "When specifying a table for a snapshot, you must specify one and only one keyspace";
                    return Err(Failure::new(400, why));
                }
                let mut tables = Vec::new();
                for keyspace in keyspaces {
                    tables.extend(self.tables_of(&keyspace, named.clone())?);
                }
                tables
            }
        };
        if self.mode.get() != Mode::Normal && !skip_flush {
            runtime::info!("admin: a snapshot of a drained node holds what was flushed");
        }
        let options = SnapshotOptions { tag: tag.clone(), skip_flush, ttl_ms };
        self.coordinator().local().snapshot(options, tables).await?;
        Ok(json!(tag))
    }

    /// Tables named with their keyspaces, `ks.table,ks.table`.
    fn qualified(&self, named: &str) -> Result<Vec<schema::TableId>, Failure> {
        let mut tables = Vec::new();
        for name in named.split(',') {
            let (keyspace, table) = name
                .split_once('.')
                .ok_or_else(|| Failure::new(400, format!("\"{name}\" is not of the form keyspace.table")))?;
            tables.extend(self.tables_of(keyspace, Some(table.to_string()))?);
        }
        Ok(tables)
    }

    async fn clear_snapshot(&self, request: &Request) -> Answer {
        let tag = request.parameter("tag").filter(|tag| !tag.is_empty());
        let keyspaces = request.parameter("kn").filter(|names| !names.is_empty());
        let keyspaces = keyspaces.map_or(Vec::new(), |names| names.split(',').map(str::to_string).collect());
        let removed = self.coordinator().local().clear_snapshots(tag, keyspaces).await?;
        runtime::info!("admin: {removed} snapshots of tables were removed");
        Ok(Value::Null)
    }

    /// Refuses new connections and writes, and writes everything to files. Only a restart ends it.
    async fn drain(&self) -> Answer {
        if self.mode.get() != Mode::Normal {
            return Ok(Value::Null);
        }
        runtime::info!("admin: draining");
        self.mode.set(Mode::Draining);
        self.repairs.close();
        if let Err(error) = self.settings.native.switch(false).await {
            runtime::warn!("admin: native transport stays open: {error}");
        }
        // Others send it no more writes, and their clients no more requests.
        if let Err(error) = self.settings.peers.talk(false).await {
            runtime::warn!("admin: other nodes were not told: {error}");
        }
        let drained = self.coordinator().local().quiesce().await;
        // What could not be flushed is in the commitlog, and may be tried again.
        self.mode.set(if drained.is_ok() { Mode::Drained } else { Mode::Normal });
        if drained.is_err() {
            let _talks_again = self.settings.peers.talk(true).await;
        }
        drained?;
        runtime::info!("admin: drained");
        Ok(Value::Null)
    }

    async fn switch_native(&self, on: bool) -> Answer {
        if on && self.mode.get() != Mode::Normal {
            return Err(Failure::new(500, "the node is drained: only a restart lets clients in again"));
        }
        self.settings.native.switch(on).await.map_err(|error| Failure::new(500, error))?;
        // Clients of other nodes are told now, and not with the next ping.
        self.settings.peers.say_facts();
        Ok(Value::Null)
    }
}

/// The tokens that a request's `start_token` and `end_token` give, both inside; `None`: all.
fn token_range(request: &Request) -> Result<Option<(Token, Token)>, Failure> {
    let token = |name: &str| {
        let Some(text) = request.parameter(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let bad = |_| Failure::new(400, format!("Invalid {name}: {text}"));
        text.trim().parse::<i64>().map(|token| Some(Token(token))).map_err(bad)
    };
    let (first, last) = (token("start_token")?, token("end_token")?);
    if first.is_none() && last.is_none() {
        return Ok(None);
    }
    Ok(Some((first.unwrap_or(Token::MIN), last.unwrap_or(Token(i64::MAX)))))
}

fn granularity(request: &Request) -> Result<Granularity, Failure> {
    match request.parameter("granularity").unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "ROW" => Ok(Granularity::Row),
        "CELL" => Ok(Granularity::Cell),
        other => Err(Failure::new(400, format!("\"{other}\" is no granularity: ROW or CELL"))),
    }
}

/// The level that a request asks for; `None`: the configured one.
fn level_of(request: &Request) -> Result<Option<Level>, Failure> {
    let Some(text) = request.parameter("level").filter(|level| !level.is_empty()) else { return Ok(None) };
    let unknown = |_| Failure::new(400, format!("\"{text}\" is no log level"));
    text.parse::<Level>().map(Some).map_err(unknown)
}

/// Every module, those with a level of their own, too.
fn set_all_levels(request: &Request) -> Answer {
    let level = level_of(request)?;
    for (module, _) in runtime::log::levels().rows() {
        let refused = |_| Failure::new(400, format!("no level for {module}"));
        runtime::log::set_module_level(&module, level).map_err(refused)?;
    }
    Ok(Value::Null)
}

fn set_level(module: &str, request: &Request) -> Answer {
    let level = level_of(request)?;
    let refused =
        |_| Failure::new(400, format!("no level for {module}: too long a name, or too many of them"));
    runtime::log::set_module_level(module, level).map_err(refused)?;
    Ok(Value::Null)
}

/// Milliseconds of `3d`, `12h`, `30m`, `90s`.
fn parse_ttl(text: &str) -> Result<i64, Failure> {
    let bad = || {
        Failure::new(400, format!("Invalid duration: {text} Accepted units:[SECONDS, MINUTES, HOURS, DAYS]"))
    };
    let (number, unit) = text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let unit_ms: i64 = match unit {
        "d" => 86_400_000,
        "h" => 3_600_000,
        "m" => 60_000,
        "s" => 1_000,
        _ => return Err(bad()),
    };
    let count: i64 = number.parse().map_err(|_| bad())?;
    let ttl_ms = count.checked_mul(unit_ms).ok_or_else(bad)?;
    if ttl_ms < TTL_MS_MIN {
        return Err(Failure::new(400, "ttl for snapshot must be at least 60 seconds"));
    }
    Ok(ttl_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_read_and_short_ones_refused() {
        assert_eq!(parse_ttl("3d").expect("days"), 259_200_000);
        assert_eq!(parse_ttl("60s").expect("a minute"), 60_000);
        for text in ["", "d", "5", "59s", "-1h", "9223372036854775807d", "1µ", "1 h"] {
            parse_ttl(text).expect_err(text);
        }
    }
}
