//! The commands of the suite in order, and the data they look at.

use super::mistakes::MISTAKES;
use super::shape::Layout::{self, Keyspaces, Left, Lines, Names, Padded, Right, Table, Unique};

/// One command.
pub struct Step {
    /// Its name in the golden file.
    pub name: &'static str,
    /// Its words.
    pub words: &'static [&'static str],
    /// How its screen is laid out.
    pub layout: Layout,
    /// What Cassandra calls it, when it does not know the word.
    pub theirs: Option<&'static [&'static str]>,
}

/// A step that both know by the same words.
pub const fn step(name: &'static str, words: &'static [&'static str], layout: Layout) -> Step {
    Step { name, words, layout, theirs: None }
}

/// The statements that make and fill the tables.
pub fn statements() -> Vec<String> {
    let schema = [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE KEYSPACE \"Mixed\" WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "CREATE KEYSPACE empty_ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE shop.visits (who text, at int, page text, PRIMARY KEY (who, at))",
        "CREATE TABLE shop.carts (id int PRIMARY KEY, items text) \
         WITH compaction = {'class': 'LeveledCompactionStrategy'}",
        "CREATE TABLE shop.never (id int PRIMARY KEY, items text)",
        "CREATE TABLE \"Mixed\".\"Case\" (id int PRIMARY KEY, v text)",
        "CREATE KEYSPACE keys WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE keys.numbers (k int PRIMARY KEY)",
        "CREATE TABLE keys.pairs (a int, b text, PRIMARY KEY ((a, b)))",
        "CREATE TABLE keys.ids (k uuid PRIMARY KEY)",
    ];
    let mut all: Vec<String> = schema.map(str::to_owned).into();
    for i in 0..200 {
        let who = i % 20;
        all.push(format!(
            "INSERT INTO shop.visits (who, at, page) VALUES ('user{who}', {i}, 'page {i} of the shop')"
        ));
        all.push(format!("INSERT INTO shop.carts (id, items) VALUES ({i}, 'items of {i}')"));
    }
    for i in 0..20 {
        all.push(format!("SELECT * FROM shop.visits WHERE who = 'user{i}'"));
        all.push(format!("SELECT * FROM shop.carts WHERE id = {i}"));
    }
    for i in 0..5 {
        all.push(format!("DELETE FROM shop.visits WHERE who = 'user{i}' AND at = {i}"));
    }
    all
}

const COMPACTIONS: &[&str] = &[
    "id",
    "keyspace_name",
    "columnfamily_name",
    "compacted_at",
    "bytes_in",
    "bytes_out",
    "rows_merged",
    "compaction_properties",
];
const SNAPSHOTS: &[&str] = &[
    "Snapshot name",
    "Keyspace name",
    "Column family name",
    "True size",
    "Size on disk",
    "Creation time",
    "Expiration time",
];
const NODES: &[&str] = &["--", "Address", "Load", "Tokens", "Owns", "Host ID", "Rack"];
const NODES_OWNED: &[&str] = &["--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"];
const POOLS: &[&str] = &["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"];
const DROPPED: &[&str] = &["Message type", "Dropped", "50%", "95%", "99%", "Max"];
const CONNECTIONS: &[&str] = &[
    "Address",
    "SSL",
    "Cipher",
    "Protocol",
    "Version",
    "User",
    "Keyspace",
    "Requests",
    "Driver-Name",
    "Driver-Version",
];

/// Every command, in the order they run: later ones see what earlier ones did.
pub fn steps() -> impl Iterator<Item = &'static Step> {
    SCREENS.iter().chain(MISTAKES).chain(END)
}

