//! A batch as a row of `system.batches`, and as a message to who keeps it.

use crate::error::Error;
use base::{ByteReader, Token, shard_of};
use mutation::{Cell, ColumnView, Deletion, Key, Liveness, Mutation, MutationBuilder, RowView};
use runtime::ShardId;
use schema::{Schema, Table};
use std::sync::Arc;
use storage::{Planned, Point};

/// How the mutations of a batch are encoded: the first element of the list is the point that the batch was planned on, u64 epoch and u64
/// index; each other one is a mutation. On disk: a batch of another version is let go, but for [`VERSION_ALONE`].
pub(super) const VERSION: i32 = 2;
/// Each element is a mutation; the node was alone.
pub(super) const VERSION_ALONE: i32 = 1;
/// Columns of `system.batches`, in the order of their names.
const MUTATIONS: u16 = 0;
const VERSION_COLUMN: u16 = 1;

/// A batch on its way through the table.
#[derive(Clone)]
pub(super) struct Entry {
    table: Arc<Table>,
    pub(super) key: Key,
    /// Its time, of the clock that tells truncations, too; and the point that its mutations were planned on.
    pub(super) planned: Planned,
}

/// A batch as it was found in the table.
pub(super) struct Found {
    pub(super) key: Key,
    pub(super) planned: Planned,
    pub(super) version: i32,
    pub(super) mutations: Vec<Vec<u8>>,
}

/// The table of batches.
pub(super) fn batches(schema: &Schema) -> Result<Arc<Table>, Error> {
    schema.table("system", "batches").cloned().ok_or(Error::UnknownTable)
}

/// The shard of this node that owns a token.
pub(super) fn owner(token: Token) -> ShardId {
    ShardId(shard_of(token, runtime::shard_count()))
}

impl Entry {
    /// An id whose token this shard owns, so that writing it here is no message.
    pub(super) fn drawn(table: Arc<Table>, planned: Planned) -> Entry {
        let here = runtime::shard();
        loop {
            let id = types::timeuuid::from_ticks(planned.at.saturating_mul(10), runtime::random_u64());
            let key = Key::new(id.as_bytes());
            if owner(key.token) == here {
                return Entry { table, key, planned };
            }
        }
    }

    /// One that is known by its key.
    pub(super) fn known(table: Arc<Table>, key: Key, planned: Planned) -> Entry {
        Entry { table, key, planned }
    }

    /// The row that holds the batch, in place of an older one under its id.
    pub(super) fn put<'a>(&self, mutations: impl Iterator<Item = &'a [u8]>) -> Mutation {
        let Planned { at, on } = self.planned;
        let replaced = Deletion { timestamp: at - 1, local_time: (at / 1_000_000) as u32 };
        let mut builder = MutationBuilder::new(self.table.id, self.key.token, &self.key.bytes);
        builder.write_row(&[], Liveness::at(at), Deletion::LIVE, |row| {
            row.complex_start(MUTATIONS, replaced);
            // Paths of a list are timeuuids, here those of the batch's time and of the place.
            let path = |place: i64| types::timeuuid::from_ticks(at.saturating_mul(10) + place, 0);
            let point = [on.0.to_be_bytes(), on.1.to_be_bytes()].concat();
            row.complex_cell(path(0).as_bytes(), Cell::live(at, &point));
            for (place, element) in (1..).zip(mutations) {
                row.complex_cell(path(place).as_bytes(), Cell::live(at, element));
            }
            row.complex_end();
            row.simple(VERSION_COLUMN, Cell::live(at, &VERSION.to_be_bytes()));
        });
        builder.finish()
    }

    /// What takes the row away again.
    pub(super) fn removal(&self) -> Mutation {
        let local_time = runtime::unix_seconds();
        let mut builder = MutationBuilder::new(self.table.id, self.key.token, &self.key.bytes);
        builder.deletion(Deletion { timestamp: self.planned.at, local_time });
        builder.finish()
    }
}

impl Found {
    /// The batch of a partition; `None`: it is gone.
    pub(super) fn read(partition: &Mutation) -> Option<Found> {
        let view = partition.view();
        let (_, body) = view.rows().next()?;
        Found::of_row(Key::with_token(view.token, view.key), body)
    }

    fn of_row(key: Key, body: &[u8]) -> Option<Found> {
        let row = RowView::new(body);
        let Some(ColumnView::Complex(list)) = row.column(MUTATIONS) else { return None };
        let Some(ColumnView::Simple(version)) = row.column(VERSION_COLUMN) else { return None };
        let version = i32::from_be_bytes(version.value?.try_into().ok()?);
        let mut elements = list.cells().filter_map(|(_, cell)| cell.value);
        let on = if version == VERSION { point_of_element(elements.next()?) } else { Some(Point::ALONE) };
        Some(Found {
            key,
            planned: Planned { on: on?, at: row.liveness().timestamp },
            version,
            mutations: elements.map(<[u8]>::to_vec).collect(),
        })
    }
}

/// The point that a batch was planned on.
fn point_of_element(bytes: &[u8]) -> Option<Point> {
    let (epoch, index) = bytes.split_at_checked(8)?;
    Some(Point(u64::from_be_bytes(epoch.try_into().ok()?), u64::from_be_bytes(index.try_into().ok()?)))
}

const STORE: u8 = 1;
const REMOVE: u8 = 2;

/// What who keeps a batch is asked. On the wire between releases: fields are only appended behind; what is behind those known here is skipped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Keep it; answer when it is as durable as any write.
    Store { key: Key, planned: Planned, mutations: Vec<Mutation> },
    /// It is written: nothing of it up to this time is wanted any more.
    Remove { key: Key, at: i64 },
}

