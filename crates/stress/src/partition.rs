//! The rows of a partition: every combination of the values that its clustering columns take.
//!
//! ```text
//!  seed ─► key ─fold─► identity ─► values of the first clustering column ─fold of the first─► values of the second ─► …
//!                                                          row seed = fold of the last one's value ─► other columns
//! ```
//! Each clustering column takes the same values below every value of the one before it. So a row is a number, from which its values
//! are found without making the others.

use crate::column::Column;
use crate::settings::Order;
use base::Prng;
use protocol::values::ValuesBuilder;
use protocol::wire::RawValue;
use std::collections::BTreeSet;

/// Makes the rows of one table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Partition key columns.
    pub key: Vec<Column>,
    /// Clustering columns.
    pub clustering: Vec<Column>,
    /// The others, in order of their names.
    pub values: Vec<Column>,
    /// In which order rows are made.
    pub order: Order,
    scratch: Vec<u8>,
}

/// A column's place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Of the partition key.
    Key(usize),
    /// Of the clustering columns.
    Clustering(usize),
    /// Of the others.
    Value(usize),
}

/// One partition's keys; its rows are numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    key: Vec<Vec<u8>>,
    /// Values of each clustering column.
    levels: Vec<Vec<Vec<u8>>>,
    /// Seeds the rows: the identity, or the fold of the last clustering column's first value.
    seed: i64,
}

/// How far the keys of a partition have been made.
#[derive(Debug, Default)]
pub struct Filling {
    level: Option<Level>,
}

/// The values of one clustering column, none twice.
#[derive(Debug, Default)]
struct Level {
    /// How many are made, of how many.
    made: u64,
    count: u64,
    known: BTreeSet<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

impl Table {
    /// A table of these columns.
    pub fn new(key: Vec<Column>, clustering: Vec<Column>, values: Vec<Column>, order: Order) -> Table {
        Table { key, clustering, values, order, scratch: Vec::new() }
    }

    /// Where a column stands.
    pub fn find(&self, name: &str) -> Option<Argument> {
        let at = |columns: &[Column]| columns.iter().position(|column| column.name() == name);
        let key = at(&self.key).map(Argument::Key);
        key.or_else(|| at(&self.clustering).map(Argument::Clustering))
            .or_else(|| at(&self.values).map(Argument::Value))
    }

    /// Least and most rows of a partition.
    pub fn bounds(&self) -> (f64, f64) {
        let product = |bound: fn(&Column) -> i64| self.clustering.iter().map(|c| bound(c) as f64).product();
        (product(|column| column.cluster().min()), product(|column| column.cluster().max()))
    }

    /// Makes the partition key of a seed; the values of clustering columns follow with [`Table::fill_on`].
    pub fn fill(&mut self, seed: i64, partition: &mut Partition) -> Filling {
        partition.key.clear();
        partition.levels.clear();
        let mut identity = 0;
        for column in &mut self.key {
            column.seed(seed);
            let mut value = Vec::new();
            column.put(&mut value);
            identity = column.fold(identity, &value);
            partition.key.push(value);
        }
        partition.seed = identity;
        Filling::default()
    }

    /// Makes up to so many values of clustering columns; true when there are no more to make. Those of one column are put in order
    /// in one piece.
    pub fn fill_on(
        &mut self,
        filling: &mut Filling,
        mut most: usize,
        rng: &mut Prng,
        partition: &mut Partition,
    ) -> bool {
        while let Some(column) = self.clustering.get_mut(partition.levels.len()) {
            let level = filling.level.get_or_insert_with(|| {
                column.seed(partition.seed);
                Level { count: column.count(), ..Level::default() }
            });
            while level.made < level.count {
                if most == 0 {
                    return false;
                }
                most -= 1;
                level.make(column);
            }
            let mut values = filling.level.take().map(|level| level.values).unwrap_or_default();
            if self.order == Order::Sorted {
                values.sort_by(|a, b| column.java_order(a, b).unwrap_or(std::cmp::Ordering::Equal));
            }
            // There is one at least.
            partition.seed = column.fold(partition.seed, values.first().map_or(&[], Vec::as_slice));
            if self.order == Order::Shuffled {
                shuffle(&mut values, rng);
            }
            partition.levels.push(values);
        }
        true
    }

    /// What the other columns of a row follow from.
    pub fn row_seed(&self, partition: &Partition, row: u64) -> i64 {
        match self.clustering.last() {
            None => partition.seed,
            Some(column) => column.fold(partition.seed, partition.clustering(row, self.clustering.len() - 1)),
        }
    }

    /// The value of one of the other columns in a row.
    fn value(&mut self, at: usize, row_seed: i64) -> &[u8] {
        self.scratch.clear();
        self.values[at].seed(row_seed);
        self.values[at].put(&mut self.scratch);
        &self.scratch
    }

    /// Binds the arguments of a row. Of the columns that are no keys those beyond a share are null.
    pub fn bind(
        &mut self,
        partition: &Partition,
        row: u64,
        arguments: &[Argument],
        share: f64,
        out: &mut ValuesBuilder,
    ) {
        let seed = self.row_seed(partition, row);
        for argument in arguments {
            match argument {
                Argument::Key(at) => out.bytes(&partition.key[*at]),
                Argument::Clustering(at) => out.bytes(partition.clustering(row, *at)),
                Argument::Value(at) if (at + 1) as f64 / self.values.len() as f64 > share => {
                    out.push(RawValue::Null)
                }
                Argument::Value(at) => out.bytes(self.value(*at, seed)),
            };
        }
    }

