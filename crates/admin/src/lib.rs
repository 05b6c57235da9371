//! Prometheus metrics over HTTP.
#![forbid(unsafe_code)]
