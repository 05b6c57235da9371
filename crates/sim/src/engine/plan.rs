//! What a seed decides before anything runs: tables, settings, and the list of operations.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Prng;
use storage::CommitlogSync;

use super::change::{
    Bound, Change, End, Flip, Op, Part, Place, ReadOp, Restart, Trouble, Upkeep, Value, Wanted, With, WriteOp,
};
use super::limits::{FAULT_OPERATIONS, MODEL_OPERATIONS};
use super::shape::{Grace, MAPS, REGULARS, STATIC_MAPS, STATICS, Shape};

/// A run.
pub(super) struct Plan {
    pub(super) shapes: Vec<Shape>,
    pub(super) sync: CommitlogSync,
    /// Many writes share a timestamp.
    pub(super) coarse: bool,
    pub(super) shards: u16,
    pub(super) ops: Vec<Op>,
    /// For what the machine is made of.
    pub(super) seed: u64,
}

/// Makes operations.
struct Draw {
    rng: Prng,
    shapes: Vec<Shape>,
    grace: Grace,
    coarse: bool,
    ttls: bool,
    keys: u16,
    /// Rows of a partition; small so that they meet.
    places: i32,
    next_value: u32,
    /// Chance of a large value.
    large: f64,
}

impl Plan {
    pub(super) fn drawn(seed: u64, faults: bool) -> Plan {
        let mut rng = Prng::new(seed ^ 0x656e_6769_6e65);
        let grace = if rng.chance(0.6) { Grace::Short(rng.below(9) as u32) } else { Grace::Long };
        // Refused writes are told apart by their timestamps.
        let coarse = !faults && grace == Grace::Long && rng.chance(0.4);
        let tables = 1 + rng.below(3) as usize;
        let shapes: Vec<Shape> = (0..tables).map(|number| Shape::drawn(number, grace, &mut rng)).collect();
        let sync = match rng.below(if faults { 4 } else { 8 }) {
            0 | 1 => CommitlogSync::Batch,
            2 => CommitlogSync::Group { window_ms: rng.below(5) },
            _ => CommitlogSync::Periodic { period_ms: 5 + rng.below(200) },
        };
        let mut draw = Draw {
            shapes: shapes.clone(),
            grace,
            coarse,
            ttls: !coarse && rng.chance(0.6),
            keys: [3, 12, 40][rng.below(3) as usize],
            places: [4, 12, 40][rng.below(3) as usize],
            next_value: 0,
            large: if rng.chance(0.2) { 0.02 } else { 0.0 },
            rng: rng.fork(),
        };
        let shards = draw.shards();
        let count = if faults { FAULT_OPERATIONS } else { MODEL_OPERATIONS };
        let ops = (0..count).map(|_| draw.op(faults)).collect();
        Plan { shapes, sync, coarse, shards, ops, seed }
    }
}

impl Draw {
    fn shards(&mut self) -> u16 {
        let most = if self.rng.chance(0.7) { 3 } else { 8 };
        1 + self.rng.below(most) as u16
    }

    fn op(&mut self, faults: bool) -> Op {
        let table = self.table();
        match self.rng.below(1000) {
            0..500 => Op::Write(self.write(table)),
            500..530 => Op::Batch((0..2 + self.rng.below(6)).map(|_| self.write(table)).collect()),
            530..860 => Op::Read(self.read(table)),
            860..900 => self.race(table),
            900..902 => Op::Cold { table },
            905..917 => Op::Flush { table },
            925..928 => Op::Compact { table },
            928..930 => Op::Upkeep { table, how: self.upkeep() },
            930..931 => Op::Import { table, emptied: self.rng.chance(0.5) },
            931..940 => Op::Wait(self.wait()),
            940..942 => Op::Truncate { table },
            942..943 => Op::Again { table, same_id: self.rng.chance(0.5) },
            943..945 => self.column(table, true),
            945..948 => self.column(table, false),
            948..950 => Op::Alter { table, choice: self.rng.u64() },
            950..951 => Op::Snapshot { table },
            951..953 if !faults => Op::Restart(self.restart(false)),
            953..963 if faults => Op::Restart(self.restart(true)),
            963..966 if faults => Op::Trouble(self.trouble()),
            966..972 if faults => Op::Calm,
            972..974 if faults => Op::Slow(Duration::from_micros(self.rng.below(20_000))),
            974..976 if faults => Op::Rot(self.flip()),
            _ => Op::Write(self.write(table)),
        }
    }

    fn table(&mut self) -> usize {
        self.rng.below(self.shapes.len() as u64) as usize
    }

    fn key(&mut self) -> u16 {
        self.rng.below(u64::from(self.keys)) as u16
    }

