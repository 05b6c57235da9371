//! What is answered otherwise than by Apache Cassandra on purpose: the one table of it.

use super::Case;
use crate::paths;

/// A kind of difference.
struct Difference {
    /// As it stands in `docs/operating/differences.md`.
    reason: &'static str,
    /// Whether a case, our answer and Cassandra's are of the kind.
    holds: fn(&Case, &str, &str) -> bool,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        reason: "no server error for a client's mistake",
        holds: |_, ours, theirs| theirs == "error 0x0000" && !ours.starts_with("connection"),
    },
    Difference {
        reason: "a time belongs to one day and one millisecond",
        holds: |(ty, question, _), ours, theirs| {
            let up = |ours: &str, theirs: &str| Some(number(ours)?.wrapping_add(1) == number(theirs)?);
            let floored = ty == "timeuuid" && question.starts_with("floor") && ours == "error 0x2200";
            TIMES.contains(&ty.as_str()) && (floored || up(ours, theirs) == Some(true))
        },
    },
    Difference {
        reason: "another time is no answer",
        holds: |(ty, question, _), ours, theirs| {
            TIMES.contains(&ty.as_str())
                && !["bind", "literal", "JSON"].contains(&question.as_str())
                && ours == "error 0x1400"
                && theirs.starts_with("0x")
        },
    },
    Difference {
        reason: "dates have one calendar, which their texts are in",
        holds: |(ty, question, _), ours, theirs| {
            let months = ["v + 1mo", "v - 1y", "v + 178956970y", "floor(v, 1mo)", "floor(v, 7y)"];
            ["date", "timestamp"].contains(&ty.as_str())
                && months.contains(&question.as_str())
                && [ours, theirs].iter().all(|answer| answer.starts_with("0x"))
        },
    },
    Difference {
        reason: "what is shown reads back as the same value",
        holds: |(ty, question, value), ours, _| {
            let before_year_1 = ty.contains("timestamp")
                && (ours.contains("\"-") || ours.contains("\"0000-"))
                && is_text(question);
            // The same number in fewer bytes.
            let shorter = ty == "decimal" && ours.len() > 10 && value.starts_with(ours);
            // Without what stands behind it.
            let shorter = shorter || ty == "duration" && value.starts_with(ours);
            let duration =
                ty == "duration" && is_text(question) && (ours.contains("0ns") || ours.contains("\"-"));
            (question == "INSERT JSON of SELECT JSON" && (ours == value || shorter))
                || before_year_1
                || duration
        },
    },
    Difference {
        reason: "none lost",
        holds: |(ty, question, _), ours, _| ty == "decimal" && question == "JSON" && ours.starts_with("0x"),
    },
    Difference {
        reason: "same value, none lost",
        holds: |(ty, question, _), _, theirs| {
            ty == "decimal" && question.starts_with("v ") && theirs != "null"
        },
    },
    Difference {
        reason: "what a varint can hold, it keeps",
        holds: |(ty, question, _), ours, _| {
            ["float", "double", "decimal"].contains(&ty.as_str())
                && question == "CAST(v AS varint)"
                && (ours.starts_with("0x") || ours == "error 0x1400")
        },
    },
    Difference {
        reason: "its digits would fill memory",
        holds: |(ty, question, _), ours, _| {
            ty == "decimal" && question == "round(v)" && ours == "error 0x1400"
        },
    },
    Difference {
        reason: "it is no mistake of syntax",
        holds: |(ty, question, _), ours, theirs| {
            let fractions = ["float", "double", "decimal"].contains(&ty.as_str());
            question == "literal"
                && ((fractions && (theirs == "error 0x2000" || theirs.ends_with("800000")))
                    || (ty == "duration" && theirs == "error 0x2000" && ours == "error 0x2200"))
        },
    },
    Difference {
        reason: "every part of a duration has a text",
        holds: |(ty, question, value), ours, _| {
            let written = ["literal", "JSON"].contains(&question.as_str()) && ty == "duration";
            let none = ["\"\"", "\"P\"", "\"PT\""].contains(&value.as_str()) && ours == "error 0x2200";
            written && (none || value.contains("-2147483648mo") && ours.starts_with("0x"))
        },
    },
    Difference {
        reason: "a time is within its day",
        holds: |(ty, question, _), ours, _| {
            let binds = ty == "time" && question == "bind" || question == "blob_as_time(v)";
            binds && ours == "error 0x2200"
        },
    },
    Difference {
        reason: "text is UTF-8",
        holds: |(ty, question, value), ours, _| {
            let half = ty == "ascii" && question == "JSON" && value.contains("\\\\ud") && ours.contains('?');
            half || ty == "text" && question == "bind" && ours == "error 0x2200"
        },
    },
    Difference {
        reason: "a mistake is not a date",
        holds: |(ty, question, value), ours, _| {
            let days = ["2011-02-29", "2011-02-30", "1500-02-29"];
            ["literal", "JSON"].contains(&question.as_str())
                && ty == "timestamp"
                && days.iter().any(|day| value.contains(day))
                && ours == "error 0x2200"
        },
    },
    Difference {
        reason: "milliseconds are milliseconds, however few",
        holds: |(ty, question, value), ours, theirs| {
            ty == "timestamp"
                && question == "JSON"
                && value.parse::<i32>().is_ok()
                && theirs == "error 0x2200"
                && number(ours).is_some_and(|ours| value.parse::<i128>() == Ok(ours))
        },
    },
    Difference {
        reason: "it is in the database of time zones",
        holds: |(ty, question, value), ours, _| {
            ty == "timestamp" && question != "bind" && value.contains(" Etc/GMT") && ours.starts_with("0x")
        },
    },
    Difference {
        reason: "only Java writes numbers so",
        holds: |(ty, question, value), ours, _| {
            let double = ["\" 1\"", "\"1d\"", "\"1f\"", "\"0x1p3\""].contains(&value.as_str())
                && ["float", "double"].contains(&ty.as_str());
            let digits = ty == "time" && value.contains("\\u{661}");
            ["literal", "JSON"].contains(&question.as_str()) && ours == "error 0x2200" && (double || digits)
        },
    },
    Difference {
        reason: "as in bound values, and in frozen maps of both",
        holds: |(_, question, value), ours, _| {
            ["literal", "JSON"].contains(&question.as_str())
                && (value == "{1: 2, 1: 3}" || value == "{\"1.0\": 1, \"1.00\": 2}")
                && ours.starts_with("0x")
        },
    },
    Difference {
        reason: "no value of the type, and none can be read",
        holds: |(ty, question, value), ours, _| {
            let empty =
                ["tinyint", "smallint"].contains(&ty.as_str()) && question == "JSON" && value == "\"\"";
            let bytes = question == "literal"
                && (ty == "tinyint" && value == "0x01"
                    || ty.starts_with("tuple") && ["0x00", "'00'"].contains(&value.as_str()));
            ours == "error 0x2200" && (empty || bytes)
        },
    },
    Difference {
        reason: "keys are kept as they were written",
        holds: |(ty, question, value), ours, _| ty == "map<inet, int>" && question == "bind" && ours == value,
    },
    Difference {
        reason: "an empty value has none",
        holds: |(ty, question, value), ours, _| {
            ty == "int" && value == "0x" && ours == "null" && (question.contains("imestamp"))
        },
    },
];

