//! Folders of stores: how much is in them, and how one is opened again under another name, since a process holds the name
//! of a folder until it ends.

use std::io;
use std::path::Path;

/// Bytes of the files below a folder.
pub fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes_of = |path: &Path| match path.metadata() {
        Ok(meta) if meta.is_dir() => bytes(path),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.map(|entry| bytes_of(&entry.path())).sum()
}

/// Bytes of the files of a folder whose names begin so.
pub fn bytes_named(folder: &Path, beginning: &str) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning));
    named.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

/// Links the files of a folder, and of the folders below it, into another.
pub fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            link_all(&entry.path(), &to)?;
        } else {
            std::fs::hard_link(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Moves what is in a folder into another.
pub fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::rename(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
