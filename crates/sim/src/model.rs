//! What two tables must hold, partition by partition, and which states the rows that were read can be explained by.
//!
//! ```text
//!   base state ─ op 1 ─ op 2 ─ … ─ op n      one writer per partition: order of issue = order of timestamps
//!                acked   unknown    issued   a read shows some prefix; an unknown operation is in it or not
//! ```
//! An operation is one statement or one batch and is applied whole or not at all, so torn rows, half batches, lost
//! acknowledged writes, resurrected deletes and phantoms all end as "no prefix explains this".

use std::collections::{BTreeMap, BTreeSet};

use base::{Instant, Prng};

use crate::limits::UNKNOWN_MAX;
use crate::session::Row;

/// The columns a read of `ks.t` asks for, in the order the model renders them.
pub(crate) const T_COLUMNS: &str = "ck, s, v, w, m, z, l";
/// The columns a read of `ks.u` asks for.
pub(crate) const U_COLUMNS: &str = "ck, v";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cells {
    /// An INSERT made the row exist, whatever its columns.
    live: bool,
    v: Option<String>,
    w: Option<i32>,
    m: BTreeMap<i32, String>,
    z: BTreeSet<i32>,
    l: Vec<i32>,
}

impl Cells {
    fn visible(&self) -> bool {
        let collections = !self.m.is_empty() || !self.z.is_empty() || !self.l.is_empty();
        self.live || self.v.is_some() || self.w.is_some() || collections
    }
}

/// The content of one partition of both tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    s: Option<i32>,
    t: BTreeMap<i32, Cells>,
    u: BTreeMap<i32, Cells>,
}

/// One change inside an operation; `ck` names the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Insert { ck: i32, v: Option<String>, w: Option<i32> },
    InsertU { ck: i32, v: String },
    SetV { ck: i32, v: String },
    SetW { ck: i32, w: Option<i32> },
    SetStatic { s: i32 },
    PutMap { ck: i32, key: i32, value: String },
    ReplaceMap { ck: i32, map: BTreeMap<i32, String> },
    DropKey { ck: i32, key: i32 },
    AddToSet { ck: i32, item: i32 },
    TakeFromSet { ck: i32, item: i32 },
    Append { ck: i32, items: Vec<i32> },
    Prepend { ck: i32, item: i32 },
    ReplaceList { ck: i32, items: Vec<i32> },
    TakeFromList { ck: i32, item: i32 },
    SetAt { ck: i32, index: usize, item: i32 },
    DeleteV { ck: i32 },
    DeleteRow { ck: i32 },
    DeleteRowU { ck: i32 },
    DeleteRange { from: i32, to: i32 },
    DeletePartition,
    DeletePartitionU,
}

fn text(value: &str) -> String {
    format!("'{value}'")
}

fn map_literal(map: &BTreeMap<i32, String>) -> String {
    let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}: '{v}'")).collect();
    format!("{{{}}}", entries.join(", "))
}

impl Change {
    /// The statement that makes this change in partition `pk`.
    pub(crate) fn cql(&self, pk: i32) -> String {
        let at = |ck: &i32| format!("WHERE pk = {pk} AND ck = {ck}");
        match self {
            Change::Insert { ck, v, w } => {
                let v = v.as_deref().map_or("null".to_string(), text);
                let w = w.map_or("null".to_string(), |w| w.to_string());
                format!("INSERT INTO ks.t (pk, ck, v, w) VALUES ({pk}, {ck}, {v}, {w})")
            }
            Change::InsertU { ck, v } => {
                format!("INSERT INTO ks.u (pk, ck, v) VALUES ({pk}, {ck}, {})", text(v))
            }
            Change::SetV { ck, v } => format!("UPDATE ks.t SET v = {} {}", text(v), at(ck)),
            Change::SetW { ck, w } => {
                format!("UPDATE ks.t SET w = {} {}", w.map_or("null".to_string(), |w| w.to_string()), at(ck))
            }
            Change::SetStatic { s } => format!("UPDATE ks.t SET s = {s} WHERE pk = {pk}"),
            Change::PutMap { ck, key, value } => {
                format!("UPDATE ks.t SET m[{key}] = {} {}", text(value), at(ck))
            }
            Change::ReplaceMap { ck, map } => format!("UPDATE ks.t SET m = {} {}", map_literal(map), at(ck)),
            Change::DropKey { ck, key } => format!("DELETE m[{key}] FROM ks.t {}", at(ck)),
            Change::AddToSet { ck, item } => format!("UPDATE ks.t SET z = z + {{{item}}} {}", at(ck)),
            Change::TakeFromSet { ck, item } => format!("UPDATE ks.t SET z = z - {{{item}}} {}", at(ck)),
            Change::Append { ck, items } => format!("UPDATE ks.t SET l = l + {items:?} {}", at(ck)),
            Change::Prepend { ck, item } => format!("UPDATE ks.t SET l = [{item}] + l {}", at(ck)),
            Change::ReplaceList { ck, items } => format!("UPDATE ks.t SET l = {items:?} {}", at(ck)),
            Change::TakeFromList { ck, item } => format!("UPDATE ks.t SET l = l - [{item}] {}", at(ck)),
            Change::SetAt { ck, index, item } => format!("UPDATE ks.t SET l[{index}] = {item} {}", at(ck)),
            Change::DeleteV { ck } => format!("DELETE v FROM ks.t {}", at(ck)),
            Change::DeleteRow { ck } => format!("DELETE FROM ks.t {}", at(ck)),
            Change::DeleteRowU { ck } => format!("DELETE FROM ks.u {}", at(ck)),
            Change::DeleteRange { from, to } => {
                format!("DELETE FROM ks.t WHERE pk = {pk} AND ck >= {from} AND ck < {to}")
            }
            Change::DeletePartition => format!("DELETE FROM ks.t WHERE pk = {pk}"),
            Change::DeletePartitionU => format!("DELETE FROM ks.u WHERE pk = {pk}"),
        }
    }

