//! Coming into contact: addresses of names, the newest version of the protocol that both sides know, and what errors are called.

use crate::error::Error;
use crate::pool::{Pool, PoolOptions};
use protocol::envelope::Version;
use protocol::failure::{Failure, FailureKind};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// An address of each node, given by name or number. Names are looked up, which blocks the shard: before there is any load.
#[allow(clippy::disallowed_methods, reason = "names are looked up before there is any load")]
pub fn addresses(nodes: &[String], port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut all = Vec::new();
    for node in nodes {
        // Names may have addresses of both kinds; servers listen on the older one unless told otherwise.
        let mut found: Vec<SocketAddr> = match node.parse::<IpAddr>() {
            Ok(ip) => vec![SocketAddr::new(ip, port)],
            Err(_) => (node.as_str(), port)
                .to_socket_addrs()
                .map_err(|error| io::Error::new(error.kind(), format!("{node}: {error}")))?
                .collect(),
        };
        found.sort_by_key(SocketAddr::is_ipv6);
        all.extend(found.into_iter().next());
    }
    Ok(all)
}

/// Connects with the first of these versions, newest first, that the servers know. Errors: of the last one tried.
pub async fn connect_newest(
    contact_points: &[SocketAddr],
    versions: &[Version],
    options: impl Fn(Version) -> PoolOptions,
) -> Result<Pool, Error> {
    let mut last = Error::Unexpected("no version of the protocol");
    for version in versions {
        match Pool::connect(contact_points, options(*version)).await {
            Ok(pool) => return Ok(pool),
            // An older server refuses a version it does not know with an error of the protocol.
            Err(error) if is_about_the_version(&error) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn is_about_the_version(error: &Error) -> bool {
    match error {
        Error::Failure(failure) => failure.kind == FailureKind::Protocol,
        Error::Protocol(_) | Error::Closed(_) => true,
        Error::Connect { .. }
        | Error::NoNode(_)
        | Error::Timeout
        | Error::Tls(_)
        | Error::Type(_)
        | Error::Unexpected(_) => false,
    }
}

/// An error as the Java driver would name it: `(UnavailableException): Not enough replicas …`.
pub fn named(error: &Error) -> String {
    let (class, text) = match error {
        Error::NoNode(_) => ("NoHostAvailableException", error.to_string()),
        Error::Connect { .. } => {
            ("NoHostAvailableException", format!("All host(s) tried for query failed (tried: {error})"))
        }
        Error::Closed(_) => ("TransportException", error.to_string()),
        Error::Timeout => ("OperationTimedOutException", "Timed out waiting for server response".into()),
        Error::Protocol(_) | Error::Unexpected(_) => ("ProtocolError", error.to_string()),
        Error::Tls(_) => ("SSLException", error.to_string()),
        Error::Type(_) => ("InvalidTypeException", error.to_string()),
        Error::Failure(failure) => return named_failure(failure),
    };
    format!("({class}): {text}")
}

fn named_failure(failure: &Failure) -> String {
    let message = failure.message.clone();
    let (class, text) = match &failure.kind {
        FailureKind::Unavailable { consistency, required, alive } => (
            "UnavailableException",
            format!(
                "Not enough replicas available for query at consistency {consistency} ({required} required but only {alive} alive)"
            ),
        ),
        FailureKind::WriteTimeout { consistency, received, block_for, .. } => (
            "WriteTimeoutException",
            format!(
                "Cassandra timeout during write query at consistency {consistency} ({block_for} replica were required but only {received} acknowledged the write)"
            ),
        ),
        FailureKind::ReadTimeout { consistency, received, block_for, .. } => (
            "ReadTimeoutException",
            format!(
                "Cassandra timeout during read query at consistency {consistency} ({block_for} responses were required but only {received} replica responded)"
            ),
        ),
        FailureKind::ReadFailure { .. } => ("ReadFailureException", message),
        FailureKind::WriteFailure { .. } => ("WriteFailureException", message),
        FailureKind::CdcWrite => ("CDCWriteException", message),
        FailureKind::CasWriteUnknown { .. } => ("CASWriteUnknownException", message),
        FailureKind::Function { .. } => ("FunctionExecutionException", message),
        FailureKind::BadCredentials => ("AuthenticationException", message),
        FailureKind::Overloaded => ("OverloadedException", message),
        FailureKind::Bootstrapping => ("BootstrappingException", message),
        FailureKind::Truncate => ("TruncateException", message),
        FailureKind::Syntax => ("SyntaxError", message),
        FailureKind::Unauthorized => ("UnauthorizedException", message),
        FailureKind::Invalid => ("InvalidQueryException", message),
        FailureKind::Config => ("InvalidConfigurationInQueryException", message),
        FailureKind::AlreadyExists { .. } => ("AlreadyExistsException", message),
        FailureKind::Unprepared { .. } => ("UnpreparedException", message),
        FailureKind::Protocol => ("ProtocolError", message),
        FailureKind::Server => ("ServerError", message),
    };
    format!("({class}): {text}")
}
