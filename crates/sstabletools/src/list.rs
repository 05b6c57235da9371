//! `list`: the sstables of a data folder, of a keyspace's or of a table's.
//!
//! What each says of itself: nothing of its data is read. Snapshots, backups and uploads are left out.

use crate::error::Error;
use crate::files::Place;
use crate::keys;
use crate::output::Output;
use crate::times;
use base::Token;
use mutation::NO_TIME;
use runtime::file;
use serde_json::{Value, json};
use sstable::{Component, Descriptor, Raw};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

/// Folders below a table's that hold no sstables of its own.
const BESIDE: [&str; 4] = ["snapshots", "backups", "upload", "staging"];
/// Folders that lie within each other between a data folder and its sstables.
const DEPTH: usize = 2;

/// One sstable in a list.
struct Listed {
    place: Place,
    keyspace: String,
    table: String,
    bytes: u64,
    /// What it says of itself, or why it cannot be read.
    facts: Result<Facts, String>,
}

struct Facts {
    partitions: u64,
    rows: u64,
    level: u32,
    keys: [(i64, String); 2],
    timestamps: (i64, i64),
    tombstones: u64,
    max_local_time: u32,
    repaired_at: i64,
    compressor: Option<&'static str>,
    compression_ratio: f64,
}

/// Prints the sstables below a folder; returns whether all could be read.
pub async fn list(dir: &Path, as_json: bool, out: &mut Output<'_>) -> Result<bool, Error> {
    let mut listed = Vec::new();
    let mut folders = VecDeque::from([(std::path::absolute(dir).unwrap_or(dir.to_path_buf()), 0)]);
    while let Some((folder, depth)) = folders.pop_front() {
        let entries =
            file::read_dir(&folder).await.map_err(|error| Error::io(&folder, "list folder", error))?;
        let mut sizes: BTreeMap<Descriptor, u64> = BTreeMap::new();
        for entry in &entries {
            if entry.is_dir && depth < DEPTH && !BESIDE.contains(&entry.name.as_str()) {
                folders.push_back((folder.join(&entry.name), depth + 1));
            } else if let Some((descriptor, _)) = Descriptor::of_file_name(&entry.name) {
                *sizes.entry(descriptor).or_default() += entry.size;
            }
        }
        for (descriptor, bytes) in sizes {
            listed.push(look(&folder, descriptor, bytes).await?);
        }
    }
    listed.sort_by(|a, b| (&a.keyspace, &a.table, &a.place).cmp(&(&b.keyspace, &b.table, &b.place)));
    if as_json {
        let all: Vec<Value> = listed.iter().map(as_value).collect();
        out.line(serde_json::to_string_pretty(&all).unwrap_or_default())?;
    } else {
        table(&listed, out)?;
    }
    out.flush()?;
    Ok(listed.iter().all(|listed| listed.facts.is_ok()))
}

/// Keyspace and table of a folder `<keyspace>/<table>-<id>`.
fn names(folder: &Path) -> (String, String) {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let own = name(Some(folder));
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let table = own.rsplit_once('-').filter(|(_, id)| is_id(id)).map(|(table, _)| table.to_owned());
    (name(folder.parent()), table.unwrap_or(own))
}

async fn look(folder: &Path, descriptor: Descriptor, bytes: u64) -> Result<Listed, Error> {
    let place = Place { dir: folder.to_path_buf(), descriptor };
    let facts = match facts(&place).await {
        Ok(facts) => Ok(facts),
        Err(error @ sstable::Error::Io { .. }) if !matches!(&error, sstable::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound) =>
        {
            return Err(error.into());
        }
        Err(error) => Err(error.to_string()),
    };
    let (keyspace, table) = names(folder);
    Ok(Listed { place, keyspace, table, bytes, facts })
}

