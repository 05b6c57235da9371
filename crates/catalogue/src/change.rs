//! Changes: registering, moving, deleting into the trash, restoring.
//!
//! A registration writes the index first: what is cut off between leaves an index entry that leads nowhere, which is recognised and
//! removed when it is read. Everything that touches two places of the tree is one logged batch: all of it happens, sooner or later.

use crate::catalogue::{Catalogue, Found};
use crate::error::Error;
use crate::folders::Folder;
use crate::limits::{FOLDER_PARTITIONS_MAX, GROWTH_LOOK, PARTITION_ENTRIES};
use crate::lookup::{bind_guid, put_guid_key};
use crate::path;
use crate::placement::{TRASH_ID, bucket, trash_id};
use crate::record::{Location, Locations, Record};
use crate::tables::{Ask, Entry, Place, Trashed, bind_entry, bind_place};
use base::murmur3;
use protocol::request::BatchKind;
use protocol::values::ValuesBuilder;
use types::collection;
use uuid::Uuid;

/// A place to move to.
struct Target {
    folder: Folder,
    name: String,
    trashed: Option<Trashed>,
}

impl Catalogue {
    /// Registers a file in a folder that is there. Doing it again changes nothing. Errors: another entry has the path.
    pub async fn register(&self, record: &Record<'_>) -> Result<(), Error> {
        let (above, name) = path::split_entry(record.path)?;
        let folder = self.folder_at(above).await?;
        if let Some(found) = self.entry_in(&folder, name).await?
            && found.entry.id != record.guid
        {
            return Err(Error::Exists(record.path.to_owned()));
        }
        let timestamp = self.session.timestamp();
        let mut values = ValuesBuilder::new();
        put_guid(record, &folder.id, name, &mut Vec::new(), &mut values)?;
        self.session.write(Ask::PutGuid, &values, timestamp).await?;
        let place =
            Place { folder: folder.id, bucket: bucket(name, folder.partitions), name: name.to_owned() };
        let mut values = ValuesBuilder::new();
        put_file(record, (&place.folder, place.bucket, name), &mut values);
        self.session.write(Ask::PutEntry, &values, timestamp).await?;
        if (murmur3(record.guid.as_bytes()).0 as u64).is_multiple_of(GROWTH_LOOK) {
            self.look_for_growth(&folder, place.bucket).await?;
        }
        Ok(())
    }

    /// Doubles the partitions of a folder if one of them is full.
    async fn look_for_growth(&self, folder: &Folder, bucket: i32) -> Result<(), Error> {
        let mut values = ValuesBuilder::new();
        values.bytes(folder.id.as_bytes()).bytes(&bucket.to_be_bytes());
        let mut entries = 0;
        let visit = |row: &[Option<&[u8]>]| {
            entries = row
                .first()
                .copied()
                .flatten()
                .map_or(0, |count| <[u8; 8]>::try_from(count).map_or(0, u64::from_be_bytes));
            Ok(())
        };
        self.session.read(Ask::CountEntries, &values, visit).await?;
        if PARTITION_ENTRIES < entries { self.grow(folder).await } else { Ok(()) }
    }

    /// Doubles the partitions of a folder.
    pub(crate) async fn grow(&self, folder: &Folder) -> Result<(), Error> {
        let partitions = (folder.partitions * 2).min(FOLDER_PARTITIONS_MAX);
        let mut values = ValuesBuilder::new();
        values.bytes(&(partitions as i32).to_be_bytes()).bytes(folder.id.as_bytes());
        let timestamp = self.session.timestamp();
        self.session.write(Ask::GrowFolder, &values, timestamp).await?;
        self.folders.forget(&folder.id);
        Ok(())
    }

    /// Adds places where the bytes of a file are, to those that are known.
    pub async fn add_locations(&self, guid: &Uuid, more: &[Location]) -> Result<(), Error> {
        let indexed = self.indexed(guid).await?.ok_or_else(|| Error::NotFound(guid.to_string()))?;
        let mut values = ValuesBuilder::new();
        let entries = more.iter().map(|(element, name)| (element.as_bytes(), name.as_bytes()));
        values.bytes(indexed.folder.as_bytes()).bytes(indexed.name.as_bytes());
        values.bytes(&collection::build_map(entries));
        put_guid_key(guid, &mut values)?;
        // As old as what was read of its place: a move meanwhile is newer, and wins.
        self.session.write(Ask::PutGuid, &values, indexed.written).await
    }

