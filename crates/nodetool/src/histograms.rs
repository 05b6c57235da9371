//! tablehistograms and proxyhistograms: percentiles side by side.

use crate::context::Context;
use crate::error::Error;
use crate::java;
use crate::rest::{Histogram, Table};
use serde::Deserialize;
use std::fmt::Write;

const ROWS: [&str; 7] = ["50%", "75%", "95%", "98%", "99%", "Min", "Max"];

/// `tablehistograms [ks table | ks.table]`.
pub fn tablehistograms(context: &mut Context<'_>) -> Result<(), Error> {
    let wanted = wanted(context.arguments())?;
    let tables = context.node.tables()?;
    let mut keyspaces: Vec<&str> = tables.iter().map(|table| table.keyspace.as_str()).collect();
    keyspaces.dedup();
    let mut shown = Vec::new();
    for keyspace in java::hash_order(keyspaces, 16, |name| name) {
        let of_keyspace: Vec<&Table> = tables.iter().filter(|table| table.keyspace == keyspace).collect();
        shown.extend(java::hash_order(of_keyspace, 4, |table| &table.table));
    }
    if let Some((keyspace, table)) = &wanted {
        shown.retain(|shown| shown.keyspace == *keyspace && shown.table == *table);
        if shown.is_empty() {
            return Err(Error::usage(format!("Unknown table {keyspace}.{table}")));
        }
    }
    for table in shown {
        print_table(table, context.out);
    }
    Ok(())
}

fn wanted(arguments: &[String]) -> Result<Option<(String, String)>, Error> {
    match arguments {
        [] => Ok(None),
        [keyspace, table] if !keyspace.contains('.') => Ok(Some((keyspace.clone(), table.clone()))),
        [name] => match name.split_once('.') {
            Some((keyspace, table)) if !keyspace.is_empty() && !table.is_empty() => {
                Ok(Some((keyspace.to_owned(), table.to_owned())))
            }
            _ => Err(Error::usage("tablehistograms requires keyspace and table name arguments")),
        },
        _ => Err(Error::usage(
            "tablehistograms requires <keyspace> <table> or <keyspace.table> format argument.",
        )),
    }
}

fn print_table(table: &Table, out: &mut String) {
    let files = table.partition_sizes.count > 0 && table.partition_cells.count > 0;
    if !files {
        out.push_str(
            "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' percentiles\n",
        );
    }
    let _ = writeln!(out, "{}/{} histograms", table.keyspace, table.table);
    let line = |cells: [&str; 6]| {
        let [first, read, write, sstables, size, cells] = cells;
        format!("{first:<10}{read:>18}{write:>18}{sstables:>18}{size:>18}{cells:>18}\n")
    };
    out.push_str(&line([
        "Percentile",
        "Read Latency",
        "Write Latency",
        "SSTables",
        "Partition Size",
        "Cell Count",
    ]));
    out.push_str(&line(["", "(micros)", "(micros)", "", "(bytes)", ""]));
    let rows =
        [&table.read, &table.write, &table.sstables_per_read, &table.partition_sizes, &table.partition_cells];
    let rows = rows.map(Histogram::rows);
    for (index, label) in ROWS.iter().enumerate() {
        let latency = |column: usize| java::fixed(or_zero(rows[column][index]), 2);
        let whole = |column: usize| if files { java::fixed(rows[column][index], 0) } else { "NaN".into() };
        out.push_str(&line([label, &latency(0), &latency(1), &latency(2), &whole(3), &whole(4)]));
    }
    out.push('\n');
}

/// Percentiles of nothing are zero.
fn or_zero(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// The node's requests by kind, as its clients have waited for them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Proxy {
    read: Histogram,
    write: Histogram,
    range: Histogram,
    cas_read: Histogram,
    cas_write: Histogram,
    view_write: Histogram,
}

/// `proxyhistograms`.
pub fn proxyhistograms(context: &mut Context<'_>) -> Result<(), Error> {
    let proxy: Proxy = context.node.get("/messina/proxy", &[])?;
    print_proxy(&proxy, context.out);
    Ok(())
}

fn print_proxy(proxy: &Proxy, out: &mut String) {
    out.push_str("proxy histograms\n");
    let line = |first: &str, cells: [String; 6]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>19}")).collect();
        format!("{first:<10}{cells}\n")
    };
    let labels = ["Read", "Write", "Range", "CAS Read", "CAS Write", "View Write"];
    out.push_str(&line("Percentile", labels.map(|label| format!("{label} Latency"))));
    out.push_str(&line("", labels.map(|_| "(micros)".to_owned())));
    let histograms =
        [&proxy.read, &proxy.write, &proxy.range, &proxy.cas_read, &proxy.cas_write, &proxy.view_write];
    let rows = histograms.map(Histogram::rows);
    for (index, label) in ROWS.iter().enumerate() {
        let cells = rows.map(|values| java::fixed(or_zero(values[index]), 2));
        out.push_str(&line(label, cells));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;

    fn histogram(values: [f64; 7]) -> Histogram {
        let [p50, p75, p95, p98, p99, min, max] = values;
        Histogram { count: 20, total: 0.0, min, max, mean: p50, p50, p75, p95, p98, p99 }
    }

    #[test]
    fn a_tables_screen_is_cassandras() {
        let table = Table {
            keyspace: "shop".into(),
            table: "visits".into(),
            read: histogram([258.0, 310.0, 372.0, 535.0, 535.0, 180.0, 535.0]),
            write: histogram([42.0, 72.0, 124.0, 149.0, 179.0, 13.0, 3973.0]),
            partition_sizes: histogram([924.0, 924.0, 924.0, 924.0, 924.0, 771.0, 924.0]),
            partition_cells: histogram([20.0, 20.0, 20.0, 20.0, 20.0, 18.0, 20.0]),
            ..Table::default()
        };
        let mut text = String::new();
        print_table(&table, &mut text);
        assert_eq!(text, golden(include_str!("../testdata/tablehistograms.txt")));
        let never = Table { keyspace: "shop".into(), table: "never".into(), ..Table::default() };
        text.clear();
        print_table(&never, &mut text);
        assert_eq!(text, golden(include_str!("../testdata/tablehistograms_without_sstables.txt")));
    }

    #[test]
    fn the_proxys_screen_is_cassandras() {
        let proxy = Proxy {
            read: histogram([1109.0, 2299.0, 5722.0, 6866.0, 8239.0, 150.0, 8239.0]),
            write: histogram([535.0, 1109.0, 2299.0, 3311.0, 3973.0, 180.0, 4768.0]),
            range: histogram([5722.0, 14237.0, 29521.0, 35425.0, 35425.0, 771.0, 35425.0]),
            ..Proxy::default()
        };
        let mut text = String::new();
        print_proxy(&proxy, &mut text);
        assert_eq!(text, golden(include_str!("../testdata/proxyhistograms.txt")));
    }
}
