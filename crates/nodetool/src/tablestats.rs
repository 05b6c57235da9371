//! `tablestats`: every table's numbers, by keyspace, sorted, or as JSON or YAML.

mod fields;
mod sort;

use crate::context::Context;
use crate::error::Error;
use crate::java;
#[cfg(test)]
use crate::rest::Histogram;
use crate::rest::Table;
use crate::tree::Tree;
use std::fmt::Write;

/// Which tables, from `ks` and `ks.table` and `-i`.
struct Filter<'a> {
    ignore: bool,
    keyspaces: Vec<&'a str>,
    tables: Vec<(&'a str, &'a str)>,
}

impl<'a> Filter<'a> {
    fn new(arguments: &'a [String], ignore: bool) -> Filter<'a> {
        let mut filter = Filter { ignore, keyspaces: Vec::new(), tables: Vec::new() };
        for word in arguments {
            match word.split_once('.') {
                Some(pair) => filter.tables.push(pair),
                None => filter.keyspaces.push(word),
            }
        }
        filter
    }

    fn is_all(&self) -> bool {
        self.keyspaces.is_empty() && self.tables.is_empty()
    }

    /// Whether a table is shown.
    fn shows(&self, table: &Table) -> bool {
        if self.is_all() {
            return true;
        }
        let named = self.keyspaces.contains(&table.keyspace.as_str())
            || self.tables.contains(&(&table.keyspace, &table.table));
        named != self.ignore
    }

    /// Everything named must exist.
    fn verify(&self, keyspaces: &[String], tables: &[Table]) -> Result<(), Error> {
        let named = self.keyspaces.iter().chain(self.tables.iter().map(|(keyspace, _)| keyspace));
        for keyspace in named {
            if !keyspaces.iter().any(|known| known == keyspace) {
                return Err(Error::usage(format!("Unknown keyspace: {keyspace}")));
            }
        }
        let exists = |pair: &&(&str, &str)| tables.iter().any(|t| t.keyspace == pair.0 && t.table == pair.1);
        if let Some(first) = self.tables.iter().find(|pair| !exists(pair)) {
            let unknown = self.tables.iter().filter(|pair| pair.0 == first.0 && !exists(pair));
            let unknown: Vec<&str> = unknown.map(|pair| pair.1).collect();
            return Err(Error::usage(format!(
                "Unknown tables: [{}] in keyspace: {}",
                unknown.join(", "),
                first.0
            )));
        }
        Ok(())
    }
}

/// One keyspace: what all its tables did, and the tables that are shown.
struct Keyspace<'a> {
    name: &'a str,
    reads: u64,
    read_us: f64,
    writes: u64,
    write_us: f64,
    pending_flushes: u64,
    shown: Vec<&'a Table>,
}

impl<'a> Keyspace<'a> {
    fn new(name: &'a str, tables: &'a [Table], filter: &Filter<'_>) -> Keyspace<'a> {
        let all = || tables.iter().filter(|table| table.keyspace == name);
        Keyspace {
            name,
            reads: all().map(|table| table.read.count).sum(),
            read_us: all().map(|table| table.read.total).sum(),
            writes: all().map(|table| table.write.count).sum(),
            write_us: all().map(|table| table.write.total).sum(),
            pending_flushes: all().map(|table| table.pending_flushes).sum(),
            shown: all().filter(|table| filter.shows(table)).collect(),
        }
    }

    fn read_ms(&self) -> f64 {
        if self.reads > 0 { self.read_us / self.reads as f64 / 1000.0 } else { f64::NAN }
    }

    fn write_ms(&self) -> f64 {
        if self.writes > 0 { self.write_us / self.writes as f64 / 1000.0 } else { f64::NAN }
    }
}

/// How it is printed.
struct Style<'a> {
    human: bool,
    locations: bool,
    sort: Option<&'a str>,
    top: usize,
}

/// `tablestats [-H] [-F json|yaml] [-i] [-s key] [-t n] [-l] [ks | ks.table …]`.
pub fn tablestats(context: &mut Context<'_>) -> Result<(), Error> {
    let format = context.given.value("-F").unwrap_or_default().to_owned();
    if !["", "json", "yaml"].contains(&format.as_str()) {
        return Err(Error::usage("arguments for -F are json,yaml only."));
    }
    let sort = context.given.value("-s").map(str::to_owned);
    if let Some(key) = &sort
        && !sort::KEYS.contains(&key.as_str())
    {
        return Err(Error::usage(format!("argument for sort must be one of: {}", sort::KEYS.join(", "))));
    }
    // None is as many as there are.
    let top = usize::try_from(context.given.int("-t").unwrap_or(0))
        .map_err(|_| Error::usage("argument for top must be a positive integer."))?;
    if top > 0 && sort.is_none() {
        return Err(Error::usage("cannot filter top K tables without specifying a sort key."));
    }
    let arguments = context.arguments().to_vec();
    let filter = Filter::new(&arguments, context.given.has("-i"));
    let tables = context.node.tables()?;
    filter.verify(&context.node.keyspaces()?, &tables)?;
    let style = Style {
        human: context.given.has("-H"),
        locations: context.given.has("-l"),
        sort: sort.as_deref(),
        top,
    };
    print(&tables, &filter, &style, &format, context.out);
    Ok(())
}

