//! Looking up: by path, by GUID; listing a folder.

use crate::catalogue::{Above, Catalogue, Found};
use crate::error::Error;
use crate::folders::Folder;
use crate::limits::{LIST_PAGE_ROWS, STALE_AFTER};
use crate::path;
use crate::placement::guid_place;
use crate::record::Location;
use crate::tables::{Ask, Cells, Entry};
use protocol::values::ValuesBuilder;
use types::collection;
use uuid::Uuid;

/// Where a file of a GUID is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// At this path.
    Path(String),
    /// In the trash, itself or a folder above it.
    Trash,
}

/// A file of a GUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Where the catalogue has it.
    pub at: Whereabouts,
    /// What it is.
    pub entry: Entry,
    /// Where its bytes are, by storage element.
    pub locations: Vec<Location>,
}

/// What the index says of a GUID.
pub(crate) struct Indexed {
    pub(crate) folder: Uuid,
    pub(crate) name: String,
    pub(crate) locations: Vec<Location>,
    /// Microseconds.
    pub(crate) written: i64,
}

impl Catalogue {
    /// The entry of a path; nothing if there is none. What another client has moved within the last second may be found where it was.
    pub async fn look_up(&self, path: &str) -> Result<Option<Entry>, Error> {
        let (folder, name) = path::split_entry(path)?;
        Ok(self.find(folder, name).await?.map(|found| found.entry))
    }

    /// The entry of a name in the folder of a path. Nothing is only said after looking without what was remembered.
    pub(crate) async fn find(&self, folder: &str, name: &str) -> Result<Option<Found>, Error> {
        for is_fresh in [false, true] {
            if is_fresh {
                self.folders.forget_way(folder);
            }
            let found = match self.resolve(folder).await {
                Ok(Some(folder)) => self.entry_in(&folder, name).await?,
                Ok(None) => None,
                Err(Error::Kind(..)) if !is_fresh => None,
                Err(error) => return Err(error),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The file of a GUID; nothing if there is none. An index entry that leads nowhere for longer than any registration takes is removed.
    pub async fn look_up_guid(&self, guid: &Uuid) -> Result<Option<Located>, Error> {
        for is_fresh in [false, true] {
            let Some(indexed) = self.indexed(guid).await? else { return Ok(None) };
            if is_fresh {
                self.folders.forget(&indexed.folder);
            }
            let found = match self.folder(&indexed.folder).await? {
                Some(folder) => self.entry_in(&folder, &indexed.name).await?,
                None => None,
            };
            let Some(found) = found.filter(|found| found.entry.id == *guid) else {
                if is_fresh {
                    self.repair(guid, indexed.written).await?;
                }
                continue;
            };
            let at = match self.path_of(&indexed.folder).await? {
                Above::Root(folder) => Whereabouts::Path(path::join(&folder, &indexed.name)),
                Above::Trash => Whereabouts::Trash,
            };
            return Ok(Some(Located { at, entry: found.entry, locations: indexed.locations }));
        }
        Ok(None)
    }

    pub(crate) async fn indexed(&self, guid: &Uuid) -> Result<Option<Indexed>, Error> {
        let mut found = None;
        let visit = |row: &[Option<&[u8]>]| {
            let mut cells = Cells::new("guids", row);
            found = Some(Indexed {
                folder: cells.uuid()?,
                name: cells.text()?.to_owned(),
                locations: locations(cells.bytes())?,
                written: i64::from_be_bytes(cells.number()?),
            });
            Ok(())
        };
        self.session.read(Ask::Guid, &bind_guid(guid)?, visit).await?;
        Ok(found)
    }

    /// Removes an index entry that leads nowhere, if no registration can be under way. Only what was read is removed: what is written
    /// meanwhile is newer.
    async fn repair(&self, guid: &Uuid, written: i64) -> Result<(), Error> {
        if runtime::unix_micros() - written < STALE_AFTER.as_micros() as i64 {
            return Ok(());
        }
        self.session.write(Ask::DropGuid, &bind_guid(guid)?, written).await
    }

    /// The entries of a folder behind a name (from the first: behind the empty one), by their names, at most so many.
    pub async fn list(&self, path: &str, after: &str, limit: usize) -> Result<Vec<(String, Entry)>, Error> {
        let path = path::checked(path)?;
        let limit = limit.clamp(1, LIST_PAGE_ROWS);
        let folder = self.folder_at(path).await?;
        let mut all = Vec::new();
        for bucket in 0..folder.partitions as i32 {
            self.list_partition(&folder, bucket, (after, limit), &mut all).await?;
        }
        if 1 < folder.partitions {
            all.sort_by(|left: &(String, Entry), right| left.0.cmp(&right.0));
            // A name that two clients wrote while the folder grew.
            all.dedup_by(|left, right| left.0 == right.0);
            all.truncate(limit);
        }
        Ok(all)
    }

    async fn list_partition(
        &self,
        folder: &Folder,
        bucket: i32,
        (after, limit): (&str, usize),
        all: &mut Vec<(String, Entry)>,
    ) -> Result<(), Error> {
        let mut values = ValuesBuilder::new();
        values
            .bytes(folder.id.as_bytes())
            .bytes(&bucket.to_be_bytes())
            .bytes(after.as_bytes())
            .bytes(&(limit as i32).to_be_bytes());
        let visit = |row: &[Option<&[u8]>]| {
            let mut cells = Cells::new("entries", row);
            let name = cells.text()?.to_owned();
            all.push((name, cells.entry()?));
            Ok(())
        };
        self.session.read(Ask::Entries, &values, visit).await
    }
}

/// Binds the key of the index.
pub(crate) fn bind_guid(guid: &Uuid) -> Result<ValuesBuilder, Error> {
    let mut values = ValuesBuilder::new();
    put_guid_key(guid, &mut values)?;
    Ok(values)
}

/// Adds the key of the index to what is bound.
pub(crate) fn put_guid_key(guid: &Uuid, values: &mut ValuesBuilder) -> Result<(), Error> {
    let place = guid_place(guid)?;
    values.bytes(&place.month.to_be_bytes()).bytes(&place.bucket.to_be_bytes()).bytes(guid.as_bytes());
    Ok(())
}

/// Locations as the database has them.
pub(crate) fn locations(bytes: Option<&[u8]>) -> Result<Vec<Location>, Error> {
    let Some(bytes) = bytes else { return Ok(Vec::new()) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    collection::entries(bytes)
        .map(|entry| entry.map(|(element, name)| (text(element), text(name))))
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Damaged(format!("locations of guids: {error}")))
}
