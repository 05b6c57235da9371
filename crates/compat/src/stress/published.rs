//! The published command lines, as `messina bench list --lines` prints them: run with only their size, their nodes and the number of
//! replicas changed; and with nothing but the nodes changed, for which one node has too few replicas and says so as Cassandra does.

use std::process::Command;

use super::{Said, Tools, graph};
use crate::command;
use crate::server::Server;

/// A line of a publication: the words are those of a shell.
struct Published {
    /// Its phase, and which of the loaders that ran at once: `write 1/10`.
    name: String,
    line: String,
}

/// Seconds of what was published with a time.
const SECONDS: u64 = 3;

/// All lines of a run.
fn lines(tools: &Tools<'_>, run: &str) -> Result<Vec<Published>, String> {
    let mut list = Command::new(&tools.options.binary);
    list.args(["bench", "list", "--lines", run]);
    let text = command::run(&mut list, &tools.server.folder.join("lines.log"), super::LIMIT)?;
    let parsed = text.lines().map(|line| {
        let (name, line) = line.split_once(": ").ok_or_else(|| format!("no line of {run}: {line}"))?;
        Ok(Published { name: name.into(), line: line.into() })
    });
    parsed.collect()
}

impl Published {
    /// Whether it is the first of those that ran at once, or the last.
    fn is_at_end(&self) -> (bool, bool) {
        let number = self.name.rsplit_once(' ').and_then(|(_, number)| number.split_once('/'));
        number.map_or((true, true), |(number, of)| (number == "1", number == of))
    }

    /// With the address of our server; the shell's own words are those that the publications leave to it.
    fn at(&self, server: &Server) -> String {
        let mut words: Vec<String> = self.line.split(' ').map(str::to_owned).collect();
        let nodes = words.iter().position(|word| word == "-node").map(|at| at + 1);
        if let Some(nodes) = nodes.and_then(|at| words.get_mut(at)) {
            *nodes = server.address.ip().to_string();
        }
        let line = words.join(" ").replace("~/", "$HOME/").replace("<date>", "$(date +%F)");
        format!("{line} -port native={}", server.address.port())
    }

    /// The same with so many operations, or seconds, on so many keys, and one replica.
    fn scaled_to(&self, n: u64, server: &Server) -> String {
        let word = |word: &str| {
            let gaussian = format!("dist=gaussian\\(1..{n},{},{}\\)", n / 2, n / 6);
            match word.split_once('=') {
                Some(("n", _)) => format!("n={n}"),
                Some(("duration", _)) => format!("duration={SECONDS}s"),
                Some(("seq", range)) => {
                    let first = range.split("..").next().and_then(|first| first.parse().ok()).unwrap_or(1);
                    format!("seq={first}..{}", first + n - 1)
                }
                Some(("dist", draw)) if draw.starts_with("gaussian") => gaussian,
                Some(("dist", _)) => format!("dist=uniform\\(1..{n}\\)"),
                Some(("\"replication(factor", _)) => "\"replication(factor=1)\"".to_owned(),
                // One that names the publication's datacenters.
                Some(("\"replication(strategy", _)) => "\"replication(factor=1)\"".to_owned(),
                _ => word.to_owned(),
            }
        };
        self.at(server).split(' ').map(word).collect::<Vec<_>>().join(" ")
    }
}

/// What a shell makes of a line.
fn typed(tools: &Tools<'_>, line: &str, name: &str) -> Result<Said, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$MESSINA\" {line}")]).env("HOME", &tools.server.folder);
    let binary = std::path::absolute(&tools.options.binary).map_err(|error| error.to_string())?;
    tools.said(
        {
            shell.env("MESSINA", binary);
            shell
        },
        name,
    )
}

/// Every line of both publications ends well.
pub fn scaled(tools: &Tools<'_>) -> Result<String, String> {
    let n = tools.options.records * 4;
    let mut rates = Vec::new();
    for run in ["bare-metal-2017", "oci-2018", "write-heavy-2dc"] {
        for published in lines(tools, run)? {
            let (is_first, is_last) = published.is_at_end();
            if !(is_first || is_last && !tools.options.quick) {
                continue;
            }
            let line = published.scaled_to(n, &tools.server);
            let text = typed(tools, &line, "published")?.ended_well(&line)?;
            let rate = Said::value(&text, "Op rate")?;
            rates.push(format!(
                "{run} {}: {}",
                published.name,
                rate.split(" op/s").next().unwrap_or_default()
            ));
        }
    }
    Ok(rates.join(", "))
}

/// As published: three replicas are wanted, and of two that a quorum needs one is alive. On a server of their own, where the keyspaces
/// are made by these lines.
pub fn unchanged(tools: &Tools<'_>, mut server: Server) -> Result<String, String> {
    let mut told = 0;
    for run in ["bare-metal-2017", "oci-2018"] {
        for published in lines(tools, run)?.iter().filter(|published| published.is_at_end().0) {
            let line = published.at(&server);
            let level = if line.contains("cl=LOCAL_QUORUM") { "LOCAL_QUORUM" } else { "QUORUM" };
            let text = format!(
                "Error executing: (UnavailableException): Not enough replicas available for query at consistency {level} (2 required but only 1 alive)"
            );
            let said = typed(tools, &line, "unavailable")?;
            if said.success || !said.text.contains(&text) {
                return Err(format!("{line}\n{}", command::tail(&said.text, 20)));
            }
            told += 1;
        }
    }
    server.stop()?;
    Ok(format!("{told} lines"))
}

/// Whole runs, tiny: every phase ends well, and the report says what machine and server did meanwhile.
pub fn bench_runs(tools: &Tools<'_>) -> Result<String, String> {
    let (ip, port) = (tools.server.address.ip().to_string(), tools.server.address.port().to_string());
    let folder = tools.server.folder.join("report");
    let metrics = graph::metrics_port(&tools.server).unwrap_or("0".into());
    let mut phases = 0;
    for run in ["bare-metal-2017", "catalogue-2018", "write-heavy-2dc"] {
        let mut bench = Command::new(&tools.options.binary);
        bench.args(["bench", "run", run, "--scale", "tiny", "--node", &ip, "--port", &port]);
        bench.args(["--metrics-port", &metrics]).arg("--folder").arg(&folder);
        command::run(&mut bench, &tools.server.folder.join("bench.log"), super::LIMIT)?;
        let page = command::read(&folder.join(format!("{run}.md")))?;
        let mut wanted = vec!["- This machine: processors "];
        wanted.extend((metrics != "0").then_some(": cores "));
        let missing = wanted.iter().find(|part| !page.contains(**part));
        if let Some(missing) = missing.or(page.contains("**Failed:**").then_some(&"success")) {
            return Err(format!("no {missing} in:\n{page}"));
        }
        phases += page.lines().filter(|line| line.starts_with("## ")).count();
    }
    Ok(format!("{phases} phases"))
}
