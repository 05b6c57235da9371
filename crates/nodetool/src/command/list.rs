//! Every command, by name.

use super::{Arguments, Command};
use crate::options::{Opt, int, switch, valued};
use crate::{
    clients, compaction, control, handoff, histograms, import, info, members, pools, repair, ring, snapshots,
    tablestats,
};

const JOBS: Opt = int(&["-j", "--jobs"], "jobs", "Accepted for scripts: every shard works at once");
const HUMAN: Opt = switch(&["-H", "--human-readable"], "Sizes in KiB, MiB, GiB, TiB");
const FORMAT: Opt = valued(&["-F", "--format"], "format", "json or yaml instead of a table");
const RESOLVE: Opt = switch(&["-r", "--resolve-ip"], "Names of nodes instead of addresses");

const KEYSPACE: Arguments =
    Arguments::One { title: "keyspace", about: "A keyspace, for effective ownership", required: false };
const TABLES: Arguments =
    Arguments::Many { title: "[<keyspace> <tables>...]", about: "A keyspace, and tables of it" };
const DATACENTER: Arguments = Arguments::Many { title: "<datacenter>", about: "The name of a data centre" };
const KEY: Arguments = Arguments::Many {
    title: "[<keyspace> <table> <key>]",
    about: "A keyspace, a table of it, and a partition key",
};

