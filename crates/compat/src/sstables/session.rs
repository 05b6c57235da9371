//! A connection that remembers what it prepared, and reads answers page by page.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::cql::client::{Answer, Client, Column, Parameters, Prepared, Value};

/// Statements at once: beyond, they are prepared again.
const PREPARED_MAX: usize = 500;

/// The error of a statement that the server does not know.
const UNPREPARED: u32 = 0x2500;

/// One connection.
pub struct Session {
    client: Client,
    prepared: HashMap<String, Prepared>,
}

/// Rows as bytes, of all pages.
pub struct Rows {
    /// Their columns.
    pub columns: Vec<Column>,
    /// A value or null for each column.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Session {
    /// Connects.
    pub fn connect(address: SocketAddr) -> Result<Session, String> {
        Ok(Session { client: Client::connect(address, 4)?, prepared: HashMap::new() })
    }

    /// A statement without values, of which only success is wanted. It may change the schema: what was prepared is forgotten.
    pub fn run(&mut self, text: &str) -> Result<(), String> {
        self.prepared.clear();
        match self.client.query(text, &Parameters::default())?.0 {
            Answer::Error(code, why) => Err(format!("{text}: {code:#06x} {why}")),
            _ => Ok(()),
        }
    }

    /// A prepared statement.
    pub fn execute(&mut self, text: &str, values: Vec<Value>) -> Result<(), String> {
        self.ask(text, Parameters { values, ..Parameters::default() }).map(drop)
    }

    /// Rows of a prepared statement, in pages of so many.
    pub fn select(&mut self, text: &str, values: &[Value], page: i32) -> Result<Rows, String> {
        let mut all: Option<Rows> = None;
        let mut state = None;
        loop {
            let parameters =
                Parameters { values: values.to_vec(), page: Some(page), state, ..Parameters::default() };
            let Answer::Rows { columns, rows, next } = self.ask(text, parameters)? else {
                return Err(format!("{text}: no rows were answered"));
            };
            match &mut all {
                Some(all) => all.rows.extend(rows),
                None => all = Some(Rows { columns, rows }),
            }
            match next {
                Some(_) => state = next,
                None => return Ok(all.expect("there is a page")),
            }
        }
    }

    /// Columns of a statement's result.
    pub fn columns(&mut self, text: &str) -> Result<Vec<Column>, String> {
        Ok(self.prepare(text)?.columns.clone())
    }

    fn prepare(&mut self, text: &str) -> Result<&Prepared, String> {
        if !self.prepared.contains_key(text) {
            let prepared = match self.client.prepare(text)?.0 {
                Answer::Prepared(prepared) => prepared,
                why => return Err(format!("{text}: {why:?}")),
            };
            if self.prepared.len() >= PREPARED_MAX {
                self.prepared.clear();
            }
            self.prepared.insert(text.to_owned(), prepared);
        }
        Ok(&self.prepared[text])
    }

    fn ask(&mut self, text: &str, parameters: Parameters) -> Result<Answer, String> {
        self.prepare(text)?;
        let mut answer = self.client.execute(&self.prepared[text], &parameters)?.0;
        if matches!(answer, Answer::Error(UNPREPARED, _)) {
            // As drivers do: a server may forget statements, such as those from before a change of the schema.
            self.prepared.remove(text);
            self.prepare(text)?;
            answer = self.client.execute(&self.prepared[text], &parameters)?.0;
        }
        if matches!(answer, Answer::Error(UNPREPARED, _)) {
            // Cassandra's cache, once it is full, lets a newcomer go at once.
            answer = self.client.query(text, &parameters)?.0;
        }
        let prepared = &self.prepared[text];
        match answer {
            Answer::Error(code, why) => {
                let values = prepared.markers.iter().zip(&parameters.values).map(|(marker, value)| {
                    let shown = match value {
                        Value::Bytes(bytes) if bytes.len() < 1000 => marker.ty.value(Some(bytes)),
                        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
                        other => format!("{other:?}"),
                    };
                    format!("{} = {shown}", marker.name)
                });
                Err(format!("{text} with {}: {code:#06x} {why}", values.collect::<Vec<_>>().join(", ")))
            }
            answer => Ok(answer),
        }
    }
}
