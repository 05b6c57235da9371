//! Messages between the members of group 0: entries, votes, parts of snapshots, changes, and their answers. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| raft::codec::probe(data));