    fn place(&mut self, table: usize, depth: usize) -> Place {
        let numbers: Vec<i32> = (0..depth).map(|_| self.rng.below(self.places as u64) as i32).collect();
        self.shapes[table].place(numbers.into_iter())
    }

    fn bound(&mut self, table: usize) -> Bound {
        let depth = self.rng.below(self.shapes[table].depth() as u64 + 1) as usize;
        Bound { prefix: self.place(table, depth), after: self.rng.chance(0.5) }
    }

    fn wait(&mut self) -> Duration {
        match self.rng.below(3) {
            0 => Duration::from_micros(self.rng.below(2_000)),
            1 => Duration::from_millis(self.rng.below(300)),
            _ => Duration::from_millis(self.rng.below(12_000)),
        }
    }

    fn value(&mut self) -> Value {
        self.next_value += 1;
        let len = match self.rng.below(100) {
            0..80 => self.rng.below(24),
            80..97 => self.rng.below(400),
            _ => self.rng.below(5_000),
        };
        let len = if self.rng.chance(self.large) { 30_000 + self.rng.below(50_000) } else { len };
        Value::new(self.next_value, len as u32)
    }

    fn changes(&mut self, maps: &[bool]) -> Vec<(u16, Change)> {
        let mut set = Vec::new();
        for (ordinal, map) in maps.iter().enumerate() {
            if self.rng.chance(0.45) {
                continue;
            }
            let change = if *map {
                let most = if self.rng.chance(0.02) { 300 } else { 4 };
                let mut cells = BTreeMap::new();
                for _ in 0..self.rng.below(most + 1) {
                    let value = self.rng.chance(0.75).then(|| self.value());
                    cells.insert(self.rng.below(8.max(most)) as i32, value);
                }
                let clear = self.rng.chance(0.3);
                if !clear && cells.is_empty() {
                    continue;
                }
                Change::Map { clear, cells }
            } else {
                Change::Cell(self.rng.chance(0.85).then(|| self.value()))
            };
            set.push((ordinal as u16, change));
        }
        set
    }

    fn write(&mut self, table: usize) -> WriteOp {
        let key = self.key();
        self.write_to(table, key)
    }

    fn write_to(&mut self, table: usize, key: u16) -> WriteOp {
        let ttl = if self.ttls && self.rng.chance(0.25) { 1 + self.rng.below(10) as u32 } else { 0 };
        // So little that no tombstone which may be purged is newer.
        let back = match self.grace {
            _ if self.coarse => self.rng.below(40) as i64,
            Grace::Short(seconds) if seconds >= 4 && self.rng.chance(0.3) => {
                self.rng.below(u64::from(seconds) * 250_000) as i64
            }
            Grace::Short(_) => 0,
            Grace::Long if self.rng.chance(0.3) => self.rng.below(5_000_000) as i64,
            Grace::Long => 0,
        };
        WriteOp { table, key, back, ttl, parts: self.parts(table) }
    }

    fn parts(&mut self, table: usize) -> Vec<Part> {
        let depth = self.shapes[table].depth();
        match self.rng.below(100) {
            0..2 => return vec![Part::DeletePartition],
            2..10 if depth > 0 => {
                let (a, b) = (self.bound(table), self.bound(table));
                let (start, end) = if a.order(&b).is_lt() { (a, b) } else { (b, a) };
                if start != end {
                    return vec![Part::DeleteRange { start, end }];
                }
            }
            10..20 => return vec![Part::DeleteRow { place: self.place(table, depth) }],
            _ => {}
        }
        let mut parts = Vec::new();
        if self.shapes[table].has_statics() && self.rng.chance(0.1) {
            let set = self.changes(&STATIC_MAPS[..STATICS]);
            if !set.is_empty() {
                parts.push(Part::Static { set });
            }
        }
        let rows = if self.rng.chance(0.02) { 1 + self.rng.below(40) } else { 1 };
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..rows {
            places.insert(self.place(table, depth));
        }
        for place in places {
            let mut set = self.changes(&MAPS[..REGULARS]);
            let mark = self.rng.chance(0.6);
            if !mark && set.is_empty() {
                set = vec![(0, Change::Cell(Some(self.value())))];
            }
            parts.push(Part::Row { place, mark, set });
        }
        parts
    }

