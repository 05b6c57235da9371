//! `dump -d`: one line per row, as Cassandra's own code represents rows.

use crate::dump::{Partitions, cell_type, path_text, seen_cells, seen_liveness};
use crate::error::Error;
use crate::keys;
use crate::output::Output;
use crate::values;
use mutation::{Cell, ColumnView, Deletion, RowView};
use schema::{BoundSide, Column, Table, clustering_components};
use sstable::RawItem;
use std::fmt::Write;
use types::text::format_hex;

/// Prints partitions, rows and markers.
pub(crate) async fn print(
    table: &Table,
    partitions: &mut Partitions,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    while let Some(partition) = partitions.next().await? {
        let key = keys::text(table, &partition.key);
        let mut position = partition.items_at;
        if !partition.deletion.is_live() {
            out.line(format_args!("[{key}]@{position} {}", deletion(partition.deletion)))?;
        }
        if !partition.static_row.is_empty() {
            out.line(format_args!("[{key}]@{position} {}", row(table, None, &partition.static_row)))?;
        }
        while let Some(item) = partitions.scanner.item().await? {
            let text = match &item {
                RawItem::Row { clustering, body, .. } => row(table, Some(clustering), body),
                RawItem::Marker { prefix, side, ends, starts, .. } => {
                    marker(table, prefix, *side, *ends, *starts)
                }
            };
            out.line(format_args!("[{key}]@{position} {text}"))?;
            position = partitions.scanner.position();
        }
    }
    Ok(())
}

fn deletion(deletion: Deletion) -> String {
    format!("deletedAt={}, localDeletion={}", deletion.timestamp, deletion.local_time)
}

fn row(table: &Table, clustering: Option<&[u8]>, body: &[u8]) -> String {
    let row = RowView::new(body);
    let liveness = seen_liveness(&row);
    let mut text = format!("Row[info=[ts={}", liveness.timestamp);
    if liveness.is_expiring() {
        let _ = write!(text, " ttl={}, let={}", liveness.ttl, liveness.expires_at);
    }
    text.push(']');
    if !row.deletion().is_live() {
        let _ = write!(text, " del={}", deletion(row.deletion()));
    }
    text.push_str(" ]: ");
    match clustering {
        None => text.push_str("STATIC"),
        Some(wire) => {
            let values = clustering_components(wire).zip(&table.clustering);
            let literal = |(value, column): (Result<Option<&[u8]>, _>, &Column)| {
                values::cql(&column.ty, value.ok().flatten())
            };
            text.push_str(&values.map(literal).collect::<Vec<_>>().join(", "));
        }
    }
    text.push_str(" | ");
    let mut columns = Vec::new();
    // If one collection of a row has a deletion on disk, all of them have a place for one, and are shown.
    let all_shown = row
        .columns()
        .any(|(_, held)| matches!(held, ColumnView::Complex(complex) if !complex.deletion.is_live()));
    for (ordinal, held) in row.columns() {
        let Some(column) = table.column_by_ordinal(clustering.is_none(), ordinal) else { continue };
        match held {
            ColumnView::Simple(held) if row.deletion().deletes(held.timestamp) => {}
            ColumnView::Simple(held) => columns.push(cell(column, None, &held)),
            ColumnView::Complex(complex) => {
                // A comma stands before every cell, also where nothing is deleted before them.
                let mut text = String::new();
                if !complex.deletion.is_live() {
                    text = format!("del({})={}", column.name, deletion(complex.deletion));
                }
                for (path, held) in seen_cells(&complex, row.deletion()) {
                    text.push_str(", ");
                    text.push_str(&cell(column, Some(path), &held));
                }
                if all_shown || !text.is_empty() {
                    columns.push(text);
                }
            }
        }
    }
    text.push_str(&columns.join(", "));
    text
}

fn cell(column: &Column, path: Option<&[u8]>, cell: &Cell<'_>) -> String {
    let name = &column.name;
    let times = match cell.value {
        None => format!("ts={} ldt={}", cell.timestamp, cell.local_time),
        Some(_) if cell.is_expiring() => {
            format!("ts={} ttl={} ldt={}", cell.timestamp, cell.ttl, cell.local_time)
        }
        Some(_) => format!("ts={}", cell.timestamp),
    };
    let hex = |value: &[u8]| format!("0x{}", format_hex(value));
    match (path, cell.value) {
        (None, Some(context)) if column.ty.is_counter() => {
            let total =
                mutation::counter_total(context).map_or_else(|| hex(context), |total| total.to_string());
            format!("[{name}={total} ts={}]", cell.timestamp)
        }
        (Some(path), value) if column.ty.is_collection() => {
            let shown = match (value, cell_type(&column.ty, Some(path))) {
                (None, _) => "<tombstone>".to_owned(),
                (Some(value), Some(ty)) => values::plain(ty, value).unwrap_or_else(|| hex(value)),
                (Some(value), None) => hex(value),
            };
            format!("[{name}[{}]={shown} {times}]", path_text(&column.ty, path))
        }
        (_, None) => format!("[{name}=<tombstone> {times}]"),
        // Cells of a user type are shown as if they were of the whole type, which most are not.
        (_, Some(value)) => {
            let shown = values::plain(&column.ty, value).unwrap_or_else(|| hex(value));
            format!("[{name}={shown} {times}]")
        }
    }
}

fn marker(
    table: &Table,
    prefix: &[u8],
    side: BoundSide,
    ends: Option<Deletion>,
    starts: Option<Deletion>,
) -> String {
    let values: Vec<String> = clustering_components(prefix)
        .zip(&table.clustering)
        .map(|(value, column)| match value {
            Ok(Some(value)) => values::plain(&column.ty, value).unwrap_or_else(|| format_hex(value)),
            _ => "null".to_owned(),
        })
        .collect();
    let before = side == BoundSide::Before;
    let kind = match (ends.is_some() && starts.is_some(), starts.is_some()) {
        (true, _) if before => "EXCL_END_INCL_START_BOUNDARY",
        (true, _) => "INCL_END_EXCL_START_BOUNDARY",
        (_, true) if before => "INCL_START_BOUND",
        (_, true) => "EXCL_START_BOUND",
        (_, false) if before => "EXCL_END_BOUND",
        (_, false) => "INCL_END_BOUND",
    };
    let times: Vec<String> = [ends, starts]
        .into_iter()
        .flatten()
        .map(|deletion| format!("{}/{}", deletion.timestamp, deletion.local_time))
        .collect();
    format!("Marker {kind}({})@{}", values.join(", "), times.join("-"))
}
