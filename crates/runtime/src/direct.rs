//! Which folders lie on a file system that knows direct operations: asked once, told once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is known of each folder.
#[derive(Default)]
pub(crate) struct DirectFolders(Mutex<BTreeMap<PathBuf, bool>>);

impl DirectFolders {
    /// Whether files in the folder can be opened for direct operations; `None` when nobody has asked yet.
    pub(crate) fn known(&self, folder: &Path) -> Option<bool> {
        let folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        folders.get(folder).copied()
    }

    /// Remembers the answer; says in the log when there are none. A folder is asked about once.
    pub(crate) fn note(&self, folder: &Path, direct: bool) {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folders.contains_key(folder) {
            return;
        }
        folders.insert(folder.to_path_buf(), direct);
        drop(folders);
        if !direct {
            let folder = folder.display();
            crate::warn!(
                "the file system of {folder} has no direct operations: files go through the page cache"
            );
        }
    }

    /// Forgets a folder that is removed.
    pub(crate) fn forget(&self, folder: &Path) {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|known, _| !known.starts_with(folder));
    }
}
