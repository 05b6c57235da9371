//! The warning that a read over many tombstones carries, in Cassandra's words.

use crate::coordinator::Coordinator;
use mutation::{Key, ReadCommand, Scope};
use schema::Table;
use types::Value;

/// Characters of a statement shown.
const SHOWN_MAX: usize = 512;

impl Coordinator {
    /// What the client is told of a page that met so many tombstones, if they are many; the log is told as well.
    /// `command`: the last read of the page.
    pub fn tombstone_warning(
        &self,
        command: &ReadCommand,
        live_rows: u32,
        tombstones: u32,
    ) -> Option<String> {
        if tombstones == 0 {
            return None;
        }
        let schema = self.schema();
        let table = schema.table_by_id(command.table)?;
        if tombstones <= self.local().tombstone_limits(table).warn {
            return None;
        }
        self.metrics.tombstone_warnings.inc();
        let mut shown = statement(table, command);
        shown.truncate(shown.floor_char_boundary(SHOWN_MAX));
        let token = match (&command.resume, &command.scope) {
            (Some(resume), _) => resume.key.token.0,
            (None, Scope::Keys(keys)) => keys.last().map_or(0, |key| key.token.0),
            (None, Scope::Range(range)) => range.first.0,
        };
        let warning = format!(
            "Read {live_rows} live rows and {tombstones} tombstone cells for query {shown}; token {token} (see \
             tombstone_warn_threshold)"
        );
        if self.tombstones_told.take() {
            runtime::warn!("{warning}");
        }
        Some(warning)
    }
}

/// About the statement that a command comes from, as the reference shows commands.
fn statement(table: &Table, command: &ReadCommand) -> String {
    let mut text = format!("SELECT * FROM {}", table.qualified_name());
    match &command.scope {
        Scope::Keys(keys) => {
            let restrictions: Vec<String> = keys.iter().take(8).map(|key| key_text(table, key)).collect();
            text += &format!(" WHERE {}", restrictions.join(" OR "));
        }
        Scope::Range(range) => {
            let names: Vec<&str> = table.partition_key.iter().map(|column| &*column.name).collect();
            let names = names.join(", ");
            let (first, last) = (range.first.0, range.last.0);
            if (first, last) != (i64::MIN, i64::MAX) {
                text += &format!(" WHERE token({names}) >= {first} AND token({names}) <= {last}");
            }
        }
    }
    if command.row_limit < u32::MAX {
        text += &format!(" LIMIT {}", command.row_limit);
    }
    text + " ALLOW FILTERING"
}

fn key_text(table: &Table, key: &Key) -> String {
    let Ok(values) = table.split_key(&key.bytes) else { return format!("token = {}", key.token.0) };
    let restriction = |(column, value): (&schema::Column, &[u8])| {
        let value = Value::decode(&column.ty, value).map_or_else(|_| "?".to_string(), |value| value.to_cql());
        format!("{} = {value}", column.name)
    };
    let all: Vec<String> = table.partition_key.iter().zip(values).map(restriction).collect();
    all.join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Token;
    use mutation::TokenRange;
    use schema::{TableBuilder, TableId};
    use types::CqlType;

    fn command(scope: Scope, row_limit: u32) -> ReadCommand {
        ReadCommand { row_limit, ..ReadCommand::everything(TableId(1), scope, 1) }
    }

    #[test]
    fn commands_are_shown_as_statements() {
        let table = TableBuilder::new("ks", "t", TableId(1))
            .partition_key("a", CqlType::Int)
            .partition_key("b", CqlType::Text)
            .regular("v", CqlType::Int)
            .build()
            .expect("a valid table");
        let mut key = Vec::new();
        table.push_key(&[&7i32.to_be_bytes(), b"x'y"], &mut key);
        let by_key = command(Scope::Keys(vec![Key::new(&key)].into()), 10);
        let expected = "SELECT * FROM ks.t WHERE a = 7 AND b = 'x''y' LIMIT 10 ALLOW FILTERING";
        assert_eq!(statement(&table, &by_key), expected);
        let all = command(Scope::Range(TokenRange::ALL), u32::MAX);
        assert_eq!(statement(&table, &all), "SELECT * FROM ks.t ALLOW FILTERING");
        let some = command(Scope::Range(TokenRange::new(Token(-5), Token(9))), u32::MAX);
        let expected = "SELECT * FROM ks.t WHERE token(a, b) >= -5 AND token(a, b) <= 9 ALLOW FILTERING";
        assert_eq!(statement(&table, &some), expected);
    }
}
