//! check, test, compat: thin words over Cargo.

use crate::{Outcome, house};

/// The house's bans; their replacements are named in `clippy.toml`.
const DENIED: &[&str] = &[
    "clippy::disallowed_methods",
    "clippy::disallowed_types",
    "clippy::disallowed_macros",
    "clippy::await_holding_refcell_ref",
    "clippy::print_stdout",
    "clippy::print_stderr",
    "clippy::dbg_macro",
    "clippy::mem_forget",
    "clippy::todo",
    "clippy::unimplemented",
    "unused_must_use",
];

/// Matters of taste.
const ALLOWED: &[&str] = &["clippy::type_complexity", "clippy::manual_is_multiple_of"];

/// Types of everything with its tests, then clippy over what is shipped.
pub fn check() -> Outcome {
    house::run(house::cargo().args(["check", "--workspace", "--all-targets"]))?;
    clippy()?;
    Ok("check result: ok".into())
}

/// Clippy over the code that is shipped; tests may sleep, print and open files.
pub fn clippy() -> Outcome {
    let mut clippy = house::cargo();
    clippy.args(["clippy", "--workspace", "--", "--deny", "warnings"]);
    for lint in ALLOWED {
        clippy.args(["--allow", lint]);
    }
    for lint in DENIED {
        clippy.args(["--deny", lint]);
    }
    house::run(&mut clippy)?;
    Ok("clippy result: ok".into())
}

/// Unit and integration tests of all crates.
pub fn test(rest: &[String]) -> Outcome {
    let text = house::teed(house::cargo().args(["test", "--workspace", "--no-fail-fast"]).args(rest))?;
    Ok(test_summary(&text))
}

/// Adds up the runner's own lines: `test result: ok. 5 passed; 0 failed; …`.
pub fn test_summary(text: &str) -> String {
    let (mut binaries, mut passed, mut failed) = (0u64, 0u64, 0u64);
    for line in text.lines().filter(|line| line.starts_with("test result: ")) {
        let number = |word: &str| {
            let words: Vec<&str> = line.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|found| *found == word)?;
            words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
        };
        binaries += 1;
        passed += number("passed").unwrap_or(0);
        failed += number("failed").unwrap_or(0);
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    format!("test result: {verdict}. {passed} passed; {failed} failed in {binaries} binaries")
}

/// Real clients against the release build, with `--quick` against that of the simulator.
pub fn compat(rest: &[String]) -> Outcome {
    let needs_no_node =
        rest.iter().any(|word| matches!(word.as_str(), "--bring" | "--help" | "-h" | "cassandra"));
    let mut run = house::cargo();
    run.args(["run", "--quiet", "--package", "compat", "--"]).args(rest);
    if !needs_no_node {
        run.arg("--binary").arg(house::binary(rest, house::profile(rest))?);
    }
    let text = house::teed(&mut run)?;
    let last = text.lines().rev().find(|line| line.starts_with("compat result: "));
    Ok(last.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::test_summary;

    #[test]
    fn results_of_all_binaries_are_added() {
        let text = "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n\
                    test result: FAILED. 3 passed; 1 failed; 0 ignored\n";
        assert_eq!(test_summary(text), "test result: FAILED. 5 passed; 1 failed in 2 binaries");
    }
}
