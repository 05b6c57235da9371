//! Command lines that both tools take, or one of them, or none; what ours refuses it refuses by name.

use std::path::Path;
use std::process::Command;

use super::{LIMIT, Tools};
use crate::certificates::Certificates;
use crate::{command, paths};

/// A line of the file.
struct Line {
    /// Who takes it: `both`, `ours`, `java`, `none`; or `said`: what is asked for is said, and that is all.
    who: String,
    words: String,
    /// What our answer names: of a refusal what is refused.
    named: Option<String>,
}

impl Line {
    fn parse(line: &str) -> Line {
        let (line, named) = match line.split_once(" # ") {
            Some((line, named)) => (line, Some(named.to_owned())),
            None => (line, None),
        };
        let (who, words) = line.split_once(' ').unwrap_or((line, ""));
        let is_run = !words.is_empty() && who != "said" && !words.contains("-port");
        // Nobody listens there: a line that is understood fails to connect.
        let nowhere = if is_run { " -port native=1" } else { "" };
        Line { who: who.into(), words: format!("{words}{nowhere}"), named }
    }

    fn is_by(&self, who: &str) -> bool {
        self.who == "both" || self.who == who
    }

    /// What is wrong with our answer.
    fn judge(&self, said: &super::Said) -> Option<String> {
        let told = |what: &str| {
            Some(format!("{} {}: {what}:\n{}", self.who, self.words, command::tail(&said.text, 3)))
        };
        let is_named = self.named.as_ref().is_some_and(|named| complaint(&said.text).contains(named));
        match self.who.as_str() {
            "said" if said.success && self.named.as_ref().is_some_and(|named| said.text.contains(named)) => {
                None
            }
            "said" => told("it is not said"),
            _ if said.success => told("ended well, where nobody listens"),
            _ if said.was_taken() != self.is_by("ours") => told("taken and refused the wrong way round"),
            "java" | "none" if !is_named => told("it is not named what is refused"),
            _ => None,
        }
    }
}

/// What a refusal says besides the help, which is before or behind it.
fn complaint(text: &str) -> &str {
    match text.split_once("Usage:      cassandra-stress") {
        Some((complaint, help)) if complaint.trim().is_empty() => {
            help.split_once("Error processing command line").map_or("", |(_, ignored)| ignored)
        }
        Some((complaint, _)) => complaint,
        None => text.trim_end().rsplit('\n').next().unwrap_or_default(),
    }
}

/// Files that lines name.
fn files(folder: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::copy(paths::resources().join("stress/profile.yaml"), folder.join("profile.yaml"))
        .map_err(told)?;
    std::fs::write(folder.join("nodes.txt"), "127.0.0.1\n").map_err(told)?;
    let made = Certificates::make(&folder.join("made"))?;
    std::fs::copy(made.authority, folder.join("trust.pem")).map_err(told)?;
    std::fs::copy(made.client, folder.join("key.pem")).map(drop).map_err(told)
}

/// Both tools agree on which command lines are understood.
pub fn agreed(tools: &Tools<'_>) -> Result<String, String> {
    let text = command::read(&paths::resources().join("stress/lines.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let lines: Vec<Line> = lines.map(Line::parse).collect();
    files(&tools.server.folder)?;
    let by_java = java_takes(tools, &lines.iter().map(|line| line.words.as_str()).collect::<Vec<_>>())?;
    let mut wrong = Vec::new();
    for (line, by_java) in lines.iter().zip(&by_java) {
        let words: Vec<&str> = line.words.split(' ').filter(|word| !word.is_empty()).collect();
        wrong.extend(line.judge(&tools.ours(&words, "line")?));
        if *by_java != line.is_by("java") {
            wrong.push(format!("{} {}\nthe Java tool takes it: {by_java}", line.who, line.words));
        }
    }
    if wrong.is_empty() { Ok(format!("{} lines", lines.len())) } else { Err(wrong.join("\n")) }
}

/// Whether the Java tool takes each of these command lines. One virtual machine is asked about all.
fn java_takes(tools: &Tools<'_>, lines: &[&str]) -> Result<Vec<bool>, String> {
    let input = tools.server.folder.join("lines.in");
    let told = |error: std::io::Error| format!("{}: {error}", input.display());
    std::fs::write(&input, lines.join("\n") + "\n").map_err(told)?;
    let mut java = Command::new("sh");
    java.current_dir(&tools.server.folder).env("CLASS_PATH", &tools.class_path).args([
        "-c",
        "exec java -Xmx256M -Djava.security.manager=allow -cp \"$CLASS_PATH\" messina.Lines < lines.in 2> lines.err",
    ]);
    let text = command::run(&mut java, &tools.server.folder.join("java-lines.log"), LIMIT)?;
    let answers: Vec<bool> = text
        .lines()
        .filter(|line| matches!(*line, "taken" | "refused"))
        .map(|line| line == "taken")
        .collect();
    if answers.len() == lines.len() {
        Ok(answers)
    } else {
        Err(format!("{} answers:\n{text}", answers.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, complaint};

    #[test]
    fn a_complaint_stands_before_or_behind_the_help() {
        let usage = "Usage:      cassandra-stress <command> [options]\n---Commands---\nread : foo\n";
        assert_eq!(complaint(&format!("Invalid parameter foo\n{usage}")).trim(), "Invalid parameter foo");
        let ignored =
            format!("{usage}Error processing command line arguments. The following were ignored:\n-foo\n");
        assert!(complaint(&ignored).ends_with(":\n-foo\n") && !complaint(&ignored).contains("read"));
        assert_eq!(
            complaint("Usage: -rate x\n  threads=?\nInvalid -rate options\n"),
            "Invalid -rate options"
        );
    }

    #[test]
    fn a_line_says_who_takes_it_and_what_is_named() {
        let line = Line::parse("none write n=10 foo # foo");
        assert_eq!((line.who.as_str(), line.words.as_str()), ("none", "write n=10 foo -port native=1"));
        assert_eq!((line.named.as_deref(), line.is_by("java")), (Some("foo"), false));
        assert_eq!(Line::parse("said help # Usage").words, "help");
        assert_eq!(Line::parse("none # command").words, "");
    }
}
