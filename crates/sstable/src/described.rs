//! A table as the header of an sstable describes it: what tools work with that have no schema.
//!
//! Column names and types are those of the file, in its order, so that ordinals ascend as cells stand on disk. Key columns
//! have no names there; they get those that Cassandra's tools give them.

use schema::{ColumnKind, Order, Table, TableBuilder, TableId};
use std::sync::Arc;
use types::CqlType;
use types::class::PREFIX;

use crate::shape::sort_as_listed;
use crate::statistics::Header;

impl Header {
    /// The table it describes. Errors: what cannot be understood, in words.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<Arc<Table>, String> {
        let parse = |class: &str| {
            CqlType::parse_class_reversed(class).map_err(|error| format!("type \"{class}\": {error}"))
        };
        let mut builder = TableBuilder::new(keyspace, name, TableId(0));
        for (index, class) in key_classes(&self.key_type).into_iter().enumerate() {
            let name = if index == 0 { "PartitionKey".to_string() } else { format!("PartitionKey{index}") };
            builder = builder.partition_key(&name, parse(class)?.0);
        }
        for (index, class) in self.clustering_types.iter().enumerate() {
            let (ty, reversed) = parse(class)?;
            let order = if reversed { Order::Descending } else { Order::Ascending };
            let name = if index == 0 { "clustering".to_string() } else { format!("clustering{index}") };
            builder = builder.clustering(&name, ty, order);
        }
        for (columns, kind) in [(&self.statics, ColumnKind::Static), (&self.regulars, ColumnKind::Regular)] {
            let mut typed = Vec::with_capacity(columns.len());
            for (name, class) in columns {
                typed.push((name, parse(class)?.0));
            }
            sort_as_listed(&mut typed, |(name, ty)| (ty.is_multi_cell(), name));
            for (name, ty) in typed {
                builder.add(name, kind, ty);
            }
        }
        builder.build().map(Arc::new).map_err(|error| error.to_string())
    }

    /// Classes of the components of the partition key.
    pub fn key_classes(&self) -> Vec<&str> {
        key_classes(&self.key_type)
    }
}

/// The components of `CompositeType(a,b)`; any other class is the only one.
fn key_classes(class: &str) -> Vec<&str> {
    let short = class.strip_prefix(PREFIX).unwrap_or(class);
    let Some(inside) = short.strip_prefix("CompositeType(").and_then(|rest| rest.strip_suffix(')')) else {
        return vec![class];
    };
    let (mut classes, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, symbol) in inside.char_indices() {
        match symbol {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                classes.push(inside[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    classes.push(inside[start..].trim());
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_keys_are_taken_apart() {
        let class = |name: &str| format!("{PREFIX}{name}");
        assert_eq!(key_classes(&class("Int32Type")), [class("Int32Type")]);
        assert_eq!(
            key_classes("CompositeType(Int32Type,TupleType(A,B),X)"),
            ["Int32Type", "TupleType(A,B)", "X"]
        );
    }
}
