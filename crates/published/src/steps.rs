//! Phases as they are done: loaders of cassandra-stress side by side, CloudSuite's scripts, the steps of the file catalogue.

use crate::dips;
use crate::figures::Figures;
use crate::line::{Loader, Surroundings, filled, places, shown, words};
use crate::report::Told;
use crate::runs::{CLOUDSUITE_TARGET, Phase, Words};
use crate::scale::Scale;
use catalogue::command::{IMPORT_REMEMBERS, quota_differences};
use catalogue::import::{ImportOptions, import};
use catalogue::operate::{OperateOptions, operate};
use catalogue::{Catalogue, Format, Generator, Server};
use loadtools::java::grouped;
use loadtools::output::Output;
use runtime::Group;
use std::rc::Rc;
use stress::Says;

/// Ranges of tokens read at a time, blocks and operations on their way: of the file catalogue.
const PARALLEL: usize = 16;
const BLOCKS: usize = 256;
const WORKERS: usize = 64;
/// Its seed.
const SEED: u64 = 2018;

/// What phases have in common.
pub struct Stage {
    /// How much is run.
    pub scale: Scale,
    /// The cluster and the folder.
    pub around: Surroundings,
    /// The nodes one by one.
    pub nodes: Vec<String>,
    /// Replicas of a datacenter.
    pub replicas: u32,
    /// Where lines go.
    pub output: Rc<Output>,
}

/// A loader's log; nothing where there is none.
#[allow(clippy::disallowed_methods, reason = "a tool's own file, after the load")]
fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

impl Phase {
    /// Nothing done yet.
    fn told(&self) -> Told {
        let ours = self.lines.iter().any(|line| line.words == Words::Ours && !line.template.is_empty());
        let remark = if ours { "the words are ours, the parameters the publication's" } else { "" };
        Told {
            name: self.name.to_owned(),
            lines: Vec::new(),
            measured: Vec::new(),
            published: self.published,
            remarks: vec![self.remark.to_owned(), remark.to_owned()],
            failure: None,
        }
    }
}

