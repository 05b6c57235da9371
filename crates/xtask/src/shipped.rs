//! The files of a release: the binary without symbols, and its symbols in a file of their own.
//!
//! ```text
//! TARGET/shipped/messina         objcopy --strip-all --add-gnu-debuglink=messina.debug
//! TARGET/shipped/messina.debug   objcopy --only-keep-debug
//! ```
//! A section of the stripped binary, `.gnu_debuglink`, holds the other file's name and checksum: gdb and perf find it in the
//! binary's folder, or in `.debug` below it. Both are copies: Cargo takes the binary in its own folder for what it has built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::house;

/// GNU objcopy.
const TOOL: &str = "objcopy";
/// Name of the stripped binary.
const BINARY: &str = "messina";
/// Name of the file with its symbols.
const SYMBOLS: &str = "messina.debug";

/// What is shipped of one program.
pub struct Shipped {
    pub binary: PathBuf,
    pub symbols: PathBuf,
}

/// Errors: the tool is missing. Asked before a build that takes a quarter of an hour.
pub fn has_tool() -> Result<(), String> {
    let status = Command::new(TOOL).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!(
            "{TOOL} is missing: install the system's package binutils, which also comes with gcc"
        )),
    }
}

/// Makes both files of this program in `target/shipped`. Returns lines that name them, with their sizes.
pub fn ship(program: &Path) -> Result<String, String> {
    let shipped = split(program, &house::target().join("shipped"))?;
    Ok(format!("shipped {}\nsymbols {}", sized(&shipped.binary)?, sized(&shipped.symbols)?))
}

/// Makes both files in this folder, over those of an earlier run. The program stays as it is.
fn split(program: &Path, folder: &Path) -> Result<Shipped, String> {
    has_tool()?;
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    // Absolute: the tool runs in the repository's folder.
    let program = program.canonicalize().map_err(|error| failed(program, error))?;
    let folder = folder.canonicalize().map_err(|error| failed(folder, error))?;
    let shipped = Shipped { binary: folder.join(BINARY), symbols: folder.join(SYMBOLS) };
    house::run(house::command(TOOL).arg("--only-keep-debug").args([&program, &shipped.symbols]))?;
    // Second: the link holds a checksum of the file that it names.
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&shipped.symbols);
    house::run(house::command(TOOL).arg("--strip-all").arg(link).args([&program, &shipped.binary]))?;
    Ok(shipped)
}

fn sized(path: &Path) -> Result<String, String> {
    let bytes = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    Ok(format!("{}, {}.{} MB", path.display(), bytes / 1_000_000, bytes / 100_000 % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a file holds a name. Built at run time, or the program would hold it as a constant.
    fn holds(file: &Path, name: &str) -> bool {
        std::fs::read(file).unwrap().windows(name.len()).any(|bytes| bytes == name.as_bytes())
    }

    #[test]
    fn the_stripped_program_runs_and_names_the_file_with_its_symbols() {
        let folder = std::env::temp_dir().join(format!("messina-shipped-{}", std::process::id()));
        let program = std::env::current_exe().unwrap();
        let before = std::fs::read(&program).unwrap();
        // Twice: the second goes over the files of the first.
        split(&program, &folder).unwrap();
        let shipped = split(&program, &folder).unwrap();
        assert_eq!(std::fs::read(&program).unwrap(), before, "the program itself is left alone");

        let size = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(size(&shipped.binary) < size(&program));
        let listed = Command::new(&shipped.binary).arg("--list").output().unwrap();
        assert!(listed.status.success());
        assert!(String::from_utf8(listed.stdout).unwrap().contains("shipped::tests::"));

        // This module's part of a mangled name.
        let mangled = format!("{}shipped", "shipped".len());
        assert!(holds(&program, &mangled) && holds(&shipped.symbols, &mangled));
        assert!(!holds(&shipped.binary, &mangled));

        let section = folder.join("section");
        let mut dump = house::command(TOOL);
        dump.args(["-O", "binary", "--only-section=.gnu_debuglink"]);
        dump.args(["--set-section-flags", ".gnu_debuglink=alloc"]);
        house::run(dump.args([&shipped.binary, &section])).unwrap();
        assert!(std::fs::read(&section).unwrap().starts_with(format!("{SYMBOLS}\0").as_bytes()));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_size_has_one_decimal() {
        let folder = std::env::temp_dir().join(format!("messina-sized-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        std::fs::write(&file, vec![0; 1_290_000]).unwrap();
        assert_eq!(sized(&file).unwrap(), format!("{}, 1.2 MB", file.display()));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
