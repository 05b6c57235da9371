//! CQL text to plan: lexer, parser, analysis, binding; pure.
//!
//! ```text
//! text ─ lexer ─ parse ─► ast ─ prepare(schema) ─► Plan ─ bind(values) ─► mutations
//!                                                       └ start(values) ─► SelectRun ─► reads out, rows out
//! ```
//! Nothing here does I/O, knows the time or meets chance: clock, random bits and identities come in as parameters
//! ([`BindContext`], [`ChangeContext`]). Everything that must be read is asked for by a [`SelectRun`] and given back to it.
#![forbid(unsafe_code)]

pub mod ast;
mod error;
mod arithmetic;
mod aggregate;
mod expr_text;
mod limits;
mod lexer;
mod value;
mod from_json;
mod names;
mod to_json;
mod function;
mod sub_options;
mod options;
mod alter;
mod parse;
mod prior;
mod term;
mod restriction;
mod row;
#[cfg(test)]
mod tests;
mod user_types;
mod selector;
mod where_clause;
mod condition;
mod ddl;
mod select_clause;
mod select;
mod role;
mod write;
mod run;
mod describe;
mod assignment;
mod modify;
mod batch;
mod cas;
mod plan;

pub use ast::BatchKind;
pub use batch::{BatchPlan, refuse_mixed};
pub use cas::{CasRun, CasStatements};
pub use ddl::{
    Applied, ChangeContext, ChangeKind, ChangeTarget, SchemaChange, SchemaEvent, Touched, apply,
    is_system_keyspace,
};
pub use describe::{
    ClusterFacts, DescribePlan, DescribedRow, create_keyspace, create_table, create_table_again, create_type,
};
pub use error::{Error, Result};
pub use expr_text::type_text;
pub use modify::ModifyPlan;
pub use names::{find_table, quoted};
pub use parse::{parse, parse_expression};
pub use plan::{Plan, Prepared, prepare};
pub use prior::Prior;
pub use role::RolePlan;
pub use run::{Page, RowSink, SelectRun};
pub use select::{ResultColumn, SelectPlan};
pub use sub_options::{compaction_options, unused_compaction_options};
pub use value::{BindContext, BindSpec, BoundValue, OwnedValue, by_name, check_values};