    /// A random change whose values carry `stamp`, so that no two writes ever write the same value.
    pub(crate) fn drawn(rng: &mut Prng, stamp: i32, rows: i32) -> Change {
        let ck = rng.below(rows as u64) as i32;
        let key = rng.below(4) as i32;
        let value = || format!("v{stamp}{}", "x".repeat(stamp as usize % 40));
        match rng.below(28) {
            0..=5 => Change::Insert { ck, v: Some(value()), w: Some(stamp) },
            6 => Change::Insert { ck, v: rng.chance(0.5).then(value), w: None },
            7 | 8 => Change::InsertU { ck, v: value() },
            9 | 10 => Change::SetV { ck, v: value() },
            11 => Change::SetW { ck, w: rng.chance(0.8).then_some(stamp) },
            12 | 13 => Change::SetStatic { s: stamp },
            14 | 15 => Change::PutMap { ck, key, value: value() },
            16 => Change::ReplaceMap { ck, map: (0..key).map(|k| (k, format!("r{stamp}.{k}"))).collect() },
            17 => Change::DropKey { ck, key },
            18 => Change::AddToSet { ck, item: stamp % 16 },
            19 => Change::TakeFromSet { ck, item: stamp % 16 },
            20 => Change::DeleteV { ck },
            21 => Change::DeleteRow { ck },
            22 => Change::DeleteRange { from: ck, to: ck + 1 + key },
            23 | 24 => Change::Append { ck, items: (0..1 + key % 3).map(|n| stamp * 4 + n).collect() },
            25 if rng.chance(0.5) => Change::Prepend { ck, item: stamp * 4 },
            25 => Change::ReplaceList { ck, items: (0..key).map(|n| stamp * 4 + n).collect() },
            26 => Change::Append { ck, items: vec![stamp % 3] },
            27 if rng.chance(0.5) => Change::TakeFromList { ck, item: stamp % 3 },
            _ if rng.chance(0.5) => Change::DeleteRowU { ck },
            _ if rng.chance(0.5) => Change::DeletePartition,
            _ => Change::DeletePartitionU,
        }
    }

    /// The row a change touches: changes of one batch touch different ones, because they share a timestamp.
    fn place(&self) -> Option<(u8, i32)> {
        match self {
            Change::Insert { ck, .. }
            | Change::SetV { ck, .. }
            | Change::SetW { ck, .. }
            | Change::PutMap { ck, .. }
            | Change::ReplaceMap { ck, .. }
            | Change::DropKey { ck, .. }
            | Change::AddToSet { ck, .. }
            | Change::TakeFromSet { ck, .. }
            | Change::Append { ck, .. }
            | Change::Prepend { ck, .. }
            | Change::ReplaceList { ck, .. }
            | Change::TakeFromList { ck, .. }
            | Change::SetAt { ck, .. }
            | Change::DeleteV { ck }
            | Change::DeleteRow { ck } => Some((0, *ck)),
            Change::InsertU { ck, .. } | Change::DeleteRowU { ck } => Some((1, *ck)),
            Change::SetStatic { .. } => Some((2, 0)),
            Change::DeleteRange { .. } | Change::DeletePartition | Change::DeletePartitionU => None,
        }
    }

