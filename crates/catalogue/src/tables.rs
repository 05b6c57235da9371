//! Tables and statements. What each column means and what is always true of them: docs/operating/catalogue.md.

use crate::error::Error;
use client::{Pool, Statement};
use protocol::values::ValuesBuilder;
use types::Consistency;
use uuid::Uuid;

/// What is asked of the database: the place of its statement in [`TEXTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// An entry by its name.
    Entry,
    /// Entries of a partition of a folder behind a name.
    Entries,
    /// Writes an entry.
    PutEntry,
    /// Writes an entry into the trash.
    PutTrashed,
    /// Deletes an entry.
    DropEntry,
    /// Counts the entries of a partition of a folder.
    CountEntries,
    /// A folder by its id.
    Folder,
    /// Writes a folder.
    PutFolder,
    /// Puts a folder into another.
    MoveFolder,
    /// Gives a folder more partitions.
    GrowFolder,
    /// What the index says of a GUID.
    Guid,
    /// Writes it, with locations beside those that are there.
    PutGuid,
    /// Says where the file is now.
    MoveGuid,
    /// Forgets what was written up to a time.
    DropGuid,
    /// Everything of the entries of a range of tokens.
    ScanEntries,
    /// Of them what quotas count.
    ScanOwners,
    /// Folders of a range of tokens.
    ScanFolders,
    /// The index of a range of tokens.
    ScanGuids,
}

/// The statements, in the order of [`Ask`]; `KS` is the keyspace.
const TEXTS: [&str; 18] = [
    "SELECT kind, id, owner, permissions, size, changed, origin, deleted FROM KS.folder_entries WHERE folder = ? AND bucket = ? AND name = ?",
    "SELECT name, kind, id, owner, permissions, size, changed FROM KS.folder_entries WHERE folder = ? AND bucket = ? AND name > ? LIMIT ?",
    "INSERT INTO KS.folder_entries (folder, bucket, name, kind, id, owner, permissions, size, changed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "INSERT INTO KS.folder_entries (folder, bucket, name, kind, id, owner, permissions, size, changed, origin, deleted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "DELETE FROM KS.folder_entries WHERE folder = ? AND bucket = ? AND name = ?",
    "SELECT count(*) FROM KS.folder_entries WHERE folder = ? AND bucket = ?",
    "SELECT parent, name, partitions FROM KS.folders WHERE id = ?",
    "INSERT INTO KS.folders (id, parent, name, partitions) VALUES (?, ?, ?, ?)",
    "UPDATE KS.folders SET parent = ?, name = ? WHERE id = ?",
    "UPDATE KS.folders SET partitions = ? WHERE id = ?",
    "SELECT folder, name, locations, writetime(folder) FROM KS.guids WHERE month = ? AND bucket = ? AND guid = ?",
    "UPDATE KS.guids SET folder = ?, name = ?, locations = locations + ? WHERE month = ? AND bucket = ? AND guid = ?",
    "UPDATE KS.guids SET folder = ?, name = ? WHERE month = ? AND bucket = ? AND guid = ?",
    "DELETE FROM KS.guids WHERE month = ? AND bucket = ? AND guid = ?",
    "SELECT folder, name, kind, id, owner, permissions, size, changed, deleted FROM KS.folder_entries WHERE token(folder, bucket) > ? AND token(folder, bucket) <= ?",
    "SELECT kind, owner, size, deleted FROM KS.folder_entries WHERE token(folder, bucket) > ? AND token(folder, bucket) <= ?",
    "SELECT id, parent, name FROM KS.folders WHERE token(id) > ? AND token(id) <= ?",
    "SELECT guid, folder, name, locations FROM KS.guids WHERE token(month, bucket) > ? AND token(month, bucket) <= ?",
];

/// The tables; `KS` is the keyspace.
const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS KS.folder_entries (folder uuid, bucket int, name text, kind tinyint, id uuid, owner text, permissions smallint, \
     size bigint, changed timestamp, origin text, deleted timestamp, PRIMARY KEY ((folder, bucket), name))",
    "CREATE TABLE IF NOT EXISTS KS.folders (id uuid PRIMARY KEY, parent uuid, name text, partitions int)",
    "CREATE TABLE IF NOT EXISTS KS.guids (month int, bucket int, guid timeuuid, folder uuid, name text, locations map<text, text>, \
     PRIMARY KEY ((month, bucket), guid))",
];

/// A file's kind, and a folder's.
pub const FILE: i8 = 0;
/// The other.
pub const FOLDER: i8 = 1;

