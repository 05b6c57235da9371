//! Repairs: begun, asked about, ended.

use super::{Answer, Failure, Mode, Rest};
use crate::http::Request;
use base::{HostId, Token};
use coordinator::{Line, LineKind, Repair, RepairOptions, RepairState};
use core::time::Duration;
use serde_json::{Value, json};

/// Longest wait for a repair's end that one request may ask for.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

impl Rest {
    /// Begins a repair of a keyspace; its number, or 0 where nobody else holds anything of it.
    pub(super) fn repair(&self, keyspace: &str, request: &Request) -> Answer {
        if self.mode.get() != Mode::Normal {
            return Err(Failure::new(500, "the node is drained: it repairs nothing"));
        }
        if !self.settings.engine.schema().keyspaces.contains_key(keyspace) {
            return Err(Failure::new(404, format!("Keyspace [{keyspace}] does not exist.")));
        }
        let options = options(request)?;
        let described = |ranges| describe(&options, request, ranges);
        let begun = self.repairs.start(self.coordinator(), keyspace, &options, described);
        let begun = begun.map_err(|text| Failure::new(400, text))?;
        Ok(json!(begun.map_or(0, |repair| repair.id)))
    }

    /// The answers to what is asked about repairs.
    pub(super) async fn look_at_repairs(&self, path: &[&str], request: &Request) -> Answer {
        let of = |text: &str| {
            let unknown = || Failure::new(400, format!("there is no repair \"{text}\""));
            text.parse().ok().and_then(|id| self.repairs.get(id)).ok_or_else(unknown)
        };
        match path {
            ["storage_service", "active_repair"] => {
                let all = self.repairs.all();
                let running = all.iter().filter(|repair| repair.state() == RepairState::Running);
                Ok(running.map(|repair| json!(repair.id)).collect())
            }
            ["storage_service", "repair_async", _] => {
                let repair = of(&request.parameter("id").unwrap_or_default())?;
                Ok(json!(status(&repair)))
            }
            ["storage_service", "repair_status"] => {
                let repair = of(&request.parameter("id").unwrap_or_default())?;
                let timeout = match request.parameter("timeout").and_then(|text| text.parse::<i64>().ok()) {
                    // As long as it takes, unless told otherwise.
                    None | Some(i64::MIN..0) => WAIT_MAX,
                    Some(s) => Duration::from_secs(s.unsigned_abs()).min(WAIT_MAX),
                };
                repair.wait(timeout).await;
                Ok(json!(status(&repair)))
            }
            ["messina", "repairs"] => Ok(self.repairs.all().iter().map(|repair| shown(repair)).collect()),
            ["messina", "repair", id] => {
                let repair = of(id)?;
                let from = request.parameter("from").and_then(|text| text.parse().ok()).unwrap_or(0);
                let (lines, next) = repair.lines(from);
                let mut value = shown(&repair);
                value["lines"] = lines.iter().map(line).collect();
                value["next"] = json!(next);
                Ok(value)
            }
            _ => Err(Failure::unknown()),
        }
    }

    /// Ends repairs that run: all, or the one of a number or of a session.
    pub(super) fn stop_repairs(&self, named: Option<String>) -> Answer {
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return Ok(json!(self.repairs.stop(None)));
        };
        let is_it =
            |repair: &Repair| repair.id.to_string() == named || HostId(repair.session).to_string() == named;
        let found = self.repairs.all().into_iter().find(|repair| is_it(repair));
        let found = found.ok_or_else(|| Failure::new(400, format!("there is no repair \"{named}\"")))?;
        Ok(json!(self.repairs.stop(Some(found.id))))
    }
}

fn status(repair: &Repair) -> &'static str {
    match repair.state() {
        RepairState::Running => "RUNNING",
        RepairState::Done => "SUCCESSFUL",
        RepairState::Failed(_) => "FAILED",
    }
}

