//! What is served, as a list: a request that is not in it is unknown, and `GET /api-doc/` describes it in Swagger 1.2, as
//! ScyllaDB publishes its own.

use serde_json::{Value, json};

/// One request.
pub struct Route {
    /// Such as `GET`.
    pub method: &'static str,
    /// The path, with names in braces for what differs.
    pub path: &'static str,
    about: &'static str,
    /// What the answer is, in Swagger's words.
    answer: &'static str,
    /// Names of the query's parameters.
    parameters: &'static [&'static str],
}

impl Route {
    /// Whether a path, cut at its slashes, is of this route.
    fn fits(&self, path: &[&str]) -> bool {
        let own = self.path.split('/').skip(1);
        own.clone().count() == path.len()
            && own.zip(path).all(|(own, given)| own == *given || (own.starts_with('{') && !given.is_empty()))
    }

    fn describe(&self) -> Value {
        let named = self.path.split(['{', '}']).skip(1).step_by(2).map(|name| parameter(name, "path"));
        let parameters: Vec<Value> =
            named.chain(self.parameters.iter().map(|name| parameter(name, "query"))).collect();
        let name = self.path.replace(['/', '{', '}'], " ");
        let nickname = name.split_whitespace().collect::<Vec<_>>().join("_");
        json!({
            "method": self.method,
            "summary": self.about,
            "nickname": format!("{}_{nickname}", self.method.to_ascii_lowercase()),
            "type": self.answer,
            "produces": ["application/json"],
            "parameters": parameters,
        })
    }
}

/// What parameters are, by their names; each means the same everywhere.
const PARAMETERS: &[(&str, &str)] = &[
    ("address", "The address of a member, as other nodes know it"),
    ("cf", "Names of tables, with commas between; all of the keyspace unless given"),
    ("check", "true: only whether the folder can be read"),
    ("columnFamilies", "Names of tables, with commas between; all of the keyspace unless given"),
    ("copy_data", "true: the folder keeps its files"),
    ("dataCenters", "Only replicas in these data centres, with commas between"),
    ("dc", "The name of a data centre"),
    ("dir", "A folder of the node's machine"),
    ("disable_snapshot", "true: no snapshot before"),
    ("enable", "true or false"),
    ("endToken", "The last token of the range"),
    ("end_token", "Only sstables with tokens up to here"),
    ("exclude_current_version", "false: also what is written in the present format"),
    ("files", "Data files of sstables, with commas between"),
    ("flush_memtables", "false: only what is in sstables"),
    ("forceRepair", "true: replicas that are down are left out"),
    ("format", "hex: the key is written in hexadecimal digits"),
    ("from", "Only lines from this number on"),
    ("granularity", "ROW or CELL"),
    ("host", "The address of a node; this one unless given, of hints all"),
    ("host_id", "The id of a member"),
    ("hosts", "Only these replicas, their addresses with commas between"),
    ("id", "The id of a compaction, or the number of a repair"),
    ("incremental", "Accepted for scripts: every repair looks at all that is stored"),
    ("jobThreads", "Accepted for scripts: a few ranges are repaired at once"),
    ("keep_level", "true: sstables stay on their level"),
    ("keep_repaired", "true: sstables stay repaired"),
    ("key", "A partition key, its components with colons between"),
    ("keyspace", "The name of a keyspace"),
    ("kn", "Names of keyspaces, with commas between; all unless given"),
    ("level", "off, error, warn, info, debug or trace; the configured one unless given"),
    ("logger", "A module of the node, or ROOT"),
    ("metric", "The name of a number"),
    ("ms", "Milliseconds"),
    ("name", "A table as keyspace:table"),
    ("new_token", "A token"),
    ("node", "The address of a node"),
    ("parallelism", "Accepted for scripts: all replicas of a range are read at once"),
    ("pause", "true or false"),
    ("primaryRange", "true: only ranges whose first replica this node is"),
    ("pullRepair", "Refused if true: a repair makes all replicas equal"),
    ("ranges", "One range of tokens, as start:end"),
    ("replication", "all or vnodes; tablets, which no keyspace has"),
    ("request", "read, write or range; cas_read, cas_write and view_write, which count nothing yet"),
    ("sf", "true: what is in memory is left out"),
    ("source_dc", "The data centre to take data from; any unless given"),
    ("split_output", "true: sstables of halving sizes instead of one"),
    ("startToken", "The token behind which the range begins"),
    ("start_token", "Only sstables with tokens from here on"),
    ("table", "The name of a table"),
    ("tag", "The name of a snapshot"),
    ("timeout", "Seconds to wait; -1 for the end"),
    ("trace", "Refused if true: repairs are not traced"),
    ("ttl", "When the snapshot ends by itself, such as 3d"),
    ("type", "Which kind; all unless given"),
    ("value", "What is to hold from now on"),
    ("verify", "open, digest or full"),
];

