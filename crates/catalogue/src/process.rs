//! What the operating system says of this process.

/// Milliseconds that processors have spent on it, in user and system mode; 0 where the system does not say.
#[allow(clippy::disallowed_methods, reason = "a tool's own numbers, twice in a run")]
pub fn cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may contain blanks. A tick has 10 ms.
    let fields = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum::<u64>()
        * 10
}
