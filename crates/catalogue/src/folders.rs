//! What is remembered of folders: the id of a path, and what a folder of an id is. Believed for a while, and forgotten where this client
//! changes it.

use crate::limits::FOLDERS_MAX;
use crate::path;
use base::{HashMap, Instant};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

/// A folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its id.
    pub id: Uuid,
    /// The folder it is in; its own of the root and of the trash.
    pub parent: Uuid,
    /// Its name there.
    pub name: Rc<str>,
    /// Partitions of its entries, a power of two.
    pub partitions: u32,
}

/// Folders that were seen.
pub struct Folders {
    known_for: Duration,
    ids: RefCell<BTreeMap<String, (Uuid, Instant)>>,
    folders: RefCell<HashMap<Uuid, (Folder, Instant)>>,
}

impl Folders {
    /// None yet; what is learned is believed for so long.
    pub fn new(known_for: Duration) -> Folders {
        Folders { known_for, ids: RefCell::default(), folders: RefCell::default() }
    }

    /// The id of a path.
    pub fn id(&self, path: &str) -> Option<Uuid> {
        let (id, until) = *self.ids.borrow().get(path)?;
        (runtime::now() < until).then_some(id)
    }

    /// The folder of an id.
    pub fn folder(&self, id: &Uuid) -> Option<Folder> {
        let folders = self.folders.borrow();
        let (folder, until) = folders.get(id)?;
        (runtime::now() < *until).then(|| folder.clone())
    }

    /// Remembers the id of a path.
    pub fn learn_id(&self, path: &str, id: Uuid) {
        let mut ids = self.ids.borrow_mut();
        if FOLDERS_MAX <= ids.len() {
            ids.clear();
        }
        ids.insert(path.to_owned(), (id, runtime::now() + self.known_for));
    }

    /// Remembers a folder.
    pub fn learn(&self, folder: Folder) {
        let mut folders = self.folders.borrow_mut();
        if FOLDERS_MAX <= folders.len() {
            folders.clear();
        }
        folders.insert(folder.id, (folder, runtime::now() + self.known_for));
    }

    /// Forgets a folder.
    pub fn forget(&self, id: &Uuid) {
        self.folders.borrow_mut().remove(id);
    }

    /// Forgets the ids of a path and of all below it.
    pub fn forget_below(&self, path: &str) {
        let mut ids = self.ids.borrow_mut();
        let range = ids.range(path.to_owned()..);
        let within = range.map(|(known, _)| known).take_while(|known| known.starts_with(path));
        let gone: Vec<String> = within.filter(|known| path::is_within(known, path)).cloned().collect();
        for known in gone {
            ids.remove(&known);
        }
    }

    /// Forgets the way to a path: its own id and those of all above.
    pub fn forget_way(&self, path: &str) {
        let mut folders = self.folders.borrow_mut();
        let mut ids = self.ids.borrow_mut();
        let mut way = Some(path);
        while let Some(path) = way {
            if let Some((id, _)) = ids.remove(path) {
                folders.remove(&id);
            }
            way = path::split(path).map(|(folder, _)| folder);
        }
    }
}
