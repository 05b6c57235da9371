//! What the compiler does not check: floors, the order of modules, unused dependencies, headers, forbidden words, unfinished code,
//! formatting.
//!
//! Every rule names file and line. Long functions and files are listed so that someone looks; they are no failure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::modules::{self, Graph};
use crate::source::{self, Source};
use crate::{Outcome, dependencies, house};

/// Crates beside the house: they may use anything, and nothing may use them.
const BESIDE: &[&str] = &["xtask", "compat", "enginebench"];
/// Crates that may hold `unsafe`.
const UNSAFE: &[&str] = &["base", "runtime", "arena"];

/// Hosts of package registries and paths of somebody's machine; written in halves so that this file passes.
const FORBIDDEN: &[(&str, &str)] = &[
    ("crates", ".io"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("repo1.maven", ".org"),
    ("repo.maven", ".apache"),
    ("npmjs", ".org"),
    ("proxy.golang", ".org"),
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/tm", "p/"),
];

/// Rust that means "not finished".
const UNFINISHED: &[(&str, &str)] = &[
    ("to", "do!("),
    ("unimple", "mented!("),
    ("#[ign", "ore"),
    ("db", "g!("),
    ("FIX", "ME"),
    ("XX", "X:"),
    ("TO", "DO"),
];

/// The checkout that built, which need not be the one that runs: checkouts share a target folder, and cargo sees no
/// difference in this. A test runs in the folder of its crate.
const BUILT_IN: &str = "env!(\"CARGO_MANIFEST_DIR\")";

/// Runs every rule and prints every breach. `--record` writes the figures of the modules' order first, and so accepts them.
pub fn tidy(words: &[String]) -> Outcome {
    let sources = source::all()?;
    let packages = packages()?;
    let mut breaches = floors(&packages);
    dependencies::unused(&packages, &sources, &mut breaches);
    let graphs = order(&sources, words.iter().any(|word| word == "--record"), &mut breaches)?;
    for file in &sources {
        forbidden(file, &mut breaches);
        if file.is_rust() {
            rust(file, &mut breaches);
        }
    }
    roots(&sources, &mut breaches);
    for breach in &breaches {
        println!("{breach}");
    }
    longest(&sources);
    least_ordered(&graphs);
    let formatted = house::run(house::cargo().args(["fmt", "--all", "--", "--check", "-l"]));
    if !breaches.is_empty() {
        return Err(format!("{} breaches", breaches.len()));
    }
    formatted.map_err(|_| "the formatting differs; run cargo fmt --all".to_owned())?;
    Ok(format!("tidy result: ok. {} files", sources.len()))
}

/// The crates as Cargo knows them.
fn packages() -> Result<Vec<Value>, String> {
    let text = house::output(house::cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let mut metadata: Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Err("cargo metadata lists no packages".into()),
    }
}

/// Compares the order of modules with its record, or writes that.
fn order(sources: &[Source], record: bool, breaches: &mut Vec<String>) -> Result<Vec<Graph>, String> {
    let graphs = modules::graphs(sources);
    let path = house::root().join(modules::RECORD);
    let told = |error: std::io::Error| format!("{}: {error}", modules::RECORD);
    if record {
        std::fs::write(&path, modules::record(&graphs)).map_err(told)?;
    }
    let recorded = std::fs::read_to_string(&path).map_err(told)?;
    modules::check(&graphs, &recorded, breaches);
    Ok(graphs)
}

/// A crate may use only crates on strictly lower floors.
fn floors(packages: &[Value]) -> Vec<String> {
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut floors = BTreeMap::new();
    for package in packages {
        floors.insert(name(package), package["metadata"]["floor"].as_u64());
    }
    let mut breaches = Vec::new();
    for package in packages {
        let user = name(package);
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let used = dependencies.iter().map(name).filter(|used| floors.contains_key(used));
        breaches.extend(used.filter_map(|used| breach(&user, floors[&user], &used, floors[&used])));
    }
    for (name, floor) in &floors {
        if floor.is_none() && !BESIDE.contains(&name.as_str()) {
            breaches.push(format!("crates/{name}/Cargo.toml: says no floor"));
        }
    }
    breaches
}

fn breach(user: &str, user_floor: Option<u64>, used: &str, used_floor: Option<u64>) -> Option<String> {
    if BESIDE.contains(&used) {
        return Some(format!("crates/{user}/Cargo.toml: uses {used}, which is beside the house"));
    }
    if BESIDE.contains(&user) {
        return None;
    }
    match (user_floor, used_floor) {
        (Some(upper), Some(lower)) if lower >= upper => {
            Some(format!("crates/{user}/Cargo.toml: floor {upper} uses {used} on floor {lower}"))
        }
        _ => None,
    }
}

fn forbidden(file: &Source, breaches: &mut Vec<String>) {
    if source::is_lock_file(&file.path) {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        for (head, tail) in FORBIDDEN {
            if line.contains(&format!("{head}{tail}")) {
                breaches.push(format!("{}: says {head}{tail}", file.at(index + 1)));
            }
        }
        if line.ends_with([' ', '\t']) {
            breaches.push(format!("{}: ends in blanks", file.at(index + 1)));
        }
    }
}

fn rust(file: &Source, breaches: &mut Vec<String>) {
    if !file.text.starts_with("//!") {
        breaches.push(format!("{}: has no //! header", file.at(1)));
    }
    let beside = file.crate_name().is_none_or(|name| BESIDE.contains(&name));
    for (index, line) in file.text.lines().enumerate() {
        for (head, tail) in UNFINISHED {
            if line.contains(&format!("{head}{tail}")) {
                breaches.push(format!("{}: says {head}{tail}", file.at(index + 1)));
            }
        }
        if !beside && line.contains(BUILT_IN) {
            breaches.push(format!("{}: the path of the checkout that built it", file.at(index + 1)));
        }
    }
    for (line, text) in file.shipped_lines() {
        if !beside && text.contains(".unwrap()") {
            breaches.push(format!("{}: unwrap() instead of expect(\"why it holds\")", file.at(line)));
        }
    }
}

/// Crate roots forbid `unsafe`.
fn roots(sources: &[Source], breaches: &mut Vec<String>) {
    for file in sources {
        let is_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        let Some(name) = file.crate_name() else { continue };
        if is_root && !UNSAFE.contains(&name) && file.path.iter().count() == 4 {
            let forbids = file.text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
            if !forbids {
                breaches.push(format!("{}: lacks #![forbid(unsafe_code)]", file.at(1)));
            }
        }
    }
}

fn longest(sources: &[Source]) {
    let mut functions: Vec<(usize, String)> = Vec::new();
    let mut files: Vec<(usize, String)> = Vec::new();
    let mut count = 0;
    for file in sources.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let lines = file.text.lines().count();
        files.push((lines, file.path.display().to_string()));
        for function in file.functions() {
            count += 1;
            functions.push((function.lines, format!("{} {}", file.at(function.line), function.name)));
        }
    }
    let long = functions.iter().filter(|(lines, _)| *lines > 70).count();
    println!("{count} functions, {long} of them longer than 70 lines; the longest:");
    list(&mut functions, 8);
    println!("the longest files:");
    list(&mut files, 5);
}

