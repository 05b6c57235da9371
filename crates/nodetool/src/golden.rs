//! Texts taken from a real Cassandra, as tests compare with them.

/// A golden text: each line ends in `$`, so that blanks before it can be seen and kept.
pub fn golden(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.strip_suffix('$').expect("golden lines end in $"))).collect()
}
