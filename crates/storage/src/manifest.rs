//! The manifest of one shard: the authority over which sstables exist and how far the log is flushed.
//!
//! A journal of edits, each atomic: what a flush adds together with the log position it covers, what a compaction adds
//! together with what it replaces. Rewritten as one snapshot when it has grown. See docs/formats/manifest.md.

use crate::Error;
use crate::commitlog::LogPosition;
use crate::limits::MANIFEST_REWRITE_BYTES;
use base::{ByteReader, Token, Truncated};
use journal::Journal;
use mutation::TokenRange;
use schema::TableId;
use sstable::Meta;
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the layout of records; changes with any change of it.
const FORMAT: u32 = 1;
const KIND_HEADER: u8 = 1;
const KIND_EDIT: u8 = 2;
/// Records in a manifest, entries in a record: bounds what a damaged count can make us reserve.
const COUNT_MAX: u32 = 16 * 1024 * 1024;

/// Which shard of which start a manifest belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestHeader {
    /// Start of the node.
    pub incarnation: u32,
    /// The shard.
    pub shard: u16,
    /// Shards of the node.
    pub shards: u16,
}

impl ManifestHeader {
    /// Name of the file.
    pub fn file_name(&self) -> String {
        format!("manifest-{}-{}", self.incarnation, self.shard)
    }

    /// Incarnation and shard in a file's name; `None` for other files.
    pub fn parse_name(name: &str) -> Option<(u32, u16)> {
        let (incarnation, shard) = name.strip_prefix("manifest-")?.split_once('-')?;
        Some((incarnation.parse().ok()?, shard.parse().ok()?))
    }
}

/// One sstable that a shard holds.
#[derive(Debug, Clone)]
pub struct SstableEntry {
    /// What the sstable says of itself.
    pub meta: Meta,
    /// The token ranges of it that count for this shard, ascending and disjoint; empty: all of it.
    pub ranges: Vec<TokenRange>,
}

/// One atomic change.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// New sstables.
    pub add: Vec<(TableId, SstableEntry)>,
    /// Generations that no longer count.
    pub remove: Vec<(TableId, u64)>,
    /// Entries of the log of this incarnation below these places are in sstables, or truncated.
    pub flushed: Vec<(TableId, LogPosition)>,
    /// Truncations: microseconds since the Unix epoch.
    pub truncated: Vec<(TableId, i64)>,
    /// Tables that were dropped: their sstables no longer count.
    pub forget: Vec<TableId>,
    /// No segment of the log below this number is needed.
    pub log_floor: Option<u32>,
}

impl Edit {
    /// The record.
    pub fn encode(&self) -> Vec<u8> {
        encode_edit(self)
    }

    /// Reads a record; `place` names it in errors. Errors: what was found instead.
    pub fn decode(place: (&Path, u64), record: &[u8]) -> Result<Edit, String> {
        decode_edit(place, record)
    }
}

/// Everything the edits of a manifest add up to.
#[derive(Debug, Clone)]
pub struct ManifestState {
    /// Whose it is.
    pub header: ManifestHeader,
    /// Sstables by table and generation.
    pub sstables: BTreeMap<(TableId, u64), SstableEntry>,
    /// Flushed positions by table.
    pub flushed: BTreeMap<TableId, LogPosition>,
    /// Last truncation by table.
    pub truncated: BTreeMap<TableId, i64>,
    /// First segment of the log that may be needed.
    pub log_floor: u32,
}

impl ManifestState {
    /// No tables.
    pub fn new(header: ManifestHeader) -> ManifestState {
        ManifestState {
            header,
            sstables: BTreeMap::new(),
            flushed: BTreeMap::new(),
            truncated: BTreeMap::new(),
            log_floor: 1,
        }
    }

    /// Adds up one more edit.
    pub fn apply(&mut self, edit: &Edit) {
        for (table, generation) in &edit.remove {
            self.sstables.remove(&(*table, *generation));
        }
        for (table, entry) in &edit.add {
            self.sstables.insert((*table, entry.meta.generation), entry.clone());
        }
        for (table, position) in &edit.flushed {
            let known = self.flushed.entry(*table).or_default();
            *known = (*known).max(*position);
        }
        for (table, at) in &edit.truncated {
            let known = self.truncated.entry(*table).or_insert(*at);
            *known = (*known).max(*at);
        }
        for table in &edit.forget {
            self.sstables.retain(|(of, _), _| of != table);
            // The flushed position and the time of the truncation stay: a table made again with the id must not get what was
            // written to this one.
        }
        if let Some(floor) = edit.log_floor {
            self.log_floor = self.log_floor.max(floor);
        }
    }

