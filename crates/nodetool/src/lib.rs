//! Cassandra's nodetool, word for word in what it prints, over a node's REST interface instead of JMX.
//!
//! ```text
//! arguments ─▶ options ─▶ command ─▶ rest (http) ─▶ typed values ─▶ pure formatting ─▶ standard output
//! ```
//! A tool with a terminal, not a part of the node: it blocks, and it has its own sockets and clock. What it prints is
//! compared with Apache Cassandra 5.0 line by line by `cargo x compat nodetool`. Modules, bottom to top.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool beside the node has its own world"
)]

/// What bounds each thing here.
mod limits;
/// What a command can end in.
mod error;
/// Numbers and orders as Java prints them.
mod java;
/// Sizes as Cassandra prints them.
mod size;
/// Texts to compare with.
#[cfg(test)]
mod golden;
/// Columns padded to their longest cell.
mod table;
/// JSON and YAML in the layouts of Jackson and SnakeYAML.
mod tree;
/// HTTP/1.1, one request at a time.
mod http;
/// The node's values, typed.
mod rest;
/// The command line.
mod options;
/// What every command works with.
mod context;
/// Tokens and who has them: status, ring, describering, describecluster, getendpoints.
mod ring;
/// Other nodes as this one hears them, and what is done about them.
mod members;
/// info.
mod info;
/// tablestats.
mod tablestats;
/// tablehistograms and proxyhistograms.
mod histograms;
/// Everything that turns something on, off or over.
mod control;
/// compact, compactionstats, compactionhistory and automatic compaction.
mod compaction;
/// snapshot, listsnapshots, clearsnapshot.
mod snapshots;
/// import and refresh.
mod import;
/// repair and repair_admin.
mod repair;
/// tpstats.
mod pools;
/// clientstats.
mod clients;
/// What is kept for nodes that were away.
mod handoff;
/// The list of commands, and help.
mod command;

use error::Error;
pub use import::{How, Loaded, load};
use std::io::Write;

/// Runs one command line, without the program's name. Returns the exit code: 0, 1 for a mistake of the user, 2 for a
/// failure. Blocks until the node has answered.
pub fn run(arguments: &[String], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut text = String::new();
    // A reader that has gone away, such as `head`, is no failure of the command.
    let mut show = |text: &mut String| {
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        text.clear();
    };
    let result = command::run(arguments, &mut text, &mut show);
    show(&mut text);
    match result {
        Ok(()) => 0,
        Err(Error::Usage(text)) => {
            let _ = writeln!(out, "nodetool: {text}\nSee 'nodetool help' or 'nodetool help <command>'.");
            1
        }
        Err(Error::Said) => 1,
        Err(Error::Connect(text)) => {
            let _ = writeln!(err, "nodetool: {text}");
            1
        }
        Err(Error::Refused(text)) => {
            let _ = writeln!(err, "{text}");
            1
        }
        Err(error @ (Error::Failed(_) | Error::Silent | Error::Answer { .. })) => {
            let _ = writeln!(err, "error: {error}");
            2
        }
    }
}