    /// Several changes for one batch: different rows, no range among them.
    pub(crate) fn drawn_batch(rng: &mut Prng, stamp: i32, rows: i32) -> Vec<Change> {
        let mut places = BTreeSet::new();
        let mut changes = Vec::new();
        for _ in 0..2 + rng.below(5) {
            let change = Change::drawn(rng, stamp, rows);
            if change.place().is_some_and(|place| places.insert(place)) {
                changes.push(change);
            }
        }
        changes
    }
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Insert { ck, v, w } => {
                let row = self.t.entry(*ck).or_default();
                row.live = true;
                row.v = v.clone();
                row.w = *w;
            }
            Change::InsertU { ck, v } => {
                let row = self.u.entry(*ck).or_default();
                row.live = true;
                row.v = Some(v.clone());
            }
            Change::SetV { ck, v } => self.t.entry(*ck).or_default().v = Some(v.clone()),
            Change::SetW { ck, w } => self.t.entry(*ck).or_default().w = *w,
            Change::SetStatic { s } => self.s = Some(*s),
            Change::PutMap { ck, key, value } => {
                self.t.entry(*ck).or_default().m.insert(*key, value.clone());
            }
            Change::ReplaceMap { ck, map } => self.t.entry(*ck).or_default().m = map.clone(),
            Change::DropKey { ck, key } => {
                self.t.entry(*ck).or_default().m.remove(key);
            }
            Change::AddToSet { ck, item } => {
                self.t.entry(*ck).or_default().z.insert(*item);
            }
            Change::TakeFromSet { ck, item } => {
                self.t.entry(*ck).or_default().z.remove(item);
            }
            Change::Append { ck, items } => self.t.entry(*ck).or_default().l.extend(items),
            Change::Prepend { ck, item } => self.t.entry(*ck).or_default().l.insert(0, *item),
            Change::ReplaceList { ck, items } => self.t.entry(*ck).or_default().l.clone_from(items),
            Change::TakeFromList { ck, item } => {
                self.t.entry(*ck).or_default().l.retain(|other| other != item);
            }
            Change::SetAt { ck, index, item } => {
                // Without that place the statement is refused and nothing happens.
                if let Some(place) = self.t.get_mut(ck).and_then(|row| row.l.get_mut(*index)) {
                    *place = *item;
                }
            }
            Change::DeleteV { ck } => self.t.entry(*ck).or_default().v = None,
            Change::DeleteRow { ck } => {
                self.t.remove(ck);
            }
            Change::DeleteRowU { ck } => {
                self.u.remove(ck);
            }
            Change::DeleteRange { from, to } => self.t.retain(|ck, _| ck < from || to <= ck),
            Change::DeletePartition => {
                self.t.clear();
                self.s = None;
            }
            Change::DeletePartitionU => self.u.clear(),
        }
    }

    /// The rows a read of [`T_COLUMNS`] must give.
    pub(crate) fn rows_t(&self) -> Vec<Row> {
        let int = |value: i32| value.to_be_bytes().to_vec();
        let mut rows: Vec<Row> = Vec::new();
        for (ck, row) in self.t.iter().filter(|(_, row)| row.visible()) {
            let map = row.m.iter().flat_map(|(k, v)| [int(*k), v.clone().into_bytes()]);
            let set = row.z.iter().map(|item| int(*item));
            rows.push(vec![
                Some(int(*ck)),
                self.s.map(int),
                row.v.clone().map(String::into_bytes),
                row.w.map(int),
                collection(row.m.len(), map),
                collection(row.z.len(), set),
                collection(row.l.len(), row.l.iter().map(|item| int(*item))),
            ]);
        }
        if let (true, Some(s)) = (rows.is_empty(), self.s) {
            rows.push(vec![None, Some(int(s)), None, None, None, None, None]);
        }
        rows
    }

    /// The rows a read of [`U_COLUMNS`] must give.
    pub(crate) fn rows_u(&self) -> Vec<Row> {
        let visible = self.u.iter().filter(|(_, row)| row.visible());
        visible
            .map(|(ck, row)| vec![Some(ck.to_be_bytes().to_vec()), row.v.clone().map(String::into_bytes)])
            .collect()
    }
}

fn collection(count: usize, parts: impl Iterator<Item = Vec<u8>>) -> Option<Vec<u8>> {
    if count == 0 {
        return None;
    }
    let mut out = (count as i32).to_be_bytes().to_vec();
    for part in parts {
        out.extend((part.len() as i32).to_be_bytes());
        out.extend(part);
    }
    Some(out)
}