const fn plain(
    name: &'static str,
    about: &'static str,
    run: fn(&mut crate::context::Context<'_>) -> Result<(), crate::error::Error>,
) -> Command {
    Command { name, aliases: &[], about, options: &[], arguments: Arguments::None, check: None, run }
}

const REPAIR: &[Opt] = &[
    switch(&["-pr", "--partitioner-range"], "Only ranges whose first replica this node is"),
    switch(&["-full", "--full"], "Accepted for scripts: every repair looks at all that is stored"),
    valued(&["-st", "--start-token"], "start_token", "The token behind which the range begins"),
    valued(&["-et", "--end-token"], "end_token", "The last token of the range"),
    switch(&["-local", "--in-local-dc"], "Only replicas in this node's data centre"),
    valued(
        &["-dc", "--in-dc"],
        "specific_dc",
        "Only replicas in this data centre; may be given several times",
    ),
    valued(&["-hosts", "--in-hosts"], "specific_host", "Only these replicas; may be given several times"),
    switch(&["-force", "--force"], "Leave out replicas that are down"),
    switch(&["-seq", "--sequential"], "Accepted for scripts: all replicas of a range are read at once"),
    switch(&["-dcpar", "--dc-parallel"], "Accepted for scripts, as --sequential"),
    int(&["-j", "--job-threads"], "job_threads", "Accepted for scripts: a few ranges are repaired at once"),
    switch(&["-os", "--optimise-streams"], "Accepted for scripts: a replica is sent only what it lacks"),
    switch(
        &["-iuk", "--ignore-unreplicated-keyspaces"],
        "Accepted for scripts: keyspaces with one replica are passed over",
    ),
    switch(
        &["-skip-paxos", "--skip-paxos"],
        "Leave lightweight transactions that are on their way as they are",
    ),
    switch(
        &["-paxos-only", "--paxos-only"],
        "Finish lightweight transactions that are on their way, and compare no rows",
    ),
    switch(&["-prv", "--preview"], "Refused: a repair writes what it finds"),
    switch(&["-vd", "--validate"], "Refused, as --preview"),
    switch(&["-pl", "--pull"], "Refused: all replicas are made equal"),
    switch(&["-tr", "--trace"], "Refused: repairs are not traced"),
    switch(
        &["--include-gcgs-expired-tombstones"],
        "Refused: tombstones whose grace is over go only where they delete something",
    ),
];

/// Every command, by name.
pub const COMMANDS: &[Command] = &[
    Command {
        arguments: Arguments::One {
            title: "ip address",
            about: "The address of a node that is down",
            required: true,
        },
        ..plain("assassinate", "Put out a node that is down, without moving its data", members::assassinate)
    },
    Command {
        options: &[JOBS],
        arguments: TABLES,
        ..plain("cleanup", "Let go of what this node does not own", compaction::cleanup)
    },
    Command {
        options: &[
            valued(&["-t", "--tag"], "snapshot_name", "The snapshot"),
            switch(&["--all"], "Every snapshot"),
            valued(&["--older-than"], "older_than", "Refused: snapshots are cleared by name"),
            valued(
                &["--older-than-timestamp"],
                "older_than_timestamp",
                "Refused: snapshots are cleared by name",
            ),
        ],
        arguments: Arguments::Many { title: "[<keyspaces>...]", about: "Keyspaces; all unless given" },
        ..plain("clearsnapshot", "Remove a snapshot, or all of them", snapshots::clearsnapshot)
    },
    Command {
        options: &[
            switch(&["--all"], "Every connection"),
            switch(&["--client-options"], "Every connection with what its driver said at the start"),
            switch(&["--by-protocol"], "Refused: the node keeps no history"),
            switch(&["--clear-history"], "Refused: the node keeps no history"),
        ],
        ..plain("clientstats", "Show connected clients", clients::clientstats)
    },
    Command {
        options: &[
            switch(&["-s", "--split-output"], "Into sstables of halving sizes instead of one"),
            switch(&["--user-defined"], "The arguments are data files of sstables to merge"),
            valued(&["-st", "--start-token"], "start_token", "Only sstables with tokens from here on"),
            valued(&["-et", "--end-token"], "end_token", "Only sstables with tokens up to here"),
        ],
        arguments: Arguments::Many {
            title: "[<keyspace> <tables>...] or <SSTable file>...",
            about: "A keyspace and tables of it, or data files",
        },
        ..plain("compact", "Merge the sstables of tables, or those that are named", compaction::compact)
    },
    Command {
        options: &[FORMAT, HUMAN],
        ..plain("compactionhistory", "Show finished compactions, newest first", compaction::compactionhistory)
    },
    Command {
        options: &[HUMAN],
        ..plain("compactionstats", "Show running and waiting compactions", compaction::compactionstats)
    },
    Command {
        options: &[switch(&["-f", "--force"], "Accepted for scripts")],
        ..plain("decommission", "Refused: nothing moves the data of this node yet", members::decommission)
    },
    plain("describecluster", "Show names, versions, data centres and keyspaces", ring::describecluster),
    Command {
        arguments: Arguments::One { title: "keyspace", about: "The keyspace", required: true },
        ..plain("describering", "Show the token ranges of a keyspace", ring::describering)
    },
    Command {
        arguments: TABLES,
        ..plain("disableautocompaction", "Stop compacting by itself", |context| {
            compaction::automatic(context, false)
        })
    },
    plain("disablebackup", "Link flushed sstables no longer", |context| control::backup(context, false)),
    plain("disablebinary", "Close the ports of clients", |context| control::binary(context, false)),
    plain("disablegossip", "Tell other nodes that this one is gone", |context| {
        members::gossip(context, false)
    }),
    plain("disablehandoff", "Keep no hints any longer", |context| handoff::handoff(context, false)),
    Command {
        arguments: DATACENTER,
        ..plain("disablehintsfordc", "Keep no hints for the nodes of a data centre", |context| {
            handoff::datacenter(context, false)
        })
    },
    plain("drain", "Take no more writes and flush every table", control::drain),
    Command {
        arguments: TABLES,
        ..plain("enableautocompaction", "Compact by itself again", |context| {
            compaction::automatic(context, true)
        })
    },
    plain("enablebackup", "Link flushed sstables as backups", |context| control::backup(context, true)),
    plain("enablebinary", "Open the ports of clients again", |context| control::binary(context, true)),
    plain("enablegossip", "Let other nodes know again that this one lives", |context| {
        members::gossip(context, true)
    }),
    plain("enablehandoff", "Keep hints again", |context| handoff::handoff(context, true)),
    Command {
        arguments: DATACENTER,
        ..plain("enablehintsfordc", "Keep hints for the nodes of a data centre again", |context| {
            handoff::datacenter(context, true)
        })
    },
    plain("failuredetector", "Show how long other nodes have been silent", members::failuredetector),
    Command { arguments: TABLES, ..plain("flush", "Write memtables to sstables", control::flush) },
    Command {
        options: &[valued(&["-g", "--granularity"], "granularity", "ROW, or CELL to look closer"), JOBS],
        arguments: TABLES,
        ..plain("garbagecollect", "Let go of what newer sstables delete", compaction::garbagecollect)
    },
    Command {
        options: &[switch(&["-d", "--precise-mib"], "With decimals, in MiB/s")],
        ..plain(
            "getcompactionthroughput",
            "Show the limit of what compactions read",
            compaction::getcompactionthroughput,
        )
    },
    plain(
        "getconcurrentcompactors",
        "Show how many compactions may run at once",
        compaction::getconcurrentcompactors,
    ),
    Command {
        arguments: KEY,
        ..plain("getendpoints", "Show which nodes have a partition", ring::getendpoints)
    },
    plain("getlogginglevels", "Show the levels of the log", control::getlogginglevels),
    plain("getmaxhintwindow", "Show for how long an absence hints are kept", handoff::getmaxhintwindow),
    Command {
        options: &[switch(&["-hf", "--hex-format"], "The key is written in hexadecimal digits")],
        arguments: KEY,
        ..plain("getsstables", "Show the sstables that may hold a partition", control::getsstables)
    },
    Command {
        arguments: Arguments::Many { title: "[<timeout_type>]", about: "read, range, write, truncate, ..." },
        ..plain("gettimeout", "Show a timeout in milliseconds", control::gettimeout)
    },
    plain("gettraceprobability", "Show which share of requests is traced", control::gettraceprobability),
    Command {
        options: &[RESOLVE],
        ..plain("gossipinfo", "Show what every node says of itself", members::gossipinfo)
    },
    Command {
        options: &[
            switch(
                &["-c", "--no-invalidate-caches"],
                "Accepted for scripts: caches are always what is stored",
            ),
            switch(&["-e", "--extended-verify"], "Read every partition before anything is taken"),
            switch(&["-l", "--keep-level"], "Sstables stay on the level they are on"),
            switch(
                &["-niv", "--no-index-validation"],
                "Accepted for scripts: there are no indexes of sstables to check",
            ),
            switch(&["-p", "--copy-data"], "Copy, or link where that can be done, instead of moving"),
            switch(&["-q", "--quick"], "As --no-verify"),
            switch(&["-r", "--keep-repaired"], "Sstables stay repaired"),
            switch(
                &["-ri", "--require-index-components"],
                "Accepted for scripts: there are no indexes of sstables",
            ),
            switch(
                &["-t", "--no-tokens"],
                "Accepted for scripts: every token is taken, each by the shard that owns it",
            ),
            switch(&["-v", "--no-verify"], "Do not read the data to compare its checksum"),
        ],
        arguments: Arguments::Many {
            title: "[<keyspace> <table> <directory>...]",
            about: "A table, and folders of the node's machine with sstables for it",
        },
        ..plain("import", "Load sstables from folders of the node's machine", import::import)
    },
    Command {
        options: &[switch(&["-T", "--tokens"], "All tokens")],
        ..plain("info", "Show this node: load, uptime, memory", info::info)
    },
    plain("join", "Refused: a node that answers has joined", members::join),
    plain("listpendinghints", "Show what is kept for nodes that were away", handoff::listpendinghints),
    Command {
        options: &[
            switch(&["-nt", "--no-ttl"], "Leave out snapshots that expire"),
            switch(&["-e", "--ephemeral"], "A column for snapshots that end with the node"),
        ],
        ..plain("listsnapshots", "Show snapshots and their sizes", snapshots::listsnapshots)
    },
    Command {
        arguments: Arguments::One { title: "newToken", about: "The new token", required: true },
        ..plain("move", "Refused: nothing moves the data of this node yet", members::move_node)
    },
    Command { options: &[HUMAN], ..plain("netstats", "Show messages with other nodes", members::netstats) },
    plain("pausehandoff", "Deliver no hints for now", |context| handoff::pause(context, true)),
    plain("proxyhistograms", "Show how long this node's clients wait", histograms::proxyhistograms),
    Command {
        options: &[
            valued(&["-ks", "--keyspace"], "specific_keyspace", "Accepted for scripts"),
            valued(&["-ts", "--tokens"], "specific_tokens", "Accepted for scripts"),
            valued(&["-s", "--sources"], "specific_sources", "Accepted for scripts"),
            switch(&["--exclude-local-dc"], "Accepted for scripts"),
        ],
        arguments: Arguments::One { title: "src-dc-name", about: "A data centre", required: false },
        ..plain("rebuild", "Refused: nothing streams data yet", members::rebuild)
    },
    Command {
        arguments: Arguments::Many {
            title: "[<keyspace> <table>]",
            about: "A table, whose upload folder holds sstables",
        },
        ..plain("refresh", "Load the sstables in a table's upload folder", import::refresh)
    },
    Command {
        arguments: Arguments::One {
            title: "remove_operation",
            about: "status, force, or the host id of a node that is down",
            required: true,
        },
        ..plain("removenode", "Refused but for status: who holds tokens is replaced", members::removenode)
    },
    Command {
        options: REPAIR,
        arguments: TABLES,
        ..plain("repair", "Make the replicas of tables equal", repair::repair)
    },
    Command {
        options: &[
            valued(&["-s", "--session"], "session", "The repair to cancel, by its number or session id"),
            switch(&["-a", "--all"], "List those that have ended, too"),
            switch(&["-f", "--force"], "Accepted for scripts: a repair runs on the node that is asked"),
        ],
        arguments: Arguments::Many { title: "[list | cancel]", about: "What to do; list unless given" },
        ..plain("repair_admin", "List repairs of this node, or cancel one", repair::repair_admin)
    },
    plain("resumehandoff", "Deliver hints again", |context| handoff::pause(context, false)),
    Command { options: &[RESOLVE], arguments: KEYSPACE, ..plain("ring", "Show every token", ring::ring) },
    Command {
        options: &[
            switch(&["-ns", "--no-snapshot"], "Make no snapshot before"),
            switch(
                &["-s", "--skip-corrupted"],
                "Accepted for scripts: what cannot be read is always left out",
            ),
            switch(&["-n", "--no-validate"], "Accepted for scripts: rows are checked as far as reading does"),
            switch(&["-r", "--reinsert-overflowed-ttl"], "Accepted for scripts: no ttl overflows here"),
            JOBS,
        ],
        arguments: TABLES,
        ..plain("scrub", "Write sstables anew without what cannot be read", compaction::scrub)
    },
    Command {
        arguments: Arguments::One {
            title: "compaction_throughput",
            about: "MiB per second of the node; 0 is no limit",
            required: true,
        },
        check: Some(|text| text.parse::<i32>().map(drop).map_err(|_| "Integer")),
        ..plain(
            "setcompactionthroughput",
            "Set the limit of what compactions read",
            compaction::setcompactionthroughput,
        )
    },
    Command {
        arguments: Arguments::One {
            title: "throttle_in_kb",
            about: "KiB per second to a node, divided by the number of other nodes; 0 is no limit",
            required: true,
        },
        check: Some(|text| text.parse::<i32>().map(drop).map_err(|_| "Integer")),
        ..plain("sethintedhandoffthrottlekb", "Set how fast hints are delivered", handoff::setthrottle)
    },
    Command {
        arguments: Arguments::Many {
            title: "[<logger> <level>]",
            about: "A logger, and trace, debug, info, warn or error",
        },
        ..plain("setlogginglevel", "Set the level of a logger", control::setlogginglevel)
    },
    Command {
        arguments: Arguments::One { title: "max_hint_window", about: "Milliseconds", required: true },
        check: Some(|text| text.parse::<i32>().map(drop).map_err(|_| "Integer")),
        ..plain("setmaxhintwindow", "Set for how long an absence hints are kept", handoff::setmaxhintwindow)
    },
    Command {
        arguments: Arguments::One { title: "trace_probability", about: "From 0 to 1", required: true },
        check: Some(|text| text.trim().parse::<f64>().map(drop).map_err(|_| "Double")),
        ..plain("settraceprobability", "Set which share of requests is traced", control::settraceprobability)
    },
    Command {
        options: &[
            valued(&["-t", "--tag"], "tag", "The snapshot's name; the time in milliseconds unless given"),
            valued(&["-cf", "--column-family", "--table"], "table", "One table of one keyspace"),
            valued(&["-kt", "--kt-list", "-kc", "--kc.list"], "ktlist", "Tables as ks.table,ks.table"),
            switch(&["-sf", "--skip-flush"], "Leave out what is in memory"),
            valued(&["--ttl"], "ttl", "When it ends by itself, such as 3d"),
        ],
        arguments: Arguments::Many { title: "[<keyspaces>...]", about: "Keyspaces; all unless given" },
        ..plain("snapshot", "Keep tables as they are now", snapshots::snapshot)
    },
    Command { options: &[RESOLVE], arguments: KEYSPACE, ..plain("status", "Show every node", ring::status) },
    plain("statusbackup", "Show whether flushed sstables are linked as backups", |context| {
        control::running(context, "/storage_service/incremental_backups")
    }),
    plain("statusbinary", "Show whether the ports of clients are open", |context| {
        control::running(context, "/storage_service/native_transport")
    }),
    plain("statusgossip", "Show whether this node talks to others", |context| {
        control::running(context, "/storage_service/gossiping")
    }),
    plain("statushandoff", "Show whether hints are kept", handoff::statushandoff),
    Command {
        options: &[valued(&["-id", "--compaction-id"], "compactionId", "The one of compactionstats")],
        arguments: Arguments::Many {
            title: "[<compaction_type>]",
            about: "COMPACTION, MAJOR_COMPACTION, TOMBSTONE_COMPACTION, CLEANUP, SCRUB, GARBAGE_COLLECT or \
                    UPGRADE_SSTABLES; all unless given",
        },
        check: Some(|text| if compaction::KINDS.contains(&text) { Ok(()) } else { Err("OperationType") }),
        ..plain("stop", "End compactions that run", compaction::stop)
    },
    Command {
        aliases: &["cfhistograms"],
        arguments: Arguments::Many {
            title: "[<keyspace> <table> | <keyspace.table>]",
            about: "A table; all unless given",
        },
        ..plain("tablehistograms", "Show latencies and sizes of a table", histograms::tablehistograms)
    },
    Command {
        aliases: &["cfstats"],
        options: &[
            FORMAT,
            HUMAN,
            switch(&["-i"], "All tables but these"),
            switch(&["-l", "--sstable-location-check"], "Whether sstables lie where they should"),
            valued(&["-s", "--sort"], "sort_key", "Largest first by one of the numbers"),
            int(&["-t", "--top"], "top", "Only so many, with --sort"),
        ],
        arguments: Arguments::Many {
            title: "[<keyspace.table>...]",
            about: "Keyspaces and tables; all unless given",
        },
        ..plain("tablestats", "Show the numbers of tables", tablestats::tablestats)
    },
    Command {
        options: &[FORMAT],
        ..plain("tpstats", "Show groups of tasks and dropped messages", pools::tpstats)
    },
    Command {
        arguments: Arguments::Many {
            title: "[endpoint ... ]",
            about: "The address of the node whose hints go; all unless given",
        },
        ..plain("truncatehints", "Throw hints away", handoff::truncatehints)
    },
    Command {
        options: &[switch(&["-a", "--include-all-sstables"], "Also those of the present format"), JOBS],
        arguments: TABLES,
        ..plain("upgradesstables", "Write sstables anew in the present format", compaction::upgradesstables)
    },
    Command {
        options: &[switch(&["-v", "--verbose"], "More of it")],
        ..plain("version", "Show the version that clients see", control::version)
    },
];

/// The command of a name.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name || command.aliases.contains(&name))
}