impl Stage {
    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.around.folder)
    }

    /// The log of a loader, counted from 1.
    fn log(&self, run: &str, phase: &Phase, number: usize) -> String {
        self.file(&format!("{run}-{}-{number}.log", phase.name))
    }

    /// Prints a line as a user may type it.
    fn announce(&self, line: &str, told: &mut Told) {
        let line = format!("messina {}", shown(line));
        self.output.line(&format!("\n$ {line}"));
        told.lines.push(line);
    }

    /// The lines of a phase, filled, loader by loader. Lines that name no files get the graph of the run and a log each.
    pub fn lines(&self, run: &str, phase: &Phase) -> Vec<String> {
        let mut all = Vec::new();
        for line in phase.lines {
            for number in 0..line.loaders {
                let loader = Loader { number, of: line.loaders };
                let log = self.log(run, phase, all.len() + 1);
                let graph = self.file(&format!("{run}.html"));
                let mut places = places(&line.work, self.scale, loader, &self.around);
                let seconds = self.scale.time(line.work.duration).as_secs().max(1);
                places.extend([
                    ("{log}", log.clone()),
                    ("{graph}", graph.clone()),
                    ("{operations}", (CLOUDSUITE_TARGET * seconds).to_string()),
                    ("{more}", self.more()),
                ]);
                let mut text = filled(line.template, &places);
                if line.template.starts_with("cassandra-stress") {
                    if !line.template.contains("{log}") {
                        text.push_str(&format!(
                            " -log file={log} -graph file={graph} title={run} revision={}",
                            phase.name
                        ));
                    }
                    self.around.port.iter().for_each(|port| text.push_str(&format!(" -port native={port}")));
                }
                all.push(text);
            }
        }
        all
    }

    /// Properties of YCSB that say where the servers are.
    fn more(&self) -> String {
        let port = self.around.port.map(|port| format!(" -p port={port}")).unwrap_or_default();
        let login = self.around.login.as_ref().map(|(user, password)| {
            format!(" -p cassandra.username={user} -p cassandra.password={password}")
        });
        port + &login.unwrap_or_default()
    }

    /// Runs the lines of cassandra-stress at the same time.
    pub async fn stress(&self, run: &str, phase: &Phase) -> Told {
        let mut told = phase.told();
        let lines = self.lines(run, phase);
        lines.iter().for_each(|line| self.announce(line, &mut told));
        let says = if lines.len() == 1 { Says::Everything } else { Says::Nothing };
        let tasks: Vec<_> = lines
            .iter()
            .map(|line| {
                let words = words(line).split_off(1);
                runtime::spawn(Group::MAIN, async move { stress::run_here(&words, says).await })
            })
            .collect();
        let mut snapshots = Vec::new();
        for (number, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(ran) => {
                    if !(ran.ended.success && ran.is_whole) {
                        let reason = ran.complaints.last().map_or("see above", |text| text.trim());
                        told.failure.get_or_insert_with(|| format!("loader {}: {reason}", number + 1));
                    }
                    snapshots.extend(ran.ended.totals);
                }
                Err(error) => {
                    told.failure.get_or_insert_with(|| format!("loader {}: {error}", number + 1));
                }
            }
        }
        if snapshots.len() > 1 {
            let each = snapshots.iter().enumerate();
            told.measured =
                each.map(|(n, one)| (format!("loader {}", n + 1), Figures::of(&one.total))).collect();
        }
        told.measured.push(("all".to_owned(), Figures::of_all(&snapshots)));
        let logs: Vec<_> =
            (1..=lines.len()).map(|number| dips::rates(&read(&self.log(run, phase, number)))).collect();
        if let Some(text) = dips::told(&logs) {
            self.output.line(&text);
            told.remarks.push(text);
        }
        if says == Says::Nothing {
            told.measured.iter().for_each(|(name, figures)| self.output.line(&in_a_line(name, figures)));
        }
        told
    }

    /// Runs a script of CloudSuite.
    pub async fn cloudsuite(&self, run: &str, phase: &Phase) -> Told {
        let mut told = phase.told();
        for line in self.lines(run, phase) {
            self.announce(&hidden(&line), &mut told);
            let words = words(&line).split_off(1);
            match ycsb::command::cloudsuite_here(&words, self.replicas, &self.output).await {
                Err(error) => told.failure = Some(error.to_string()),
                Ok(ended) => {
                    for operation in ["INSERT", "READ", "UPDATE"] {
                        let figures = Figures::of_ycsb(&ended.lines, operation);
                        if figures == Figures::NONE || figures.operations.is_none() {
                            continue;
                        }
                        if let Some(errors) = figures.errors.filter(|errors| *errors > 0) {
                            told.failure = Some(format!("{errors} operations failed"));
                        }
                        told.measured.push((operation.to_lowercase(), figures));
                    }
                }
            }
        }
        told
    }

    /// The steps of the file catalogue, each a phase of its own in the report; the first that fails is the last.
    pub async fn files(&self, run: &str, phase: &Phase) -> Vec<Told> {
        let mut all = Vec::new();
        if let Err(error) = self.files_steps(run, phase, &mut all).await {
            let mut told = phase.told();
            told.failure = Some(error.to_string());
            all.push(told);
        }
        all
    }

    async fn files_steps(
        &self,
        run: &str,
        phase: &Phase,
        all: &mut Vec<Told>,
    ) -> Result<(), catalogue::Error> {
        let work = phase.lines.first().map(|line| line.work).unwrap_or(crate::line::Work::rows(1, 1));
        let (files, output) = (self.scale.rows(work.rows), &self.output);
        let server = Server {
            nodes: self.nodes.clone(),
            port: self.around.port.unwrap_or(9042),
            credentials: self.around.login.clone(),
            replicas: Some(self.replicas),
            // The load knows every answer of a catalogue that nobody has touched.
            keyspace: format!("files_{}", runtime::unix_micros() / 1_000_000),
            ..Server::local()
        };
        let name = self.file(&format!("{run}.sql"));
        let step = |name: &str, line: String| {
            let mut told = Told { name: name.to_owned(), published: Figures::NONE, ..phase.told() };
            told.remarks.clear();
            self.announce(&line, &mut told);
            told
        };
        let at = self.catalogue_words(&server.keyspace);
        let mut told = step("generate", format!("catalogue generate --files {files} --seed {SEED} {name}"));
        let generator = Rc::new(Generator::new(SEED, files)?);
        let bytes = catalogue::generate::write(&generator, &name, Format::Mysql).await?;
        told.remarks.push(format!("{} files, {} bytes of MySQL dump", grouped(files), grouped(bytes)));
        all.push(told);

        let mut told = step("import", format!("catalogue import {name}{at}"));
        let options = ImportOptions {
            file: name.clone(),
            format: Format::Mysql,
            table: "files".into(),
            blocks: BLOCKS,
        };
        let importing = Rc::new(Catalogue::open_remembering(&server, IMPORT_REMEMBERS).await?);
        let imported = import(&importing, &options, output).await?;
        output.line(&imported.line());
        let figures =
            Figures { rate: Some(imported.rate()), operations: Some(imported.rows), ..Figures::NONE };
        told.measured.push(("rows".into(), figures));
        told.remarks.push(imported.line());
        let checked = catalogue::check::check(&importing, &options, Some(&imported.sums), PARALLEL).await?;
        checked.lines().iter().for_each(|line| output.line(line));
        told.remarks.extend(checked.lines());
        told.failure = (!checked.is_clean()).then(|| "the database is not what the file says".to_owned());
        let failed = told.failure.is_some();
        all.push(told);
        if !failed {
            self.files_load((&server, &generator, phase, &at), step, all).await?;
        }
        Ok(())
    }

    async fn files_load(
        &self,
        (server, generator, phase, at): (&Server, &Rc<Generator>, &Phase, &str),
        step: impl Fn(&str, String) -> Told,
        all: &mut Vec<Told>,
    ) -> Result<(), catalogue::Error> {
        let duration =
            self.scale.time(phase.lines.first().map(|line| line.work.duration).unwrap_or_default());
        let (files, seconds) = (generator.files(), duration.as_secs());
        let line = format!(
            "catalogue operate --files {files} --seed {SEED} --load-seed {SEED} --seconds {seconds}{at}"
        );
        let mut told = step("operate", line);
        told.published = phase.published;
        told.remarks.push(phase.remark.to_owned());
        let catalogue = Rc::new(Catalogue::open(server).await?);
        let options = OperateOptions { workers: WORKERS, duration, seed: SEED };
        let operated = operate(&catalogue, generator, options, &self.output).await?;
        let lines = catalogue::command::told(&operated);
        lines.iter().for_each(|line| self.output.line(line));
        let kinds = operated.snapshot.kinds.iter();
        told.measured.extend(kinds.map(|(name, _, total)| (name.clone(), Figures::of(total))));
        told.measured.push(("all".into(), Figures::of(&operated.snapshot.total)));
        told.failure = (!operated.is_clean()).then(|| {
            let errors = operated.snapshot.total.errors;
            format!("{} wrong answers, {errors} failed: {}", operated.mismatches, operated.told.join("; "))
        });
        let failed = told.failure.is_some();
        all.push(told);
        if failed {
            return Ok(());
        }
        let mut told = step("quota", format!("catalogue quota{at}"));
        let start = runtime::now();
        let differences = quota_differences(&operated.quotas, &catalogue.quotas(PARALLEL).await?);
        let took = (runtime::now() - start).as_secs_f64().max(1e-9);
        let counted: u64 = operated.quotas.values().map(|usage| usage.files + usage.trashed_files).sum();
        let figures =
            Figures { rate: Some(counted as f64 / took), operations: Some(counted), ..Figures::NONE };
        told.measured.push(("files".into(), figures));
        let said = format!("{} owners, compared with what was done", grouped(operated.quotas.len() as u64));
        self.output.line(&said);
        told.remarks.push(said);
        told.failure = (!differences.is_empty()).then(|| differences.join("; "));
        all.push(told);
        Ok(())
    }

    fn catalogue_words(&self, keyspace: &str) -> String {
        let port = self.around.port.map(|port| format!(" --port {port}")).unwrap_or_default();
        let login = self.around.login.as_ref();
        let login = login.map(|(user, _)| format!(" --user {user} --password *******")).unwrap_or_default();
        let (nodes, replicas) = (&self.around.nodes, self.replicas);
        format!(" --node {nodes} --keyspace {keyspace} --replication {replicas}{port}{login}")
    }
}

/// A line of YCSB without its password.
fn hidden(line: &str) -> String {
    match line.split_once("cassandra.password=") {
        Some((before, _)) => format!("{before}cassandra.password=*******"),
        None => line.to_owned(),
    }
}

fn in_a_line(name: &str, figures: &Figures) -> String {
    let [rate, mean, median, p95, p99, p999, max, operations, errors] = figures.cells();
    format!(
        "{name}: {rate} op/s  mean {mean} ms  p50 {median}  p95 {p95}  p99 {p99}  p99.9 {p999}  max {max}  {operations} operations  {errors} errors"
    )
}