    fn records(&self) -> Vec<Vec<u8>> {
        let edit = Edit {
            add: self.sstables.iter().map(|((table, _), entry)| (*table, entry.clone())).collect(),
            remove: Vec::new(),
            flushed: self.flushed.iter().map(|(table, position)| (*table, *position)).collect(),
            truncated: self.truncated.iter().map(|(table, at)| (*table, *at)).collect(),
            forget: Vec::new(),
            log_floor: Some(self.log_floor),
        };
        vec![encode_header(&self.header), encode_edit(&edit)]
    }

    fn from_records(path: &Path, records: &[Vec<u8>]) -> Result<ManifestState, Error> {
        let offset =
            |index: usize| 8 + records[..index].iter().map(|record| 8 + record.len() as u64).sum::<u64>();
        let bad = |index: usize, got: String| {
            Error::corrupt("manifest", path, offset(index), "a record of a manifest", got)
        };
        let Some(first) = records.first() else {
            return Err(Error::corrupt("manifest", path, 8, "the header record", "the end of the file"));
        };
        let header = decode_header(first).map_err(|got| bad(0, got))?;
        let mut state = ManifestState::new(header);
        for (index, record) in records.iter().enumerate().skip(1) {
            let place = (path, offset(index));
            state.apply(&decode_edit(place, record).map_err(|got| bad(index, got))?);
        }
        Ok(state)
    }

    /// Reads a manifest that nobody appends to any more; it is [made durable](Journal::read) first. Errors: a missing or damaged file, by name and offset.
    pub async fn read(path: &Path) -> Result<ManifestState, Error> {
        match Journal::read(path).await? {
            Some(records) => ManifestState::from_records(path, &records),
            None => Err(Error::corrupt("manifest", path, 0, "a file", "no such file")),
        }
    }
}

/// A change of a manifest that failed.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) error: Error,
    /// Whether it is certain that the file holds nothing of the change.
    pub(crate) absent: bool,
}

impl From<journal::Unwritten> for Unwritten {
    fn from(unwritten: journal::Unwritten) -> Unwritten {
        Unwritten { error: unwritten.error.into(), absent: unwritten.absent }
    }
}

impl From<Unwritten> for Error {
    fn from(unwritten: Unwritten) -> Error {
        unwritten.error
    }
}

/// An open manifest. One owner; edits one after the other.
pub struct Manifest {
    state: ManifestState,
    journal: Journal,
}

impl Manifest {
    /// Writes a new manifest with that content, synced.
    pub async fn create(folder: &Path, state: ManifestState) -> Result<Manifest, Error> {
        let journal = Journal::create(&folder.join(state.header.file_name()), &state.records()).await?;
        Ok(Manifest { state, journal })
    }

    /// When a table was truncated last.
    pub fn truncated_at(&self, table: TableId) -> Option<i64> {
        self.state.truncated.get(&table).copied()
    }

    /// Makes an edit durable.
    /// Errors: it is absent, or it may or may not be there; then the next commit writes a snapshot and settles it.
    pub async fn commit(&mut self, edit: &Edit) -> Result<(), Unwritten> {
        if self.journal.failed() || self.journal.grown() > MANIFEST_REWRITE_BYTES {
            let mut next = self.state.clone();
            next.apply(edit);
            self.journal.try_rewrite(&next.records()).await?;
            self.state = next;
        } else {
            let appended = self.journal.append(&encode_edit(edit)).await;
            appended.map_err(|error| Unwritten { error: error.into(), absent: !self.journal.failed() })?;
            self.state.apply(edit);
        }
        Ok(())
    }

    /// What it says now.
    pub fn state(&self) -> &ManifestState {
        &self.state
    }
}