fn least_ordered(graphs: &[Graph]) {
    let total = |of: fn(&Graph) -> usize| graphs.iter().map(of).sum::<usize>();
    let (uses, upward) = (total(Graph::uses), total(|graph| graph.figures().upward));
    println!("{uses} uses between modules, {upward} of them upward; the crates with most of these:");
    let mut crates: Vec<(usize, String)> = graphs
        .iter()
        .map(|graph| {
            let cycle = graph.figures().cycle;
            (graph.figures().upward, format!("of {} in {}; largest cycle {cycle}", graph.uses(), graph.name))
        })
        .collect();
    list(&mut crates, 8);
}

fn list(entries: &mut [(usize, String)], count: usize) {
    entries.sort_by(|left, right| right.cmp(left));
    for (lines, what) in entries.iter().take(count) {
        println!("  {lines:5}  {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lower_floors_are_used() {
        assert!(breach("storage", Some(5), "base", Some(0)).is_none());
        assert!(breach("storage", Some(5), "replica", Some(6)).is_some());
        assert!(breach("cql", Some(4), "sstable", Some(4)).is_some());
        assert!(breach("node", Some(11), "xtask", None).is_some());
        assert!(breach("xtask", None, "node", Some(11)).is_none());
    }

    #[test]
    fn breaches_name_file_and_line() {
        let text = format!(
            "//! Header.\nfn a() {{ {}{}) }}\nfn b() {{ x.unwrap() }}\nconst C: &str = {BUILT_IN};\n",
            "to", "do!("
        );
        let file = Source { path: "crates/cql/src/x.rs".into(), text };
        let mut breaches = Vec::new();
        rust(&file, &mut breaches);
        breaches.sort();
        let lines: Vec<_> = breaches.iter().map(|breach| breach.split(' ').next().unwrap()).collect();
        assert_eq!(lines, ["crates/cql/src/x.rs:2:", "crates/cql/src/x.rs:3:", "crates/cql/src/x.rs:4:"]);
    }
}
