//! Which modules of a crate use which: `lib.rs` lists them bottom to top, and a use of one that is declared later points upward.
//!
//! A use is a pair of top-level modules, however often and in however many files the one names the other: by `crate::`, by `super::`
//! up to the root, in a group, or by a name that the root exports from it. Test code does not count, nor do items that the root
//! itself holds. What is wrong today is recorded in `module-order.txt`; the figures may only fall.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source::Source;
use crate::tokens::{self, Token, closed, says};

/// The file of recorded figures, from the root of the repository.
pub const RECORD: &str = "crates/xtask/module-order.txt";
/// What stands at its head.
const HEAD: &str = "\
# How far the modules of each crate are from \"a module uses only those listed above it\": how many pairs of modules point upward,
# and how many modules the largest cycle holds. `cargo x tidy` refuses a figure above the recorded one, and wants a lower one
# recorded: `cargo x tidy --record` writes this file. A crate that is not listed has 0 and 0.
# crate          upward  cycle
";

/// The two figures of a crate that are recorded. 0 and 0: every module uses only those listed above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Pairs of modules of which the one uses the other, which is declared later.
    pub upward: usize,
    /// Modules in the largest cycle of uses; 0 when there is none.
    pub cycle: usize,
}

/// The uses between the top-level modules of one crate.
pub struct Graph {
    /// The crate.
    pub name: String,
    /// `lib.rs`, or `main.rs` of a crate that is only a program.
    root: PathBuf,
    /// Its modules, as they are declared.
    modules: Vec<String>,
    /// Who uses whom, as places in `modules`, and the first place where it does.
    uses: BTreeMap<(usize, usize), String>,
}

/// The graph of every crate, ordered by name. O(size of the sources).
pub fn graphs(sources: &[Source]) -> Vec<Graph> {
    let files: Files = sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let names: BTreeSet<&str> = sources.iter().filter_map(Source::crate_name).collect();
    names.into_iter().filter_map(|name| graph(name, &files)).collect()
}

type Files<'a> = BTreeMap<&'a Path, &'a Source>;

fn graph(name: &str, files: &Files) -> Option<Graph> {
    let folder = Path::new("crates").join(name).join("src");
    let root = *["lib.rs", "main.rs"].iter().find_map(|root| files.get(folder.join(root).as_path()))?;
    let tokens = tokens::shipped(&tokens::tokens(&root.text));
    let modules: Vec<String> = declared(&tokens);
    let exports = exports(&tokens, &modules);
    let mut walk = Walk { files, modules: &modules, exports: &exports, uses: BTreeMap::new() };
    for (index, module) in modules.iter().enumerate() {
        walk.module(&folder, module, index, 1);
    }
    let uses = walk.uses;
    Some(Graph { name: name.to_owned(), root: root.path.clone(), modules, uses })
}

/// The modules that a file declares outside of braces.
fn declared(tokens: &[Token]) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "mod" if says(tokens, at + 2, ";") => found.push(tokens[at + 1].text.to_owned()),
            "{" => at = closed(tokens, at) - 1,
            _ => {}
        }
        at += 1;
    }
    found
}

/// Names that the root has from its modules, each with the place of the module.
fn exports<'a>(tokens: &[Token<'a>], modules: &[String]) -> BTreeMap<&'a str, usize> {
    let mut found = BTreeMap::new();
    for at in 0..tokens.len() {
        if tokens[at].text == "use" {
            leaves(tokens, at + 1, None, modules, &mut found);
        }
    }
    found
}

/// The names that a `use` tree brings from modules of this crate.
fn leaves<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    mut module: Option<usize>,
    modules: &[String],
    found: &mut BTreeMap<&'a str, usize>,
) {
    if says(tokens, at, "{") {
        return elements(tokens, at).into_iter().for_each(|at| leaves(tokens, at, module, modules, found));
    }
    while let Some(token) = tokens.get(at) {
        let is_path = says(tokens, at + 1, "::");
        if module.is_none() && is_path && !["crate", "self"].contains(&token.text) {
            module = modules.iter().position(|name| name == token.text);
            if module.is_none() {
                return;
            }
        }
        if is_path && says(tokens, at + 2, "{") {
            return leaves(tokens, at + 2, module, modules, found);
        }
        if !is_path {
            let name = if says(tokens, at + 1, "as") { tokens.get(at + 2) } else { Some(token) };
            found.extend(name.zip(module).map(|(name, module)| (name.text, module)));
            return;
        }
        at += 2;
    }
}

