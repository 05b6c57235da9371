//! The report: a page of Markdown with what was run, on what, and what came of it, beside what was published.

use crate::facts::{Machine, Servers};
use crate::figures::Figures;
use crate::runs::Run;
use crate::scale::Scale;
use std::fmt::Write as _;

/// What came of a phase.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// The lines that were run, without passwords.
    pub lines: Vec<String>,
    /// By what they are of: all, or a kind of operation.
    pub measured: Vec<(String, Figures)>,
    /// What was published for the same.
    pub published: Figures,
    /// What the figures mean, and what else there is to say.
    pub remarks: Vec<String>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// What stands above all phases.
pub struct Head<'a> {
    /// The run.
    pub run: &'a Run,
    /// How much of it.
    pub scale: Scale,
    /// When it began, in microseconds since 1970.
    pub begun: i64,
    /// This machine.
    pub machine: &'a Machine,
    /// The servers.
    pub servers: &'a Servers,
    /// What differs from what was published, a sentence each.
    pub remarks: &'a [String],
}

const TITLES: &str = "| | op/s | mean ms | median | 95 % | 99 % | 99.9 % | max | operations | errors |\n\
                      |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";

/// The page.
pub fn page(head: &Head<'_>, phases: &[Told]) -> String {
    let Head { run, scale, machine, servers, .. } = head;
    let datacenters: Vec<String> =
        servers.datacenters.iter().map(|(name, nodes)| format!("{nodes} in {name}")).collect();
    let day = types::datetime::format_timestamp(head.begun / 1000);
    let mut text = format!(
        "# {}\n\n{}\n\n| | here | published |\n|---|---|---|\n\
         | size | {} of it | {} |\n| figure | below | {} |\n\
         | servers | {} nodes ({}), release {}, cluster {} | {} |\n\
         | client | {}, {}, {}, disk of the report {} | see there |\n| begun | {day} | |\n\n",
        run.name,
        capital(run.what),
        share(scale.factor),
        run.size,
        run.figure,
        servers.nodes(),
        datacenters.join(", "),
        servers.releases.join(", "),
        servers.cluster,
        run.machines,
        machine.processors,
        machine.memory,
        machine.kernel,
        machine.disk,
    );
    for remark in head.remarks {
        writeln!(text, "- {remark}").ok();
    }
    if !head.remarks.is_empty() {
        text.push('\n');
    }
    phases.iter().for_each(|phase| put_phase(phase, &mut text));
    text
}

fn put_phase(phase: &Told, text: &mut String) {
    writeln!(text, "## {}\n", phase.name).ok();
    if !phase.lines.is_empty() {
        writeln!(text, "```sh\n{}\n```\n", phase.lines.join("\n")).ok();
    }
    if let Some(failure) = &phase.failure {
        writeln!(text, "**Failed:** {failure}\n").ok();
    }
    let published = Some(&phase.published).filter(|figures| **figures != Figures::NONE);
    if !phase.measured.is_empty() || published.is_some() {
        text.push_str(TITLES);
        phase.measured.iter().for_each(|(name, figures)| put_row(name, figures, text));
        published.iter().for_each(|figures| put_row("published", figures, text));
        text.push('\n');
    }
    for remark in phase.remarks.iter().filter(|remark| !remark.is_empty()) {
        writeln!(text, "- {}", capital(remark)).ok();
    }
    text.push('\n');
}

fn put_row(name: &str, figures: &Figures, text: &mut String) {
    writeln!(text, "| {name} | {} |", figures.cells().join(" | ")).ok();
}

/// A share as people read it.
pub fn share(factor: f64) -> String {
    match factor {
        factor if factor < 1.0 => format!("1/{}", loadtools::java::grouped((1.0 / factor).round() as u64)),
        factor => format!("{factor} ×"),
    }
}

/// A sentence.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().iter().flat_map(|letter| letter.to_uppercase()).collect();
    let end = if text.ends_with(['.', '!', '?', ':']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::find;

    #[test]
    fn figures_stand_beside_those_that_were_published() {
        let run = find("oci-2018").expect("a run");
        let machine = Machine {
            processors: "2 × Some CPU".into(),
            memory: "16 GiB".into(),
            kernel: "Linux 6".into(),
            disk: "/dev/a (xfs)".into(),
        };
        let servers = Servers {
            cluster: "c".into(),
            releases: vec!["5.0.6".into()],
            datacenters: [("dc1".to_owned(), 1)].into(),
        };
        let remarks = ["one replica instead of three".to_owned()];
        let head = Head {
            run,
            scale: Scale::of(1e-3),
            begun: 0,
            machine: &machine,
            servers: &servers,
            remarks: &remarks,
        };
        let told = Told {
            name: "read".into(),
            lines: vec!["messina cassandra-stress read".into()],
            measured: vec![("all".into(), Figures { rate: Some(1e5), p99: Some(0.5), ..Figures::NONE })],
            published: run.phases[3].published,
            remarks: vec![run.phases[3].remark.into(), String::new()],
            failure: Some("no answer".into()),
        };
        let text = page(&head, &[told]);
        for part in [
            "# oci-2018\n",
            "| size | 1/1,000 of it | 2,000,000,000 rows",
            "| servers | 1 nodes (1 in dc1), release 5.0.6, cluster c | 6 nodes of",
            "| begun | 1970-01-01T00:00:00.000Z | |",
            "- one replica instead of three\n",
            "## read\n\n```sh\nmessina cassandra-stress read\n```\n\n**Failed:** no answer\n",
            "| all | 100,000 | – | – | – | 0.50 | – | – | – | – |\n",
            "| published | 47,646 | 31.4 | 14.4 | 117.0 | 182.2 | 345.8 | 9781.1 | – | – |\n",
            "- Published for one of two clients; 686,126,907 partitions.\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