/// Whether a name needs no quotes and no escapes.
pub fn is_keyspace_name(name: &str) -> bool {
    (1..=48).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Makes keyspace and tables where they are not there: each datacenter has so many replicas.
pub async fn create(pool: &Pool, keyspace: &str, replicas: u32) -> Result<(), Error> {
    let text = format!(
        "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = \
         {{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}"
    );
    let named = TABLES.map(|text| text.replacen("KS", &format!("\"{keyspace}\""), 1));
    for text in std::iter::once(text).chain(named) {
        pool.define(&text, Consistency::One).await?;
    }
    Ok(())
}

/// The prepared statements.
pub struct Statements(Vec<Statement>);

impl Statements {
    /// Prepares them. Errors: of the database; the tables are not there.
    pub async fn prepare(pool: &Pool, keyspace: &str) -> Result<Statements, Error> {
        let mut all = Vec::with_capacity(TEXTS.len());
        for text in TEXTS {
            all.push(pool.prepare(&text.replacen("KS", &format!("\"{keyspace}\""), 1)).await?);
        }
        Ok(Statements(all))
    }

    /// The statement for it.
    pub fn of(&self, ask: Ask) -> &Statement {
        &self.0[ask as usize]
    }
}

/// Where an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub folder: Uuid,
    /// Which of its partitions.
    pub bucket: i32,
    /// Its name.
    pub name: String,
}

/// What is known of a file or folder where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The file's GUID, or the folder's id.
    pub id: Uuid,
    /// Whose it is.
    pub owner: String,
    /// As of a file system; nobody is kept from anything.
    pub permissions: i16,
    /// Bytes; 0 of a folder.
    pub size: i64,
    /// Milliseconds since 1970.
    pub changed: i64,
}

/// What the trash keeps beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// The path it had.
    pub origin: String,
    /// When it was deleted, in milliseconds since 1970.
    pub deleted: i64,
}

/// Binds the key of an entry.
pub fn bind_place(place: &Place) -> ValuesBuilder {
    let mut values = ValuesBuilder::new();
    values.bytes(place.folder.as_bytes()).bytes(&place.bucket.to_be_bytes()).bytes(place.name.as_bytes());
    values
}

/// Binds an entry of the trash or elsewhere.
pub fn bind_entry(place: &Place, entry: &Entry, trashed: Option<&Trashed>) -> ValuesBuilder {
    let mut values = bind_place(place);
    let kind = if entry.is_folder { FOLDER } else { FILE };
    values
        .bytes(&kind.to_be_bytes())
        .bytes(entry.id.as_bytes())
        .bytes(entry.owner.as_bytes())
        .bytes(&entry.permissions.to_be_bytes())
        .bytes(&entry.size.to_be_bytes())
        .bytes(&entry.changed.to_be_bytes());
    if let Some(trashed) = trashed {
        values.bytes(trashed.origin.as_bytes()).bytes(&trashed.deleted.to_be_bytes());
    }
    values
}

/// The columns of a row, one after the other.
pub struct Cells<'a> {
    cells: std::slice::Iter<'a, Option<&'a [u8]>>,
    table: &'static str,
}

impl<'a> Cells<'a> {
    /// Those of a row of a table.
    pub fn new(table: &'static str, row: &'a [Option<&'a [u8]>]) -> Cells<'a> {
        Cells { cells: row.iter(), table }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Damaged(format!("a row of {} has {what}", self.table))
    }

    /// The next column's bytes; nothing for null.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        self.cells.next().copied().flatten()
    }

    /// As a number of so many bytes.
    pub fn number<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.bytes().and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| self.damaged("no number where there must be one"))
    }

    /// As a UUID.
    pub fn uuid(&mut self) -> Result<Uuid, Error> {
        self.number().map(Uuid::from_bytes)
    }

    /// As text.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        let text = self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.ok_or_else(|| self.damaged("no text where there must be one"))
    }

    /// `kind, id, owner, permissions, size, changed`.
    pub fn entry(&mut self) -> Result<Entry, Error> {
        let is_folder = i8::from_be_bytes(self.number()?) == FOLDER;
        Ok(Entry {
            is_folder,
            id: self.uuid()?,
            owner: self.text()?.to_owned(),
            permissions: i16::from_be_bytes(self.number()?),
            size: i64::from_be_bytes(self.number()?),
            changed: i64::from_be_bytes(self.number()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_tables_name_their_keyspace_once() {
        assert!(TEXTS.iter().chain(&TABLES).all(|text| text.matches("KS.").count() == 1));
        assert_eq!(Ask::ScanGuids as usize, TEXTS.len() - 1);
        assert!(is_keyspace_name("catalogue") && !is_keyspace_name("a\"b") && !is_keyspace_name(""));
    }
}