/// What is known of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// On its way.
    Issued,
    /// Acknowledged at this time.
    Acked(Instant),
    /// Refused or lost: it may have happened.
    Unknown,
}

/// One partition: a state that is certain and what was done since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    base: State,
    ops: Vec<(Vec<Change>, Known)>,
    /// Parts of logged batches over several partitions: number of the batch and of the operation.
    parts: Vec<(i32, usize)>,
}

/// What a read saw; a table that was not read explains nothing away.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen<'a> {
    pub(crate) t: Option<&'a [Row]>,
    pub(crate) u: Option<&'a [Row]>,
}

impl Partition {
    /// Notes an operation before it is sent; answers its number.
    pub(crate) fn issue(&mut self, changes: Vec<Change>) -> usize {
        self.ops.push((changes, Known::Issued));
        self.ops.len() - 1
    }

    /// As [`issue`](Partition::issue), for this partition's part of a logged batch over several.
    pub(crate) fn issue_part(&mut self, batch: i32, changes: Vec<Change>) -> usize {
        let op = self.issue(changes);
        self.parts.push((batch, op));
        op
    }

    /// What was read says of each part of a batch that need not be there: whether there is an explanation with it, and one
    /// without it.
    pub(crate) fn parts_seen(&self, seen: Seen<'_>, from: usize) -> Vec<(i32, bool, bool)> {
        let open =
            self.parts.iter().filter(|(_, op)| from <= *op || !matches!(self.ops[*op].1, Known::Acked(_)));
        let explained =
            |op: usize, there: bool| self.explain_with(seen, from, self.ops.len(), Some((op, there)));
        open.map(|(batch, op)| (*batch, explained(*op, true).is_some(), explained(*op, false).is_some()))
            .collect()
    }

    /// Notes how an operation ended.
    pub(crate) fn end(&mut self, op: usize, known: Known) {
        self.ops[op].1 = known;
    }

    /// Operations noted so far.
    pub(crate) fn issued(&self) -> usize {
        self.ops.len()
    }

    /// Operations that every later read must show: all up to the last acknowledged one.
    pub(crate) fn acked(&self) -> usize {
        self.acked_before(Instant::MAX)
    }

    /// Like [`acked`](Partition::acked), counting only what was acknowledged before `time`.
    pub(crate) fn acked_before(&self, time: Instant) -> usize {
        let counts = |known: &Known| matches!(known, Known::Acked(at) if *at < time);
        self.ops.iter().rposition(|(_, known)| counts(known)).map_or(0, |at| at + 1)
    }

    /// The node is gone: what was on its way has an unknown end.
    pub(crate) fn orphan(&mut self) {
        for (_, known) in &mut self.ops {
            if *known == Known::Issued {
                *known = Known::Unknown;
            }
        }
    }

    /// May more be done to it, or has it too many unknown ends already?
    pub(crate) fn usable(&self) -> bool {
        self.ops.iter().filter(|(_, known)| !matches!(known, Known::Acked(_))).count() == 0
    }

    /// Does it carry so many unknown ends that the next verification must settle them?
    pub(crate) fn is_uncertain(&self) -> bool {
        self.ops.iter().filter(|(_, known)| *known == Known::Unknown).count() >= UNKNOWN_MAX
    }

    /// A change of one element of a list, if a list that is known for certain has one; only for a partition that is usable.
    pub(crate) fn set_element(&self, rng: &mut Prng, stamp: i32) -> Option<Change> {
        let state = self.explain(Seen::default(), self.ops.len(), self.ops.len())?;
        let lists: Vec<(i32, usize)> =
            state.t.iter().filter(|(_, row)| !row.l.is_empty()).map(|(ck, row)| (*ck, row.l.len())).collect();
        let (ck, len) = *lists.get(rng.below(lists.len().max(1) as u64) as usize)?;
        Some(Change::SetAt { ck, index: rng.below(len as u64) as usize, item: stamp * 4 })
    }

    /// A state, after between `from` and `to` operations, that shows what was seen.
    pub(crate) fn explain(&self, seen: Seen<'_>, from: usize, to: usize) -> Option<State> {
        self.explain_with(seen, from, to, None)
    }

