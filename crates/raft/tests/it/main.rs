//! Whole groups on one simulated shard: founding, members, pulling, recovery, damage. Faults at random are `sim raft`'s.

mod group;
mod world;
