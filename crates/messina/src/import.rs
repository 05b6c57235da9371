//! `messina import`: has a running node load sstables from folders.

use crate::arguments::Import;
use nodetool::How;
use std::path::Path;
use std::process::ExitCode;

/// Loads each folder and says what came of it. The exit code is 0 when all were loaded.
pub fn run(arguments: &Import) -> ExitCode {
    let how = How {
        copy: !arguments.take,
        unverified: arguments.no_verify,
        extended: arguments.extended_verify,
        keep_level: arguments.keep_level,
        keep_repaired: arguments.keep_repaired,
    };
    let mut well = true;
    for dir in &arguments.dirs {
        let shown = dir.display();
        let loaded = table_for(arguments.table.as_deref(), dir).and_then(|(keyspace, table)| {
            let node = (arguments.host.as_str(), arguments.port);
            let loaded = nodetool::load(node, (&keyspace, &table), dir, how)?;
            Ok((keyspace, table, loaded))
        });
        match loaded {
            Ok((keyspace, table, loaded)) => {
                println!(
                    "{shown}: {} sstables, {} partitions, {} bytes are in {keyspace}.{table}",
                    loaded.sstables, loaded.partitions, loaded.bytes
                );
                if loaded.left_out > 0 {
                    println!("{shown}: {} files of indexes and the like were left out", loaded.left_out);
                }
            }
            Err(text) => {
                well = false;
                eprintln!("messina: {shown}: {text}");
            }
        }
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The table that is named, or the one that the folder is named after.
fn table_for(named: Option<&str>, dir: &Path) -> Result<(String, String), String> {
    if let Some(named) = named {
        let (keyspace, table) = named
            .split_once('.')
            .filter(|(keyspace, table)| !keyspace.is_empty() && !table.is_empty())
            .ok_or_else(|| format!("--table: expected keyspace.table, got \"{named}\""))?;
        return Ok((keyspace.to_owned(), table.to_owned()));
    }
    let absolute = std::path::absolute(dir).map_err(|error| error.to_string())?;
    let mut names: Vec<String> = absolute.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let below = |names: &[String], folder: &str| names.len() > 2 && names[names.len() - 2] == folder;
    if below(&names, "snapshots") {
        names.truncate(names.len() - 2);
    } else if names.last().is_some_and(|name| name == "upload" || name == "backups") {
        names.pop();
    }
    let table = names.pop().unwrap_or_default();
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let table = table.rsplit_once('-').filter(|(_, id)| is_id(id)).map_or(table.as_str(), |(table, _)| table);
    match names.pop().filter(|keyspace| keyspace != "/") {
        Some(keyspace) if !table.is_empty() => Ok((keyspace, table.to_owned())),
        _ => Err("the folder does not name a table: say which with --table keyspace.table".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_their_tables() {
        let of = |path: &str| table_for(None, Path::new(path));
        let visits = Ok(("shop".to_owned(), "visits".to_owned()));
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(of(&format!("/d/shop/visits-{id}")), visits);
        assert_eq!(of(&format!("/d/shop/visits-{id}/snapshots/monday")), visits);
        assert_eq!(of("/b/shop/visits/backups"), visits);
        assert_eq!(of("/b/shop/visits"), visits);
        assert!(of("/visits").is_err());
        assert_eq!(table_for(Some("a.b"), Path::new("/x")), Ok(("a".to_owned(), "b".to_owned())));
        assert!(table_for(Some("ab"), Path::new("/x")).is_err());
    }
}
