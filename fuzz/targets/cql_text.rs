//! CQL text of any kind: parsing never panics, and what parses can be prepared or is refused.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use schema::{Keyspace, Schema};

#[path = "../../crates/sstable/tests/it/samples.rs"]
#[allow(dead_code, reason = "shared with the tests of sstable")]
mod samples;

static SCHEMA: OnceLock<Arc<Schema>> = OnceLock::new();

fn build() -> Arc<Schema> {
    let mut keyspace = Keyspace::new("ks", schema::Replication::Simple { factor: 1 });
    for table in samples::tables() {
        keyspace.tables.insert(table.name.clone(), table);
    }
    let keyspaces = [(Arc::from("ks"), Arc::new(keyspace))].into();
    Arc::new(Schema::new(1, keyspaces))
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(statement) = cql::parse(text) {
        let schema = SCHEMA.get_or_init(build);
        let _ = cql::prepare(schema, Some("ks"), statement);
    }
    let _ = types::CqlType::parse(text);
    let _ = types::CqlType::parse_class(text);
});
