//! The catalogue: from paths to folders and entries, from folders back to paths.

use crate::error::Error;
use crate::folders::{Folder, Folders};
use crate::limits::{DEPTH_MAX, FOLDERS_KNOWN};
use crate::path;
use crate::placement::{ROOT_ID, TRASH_ID, bucket, buckets, folder_id};
use crate::session::{Server, Session};
use crate::tables::{Ask, Cells, Entry, Place, Trashed, bind_entry, bind_place};
use protocol::request::BatchKind;
use protocol::values::ValuesBuilder;
use runtime::sync::Flag;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// Whose the folders are that nobody made by hand.
const FOLDER_OWNER: &str = "admin";
/// Their permissions.
const FOLDER_PERMISSIONS: i16 = 0o755;

/// A catalogue; operations are functions of it, in the modules that follow.
pub struct Catalogue {
    /// The database.
    pub session: Rc<Session>,
    pub(crate) folders: Folders,
    /// Folders that are being made: the others wait for what comes of it.
    making: RefCell<BTreeMap<String, Flag>>,
}

/// An entry and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub place: Place,
    /// What.
    pub entry: Entry,
    /// What the trash says of it, if it is there.
    pub trashed: Option<Trashed>,
}

/// Where walking up from a folder ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Above {
    /// At the root: the folder's path.
    Root(String),
    /// In the trash.
    Trash,
}

/// The end of making a folder, however it ends.
struct Making<'a> {
    catalogue: &'a Catalogue,
    path: &'a str,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if let Some(flag) = self.catalogue.making.borrow_mut().remove(self.path) {
            flag.set();
        }
    }
}

impl Catalogue {
    /// Opens a catalogue; makes its tables, root and trash where they are not there.
    pub async fn open(server: &Server) -> Result<Catalogue, Error> {
        Catalogue::open_remembering(server, FOLDERS_KNOWN).await
    }

    /// The same; folders are remembered for so long.
    pub async fn open_remembering(server: &Server, known_for: Duration) -> Result<Catalogue, Error> {
        let session = Rc::new(Session::open(server).await?);
        let catalogue = Catalogue { session, folders: Folders::new(known_for), making: RefCell::default() };
        for id in [ROOT_ID, TRASH_ID] {
            if catalogue.folder(&id).await?.is_none() {
                let timestamp = catalogue.session.timestamp();
                let values = bind_folder(&id, &id, "");
                catalogue.session.write(Ask::PutFolder, &values, timestamp).await?;
            }
        }
        Ok(catalogue)
    }

    /// The folder of an id.
    pub async fn folder(&self, id: &Uuid) -> Result<Option<Folder>, Error> {
        if let Some(folder) = self.folders.folder(id) {
            return Ok(Some(folder));
        }
        let mut values = ValuesBuilder::new();
        values.bytes(id.as_bytes());
        let mut found = None;
        let visit = |row: &[Option<&[u8]>]| {
            let mut cells = Cells::new("folders", row);
            found = Some(Folder {
                id: *id,
                parent: cells.uuid()?,
                name: cells.text()?.into(),
                partitions: i32::from_be_bytes(cells.number()?).clamp(1, i32::MAX) as u32,
            });
            Ok(())
        };
        self.session.read(Ask::Folder, &values, visit).await?;
        found.iter().for_each(|folder: &Folder| self.folders.learn(folder.clone()));
        Ok(found)
    }

    /// The folder of an id that an entry names.
    pub(crate) async fn folder_there(&self, id: &Uuid) -> Result<Folder, Error> {
        let found = self.folder(id).await?;
        found.ok_or_else(|| Error::Damaged(format!("an entry names folder {id}, which is not there")))
    }

    /// The entry of a name, in whichever partition of the folder it is.
    pub(crate) async fn entry_in(&self, folder: &Folder, name: &str) -> Result<Option<Found>, Error> {
        for bucket in buckets(name, folder.partitions) {
            let place = Place { folder: folder.id, bucket, name: name.to_owned() };
            let mut found = None;
            let visit = |row: &[Option<&[u8]>]| {
                let mut cells = Cells::new("entries", row);
                let entry = cells.entry()?;
                let trashed = match cells.bytes() {
                    None => None,
                    Some(origin) => Some(Trashed {
                        origin: String::from_utf8_lossy(origin).into_owned(),
                        deleted: i64::from_be_bytes(cells.number()?),
                    }),
                };
                found = Some((entry, trashed));
                Ok(())
            };
            self.session.read(Ask::Entry, &bind_place(&place), visit).await?;
            if let Some((entry, trashed)) = found {
                return Ok(Some(Found { place, entry, trashed }));
            }
        }
        Ok(None)
    }