const SCREENS: &[Step] = &[
    step("listsnapshots-none", &["listsnapshots"], Lines),
    step("flush", &["flush", "shop"], Lines),
    step("flush-tables", &["flush", "shop", "visits", "carts"], Lines),
    step("flush-keyspace-unknown", &["flush", "nope"], Lines),
    step("flush-table-unknown", &["flush", "shop", "nope"], Lines),
    step("status", &["status"], Table(NODES)),
    step("status-keyspace", &["status", "shop"], Table(NODES_OWNED)),
    step("status-resolved", &["status", "-r"], Table(NODES)),
    step("status-ports", &["-pp", "status"], Table(NODES)),
    step("status-unknown", &["status", "nope"], Lines),
    step("status-option-unknown", &["status", "--foo"], Lines),
    step("info", &["info"], Lines),
    step("info-tokens", &["info", "-T"], Unique),
    step("tablestats", &["tablestats", "shop"], Lines),
    step("tablestats-human", &["tablestats", "-H", "shop.visits"], Lines),
    step("tablestats-json", &["tablestats", "-F", "json", "shop.visits"], Lines),
    step("tablestats-yaml", &["tablestats", "-F", "yaml", "shop.visits", "Mixed"], Lines),
    step("tablestats-two", &["tablestats", "shop.visits", "Mixed"], Lines),
    step("tablestats-locations", &["tablestats", "-l", "shop.never"], Lines),
    step("tablestats-sorted", &["tablestats", "-s", "writes", "-t", "1", "shop"], Lines),
    step("tablestats-top", &["tablestats", "-t", "1"], Lines),
    step("tablestats-sort-unknown", &["tablestats", "-s", "foo"], Lines),
    step("tablestats-empty", &["tablestats", "empty_ks"], Lines),
    step("tablestats-keyspace-unknown", &["tablestats", "nope"], Lines),
    step("tablestats-table-unknown", &["tablestats", "shop.nope"], Lines),
    step("tablestats-format-unknown", &["tablestats", "-F", "xml"], Lines),
    Step {
        theirs: Some(&["tablestats", "shop.visits"]),
        ..step("cfstats", &["cfstats", "shop.visits"], Lines)
    },
    step("tablehistograms", &["tablehistograms", "shop", "visits"], Right),
    step("tablehistograms-dotted", &["tablehistograms", "shop.visits"], Right),
    step("tablehistograms-never", &["tablehistograms", "shop", "never"], Right),
    step("tablehistograms-unknown", &["tablehistograms", "shop", "nope"], Lines),
    step("tablehistograms-keyspace", &["tablehistograms", "shop"], Lines),
    Step {
        theirs: Some(&["tablehistograms", "shop", "visits"]),
        ..step("cfhistograms", &["cfhistograms", "shop", "visits"], Right)
    },
    step("proxyhistograms", &["proxyhistograms"], Right),
    step("compactionstats", &["compactionstats"], Padded),
    step("compactionstats-human", &["compactionstats", "-H"], Padded),
    step("compact", &["compact", "shop", "visits"], Lines),
    step("compact-keyspace-unknown", &["compact", "nope"], Lines),
    step("compact-table-unknown", &["compact", "shop", "nope"], Lines),
    step("compactionhistory", &["compactionhistory"], Table(COMPACTIONS)),
    step("compactionhistory-json", &["compactionhistory", "-F", "json"], Unique),
    step("compactionhistory-yaml", &["compactionhistory", "-F", "yaml"], Unique),
    step("snapshot", &["snapshot", "-t", "first", "shop"], Lines),
    step("snapshot-again", &["snapshot", "-t", "first", "shop"], Lines),
    step("snapshot-table", &["snapshot", "-t", "second", "-cf", "visits", "shop"], Lines),
    step("snapshot-tables", &["snapshot", "-t", "third", "-kt", "shop.visits,shop.carts"], Lines),
    step("snapshot-ttl", &["snapshot", "-t", "fourth", "--ttl", "1h", "shop"], Lines),
    step("snapshot-unflushed", &["snapshot", "-sf", "-t", "fifth", "shop"], Lines),
    step("snapshot-unnamed", &["snapshot", "shop"], Lines),
    step("snapshot-keyspace-unknown", &["snapshot", "-t", "x", "nope"], Lines),
    step("snapshot-table-unknown", &["snapshot", "-t", "x", "-cf", "nope", "shop"], Lines),
    step("snapshot-table-of-many", &["snapshot", "-t", "x", "-cf", "visits", "shop", "Mixed"], Lines),
    step("listsnapshots", &["listsnapshots"], Table(SNAPSHOTS)),
    step("clearsnapshot", &["clearsnapshot", "-t", "first"], Lines),
    step("clearsnapshot-keyspace", &["clearsnapshot", "-t", "second", "shop"], Lines),
    step("clearsnapshot-missing", &["clearsnapshot", "-t", "missing"], Lines),
    step("clearsnapshot-nothing", &["clearsnapshot"], Lines),
    step("clearsnapshot-both", &["clearsnapshot", "-t", "second", "--all"], Lines),
    step("clearsnapshot-all", &["clearsnapshot", "--all"], Lines),
    step("listsnapshots-cleared", &["listsnapshots"], Lines),
    step("version", &["version"], Lines),
    step("version-extra", &["version", "extra"], Lines),
    step("describecluster", &["describecluster"], Keyspaces),
    step("tpstats", &["tpstats"], Names([POOLS, DROPPED])),
    step("getlogginglevels", &["getlogginglevels"], Lines),
    step("setlogginglevel", &["setlogginglevel", "org.apache.cassandra.db", "DEBUG"], Lines),
    step("gettimeout-read", &["gettimeout", "read"], Lines),
    step("gettimeout-range", &["gettimeout", "range"], Lines),
    step("gettimeout-write", &["gettimeout", "write"], Lines),
    step("gettimeout-counterwrite", &["gettimeout", "counterwrite"], Lines),
    step("gettimeout-cascontention", &["gettimeout", "cascontention"], Lines),
    step("gettimeout-truncate", &["gettimeout", "truncate"], Lines),
    step("gettimeout-misc", &["gettimeout", "misc"], Lines),
    step("gettimeout-unknown", &["gettimeout", "foo"], Lines),
    step("gettimeout-nothing", &["gettimeout"], Lines),
    step("ring", &["ring"], Left),
    step("ring-keyspace", &["ring", "shop"], Left),
    step("ring-unknown", &["ring", "nope"], Lines),
    step("describering", &["describering", "shop"], Unique),
    step("describering-unknown", &["describering", "nope"], Lines),
    step("describering-nothing", &["describering"], Lines),
    step("gettraceprobability", &["gettraceprobability"], Lines),
    step("settraceprobability", &["settraceprobability", "0.25"], Lines),
    step("settraceprobability-wrong", &["settraceprobability", "2"], Lines),
    step("settraceprobability-nothing", &["settraceprobability"], Lines),
    step("settraceprobability-off", &["settraceprobability", "0"], Lines),
    step("clientstats", &["clientstats"], Table(&["User", "Connections"])),
    step("clientstats-all", &["clientstats", "--all"], Table(CONNECTIONS)),
    step("getsstables", &["getsstables", "shop", "visits", "user1"], Lines),
    step("getsstables-hex", &["getsstables", "-hf", "shop", "visits", "7573657231"], Lines),
    step("getsstables-nowhere", &["getsstables", "shop", "visits", "nobody"], Lines),
    step("getsstables-unknown", &["getsstables", "shop", "nope", "user1"], Lines),
    step("getendpoints", &["getendpoints", "shop", "visits", "user1"], Lines),
    step("getendpoints-keyspace-unknown", &["getendpoints", "nope", "visits", "user1"], Lines),
    step("getendpoints-table-unknown", &["getendpoints", "shop", "nope", "user1"], Lines),
    step("getendpoints-nothing", &["getendpoints", "shop"], Lines),
    step("disableautocompaction", &["disableautocompaction", "shop", "visits"], Lines),
    step("enableautocompaction", &["enableautocompaction", "shop", "visits"], Lines),
    step("enableautocompaction-unknown", &["enableautocompaction", "nope"], Lines),
    step("statusgossip", &["statusgossip"], Lines),
    step("statusbackup", &["statusbackup"], Lines),
    step("statusbinary", &["statusbinary"], Lines),
    step("disablebinary", &["disablebinary"], Lines),
    step("statusbinary-off", &["statusbinary"], Lines),
    step("enablebinary", &["enablebinary"], Lines),
    step("statusbinary-on", &["statusbinary"], Lines),
    step("unknown", &["foo", "bar"], Lines),
    step("help-unknown", &["help", "nope"], Lines),
];

/// Behind this a node takes no writes any more.
const END: &[Step] = &[
    step("drain", &["drain"], Lines),
    step("drain-again", &["drain"], Lines),
    step("info-drained", &["info"], Lines),
];
