//! `messina bench list` and `messina bench run`: from an order to an exit status and a report.

use crate::error::Error;
use crate::facts::{Machine, Servers};
use crate::line::Surroundings;
use crate::report::{Head, Told, page, share};
use crate::runs::{RUNS, Run, Tool, find};
use crate::scale::Scale;
use crate::steps::Stage;
use crate::watch::Watch;
use client::contact;
use loadtools::output::Output;
use runtime::ShardId;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// What is run, where, and how much of it.
#[derive(Clone, Debug)]
pub struct Order {
    /// The run's name.
    pub name: String,
    /// As it was said; the run's own unless it was.
    pub scale: Option<String>,
    /// Names or addresses of nodes.
    pub nodes: Vec<String>,
    /// Their port.
    pub port: u16,
    /// User and password.
    pub login: Option<(String, String)>,
    /// Where report, logs and graphs go.
    pub folder: String,
    /// Replicas of a datacenter; the published ones, as far as there are nodes, unless said.
    pub replicas: Option<u32>,
    /// Where nodes tell their metrics; 0: they are not asked.
    pub metrics_port: u16,
}

/// Port of the native protocol when none is said.
const PORT: u16 = 9042;
/// Most shards of a run: no line has fewer requests in flight than one for each.
const SHARDS_MAX: u64 = 64;

/// The lines of the list.
pub fn list() -> Vec<String> {
    let mut lines = Vec::new();
    for run in RUNS {
        let scale = Scale::of(run.scale);
        lines.push(format!("{}\n  {}", run.name, run.what));
        lines.push(format!("  published: {}\n             {}", run.size, run.figure));
        lines.push(format!(
            "  here:      {} of it unless --scale says otherwise: {}\n",
            share(run.scale),
            sizes(run, scale)
        ));
    }
    lines
}

/// The command lines of a run as they were published, each behind its phase and loader. Errors: there is no such run.
pub fn lines(name: &str) -> Result<Vec<String>, Error> {
    named(name).map(Run::published_lines)
}

fn named(name: &str) -> Result<&'static Run, Error> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
        Error::Usage(format!("there is no run \"{name}\": there are {}", names.join(", ")))
    })
}

/// Shards for a run: as many as its loaders, which are processes where they were published, and no more than there are processors. Each
/// loader's work is spread over all of them.
fn shards(name: &str, processors: usize) -> u16 {
    let loaders = find(name).map_or(1, Run::loaders);
    loaders.min(processors as u64).clamp(1, SHARDS_MAX) as u16
}

/// What a scale makes of a run, phase by phase.
fn sizes(run: &Run, scale: Scale) -> String {
    let phase = |phase: &crate::runs::Phase| {
        let work = phase.lines.first().map(|line| line.work)?;
        let time = scale.time(work.duration).as_secs();
        let rows = loadtools::java::grouped(scale.rows(work.rows.max(work.keys)));
        Some(match (work.rows, work.duration.as_secs()) {
            (_, 0) => format!("{} {rows} rows", phase.name),
            (0, _) => format!("{} {time} s", phase.name),
            (_, _) => format!("{} {rows} rows and {time} s", phase.name),
        })
    };
    run.phases.iter().filter_map(phase).collect::<Vec<_>>().join(", ")
}

/// Does what the order says on shards of its own, the first of which says everything, and gives the exit status.
pub fn main(order: Order) -> u8 {
    #[allow(clippy::disallowed_methods, reason = "before the shards begin")]
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let shards = shards(&order.name, processors);
    let main: runtime::Main = Arc::new(move || {
        let order = order.clone();
        Box::pin(async move {
            if runtime::shard() != ShardId(0) {
                stress::fleet::stay().await;
                return 0;
            }
            let status = whole(&order).await;
            stress::fleet::leave().await;
            status
        })
    });
    loadtools::shard::run_on(shards, main)
}

async fn whole(order: &Order) -> i32 {
    let output = match Output::new(None, false) {
        Ok(output) => Rc::new(output),
        Err(_) => return 1,
    };
    match run(order, &output).await {
        Ok(()) => 0,
        Err(error) => {
            output.complain(&format!("messina: {error}"));
            if matches!(error, Error::Usage(_)) { 2 } else { 1 }
        }
    }
}

