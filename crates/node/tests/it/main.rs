//! A whole node in a simulated world, spoken to through the client crate and through raw bytes.

mod bad_days;
mod bad_input;
mod batches;
mod conditional;
mod datacenters;
mod encrypted;
mod events;
mod limits;
mod filtering;
mod found;
mod harness;
mod levels;
mod many;
mod operations;
mod operators;
mod prepared;
mod rest;
mod roles;
mod safety;
mod statements;
mod system_tables;
mod three;
mod traces;
mod tracing;
mod views;
