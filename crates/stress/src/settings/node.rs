//! `-node`: whom to connect to, and whom to ask.

use super::{Balance, Node};
use crate::error::Error;
use crate::grammar::Group;

/// Reads the sub-options. Errors: a file that cannot be read, words that contradict each other.
pub fn read(group: &Group) -> Result<Node, Error> {
    let text = |prefix: &str| group.value(prefix).map(str::to_owned);
    let nodes = match group.value("file=") {
        None => group.value("").unwrap_or_default().split(',').map(str::to_owned).collect(),
        Some(file) => nodes_of(file)?,
    };
    if nodes.is_empty() {
        return Err(Error::usage("-node: no nodes are given"));
    }
    let balance = group.value("loadbalance=").map(|name| match name.to_ascii_lowercase().as_str() {
        "rack-aware" => Balance::RackAware,
        "dc-aware" => Balance::DcAware,
        _ => Balance::RoundRobin,
    });
    let node = Node {
        nodes,
        only_these: group.said("whitelist").is_some(),
        datacenter: text("datacenter="),
        rack: text("rack="),
        balance,
        remote_datacenter: text("remote-dc="),
    };
    if balance == Some(Balance::RoundRobin) && (node.datacenter.is_some() || node.rack.is_some()) {
        return Err(Error::usage(
            "-node loadbalance=round-robin asks every datacenter and rack: leave datacenter= and rack= out",
        ));
    }
    let is_near = matches!(balance, Some(Balance::DcAware | Balance::RackAware)) || node.datacenter.is_some();
    if node.remote_datacenter.is_some() && !is_near {
        return Err(Error::usage(
            "-node remote-dc= is asked while the near datacenter is away: say datacenter= or loadbalance=dc-aware, too",
        ));
    }
    Ok(node)
}

#[allow(clippy::disallowed_methods, reason = "the command line is read before the runtime exists")]
fn nodes_of(file: &str) -> Result<Vec<String>, Error> {
    let text =
        std::fs::read_to_string(file).map_err(|error| Error::usage(format!("-node file={file}: {error}")))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}
