//! A Rust file as words and signs, each with its line: without comments, without what strings say, without test code.
//!
//! ```text
//! text ─ tokens ─► [Token] ─ shipped ─► [Token] without the items under #[cfg(test)]
//! ```
//! Enough to follow paths, `use` trees and `mod` items; no parser, so what a macro would write is not seen.

/// A word, a number, a lifetime or a sign. `::` is one token; a string or a character is `""`, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it says.
    pub text: &'a str,
    /// Its line, counted from 1.
    pub line: usize,
}

/// What stands for a string or a character.
const LITERAL: &str = "\"\"";

/// Words that begin an item or a statement, after its visibility.
const ITEMS: &[&str] = &[
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// The tokens of a text. O(n); a text that does not compile yields something, without panic.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let (length, token) = next(rest);
        if let Some(text) = token {
            found.push(Token { text, line });
        }
        line += rest.as_bytes()[..length].iter().filter(|byte| **byte == b'\n').count();
        at += length;
    }
    found
}

/// How many bytes the first thing of a text that is not empty takes, and its token, if it has one.
fn next(rest: &str) -> (usize, Option<&str>) {
    let first = rest.chars().next().expect("the rest is not empty");
    let literal = match first {
        '/' if rest.starts_with("//") => return (rest.find('\n').unwrap_or(rest.len()), None),
        '/' if rest.starts_with("/*") => return (block_comment(rest), None),
        ' ' | '\n' => return (rest.bytes().take_while(|byte| matches!(byte, b' ' | b'\n')).count(), None),
        _ if first.is_whitespace() => return (first.len_utf8(), None),
        '"' => string(rest),
        '\'' => character(rest),
        'b' | 'c' | 'r' => raw_string(rest).or_else(|| string(rest)).or_else(|| character(rest)),
        _ => None,
    };
    if let Some(length) = literal {
        return (length, Some(LITERAL));
    }
    if is_word(first) || first == '\'' {
        let begin = if rest.starts_with("r#") { 2 } else { 0 };
        let inner = begin.max(first.len_utf8());
        let end = rest[inner..].find(|c| !is_word(c)).unwrap_or(rest.len() - inner);
        return (inner + end, Some(&rest[begin..inner + end]));
    }
    let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
    (length, Some(&rest[..length]))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || (!c.is_ascii() && c.is_alphanumeric())
}

/// The length of the comment that begins here; comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// The length of the raw string that begins here, if one does.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].iter().find(|prefix| rest.starts_with(**prefix))?;
    let hashes = rest[prefix.len()..].chars().take_while(|c| *c == '#').count();
    let begin = prefix.len() + hashes;
    let inner = rest[begin..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(inner.find(&close).map_or(rest.len(), |end| begin + 1 + end + close.len()))
}

/// The length of the string that begins here, if one does.
fn string(rest: &str) -> Option<usize> {
    let begin = ["\"", "b\"", "c\""].iter().find(|begin| rest.starts_with(**begin))?.len();
    let mut at = begin;
    while let Some(found) = rest[at..].find(['"', '\\']) {
        at += found + 1;
        if rest[at - 1..].starts_with('"') {
            return Some(at);
        }
        at += rest[at..].chars().next().map_or(0, char::len_utf8);
    }
    Some(rest.len())
}

/// The length of the character that begins here, if it is one and no lifetime.
fn character(rest: &str) -> Option<usize> {
    let begin = if rest.starts_with("b'") { 2 } else { 1 };
    let inner = rest.strip_prefix("b'").or_else(|| rest.strip_prefix('\''))?;
    let mut chars = inner.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        let (after, escaped) = chars.next()?;
        let end = inner[after + escaped.len_utf8()..].find('\'')?;
        return Some(begin + after + escaped.len_utf8() + end + 1);
    }
    let (end, close) = chars.next()?;
    (close == '\'').then_some(begin + end + 1)
}

