//! Sstables from folders of the node's machine into its tables.

use super::{Answer, Failure, Rest};
use crate::http::Request;
use runtime::file;
use schema::TableId;
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use storage::{ImportOptions, Verify};

/// Below a table's folder: where operators put sstables that `refresh` loads.
const UPLOAD: &str = "upload";

/// Whether a folder can be read at all; nothing is taken from it.
async fn check_folder(dir: &Path) -> Answer {
    let told = match file::read_dir(dir).await {
        Ok(_) => return Ok(json!(true)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            format!("Directory {} does not exist", dir.display())
        }
        Err(_) => format!("Insufficient permissions on directory {}", dir.display()),
    };
    Err(Failure::new(400, told))
}

impl Rest {
    /// What is in a folder goes into a table; with `check`, only whether there is such a folder is told.
    pub(super) async fn import(&self, keyspace: &str, request: &Request) -> Answer {
        let table = self.table_to_fill(keyspace, request)?;
        let dir = request.parameter("dir").map(PathBuf::from).unwrap_or_default();
        if !dir.is_absolute() {
            let told = format!("\"{}\" is no absolute path on the node's machine", dir.display());
            return Err(Failure::new(400, told));
        }
        if request.is_on("check") {
            return check_folder(&dir).await;
        }
        let verify = match request.parameter("verify").as_deref() {
            None | Some("" | "digest") => Verify::Digest,
            Some("open") => Verify::Open,
            Some("full") => Verify::Full,
            Some(other) => {
                return Err(Failure::new(
                    400,
                    format!("\"{other}\" is no way to verify: open, digest or full"),
                ));
            }
        };
        let options = ImportOptions {
            copy: request.is_on("copy_data"),
            verify,
            keep_level: request.is_on("keep_level"),
            keep_repaired: request.is_on("keep_repaired"),
        };
        self.load(table, dir, options).await
    }

    /// What is in a table's `upload` folder goes into the table, and from there.
    pub(super) async fn refresh(&self, keyspace: &str, request: &Request) -> Answer {
        let table = self.table_to_fill(keyspace, request)?;
        for name in ["load_and_stream", "primary_replica_only"] {
            if request.is_on(name) {
                return Err(Failure::new(501, format!("{name}: sstables are loaded into this node only")));
            }
        }
        let dir = self.coordinator().local().table_dir(table)?.join(UPLOAD);
        if !file::exists(&dir).await.unwrap_or(false) {
            let told = format!("there is no folder \"{}\": make it and put sstables there", dir.display());
            return Err(Failure::new(400, told));
        }
        let options =
            ImportOptions { copy: false, verify: Verify::Digest, keep_level: false, keep_repaired: false };
        self.load(table, dir, options).await
    }

    async fn load(&self, table: TableId, dir: PathBuf, options: ImportOptions) -> Answer {
        let report = self.coordinator().local().import(table, &dir, options).await?;
        Ok(json!({
            "sstables": report.sstables,
            "bytes": report.bytes,
            "partitions": report.partitions,
            "left_out": report.left_out,
        }))
    }

    /// The one table that is named; the system's are not for operators to fill.
    fn table_to_fill(&self, keyspace: &str, request: &Request) -> Result<TableId, Failure> {
        let name = request.parameter("cf").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Failure::new(400, "cf, the table, is missing"))?;
        if keyspace == "system" || keyspace.starts_with("system_") {
            return Err(Failure::new(400, format!("tables of {keyspace} are the node's own")));
        }
        self.table_of(&format!("{keyspace}:{name}"))
    }
}