impl Message {
    /// Appends [`Message::Store`].
    pub(super) fn encode_store(entry: &Entry, mutations: &[Mutation], out: &mut Vec<u8>) {
        out.push(STORE);
        out.extend_from_slice(&entry.key.bytes);
        let Planned { at, on: Point(epoch, index) } = entry.planned;
        out.extend_from_slice(&at.to_be_bytes());
        out.extend_from_slice(&epoch.to_be_bytes());
        out.extend_from_slice(&index.to_be_bytes());
        out.extend_from_slice(&(mutations.len() as u32).to_be_bytes());
        for mutation in mutations {
            out.extend_from_slice(&(mutation.as_bytes().len() as u32).to_be_bytes());
            out.extend_from_slice(mutation.as_bytes());
        }
    }

    /// Appends [`Message::Remove`].
    pub(super) fn encode_remove(entry: &Entry, out: &mut Vec<u8>) {
        out.push(REMOVE);
        out.extend_from_slice(&entry.key.bytes);
        out.extend_from_slice(&entry.planned.at.to_be_bytes());
    }

    /// Reads either, checking every length in it; `None`: these bytes are neither.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let mut input = ByteReader::new(bytes);
        let kind = input.u8().ok()?;
        let id: [u8; 16] = input.array().ok()?;
        let (key, at) = (Key::new(&id), input.i64().ok()?);
        match kind {
            STORE => {
                let on = Point(input.u64().ok()?, input.u64().ok()?);
                let count = input.u32().ok()?;
                let mut mutations = Vec::new();
                for _ in 0..count {
                    let length = input.u32().ok()? as usize;
                    let bytes = input.bytes(length).ok()?;
                    mutations.push(Mutation::from_bytes(bytes.to_vec()).ok()?);
                }
                Some(Message::Store { key, planned: Planned { on, at }, mutations })
            }
            REMOVE => Some(Message::Remove { key, at }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{TableBuilder, TableId};
    use types::CqlType;

    fn batches() -> Arc<Table> {
        let builder = TableBuilder::new("system", "batches", TableId(7))
            .partition_key("id", CqlType::Timeuuid)
            .regular("mutations", CqlType::list(CqlType::Blob))
            .regular("version", CqlType::Int);
        Arc::new(builder.build().expect("a good table"))
    }

    fn mutation(n: u8) -> Mutation {
        let mut builder = MutationBuilder::new(TableId(9), Token(i64::from(n)), &[n]);
        builder.write_row(&[], Liveness::at(5), Deletion::LIVE, |_| {});
        builder.finish()
    }

    fn entry(at: i64, on: Point) -> Entry {
        Entry::known(batches(), Key::new(&[3; 16]), Planned { on, at })
    }

    #[test]
    fn a_batch_is_read_back_in_its_order_until_it_is_removed() {
        let entry = entry(1_000_000, Point(1, 77));
        let mutations: Vec<Mutation> = (0..40).map(mutation).collect();
        let put = entry.put(mutations.iter().map(Mutation::as_bytes));
        let found = Found::read(&put).expect("it is there");
        assert_eq!((found.key, found.version), (entry.key.clone(), VERSION));
        assert_eq!(found.planned, entry.planned);
        let expected: Vec<Vec<u8>> = mutations.iter().map(|m| m.as_bytes().to_vec()).collect();
        assert_eq!(found.mutations, expected);
        let ordinals = |name| entry.table.regulars.iter().find(|c| &*c.name == name).map(|c| c.ordinal);
        assert_eq!(ordinals("mutations"), Some(MUTATIONS));
        assert_eq!(ordinals("version"), Some(VERSION_COLUMN));
    }

    #[test]
    fn what_is_stored_anew_takes_the_place_of_what_was_stored() {
        let (older, newer) = (entry(1_000_000, Point(1, 77)), entry(1_000_001, Point(1, 80)));
        let body = |entry: &Entry, range: std::ops::Range<u8>| {
            let mutations: Vec<Mutation> = range.map(self::mutation).collect();
            let put = entry.put(mutations.iter().map(Mutation::as_bytes));
            put.view().rows().next().expect("a row").1.to_vec()
        };
        let (first, second) = (body(&older, 0..9), body(&newer, 0..2));
        for (left, right) in [(&first, &second), (&second, &first)] {
            let mut merged = Vec::new();
            mutation::merge_rows(&newer.table, false, left, right, &mut merged);
            let found = Found::of_row(newer.key.clone(), &merged).expect("it is there");
            assert_eq!((found.planned, found.mutations.len()), (newer.planned, 2));
        }
    }

    #[test]
    fn messages_read_back_and_are_never_read_from_less() {
        let entry = entry(1_700_000_000_000_000, Point(2, u64::MAX));
        let mutations: Vec<Mutation> = (0..3).map(mutation).collect();
        let mut store = Vec::new();
        Message::encode_store(&entry, &mutations, &mut store);
        let (key, planned) = (entry.key.clone(), entry.planned);
        let expected = Message::Store { key: key.clone(), planned, mutations };
        assert_eq!(Message::decode(&store), Some(expected));
        let mut remove = Vec::new();
        Message::encode_remove(&entry, &mut remove);
        assert_eq!(Message::decode(&remove), Some(Message::Remove { key, at: planned.at }));
        for whole in [&store, &remove] {
            for cut in 0..whole.len() {
                assert_eq!(Message::decode(&whole[..cut]), None, "cut at {cut}");
            }
            // What a later release has appended.
            let longer = [&whole[..], &[7]].concat();
            assert_eq!(Message::decode(&longer), Message::decode(whole));
        }
        assert_eq!(Message::decode(&[9; 60]), None, "of no kind");
    }
}
