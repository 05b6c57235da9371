//! `clientstats`: who is connected.

use crate::context::Context;
use crate::error::Error;
use crate::rest::Client;
use crate::table::Table;
use std::collections::BTreeMap;

/// `clientstats [--all] [--client-options]`.
pub fn clientstats(context: &mut Context<'_>) -> Result<(), Error> {
    for history in ["--by-protocol", "--clear-history"] {
        if context.given.has(history) {
            return Err(Error::usage(format!("{history}: the node keeps no history of connections")));
        }
    }
    let clients: Vec<Client> = context.node.get("/messina/clients", &[])?;
    let options = context.given.has("--client-options");
    print(&clients, context.given.has("--all") || options, options, context.out);
    Ok(())
}

fn print(clients: &[Client], all: bool, options: bool, out: &mut String) {
    if all && !clients.is_empty() {
        print_connections(clients, options, out);
    }
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for client in clients {
        *users.entry(&client.user).or_default() += 1;
    }
    out.push_str(&format!("Total connected clients: {}\n\n", clients.len()));
    let mut table = Table::new();
    table.add(["User", "Connections"]);
    for (user, connections) in users {
        table.add([user, &connections.to_string()]);
    }
    table.print(out);
}

fn print_connections(clients: &[Client], options: bool, out: &mut String) {
    let mut table = Table::new();
    let mut head = vec![
        "Address",
        "SSL",
        "Cipher",
        "Protocol",
        "Version",
        "User",
        "Keyspace",
        "Requests",
        "Driver-Name",
        "Driver-Version",
    ];
    head.extend(options.then_some("Client-Options"));
    table.add(head);
    for client in clients {
        let or = |value: &Option<String>, absent: &str| value.clone().unwrap_or_else(|| absent.to_owned());
        let mut row = vec![
            format!("/{}:{}", client.address, client.port),
            client.ssl.to_string(),
            or(&client.cipher, "undefined"),
            or(&client.protocol, "undefined"),
            client.version.to_string(),
            client.user.clone(),
            or(&client.keyspace, ""),
            client.requests.to_string(),
            or(&client.driver_name, "undefined"),
            or(&client.driver_version, "undefined"),
        ];
        let given: Vec<String> =
            client.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        row.extend(options.then(|| given.join(", ")));
        table.add(row);
    }
    table.print(out);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;

    fn client(port: u16, keyspace: Option<&str>, requests: u64) -> Client {
        Client {
            address: "127.0.0.1".into(),
            port,
            version: 4,
            user: "anonymous".into(),
            keyspace: keyspace.map(str::to_owned),
            requests,
            driver_name: Some("Apache Cassandra Python Driver".into()),
            driver_version: Some("3.30.1".into()),
            ..Client::default()
        }
    }

    #[test]
    fn the_screens_are_cassandras() {
        let clients = [client(45706, Some("shop"), 3), client(45702, None, 16)];
        let mut out = String::new();
        print(&clients, true, false, &mut out);
        assert_eq!(out, golden(include_str!("../testdata/clientstats_all.txt")));
        out.clear();
        print(&[], true, false, &mut out);
        assert_eq!(out, "Total connected clients: 0\n\nUser Connections\n");
    }
}
