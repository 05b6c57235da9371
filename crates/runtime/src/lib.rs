//! One pinned executor per shard and the only door to the operating system: files, net, time, chance.
