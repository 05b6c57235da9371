//! Connections to the servers, and what can go wrong on them.

use crate::error::Error;
use crate::limits::{SHOWN_BYTES_MAX, SHOWN_LETTERS_MAX, SHOWN_VALUES_MAX};
use crate::settings::{Balance, Compression, Mode, Node, Settings};
use client::{Place, Pool, PoolOptions, Statement, Usable, contact};
use protocol::compression::Compression as Frames;
use protocol::envelope::Version;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement, Parameters, Query, Request};
use protocol::values::{Values, ValuesBuilder};
use protocol::wire::RawValue;
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tls::{ClientSettings, Connector};
use types::Consistency;
use types::text::format_hex;

/// What the operations of a run use to speak with the servers.
pub struct Session {
    /// Connections by token.
    pub pool: Pool,
    /// Consistency of operations.
    pub level: Consistency,
    /// Consistency of conditions.
    pub serial_level: Consistency,
    /// Statements are prepared.
    pub prepared: bool,
    /// Timestamp of every write, if it is the same for all.
    timestamp: Option<i64>,
    /// The last timestamp given: each is larger than the one before.
    last_timestamp: Cell<i64>,
}

impl Session {
    /// Connects to the nodes of the settings; statements that name no keyspace use the one given.
    pub async fn connect(settings: &Settings, keyspace: Option<String>) -> Result<Session, Error> {
        let (mode, node) = (&settings.mode, &settings.node);
        let addresses = contact::addresses(&node.nodes, settings.port.native)
            .map_err(|error| Error::run(error.to_string()))?;
        let tls = match (&settings.transport.trust, &settings.transport.key) {
            (None, None) => None,
            (trust, key) => {
                let certificate = key.clone().map(|file| (file.clone().into(), file.into()));
                let files = ClientSettings { trust: trust.clone().map(Into::into), certificate };
                Some(Connector::load(&files).await.map_err(|error| Error::run(error.to_string()))?)
            }
        };
        let pool = |near: Option<Place>| {
            let (tls, keyspace) = (tls.clone(), keyspace.clone());
            let (usable, spare) = asked(node, &addresses, near);
            let addresses = addresses.clone();
            async move {
                let options = |version| PoolOptions {
                    connections_per_node: mode.connections as u16,
                    usable: usable.clone(),
                    spare: spare.clone(),
                    ..PoolOptions::new(connection(mode, version, &tls, &keyspace))
                };
                let connected = contact::connect_newest(&addresses, &versions(mode), options).await;
                connected.map_err(|error| Error::run(contact::named(&error)))
            }
        };
        let mut connected = pool(None).await?;
        if is_near_unknown(node) {
            // Where nobody says what is near, the first node that answers does.
            let near = connected.places().next().cloned();
            connected = pool(near).await?;
        }
        // The table of options lets no other name through.
        let level = Consistency::parse(&settings.command.level).unwrap_or(Consistency::One);
        let serial_level = Consistency::parse(&settings.command.serial_level).unwrap_or(Consistency::Serial);
        Ok(Session {
            pool: connected,
            level,
            serial_level,
            prepared: mode.prepared,
            timestamp: settings.columns.timestamp,
            last_timestamp: Cell::new(0),
        })
    }

    /// Runs a statement's text.
    pub async fn query(&self, text: &str, level: Consistency) -> Result<client::Outcome, client::Error> {
        self.pool.query(text, Parameters::at(level)).await
    }

    /// Runs a statement that may change the schema, and waits until all nodes know it.
    pub async fn define(&self, text: &str, level: Consistency) -> Result<client::Outcome, client::Error> {
        self.pool.define(text, level).await
    }

    /// The timestamp of the next write: microseconds, each larger than the one before.
    pub fn timestamp(&self) -> i64 {
        if let Some(timestamp) = self.timestamp {
            return timestamp;
        }
        let next = runtime::unix_micros().max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(next);
        next
    }

