//! JSON and YAML of one value, laid out as Jackson's pretty printer and SnakeYAML's block style do.

use crate::java;

/// What can be printed both ways. Maps keep their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Nothing.
    Null,
    /// A whole number.
    Int(i64),
    /// A double.
    Double(f64),
    /// A text.
    Text(String),
    /// Values in order.
    List(Vec<Tree>),
    /// Names and values in order.
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// A text.
    pub fn text(value: impl Into<String>) -> Tree {
        Tree::Text(value.into())
    }

    /// A count.
    pub fn count(value: u64) -> Tree {
        Tree::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// As JSON, with the line end after it.
    pub fn json(&self) -> String {
        let mut out = String::new();
        json(self, 0, &mut out);
        out.push('\n');
        out
    }

    /// As YAML, with the empty line after it that Cassandra leaves.
    pub fn yaml(&self) -> String {
        let mut out = String::new();
        yaml_block(self, 0, &mut out);
        out.push('\n');
        out
    }
}

fn json(tree: &Tree, depth: usize, out: &mut String) {
    match tree {
        Tree::Null => out.push_str("null"),
        Tree::Int(value) => out.push_str(&value.to_string()),
        Tree::Double(value) if value.is_finite() => out.push_str(&java::double(*value)),
        Tree::Double(value) => out.push_str(&format!("\"{}\"", java::double(*value))),
        Tree::Text(text) => out.push_str(&serde_json::Value::from(text.as_str()).to_string()),
        Tree::List(items) => {
            let pieces = items.iter().map(|item| {
                let mut piece = String::new();
                json(item, depth, &mut piece);
                piece
            });
            let pieces: Vec<String> = pieces.collect();
            out.push_str(&if pieces.is_empty() {
                "[ ]".into()
            } else {
                format!("[ {} ]", pieces.join(", "))
            });
        }
        Tree::Map(entries) if entries.is_empty() => out.push_str("{ }"),
        Tree::Map(entries) => {
            out.push('{');
            for (index, (name, value)) in entries.iter().enumerate() {
                out.push_str(if index == 0 { "\n" } else { ",\n" });
                indent(depth + 1, out);
                out.push_str(&format!("{} : ", serde_json::Value::from(name.as_str())));
                json(value, depth + 1, out);
            }
            out.push('\n');
            indent(depth, out);
            out.push('}');
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Writes a value that starts its own lines.
fn yaml_block(tree: &Tree, depth: usize, out: &mut String) {
    match tree {
        Tree::Map(entries) if !entries.is_empty() => {
            for (name, value) in entries {
                indent(depth, out);
                yaml_entry(name, value, depth, out);
            }
        }
        Tree::List(items) if !items.is_empty() => {
            for item in items {
                indent(depth, out);
                out.push_str("- ");
                match item {
                    Tree::Map(entries) if !entries.is_empty() => {
                        for (index, (name, value)) in entries.iter().enumerate() {
                            if index > 0 {
                                indent(depth + 1, out);
                            }
                            yaml_entry(name, value, depth + 1, out);
                        }
                    }
                    other => out.push_str(&format!("{}\n", yaml_scalar(other))),
                }
            }
        }
        other => out.push_str(&format!("{}\n", yaml_scalar(other))),
    }
}

fn yaml_entry(name: &str, value: &Tree, depth: usize, out: &mut String) {
    out.push_str(&yaml_text(name));
    match value {
        Tree::Map(entries) if !entries.is_empty() => {
            out.push_str(":\n");
            yaml_block(value, depth + 1, out);
        }
        // SnakeYAML does not indent the dashes of a list under its name.
        Tree::List(items) if !items.is_empty() => {
            out.push_str(":\n");
            yaml_block(value, depth, out);
        }
        other => out.push_str(&format!(": {}\n", yaml_scalar(other))),
    }
}

fn yaml_scalar(tree: &Tree) -> String {
    match tree {
        Tree::Null => "null".into(),
        Tree::Int(value) => value.to_string(),
        Tree::Double(value) if value.is_nan() => ".NaN".into(),
        Tree::Double(value) if value.is_infinite() => {
            if *value > 0.0 {
                ".inf".into()
            } else {
                "-.inf".into()
            }
        }
        Tree::Double(value) => java::double(*value),
        Tree::Text(text) => yaml_text(text),
        Tree::List(_) => "[]".into(),
        Tree::Map(_) => "{}".into(),
    }
}

/// A text, quoted where it would be read as something else.
fn yaml_text(text: &str) -> String {
    const OTHERS: [&str; 12] = ["null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", "=", "<<"];
    let first = text.chars().next();
    let special = first.is_none_or(|c| "-?:,[]{}#&*!|>'\"%@`".contains(c) || c == ' ');
    let number = text.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "+-.:_eExXTZ".contains(c));
    let inside = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);
    let word = OTHERS.contains(&text.to_ascii_lowercase().as_str());
    if special || number || inside || word { format!("'{}'", text.replace('\'', "''")) } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        let row = Tree::Map(vec![
            ("keyspace_name".into(), Tree::text("shop")),
            ("bytes_out".into(), Tree::Int(5251)),
            ("rows_merged".into(), Tree::text("{1:20}")),
            ("id".into(), Tree::text("6cfad6f0-e5ac-11f1-a596-c1a09588c68b")),
            ("compacted_at".into(), Tree::text("2026-11-21T13:06:55.103")),
        ]);
        Tree::Map(vec![("CompactionHistory".into(), Tree::List(vec![row.clone(), row]))])
    }

    #[test]
    fn json_is_jacksons() {
        let text = sample().json();
        assert!(
            text.starts_with("{\n  \"CompactionHistory\" : [ {\n    \"keyspace_name\" : \"shop\",\n"),
            "{text}"
        );
        assert!(text.contains("  }, {\n    \"keyspace_name\""), "{text}");
        assert!(text.ends_with("    \"compacted_at\" : \"2026-11-21T13:06:55.103\"\n  } ]\n}\n"), "{text}");
        let empty = Tree::Map(vec![("a".into(), Tree::Map(vec![])), ("b".into(), Tree::List(vec![]))]);
        assert_eq!(empty.json(), "{\n  \"a\" : { },\n  \"b\" : [ ]\n}\n");
    }

    #[test]
    fn yaml_is_snakeyamls() {
        let text = sample().yaml();
        assert!(text.starts_with("CompactionHistory:\n- keyspace_name: shop\n  bytes_out: 5251\n"), "{text}");
        assert!(
            text.contains("  rows_merged: '{1:20}'\n  id: 6cfad6f0-e5ac-11f1-a596-c1a09588c68b\n"),
            "{text}"
        );
        assert!(text.ends_with("  compacted_at: '2026-11-21T13:06:55.103'\n\n"), "{text}");
        let table = Tree::Map(vec![
            ("top".into(), Tree::Map(vec![])),
            ("levels".into(), Tree::List(vec![])),
            ("size".into(), Tree::text("0")),
            ("ratio".into(), Tree::Double(0.0)),
            ("human".into(), Tree::text("10.39 KiB")),
        ]);
        assert_eq!(table.yaml(), "top: {}\nlevels: []\nsize: '0'\nratio: 0.0\nhuman: 10.39 KiB\n\n");
    }
}
