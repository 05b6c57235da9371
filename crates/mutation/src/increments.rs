//! Increments of counters become what their leader has counted since it began: the only thing that is kept and sent.
//!
//! An increment is a mutation of a counter table whose counter cells hold 8 bytes, what is to be added. It goes from a
//! client to the leader of its partition and no further: merged as a cell it would be applied as often as it arrives.
//! [`count`] turns it into cells with one shard, the leader's, which can be merged any number of times. Deletions in it
//! stay as they are. See `docs/mechanisms/counters.md`.

use crate::cell::Cell;
use crate::command::{Slice, Slices};
use crate::counter::{Count, counted_by, one_shard};
use crate::deletion::Deletion;
use crate::deletion::Liveness;
use crate::encoded::{Item, Mutation, MutationBuilder};
use crate::error::Error;
use crate::limits::SLICES_MAX;
use crate::ranges::RangeTombstone;
use crate::row::{ColumnView, RowView, RowWriter};
use base::HostId;
use schema::{Position, Table};
use std::collections::BTreeMap;

/// The rows whose counters some increments of one partition change, as a read asks for them; the whole partition where they are many.
/// Errors: a clustering does not fit the table.
pub fn counted_rows(table: &Table, increments: &[Mutation]) -> Result<Slices, Error> {
    let mut positions: Vec<Position> = Vec::new();
    for increment in increments {
        for (clustering, body) in increment.view().rows() {
            if RowView::new(body).columns().any(|(_, column)| is_increment(&column)) {
                positions.push(table.position(clustering)?);
            }
        }
    }
    positions.sort_unstable();
    positions.dedup();
    if SLICES_MAX < positions.len() {
        return Ok(std::iter::once(Slice::all()).collect());
    }
    Ok(positions.into_iter().map(|start| Slice { end: start.successor(), start }).collect())
}

/// What a leader writes and sends for increments of one partition, of which it is told what it has: all versions merged,
/// without what is deleted. Later increments come behind earlier ones.
/// Units:  `now` in microseconds since the Unix epoch: what clocks begin with, and never fall behind.
/// Shape:  nothing, for no increments. O(cells).
/// Errors: an increment that is none, a counter that cannot be read, a clustering that does not fit the table.
pub fn count(
    table: &Table,
    id: HostId,
    known: &[Mutation],
    increments: &[Mutation],
    now: i64,
) -> Result<Option<Mutation>, Error> {
    let Some(first) = increments.first() else { return Ok(None) };
    let mut tally = Tally { table, id, now, own: BTreeMap::new(), rows: BTreeMap::new() };
    for part in known {
        tally.know(part)?;
    }
    let mut deletion = Deletion::LIVE;
    let mut ranges = Vec::new();
    for increment in increments {
        let view = increment.view();
        deletion = deletion.max(view.deletion);
        if let Some(body) = view.static_row {
            tally.add(None, &[], body)?;
        }
        for item in view.items() {
            match item {
                Item::Row { clustering, body } => {
                    tally.add(Some(table.position(clustering)?), clustering, body)?;
                }
                Item::Range { start, end, deletion } => {
                    let (start, end) = (start.to_bound(), end.to_bound());
                    ranges.push(RangeTombstone { start, end, deletion });
                }
            }
        }
    }
    let mut builder = MutationBuilder::new(first.table(), first.token(), first.view().key);
    builder.deletion(deletion);
    tally.write(&mut builder);
    ranges.iter().for_each(|range| builder.range(range));
    Ok(Some(builder.finish()))
}

/// A row by position; `None` is the static row, which comes first.
type Place = Option<Position>;

struct Tally<'t> {
    table: &'t Table,
    id: HostId,
    now: i64,
    /// What the leader has counted, cell by cell.
    own: BTreeMap<(Place, u16), Count>,
    rows: BTreeMap<Place, Changed>,
}

/// What becomes of a row.
struct Changed {
    clustering: Box<[u8]>,
    deletion: Deletion,
    cells: BTreeMap<u16, Outcome>,
}

