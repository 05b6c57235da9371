//! CloudSuite's two scripts as its client image has them: they find `cqlsh` and `ycsb.sh` by name, know a server's address and no port,
//! and are told the numbers of records and operations by their arguments. What they call is in `crates/compat/cloudsuite`, in our own
//! words; here `cqlsh` is PyPI's and `ycsb.sh` a link to the binary under test.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LIMIT;
use crate::suite::Options;
use crate::{command, packages, paths, ycsb};

/// The port that clients take when none is said.
const PORT: u16 = 9042;
/// Operations in a second that the load asks for.
const TARGET: u64 = 1_000;

/// The machine that the scripts run on.
struct Image {
    folder: PathBuf,
}

impl Image {
    /// The scripts and the file of tables in the root, the programs in the search path.
    fn make(options: &Options, folder: &Path) -> Result<Image, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        let programs = folder.join("programs");
        std::fs::create_dir_all(&programs).map_err(told)?;
        for file in ["warmup.sh", "load.sh", "setup_tables.txt"] {
            std::fs::copy(paths::resources().join("cloudsuite").join(file), folder.join(file))
                .map_err(told)?;
        }
        let cqlsh = packages::python_cassandra()?.join("cqlsh");
        let binary = std::path::absolute(&options.binary).map_err(told)?;
        for (program, link) in [(cqlsh, "cqlsh"), (binary, "ycsb.sh")] {
            std::os::unix::fs::symlink(program, programs.join(link)).map_err(told)?;
        }
        Ok(Image { folder: folder.into() })
    }

    /// Runs a program of the image; what it said, if it ended well.
    fn run(&self, words: &[&str], log: &str) -> Result<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut program = Command::new("sh");
        program.args(["-c", "exec \"$@\"", "sh"]).args(words).current_dir(&self.folder);
        program.env("PATH", format!("{}:{path}", self.folder.join("programs").display()));
        program.env("ROOT", &self.folder);
        command::run(&mut program, &self.folder.join(log), LIMIT)
    }
}

/// The tables made and the records loaded while the node has only just begun to start, every row counted, then a load at a rate.
pub fn scripts(options: &Options, shards: u16) -> Result<String, String> {
    let folder = options.folder("cloudsuite")?;
    let image = Image::make(options, &folder.join("client"))?;
    let mut start = options.start(folder, shards);
    // The standard port, on an address that no other run of this program has.
    let [.., high, low] = std::process::id().to_be_bytes();
    (start.ip, start.port) = (Ipv4Addr::new(127, 90, high, low.clamp(1, 254)), PORT);
    let mut server = start.spawn()?;
    let (ip, records) = (server.address.ip().to_string(), options.records.to_string());
    let loaded = image.run(&["./warmup.sh", &ip, &records, "8"], "warmup.log")?;
    ycsb::judge(&loaded, options.records)?;
    let counted = image.run(&["cqlsh", "-e", "SELECT count(*) FROM ycsb.usertable", &ip], "count.log")?;
    if !counted.lines().any(|line| line.trim() == records) {
        return Err(format!("not {records} rows:\n{counted}"));
    }
    let (both, target) = (format!("{ip},{ip}"), TARGET.to_string());
    let said = image.run(&["./load.sh", &both, &records, &target, "4", &records], "load.log")?;
    ycsb::judge(&said, options.records)?;
    let rate = throughput(&said).ok_or_else(|| format!("no throughput:\n{said}"))?;
    if !(0.0 < rate && rate < 1.1 * TARGET as f64) {
        return Err(format!("{rate} operations in a second instead of {TARGET}"));
    }
    for words in [&["./warmup.sh", &ip][..], &["./load.sh", &ip, "10"]] {
        let usage = image.run(words, "usage.log")?;
        if !(usage.starts_with("Usage: ") && usage.lines().count() == 1) {
            return Err(format!("{words:?} without the rest: {usage}"));
        }
    }
    server.stop()?;
    Ok(format!("{records} rows counted, {rate:.0} operations/s of {TARGET} wanted"))
}

/// The rate in a report.
fn throughput(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("[OVERALL], Throughput(ops/sec), "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_rate_is_read_from_the_report() {
        let text = "[OVERALL], RunTime(ms), 2000\n[OVERALL], Throughput(ops/sec), 499.5\n";
        assert_eq!(super::throughput(text), Some(499.5));
        assert_eq!(super::throughput("[READ], Operations, 5\n"), None);
    }
}
