//! What a server says about itself in SUPPORTED.

/// How a node's shards own tokens and how a client reaches one: the keys that shard-aware drivers read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharding {
    /// The shard that serves this connection.
    pub shard: u16,
    /// How many shards the node has.
    pub shards: u16,
    /// Where `source port % shards` chooses the shard.
    pub shard_aware_port: Option<u16>,
    /// The same for encrypted connections.
    pub shard_aware_port_ssl: Option<u16>,
}

/// The value of `CQL_VERSION`.
pub const CQL_VERSION: &str = "3.4.7";

/// The keys and values of SUPPORTED. Every shard owns one contiguous interval of the ring, which drivers know as the
/// `biased-token-round-robin` algorithm that ignores no bits.
pub fn options(sharding: Option<&Sharding>) -> Vec<(String, Vec<String>)> {
    let mut options: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |key: &str, values: &[&str]| {
        options.push((key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect()));
    };
    add("CQL_VERSION", &[CQL_VERSION]);
    add("COMPRESSION", &["snappy", "lz4"]);
    add("PROTOCOL_VERSIONS", &["3/v3", "4/v4", "5/v5"]);
    if let Some(sharding) = sharding {
        add("SCYLLA_SHARD", &[&sharding.shard.to_string()]);
        add("SCYLLA_NR_SHARDS", &[&sharding.shards.to_string()]);
        add("SCYLLA_PARTITIONER", &["org.apache.cassandra.dht.Murmur3Partitioner"]);
        add("SCYLLA_SHARDING_ALGORITHM", &["biased-token-round-robin"]);
        add("SCYLLA_SHARDING_IGNORE_MSB", &["0"]);
        if let Some(port) = sharding.shard_aware_port {
            add("SCYLLA_SHARD_AWARE_PORT", &[&port.to_string()]);
        }
        if let Some(port) = sharding.shard_aware_port_ssl {
            add("SCYLLA_SHARD_AWARE_PORT_SSL", &[&port.to_string()]);
        }
    }
    options
}

/// Reads the sharding out of the keys, as a client does; `None` when they are missing or make no sense.
pub fn sharding_of(options: &[(String, Vec<String>)]) -> Option<Sharding> {
    let get = |key: &str| -> Option<&str> {
        let (_, values) = options.iter().find(|(k, _)| k == key)?;
        values.first().map(String::as_str)
    };
    let shard = get("SCYLLA_SHARD")?.parse().ok()?;
    let shards: u16 = get("SCYLLA_NR_SHARDS")?.parse().ok()?;
    let plain = get("SCYLLA_SHARDING_IGNORE_MSB")? == "0";
    (plain && shard < shards).then(|| Sharding {
        shard,
        shards,
        shard_aware_port: get("SCYLLA_SHARD_AWARE_PORT").and_then(|p| p.parse().ok()),
        shard_aware_port_ssl: get("SCYLLA_SHARD_AWARE_PORT_SSL").and_then(|p| p.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharding_survives_the_trip() {
        for (plain, ssl) in [(Some(19042), None), (None, Some(19142)), (Some(19042), Some(19142))] {
            let sharding =
                Sharding { shard: 1, shards: 4, shard_aware_port: plain, shard_aware_port_ssl: ssl };
            assert_eq!(sharding_of(&options(Some(&sharding))), Some(sharding));
        }
        assert_eq!(sharding_of(&options(None)), None);
    }
}