fn encode_header(header: &ManifestHeader) -> Vec<u8> {
    let mut out = vec![KIND_HEADER];
    out.extend_from_slice(&FORMAT.to_be_bytes());
    out.extend_from_slice(&header.incarnation.to_be_bytes());
    out.extend_from_slice(&header.shard.to_be_bytes());
    out.extend_from_slice(&header.shards.to_be_bytes());
    out
}

fn decode_header(record: &[u8]) -> Result<ManifestHeader, String> {
    let mut input = ByteReader::new(record);
    let parse = |input: &mut ByteReader<'_>| -> Result<_, Truncated> {
        Ok((input.u8()?, input.u32()?, input.u32()?, input.u16()?, input.u16()?))
    };
    match parse(&mut input) {
        Ok((KIND_HEADER, FORMAT, incarnation, shard, shards)) if shard < shards => {
            Ok(ManifestHeader { incarnation, shard, shards })
        }
        Ok((kind, format, ..)) => Err(format!("record kind {kind}, format {format}")),
        Err(error) => Err(error.to_string()),
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_be_bytes());
}

fn encode_edit(edit: &Edit) -> Vec<u8> {
    let mut out = vec![KIND_EDIT];
    put_count(&mut out, edit.add.len());
    for (table, entry) in &edit.add {
        out.extend_from_slice(&table.0.to_be_bytes());
        let mut meta = Vec::new();
        entry.meta.encode(&mut meta);
        put_count(&mut out, meta.len());
        out.extend_from_slice(&meta);
        put_count(&mut out, entry.ranges.len());
        for range in &entry.ranges {
            out.extend_from_slice(&range.first.0.to_be_bytes());
            out.extend_from_slice(&range.last.0.to_be_bytes());
        }
    }
    put_count(&mut out, edit.remove.len());
    for (table, generation) in &edit.remove {
        out.extend_from_slice(&table.0.to_be_bytes());
        out.extend_from_slice(&generation.to_be_bytes());
    }
    put_count(&mut out, edit.flushed.len());
    for (table, position) in &edit.flushed {
        out.extend_from_slice(&table.0.to_be_bytes());
        out.extend_from_slice(&position.segment.to_be_bytes());
        out.extend_from_slice(&position.offset.to_be_bytes());
    }
    put_count(&mut out, edit.truncated.len());
    for (table, at) in &edit.truncated {
        out.extend_from_slice(&table.0.to_be_bytes());
        out.extend_from_slice(&at.to_be_bytes());
    }
    put_count(&mut out, edit.forget.len());
    edit.forget.iter().for_each(|table| out.extend_from_slice(&table.0.to_be_bytes()));
    out.extend_from_slice(&edit.log_floor.unwrap_or(0).to_be_bytes());
    out
}

fn decode_edit(place: (&Path, u64), record: &[u8]) -> Result<Edit, String> {
    let mut input = ByteReader::new(record);
    match input.u8() {
        Ok(KIND_EDIT) => {}
        other => return Err(format!("record kind {other:?}")),
    }
    let mut edit = Edit::default();
    for _ in 0..count(&mut input)? {
        let table = table_id(&mut input)?;
        let len = count(&mut input)?;
        let meta = input.bytes(len as usize).map_err(|error| error.to_string())?;
        let (meta, _) = Meta::decode(place.0, place.1, meta).map_err(|error| error.to_string())?;
        let mut ranges = Vec::new();
        for _ in 0..count(&mut input)? {
            let first = Token(number(input.i64())?);
            ranges.push(TokenRange::new(first, Token(number(input.i64())?)));
        }
        edit.add.push((table, SstableEntry { meta, ranges }));
    }
    for _ in 0..count(&mut input)? {
        edit.remove.push((table_id(&mut input)?, number(input.u64())?));
    }
    for _ in 0..count(&mut input)? {
        let table = table_id(&mut input)?;
        let segment = number(input.u32())?;
        edit.flushed.push((table, LogPosition { segment, offset: number(input.u32())? }));
    }
    for _ in 0..count(&mut input)? {
        edit.truncated.push((table_id(&mut input)?, number(input.i64())?));
    }
    for _ in 0..count(&mut input)? {
        edit.forget.push(table_id(&mut input)?);
    }
    edit.log_floor = Some(number(input.u32())?).filter(|floor| *floor != 0);
    if input.is_empty() { Ok(edit) } else { Err(format!("{} bytes too many", input.remaining())) }
}

