//! import and refresh: sstables that lie in folders of the node's machine, into its tables.

use crate::context::Context;
use crate::error::Error;
use crate::http::{Endpoint, escape};
use crate::options::Given;
use crate::rest::Node;
use serde::Deserialize;
use std::path::Path;

/// What was loaded.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Loaded {
    /// Sstables.
    pub sstables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Partitions, counted once per sstable.
    pub partitions: u64,
    /// Files beside them that are no part of an sstable there, such as those of Cassandra's indexes.
    pub left_out: u64,
}

/// How sstables are loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct How {
    /// The folder keeps its files.
    pub copy: bool,
    /// Nothing is checked but what opening them needs.
    pub unverified: bool,
    /// Every partition is read before they are taken.
    pub extended: bool,
    /// They stay on their level.
    pub keep_level: bool,
    /// They stay repaired.
    pub keep_repaired: bool,
}

impl How {
    fn parameters<'p>(self, table: &'p str, dir: &'p str) -> Vec<(&'static str, &'p str)> {
        let verify = match (self.unverified, self.extended) {
            (true, _) => "open",
            (false, true) => "full",
            (false, false) => "digest",
        };
        let mut parameters = vec![("cf", table), ("dir", dir), ("verify", verify)];
        let switches = [
            ("copy_data", self.copy),
            ("keep_level", self.keep_level),
            ("keep_repaired", self.keep_repaired),
        ];
        parameters.extend(switches.into_iter().filter(|(_, on)| *on).map(|(name, _)| (name, "true")));
        parameters
    }
}

/// Has a node load the sstables of a folder; blocks until it has. Errors: in words.
pub fn load(
    (host, port): (&str, u16),
    (keyspace, table): (&str, &str),
    dir: &Path,
    how: How,
) -> Result<Loaded, String> {
    let node = Node::new(Endpoint { host: host.to_owned(), port });
    load_from(&node, keyspace, table, dir, how).map_err(|error| error.to_string())
}

fn load_from(node: &Node, keyspace: &str, table: &str, dir: &Path, how: How) -> Result<Loaded, Error> {
    // The node has another working folder.
    let absolute =
        std::path::absolute(dir).map_err(|error| Error::Failed(format!("{}: {error}", dir.display())))?;
    let dir = absolute.to_string_lossy();
    node.post_for(&format!("/messina/import/{}", escape(keyspace)), &how.parameters(table, &dir))
}

fn how(given: &Given) -> How {
    let quick = given.has("-q");
    How {
        copy: given.has("-p"),
        unverified: quick || given.has("-v"),
        extended: given.has("-e") && !quick,
        keep_level: given.has("-l"),
        keep_repaired: given.has("-r"),
    }
}

/// `import [options] ks table dir…`: those that cannot be loaded are named at the end.
pub fn import(context: &mut Context<'_>) -> Result<(), Error> {
    let given = context.given.clone();
    let [keyspace, table, dirs @ ..] = given.arguments.as_slice() else {
        return Err(Error::usage("import requires keyspace, table name and directories"));
    };
    if dirs.is_empty() {
        return Err(Error::usage("import requires keyspace, table name and directories"));
    }
    if !is_table(context, keyspace, table)? {
        return Err(Error::Refused(format!("ColumnFamilyStore for {keyspace}/{table} not found.")));
    }
    if given.has("-q") {
        context.line("Doing a quick import - skipping sstable verification and row cache invalidation");
    }
    // Nothing is taken from any when one of them is missing.
    for dir in dirs {
        check_folder(&context.node, keyspace, table, dir)?;
    }
    let mut failed = String::new();
    for dir in dirs {
        match load_from(&context.node, keyspace, table, Path::new(dir), how(&given)) {
            Ok(_) => {}
            Err(error @ Error::Answer { status: 400, .. }) => failed.push_str(&format!("\n{dir}: {error}")),
            Err(error) => return Err(error),
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!("Some directories failed to import, check server logs for details:{failed}")))
}

fn is_table(context: &Context<'_>, keyspace: &str, table: &str) -> Result<bool, Error> {
    Ok(context.node.table_names()?.iter().any(|name| name.ks == keyspace && name.cf == table))
}

/// Errors: the node has no such folder, in Cassandra's words.
fn check_folder(node: &Node, keyspace: &str, table: &str, dir: &str) -> Result<(), Error> {
    let absolute = std::path::absolute(dir).map_err(|error| Error::Failed(format!("{dir}: {error}")))?;
    let path = absolute.to_string_lossy();
    let parameters = [("cf", table), ("dir", &path), ("check", "true")];
    node.post(&format!("/messina/import/{}", escape(keyspace)), &parameters)
}

/// `refresh ks table`: what lies in the table's `upload` folder.
pub fn refresh(context: &mut Context<'_>) -> Result<(), Error> {
    let [keyspace, table] = context.arguments() else {
        return Err(Error::usage("refresh requires ks and cf args"));
    };
    if !context.node.keyspaces()?.contains(keyspace) {
        return Err(Error::usage(format!("Keyspace {keyspace} does not exist")));
    }
    if !is_table(context, keyspace, table)? {
        return Err(Error::usage(format!("Unknown keyspace/cf pair ({keyspace}.{table})")));
    }
    let path = format!("/storage_service/sstables/{}", escape(keyspace));
    let loaded: Result<Loaded, Error> = context.node.post_for(&path, &[("cf", table)]);
    match loaded {
        Ok(_) => Ok(()),
        Err(Error::Answer { status: 400, message }) => Err(Error::Refused(message)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{all, switch};

    #[test]
    fn options_become_parameters() {
        let known = [
            switch(&["-p"], ""),
            switch(&["-q"], ""),
            switch(&["-e"], ""),
            switch(&["-v"], ""),
            switch(&["-l"], ""),
            switch(&["-r"], ""),
        ];
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            how(&all(&words, &known).unwrap()).parameters("t", "/d")
        };
        assert_eq!(of(""), [("cf", "t"), ("dir", "/d"), ("verify", "digest")]);
        assert_eq!(
            of("-e -p -l"),
            [("cf", "t"), ("dir", "/d"), ("verify", "full"), ("copy_data", "true"), ("keep_level", "true")]
        );
        assert_eq!(of("-q -e -r")[2..], [("verify", "open"), ("keep_repaired", "true")]);
        assert_eq!(of("-v")[2], ("verify", "open"));
    }
}
