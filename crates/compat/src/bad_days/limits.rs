//! Places that run full and processes with little: a small file system of its own, few descriptors, no privileges.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A file system of a few MiB in a mount namespace of its own, which lives as long as this value; needs no root where
/// users may make namespaces.
pub struct SmallDisk {
    holder: Child,
    input: Option<ChildStdin>,
    /// Where it is, for who is inside.
    pub folder: PathBuf,
    user: bool,
}

impl SmallDisk {
    /// Mounts `mib` MiB on `folder`; an error says why neither way of it works here.
    pub fn mount(folder: &Path, mib: u64) -> Result<SmallDisk, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let script = format!(
            "mount -t tmpfs -o size={mib}m,mode=0777 tmpfs '{}' && echo mounted && exec cat",
            folder.display()
        );
        let mut why = String::new();
        for user in [true, false] {
            let mut unshare = Command::new("unshare");
            if user {
                unshare.args(["--user", "--map-root-user"]);
            }
            let mut holder = unshare
                .args(["--mount", "sh", "-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()
                .map_err(|error| format!("unshare: {error}"))?;
            let input = holder.stdin.take();
            let mut line = String::new();
            let output = holder.stdout.take().expect("standard output was piped");
            let _ = BufReader::new(output).read_line(&mut line);
            if line.trim() == "mounted" {
                return Ok(SmallDisk { holder, input, folder: folder.into(), user });
            }
            let _ = holder.kill();
            why = format!("{why} {:?}", holder.wait());
        }
        Err(format!("a small file system cannot be mounted here, not even by unshare:{why}"))
    }

    /// The words before a command line that runs inside.
    pub fn wrapper(&self) -> Vec<String> {
        let mut words = vec!["nsenter".to_owned(), "-t".into(), self.holder.id().to_string(), "-m".into()];
        if self.user {
            words.extend(["-U".into(), "--preserve-credentials".into()]);
        }
        words
    }

    /// Where a path inside is seen from outside.
    pub fn outside(&self, name: &str) -> PathBuf {
        let mut path = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        path.push(self.folder.strip_prefix("/").unwrap_or(&self.folder));
        path.join(name)
    }

    /// Fills it with a file of zeros until `left` bytes remain.
    pub fn fill(&self, left: u64) -> Result<(), String> {
        let path = self.outside("ballast");
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = fs::File::options().create(true).append(true).open(&path).map_err(told)?;
        let piece = vec![0; 16 << 10];
        while file.write_all(&piece).is_ok() {}
        let size = file.metadata().map_err(told)?.len();
        file.set_len(size.saturating_sub(left)).map_err(told)
    }

    /// Makes room again.
    pub fn empty(&self) -> Result<(), String> {
        fs::remove_file(self.outside("ballast")).map_err(|error| format!("ballast: {error}"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The words before a command line that may open so many files.
pub fn descriptors(count: &str) -> Vec<String> {
    ["sh", "-c", &format!("ulimit -n {count}; exec \"$@\""), "sh"].map(str::to_owned).into()
}

/// The words before a command line that runs without root's privileges, so that a folder's permissions count.
pub fn unprivileged() -> Vec<String> {
    ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--"].map(str::to_owned).into()
}

/// Sets the permissions of a folder and of all folders below.
pub fn permit(folder: &Path, writable: bool) -> Result<(), String> {
    let mut chmod = Command::new("chmod");
    chmod.args(["-R", if writable { "u+w" } else { "a-w" }]).arg(folder);
    match chmod.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("chmod: {other:?}")),
    }
}