/// Runs all phases and writes the report; a phase that fails is the last. Errors: of the words, the servers, the report, a phase.
pub async fn run(order: &Order, output: &Rc<Output>) -> Result<(), Error> {
    let run = named(&order.name)?;
    let scale = match &order.scale {
        Some(text) => Scale::parse(text, run.tiny).map_err(Error::Usage)?,
        None => Scale::of(run.scale),
    };
    let in_folder = |source| Error::File { file: order.folder.clone(), source };
    runtime::file::create_dir_all(&order.folder).await.map_err(in_folder)?;
    let servers = Servers::ask(&order.nodes, order.port, order.login.clone()).await?;
    let (stage, remarks) = stage(order, run, scale, &servers, output);
    remarks.iter().for_each(|remark| output.line(remark));
    let machine = Machine::here(&order.folder);
    let begun = runtime::unix_micros();
    let head = Head { run, scale, begun, machine: &machine, servers: &servers, remarks: &remarks };
    let mut told: Vec<Told> = Vec::new();
    let file = format!("{}/{}.md", order.folder, run.name);
    let metrics = metrics(order);
    for phase in run.phases {
        let before = Watch::now(&metrics).await;
        match phase.tool {
            Tool::Stress => told.push(stage.stress(run.name, phase).await),
            Tool::Cloudsuite => told.push(stage.cloudsuite(run.name, phase).await),
            Tool::Catalogue => told.extend(stage.files(run.name, phase).await),
        }
        if let Some(last) = told.last_mut() {
            let seen = Watch::now(&metrics).await.since(&before);
            seen.iter().for_each(|line| output.line(line));
            last.remarks.extend(seen);
        }
        let written = runtime::file::replace_atomic(&file, page(&head, &told).as_bytes()).await;
        written.map_err(|source| Error::File { file: file.clone(), source })?;
        let failed = told.iter().find_map(|phase| Some(Error::phase(&phase.name, phase.failure.as_ref()?)));
        if let Some(error) = failed {
            output.line(&format!("The report so far is {file}"));
            return Err(error);
        }
        if runtime::shutdown_is_requested() {
            return Err(Error::phase(phase.name, "ended before its time"));
        }
    }
    output.line(&format!("The report is {file}"));
    Ok(())
}

/// Where the nodes of an order tell their metrics. Names were looked up before: one that is unknown now is left out.
fn metrics(order: &Order) -> Vec<SocketAddr> {
    match order.metrics_port {
        0 => Vec::new(),
        port => contact::addresses(&order.nodes, port).unwrap_or_default(),
    }
}

/// What phases have in common, and what differs from what was published.
fn stage(
    order: &Order,
    run: &Run,
    scale: Scale,
    servers: &Servers,
    output: &Rc<Output>,
) -> (Stage, Vec<String>) {
    let replicas = order.replicas.unwrap_or_else(|| servers.replicas(run.replicas));
    let mut remarks =
        vec![format!("{}: {} of what was published ({})", run.name, share(scale.factor), run.size)];
    if replicas != run.replicas {
        let why = if order.replicas.is_some() { "as said" } else { "as many as there are nodes" };
        remarks.push(format!("{replicas} replicas instead of {}: {why}", run.replicas));
    }
    if run.by_datacenter && servers.datacenters.len() < 2 {
        remarks.push("one datacenter instead of two".into());
    }
    let around = Surroundings {
        nodes: order.nodes.join(","),
        replication: servers.replication(replicas, run.by_datacenter),
        login: order.login.clone(),
        port: Some(order.port).filter(|port| *port != PORT),
        folder: order.folder.clone(),
    };
    (Stage { scale, around, nodes: order.nodes.clone(), replicas, output: output.clone() }, remarks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaders_share_the_processors() {
        let of = |processors| {
            ["bare-metal-2017", "catalogue-2018", "cloudsuite", "other"].map(|run| shards(run, processors))
        };
        assert_eq!((of(1), of(4), of(128)), ([1, 1, 1, 1], [4, 2, 1, 1], [20, 2, 1, 1]));
    }

    #[test]
    fn the_list_names_every_run_with_its_sizes() {
        let text = list().join("\n");
        for part in [
            "bare-metal-2017\n  ten loaders",
            "1/10,000 of it unless --scale says otherwise: write 700,000 rows, read 20 s",
            "write-100m 100,000 rows, write-10-clients 1,000,000 rows",
            "files 1,000,000 rows and 20 s",
            "warmup 100,000 rows, load 20 s",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
