//! `messina bench list` and `messina bench run`: from an order to an exit status and a report.

use crate::error::Error;
use crate::facts::{Machine, Servers};
use crate::line::Surroundings;
use crate::report::{Head, Told, page, share};
use crate::runs::{RUNS, Run, Tool, find};
use crate::scale::Scale;
use crate::steps::Stage;
use loadtools::output::Output;
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
}

/// Port of the native protocol when none is said.
const PORT: u16 = 9042;

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

/// Does what the order says on a shard of its own and gives the exit status.
pub fn main(order: Order) -> u8 {
    let main: runtime::Main = Arc::new(move || {
        let order = order.clone();
        Box::pin(async move {
            let output = match Output::new(None, false) {
                Ok(output) => Rc::new(output),
                Err(_) => return 1,
            };
            match run(&order, &output).await {
                Ok(()) => 0,
                Err(error) => {
                    output.complain(&format!("messina: {error}"));
                    if matches!(error, Error::Usage(_)) { 2 } else { 1 }
                }
            }
        })
    });
    loadtools::shard::run(main)
}

/// Runs all phases and writes the report; a phase that fails is the last. Errors: of the words, the servers, the report, a phase.
pub async fn run(order: &Order, output: &Rc<Output>) -> Result<(), Error> {
    let run = find(&order.name).ok_or_else(|| {
        let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
        Error::Usage(format!("there is no run \"{}\": there are {}", order.name, names.join(", ")))
    })?;
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
    for phase in run.phases {
        match phase.tool {
            Tool::Stress => told.push(stage.stress(run.name, phase).await),
            Tool::Cloudsuite => told.push(stage.cloudsuite(run.name, phase).await),
            Tool::Catalogue => told.extend(stage.files(run.name, phase).await),
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
