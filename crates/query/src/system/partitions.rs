//! Generated rows as partitions of the ordinary data model, so that SELECT reads them like any others.

use super::row::Row;
use crate::error::Error;
use base::Token;
use mutation::{Cell, Deletion, Liveness, MutationBuilder, Partition, RowWriter};
use schema::{Column, Table, push_component};
use std::collections::BTreeMap;
use types::{CqlType, collection};

/// The partitions of one table in the order of a scan: by token, then by key.
pub type Partitions = BTreeMap<(Token, Vec<u8>), Partition>;

/// Generated data carries one timestamp, so that two generations of it never mix.
const TIMESTAMP: i64 = 1;

/// Builds the partitions of `table` from generated rows.
/// Errors: a generated row that does not fit its own table, which is a defect of the generator.
pub fn partitions(table: &Table, rows: &[Row]) -> Result<Partitions, Error> {
    let mut partitions = Partitions::new();
    for row in rows {
        let key = partition_key(table, row)?;
        let token = Token::of_key(&key);
        let mutation = mutation(table, row, token, &key)?;
        let partition = partitions.entry((token, key)).or_default();
        partition.apply(table, &mutation.view()).map_err(|e| misfit(table, &e.to_string()))?;
    }
    Ok(partitions)
}

fn partition_key(table: &Table, row: &Row) -> Result<Vec<u8>, Error> {
    let mut values = Vec::with_capacity(table.partition_key.len());
    for column in &table.partition_key {
        let missing = || misfit(table, "a row without its partition key");
        values.push(row.get(&column.name).ok_or_else(missing)?);
    }
    let mut key = Vec::new();
    table.push_key(&values, &mut key);
    Ok(key)
}

fn mutation(table: &Table, row: &Row, token: Token, key: &[u8]) -> Result<mutation::Mutation, Error> {
    let mut clustering = Vec::new();
    for column in &table.clustering {
        let missing = || misfit(table, "a row without its clustering key");
        push_component(&mut clustering, Some(row.get(&column.name).ok_or_else(missing)?));
    }
    let mut columns: Vec<(&Column, &[u8])> =
        table.regulars.iter().filter_map(|c| Some((c, row.get(&c.name)?))).collect();
    columns.sort_by_key(|(column, _)| column.ordinal);
    let mut builder = MutationBuilder::new(table.id, token, key);
    let mut fits = Ok(());
    builder.write_row(&clustering, Liveness::at(TIMESTAMP), Deletion::LIVE, |writer| {
        for (column, value) in &columns {
            if fits.is_ok() {
                fits = write_column(writer, column, value);
            }
        }
    });
    fits.map_err(|text| misfit(table, &text))?;
    Ok(builder.finish())
}

fn write_column(writer: &mut RowWriter<'_>, column: &Column, value: &[u8]) -> Result<(), String> {
    if !column.ty.is_multi_cell() {
        writer.simple(column.ordinal, Cell::live(TIMESTAMP, value));
        return Ok(());
    }
    writer.complex_start(column.ordinal, Deletion::LIVE);
    let written = write_cells(writer, &column.ty, value);
    writer.complex_end();
    written
}

fn write_cells(writer: &mut RowWriter<'_>, ty: &CqlType, value: &[u8]) -> Result<(), String> {
    match ty {
        CqlType::Set(_) => {
            for element in collection::elements(value) {
                let element = element.map_err(|e| e.to_string())?.ok_or("a null element")?;
                writer.complex_cell(element, Cell::live(TIMESTAMP, &[]));
            }
        }
        CqlType::Map(..) => {
            for entry in collection::entries(value) {
                let (key, value) = entry.map_err(|e| e.to_string())?;
                writer.complex_cell(key, Cell::live(TIMESTAMP, value));
            }
        }
        other => return Err(format!("generated cells of {other}")),
    }
    Ok(())
}

fn misfit(table: &Table, text: &str) -> Error {
    let _ = base::never!(true, "a generated system row does not fit its table");
    Error::Server(format!("system table {}: {text}", table.qualified_name()))
}
