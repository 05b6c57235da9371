//! What the property tests have in common. Beside [samples], which the fuzz targets share and which know no proptest.

use proptest::prelude::*;

use crate::samples::{self, Amount};

/// A property test of so many cases.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() }
}

/// A seed, the index of a table, and how much to make of it.
pub fn any_amount() -> impl Strategy<Value = (u64, usize, Amount)> {
    let amount = (1..20u64, 1..120u64, 0..1200u64);
    let amount = amount.prop_map(|(partitions, rows, value_bytes)| Amount { partitions, rows, value_bytes });
    (any::<u64>(), 0..samples::tables().len(), amount)
}
