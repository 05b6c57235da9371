//! The model's laws: encoded forms read back, merging commutes, associates and is idempotent.
