//! Source files as tidy sees them: tracked text files, the part of a Rust file that is not a test, its functions.

use std::path::{Path, PathBuf};

use crate::house;

/// One text file of the repository.
pub struct Source {
    /// Its path from the root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// One function: where it starts and how many lines it has.
pub struct Function {
    /// Its name.
    pub name: String,
    /// The first line, counted from 1.
    pub line: usize,
    /// Lines from its head to its closing brace.
    pub lines: usize,
}

/// All text files that are tracked or about to be.
pub fn all() -> Result<Vec<Source>, String> {
    let listed = house::output(house::command("git").args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let mut sources = Vec::new();
    for name in listed.lines() {
        let path = PathBuf::from(name);
        let Ok(bytes) = std::fs::read(house::root().join(&path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}

impl Source {
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// Whether the whole file is test code.
    pub fn is_test(&self) -> bool {
        let inside = |name: &str| self.path.iter().any(|part| part == name);
        inside("tests") || inside("benches") || inside("examples") || self.path.ends_with("tests.rs")
    }

    /// The crate it belongs to, when it lies in one.
    pub fn crate_name(&self) -> Option<&str> {
        let mut parts = self.path.iter();
        if parts.next()? != "crates" {
            return None;
        }
        parts.next()?.to_str()
    }

    /// Its lines up to the first `#[cfg(test)]`, numbered from 1, without comments.
    pub fn shipped_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test() { 0 } else { usize::MAX };
        self.text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]")
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .take(end)
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Its functions, by the layout that rustfmt gives them.
    pub fn functions(&self) -> Vec<Function> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut found = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let Some(name) = function_name(line) else { continue };
            let indent = &line[..line.len() - line.trim_start().len()];
            let close = format!("{indent}}}");
            let length = if line.trim_end().ends_with('}') {
                Some(1)
            } else {
                lines[index..].iter().position(|line| *line == close).map(|last| last + 1)
            };
            if let Some(lines) = length {
                found.push(Function { name: name.into(), line: index + 1, lines });
            }
        }
        found
    }

    /// Path and line as editors understand them.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

/// The name of the function that this line begins.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    loop {
        let (word, rest) = words.split_once(' ')?;
        match word {
            "fn" => {
                let end = rest.find(['(', '<'])?;
                return Some(&rest[..end]);
            }
            "const" | "async" | "unsafe" | "extern" | "pub" | "\"C\"" => {}
            word if word.starts_with("pub(") => {}
            _ => return None,
        }
        words = rest;
    }
}

/// Whether a file is another language's lock file or other generated text that speaks of registries.
pub fn is_lock_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "Cargo.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "crates/x/src/lib.rs".into(), text: text.into() }
    }

    #[test]
    fn functions_are_measured() {
        let text = "fn a() {}\npub(crate) async fn b<T>(\n    x: T,\n) {\n    y();\n}\nimpl X {\n    const fn c() {\n        z();\n    }\n}\n";
        let found: Vec<_> = source(text).functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("a".into(), 1, 1), ("b".into(), 2, 5), ("c".into(), 8, 3)]);
    }

    #[test]
    fn tests_are_not_shipped() {
        let text = "a\n// b\n#[cfg(test)]\nmod tests {\n";
        assert_eq!(source(text).shipped_lines().collect::<Vec<_>>(), [(1, "a")]);
        let mut whole = source(text);
        whole.path = "crates/x/src/list/tests.rs".into();
        assert_eq!(whole.shipped_lines().count(), 0);
        assert_eq!(whole.crate_name(), Some("x"));
    }
}
