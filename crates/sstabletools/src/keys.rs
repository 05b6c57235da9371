//! Partition keys as text.

use crate::values;
use base::Token;
use schema::Table;
use types::text::format_hex;

/// The values of a key's columns as plain text; what does not fit its type as hexadecimal digits.
pub(crate) fn columns(table: &Table, key: &[u8]) -> Vec<String> {
    let Ok(values) = table.split_key(key) else { return vec![format_hex(key)] };
    let column = |(value, column): (&[u8], &schema::Column)| {
        values::plain(&column.ty, value).unwrap_or_else(|| format_hex(value))
    };
    values.into_iter().zip(&table.partition_key).map(column).collect()
}

/// A key as one text: columns with colons between, those inside escaped.
pub(crate) fn text(table: &Table, key: &[u8]) -> String {
    let columns = columns(table, key);
    if table.partition_key.len() == 1 {
        return columns.into_iter().next().unwrap_or_default();
    }
    let escaped = |column: String| {
        let escaped = column.replace(':', "\\:");
        if escaped.ends_with(['\\', '!']) { format!("{escaped}!") } else { escaped }
    };
    columns.into_iter().map(escaped).collect::<Vec<_>>().join(":")
}

/// The key of a text. Errors: in words.
pub(crate) fn parse(table: &Table, text: &str) -> Result<(Token, Vec<u8>), String> {
    let mut parts = vec![text.to_owned()];
    if table.partition_key.len() > 1 {
        parts = split(text);
        if parts.len() != table.partition_key.len() {
            let count = table.partition_key.len();
            return Err(format!("key \"{text}\" has not {count} columns with colons between"));
        }
    }
    let mut values = Vec::with_capacity(parts.len());
    for (part, column) in parts.iter().zip(&table.partition_key) {
        let value = values::parse(&column.ty, part).map_err(|error| format!("key \"{text}\": {error}"))?;
        if value.len() > usize::from(u16::MAX) {
            return Err(format!("key \"{text}\" is too long"));
        }
        values.push(value);
    }
    let mut key = Vec::new();
    table.push_key(&values.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut key);
    Ok((Token::of_key(&key), key))
}

/// Parts between colons that no backslash stands before; a `!` that guards the end of a part is taken off.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut symbols = text.chars().peekable();
    while let Some(symbol) = symbols.next() {
        let part = parts.last_mut().expect("there is one from the start");
        match symbol {
            '\\' if symbols.next_if_eq(&':').is_some() => part.push(':'),
            ':' => parts.push(String::new()),
            symbol => part.push(symbol),
        }
    }
    for part in &mut parts {
        if part.ends_with("\\!") || part.ends_with("!!") {
            part.pop();
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{TableBuilder, TableId};
    use types::CqlType;

    #[test]
    fn keys_of_several_columns_are_read_back() {
        let table = TableBuilder::new("ks", "t", TableId(1))
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .build()
            .unwrap();
        for (value, shown) in [("k1", "5:k1"), ("a:b", "5:a\\:b"), ("x!", "5:x!!"), ("", "5:")] {
            let mut key = Vec::new();
            table.push_key(&[&5i32.to_be_bytes(), value.as_bytes()], &mut key);
            assert_eq!(text(&table, &key), shown);
            assert_eq!(parse(&table, shown).unwrap(), (Token::of_key(&key), key));
        }
        assert!(parse(&table, "5").is_err() && parse(&table, "x:y").is_err());
        assert_eq!(columns(&table, b"broken"), ["62726f6b656e"]);
    }
}
