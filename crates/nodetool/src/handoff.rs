//! What is kept for nodes that were away: its switches, and what there is.

use crate::context::Context;
use crate::control::local_time;
use crate::error::Error;
use crate::http::escape;
use crate::table::Table;
use serde::Deserialize;

/// What the node keeps for another.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Pending {
    host_id: String,
    address: Option<String>,
    rack: Option<String>,
    dc: Option<String>,
    up: Option<bool>,
    files: u64,
    newest_ms: i64,
    oldest_ms: i64,
}

/// `statushandoff`.
pub fn statushandoff(context: &mut Context<'_>) -> Result<(), Error> {
    let running: bool = context.node.get("/storage_proxy/hinted_handoff_enabled", &[])?;
    context.line(format!("Hinted handoff is {}", if running { "running" } else { "not running" }));
    let disabled: Vec<String> = context.node.get("/messina/hints/disabled_dcs", &[])?;
    for dc in disabled {
        context.line(format!("Data center {dc} is disabled"));
    }
    Ok(())
}

/// `enablehandoff`, `disablehandoff`.
pub fn handoff(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    let value = if on { "true" } else { "false" };
    context.node.post("/storage_proxy/hinted_handoff_enabled", &[("enable", value)])
}

/// `pausehandoff`, `resumehandoff`.
pub fn pause(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    let value = if on { "true" } else { "false" };
    context.node.post("/hinted_handoff/pause", &[("pause", value)])
}

/// `enablehintsfordc`, `disablehintsfordc`.
pub fn datacenter(context: &mut Context<'_>, on: bool) -> Result<(), Error> {
    let [dc] = context.arguments() else {
        let name = if on { "enablehintsfordc" } else { "disablehintsfordc" };
        return Err(Error::usage(format!("{name} requires exactly one data center")));
    };
    let path = format!("/messina/hints/disabled_dcs/{}", escape(dc));
    if on { context.node.delete(&path, &[]) } else { context.node.post(&path, &[]) }
}

/// `sethintedhandoffthrottlekb value`.
pub fn setthrottle(context: &mut Context<'_>) -> Result<(), Error> {
    let value = context.arguments().last().cloned().unwrap_or_default();
    context.node.post("/messina/hints/throttle", &[("value", &value)])
}

/// `getmaxhintwindow`.
pub fn getmaxhintwindow(context: &mut Context<'_>) -> Result<(), Error> {
    let ms: u64 = context.node.get("/storage_proxy/max_hint_window", &[])?;
    context.line(format!("Current max hint window: {ms} ms"));
    Ok(())
}

/// `setmaxhintwindow value`.
pub fn setmaxhintwindow(context: &mut Context<'_>) -> Result<(), Error> {
    let value = context.arguments().last().cloned().unwrap_or_default();
    context.node.post("/storage_proxy/max_hint_window", &[("ms", &value)])
}

/// `truncatehints [endpoint]`.
pub fn truncatehints(context: &mut Context<'_>) -> Result<(), Error> {
    match context.arguments().first().cloned() {
        None => context.node.delete("/hinted_handoff/hints", &[]),
        Some(host) => context.node.delete("/hinted_handoff/hints", &[("host", &host)]),
    }
}

/// `listpendinghints`.
pub fn listpendinghints(context: &mut Context<'_>) -> Result<(), Error> {
    let pending: Vec<Pending> = context.node.get("/messina/hints", &[])?;
    let port = Some(context.about()?.storage_port);
    let address =
        |pending: &Pending| pending.address.as_deref().map(|address| context.shown(address, port, false));
    let addresses: Vec<Option<String>> = pending.iter().map(address).collect();
    print(&pending, &addresses, context.out);
    Ok(())
}

fn print(pending: &[Pending], addresses: &[Option<String>], out: &mut String) {
    if pending.is_empty() {
        out.push_str("This node does not have any pending hints\n");
        return;
    }
    let mut table = Table::new();
    table.add(["Host ID", "Address", "Rack", "DC", "Status", "Total files", "Newest", "Oldest"]);
    for (pending, address) in pending.iter().zip(addresses) {
        let known = |text: Option<&str>| text.unwrap_or("Unknown").to_owned();
        let status = pending.up.map(|up| if up { "UP" } else { "DOWN" });
        table.add([
            pending.host_id.clone(),
            known(address.as_deref()),
            known(pending.rack.as_deref()),
            known(pending.dc.as_deref()),
            known(status),
            pending.files.to_string(),
            time(pending.newest_ms),
            time(pending.oldest_ms),
        ]);
    }
    table.print(out);
}

/// `2026-11-21 13:06:55,103`, in UTC.
fn time(ms: i64) -> String {
    local_time(ms).replace('T', " ").replace('.', ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_is_shown_as_cassandra_shows_it() {
        let one = Pending {
            host_id: "6ba7b810-9dad-41d1-80b4-00c04fd430c8".into(),
            address: Some("10.0.0.2".into()),
            rack: Some("rack1".into()),
            dc: Some("datacenter1".into()),
            up: Some(false),
            files: 12,
            newest_ms: 1_795_266_415_103,
            oldest_ms: 1_795_266_400_000,
        };
        let gone = Pending { host_id: "7".into(), files: 1, ..Pending::default() };
        let mut out = String::new();
        print(&[one, gone], &[Some("10.0.0.2:7000".into()), None], &mut out);
        let lines: Vec<&str> = out.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "Host ID                              Address       Rack    DC          Status  Total files Newest                  Oldest",
                "6ba7b810-9dad-41d1-80b4-00c04fd430c8 10.0.0.2:7000 rack1   datacenter1 DOWN    12          2026-11-21 13:06:55,103 2026-11-21 13:06:40,000",
                "7                                    Unknown       Unknown Unknown     Unknown 1           1970-01-01 00:00:00,000 1970-01-01 00:00:00,000",
            ]
        );
        let mut none = String::new();
        print(&[], &[], &mut none);
        assert_eq!(none, "This node does not have any pending hints\n");
    }
}