/// Where the elements of the group that opens here begin.
fn elements(tokens: &[Token], open: usize) -> Vec<usize> {
    let end = closed(tokens, open);
    let mut found = vec![open + 1];
    let mut at = open + 1;
    while at + 1 < end {
        match tokens[at].text {
            "{" => at = closed(tokens, at),
            "," => {
                found.push(at + 1);
                at += 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// What is known while the files of a crate are gone through.
struct Walk<'a> {
    files: &'a Files<'a>,
    modules: &'a [String],
    exports: &'a BTreeMap<&'a str, usize>,
    uses: BTreeMap<(usize, usize), String>,
}

impl Walk<'_> {
    /// Goes through the file of a module and those below it.
    fn module(&mut self, folder: &Path, name: &str, top: usize, depth: usize) {
        let below = folder.join(name);
        let paths = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
        let Some(file) = paths.iter().find_map(|path| self.files.get(path.as_path()).copied()) else {
            return;
        };
        let tokens = tokens::shipped(&tokens::tokens(&file.text));
        // Modules within the file that are open here: the depth of their braces and their names.
        let mut inline: Vec<(usize, &str)> = Vec::new();
        let mut braces = 0;
        for at in 0..tokens.len() {
            match tokens[at].text {
                "mod" if says(&tokens, at + 2, "{") => inline.push((braces, tokens[at + 1].text)),
                "mod" if says(&tokens, at + 2, ";") => {
                    let folder = inline.iter().fold(below.clone(), |folder, (_, name)| folder.join(name));
                    self.module(&folder, tokens[at + 1].text, top, depth + inline.len() + 1);
                }
                "{" => braces += 1,
                "}" => {
                    braces = braces.saturating_sub(1);
                    inline.pop_if(|(depth, _)| *depth == braces);
                }
                "crate" if !is_visibility(&tokens, at) => self.path(file, &tokens, at, 0, top),
                "super" => self.path(file, &tokens, at, depth + inline.len() - 1, top),
                _ => {}
            }
        }
    }

    /// Counts what a path names whose first word leads `level` modules below the root.
    fn path(&mut self, file: &Source, tokens: &[Token], at: usize, level: usize, top: usize) {
        // The later words of a path were followed from its first.
        let begins = at == 0 || tokens[at - 1].text != "::" || (at > 1 && tokens[at - 2].text == "self");
        if begins && says(tokens, at + 1, "::") {
            self.tree(file, tokens, at + 2, level, top);
        }
    }

    fn tree(&mut self, file: &Source, tokens: &[Token], at: usize, level: usize, top: usize) {
        let Some(token) = tokens.get(at) else { return };
        match token.text {
            "{" => {
                elements(tokens, at).into_iter().for_each(|at| self.tree(file, tokens, at, level, top));
            }
            "super" if level > 0 && says(tokens, at + 1, "::") => {
                self.tree(file, tokens, at + 2, level - 1, top);
            }
            name if level == 0 => {
                let module = self.modules.iter().position(|module| module == name);
                let export = self.exports.get(name).copied();
                // A module and a function may have one name.
                let used = if says(tokens, at + 1, "::") { module.or(export) } else { export.or(module) };
                if let Some(used) = used.filter(|used| *used != top) {
                    self.uses.entry((top, used)).or_insert_with(|| file.at(token.line));
                }
            }
            _ => {}
        }
    }
}

/// Whether this `crate` is that of `pub(in crate::...)`.
fn is_visibility(tokens: &[Token], at: usize) -> bool {
    at >= 2 && tokens[at - 1].text == "in" && tokens[at - 2].text == "("
}

impl Graph {
    /// How many pairs of modules there are of which the one uses the other.
    pub fn uses(&self) -> usize {
        self.uses.len()
    }

    /// What is recorded of it.
    pub fn figures(&self) -> Figures {
        Figures { upward: self.upward(|_| true).len(), cycle: self.cycle().len() }
    }

    /// The uses that point upward from and to modules for which `holds` is true, each as a line of text.
    fn upward(&self, holds: impl Fn(usize) -> bool) -> Vec<String> {
        let upward = self.uses.iter().filter(|((user, used), _)| user < used && holds(*user) && holds(*used));
        let told = upward.map(|((user, used), at)| {
            format!("\n    {at}: {} uses {}, declared below it", self.modules[*user], self.modules[*used])
        });
        told.collect()
    }

    /// The modules of the largest cycle, or of the first of several. O(modules³), and a crate has a few dozen.
    fn cycle(&self) -> Vec<usize> {
        let count = self.modules.len();
        let mut reaches: Vec<Vec<bool>> = (0..count)
            .map(|user| (0..count).map(|used| self.uses.contains_key(&(user, used))).collect())
            .collect();
        for via in 0..count {
            let onward = reaches[via].clone();
            for row in reaches.iter_mut().filter(|row| row[via]) {
                row.iter_mut().zip(&onward).for_each(|(reached, onward)| *reached |= onward);
            }
        }
        let mut largest = Vec::new();
        for (one, reached) in reaches.iter().enumerate() {
            let cycle: Vec<usize> =
                (0..count).filter(|other| reached[*other] && reaches[*other][one]).collect();
            if cycle.len() > largest.len() {
                largest = cycle;
            }
        }
        largest
    }

    /// Says what is above the record and, when nothing is, what is below it.
    fn compare(&self, recorded: Figures, breaches: &mut Vec<String>) {
        let (figures, root) = (self.figures(), self.root.display());
        if figures.upward > recorded.upward {
            breaches.push(format!(
                "{root}: {} uses point upward, {} are recorded; a module uses only those declared above it:{}",
                figures.upward,
                recorded.upward,
                self.upward(|_| true).concat()
            ));
        }
        if figures.cycle > recorded.cycle {
            let cycle = self.cycle();
            let names: Vec<&str> = cycle.iter().map(|index| self.modules[*index].as_str()).collect();
            breaches.push(format!(
                "{root}: a cycle of {} modules, {} are recorded: {}; what closes it:{}",
                figures.cycle,
                recorded.cycle,
                names.join(", "),
                self.upward(|index| cycle.contains(&index)).concat()
            ));
        }
        let is_above = figures.upward > recorded.upward || figures.cycle > recorded.cycle;
        if !is_above && figures != recorded {
            breaches.push(format!(
                "{RECORD}: {} has {} uses that point upward and a cycle of {}, less than recorded; cargo x tidy --record",
                self.name, figures.upward, figures.cycle
            ));
        }
    }
}

/// Compares the crates with the record.
pub fn check(graphs: &[Graph], record: &str, breaches: &mut Vec<String>) {
    let mut recorded = match parse(record) {
        Ok(recorded) => recorded,
        Err(error) => return breaches.push(error),
    };
    for graph in graphs {
        graph.compare(recorded.remove(&graph.name).unwrap_or_default(), breaches);
    }
    breaches.extend(recorded.keys().map(|name| format!("{RECORD}: lists {name}, which is no crate")));
}

/// The record as it is written.
pub fn record(graphs: &[Graph]) -> String {
    let mut text = HEAD.to_owned();
    for graph in graphs {
        let figures = graph.figures();
        text.push_str(&format!("{:16} {:6} {:6}\n", graph.name, figures.upward, figures.cycle));
    }
    text
}

/// The recorded figures by crate. Errors: the line that is none.
fn parse(text: &str) -> Result<BTreeMap<String, Figures>, String> {
    let mut found = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let figures = match parts[..] {
            [name, upward, cycle] => upward.parse().ok().zip(cycle.parse().ok()).map(|pair| (name, pair)),
            _ => None,
        };
        let Some((name, (upward, cycle))) = figures else {
            return Err(format!("{RECORD}:{}: not a crate and two numbers", index + 1));
        };
        found.insert(name.to_owned(), Figures { upward, cycle });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph of a crate of these files.
    fn of(files: &[(&str, &str)]) -> Graph {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source {
                path: Path::new("crates/x/src").join(path),
                text: (*text).to_owned(),
            })
            .collect();
        graphs(&sources).pop().expect("there is a crate")
    }

    fn breaches(graph: Graph, recorded: &str) -> Vec<String> {
        let mut breaches = Vec::new();
        check(&[graph], recorded, &mut breaches);
        breaches
    }

    #[test]
    fn an_upward_use_is_refused_with_its_place() {
        let graph =
            || of(&[("lib.rs", "mod a;\npub mod b;\n"), ("a.rs", "\nuse crate::b::B;\n"), ("b.rs", "")]);
        let found = breaches(graph(), "");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("1 uses point upward, 0 are recorded"), "{}", found[0]);
        assert!(found[0].contains("crates/x/src/a.rs:2: a uses b"), "{}", found[0]);
        assert!(breaches(graph(), "x 1 0\n").is_empty());
        assert!(breaches(graph(), "x 2 0\n")[0].contains("--record"));
        assert!(breaches(graph(), "x 1 0\ny 1 0\n")[0].contains("lists y"));
        assert!(breaches(graph(), "# head\nx one 0\n")[0].contains(":2: not"));
    }

    #[test]
    fn a_cycle_is_refused_with_its_modules() {
        let graph = || {
            of(&[
                ("lib.rs", "mod a; mod b; mod c; mod d;"),
                ("a.rs", "use crate::c::C;"),
                ("b.rs", "use crate::a::A;"),
                ("c/mod.rs", "mod e;\nuse super::b;"),
                ("c/e.rs", ""),
                ("d.rs", "use crate::a::A;"),
            ])
        };
        assert_eq!(graph().figures(), Figures { upward: 1, cycle: 3 });
        assert_eq!(graph().uses(), 4);
        let found = breaches(graph(), "x 1 2\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("a cycle of 3 modules, 2 are recorded: a, b, c;"), "{}", found[0]);
        assert!(found[0].contains("crates/x/src/a.rs:1: a uses c"), "{}", found[0]);
        assert!(breaches(graph(), &record(&[graph()])).is_empty());
    }

    #[test]
    fn comments_strings_and_tests_do_not_count() {
        let graph = of(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod fixture;"),
            (
                "a.rs",
                "//! crate::b\n/* crate::b */ const A: &str = \"crate::b::B\";\n#[cfg(test)]\nmod tests { use crate::b::B; }\n\
                 #[cfg(test)]\nmod more;\npub(in crate::b) struct C;",
            ),
            ("a/more.rs", "use crate::b::B;"),
            ("b.rs", ""),
            ("fixture.rs", "use crate::b::B;"),
        ]);
        assert_eq!((graph.figures(), graph.uses()), (Figures::default(), 0));
        assert!(breaches(graph, "").is_empty());
    }

    /// The modules that `a` uses when its file and the one below it say this.
    fn used(text: &str, below: &str) -> String {
        let graph = of(&[
            (
                "lib.rs",
                "mod a;\nmod b;\nmod c;\nmod d;\npub use b::{B, inner::{C as Bc}};\npub(crate) use self::d::d;\nuse std::c::X;",
            ),
            ("a.rs", text),
            ("a/below.rs", below),
        ]);
        graph.uses.keys().map(|(_, used)| graph.modules[*used].as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_way_to_name_a_module_is_seen() {
        assert_eq!(used("use crate::{b::{x, c}, d as e};", ""), "b d");
        assert_eq!(used("use super::c; fn f() -> super::d::D {}", ""), "c d");
        assert_eq!(used("use crate::Bc;", ""), "b");
        assert_eq!(used("fn f() { crate::d() + $crate::c::x() }", ""), "c d");
        assert_eq!(used("mod inline { use super::super::b; use super::c; }", ""), "b");
        assert_eq!(
            used("mod below; use self::super::d;", "use super::{c, super::b}; use super::d::e;"),
            "b d"
        );
        assert_eq!(used("mod below;", "use super::super::{X, c, a};"), "c");
        assert_eq!(used("", "use crate::b;"), "");
        assert_eq!(used("use other::b; fn c() { b::c(); }", ""), "");
    }
}