#[derive(Clone, Copy)]
enum Outcome {
    Counted { timestamp: i64, count: Count },
    Deleted { timestamp: i64, local_time: u32 },
}

fn is_increment(column: &ColumnView<'_>) -> bool {
    matches!(column, ColumnView::Simple(cell) if !cell.is_tombstone())
}

impl Tally<'_> {
    fn know(&mut self, known: &Mutation) -> Result<(), Error> {
        let view = known.view();
        if let Some(body) = view.static_row {
            self.know_row(None, body)?;
        }
        for (clustering, body) in view.rows() {
            self.know_row(Some(self.table.position(clustering)?), body)?;
        }
        Ok(())
    }

    fn know_row(&mut self, place: Place, body: &[u8]) -> Result<(), Error> {
        for (ordinal, column) in RowView::new(body).columns() {
            let ColumnView::Simple(Cell { value: Some(context), .. }) = column else { continue };
            let own = counted_by(context, self.id);
            let own = own.ok_or(Error::Malformed { offset: 0, expected: "the shards of a counter" })?;
            self.own.insert((place.clone(), ordinal), own);
        }
        Ok(())
    }

    fn add(&mut self, place: Place, clustering: &[u8], body: &[u8]) -> Result<(), Error> {
        let row = RowView::new(body);
        let changed = self.rows.entry(place.clone()).or_insert_with(|| Changed {
            clustering: clustering.into(),
            deletion: Deletion::LIVE,
            cells: BTreeMap::new(),
        });
        changed.deletion = changed.deletion.max(row.deletion());
        for (ordinal, column) in row.columns() {
            let ColumnView::Simple(cell) = column else {
                return Err(Error::Malformed { offset: 0, expected: "a counter, which is one cell" });
            };
            let earlier = changed.cells.get(&ordinal).copied();
            let Some(value) = cell.value else {
                let deleted = Outcome::Deleted { timestamp: cell.timestamp, local_time: cell.local_time };
                changed.cells.insert(ordinal, deleted);
                continue;
            };
            // A deletion of a counter wins whatever the times are.
            if let Some(Outcome::Deleted { .. }) = earlier {
                continue;
            }
            let by = value.try_into().map(i64::from_be_bytes);
            let by =
                by.map_err(|_| Error::Malformed { offset: 0, expected: "8 bytes to add to a counter" })?;
            let own = self.own.entry((place.clone(), ordinal)).or_default();
            *own =
                Count { clock: self.now.max(own.clock.saturating_add(1)), count: own.count.wrapping_add(by) };
            let timestamp = match earlier {
                Some(Outcome::Counted { timestamp, .. }) => timestamp.max(cell.timestamp),
                Some(Outcome::Deleted { .. }) | None => cell.timestamp,
            };
            changed.cells.insert(ordinal, Outcome::Counted { timestamp, count: *own });
        }
        Ok(())
    }

    /// What rows become; a cell that a deletion of its row beside it covers is left out.
    fn write(&self, builder: &mut MutationBuilder) {
        for (place, changed) in &self.rows {
            let write = |row: &mut RowWriter<'_>| {
                for (ordinal, outcome) in &changed.cells {
                    match outcome {
                        Outcome::Counted { timestamp, count } if !changed.deletion.deletes(*timestamp) => {
                            row.simple(*ordinal, Cell::live(*timestamp, &one_shard(self.id, *count)));
                        }
                        Outcome::Deleted { timestamp, local_time }
                            if !changed.deletion.deletes(*timestamp) =>
                        {
                            row.simple(*ordinal, Cell::tombstone(*timestamp, *local_time));
                        }
                        Outcome::Counted { .. } | Outcome::Deleted { .. } => {}
                    }
                }
            };
            match place {
                None => builder.static_row_with(|out| {
                    write(&mut RowWriter::new(out, Liveness::NONE, changed.deletion));
                }),
                Some(_) => {
                    builder.write_row(&changed.clustering, Liveness::NONE, changed.deletion, write);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a leader counts goes on from what it has, and from nothing else.
    use super::*;
    use crate::counter::{counter_total, merge};
    use schema::{TableBuilder, TableId};
    use types::CqlType;

    fn counters() -> Table {
        let builder = TableBuilder::new("ks", "c", TableId(8)).partition_key("k", CqlType::Text);
        builder.regular("n", CqlType::Counter).build().expect("a sound table")
    }

    fn increment(table: &Table, at: i64, by: i64) -> Mutation {
        let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| {
            row.simple(0, Cell::live(at, &by.to_be_bytes()));
        });
        builder.finish()
    }

    fn context(of: &Mutation) -> Vec<u8> {
        let view = of.view();
        let (_, body) = view.rows().next().expect("a row");
        let Some(ColumnView::Simple(cell)) = RowView::new(body).column(0) else { panic!("a counter") };
        cell.value.expect("live").to_vec()
    }

    fn counted(table: &Table, id: u128, known: &[Mutation], by: &[i64], now: i64) -> Mutation {
        let increments: Vec<Mutation> = by.iter().map(|by| increment(table, now, *by)).collect();
        count(table, HostId(id), known, &increments, now).expect("increments").expect("some")
    }

    #[test]
    fn a_leader_goes_on_from_its_own_shard_alone() {
        let table = counters();
        let first = counted(&table, 1, &[], &[5, 7], 100);
        assert_eq!(counter_total(&context(&first)), Some(12));
        let of_other = counted(&table, 2, std::slice::from_ref(&first), &[-2], 200);
        assert_eq!(counter_total(&context(&of_other)), Some(-2), "its own shard, and nothing of others");
        let both = merge(&context(&first), &context(&of_other)).expect("well formed");
        assert_eq!(counter_total(&both), Some(10));
        // A clock that goes back does not take back what was counted.
        let later = counted(&table, 1, std::slice::from_ref(&first), &[1], 50);
        let merged = merge(&context(&later), &both).expect("well formed");
        assert_eq!(counter_total(&merged), Some(11));
        assert_eq!(merge(&merged, &context(&later)), Some(merged.clone()), "as often as it arrives");
    }

    #[test]
    fn what_cassandra_has_counted_stays_in_the_sum() {
        let table = counters();
        // A local shard of 40 and a remote one of 2, as releases before 2.1 wrote them.
        let mut old = vec![0, 1, 0, 0];
        for (id, count) in [(7u128, 40i64), (8, 2)] {
            old.extend(id.to_be_bytes());
            old.extend(1i64.to_be_bytes());
            old.extend(count.to_be_bytes());
        }
        let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| row.simple(0, Cell::live(1, &old)));
        let imported = builder.finish();
        let first = counted(&table, 1, std::slice::from_ref(&imported), &[5], 100);
        let both = merge(&old, &context(&first)).expect("well formed");
        assert_eq!(counter_total(&both), Some(47));
        let second = counted(&table, 1, &[imported, first], &[-7], 200);
        assert_eq!(counter_total(&merge(&both, &context(&second)).expect("well formed")), Some(40));
    }

    #[test]
    fn what_is_no_increment_is_refused() {
        let table = counters();
        let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| row.simple(0, Cell::live(1, b"four")));
        let odd = builder.finish();
        assert!(count(&table, HostId(1), &[], &[odd], 1).is_err());
        assert_eq!(count(&table, HostId(1), &[], &[], 1), Ok(None));
    }

    #[test]
    fn deletions_stay_and_win() {
        let table = counters();
        let mut builder = MutationBuilder::new(table.id, base::Token::of_key(b"k"), b"k");
        builder.write_row(&[], Liveness::NONE, Deletion::LIVE, |row| row.simple(0, Cell::tombstone(9, 1)));
        let parts = [increment(&table, 10, 1), builder.finish(), increment(&table, 11, 1)];
        let together = count(&table, HostId(1), &[], &parts, 11).expect("increments").expect("some");
        let view = together.view();
        let (_, body) = view.rows().next().expect("a row");
        let Some(ColumnView::Simple(cell)) = RowView::new(body).column(0) else { panic!("a counter") };
        assert_eq!(cell, Cell::tombstone(9, 1));
    }
}
