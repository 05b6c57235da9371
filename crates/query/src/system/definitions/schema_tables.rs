//! The tables that hold the schema: `system_schema` for what is stored, `system_virtual_schema` for what is not.

use super::{COLUMNS_OF_COLUMNS, Definition, table};

#[rustfmt::skip]
pub(super) const SCHEMA: &[Definition] = &[
    table("system_schema", "aggregates",
        "keyspace_name text", "aggregate_name text, argument_types frozen<list<text>>",
        "final_func text, initcond text, return_type text, state_func text, state_type text",
        "user defined aggregate definitions"),
    table("system_schema", "column_masks", "keyspace_name text", "table_name text, column_name text",
        "function_argument_nulls frozen<list<boolean>>, function_argument_types frozen<list<text>>, \
         function_argument_values frozen<list<text>>, function_keyspace text, function_name text",
        "column dynamic data masks"),
    table("system_schema", "columns", "keyspace_name text", "table_name text, column_name text",
        COLUMNS_OF_COLUMNS, "column definitions"),
    table("system_schema", "dropped_columns", "keyspace_name text", "table_name text, column_name text",
        "dropped_time timestamp, kind text, type text", "dropped column registry"),
    table("system_schema", "functions",
        "keyspace_name text", "function_name text, argument_types frozen<list<text>>",
        "argument_names frozen<list<text>>, body text, called_on_null_input boolean, language text, \
         return_type text",
        "user defined function definitions"),
    table("system_schema", "indexes", "keyspace_name text", "table_name text, index_name text",
        "kind text, options frozen<map<text, text>>", "secondary index definitions"),
    table("system_schema", "keyspaces", "keyspace_name text", "",
        "durable_writes boolean, replication frozen<map<text, text>>", "keyspace definitions"),
    table("system_schema", "tables", "keyspace_name text", "table_name text",
        "flags frozen<set<text>>", "table definitions"),
    table("system_schema", "triggers", "keyspace_name text", "table_name text, trigger_name text",
        "options frozen<map<text, text>>", "trigger definitions"),
    table("system_schema", "types", "keyspace_name text", "type_name text",
        "field_names frozen<list<text>>, field_types frozen<list<text>>", "user defined type definitions"),
    table("system_schema", "views", "keyspace_name text", "view_name text",
        "base_table_id uuid, base_table_name text, include_all_columns boolean, where_clause text",
        "view definitions"),
];

#[rustfmt::skip]
pub(super) const VIRTUAL_SCHEMA: &[Definition] = &[
    table("system_virtual_schema", "columns", "keyspace_name text", "table_name text, column_name text",
        COLUMNS_OF_COLUMNS, "virtual column definitions"),
    table("system_virtual_schema", "keyspaces", "keyspace_name text", "", "", "virtual keyspace definitions"),
    table("system_virtual_schema", "tables", "keyspace_name text", "table_name text",
        "comment text", "virtual table definitions"),
];
