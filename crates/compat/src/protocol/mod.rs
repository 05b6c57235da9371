//! What drivers hide, by raw sockets and in every version of the protocol: who is told of what and how often, and what
//! becomes of payloads that nobody asked for and of prepared statements whose tables change. The expectations hold for Apache Cassandra, too.

mod events;
mod payload;
mod prepared;
mod result;
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
    ("prepared_again", prepared::again),
    ("prepared_ids", prepared::ids),
    ("payload_of_every_request", payload::every_request),
    ("large_payloads", payload::large),
    ("broken_payloads", payload::broken),
];

/// Runs every case by every version against one server, and stops it while clients listen.
pub fn run(options: &Options, shards: u16, report: &mut Report) {
    if let Some(address) = options.at {
        return cases(address, options, shards, report);
    }
    let mut running: Option<Server> = None;
    report.test(&format!("protocol::start --smp {shards}"), || {
        running = Some(options.server("protocol", shards)?);
        Ok(String::new())
    });
    let Some(mut server) = running else { return };
    cases(server.address, options, shards, report);
    report.test(&format!("protocol::stop --smp {shards}"), || events::stop(&mut server));
}

fn cases(address: SocketAddr, options: &Options, shards: u16, report: &mut Report) {
    let mut test = |name: String, case: &dyn Fn() -> Result<String, String>| {
        let name = format!("protocol::{name} --smp {shards}");
        if options.only.as_ref().is_none_or(|word| name.contains(word)) {
            report.test(&name, case);
        }
    };
    for version in VERSIONS {
        for (name, case) in CASES {
            test(format!("{name} v{version}"), &|| case(address, version, usize::from(shards)));
        }
    }
    test("prepared_and_changed".into(), &|| prepared::changes(address, usize::from(shards)));
}
