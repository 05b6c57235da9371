//! The encodings that cross the commitlog and the network: mutations, read commands, answers, schemas, values.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use mutation::{Mutation, ReadAnswer, ReadCommand};
use schema::{Schema, Table};

#[path = "../../crates/sstable/tests/it/samples.rs"]
#[allow(dead_code, reason = "shared with the tests of sstable")]
mod samples;

static TABLES: OnceLock<Vec<Arc<Table>>> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    match mode % 5 {
        0 => {
            if let Ok(mutation) = Mutation::from_bytes(rest.to_vec()) {
                let rows = mutation.view().rows().count();
                assert!(rows <= rest.len());
                assert_eq!(mutation.as_bytes(), rest);
            }
        }
        1 => {
            if let Ok(command) = ReadCommand::decode(rest) {
                let mut again = Vec::new();
                command.encode(&mut again);
                assert_eq!(ReadCommand::decode(&again).ok(), Some(command));
            }
        }
        2 => drop(ReadAnswer::decode(rest)),
        3 => drop(Schema::decode(rest)),
        _ => {
            let tables = TABLES.get_or_init(samples::tables);
            let table = &tables[usize::from(mode / 5) % tables.len()];
            for column in table.columns() {
                let _ = column.ty.validate(rest);
                if column.ty.validate(rest).is_ok() {
                    let _ = types::Value::decode(&column.ty, rest);
                }
            }
        }
    }
});