    /// Whether the values of a row are those of a partition's row, column by column; of columns without a place, null.
    pub fn is_row<'v>(
        &mut self,
        partition: &Partition,
        row: u64,
        shown: impl Iterator<Item = (Option<Argument>, Option<&'v [u8]>)>,
    ) -> bool {
        let seed = self.row_seed(partition, row);
        for (argument, shown) in shown {
            let same = match argument {
                None => shown.is_none(),
                Some(Argument::Key(at)) => shown == Some(&partition.key[at]),
                Some(Argument::Clustering(at)) => shown == Some(partition.clustering(row, at)),
                Some(Argument::Value(at)) => shown == Some(self.value(at, seed)),
            };
            if !same {
                return false;
            }
        }
        true
    }
}

impl Level {
    /// Makes one more, unless it is there already.
    fn make(&mut self, column: &mut Column) {
        self.made += 1;
        let mut value = Vec::new();
        column.put(&mut value);
        if self.count == 1 || self.known.insert(value.clone()) {
            self.values.push(value);
        }
    }
}

fn shuffle(values: &mut [Vec<u8>], rng: &mut Prng) {
    for at in (1..values.len()).rev() {
        values.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

impl Partition {
    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.levels.iter().fold(1, |rows: u64, level| rows.saturating_mul(level.len() as u64))
    }

    /// The values of the partition key.
    pub fn key(&self) -> &[Vec<u8>] {
        &self.key
    }

    /// The values of a clustering column.
    pub fn level(&self, at: usize) -> &[Vec<u8>] {
        &self.levels[at]
    }

    /// Which of a clustering column's values a row has.
    pub fn place(&self, row: u64, at: usize) -> usize {
        let below: u64 = self.levels[at + 1..].iter().map(|level| level.len() as u64).product();
        (row / below % self.levels[at].len() as u64) as usize
    }

    /// A row's value of a clustering column.
    pub fn clustering(&self, row: u64, at: usize) -> &[u8] {
        &self.levels[at][self.place(row, at)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::profile::ColumnSpec;
    use types::CqlType;

    fn column(name: &str, ty: CqlType, cluster: i64) -> Column {
        let spec = ColumnSpec { cluster: Some(Distribution::fixed(cluster)), ..ColumnSpec::default() };
        Column::new(name, &ty, &spec).expect("a type with values")
    }

    fn table(order: Order) -> Table {
        Table::new(
            vec![column("k", CqlType::Text, 1)],
            vec![column("a", CqlType::Int, 3), column("b", CqlType::Text, 4)],
            vec![column("v", CqlType::Blob, 1), column("w", CqlType::Bigint, 1)],
            order,
        )
    }

    fn filled(table: &mut Table, seed: i64) -> Partition {
        let mut partition = Partition::default();
        let mut rng = Prng::new(9);
        let mut filling = table.fill(seed, &mut partition);
        // Seven values in all: two, two, two, one.
        let turns = (0..).take_while(|_| !table.fill_on(&mut filling, 2, &mut rng, &mut partition)).count();
        assert_eq!(turns, 3);
        partition
    }

    #[test]
    fn rows_are_all_combinations_and_follow_from_the_seed() {
        let mut table = table(Order::Arbitrary);
        let partition = filled(&mut table, 7);
        assert_eq!(partition.rows(), 12);
        let places: BTreeSet<(usize, usize)> =
            (0..12).map(|row| (partition.place(row, 0), partition.place(row, 1))).collect();
        assert_eq!(places.len(), 12);
        let again = filled(&mut table, 7);
        assert_eq!((again.key(), again.level(1)), (partition.key(), partition.level(1)));
        // Rows whose last clustering value is the same have the same other values: it alone seeds them.
        assert_eq!(table.row_seed(&partition, 2), table.row_seed(&partition, 6));
        assert_ne!(table.row_seed(&partition, 2), table.row_seed(&partition, 3));
    }

    #[test]
    fn an_order_changes_which_rows_there_are_only_where_it_seeds_them() {
        let arbitrary = filled(&mut table(Order::Arbitrary), 7);
        let shuffled = filled(&mut table(Order::Shuffled), 7);
        let set = |partition: &Partition, at| partition.level(at).iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!((set(&arbitrary, 0), set(&arbitrary, 1)), (set(&shuffled, 0), set(&shuffled, 1)));
        let sorted = filled(&mut table(Order::Sorted), 7);
        assert_eq!(set(&arbitrary, 0), set(&sorted, 0));
        assert!(sorted.level(1).is_sorted());
    }

    #[test]
    fn what_is_bound_is_recognised() {
        let mut table = table(Order::Arbitrary);
        let partition = filled(&mut table, 3);
        let all = ["k", "a", "b", "v", "w"].map(|name| table.find(name).expect("a column"));
        let mut bound = ValuesBuilder::new();
        table.bind(&partition, 5, &all, 1.0, &mut bound);
        let shown: Vec<Option<Vec<u8>>> = bound
            .values()
            .iter()
            .map(|(_, value)| match value {
                RawValue::Bytes(bytes) => Some(bytes.to_vec()),
                _ => None,
            })
            .collect();
        let pairs = || all.iter().copied().map(Some).zip(shown.iter().map(Option::as_deref));
        assert!(table.is_row(&partition, 5, pairs()));
        assert!(!table.is_row(&partition, 6, pairs()));
        bound.clear();
        table.bind(&partition, 5, &all, 0.5, &mut bound);
        let nulls = bound.values().iter().filter(|(_, value)| *value == RawValue::Null).count();
        assert_eq!((nulls, table.find("x")), (1, None));
    }
}
