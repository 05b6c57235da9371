//! Where things are: the crate's own resources, and the user's cache folder that outlives a build.

use std::path::{Path, PathBuf};

/// The folder of this crate, with the scripts and projects of the clients. Cargo says at run time where it is: a
/// binary in a target folder that several checkouts share may have been compiled in another of them.
pub fn resources() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
}

/// The repository.
pub fn repository() -> PathBuf {
    resources().ancestors().nth(2).expect("the crate lies two folders deep").to_path_buf()
}

/// `$MESSINA_CACHE`, else `$XDG_CACHE_HOME/messina`, else `~/.cache/messina`.
pub fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("MESSINA_CACHE") {
        return folder.into();
    }
    if let Some(folder) = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        return Path::new(&folder).join("messina");
    }
    match std::env::var_os("HOME") {
        Some(home) => Path::new(&home).join(".cache/messina"),
        None => repository().join(".cache"),
    }
}

/// Client packages at pinned versions.
pub fn clients() -> PathBuf {
    cache().join("clients")
}

/// Cargo's target folder, as `make` and `cargo x` set it.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => cache().join("target"),
    }
}

/// Jobs of the suites: data folders and logs of the servers, files of the clients. Emptied by each run.
pub fn scratch() -> PathBuf {
    target().join("compat")
}
