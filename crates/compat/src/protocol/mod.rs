//! What drivers hide, by raw sockets and in every version of the protocol: who is told of what and how often, and what
//! becomes of payloads that nobody asked for. The expectations hold for Apache Cassandra, too.

mod events;
mod payload;
mod talk;

use std::net::SocketAddr;

use crate::server::Server;
use crate::suite::{Options, Report};

const VERSIONS: [u8; 3] = [3, 4, 5];

type Case = (&'static str, fn(SocketAddr, u8, usize) -> Result<String, String>);

const CASES: &[Case] = &[
    ("schema_events", events::schema),
    ("node_events", events::nodes),
    ("register", events::register),
    ("payload_of_every_request", payload::every_request),
    ("large_payloads", payload::large),
    ("broken_payloads", payload::broken),
];

/// Runs every case by every version against one server, and stops it while clients listen.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    let mut running: Option<Server> = None;
    report.test(&format!("protocol::start --smp {shards}"), || {
        running = Some(options.server("protocol", shards)?);
        Ok(String::new())
    });
    let Some(mut server) = running else { return };
    for version in VERSIONS {
        for (name, case) in CASES {
            report.test(&format!("protocol::{name} v{version} --smp {shards}"), || {
                case(server.address, version, usize::from(shards))
            });
        }
    }
    report.test(&format!("protocol::stop --smp {shards}"), || events::stop(&mut server));
}