    /// Sends one request of a prepared statement at once, if its connection is there and has room: its answer, undecoded.
    pub fn send_now(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Option<Result<client::Sent, client::Error>> {
        if !self.prepared {
            return None;
        }
        let connection = self.pool.ready(statement.token(parameters.values))?;
        connection.execute_now(statement, parameters)
    }

    /// Sends one request of a statement to where its partition lives, and gives the answer undecoded.
    pub async fn send(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<client::outcome::Answer, client::Error> {
        let token = statement.token(parameters.values);
        let connection = self.pool.connection(token).await?;
        let answer = if self.prepared {
            connection.execute_undecoded(statement, parameters).await?
        } else {
            connection.request(&Request::Query(Query { query: statement.text(), parameters })).await?
        };
        answer.result()
    }

    /// Sends a statement with the values of several rows as one batch, to where the first of them lives.
    pub async fn send_batch(
        &self,
        kind: BatchKind,
        statement: &Statement,
        rows: &[ValuesBuilder],
        parameters: Parameters<'_>,
    ) -> Result<(), client::Error> {
        let token = rows.first().and_then(|row| statement.token(row.values()));
        let connection = self.pool.connection(token).await?;
        let source = match self.prepared {
            true => BatchSource::Prepared(statement.id()),
            false => BatchSource::Query(statement.text()),
        };
        let statements = rows.iter().map(|row| BatchStatement { source, values: row.values() }).collect();
        let batch = Batch { kind, statements, parameters: Parameters { skip_metadata: false, ..parameters } };
        connection.batch(batch, &[statement]).await.map(|_| ())
    }
}

/// Versions of the protocol to try, the newest first.
fn versions(mode: &Mode) -> Vec<Version> {
    let versions = match mode.version {
        Some(3) => vec![Version::V3],
        Some(5) => vec![Version::V5],
        Some(_) => vec![Version::V4],
        None => vec![Version::V5, Version::V4, Version::V3],
    };
    // The newest protocol knows LZ4 alone.
    let knows = |version: &Version| mode.compression != Compression::Snappy || *version != Version::V5;
    versions.into_iter().filter(knows).collect()
}

fn connection(
    mode: &Mode,
    version: Version,
    tls: &Option<Connector>,
    keyspace: &Option<String>,
) -> client::Options {
    client::Options {
        compression: match mode.compression {
            Compression::None => Frames::None,
            Compression::Lz4 => Frames::Lz4,
            Compression::Snappy => Frames::Snappy,
        },
        credentials: mode.user.clone().map(|user| (user, mode.password.clone().unwrap_or_default())),
        request_timeout: Some(mode.timeout),
        // Unless the settings bound them, every request of the run may be on its way.
        in_flight: mode.pending_max.unwrap_or(client::limits::STREAMS_MAX),
        tls: tls.clone(),
        keyspace: keyspace.clone(),
        ..client::Options::new(version)
    }
}

/// Whether the near datacenter or rack is that of the first node that answers.
fn is_near_unknown(node: &Node) -> bool {
    match node.balance {
        None | Some(Balance::RoundRobin) => false,
        Some(Balance::DcAware) => node.datacenter.is_none(),
        Some(Balance::RackAware) => node.datacenter.is_none() || node.rack.is_none(),
    }
}

/// Whom to ask, and whom while they are away. `near`: where the first node that answered is, once it is known.
fn asked(node: &Node, addresses: &[SocketAddr], near: Option<Place>) -> (Usable, Vec<Usable>) {
    let addresses: Vec<IpAddr> =
        if node.only_these { addresses.iter().map(SocketAddr::ip).collect() } else { Vec::new() };
    let of = |datacenter: Option<String>, rack: Option<String>| Usable {
        datacenter,
        rack,
        addresses: addresses.clone(),
    };
    if near.is_none() && is_near_unknown(node) {
        return (of(node.datacenter.clone(), None), Vec::new());
    }
    let (near_datacenter, near_rack) = near.map(|place| (place.datacenter, place.rack)).unzip();
    let datacenter = node.datacenter.clone().or(near_datacenter);
    let (rack, mut spare) = match node.balance {
        Some(Balance::RackAware) => (node.rack.clone().or(near_rack), vec![of(datacenter.clone(), None)]),
        None | Some(Balance::RoundRobin | Balance::DcAware) => (node.rack.clone(), Vec::new()),
    };
    spare.extend(node.remote_datacenter.clone().map(|remote| of(Some(remote), None)));
    (of(datacenter, rack), spare)
}

/// Waits, unless the person at the terminal wants the end.
pub async fn rest(time: Duration) {
    let _ended_early = runtime::timeout(time, runtime::shutdown_requested()).await;
}

/// A statement and its values in hexadecimal, as errors print them: the beginning of what is long.
pub fn statement_text(text: &str, values: Values<'_>) -> String {
    let shown = values.iter().take(SHOWN_VALUES_MAX).map(|(_, value)| match value {
        RawValue::Null => "null".to_owned(),
        RawValue::Unset => "unset".to_owned(),
        RawValue::Bytes(bytes) => {
            let more = if bytes.len() > SHOWN_BYTES_MAX { "…" } else { "" };
            format!("0x{}{more}", format_hex(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]))
        }
    });
    let shown: Vec<String> = shown.collect();
    let more = values.len().saturating_sub(SHOWN_VALUES_MAX);
    let more = if more > 0 { format!(", … {more} more") } else { String::new() };
    let mut statement: String = text.chars().take(SHOWN_LETTERS_MAX).collect();
    if statement.len() < text.len() {
        statement.push('…');
    }
    format!("Statement: {statement}\nValues: [{}{more}]", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{read, split};

    /// Whom a command line asks, one after the other, where the first node that answers is in rack `r1` of `dc1`.
    fn asked_by(line: &str) -> Vec<String> {
        let words: Vec<String> = format!("read n=1 -node {line}").split(' ').map(str::to_owned).collect();
        let settings = split(&words).and_then(read).expect(line);
        let addresses = vec!["10.0.0.1:9042".parse().expect("an address")];
        let place = Place { address: addresses[0], datacenter: "dc1".into(), rack: "r1".into() };
        let near = is_near_unknown(&settings.node).then_some(place);
        let (usable, spare) = asked(&settings.node, &addresses, near);
        std::iter::once(usable).chain(spare).map(|usable| usable.to_string()).collect()
    }

    #[test]
    fn the_words_of_a_node_say_who_is_asked() {
        for (line, all) in [
            ("a", &[""][..]),
            ("a loadbalance=round-robin", &[""]),
            ("a datacenter=dc2 rack=r9", &["datacenter dc2, rack r9"]),
            ("a datacenter=dc2 remote-dc=dc1", &["datacenter dc2", "datacenter dc1"]),
            ("a loadbalance=dc-aware", &["datacenter dc1"]),
            ("a loadbalance=dc-aware datacenter=dc2", &["datacenter dc2"]),
            ("a loadbalance=rack-aware", &["datacenter dc1, rack r1", "datacenter dc1"]),
            (
                "a loadbalance=rack-aware rack=r2 remote-dc=dc3",
                &["datacenter dc1, rack r2", "datacenter dc1", "datacenter dc3"],
            ),
            ("a whitelist datacenter=dc2", &["datacenter dc2, one of 10.0.0.1"]),
        ] {
            assert_eq!(asked_by(line), all, "{line}");
        }
    }

    #[test]
    fn statements_are_shown_with_the_beginning_of_what_is_long() {
        let mut values = ValuesBuilder::new();
        values.bytes(&[1, 0xab]).push(RawValue::Null).push(RawValue::Unset);
        assert_eq!(
            statement_text("SELECT a FROM k.t WHERE b = ?", values.values()),
            "Statement: SELECT a FROM k.t WHERE b = ?\nValues: [0x01ab, null, unset]"
        );
        values.clear();
        for _ in 0..1_000 {
            values.bytes(&[7; 5_000]);
        }
        let text = statement_text(&"ü".repeat(100_000), values.values());
        assert!(text.len() < 60_000, "{}", text.len());
        assert!(
            text.ends_with(&format!("…, … {} more]", 1_000 - SHOWN_VALUES_MAX)),
            "{}",
            &text[text.len() - 40..]
        );
    }
}
