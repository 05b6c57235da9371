//! The shared tables: values of every type there and back, and mistakes by their classes of errors.

use scylla::errors::DbError;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlValue, MaybeUnset, Row};
use serde_json::Value;

use crate::suite::{Failure, Outcome, Told, equal, that};
use crate::talk::{Talk, told, told_of_preparing};
use crate::values::{build, expected_of, show, value_of};

/// Every value bound, as a literal, null and unset.
pub async fn types(talk: &Talk, told: &Told) -> Outcome {
    let table = told.cases("types.json")?;
    setup(talk, &table).await?;
    let chosen: Vec<&Value> = entries(&table["types"]).filter(|entry| told.applies(entry)).collect();
    let columns = chosen.iter().enumerate().map(|(i, entry)| format!(", c{i} {}", word(entry, "type")));
    talk.exec(format!("CREATE TABLE types (k int PRIMARY KEY{})", columns.collect::<String>())).await?;
    let mut values = Values { talk, key: 0, count: 0 };
    for (i, entry) in chosen.iter().enumerate() {
        values.of_type(i, entry, told).await?;
    }
    Ok(format!("{} values of {} types", values.count, chosen.len()))
}

/// Writes and reads values, each in a row of its own.
struct Values<'a> {
    talk: &'a Talk,
    key: i32,
    count: usize,
}

impl Values<'_> {
    async fn of_type(&mut self, i: usize, entry: &Value, told: &Told) -> Result<(), Failure> {
        let talk = self.talk;
        let name = word(entry, "type");
        let insert = talk.prepare(format!("INSERT INTO types (k, c{i}) VALUES (?, ?)")).await?;
        let select = talk.prepare(format!("SELECT c{i} FROM types WHERE k = ?")).await?;
        let of = insert.get_variable_col_specs().get_by_index(1).ok_or("no second marker")?.typ().clone();
        let read = async |key: i32| -> Result<String, Failure> {
            let row = talk.run(&select, (key,)).await?.into_rows_result()?.single_row::<Row>()?;
            Ok(show(row.columns[0].as_ref()))
        };
        for item in entries(&entry["values"]).filter(|item| told.applies(item)) {
            self.key += 1;
            talk.run(&insert, (self.key, build(&of, &value_of(item))?)).await?;
            equal(expected_of(item), read(self.key).await?, &format!("{name} bound"))?;
            if let Some(literal) = item["cql"].as_str() {
                self.key += 1;
                let text = format!("INSERT INTO types (k, c{i}) VALUES ({}, {literal})", self.key);
                talk.exec(text).await?;
                equal(expected_of(item), read(self.key).await?, &format!("{name} as {literal}"))?;
            }
            self.count += 1;
        }
        talk.run(&insert, (self.key, None::<CqlValue>)).await?;
        equal("null".into(), read(self.key).await?, &format!("{name} set to null"))?;
        self.key += 1;
        talk.run(&insert, (self.key, MaybeUnset::<CqlValue>::Unset)).await?;
        equal("null".into(), read(self.key).await?, &format!("{name} left unset"))
    }
}

/// Every mistake is told by its class, in the driver's own error.
pub async fn mistakes(talk: &Talk, told: &Told) -> Outcome {
    let table = told.cases("mistakes.json")?;
    setup(talk, &table).await?;
    let mut count = 0;
    for mistake in entries(&table["mistakes"]) {
        let name = word(mistake, "name");
        let (error, says) = make(talk, mistake).await?;
        let expected = match word(mistake, "error") {
            "syntax" => DbError::SyntaxError,
            "invalid" => DbError::Invalid,
            "exists" => DbError::AlreadyExists { keyspace: talk.keyspace.clone(), table: "rows".into() },
            "config" => DbError::ConfigError,
            "unauthorized" => DbError::Unauthorized,
            "unavailable" => DbError::Unavailable { consistency: Consistency::Two, required: 2, alive: 1 },
            other => return Err(format!("a class of which the tables know nothing: {other}").into()),
        };
        equal(expected, error, &format!("{name}: {says}"))?;
        let word = word(mistake, "says");
        that(says.contains(word), || format!("{name} does not say {word}: {says}"))?;
        count += 1;
    }
    Ok(format!("{count} mistakes"))
}

async fn make(talk: &Talk, mistake: &Value) -> Result<(DbError, String), Failure> {
    let (name, cql) = (word(mistake, "name"), word(mistake, "cql"));
    match word(mistake, "how") {
        "prepare" => told_of_preparing(name, talk.session.prepare(cql).await),
        "execute" => {
            let number = |value: &Value| value.as_str().map(str::parse::<i32>).transpose();
            let values: Vec<Option<i32>> =
                entries(&mistake["values"]).map(number).collect::<Result<_, _>>()?;
            let statement = talk.prepare(cql).await?;
            told(name, talk.session.execute_unpaged(&statement, values).await)
        }
        _ => {
            let mut statement = Statement::new(cql);
            match word(mistake, "level") {
                "" => {}
                "TWO" => statement.set_consistency(Consistency::Two),
                other => return Err(format!("a level of which the tables know nothing: {other}").into()),
            }
            told(name, talk.session.query_unpaged(statement, &[]).await)
        }
    }
}

async fn setup(talk: &Talk, table: &Value) -> Result<(), Failure> {
    for text in entries(&table["setup"]).filter_map(Value::as_str) {
        talk.exec(text).await?;
    }
    Ok(())
}

fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text of an entry; an empty one where there is none.
fn word<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or("")
}