/// Types of times, and `bigint`, which stands for one.
const TIMES: [&str; 4] = ["date", "timestamp", "timeuuid", "bigint"];

fn is_text(question: &str) -> bool {
    ["toJson(v)", "SELECT JSON", "CAST(v AS text)", "CAST(v AS ascii)"].contains(&question)
}

/// The number that bytes of 4 or 8 are.
fn number(answer: &str) -> Option<i128> {
    let digits = answer.strip_prefix("0x")?;
    match digits.len() {
        // A date; its order is that of its bytes.
        8 => u32::from_str_radix(digits, 16).ok().map(i128::from),
        16 => u64::from_str_radix(digits, 16).ok().map(|bits| i128::from(bits as i64)),
        _ => None,
    }
}

/// Why a case is answered otherwise.
pub fn reason(case: &Case, ours: &str, theirs: &str) -> Option<&'static str> {
    DIFFERENCES
        .iter()
        .find(|difference| (difference.holds)(case, ours, theirs))
        .map(|difference| difference.reason)
}

/// Every reason stands in the documentation.
pub fn are_listed() -> Result<String, String> {
    let path = paths::repository().join("docs/operating/differences.md");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let missing: Vec<&str> = DIFFERENCES
        .iter()
        .map(|difference| difference.reason)
        .filter(|reason| !text.contains(reason))
        .collect();
    if missing.is_empty() {
        return Ok(format!("{} reasons", DIFFERENCES.len()));
    }
    Err(format!("not in {}: {}", path.display(), missing.join("; ")))
}
