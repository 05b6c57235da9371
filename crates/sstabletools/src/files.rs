//! From what a person names to an sstable: its folder and the name that its files share.

use crate::error::Error;
use runtime::file;
use sstable::{Component, Descriptor};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One sstable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its folder.
    pub dir: PathBuf,
    /// The name that its files share.
    pub descriptor: Descriptor,
}

impl Place {
    /// The sstable of one of its files. Errors: `Refused` when the name is not that of a version that can be read.
    pub fn of(path: &Path) -> Result<Place, Error> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((descriptor, _)) = Descriptor::of_file_name(name) else {
            let shown = path.display();
            return Err(Error::Refused(format!(
                "\"{shown}\" is not named like a file of an sstable of versions mc to da"
            )));
        };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Place { dir: dir.to_path_buf(), descriptor })
    }

    /// The sstable of a file that is there.
    pub async fn existing(path: &Path) -> Result<Place, Error> {
        match file::exists(path).await {
            Ok(true) => Place::of(path),
            Ok(false) => Err(Error::Refused(format!("Cannot find file {}", path.display()))),
            Err(error) => Err(Error::io(path, "look for", error)),
        }
    }

    /// One of its files.
    pub fn file(&self, component: Component) -> PathBuf {
        component.path(&self.dir, self.descriptor)
    }
}

/// The sstables that files and folders name, without repetition: of a folder those directly in it.
/// Errors: a file that does not exist or is none of an sstable.
pub async fn places(paths: &[PathBuf]) -> Result<Vec<Place>, Error> {
    let mut found = Vec::new();
    for path in paths {
        if let Ok(entries) = file::read_dir(path).await {
            let of_folder: BTreeSet<Place> = entries
                .iter()
                .filter(|entry| !entry.is_dir)
                .filter_map(|entry| Descriptor::of_file_name(&entry.name))
                .map(|(descriptor, _)| Place { dir: path.clone(), descriptor })
                .collect();
            if of_folder.is_empty() {
                return Err(Error::Refused(format!("there are no sstables in \"{}\"", path.display())));
            }
            found.extend(of_folder);
            continue;
        }
        found.push(Place::existing(path).await?);
    }
    let mut seen = BTreeSet::new();
    found.retain(|place| seen.insert(place.clone()));
    Ok(found)
}