fn number<T>(value: Result<T, Truncated>) -> Result<T, String> {
    value.map_err(|error| error.to_string())
}

fn count(input: &mut ByteReader<'_>) -> Result<u32, String> {
    let count = number(input.u32())?;
    if count > COUNT_MAX { Err(format!("a count of {count}")) } else { Ok(count) }
}

fn table_id(input: &mut ByteReader<'_>) -> Result<TableId, String> {
    Ok(TableId(number(input.u128())?))
}

#[cfg(test)]
mod tests {
    //! Edits add up to the same state whether they are replayed one by one or as a snapshot; damage is an error.
    use super::*;
    use crate::fixture::meta;
    use base::Prng;

    fn edit(prng: &mut Prng) -> Edit {
        let table = TableId(u128::from(prng.below(3)));
        let mut edit = Edit::default();
        for _ in 0..prng.below(3) {
            let generation = prng.below(20);
            let range = TokenRange::new(Token(prng.u64() as i64), Token(prng.u64() as i64));
            let ranges = if prng.chance(0.5) { vec![range] } else { Vec::new() };
            let meta = meta(generation, Token::of_key(&[1]), Token::of_key(&[2]));
            edit.add.push((table, SstableEntry { meta, ranges }));
        }
        if prng.chance(0.5) {
            edit.remove.push((table, prng.below(20)));
        }
        if prng.chance(0.5) {
            let position = LogPosition { segment: prng.below(9) as u32, offset: prng.below(99) as u32 };
            edit.flushed.push((table, position));
        }
        if prng.chance(0.2) {
            edit.truncated.push((table, prng.u64() as i64));
        }
        if prng.chance(0.1) {
            edit.forget.push(table);
        }
        edit.log_floor = prng.chance(0.5).then(|| 1 + prng.below(50) as u32);
        edit
    }

    fn shown(state: &ManifestState) -> String {
        format!("{state:?}")
    }

    #[test]
    fn edits_add_up() {
        let path = Path::new("m");
        let mut prng = Prng::new(8);
        for _ in 0..50 {
            let header = ManifestHeader { incarnation: 4, shard: 1, shards: 3 };
            let mut state = ManifestState::new(header);
            let mut records = vec![encode_header(&header)];
            for _ in 0..20 {
                let edit = edit(&mut prng);
                records.push(encode_edit(&edit));
                state.apply(&edit);
            }
            let replayed = ManifestState::from_records(path, &records).expect("sound");
            assert_eq!(shown(&replayed), shown(&state));
            let snapshot = ManifestState::from_records(path, &state.records()).expect("sound");
            assert_eq!(shown(&snapshot), shown(&state));
        }
    }

    #[test]
    fn a_dropped_table_keeps_the_latest_time_of_its_end() {
        let mut state = ManifestState::new(ManifestHeader { incarnation: 1, shard: 0, shards: 1 });
        let table = TableId(1);
        for at in [7, 9, 8] {
            state.apply(&Edit { truncated: vec![(table, at)], ..Edit::default() });
        }
        state.apply(&Edit { forget: vec![table], ..Edit::default() });
        assert_eq!(state.truncated.get(&table), Some(&9));
    }

    #[test]
    fn a_cut_or_changed_record_is_an_error_or_another_edit_and_never_a_panic() {
        let mut prng = Prng::new(9);
        for _ in 0..200 {
            let record = encode_edit(&edit(&mut prng));
            for cut in 0..record.len() {
                assert!(decode_edit((Path::new("m"), 0), &record[..cut]).is_err(), "cut at {cut}");
            }
            let mut changed = record.clone();
            let at = prng.below(record.len() as u64) as usize;
            changed[at] ^= 1 << prng.below(8);
            drop(decode_edit((Path::new("m"), 0), &changed));
        }
    }

    #[test]
    fn names_are_read_back() {
        let header = ManifestHeader { incarnation: 12, shard: 3, shards: 7 };
        assert_eq!(ManifestHeader::parse_name(&header.file_name()), Some((12, 3)));
        assert_eq!(ManifestHeader::parse_name("manifest-12"), None);
        assert_eq!(ManifestHeader::parse_name("manifest-x-1"), None);
    }
}