    /// The same, with one operation in it for certain, or not in it.
    fn explain_with(
        &self,
        seen: Seen<'_>,
        from: usize,
        to: usize,
        certain: Option<(usize, bool)>,
    ) -> Option<State> {
        for end in (from..=to.min(self.ops.len())).rev() {
            let ops = &self.ops[..end];
            let uncertain: Vec<usize> =
                (0..end).filter(|at| !matches!(ops[*at].1, Known::Acked(_))).collect();
            for mask in 0..1u32 << uncertain.len().min(16) {
                let happened = |at: usize| {
                    let place = uncertain.iter().position(|other| *other == at);
                    at < end && place.is_none_or(|place| mask >> place & 1 == 1)
                };
                if certain.is_some_and(|(op, there)| happened(op) != there) {
                    continue;
                }
                let mut state = self.base.clone();
                for (_, (changes, _)) in ops.iter().enumerate().filter(|(at, _)| happened(*at)) {
                    changes.iter().for_each(|change| state.apply(change));
                }
                let same = seen.t.is_none_or(|rows| rows == state.rows_t())
                    && seen.u.is_none_or(|rows| rows == state.rows_u());
                if same {
                    return Some(state);
                }
            }
        }
        None
    }

    /// Takes a state as certain: it was read back and nothing is on its way.
    pub(crate) fn settle(&mut self, state: State) {
        self.base = state;
        self.ops.clear();
        self.parts.clear();
    }

    /// What a failing check prints.
    pub(crate) fn story(&self) -> String {
        let mut out = String::new();
        out += &format!("  base: s {:?}, t {:?}, u {:?}\n", self.base.s, self.base.t, self.base.u);
        for (at, (changes, known)) in self.ops.iter().enumerate() {
            out += &format!("  {at}: {known:?} {changes:?}\n");
        }
        out
    }
}

/// Rows as people read them.
pub(crate) fn shown(rows: &[Row]) -> String {
    let value = |value: &Option<Vec<u8>>| match value {
        None => "null".to_string(),
        Some(bytes) if bytes.len() == 4 => {
            i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).to_string()
        }
        Some(bytes) if bytes.iter().all(|b| b.is_ascii_graphic()) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Some(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
    };
    let rows = rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join(" "));
    rows.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(ck: i32, stamp: i32) -> Vec<Change> {
        vec![Change::Insert { ck, v: Some(format!("v{stamp}")), w: Some(stamp) }]
    }

    #[test]
    fn a_prefix_explains_and_a_torn_batch_does_not() {
        let mut partition = Partition::default();
        let first = partition.issue(insert(1, 10));
        partition.end(first, Known::Acked(Instant(5)));
        let batch = partition.issue([insert(2, 11), insert(3, 12)].concat());
        partition.end(batch, Known::Unknown);
        let full =
            partition.explain(Seen::default(), 2, 2).expect("anything is explained when nothing is seen");
        let mut rows = full.rows_t();
        let before = partition.explain(Seen { t: Some(&rows[..1]), u: None }, 1, 2);
        assert!(before.is_some() || rows.len() == 1);
        partition.end(batch, Known::Acked(Instant(9)));
        let full = partition.explain(Seen::default(), 2, 2).expect("one state");
        rows = full.rows_t();
        assert_eq!(rows.len(), 3);
        assert!(partition.explain(Seen { t: Some(&rows[..2]), u: None }, 1, 2).is_none(), "half a batch");
        assert!(
            partition.explain(Seen { t: Some(&rows[..1]), u: None }, 2, 2).is_none(),
            "a lost acknowledged batch"
        );
        assert!(partition.explain(Seen { t: Some(&rows[..1]), u: None }, 1, 2).is_some());
        assert_eq!((partition.acked(), partition.acked_before(Instant(6))), (2, 1));
    }

    #[test]
    fn deletes_and_statics_follow_cql() {
        let mut partition = Partition::default();
        let mut run = |changes: Vec<Change>| {
            let op = partition.issue(changes);
            partition.end(op, Known::Acked(Instant(1)));
            let n = partition.issued();
            partition.explain(Seen::default(), n, n).expect("one state").rows_t().len()
        };
        assert_eq!(run(vec![Change::SetStatic { s: 4 }]), 1, "a static alone is a row");
        assert_eq!(run(vec![Change::SetW { ck: 1, w: Some(1) }]), 1);
        assert_eq!(
            run(vec![Change::SetW { ck: 1, w: None }]),
            1,
            "an update leaves no empty row, the static shows again"
        );
        assert_eq!(run(vec![Change::Insert { ck: 1, v: None, w: None }]), 1);
        assert_eq!(
            run(vec![Change::Insert { ck: 2, v: None, w: None }]),
            2,
            "an insert without values is a row"
        );
        assert_eq!(run(vec![Change::DeleteRange { from: 0, to: 2 }]), 1);
        assert_eq!(run(vec![Change::DeletePartition]), 0);
    }
}
