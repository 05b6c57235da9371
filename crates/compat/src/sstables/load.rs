//! Random statements that write: whole rows and parts of them, every kind of change of a collection, every kind of
//! deletion, with and without timestamps and ttls. Timestamps come from a small range, so that many are equal.

use super::schemas::{Column, Role};
use super::session::Session;
use super::table::{Table, Tuple};
use super::values::{self, Chance};
use crate::cql::client::Value;
use crate::cql::types::Type;

/// Timestamp of the first round, in microseconds.
const BASE: i64 = 1_600_000_000_000_000;
/// A timestamp behind all of the others.
pub const LATE: i64 = BASE + 100_000_000;
/// Timestamps of a round.
const SPREAD: u64 = 5000;
/// Ttls: some are over before anything is read.
const TTLS: [i32; 4] = [1, 86_400, 2_000_000, 300_000_000];

/// One statement.
pub struct Statement {
    /// With markers.
    pub text: String,
    /// What is bound.
    pub values: Vec<Value>,
}

impl Statement {
    /// Its values as a line for the programs in `cassandra/` that write without a server.
    pub fn row(&self) -> String {
        let shown = |value: &Value| match value {
            Value::Null => "null".into(),
            Value::Unset => "unset".into(),
            Value::Bytes(bytes) => {
                bytes.iter().fold(String::from("x"), |text, byte| text + &format!("{byte:02x}"))
            }
        };
        format!("row {}", self.values.iter().map(shown).collect::<Vec<_>>().join(" "))
    }
}

/// Writes one round's statements; the first round also fills tables that are to be full.
pub fn write(session: &mut Session, table: &Table<'_>, seed: u64, round: u64) -> Result<usize, String> {
    let statements = statements(table, seed, round);
    let count = statements.len();
    for statement in statements {
        session.execute(&statement.text, statement.values)?;
    }
    Ok(count)
}

/// What a round consists of.
pub fn statements(table: &Table<'_>, seed: u64, round: u64) -> Vec<Statement> {
    let chance = Chance::new(seed, &format!("{} {round}", table.schema.name));
    let mut maker = Maker { table, chance, round };
    let mut made = Vec::new();
    let load = table.schema.load;
    if load.fill && round == 0 {
        for key in 0..table.keys.len() {
            for row in 0..table.clusterings.len() {
                made.push(maker.insert(&table.keys[key], &table.clusterings[row]));
            }
        }
    }
    made.extend((0..load.writes).map(|_| maker.any()));
    made
}

struct Maker<'t> {
    table: &'t Table<'t>,
    chance: Chance,
    round: u64,
}

fn bytes(value: &[u8]) -> Value {
    Value::Bytes(value.to_vec())
}

