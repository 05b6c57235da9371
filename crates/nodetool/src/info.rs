//! `info`: one node on one screen.

use crate::context::Context;
use crate::error::Error;
use crate::java;
use crate::rest::{Node, Table};
use crate::size;

const MIB: f64 = 1_048_576.0;

/// `info [-T]`.
pub fn info(context: &mut Context<'_>) -> Result<(), Error> {
    let node = context.node.clone();
    let tables = node.tables()?;
    let about = context.about()?;
    let load: f64 = node.get("/storage_service/load", &[])?;
    let uptime_ms: f64 = node.get("/system/uptime_ms", &[])?;
    let id: String = node.get("/storage_service/hostid/local", &[])?;
    let address = own_address(&node, &id)?;
    let place = |what: &str| node.get::<String>(&format!("/snitch/{what}"), &[("host", &address)]);
    let off_heap: u64 = tables.iter().map(Table::off_heap_bytes).sum();
    let uncompressed: u64 = tables.iter().map(|table| table.uncompressed_bytes).sum();
    let gossips: bool = node.get("/storage_service/gossiping", &[])?;
    let generation: i64 = node.get("/storage_service/generation_number", &[])?;
    let heap = |bytes: u64| java::fixed(bytes as f64 / MIB, 2);
    let mut lines = vec![
        ("ID", id),
        ("Gossip active", gossips.to_string()),
        ("Native Transport active", node.get::<bool>("/storage_service/native_transport", &[])?.to_string()),
        ("Load", size::file_size(load)),
        ("Uncompressed load", size::file_size(uncompressed as f64)),
        ("Generation No", if gossips { generation.to_string() } else { "0".into() }),
        ("Uptime (seconds)", ((uptime_ms / 1000.0) as u64).to_string()),
        ("Heap Memory (MB)", format!("{} / {}", heap(about.heap_used), heap(about.heap_total))),
        ("Off Heap Memory (MB)", heap(off_heap)),
        ("Data Center", place("datacenter")?),
        ("Rack", place("rack")?),
        ("Exceptions", node.get::<u64>("/storage_service/metrics/exceptions", &[])?.to_string()),
    ];
    for (label, path) in [("Key Cache", "key"), ("Row Cache", "row"), ("Counter Cache", "counter")] {
        lines.push((label, cache(&node, path)?));
    }
    lines.push(("Network Cache", "size 0 bytes, overflow size: 0 bytes, capacity 0 bytes".into()));
    lines.push(("Percent Repaired", format!("{}%", java::double(percent_repaired(&node, &tables)?))));
    let tokens: Vec<String> = node.get("/storage_service/tokens", &[])?;
    if context.given.has("-T") || tokens.len() == 1 {
        lines.extend(tokens.into_iter().map(|token| ("Token", token)));
    } else {
        lines.push(("Token", format!("(invoke with -T/--tokens to see all {} tokens)", tokens.len())));
    }
    lines.push(("Bootstrap state", "COMPLETED".into()));
    for label in ["Bootstrap failed", "Decommissioning", "Decommission failed"] {
        lines.push((label, "false".into()));
    }
    for (label, value) in lines {
        context.line(format!("{label:<23}: {value}"));
    }
    Ok(())
}

fn own_address(node: &Node, id: &str) -> Result<String, Error> {
    let ids: Vec<crate::rest::Pair<String>> = node.get("/storage_service/host_id", &[])?;
    let own = ids.into_iter().find(|pair| pair.value == id).map(|pair| pair.key);
    own.ok_or_else(|| Error::Failed(format!("the node is not in its own list of nodes: {id}")))
}

/// One of Cassandra's caches. A node without them says zeros.
fn cache(node: &Node, name: &str) -> Result<String, Error> {
    let number = |what: &str| node.get::<Option<f64>>(&format!("/cache_service/metrics/{name}/{what}"), &[]);
    let (hits, requests) = (number("hits_moving_avrage"), number("requests_moving_avrage"));
    let (hits, requests) = (hits?.unwrap_or(0.0), requests?.unwrap_or(0.0));
    let rate = if requests > 0.0 { number("hit_rate")?.unwrap_or(f64::NAN) } else { f64::NAN };
    let period: u64 = node.get(&format!("/cache_service/{name}_cache_save_period"), &[])?;
    Ok(format!(
        "entries {}, size {}, capacity {}, {hits} hits, {requests} requests, {} recent hit rate, {period} save period in seconds",
        number("entries")?.unwrap_or(0.0),
        size::file_size(number("size")?.unwrap_or(0.0)),
        size::file_size(number("capacity")?.unwrap_or(0.0)),
        java::fixed(rate, 3),
    ))
}

/// Of the data that has other replicas, how much was repaired; all of it when there is none.
fn percent_repaired(node: &Node, tables: &[Table]) -> Result<f64, Error> {
    let replication = node.replication()?;
    let copies = |options: &std::collections::BTreeMap<String, String>| {
        let factors = options.iter().filter(|(name, _)| *name != "class");
        factors.filter_map(|(_, factor)| factor.split('/').next()?.parse::<u32>().ok()).sum::<u32>()
    };
    let repairable = |table: &&Table| {
        let entry = replication.iter().find(|entry| entry.key == table.keyspace);
        entry.is_some_and(|entry| copies(&entry.value) > 1)
    };
    let (mut repaired, mut all) = (0, 0);
    for table in tables.iter().filter(repairable) {
        repaired += table.bytes_repaired;
        all += table.bytes_repaired + table.bytes_unrepaired + table.bytes_pending_repair;
    }
    Ok(if all == 0 { 100.0 } else { (repaired as f64 / all as f64 * 1000.0).round() / 10.0 })
}