    /// The folder of a checked path, if there is one. Errors: a file stands in the way.
    pub(crate) async fn resolve(&self, path: &str) -> Result<Option<Folder>, Error> {
        // Down from the lowest folder that is known.
        let mut known = path;
        let mut id = loop {
            if let Some(id) = self.folders.id(known) {
                break id;
            }
            match path::split(known) {
                Some((folder, _)) => known = folder,
                None => break ROOT_ID,
            }
        };
        let mut at = known.to_owned();
        for name in path[known.len()..].split('/').filter(|name| !name.is_empty()) {
            let folder = self.folder_there(&id).await?;
            let Some(found) = self.entry_in(&folder, name).await? else { return Ok(None) };
            at = path::join(&at, name);
            if !found.entry.is_folder {
                return Err(Error::Kind(at, "folder"));
            }
            id = found.entry.id;
            self.folders.learn_id(&at, id);
        }
        self.folder_there(&id).await.map(Some)
    }

    /// The folder of a checked path that must be there. That it is not is only said after looking without what was remembered.
    pub(crate) async fn folder_at(&self, path: &str) -> Result<Folder, Error> {
        if let Some(folder) = self.resolve(path).await? {
            return Ok(folder);
        }
        self.folders.forget_way(path);
        self.resolve(path).await?.ok_or_else(|| Error::NotFound(path.to_owned()))
    }

    /// The folder of a checked path; made, with all above it, where it is not there. Many may ask at once.
    pub async fn make_folder(&self, path: &str) -> Result<Folder, Error> {
        loop {
            if let Some(folder) = self.folders.id(path).and_then(|id| self.folders.folder(&id)) {
                return Ok(folder);
            }
            let others = self.making.borrow().get(path).cloned();
            if let Some(flag) = others {
                flag.wait().await;
                continue;
            }
            self.making.borrow_mut().insert(path.to_owned(), Flag::new());
            let _making = Making { catalogue: self, path };
            return Box::pin(self.make_below(path)).await;
        }
    }

    async fn make_below(&self, path: &str) -> Result<Folder, Error> {
        let Some((above, name)) = path::split(path) else { return self.folder_there(&ROOT_ID).await };
        let parent = self.make_folder(above).await?;
        let id = match self.entry_in(&parent, name).await? {
            Some(found) if found.entry.is_folder => found.entry.id,
            Some(_) => return Err(Error::Kind(path.to_owned(), "folder")),
            None => self.make_entry(&parent, path, name).await?,
        };
        self.folders.learn_id(path, id);
        self.folder_there(&id).await
    }

    /// Makes a folder; its id follows from its path, so that two who make it at once make the same.
    async fn make_entry(&self, parent: &Folder, path: &str, name: &str) -> Result<Uuid, Error> {
        let mut attempt = 0;
        let id = loop {
            let id = folder_id(path, attempt);
            match self.folder(&id).await? {
                // It was made here and moved away.
                Some(other) if other.parent != parent.id || *other.name != *name => attempt += 1,
                _ => break id,
            }
        };
        let place =
            Place { folder: parent.id, bucket: bucket(name, parent.partitions), name: name.to_owned() };
        let entry = Entry {
            is_folder: true,
            id,
            owner: FOLDER_OWNER.into(),
            permissions: FOLDER_PERMISSIONS,
            size: 0,
            changed: runtime::unix_micros() / 1000,
        };
        let writes = [
            (Ask::PutFolder, &bind_folder(&id, &parent.id, name)),
            (Ask::PutEntry, &bind_entry(&place, &entry, None)),
        ];
        let timestamp = self.session.timestamp();
        self.session.batch(BatchKind::Logged, &writes, timestamp).await?;
        let name = name.into();
        self.folders.learn(Folder { id, parent: parent.id, name, partitions: 1 });
        Ok(id)
    }

    /// The path of a folder, or that it is in the trash. Errors: it is above itself, or one above is not there.
    pub async fn path_of(&self, id: &Uuid) -> Result<Above, Error> {
        let mut names: Vec<Rc<str>> = Vec::new();
        let mut at = *id;
        while at != ROOT_ID {
            if at == TRASH_ID {
                return Ok(Above::Trash);
            }
            if DEPTH_MAX < names.len() {
                return Err(Error::Damaged(format!("folder {id} is above itself or too deep")));
            }
            let folder = self.folder_there(&at).await?;
            names.push(folder.name);
            at = folder.parent;
        }
        names.reverse();
        let path: String = names.iter().flat_map(|name| ["/", name]).collect();
        Ok(Above::Root(if path.is_empty() { path::ROOT.to_owned() } else { path }))
    }
}

/// Binds a folder of one partition.
pub(crate) fn bind_folder(id: &Uuid, parent: &Uuid, name: &str) -> ValuesBuilder {
    let mut values = ValuesBuilder::new();
    let partitions = 1i32.to_be_bytes();
    values.bytes(id.as_bytes()).bytes(parent.as_bytes()).bytes(name.as_bytes()).bytes(&partitions);
    values
}
