//! Checksums, tokens, varints, byte cursors, seeded randomness and hash maps: no I/O, no CQL.