    fn read(&mut self, table: usize) -> ReadOp {
        let wanted = match self.rng.below(40) {
            0 | 1 => {
                let (a, b) = (self.rng.u64() as i64, self.rng.u64() as i64);
                Wanted::Tokens(a.min(b), a.max(b))
            }
            2 => Wanted::Tokens(i64::MIN, i64::MAX),
            3..8 => {
                let mut keys: Vec<u16> = (0..1 + self.rng.below(6)).map(|_| self.key()).collect();
                keys.sort_unstable();
                keys.dedup();
                self.rng.shuffle(&mut keys);
                Wanted::Keys(keys)
            }
            _ => Wanted::Keys(vec![self.key()]),
        };
        let limit = |rng: &mut Prng, chance: f64, most: u64| {
            if rng.chance(chance) { 1 + rng.below(most) as u32 } else { u32::MAX }
        };
        let mut read = ReadOp {
            table,
            wanted,
            slices: self.slices(table),
            reversed: self.rng.chance(0.3),
            rows: limit(&mut self.rng, 0.4, 20),
            partition_rows: limit(&mut self.rng, 0.15, 5),
            bytes: if self.rng.chance(0.15) { 1 + self.rng.below(2_000) as u32 } else { u32::MAX },
            static_counts: self.rng.chance(0.4),
            digest: false,
        };
        // Where a page ends may depend on how much was fetched at a time.
        read.digest = (read.rows, read.partition_rows, read.bytes) == (u32::MAX, u32::MAX, u32::MAX)
            && self.rng.chance(0.1);
        read
    }

    /// Disjoint, ascending; often everything.
    fn slices(&mut self, table: usize) -> Vec<(Bound, Bound)> {
        if self.rng.chance(0.5) {
            return Vec::new();
        }
        let count = 1 + self.rng.below(3);
        let mut bounds: Vec<Bound> = (0..2 * count).map(|_| self.bound(table)).collect();
        bounds.sort_by(Bound::order);
        let pairs = bounds.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        pairs.filter(|(start, end)| start.order(end).is_lt()).collect()
    }

    fn race(&mut self, table: usize) -> Op {
        let key = self.key();
        let mut read = self.read(table);
        read.wanted = Wanted::Keys(vec![key]);
        (read.rows, read.partition_rows, read.bytes) = (u32::MAX, u32::MAX, u32::MAX);
        let writes = (0..1 + self.rng.below(4)).map(|_| self.write_to(table, key)).collect();
        let reads = 1 + self.rng.below(3) as u32;
        let with =
            With { flush: self.rng.chance(0.5), compact: self.rng.chance(0.05), chill: self.rng.chance(0.2) };
        Op::Race { read, reads, writes, with }
    }

    fn column(&mut self, table: usize, drop: bool) -> Op {
        let fixed = self.rng.chance(0.3);
        let ordinal = self.rng.below(if fixed { STATICS } else { REGULARS } as u64) as u16;
        if drop { Op::DropColumn { table, fixed, ordinal } } else { Op::AddColumn { table, fixed, ordinal } }
    }

    fn upkeep(&mut self) -> Upkeep {
        match self.rng.below(8) {
            0 => Upkeep::Split,
            1 => {
                let (a, b) = (self.rng.u64() as i64, self.rng.u64() as i64);
                Upkeep::Range(a.min(b), a.max(b))
            }
            2 => Upkeep::Files(self.rng.u64()),
            3 => Upkeep::Cleanup,
            4 => Upkeep::Scrub,
            5 => Upkeep::Collect { cells: self.rng.chance(0.5) },
            6 => Upkeep::Upgrade,
            _ => Upkeep::Stop(Duration::from_micros(self.rng.below(20_000))),
        }
    }

    fn flip(&mut self) -> Flip {
        Flip { file: self.rng.u64(), byte: self.rng.u64(), bit: self.rng.below(8) as u8 }
    }

    fn trouble(&mut self) -> Trouble {
        match self.rng.below(3) {
            0 => Trouble::Full(self.rng.below(300 << 10)),
            1 => Trouble::Syncs(1 + self.rng.below(3) as u32),
            _ => Trouble::Reads(1 + self.rng.below(5) as u32),
        }
    }

    fn restart(&mut self, faults: bool) -> Restart {
        let shards = self.shards();
        if !faults {
            let (end, after) = (End::Orderly, Duration::ZERO);
            return Restart { end, writes: Vec::new(), after, flip: None, cuts: Vec::new(), shards };
        }
        let end = match self.rng.below(10) {
            0..2 => End::Orderly,
            2..4 => End::Kill,
            _ => End::Power,
        };
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..self.rng.below(8) {
            keys.insert((self.table(), self.key()));
        }
        let writes = keys.into_iter().map(|(table, key)| self.write_to(table, key)).collect();
        let mut cuts = Vec::new();
        while self.rng.chance(0.25) {
            cuts.push((self.shards(), Duration::from_micros(self.rng.below(20_000))));
        }
        let after = Duration::from_micros(if self.rng.chance(0.5) { 0 } else { self.rng.below(5_000) });
        let flip = self.rng.chance(0.15).then(|| self.flip());
        Restart { end, writes, after, flip, cuts, shards }
    }
}
