//! What one node holds, reached through encoded messages.
#![forbid(unsafe_code)]
