//! The limits of group 0, each with its unit and reason.

/// Outcomes that are remembered by command id. A proposer retries within seconds; what is forgotten is still not applied twice,
/// because the version of its scope has moved.
pub const REMEMBERED_MAX: usize = 1024;
/// Bytes of a text that says why something was refused: it is remembered, and shown to a client.
pub const REFUSAL_BYTES_MAX: usize = 512;
/// Ids of dropped tables that are kept: 24 bytes each. A node whose disk has a table that was dropped longer ago sets it aside by
/// name, which is the safe side. Ids that are in use again are never forgotten.
pub const DROPPED_MAX: usize = 65_536;
/// Host ids whose join was given up that are kept: such a node held nothing and was never read.
pub const ABORTED_MAX: usize = 4096;
/// Members that a cluster may ever have had, and host ids it may ever have banned: 1,000 nodes replaced sixteen times.
/// More joins are refused, because who left must never come back.
pub const MEMBERS_EVER_MAX: usize = 16_384;
/// Tokens of one member. Cassandra's default is 16, its old one 256.
pub const TOKENS_MAX: usize = 4096;
/// Roles: every node holds all of them.
pub const ROLES_MAX: usize = 50_000;
/// Pairs of a role and a resource with permissions: every node holds all of them.
pub const PERMISSIONS_MAX: usize = 500_000;
/// Identities of certificates that stand for roles: every node holds all of them.
pub const IDENTITIES_MAX: usize = 100_000;
/// Datacenters that one role names.
pub const DATACENTERS_MAX: usize = 1024;
/// Bytes of a name of a role, a resource, a datacenter or a cluster: tables keep them as keys.
pub const NAME_BYTES_MAX: usize = 65_535;
/// Members changed by one command: those of the largest cluster, should all of them return with new addresses.
pub const UPDATES_MAX: usize = 1024;
