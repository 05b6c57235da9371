//! A node where io_uring is refused, as the sandboxes of containers do: this program, called again, puts a filter on
//! itself that answers `io_uring_setup` with EPERM, and becomes the node.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The word by which this program is called again.
pub const WORD: &str = "--without-io-uring";
/// What the node's log says when it runs without.
pub const SAID: &str = "epoll";

const EPERM: u32 = 1;
/// `io_uring_setup`, the same number on x86-64 and arm64; without it the other calls have nothing to act on.
const IO_URING_SETUP: i64 = 425;

/// The words before the node's own command line.
pub fn wrapper() -> Result<Vec<String>, String> {
    let this = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    Ok(vec![this.display().to_string(), WORD.into()])
}

/// Sets the filter and becomes the program of `words`; returns only when that failed.
pub fn become_program(words: &[String]) -> String {
    let Some((program, arguments)) = words.split_first() else {
        return format!("{WORD} needs a program");
    };
    match filter() {
        Ok(filter) => match seccompiler::apply_filter(&filter) {
            Ok(()) => format!("{program}: {}", Command::new(program).args(arguments).exec()),
            Err(error) => format!("the filter was refused: {error}"),
        },
        Err(error) => error,
    }
}

fn filter() -> Result<BpfProgram, String> {
    let told = |error: seccompiler::BackendError| format!("the filter: {error}");
    let machine = std::env::consts::ARCH.try_into().map_err(told)?;
    let rules = BTreeMap::from([(IO_URING_SETUP, Vec::new())]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), machine);
    filter.map_err(told)?.try_into().map_err(told)
}