/// The tokens without items, statements, fields and arms that only tests see.
pub fn shipped<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let Some((end, attribute)) = attribute(tokens, at) else {
            kept.push(tokens[at]);
            at += 1;
            continue;
        };
        if !is_test(attribute) {
            kept.extend_from_slice(&tokens[at..end]);
            at = end;
        } else if says(tokens, at + 1, "!") {
            return Vec::new();
        } else {
            at = item_end(tokens, end);
        }
    }
    kept
}

/// The attribute that begins here: where it ends, and what stands in its brackets.
fn attribute<'t, 'a>(tokens: &'t [Token<'a>], at: usize) -> Option<(usize, &'t [Token<'a>])> {
    if !says(tokens, at, "#") {
        return None;
    }
    let open = if says(tokens, at + 1, "!") { at + 2 } else { at + 1 };
    if !says(tokens, open, "[") {
        return None;
    }
    let end = closed(tokens, open);
    Some((end, &tokens[open + 1..(end - 1).max(open + 1)]))
}

/// Whether it is `cfg(test)` or `cfg(all(test, ...))`.
fn is_test(attribute: &[Token]) -> bool {
    let says_at = |at, text| says(attribute, at, text);
    if !says_at(0, "cfg") {
        return false;
    }
    let either = attribute.iter().any(|token| token.text == "not" || token.text == "any");
    says_at(2, "test") || (says_at(2, "all") && !either && attribute.iter().any(|token| token.text == "test"))
}

/// Where the item after an attribute ends: behind its body, its `;`, or, for a field or an arm, its `,`.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while let Some((end, _)) = attribute(tokens, at) {
        at = end;
    }
    if says(tokens, at, "pub") {
        at += 1;
        if says(tokens, at, "(") {
            at = closed(tokens, at);
        }
    }
    let is_item = tokens.get(at).is_some_and(|token| ITEMS.contains(&token.text));
    let is_use = says(tokens, at, "use");
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if !is_use => return closed(tokens, at),
            "(" | "[" | "{" => at = closed(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Where the bracket that opens here is closed: behind its counterpart, or at the end.
pub fn closed(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Whether the token there says this.
pub fn says(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).iter().map(|token| token.text).collect()
    }

    fn shipped_texts(text: &str) -> String {
        shipped(&tokens(text)).iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_say_nothing() {
        let text = "a // b\n/* c /* d */ e */ f \"g \\\" h\" r#\"i \" j\"# b\"k\" 'l' '\\'' b'm' '\\u{6e}' &'o p<'q, r>";
        let expected = [
            "a", "f", LITERAL, LITERAL, LITERAL, LITERAL, LITERAL, LITERAL, LITERAL, "&", "'o", "p", "<",
            "'q", ",", "r", ">",
        ];
        assert_eq!(texts(text), expected);
        assert_eq!(texts("r#type::x1 é \"ende"), ["type", "::", "x1", "é", LITERAL]);
    }

    #[test]
    fn lines_are_counted() {
        let lines: Vec<_> = tokens("a\n\"b\nc\" /* \n */ d").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn test_code_is_left_out() {
        assert_eq!(shipped_texts("#[cfg(test)] mod t { use x::{y}; } a"), "a");
        assert_eq!(shipped_texts("#[cfg(test)]\n#[path = \"t.rs\"]\npub(crate) mod t; a"), "a");
        assert_eq!(shipped_texts("#[cfg(all(test, unix))] use x::{y, z}; a"), "a");
        assert_eq!(shipped_texts("struct S { #[cfg(test)] b: (C, D), e: F } a"), "struct S { e : F } a");
        assert_eq!(shipped_texts("#[cfg(test)] fn t<A, B>(c: [u8; 4]) -> A { d } a"), "a");
        assert_eq!(shipped_texts("#[cfg(not(test))] b"), "# [ cfg ( not ( test ) ) ] b");
        assert_eq!(shipped_texts("#![cfg(test)] a"), "");
    }
}