impl Maker<'_> {
    fn any(&mut self) -> Statement {
        let (key, row) = {
            let table = self.table;
            (self.chance.pick(&table.keys).clone(), self.chance.pick(&table.clusterings).clone())
        };
        if self.chance.percent(self.table.schema.load.deletes) {
            return self.delete(&key, &row);
        }
        if self.table.schema.counts() {
            return self.count(&key, &row);
        }
        let row = self.known_values(row);
        match self.chance.below(10) {
            0..4 => self.insert(&key, &row),
            4 | 5 => self.update(&key, &row),
            6 => self.update_static(&key).unwrap_or_else(|| self.insert(&key, &row)),
            _ => self.change(&key, &row).unwrap_or_else(|| self.insert(&key, &row)),
        }
    }

    /// The clustering of a row to be written: of COMPACT STORAGE the last values may be missing.
    fn known_values(&mut self, row: Tuple) -> Tuple {
        if !self.table.schema.has_null_clusterings() || self.chance.percent(60) {
            return row;
        }
        let count = 1 + self.chance.below(row.len() as u64 - 1) as usize;
        row[..count].to_vec()
    }

    /// A timestamp: none one time in ten, which means now.
    fn timestamp(&mut self) -> Value {
        let altered = !self.table.schema.alters.is_empty();
        if !altered && self.chance.percent(10) {
            return Value::Unset;
        }
        // Rounds overlap; not where a column is dropped between two of them.
        let step = if altered { 1_000_000 } else { SPREAD as i64 / 2 };
        bytes(&(BASE + self.round as i64 * step + self.chance.below(SPREAD) as i64).to_be_bytes())
    }

    fn ttl(&mut self) -> Value {
        if !self.chance.percent(20) {
            return Value::Unset;
        }
        bytes(&self.chance.pick(&TTLS).to_be_bytes())
    }

    fn value(&mut self, column: &Column) -> Vec<u8> {
        values::value(self.table.type_of(&column.name), self.table.size(), &mut self.chance)
    }

    /// A value, null or not set.
    fn bound(&mut self, column: &Column) -> Value {
        match self.chance.below(10) {
            0 => Value::Null,
            1 | 2 => Value::Unset,
            _ => Value::Bytes(self.value(column)),
        }
    }

    fn insert(&mut self, key: &Tuple, row: &Tuple) -> Statement {
        let table = self.table;
        let missing: Vec<&str> = table.clustering().skip(row.len()).map(|column| &*column.name).collect();
        let columns: Vec<&Column> =
            table.columns.iter().filter(|column| !missing.contains(&&*column.name)).collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let markers = vec!["?"; names.len()].join(", ");
        let text = format!(
            "INSERT INTO {} ({}) VALUES ({markers}) USING TIMESTAMP ? AND TTL ?",
            table.name,
            names.join(", ")
        );
        let with_statics = self.chance.percent(15);
        let (mut key, mut row) = (key.iter(), row.iter());
        let mut values = Vec::new();
        for column in columns {
            values.push(match column.role {
                Role::Key => key.next().map_or(Value::Null, |value| bytes(value)),
                Role::Asc | Role::Desc => row.next().map_or(Value::Null, |value| bytes(value)),
                Role::Static if !with_statics => Value::Unset,
                Role::Static | Role::Value => self.bound(column),
            });
        }
        values.extend([self.timestamp(), self.ttl()]);
        Statement { text, values }
    }

    /// Some columns of a row, which alone do not make it a row.
    fn update(&mut self, key: &Tuple, row: &Tuple) -> Statement {
        let columns: Vec<&Column> = self.table.of(Role::Value).collect();
        if columns.is_empty() {
            return self.insert(key, row);
        }
        let first = self.chance.below(columns.len() as u64) as usize;
        let count = 1 + self.chance.below(3) as usize;
        let chosen: Vec<&Column> =
            columns.iter().cycle().skip(first).take(count.min(columns.len())).copied().collect();
        self.set(key, row, &chosen)
    }

    fn update_static(&mut self, key: &Tuple) -> Option<Statement> {
        let columns: Vec<&Column> = self.table.of(Role::Static).collect();
        let column = (!columns.is_empty()).then(|| *self.chance.pick(&columns))?;
        if column.is_complex() && self.chance.percent(60) {
            return self.change_of(column, key, &Vec::new());
        }
        Some(self.set(key, &Vec::new(), &[column]))
    }

    /// Sets columns; of the static row when no clustering is given.
    fn set(&mut self, key: &Tuple, row: &Tuple, columns: &[&Column]) -> Statement {
        let sets: Vec<String> = columns.iter().map(|column| format!("{} = ?", column.name)).collect();
        let mut values = vec![self.timestamp(), self.ttl()];
        values.extend(columns.iter().map(|column| self.bound(column)));
        self.update_of(&sets.join(", "), values, key, row)
    }

    fn update_of(&self, sets: &str, mut values: Vec<Value>, key: &Tuple, row: &Tuple) -> Statement {
        let table = self.table;
        let place = self.place(key, row, &mut values);
        Statement {
            text: format!("UPDATE {} USING TIMESTAMP ? AND TTL ? SET {sets} WHERE {place}", table.name),
            values,
        }
    }

    /// The conditions of a place, whose values are added.
    fn place(&self, key: &Tuple, row: &Tuple, values: &mut Vec<Value>) -> String {
        values.extend(key.iter().chain(row).map(|value| bytes(value)));
        let mut place = self.table.key_is();
        if !row.is_empty() {
            place = format!("{place} AND {}", self.table.clustering_is(row.len()));
        }
        place
    }

    /// A change of a collection or of a field, if the table has any.
    fn change(&mut self, key: &Tuple, row: &Tuple) -> Option<Statement> {
        let columns: Vec<&Column> = self.table.of(Role::Value).filter(|column| column.is_complex()).collect();
        let column = (!columns.is_empty()).then(|| *self.chance.pick(&columns))?;
        self.change_of(column, key, row)
    }

    fn change_of(&mut self, column: &Column, key: &Tuple, row: &Tuple) -> Option<Statement> {
        let name = &column.name;
        let mut values = vec![self.timestamp(), self.ttl()];
        let ty = self.table.type_of(name).clone();
        let size = self.table.size();
        let sets = match &ty {
            Type::User(_, fields) => {
                let (field, ty) = self.chance.pick(fields).clone();
                values.push(match self.chance.below(4) {
                    0 => Value::Null,
                    _ => Value::Bytes(values::value(&ty, size, &mut self.chance)),
                });
                format!("{name}.\"{field}\" = ?")
            }
            Type::Map(of, element) if self.chance.percent(40) => {
                values.push(Value::Bytes(values::value(of, size, &mut self.chance)));
                values.push(Value::Bytes(values::value(element, size, &mut self.chance)));
                format!("{name}[?] = ?")
            }
            _ => {
                let value = self.value(column);
                let clear = self.chance.percent(15);
                values.push(if clear { Value::Null } else { Value::Bytes(value) });
                let list = matches!(ty, Type::Sequence("list", _));
                match self.chance.below(3) {
                    _ if clear => format!("{name} = ?"),
                    0 if list => format!("{name} = ? + {name}"),
                    // Of a map keys are taken away, which are a set.
                    0 if !matches!(ty, Type::Map(..)) => format!("{name} = {name} - ?"),
                    _ => format!("{name} = {name} + ?"),
                }
            }
        };
        Some(self.update_of(&sets, values, key, row))
    }

    fn count(&mut self, key: &Tuple, row: &Tuple) -> Statement {
        let columns: Vec<&Column> =
            self.table.columns.iter().filter(|column| column.ty == "counter").collect();
        let column = *self.chance.pick(&columns);
        let empty = Vec::new();
        let row = if column.role == Role::Static { &empty } else { row };
        let mut values = vec![bytes(&(self.chance.below(2000) as i64 - 500).to_be_bytes())];
        let place = self.place(key, row, &mut values);
        let name = &column.name;
        Statement {
            text: format!("UPDATE {} SET {name} = {name} + ? WHERE {place}", self.table.name),
            values,
        }
    }

    /// A cell, a collection, a row, the rows of a prefix, a range or a partition.
    fn delete(&mut self, key: &Tuple, row: &Tuple) -> Statement {
        let schema = self.table.schema;
        let columns: Vec<&Column> = self.table.of(Role::Value).collect();
        let kind = self.chance.below(20);
        let mut values = match kind {
            _ if schema.counts() => Vec::new(),
            // What is full stays it: the whole partition is deleted as of before.
            18 if schema.load.fill => vec![bytes(&(BASE - 1).to_be_bytes())],
            _ => vec![self.timestamp()],
        };
        let mut what = String::new();
        let place = match kind {
            0..5 if !columns.is_empty() => {
                let column = *self.chance.pick(&columns);
                what = column.name.clone();
                if let (Type::Map(of, _), true, true) =
                    (self.table.type_of(&what).clone(), column.is_complex(), self.chance.percent(50))
                {
                    what.push_str("[?]");
                    // Stands before the timestamp in the text.
                    values.insert(0, Value::Bytes(values::value(&of, self.table.size(), &mut self.chance)));
                }
                self.place(key, row, &mut values)
            }
            5 | 6 if self.table.of(Role::Static).next().is_some() => {
                let columns: Vec<&Column> = self.table.of(Role::Static).collect();
                what = self.chance.pick(&columns).name.clone();
                self.place(key, &Vec::new(), &mut values)
            }
            7..12 => self.place(key, row, &mut values),
            12..18 if !row.is_empty() && !schema.counts() => self.range(key, row, &mut values),
            18 if self.chance.percent(50) || schema.load.fill => self.place(key, &Vec::new(), &mut values),
            _ => self.place(key, row, &mut values),
        };
        let using = if schema.counts() { "" } else { " USING TIMESTAMP ?" };
        Statement { text: format!("DELETE {what} FROM {}{using} WHERE {place}", self.table.name), values }
    }

    /// Rows of a prefix, those between two values of the column behind it, or those on one side of a value.
    fn range(&mut self, key: &Tuple, row: &Tuple, values: &mut Vec<Value>) -> String {
        if self.table.schema.load.fill {
            return self.narrow_range(key, values);
        }
        let depth = self.chance.below(row.len() as u64) as usize;
        let other = self.chance.pick(&self.table.clusterings).clone();
        let prefix: Tuple = row[..depth].to_vec();
        let place = self.place(key, &prefix, values);
        let column = self.table.clustering().nth(depth).map_or("", |column| &column.name);
        let below = *self.chance.pick(&["<", "<="]);
        let above = *self.chance.pick(&[">", ">="]);
        match self.chance.below(4) {
            0 if depth > 0 => place,
            1 => {
                values.push(bytes(&row[depth]));
                format!("{place} AND {column} {above} ?")
            }
            2 => {
                values.push(bytes(&row[depth]));
                format!("{place} AND {column} {below} ?")
            }
            _ => {
                // Which of the two is the smaller one the type knows; one in two of these deletes nothing.
                values.extend([bytes(&row[depth]), bytes(&other[depth])]);
                format!("{place} AND {column} {above} ? AND {column} {below} ?")
            }
        }
    }
    /// From one row to one of the next twenty.
    fn narrow_range(&mut self, key: &Tuple, values: &mut Vec<Value>) -> String {
        let rows = &self.table.clusterings;
        let first = self.chance.below(rows.len() as u64) as usize;
        let last = (first + self.chance.below(20) as usize).min(rows.len() - 1);
        let place = self.place(key, &Vec::new(), values);
        values.extend([bytes(&rows[first][0]), bytes(&rows[last][0])]);
        let column = self.table.clustering().next().map_or("", |column| &column.name);
        let below = *self.chance.pick(&["<", "<="]);
        let above = *self.chance.pick(&[">", ">="]);
        format!("{place} AND {column} {above} ? AND {column} {below} ?")
    }
}
