//! Operations of profiles: which of them a run has, and their statements.

use super::scan::{Asked, Ranges};
use super::spec::Spec;
use crate::column::Column;
use crate::error::Error;
use crate::limits::VALIDATE_ROWS_MAX;
use crate::partition::{Argument, Table};
use crate::population::{Part, Visits};
use crate::profile::{Fields, Levels};
use crate::settings::Settings;
use client::Statement;
use client::contact::named;
use std::rc::Rc;
use types::CqlType;
use types::text::quote_name;

/// An operation that a run has.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// As it was named, and is told.
    pub name: String,
    /// Which of the profiles.
    pub spec: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Insert,
    Validate,
    /// The number of a query.
    Query(usize),
    /// The number of a query over token ranges.
    Scan(usize),
}

impl Chosen {
    /// The operation of a name: of one profile as it is, of several after the profile's name and a dot.
    pub fn of(name: &str, specs: &[Spec]) -> Result<Chosen, Error> {
        let found = specs.iter().enumerate().find_map(|(nth, spec)| {
            let prefix = format!("{}.", spec.profile.name.to_ascii_lowercase());
            let plain = match name.strip_prefix(&prefix) {
                Some(plain) => plain,
                None if specs.len() == 1 => name,
                None => return None,
            };
            let at = |names: Vec<&str>| names.iter().position(|known| *known == plain);
            let what = match plain {
                "insert" => Some(What::Insert),
                "validate" => Some(What::Validate),
                _ => at(spec.profile.queries.iter().map(|query| query.name.as_str()).collect())
                    .map(What::Query)
                    .or_else(|| {
                        at(spec.profile.scans.iter().map(|scan| scan.name.as_str()).collect()).map(What::Scan)
                    }),
            };
            Some(Chosen { name: name.to_owned(), spec: nth, what: what? })
        });
        found.ok_or_else(|| Error::run(format!("No query defined with name {name}")))
    }
}

/// A statement whose arguments come from columns.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The statement.
    pub statement: Statement,
    /// The columns of its markers.
    pub arguments: Rc<[Argument]>,
    /// Where the levels are not the run's.
    pub levels: Levels,
}

/// A statement that reads some rows of a partition, to be compared.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The statement: the partition key, and two tuples of clustering columns unless all rows are read.
    pub statement: Statement,
    /// The columns that come back; nothing for those of which no values are made, which are null.
    pub shown: Rc<[Option<Argument>]>,
    /// Clustering columns of a bound; 0 for all rows.
    pub depth: usize,
    /// Whether the lower bound is included.
    pub from_included: bool,
    /// Whether the upper bound is.
    pub to_included: bool,
}

/// An operation with its statements.
pub enum Operation {
    /// Writes rows.
    Insert {
        /// The statement of a row.
        bound: Bound,
        /// Which partitions, in how many visits.
        visits: Rc<Visits>,
    },
    /// Reads rows and compares them; the slices of one depth together.
    Validate(Vec<Vec<Slice>>),
    /// Runs a query.
    Query(Bound, Fields),
    /// Reads a page of a token range.
    Scan(Asked, Rc<Ranges>),
}

/// Prepares operations of profiles; `part` of a run; `is_warm_up`: not for one that counts.
pub async fn prepare(
    chosen: &Chosen,
    spec: &Spec,
    settings: &Settings,
    (part, is_warm_up): (Part, bool),
) -> Result<Operation, Error> {
    match chosen.what {
        What::Insert => {
            let statement = prepared(spec, &insert_text(spec)).await?;
            let levels = spec.profile.insert.levels;
            Ok(Operation::Insert {
                bound: Bound {
                    arguments: arguments(&statement, &spec.table).map_err(|text| of_file(spec, text))?,
                    statement,
                    levels,
                },
                visits: Rc::new(Visits::new(&settings.insert, runtime::random_u64() as i64)),
            })
        }
        What::Validate if spec.table.bounds().1 > VALIDATE_ROWS_MAX => Err(Error::run(format!(
            "{}: partitions of more than {VALIDATE_ROWS_MAX} rows are not compared",
            chosen.name
        ))),
        What::Validate => Ok(Operation::Validate(slices(spec).await?)),
        What::Query(nth) => {
            let query = &spec.profile.queries[nth];
            let wrong = |text: String| spec.profile.wrong(query.line, &query.name, text);
            let statement = spec.session.pool.prepare(&query.cql).await;
            let statement = statement.map_err(|error| wrong(named(&error)))?;
            let arguments = arguments(&statement, &spec.table).map_err(wrong)?;
            Ok(Operation::Query(Bound { statement, arguments, levels: query.levels }, query.fields))
        }
        What::Scan(nth) => {
            let asked = Asked::new(spec, &spec.profile.scans[nth], is_warm_up);
            let tokens = spec.session.pool.tokens().collect();
            Ok(Operation::Scan(asked, Rc::new(Ranges::new(tokens, settings.token_range, part))))
        }
    }
}

