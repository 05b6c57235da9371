//! Why keys have no effect, where several share the reason.

pub(super) const JVM: &str = "there is no Java virtual machine";
pub(super) const THREADS: &str = "work is divided among shards, one per core, not among pools of threads";
pub(super) const ROLES_LOCAL: &str = "roles are kept on the node";
pub(super) const PLAIN_FILES: &str = "files are not encrypted";
pub(super) const ALTERNATOR: &str = "there is no DynamoDB-compatible port";
pub(super) const THRIFT: &str = "there is no Thrift port";
pub(super) const SEASTAR: &str = "it tunes a runtime that is not this one";
pub(super) const OWN_FORMAT: &str = "sstables are written as sstable.selected_format says";
pub(super) const PAGE_CACHE: &str = "what is cached of sstables is said by file_cache_size";
pub(super) const PAGES_GO: &str = "what is cached are pages of indexes; they go with their sstable";
pub(super) const SCHEMA_LOG: &str = "the schema has a log of its own in the data folder";

pub(super) const STREAMS: &str = "nothing is streamed between nodes yet";
pub(super) const REPAIR: &str =
    "every repair is a full one that compares rows page by page, without trees, marks on sstables or retries";
pub(super) const PAXOS: &str = "there is one way to agree, and its reads and refusals are linearizable";
pub(super) const PAXOS_PAUSES: &str =
    "who gives way pauses for a random time of up to 128 ms, within cas_contention_timeout";
pub(super) const PAXOS_REPAIR: &str =
    "a repair, and a node that replaces another, settle the open rounds of their ranges";
pub(super) const PAXOS_STATE: &str = "what was agreed on is forgotten when every replica has it, and ballots of partitions that were at rest for an hour every few hours";
pub(super) const SILENCE: &str = "a node that does not answer for 2.5 s is down, and connections with it end";
pub(super) const NEAREST: &str =
    "reads go to the replicas of the datacenter that answer fast, whatever they have in memory";
pub(super) const QUEUES: &str =
    "what waits for a node, and what it may ask at a time, is bounded by the node itself";
pub(super) const DRAWN: &str = "tokens are drawn at random, or named by initial_token";
pub(super) const NO_GOSSIP: &str =
    "nodes agree on members and schema by consensus: no start waits for gossip to settle";
pub(super) const CONSENSUS: &str = "nodes always agree on members and schema by consensus";
pub(super) const INTERNODE_COMPRESSION: &str = "messages between nodes are not compressed yet";
pub(super) const OWNERSHIP: &str = "a replica answers for what it holds; coordinators ask who holds a token";
pub(super) const PLAIN_HINTS: &str = "hints are not compressed yet";
pub(super) const CACHES: &str = "there is no such cache yet; chunks and index pages of sstables are cached";
pub(super) const PERMISSIONS: &str =
    "every node has roles and permissions in memory, and a change is in force at once";
pub(super) const CREDENTIALS: &str = "roles are read anew when their validity has ended";
pub(super) const AUDIT: &str = "there is no audit log and no full query log yet";
pub(super) const CDC: &str = "changes are not captured yet";
pub(super) const PEM: &str = "keys and certificates are read from PEM files, which say what they are";
pub(super) const FUNCTIONS: &str = "there are no user-defined functions yet";
pub(super) const VIEWS: &str = "there are no materialized views yet";
pub(super) const INDEXES: &str = "there are no secondary indexes yet";
pub(super) const GUARDRAILS: &str = "guardrails are not there yet";
pub(super) const BACKPRESSURE: &str = "a shard sheds load by the number of its requests and their memory";
pub(super) const SNAPSHOTS: &str =
    "snapshots are taken by nodetool and, with auto_snapshot, of what is dropped or truncated";
pub(super) const TABLETS: &str = "data is spread by token ranges, not by tablets";
pub(super) const LARGE_DATA: &str = "large partitions, rows and cells are not recorded yet";