fn parameter(name: &str, place: &str) -> Value {
    let about = PARAMETERS.iter().find(|(known, _)| *known == name).map_or("", |(_, about)| about);
    json!({
        "name": name,
        "description": about,
        "required": place == "path",
        "allowMultiple": false,
        "type": "string",
        "paramType": place,
    })
}

/// The first parts of all paths, and what is below them.
const RESOURCES: &[(&str, &str)] = &[
    ("cache_service", "The row cache"),
    ("column_family", "Tables: names, numbers, sstables, compactions"),
    ("compaction_manager", "Compactions of the node"),
    ("failure_detector", "Which nodes live"),
    ("gossiper", "Which nodes live"),
    ("hinted_handoff", "What is kept for nodes that were away"),
    ("messina", "Whole screens of nodetool, and what only this node has"),
    ("snitch", "Where nodes stand"),
    ("storage_proxy", "Latencies of requests, versions of the schema, whether hints are kept"),
    ("storage_service", "The node: its ring, its keyspaces, and what it is to do"),
    ("system", "The process and its log"),
];

/// The route of a request; none when nothing of the kind is served.
pub fn find(method: &str, path: &[&str]) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.method == method && route.fits(path))
}

/// The list of resources.
pub fn listing() -> Value {
    let api = |(name, about): &(&str, &str)| json!({ "path": format!("/{name}"), "description": about });
    json!({
        "apiVersion": "0.0.1",
        "swaggerVersion": "1.2",
        "apis": RESOURCES.iter().map(api).collect::<Vec<_>>(),
    })
}

/// What is served below one of them.
pub fn description(resource: &str) -> Option<Value> {
    RESOURCES.iter().find(|(name, _)| *name == resource)?;
    let below = |route: &&Route| route.path.split('/').nth(1) == Some(resource);
    let mut apis: Vec<(&str, Vec<Value>)> = Vec::new();
    for route in ROUTES.iter().filter(below) {
        match apis.last_mut() {
            Some((path, operations)) if *path == route.path => operations.push(route.describe()),
            _ => apis.push((route.path, vec![route.describe()])),
        }
    }
    let apis: Vec<Value> = apis
        .into_iter()
        .map(|(path, operations)| json!({ "path": path, "operations": operations }))
        .collect();
    Some(json!({
        "apiVersion": "0.0.1",
        "swaggerVersion": "1.2",
        "basePath": "/",
        "resourcePath": format!("/{resource}"),
        "produces": ["application/json"],
        "apis": apis,
    }))
}

const fn get(path: &'static str, about: &'static str, answer: &'static str) -> Route {
    Route { method: "GET", path, about, answer, parameters: &[] }
}

const fn post(path: &'static str, about: &'static str, parameters: &'static [&'static str]) -> Route {
    Route { method: "POST", path, about, answer: "void", parameters }
}

const fn delete(path: &'static str, about: &'static str, parameters: &'static [&'static str]) -> Route {
    Route { method: "DELETE", path, about, answer: "void", parameters }
}