/// Prepares a statement that was made of a profile's columns.
async fn prepared(spec: &Spec, text: &str) -> Result<Statement, Error> {
    let statement = spec.session.pool.prepare(text).await;
    statement.map_err(|error| of_file(spec, format!("{}: {text}", named(&error))))
}

fn of_file(spec: &Spec, text: String) -> Error {
    Error::run(format!("{}: {text}", spec.profile.file))
}

/// The columns that the markers of a statement name. Errors: the marker that names none.
fn arguments(statement: &Statement, table: &Table) -> Result<Rc<[Argument]>, String> {
    let markers = statement.markers().iter();
    let found = markers.map(|marker| {
        table
            .find(&marker.name)
            .ok_or_else(|| format!("no column {} for an argument of {}", marker.name, statement.text()))
    });
    found.collect()
}

/// Updates of all columns that are no keys, or the keys alone where there are no others.
fn insert_text(spec: &Spec) -> String {
    let (table, name) = (&spec.table, spec.quoted_name());
    let keys: Vec<String> = table.key.iter().chain(&table.clustering).map(|c| quote_name(c.name())).collect();
    if table.values.is_empty() {
        return format!(
            "INSERT INTO {name} ({}) VALUES ({})",
            keys.join(", "),
            vec!["?"; keys.len()].join(", ")
        );
    }
    let set: Vec<String> = table.values.iter().map(assigned).collect();
    let at: Vec<String> = keys.iter().map(|key| format!("{key} = ?")).collect();
    format!("UPDATE {name} SET {} WHERE {}", set.join(","), at.join(" AND "))
}

/// What is counted or collected grows.
fn assigned(column: &Column) -> String {
    let name = quote_name(column.name());
    match column.ty() {
        CqlType::Counter | CqlType::List(_) | CqlType::Set(_) => format!("{name} = {name} + ?"),
        _ => format!("{name} = ?"),
    }
}

/// Statements that read all rows of a partition, and those between two bounds of each length.
async fn slices(spec: &Spec) -> Result<Vec<Vec<Slice>>, Error> {
    let (table, name) = (&spec.table, spec.quoted_name());
    let key: Vec<String> =
        table.key.iter().map(|column| format!("{} = ?", quote_name(column.name()))).collect();
    let base = format!("SELECT * FROM {name} WHERE {}", key.join(" AND "));
    let mut all = Vec::new();
    for depth in 0..=table.clustering.len() {
        // Bounds that name no row exactly are read in one way.
        let ways: &[(bool, bool)] = match depth {
            0 => &[(true, true)],
            depth if depth < table.clustering.len() => &[(true, false)],
            _ => &[(true, true), (true, false), (false, true), (false, false)],
        };
        let names: Vec<String> = table.clustering[..depth].iter().map(|c| quote_name(c.name())).collect();
        let (names, markers) = (names.join(","), vec!["?"; depth].join(","));
        let mut slices = Vec::new();
        for (from_included, to_included) in ways.iter().copied() {
            let text = match depth {
                0 => base.clone(),
                _ => format!(
                    "{base} AND ({names}) {} ({markers}) AND ({names}) {} ({markers})",
                    if from_included { ">=" } else { ">" },
                    if to_included { "<=" } else { "<" }
                ),
            };
            let statement = prepared(spec, &text).await?;
            let shown = shown(&statement, table);
            slices.push(Slice { statement, shown, depth, from_included, to_included });
        }
        all.push(slices);
    }
    Ok(all)
}

/// The columns that a statement gives.
fn shown(statement: &Statement, table: &Table) -> Rc<[Option<Argument>]> {
    let columns = statement.columns().unwrap_or_else(|| Rc::from([]));
    columns.iter().map(|column| table.find(&column.name)).collect()
}