fn shown(repair: &Repair) -> Value {
    let ((done, ranges), (mutations, bytes)) = (repair.progress(), repair.written());
    let error = match repair.state() {
        RepairState::Failed(text) => Some(text),
        RepairState::Running | RepairState::Done => None,
    };
    json!({
        "id": repair.id, "session": HostId(repair.session).to_string(), "keyspace": repair.keyspace, "state": status(repair),
        "ranges": ranges, "done": done, "mutations": mutations, "bytes": bytes, "error": error,
    })
}

fn line(line: &Line) -> Value {
    let (kind, percent) = match line.kind {
        LineKind::Notice => ("NOTICE", None),
        LineKind::Progress(percent) => ("PROGRESS", Some(percent)),
        LineKind::Error => ("ERROR", None),
        LineKind::Complete => ("COMPLETE", None),
    };
    json!({ "at": line.at_ms, "kind": kind, "percent": percent, "text": line.text })
}

/// The values of a parameter that is a list with commas between.
fn list(request: &Request, name: &str) -> Vec<String> {
    let text = request.parameter(name).unwrap_or_default();
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn options(request: &Request) -> Result<RepairOptions, Failure> {
    for (name, why) in [
        ("trace", "repairs are not traced"),
        ("pullRepair", "a repair makes all replicas equal: there is no pull repair"),
    ] {
        if request.is_on(name) {
            return Err(Failure::new(400, format!("{name}: {why}")));
        }
    }
    let address = |text: &String| {
        // With or without the port between nodes.
        let host =
            text.parse().or_else(|_| text.parse::<core::net::SocketAddr>().map(|address| address.ip()));
        host.map_err(|_| Failure::new(400, format!("Unknown host specified {text}")))
    };
    Ok(RepairOptions {
        tables: list(request, "columnFamilies"),
        primary_range: request.is_on("primaryRange"),
        dcs: list(request, "dataCenters"),
        hosts: list(request, "hosts").iter().map(address).collect::<Result<_, _>>()?,
        range: range(request)?,
        without_down: request.is_on("forceRepair"),
        skips_rounds: request.is_on("skipPaxos"),
        only_rounds: request.is_on("paxosOnly"),
    })
}

fn range(request: &Request) -> Result<Option<(Token, Token)>, Failure> {
    let token = |text: &str| {
        let bad = || {
            let why = "but expected a long value (unsigned 8 bytes integer).";
            Failure::new(400, format!("Invalid token for Murmur3Partitioner. Got {text} {why}"))
        };
        text.trim().parse().map(Token).map_err(|_| bad())
    };
    let ranges = list(request, "ranges");
    if let [one] = &*ranges {
        let (start, end) = one
            .split_once(':')
            .ok_or_else(|| Failure::new(400, format!("\"{one}\" is not of the form start:end")))?;
        return Ok(Some((token(start)?, token(end)?)));
    }
    if ranges.len() > 1 {
        return Err(Failure::new(400, "ranges: one range is repaired at a time"));
    }
    let (start, end) = (request.parameter("startToken"), request.parameter("endToken"));
    match (start.filter(|text| !text.is_empty()), end.filter(|text| !text.is_empty())) {
        (None, None) => Ok(None),
        (start, end) => Ok(Some((token(&start.unwrap_or_default())?, token(&end.unwrap_or_default())?))),
    }
}

/// The options as Cassandra shows them.
fn describe(options: &RepairOptions, request: &Request, ranges: usize) -> String {
    let of = |name: &str, standard: &str| {
        request.parameter(name).filter(|text| !text.is_empty()).unwrap_or_else(|| standard.to_owned())
    };
    let hosts: Vec<String> = options.hosts.iter().map(ToString::to_string).collect();
    format!(
        "parallelism: {}, primary range: {}, incremental: false, job threads: {}, ColumnFamilies: [{}], dataCenters: [{}], \
         hosts: [{}], previewKind: NONE, # of ranges: {ranges}, pull repair: false, force repair: {}, optimise streams: false, \
         ignore unreplicated keyspaces: false, repairPaxos: {}, paxosOnly: {}",
        of("parallelism", "parallel"),
        options.primary_range,
        of("jobThreads", "1"),
        options.tables.join(", "),
        options.dcs.join(", "),
        hosts.join(", "),
        options.without_down,
        !options.skips_rounds,
        options.only_rounds,
    )
}
