//! `tpstats`: the node's groups of tasks, and messages it dropped.

use crate::context::Context;
use crate::error::Error;
use crate::java;
use crate::rest::{Dropped, Pool};
use crate::table::Table;
use crate::tree::Tree;

/// `tpstats [-F json|yaml]`.
pub fn tpstats(context: &mut Context<'_>) -> Result<(), Error> {
    let format = context.given.value("-F").unwrap_or_default().to_owned();
    if !["", "json", "yaml"].contains(&format.as_str()) {
        return Err(Error::usage("arguments for -F are json,yaml only."));
    }
    let pools: Vec<Pool> = context.node.get("/messina/pools", &[])?;
    let dropped: Vec<Dropped> = context.node.get("/messina/dropped", &[])?;
    match format.as_str() {
        "json" => context.out.push_str(&tree(&pools, &dropped).json()),
        "yaml" => context.out.push_str(&tree(&pools, &dropped).yaml()),
        _ => print(&pools, &dropped, context.out),
    }
    Ok(())
}

fn print(pools: &[Pool], dropped: &[Dropped], out: &mut String) {
    let mut table = Table::new();
    table.add(["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"]);
    for pool in pools {
        let counts = [pool.active, pool.pending, pool.completed, pool.blocked, pool.blocked_all_time];
        table.add(std::iter::once(pool.name.clone()).chain(counts.map(|count| count.to_string())));
    }
    table.print(out);
    out.push_str("\nLatencies waiting in queue (micros) per dropped message types\n");
    let mut table = Table::new();
    // Cassandra pads these heads by hand, wider than their columns.
    table.add(["Message type", "Dropped    ", "50%     ", "95%     ", "99%     ", "Max"]);
    for message in dropped {
        let waited = [message.p50, message.p95, message.p99, message.max].map(java::double);
        table.add([message.message.clone(), message.dropped.to_string()].into_iter().chain(waited));
    }
    table.print(out);
}

fn tree(pools: &[Pool], dropped: &[Dropped]) -> Tree {
    let named = |entries: Vec<(&str, Tree)>| {
        Tree::Map(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let pool = |pool: &Pool| {
        let counts = vec![
            ("TotalBlockedTasks", Tree::count(pool.blocked_all_time)),
            ("ActiveTasks", Tree::count(pool.active)),
            ("PendingTasks", Tree::count(pool.pending)),
            ("CurrentlyBlockedTasks", Tree::count(pool.blocked)),
            ("CompletedTasks", Tree::count(pool.completed)),
        ];
        (pool.name.clone(), named(counts))
    };
    let latency = |message: &Dropped| {
        let waited = [message.p50, message.p95, message.p99, message.max].map(Tree::Double);
        (message.message.clone(), Tree::List(waited.into()))
    };
    let counts = dropped.iter().map(|message| (message.message.clone(), Tree::count(message.dropped)));
    let ordered = |entries: Vec<(String, Tree)>| Tree::Map(java::hash_order(entries, 16, |entry| &entry.0));
    named(vec![
        ("ThreadPools", ordered(pools.iter().map(pool).collect())),
        ("DroppedMessage", ordered(counts.collect())),
        ("WaitLatencies", ordered(dropped.iter().map(latency).collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;

    #[test]
    fn the_screen_is_cassandras() {
        let pool = |name: &str, completed| Pool { name: name.into(), completed, ..Pool::default() };
        let pools = [pool("MutationStage", 806), pool("Native-Transport-Auth-Requests", 0)];
        let waited = Dropped {
            message: "SCHEMA_VERSION_REQ".into(),
            p50: 73457.0,
            p95: 73457.0,
            p99: 73457.0,
            max: 73457.0,
            ..Dropped::default()
        };
        let longest = Dropped { message: "PAXOS2_CLEANUP_FINISH_PREPARE_RSP".into(), ..Dropped::default() };
        let mut out = String::new();
        print(&pools, &[waited, longest], &mut out);
        assert_eq!(out, golden(include_str!("../testdata/tpstats.txt")));
    }
}
