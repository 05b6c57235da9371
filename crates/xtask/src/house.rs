//! Where the house stands, and how its words run other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository. Cargo says at run time where it is: a binary in a target folder that several checkouts share may
/// have been compiled in another of them.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).ancestors().nth(2).expect("this crate lies two folders deep").to_path_buf()
}

/// The user's cache folder for builds and client packages.
pub fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        return Path::new(&folder).join("messina");
    }
    match std::env::var_os("HOME") {
        Some(home) => Path::new(&home).join(".cache/messina"),
        None => root().join(".cache"),
    }
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, else in the user's cache.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => cache().join("target"),
    }
}

/// Cargo, in the repository and with the target folder above.
pub fn cargo() -> Command {
    let mut cargo = command(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    // What the cargo that runs us says of this crate. Build scripts that watch these variables (ring's does) would run again,
    // with everything that depends on them, whenever a build from here follows one typed by hand or one of another checkout.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
            .iter()
            .any(|of_us| text.starts_with(of_us))
        {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// A program that runs in the repository.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).env("CARGO_TARGET_DIR", target());
    command
}

/// Runs it with our output; fails when it fails.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", shown(command))) }
}

/// Runs it and returns its standard output.
pub fn output(command: &mut Command) -> Result<String, String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("{}: {error}", shown(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{} ended with {}\n{text}", shown(command), output.status))
    }
}

/// Runs it with our output and keeps a copy of its standard output; an error names the tests that failed, and why.
pub fn teed(command: &mut Command) -> Result<String, String> {
    use std::io::{BufRead, BufReader};
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{}: {error}", shown(command)))?;
    let mut text = String::new();
    let lines = BufReader::new(child.stdout.take().expect("standard output was piped")).lines();
    for line in lines {
        let line = line.map_err(|error| format!("{}: {error}", shown(command)))?;
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() {
        return Ok(text);
    }
    Err(format!("{} ended with {status}{}", shown(command), failures(&text)))
}

/// The lines of a runner's output that name a failed test or a panic, each with the begin of what follows it.
fn failures(text: &str) -> String {
    const FOLLOWING: usize = 2;
    const WIDTH: usize = 200;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut kept = String::new();
    let mut until = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.contains(" ... FAILED") || line.contains("panicked at") {
            until = at + 1 + FOLLOWING;
        }
        if at < until {
            kept.push('\n');
            kept.extend(line.chars().take(WIDTH));
        }
    }
    kept
}

/// Builds the `messina` binary and returns its path.
pub fn messina(profile: &str) -> Result<PathBuf, String> {
    run(cargo().args(["build", "--package", "messina", "--profile", profile]))?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target().join(folder).join("messina"))
}

/// Builds the program of the real clients; what runs it.
pub fn compat() -> Result<Command, String> {
    run(cargo().args(["build", "--quiet", "--package", "compat"]))?;
    let mut compat = command(target().join("debug/compat"));
    // It looks for its own files there; what Cargo told this program names another folder.
    compat.env("CARGO_MANIFEST_DIR", root().join("crates/compat"));
    Ok(compat)
}

/// How what runs is compiled: as it is released, and for a run that only shows that it works as the simulator is, so that one
/// optimised build, with assertions, serves all that must hold for every commit.
pub fn profile(words: &[String]) -> &'static str {
    let is_small = words.iter().any(|word| word == "--smoke" || word == "--quick");
    if is_small { "sim" } else { "release" }
}

/// Builds an example of a crate for these words of a bench and returns its path.
pub fn example(words: &[String], package: &str, name: &str) -> Result<PathBuf, String> {
    let profile = profile(words);
    run(cargo().args(["build", "--profile", profile, "--package", package, "--example", name]))?;
    Ok(target().join(profile).join("examples").join(name))
}

/// The binary to use: the one given by `--binary`, to compare with an earlier build, or a fresh build.
pub fn binary(words: &[String], profile: &str) -> Result<PathBuf, String> {
    match option(words, "--binary") {
        Some(path) => Ok(path.into()),
        None => messina(profile),
    }
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// The number after `name`, or this one if the words do not hold it.
pub fn number(words: &[String], name: &str, otherwise: u64) -> Result<u64, String> {
    match option(words, name) {
        Some(text) => text.parse().map_err(|_| format!("{name} wants a number")),
        None => Ok(otherwise),
    }
}

/// The value after `name`, if the words hold it.
pub fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::failures;

    #[test]
    fn a_failed_test_is_named_with_its_reason() {
        let text = "test a ... ok\ntest b ... FAILED [0.1 s]\nwhy it failed\n\nand more\nbut not this\ntest c ... ok\n";
        assert_eq!(failures(text), "\ntest b ... FAILED [0.1 s]\nwhy it failed\nand more");
        assert_eq!(failures("test a ... ok\n"), "");
    }
}
