//! The model's laws: encoded forms read back, merging commutes, associates and is idempotent, range tombstones agree
//! with a naive list, pages put together equal the whole.

mod laws;
mod ranges;
pub(crate) mod sample;
