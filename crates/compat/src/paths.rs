//! Where things are: the crate's own resources, and the user's cache folder that outlives a build.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

/// Runs at once that find a folder of their own by number.
const RUNS_MAX: u32 = 16;

/// Jobs of the suites: data folders and logs of the servers, files of the clients. Emptied by each run, so that runs
/// at once take different ones: `compat`, `compat-2` and so on, each held by a lock that ends with its process.
pub fn scratch() -> PathBuf {
    static TAKEN: OnceLock<(PathBuf, Option<File>)> = OnceLock::new();
    let take = |run: u32| {
        let name = if run == 1 { "compat".to_owned() } else { format!("compat-{run}") };
        let folder = target().join(name);
        fs::create_dir_all(&folder).ok()?;
        let lock = File::create(folder.join("lock")).ok()?;
        lock.try_lock().ok().map(|()| (folder, Some(lock)))
    };
    let last = || (target().join(format!("compat-of-{}", std::process::id())), None);
    TAKEN.get_or_init(|| (1..=RUNS_MAX).find_map(take).unwrap_or_else(last)).0.clone()
}
