//! Where a node's screens may differ from Cassandra's, and why. `docs/operating/nodetool.md` says the same to operators.

use std::fmt;

/// A line that only one of them prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Whether Cassandra prints it; otherwise the node does.
    pub theirs: bool,
    /// The line.
    pub line: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", if self.theirs { "only Cassandra:" } else { "only the node: " }, self.line)
    }
}

/// One allowed difference.
pub struct Allowed {
    /// The steps whose name begins like this.
    step: &'static str,
    /// The beginnings of the lines that differ.
    lines: &'static [&'static str],
    /// Why.
    pub reason: &'static str,
}

/// Every allowed difference.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        step: "compactionhistory",
        lines: &[
            "row <uuid>|system",
            "  }, {",
            "    \"keyspace_name\" : \"system",
            "    \"columnfamily_name\" : \"",
            "    \"compaction_properties\" : \"{compaction_type:Compaction}",
            "    \"rows_merged\" : \"{<n>:<n>, <n>:<n>",
            "- keyspace_name: system",
            "  columnfamily_name: ",
            "  compaction_properties: '{compaction_type:Compaction}",
            "  rows_merged: '{<n>:<n>, <n>:<n>",
        ],
        reason: "compactionhistory: Cassandra compacts its own tables, too",
    },
    Allowed {
        step: "describecluster",
        lines: &["\tDynamicEndPointSnitch: "],
        reason: "describecluster: there is no dynamic snitch",
    },
    Allowed {
        step: "tpstats",
        lines: &["row <name>|<n>|<n>|<n>|<n>|<n>$"],
        reason: "tpstats: the messages of Cassandra's nodes do not exist here, so none was dropped",
    },
    Allowed {
        step: "getlogginglevels",
        lines: &["org.apache.cassandra.auth "],
        reason: "getlogginglevels: the suite starts Cassandra with a level for one of its classes",
    },
    Allowed {
        step: "settraceprobability",
        lines: &["exit> ", "error> error: Messina has nothing of the kind"],
        reason: "settraceprobability: requests are traced when a client asks for it, not by chance",
    },
    Allowed {
        step: "wrong_get",
        lines: &[
            "error> error: For input string",
            "error> error: Index ",
            "error> error: Unable to make UUID",
            "error> error: \"",
        ],
        reason: "getendpoints, getsstables: the words of a Java exception say less than what is wrong with the key",
    },
    Allowed {
        step: "wrong_refresh",
        lines: &["nodetool refresh is deprecated, use nodetool import instead"],
        reason: "refresh: loads from the table's folder for uploads, which is not deprecated",
    },
];

/// The first allowed difference that covers this one.
pub fn reason(step: &str, difference: &Difference) -> Option<usize> {
    let covers = |allowed: &Allowed| {
        step.starts_with(allowed.step) && allowed.lines.iter().any(|line| difference.line.starts_with(line))
    };
    ALLOWED.iter().position(covers)
}

/// Lines that only one side has, by the longest common sequence.
pub fn between(theirs: &[&str], ours: &[&str]) -> Vec<Difference> {
    let mut common = vec![vec![0usize; ours.len() + 1]; theirs.len() + 1];
    for (i, their) in theirs.iter().enumerate().rev() {
        for (j, our) in ours.iter().enumerate().rev() {
            common[i][j] =
                if their == our { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    while i < theirs.len() || j < ours.len() {
        let same = i < theirs.len() && j < ours.len() && theirs[i] == ours[j];
        if same {
            (i, j) = (i + 1, j + 1);
        } else if j == ours.len() || (i < theirs.len() && common[i + 1][j] >= common[i][j + 1]) {
            found.push(Difference { theirs: true, line: theirs[i].to_owned() });
            i += 1;
        } else {
            found.push(Difference { theirs: false, line: ours[j].to_owned() });
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_found() {
        let found = between(&["a", "b", "c"], &["a", "x", "c", "d"]);
        let lines: Vec<(bool, &str)> = found.iter().map(|d| (d.theirs, d.line.as_str())).collect();
        assert_eq!(lines, [(true, "b"), (false, "x"), (false, "d")]);
        assert!(between(&["a", "b"], &["a", "b"]).is_empty());
        assert_eq!(between(&["a", "b"], &["b", "a"]).len(), 2, "the order counts");
    }

    #[test]
    fn every_difference_has_a_reason() {
        assert!(ALLOWED.iter().all(|allowed| allowed.reason.len() > 20 && !allowed.lines.is_empty()));
    }
}