fn print(tables: &[Table], filter: &Filter<'_>, style: &Style<'_>, format: &str, out: &mut String) {
    let mut names: Vec<&str> = tables.iter().map(|table| table.keyspace.as_str()).collect();
    names.dedup();
    let names = java::hash_order(names, 16, |name| name);
    let keyspaces = names.into_iter().map(|name| Keyspace::new(name, tables, filter));
    let keyspaces: Vec<Keyspace<'_>> = keyspaces.filter(|keyspace| !keyspace.shown.is_empty()).collect();
    if keyspaces.is_empty() {
        return;
    }
    match format {
        "json" => out.push_str(&tree(&keyspaces, style).json()),
        "yaml" => out.push_str(&tree(&keyspaces, style).yaml()),
        _ if style.sort.is_some() => print_sorted(&keyspaces, style, out),
        _ => print_keyspaces(&keyspaces, style, out),
    }
}

fn count(keyspaces: &[Keyspace<'_>]) -> usize {
    keyspaces.iter().map(|keyspace| keyspace.shown.len()).sum()
}

fn print_keyspaces(keyspaces: &[Keyspace<'_>], style: &Style<'_>, out: &mut String) {
    let _ = writeln!(out, "Total number of tables: {}\n----------------", count(keyspaces));
    for keyspace in keyspaces {
        let _ = writeln!(
            out,
            "Keyspace: {}\n\tRead Count: {}\n\tRead Latency: {} ms\n\tWrite Count: {}\n\tWrite Latency: {} ms\n\t\
             Pending Flushes: {}",
            keyspace.name,
            keyspace.reads,
            java::double(keyspace.read_ms()),
            keyspace.writes,
            java::double(keyspace.write_ms()),
            keyspace.pending_flushes
        );
        for table in &keyspace.shown {
            fields::print(table, &table.table, "\t\t", style.human, style.locations, out);
        }
        out.push_str("----------------\n");
    }
}

fn sorted<'a>(keyspaces: &[Keyspace<'a>], style: &Style<'_>) -> Vec<&'a Table> {
    let mut tables: Vec<&Table> =
        keyspaces.iter().flat_map(|keyspace| keyspace.shown.iter().copied()).collect();
    let key = style.sort.unwrap_or_default();
    tables.sort_by(|left, right| sort::compare(key, left, right));
    if style.top > 0 {
        tables.truncate(style.top);
    }
    tables
}

fn print_sorted(keyspaces: &[Keyspace<'_>], style: &Style<'_>, out: &mut String) {
    let all = count(keyspaces);
    let _ = write!(out, "Total number of tables: {all}");
    if let (Some(key), 1..) = (style.sort, style.top) {
        let _ = write!(out, " (showing top {} by {key})", style.top.min(all));
    }
    out.push_str("\n----------------\n");
    for table in sorted(keyspaces, style) {
        fields::print(table, &table.full_name(), "\t", style.human, style.locations, out);
    }
    out.push_str("----------------\n");
}

fn tree(keyspaces: &[Keyspace<'_>], style: &Style<'_>) -> Tree {
    let total = ("total_number_of_tables".to_owned(), Tree::Int(count(keyspaces) as i64));
    let mut entries = vec![total];
    if style.sort.is_some() {
        let table = |table: &Table| (table.full_name(), fields::tree(table, style.human, style.locations));
        entries.extend(sorted(keyspaces, style).into_iter().map(table));
    } else {
        entries.extend(
            keyspaces.iter().map(|keyspace| (keyspace.name.to_owned(), keyspace_tree(keyspace, style))),
        );
    }
    Tree::Map(java::hash_order(entries, 16, |entry| &entry.0))
}

fn keyspace_tree(keyspace: &Keyspace<'_>, style: &Style<'_>) -> Tree {
    let tables = keyspace.shown.iter();
    let tables = tables.map(|table| (table.table.clone(), fields::tree(table, style.human, style.locations)));
    let tables = java::hash_order(tables.collect(), 16, |entry| &entry.0);
    let entries = [
        ("write_latency_ms", Tree::Double(keyspace.write_ms())),
        ("tables", Tree::Map(tables)),
        ("read_latency_ms", Tree::Double(keyspace.read_ms())),
        ("pending_flushes", Tree::count(keyspace.pending_flushes)),
        ("write_count", Tree::count(keyspace.writes)),
        ("read_latency", Tree::Double(keyspace.read_ms())),
        ("read_count", Tree::count(keyspace.reads)),
    ];
    Tree::Map(entries.map(|(name, value)| (name.to_owned(), value)).into())
}

#[cfg(test)]
mod tests;