async fn facts(place: &Place) -> Result<Facts, sstable::Error> {
    let raw = Raw::open(&place.dir, place.descriptor).await?;
    let stats = &raw.statistics().stats;
    let (first, last) = match &stats.keys {
        Some(keys) => keys.clone(),
        None => raw.keys().await?,
    };
    let shown = |key: &[u8]| (Token::of_key(key).0, keys::text(raw.table(), key));
    Ok(Facts {
        partitions: stats.partition_sizes.count(),
        rows: stats.rows,
        level: stats.level,
        keys: [shown(&first), shown(&last)],
        timestamps: (stats.min_timestamp, stats.max_timestamp),
        tombstones: stats.tombstones.count(),
        max_local_time: stats.max_local_time,
        repaired_at: stats.repaired_at,
        compressor: raw.compression().map(|info| info.compressor.class()),
        compression_ratio: stats.compression_ratio,
    })
}

fn as_value(listed: &Listed) -> Value {
    let path: PathBuf = listed.place.file(Component::Data);
    let mut value = json!({
        "keyspace": listed.keyspace,
        "table": listed.table,
        "sstable": listed.place.descriptor.to_string(),
        "version": listed.place.descriptor.version.letters(),
        "format": listed.place.descriptor.version.format().name(),
        "path": path.display().to_string(),
        "bytes": listed.bytes,
    });
    let more = match &listed.facts {
        Err(error) => json!({ "error": error }),
        Ok(facts) => json!({
            "partitions": facts.partitions,
            "rows": facts.rows,
            "level": facts.level,
            "first_token": facts.keys[0].0,
            "first_key": facts.keys[0].1,
            "last_token": facts.keys[1].0,
            "last_key": facts.keys[1].1,
            "min_timestamp": facts.timestamps.0,
            "max_timestamp": facts.timestamps.1,
            "tombstones": facts.tombstones,
            "expires_at": (facts.max_local_time != NO_TIME).then_some(facts.max_local_time),
            "repaired_at": facts.repaired_at,
            "compressor": facts.compressor,
            "compression_ratio": facts.compressor.map(|_| facts.compression_ratio),
        }),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

/// A size of four digits at most.
fn size(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

const HEADS: [&str; 11] = [
    "keyspace",
    "table",
    "sstable",
    "size",
    "partitions",
    "rows",
    "level",
    "first token",
    "last token",
    "oldest write",
    "newest write",
];

fn table(listed: &[Listed], out: &mut Output<'_>) -> Result<(), Error> {
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    for one in listed {
        let mut row =
            vec![one.keyspace.clone(), one.table.clone(), one.place.descriptor.to_string(), size(one.bytes)];
        match &one.facts {
            Ok(facts) => row.extend([
                facts.partitions.to_string(),
                facts.rows.to_string(),
                facts.level.to_string(),
                facts.keys[0].0.to_string(),
                facts.keys[1].0.to_string(),
                times::instant(facts.timestamps.0 / 1_000_000, times::Unit::Seconds),
                times::instant(facts.timestamps.1 / 1_000_000, times::Unit::Seconds),
            ]),
            Err(error) => row.push(format!("cannot be read: {error}")),
        }
        rows.push(row);
    }
    let width = |column: usize| {
        let of_row = |row: &Vec<String>| match row.get(column) {
            Some(cell) if row.len() == HEADS.len() || column < 4 => cell.chars().count(),
            _ => 0,
        };
        rows.iter().map(of_row).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            3..=8 if row.len() == HEADS.len() => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        out.line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    let bytes: u64 = listed.iter().map(|listed| listed.bytes).sum();
    out.line(format_args!("{} sstables, {}", listed.len(), size(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_tell_keyspace_and_table() {
        let of = |path: &str| names(Path::new(path));
        assert_eq!(of("/d/shop/visits-0123456789abcdef0123456789abcdef"), ("shop".into(), "visits".into()));
        assert_eq!(of("/d/shop/a-b"), ("shop".into(), "a-b".into()));
        assert_eq!(
            (size(1023), size(1536), size(3 << 40)),
            ("1023 B".into(), "1.5 KiB".into(), "3.0 TiB".into())
        );
    }
}