impl Route {
    const fn with(mut self, parameters: &'static [&'static str]) -> Route {
        self.parameters = parameters;
        self
    }
}

const COMPACTION: &[&str] = &["cf", "flush_memtables", "split_output", "start_token", "end_token"];
const UPGRADE: &[&str] = &["cf", "exclude_current_version"];
const REPAIR: &[&str] = &[
    "columnFamilies",
    "dataCenters",
    "endToken",
    "forceRepair",
    "hosts",
    "incremental",
    "jobThreads",
    "parallelism",
    "primaryRange",
    "pullRepair",
    "ranges",
    "startToken",
    "trace",
];
const SCRUB: &[&str] = &["cf", "disable_snapshot"];

/// Everything that is served, by path.
pub const ROUTES: &[Route] = &[
    get("/cache_service/counter_cache_save_period", "0: counters are not saved", "long"),
    get("/cache_service/key_cache_save_period", "0: there is no such cache", "long"),
    get("/cache_service/metrics/counter/{metric}", "A number of counters in the row cache", "double"),
    get("/cache_service/metrics/key/{metric}", "0: there is no such cache", "long"),
    get("/cache_service/metrics/row/{metric}", "A number of the row cache", "double"),
    get("/cache_service/row_cache_save_period", "0: the row cache is not saved", "long"),
    get("/column_family", "Every table: ks, cf, type", "array"),
    get("/column_family/autocompaction/{name}", "Whether a table is compacted by itself", "boolean"),
    post("/column_family/autocompaction/{name}", "Compact a table by itself again", &[]),
    delete("/column_family/autocompaction/{name}", "Compact a table no longer by itself", &[]),
    get("/column_family/compaction_strategy/{name}", "The class of a table's strategy", "string"),
    post(
        "/column_family/major_compaction/{name}",
        "Merge all sstables of a table",
        &["flush_memtables", "split_output"],
    ),
    get(
        "/column_family/metrics/read_latency/moving_average_histogram",
        "Latencies of local reads",
        "rate_moving_average_and_histogram",
    ),
    get(
        "/column_family/metrics/read_latency/moving_average_histogram/{name}",
        "Latencies of local reads of a table",
        "rate_moving_average_and_histogram",
    ),
    get(
        "/column_family/metrics/write_latency/moving_average_histogram",
        "Latencies of local writes",
        "rate_moving_average_and_histogram",
    ),
    get(
        "/column_family/metrics/write_latency/moving_average_histogram/{name}",
        "Latencies of local writes of a table",
        "rate_moving_average_and_histogram",
    ),
    get("/column_family/metrics/{metric}", "One number, of all tables together", "double"),
    get("/column_family/metrics/{metric}/{name}", "One number of a table", "double"),
    get("/column_family/name", "Every table as keyspace:table", "array"),
    get("/column_family/name/keyspace", "Every keyspace that has tables", "array"),
    get("/column_family/sstables/by_key/{name}", "The files that may hold a partition", "array")
        .with(&["key", "format"]),
    get("/column_family/sstables/per_level/{name}", "How many sstables are on each level", "array"),
    get("/compaction_manager/compaction_history", "Compactions since the start, newest first", "array"),
    get("/compaction_manager/compactions", "Compactions that run", "array"),
    get("/compaction_manager/metrics/bytes_compacted", "Bytes that compactions have read", "long"),
    get("/compaction_manager/metrics/completed_tasks", "How many compactions have run", "long"),
    get("/compaction_manager/metrics/pending_tasks", "How many compactions wait", "long"),
    get("/compaction_manager/metrics/pending_tasks_by_table", "How many compactions wait, by table", "array"),
    post("/compaction_manager/stop_compaction", "End compactions that run", &["type", "id"]),
    get("/failure_detector/count/endpoint/down", "How many nodes are down", "long"),
    get("/failure_detector/count/endpoint/up", "How many nodes live", "long"),
    get("/failure_detector/simple_states", "UP or DOWN, by address", "array"),
    post("/gossiper/assassinate/{address}", "Put out a member that is down, without moving data", &[]),
    get("/gossiper/endpoint/down", "Addresses of nodes that are down", "array"),
    get("/gossiper/endpoint/live", "Addresses of nodes that live", "array"),
    delete("/hinted_handoff/hints", "Throw away what is kept for a node, or for all", &["host"]),
    post("/hinted_handoff/pause", "Deliver no hints, or go on", &["pause"]),
    get("/messina/caches", "Caches that nodetool info shows, beside the row cache: none", "array"),
    get("/messina/clients", "Every connection of a client", "array"),
    post("/messina/compact_files", "Merge sstables that are named", &["files"]),
    get("/messina/compaction", "Numbers of nodetool compactionstats", "object"),
    get("/messina/dropped", "Messages that were dropped: none", "array"),
    post(
        "/messina/garbage_collect/{keyspace}",
        "Let go of what newer sstables delete",
        &["cf", "granularity"],
    ),
    get("/messina/hints", "What is kept for nodes that were away", "array"),
    get("/messina/hints/disabled_dcs", "Data centres for whose nodes nothing is kept", "array"),
    post("/messina/hints/disabled_dcs/{dc}", "Keep nothing for the nodes of a data centre", &[]),
    delete("/messina/hints/disabled_dcs/{dc}", "Keep hints for the nodes of a data centre again", &[]),
    post(
        "/messina/hints/throttle",
        "Set how many KiB per second of hints go to a node; 0 is no limit",
        &["value"],
    ),
    post(
        "/messina/import/{keyspace}",
        "Load the sstables of a folder",
        &["cf", "dir", "verify", "copy_data", "keep_level", "keep_repaired", "check"],
    ),
    get("/messina/internode", "Messages with other nodes, and reads that found replicas to differ", "object"),
    get("/messina/members", "Every member, and what was heard of it last", "array"),
    get("/messina/node", "Ports, place and version of the node", "object"),
    get("/messina/pools", "Groups of tasks", "array"),
    get("/messina/proxy", "Latencies of requests", "object"),
    get("/messina/repair/{id}", "A repair with the lines it has said", "object").with(&["from"]),
    get("/messina/repairs", "Repairs that run, or have run lately", "array"),
    get("/messina/replication", "How keyspaces are replicated", "array"),
    post("/messina/stop_repair", "End a repair, by its number or session, or all", &["id"]),
    get("/messina/tables", "Every number of tables", "array").with(&["keyspace", "table"]),
    get("/messina/timeouts", "Timeouts in milliseconds, by kind of request", "object"),
    get("/snitch/datacenter", "The data centre of a node", "string").with(&["host"]),
    get("/snitch/name", "The class of the snitch", "string"),
    get("/snitch/rack", "The rack of a node", "string").with(&["host"]),
    get("/storage_proxy/hinted_handoff_enabled", "Whether hints are kept", "boolean"),
    post("/storage_proxy/hinted_handoff_enabled", "Keep hints, or no longer", &["enable"]),
    get("/storage_proxy/max_hint_window", "For how many milliseconds of absence hints are kept", "long"),
    post("/storage_proxy/max_hint_window", "Set for how long an absence hints are kept", &["ms"]),
    get(
        "/storage_proxy/metrics/{request}/moving_average_histogram",
        "Latencies of requests",
        "rate_moving_average_and_histogram",
    ),
    get("/storage_proxy/schema_versions", "Nodes by the version of their schema", "array"),
    get("/storage_service/active_repair", "Numbers of repairs that run", "array"),
    post("/storage_service/auto_compaction/{keyspace}", "Compact tables by themselves again", &["cf"]),
    delete("/storage_service/auto_compaction/{keyspace}", "Compact tables no longer by themselves", &["cf"]),
    post("/storage_service/cleanup_all", "Let go of what the node does not own", &[]),
    get("/storage_service/cluster_name", "The name of the cluster", "string"),
    post("/storage_service/compact", "Merge all sstables of every table", COMPACTION),
    get(
        "/storage_service/compaction_throughput",
        "MiB per second that compactions may read; 0 is no limit",
        "double",
    ),
    post("/storage_service/compaction_throughput", "Set the limit of what compactions read", &["value"]),
    post("/storage_service/decommission", "Refused: nothing moves what the node holds", &[]),
    get("/storage_service/describe_ring/{keyspace}", "Token ranges and who holds them", "array"),
    post("/storage_service/drain", "Take no more writes and flush every table", &[]),
    post("/storage_service/flush", "Write every memtable to sstables", &[]),
    post("/storage_service/force_remove_completion", "Nothing: no removal ever runs", &[]),
    post("/storage_service/force_terminate_repair", "End all repairs", &[]),
    get("/storage_service/generation_number", "When the node started, seconds since the epoch", "long"),
    get("/storage_service/gossiping", "Whether other nodes are let know that this one lives", "boolean"),
    post("/storage_service/gossiping", "Let other nodes know again that this one lives", &[]),
    delete("/storage_service/gossiping", "Tell other nodes that this one is gone", &[]),
    get("/storage_service/host_id", "Ids of nodes, by address", "array"),
    get("/storage_service/hostid/local", "The id of this node", "string"),
    get("/storage_service/incremental_backups", "Whether flushed sstables are linked as backups", "boolean"),
    post(
        "/storage_service/incremental_backups",
        "Link flushed sstables as backups, or no longer",
        &["value"],
    ),
    get("/storage_service/is_starting", "false", "boolean"),
    get("/storage_service/join_ring", "true", "boolean"),
    post("/storage_service/join_ring", "Refused: the node has joined", &[]),
    post("/storage_service/keyspace_cleanup/{keyspace}", "Let go of what the node does not own", &["cf"]),
    post("/storage_service/keyspace_compaction/{keyspace}", "Merge all sstables of tables", COMPACTION),
    post("/storage_service/keyspace_flush/{keyspace}", "Write memtables to sstables", &["cf"]),
    get("/storage_service/keyspace_scrub/{keyspace}", "As POST; how many partitions were lost", "long")
        .with(SCRUB),
    post(
        "/storage_service/keyspace_scrub/{keyspace}",
        "Write sstables anew without what cannot be read",
        SCRUB,
    ),
    get("/storage_service/keyspace_upgrade_sstables/{keyspace}", "As POST", "long").with(UPGRADE),
    post(
        "/storage_service/keyspace_upgrade_sstables/{keyspace}",
        "Write sstables anew in the present format",
        UPGRADE,
    ),
    get(
        "/storage_service/keyspaces",
        "Names of keyspaces; the type is all, user or non_local_strategy",
        "array",
    )
    .with(&["type", "replication"]),
    get("/storage_service/load", "Bytes of live sstables", "double"),
    get("/storage_service/load_map", "Bytes of live sstables, by address", "array"),
    get("/storage_service/logging_level", "Levels of the log, by module", "array"),
    get("/storage_service/metrics/exceptions", "How many compactions have failed", "long"),
    post("/storage_service/move", "Refused: nothing moves what nodes hold", &["new_token"]),
    get("/storage_service/native_transport", "Whether the ports of clients are open", "boolean"),
    post("/storage_service/native_transport", "Open the ports of clients again", &[]),
    delete("/storage_service/native_transport", "Close the ports of clients", &[]),
    get("/storage_service/natural_endpoints/{keyspace}", "Which nodes have a partition", "array")
        .with(&["cf", "key"]),
    get("/storage_service/nodes/joining", "Nodes that join", "array"),
    get("/storage_service/nodes/leaving", "Nodes that leave", "array"),
    get("/storage_service/nodes/moving", "Nodes that move: none", "array"),
    get("/storage_service/operation_mode", "NORMAL, DRAINING, DRAINED, JOINING or LEAVING", "string"),
    get("/storage_service/ownership", "Shares of the ring, by address", "array"),
    get("/storage_service/ownership/{keyspace}", "Shares of a keyspace, by address", "array"),
    get("/storage_service/partitioner_name", "The class of the partitioner", "string"),
    post("/storage_service/rebuild", "Refused: nothing streams data", &["source_dc"]),
    get("/storage_service/release_version", "The version that clients see", "string"),
    get("/storage_service/removal_status", "That no removal runs", "string"),
    post("/storage_service/remove_node", "Refused: who holds tokens can only be replaced", &["host_id"]),
    get("/storage_service/repair_async/{keyspace}", "RUNNING, SUCCESSFUL or FAILED", "string").with(&["id"]),
    post(
        "/storage_service/repair_async/{keyspace}",
        "Make the replicas of a keyspace equal; the number of the repair, 0 if there is nothing to do",
        REPAIR,
    ),
    get("/storage_service/repair_status", "As repair_async, behind the end of the repair", "string")
        .with(&["id", "timeout"]),
    get("/storage_service/rpc_server", "false: there is no Thrift", "boolean"),
    get("/storage_service/schema_version", "The version of the schema", "string"),
    get("/storage_service/snapshots", "Snapshots and their sizes, by name", "array"),
    post("/storage_service/snapshots", "Keep tables as they are now", &["tag", "kn", "cf", "sf", "ttl"]),
    delete("/storage_service/snapshots", "Remove a snapshot, or all", &["tag", "kn"]),
    get("/storage_service/snapshots/size/true", "Bytes that only snapshots hold", "long"),
    post("/storage_service/sstables/{keyspace}", "Load the sstables in a table's upload folder", &["cf"]),
    get("/storage_service/tokens", "Tokens of this node", "array"),
    get("/storage_service/tokens/{node}", "Tokens of a node", "array"),
    get("/storage_service/tokens_endpoint", "Addresses of nodes, by token", "array"),
    get("/storage_service/trace_probability", "0: requests are traced when clients ask for it", "double"),
    post("/storage_service/trace_probability", "Refused: requests are traced when clients ask for it", &[]),
    get("/system/logger", "Modules that have a level of their own, and ROOT", "array"),
    post("/system/logger", "Set the level of all modules", &["level"]),
    get("/system/logger/{logger}", "The level of a module", "string"),
    post("/system/logger/{logger}", "Set the level of a module", &["level"]),
    get("/system/uptime_ms", "Milliseconds since the start", "long"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_sorted_and_each_belongs_to_a_resource() {
        let paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
        assert!(paths.is_sorted(), "{paths:?}");
        let mut all: Vec<(&str, &str)> = ROUTES.iter().map(|route| (route.method, route.path)).collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        let described: usize = RESOURCES
            .iter()
            .map(|(name, _)| {
                description(name).expect("it is there")["apis"].as_array().expect("a list").len()
            })
            .sum();
        let mut distinct = paths;
        distinct.dedup();
        assert_eq!(described, distinct.len());
    }

    #[test]
    fn every_parameter_is_explained_and_every_explanation_used() {
        let mut used: Vec<&str> = Vec::new();
        for route in ROUTES {
            used.extend(route.parameters);
            used.extend(route.path.split(['{', '}']).skip(1).step_by(2));
        }
        used.sort_unstable();
        used.dedup();
        let known: Vec<&str> = PARAMETERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(used, known);
    }

    #[test]
    fn a_path_has_as_many_parts_as_its_route() {
        let path = |method: &str, path: &str| {
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            find(method, &parts).map(|route| route.path)
        };
        assert_eq!(path("GET", "/column_family/name"), Some("/column_family/name"));
        assert_eq!(
            path("GET", "/column_family/metrics/read/ks:t"),
            Some("/column_family/metrics/{metric}/{name}")
        );
        assert_eq!(path("POST", "/column_family/name"), None);
        assert_eq!(path("GET", "/column_family/metrics/read/ks:t/more"), None);
        assert_eq!(path("GET", "/column_family/metrics/"), None);
        assert_eq!(path("GET", "/"), None);
    }
}