    /// Moves a file, or a folder with all below it, to a path whose folder is there and whose name is free.
    pub async fn move_to(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from_folder, from_name) = path::split_entry(from)?;
        let (to_folder, to_name) = path::split_entry(to)?;
        let found = self.find(from_folder, from_name).await?;
        let found = found.ok_or_else(|| Error::NotFound(from.to_owned()))?;
        if found.entry.is_folder && path::is_within(to, from) {
            return Err(Error::Below { from: from.to_owned(), to: to.to_owned() });
        }
        let target = self.target(to_folder, to_name).await?;
        self.relocate(&found, &target).await?;
        self.folders.forget_below(from);
        Ok(())
    }

    /// A free name in a folder that is there.
    async fn target(&self, above: &str, name: &str) -> Result<Target, Error> {
        let folder = self.folder_at(above).await?;
        if self.entry_in(&folder, name).await?.is_some() {
            return Err(Error::Exists(path::join(above, name)));
        }
        Ok(Target { folder, name: name.to_owned(), trashed: None })
    }

    /// Deletes a file, or a folder with all below it: it is in its owner's trash then. Gives what [`Catalogue::restore`] wants.
    pub async fn delete(&self, path: &str) -> Result<Entry, Error> {
        let (above, name) = path::split_entry(path)?;
        let found = self.find(above, name).await?.ok_or_else(|| Error::NotFound(path.to_owned()))?;
        let trash = self.trash(&found.entry.owner).await?;
        let trashed = Trashed { origin: path.to_owned(), deleted: runtime::unix_micros() / 1000 };
        let target = Target { folder: trash, name: found.entry.id.to_string(), trashed: Some(trashed) };
        self.relocate(&found, &target).await?;
        self.folders.forget_below(path);
        Ok(found.entry)
    }

    /// Puts back what was deleted, to the path it had: its folder must be there and the name free. Gives the path.
    pub async fn restore(&self, owner: &str, id: &Uuid) -> Result<String, Error> {
        let trash = self.trash(owner).await?;
        let missing = || Error::NotFound(format!("{id} in the trash of {owner}"));
        let found = self.entry_in(&trash, &id.to_string()).await?.ok_or_else(missing)?;
        let origin = found.trashed.as_ref().ok_or_else(missing)?.origin.clone();
        let (above, name) = path::split_entry(&origin)?;
        let target = self.target(above, name).await?;
        self.relocate(&found, &target).await?;
        Ok(origin)
    }

    /// The folder of what an owner has deleted, made when it is first needed.
    async fn trash(&self, owner: &str) -> Result<Folder, Error> {
        let id = trash_id(owner);
        if let Some(folder) = self.folder(&id).await? {
            return Ok(folder);
        }
        let timestamp = self.session.timestamp();
        let values = crate::catalogue::bind_folder(&id, &TRASH_ID, owner);
        self.session.write(Ask::PutFolder, &values, timestamp).await?;
        self.folder_there(&id).await
    }

    /// Writes an entry where it should be, says so where others look for it, and deletes it where it was: all or none.
    async fn relocate(&self, found: &Found, target: &Target) -> Result<(), Error> {
        let Target { folder, name, trashed } = target;
        let place = Place { folder: folder.id, bucket: bucket(name, folder.partitions), name: name.clone() };
        let mut moved = ValuesBuilder::new();
        moved.bytes(folder.id.as_bytes()).bytes(name.as_bytes());
        let ask = if found.entry.is_folder {
            moved.bytes(found.entry.id.as_bytes());
            Ask::MoveFolder
        } else {
            put_guid_key(&found.entry.id, &mut moved)?;
            Ask::MoveGuid
        };
        let put = if trashed.is_some() { Ask::PutTrashed } else { Ask::PutEntry };
        let writes = [
            (put, &bind_entry(&place, &found.entry, trashed.as_ref())),
            (ask, &moved),
            (Ask::DropEntry, &bind_place(&found.place)),
        ];
        let timestamp = self.session.timestamp();
        self.session.batch(BatchKind::Logged, &writes, timestamp).await?;
        self.folders.forget(&found.entry.id);
        Ok(())
    }

    /// Forgets a file of the trash for ever, its GUID first. Its bytes are somebody else's business.
    pub async fn purge(&self, owner: &str, guid: &Uuid) -> Result<(), Error> {
        let trash = self.trash(owner).await?;
        let missing = || Error::NotFound(format!("{guid} in the trash of {owner}"));
        let found = self.entry_in(&trash, &guid.to_string()).await?.ok_or_else(missing)?;
        if found.entry.is_folder {
            return Err(Error::Kind(guid.to_string(), "file"));
        }
        let timestamp = self.session.timestamp();
        self.session.write(Ask::DropGuid, &bind_guid(guid)?, timestamp).await?;
        self.session.write(Ask::DropEntry, &bind_place(&found.place), timestamp).await
    }
}

/// Binds what the index is to say of a record in a folder. `map`: memory.
pub(crate) fn put_guid(
    record: &Record<'_>,
    folder: &Uuid,
    name: &str,
    map: &mut Vec<u8>,
    values: &mut ValuesBuilder,
) -> Result<(), Error> {
    values.bytes(folder.as_bytes()).bytes(name.as_bytes());
    put_locations(record.locations, map);
    values.bytes(map);
    put_guid_key(&record.guid, values)
}

/// Binds the entry of a record.
pub(crate) fn put_file(
    record: &Record<'_>,
    (folder, bucket, name): (&Uuid, i32, &str),
    values: &mut ValuesBuilder,
) {
    values
        .bytes(folder.as_bytes())
        .bytes(&bucket.to_be_bytes())
        .bytes(name.as_bytes())
        .bytes(&crate::tables::FILE.to_be_bytes())
        .bytes(record.guid.as_bytes())
        .bytes(record.owner.as_bytes())
        .bytes(&record.permissions.to_be_bytes())
        .bytes(&record.size.to_be_bytes())
        .bytes(&record.changed.to_be_bytes());
}

/// Locations as a value of the database.
fn put_locations(text: &str, map: &mut Vec<u8>) {
    map.clear();
    map.extend_from_slice(&[0; 4]);
    let mut count = 0u32;
    let mut put = |element: &[u8], name: &[u8]| {
        count += 1;
        collection::put_element(map, Some(element));
        collection::put_element(map, Some(name));
    };
    let mut parts = Locations::new(text);
    if !parts.is_plain() {
        parts.flatten().for_each(|(element, name)| put(element.as_bytes(), name.as_bytes()));
    } else {
        while let Some(Some((element, name))) = parts.next_written() {
            put(element.as_bytes(), name.as_bytes());
        }
    }
    map[..4].copy_from_slice(&count.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_a_map_of_the_database() {
        let mut map = Vec::new();
        for text in ["", "A=x", "A=x;B=y", "A\\;=x\\\\;B=y"] {
            put_locations(text, &mut map);
            let plain: Vec<Location> = Locations::new(text).flatten().collect();
            assert_eq!(crate::lookup::locations(Some(&map)).expect("a map"), plain);
        }
    }
}
