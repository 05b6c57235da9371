//! The core workload: its properties, and what it draws while it runs.

use crate::error::Error;
use crate::generator::{Acknowledged, Chooser, Lengths, Zipfian};
use crate::limits::{FIELD_BYTES_MAX, FIELDS_MAX, FILE_BYTES_MAX, ZERO_PADDING_MAX};
use crate::properties::Properties;
use crate::values::Keys;
use base::Prng;
use loadtools::java::{map_buckets, map_order, string_hash};
use std::time::Duration;

/// What a run that names no number of records takes for one.
const MANY: u64 = i32::MAX as u64;
/// Counts and numbers of records.
const COUNTS: std::ops::RangeInclusive<u64> = 0..=i64::MAX as u64;

/// What an operation of the run phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads a record.
    Read,
    /// Writes fields of a record that is there.
    Update,
    /// Writes a record that is not there.
    Insert,
    /// Reads records from a key on.
    Scan,
    /// Reads a record, then writes fields of it.
    ReadModifyWrite,
}

/// Shares of actions, in the order in which they are drawn.
const SHARES: [(Action, &str, f64); 5] = [
    (Action::Read, "readproportion", 0.95),
    (Action::Update, "updateproportion", 0.05),
    (Action::Insert, "insertproportion", 0.0),
    (Action::Scan, "scanproportion", 0.0),
    (Action::ReadModifyWrite, "readmodifywriteproportion", 0.0),
];

/// What is done about inserts of the load phase that fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retries {
    /// Tries after the first.
    pub limit: u64,
    /// Before each, give or take a fifth.
    pub rest: Duration,
    /// Whether a thread goes on after an insert that failed for good.
    pub goes_on: bool,
}

/// What the properties say.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The table.
    pub table: String,
    /// Names of the fields.
    pub fields: Vec<String>,
    /// Indexes of fields in the order in which the Java tool writes them: that of its hash map.
    pub write_order: Vec<usize>,
    /// The same for reads that name all of them.
    pub read_order: Vec<usize>,
    /// How long fields are.
    pub lengths: Lengths,
    /// Reads take all fields; else one.
    pub reads_all: bool,
    /// Reads that take all name them.
    pub reads_by_name: bool,
    /// Updates write all fields; else one.
    pub writes_all: bool,
    /// Values follow from keys, and reads compare them.
    pub integrity: bool,
    /// How numbers become keys.
    pub keys: Keys,
    /// Records when the run begins.
    pub records: u64,
    /// The first record that the load phase inserts.
    pub insert_start: u64,
    /// Actions with their shares, as they are drawn.
    pub actions: Vec<(Action, f64)>,
    /// Which record an operation is about.
    pub chooser: Chooser,
    /// How many records a scan takes.
    pub scan_lengths: Lengths,
    /// What is done about inserts that fail.
    pub retries: Retries,
}

impl Workload {
    /// Reads the properties. Errors: names the property; what is not supported is refused by name.
    pub fn read(properties: &Properties) -> Result<Workload, Error> {
        named_core(properties)?;
        let count = properties.whole("fieldcount", 10, 1..=FIELDS_MAX)?;
        let prefix = properties.text("fieldnameprefix", "field");
        let fields: Vec<String> = (0..count).map(|index| format!("{prefix}{index}")).collect();
        let hashes: Vec<i32> = fields.iter().map(|field| string_hash(field)).collect();
        let integrity = properties.flag("dataintegrity", false);
        if integrity && properties.text("fieldlengthdistribution", "constant") != "constant" {
            return Err(Error::Bounds("Must have constant field size to check data integrity."));
        }
        let range = Range::read(properties)?;
        let chooser = range.chooser(properties)?;
        let actions = SHARES
            .iter()
            .map(|(action, name, default)| Ok((*action, properties.number(name, *default)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Workload {
            table: identifier(properties, "table", "usertable")?,
            write_order: map_order(&hashes, map_buckets(fields.len())),
            read_order: map_order(&hashes, set_buckets(fields.len())),
            fields,
            lengths: field_lengths(properties)?,
            reads_all: properties.flag("readallfields", true),
            reads_by_name: properties.flag("readallfieldsbyname", false),
            writes_all: properties.flag("writeallfields", false),
            integrity,
            keys: Keys {
                ordered: properties.text("insertorder", "hashed") != "hashed",
                zero_padding: properties.whole("zeropadding", 1, 0..=ZERO_PADDING_MAX)? as usize,
            },
            records: range.records,
            insert_start: range.start,
            actions: actions.into_iter().filter(|(_, share)| *share > 0.0).collect(),
            chooser,
            scan_lengths: scan_lengths(properties)?,
            retries: Retries {
                limit: properties.whole("core_workload_insertion_retry_limit", 0, 0..=u64::from(u32::MAX))?,
                rest: Duration::from_secs(properties.whole(
                    "core_workload_insertion_retry_interval",
                    3,
                    0..=u64::from(u32::MAX),
                )?),
                goes_on: properties.flag("core_workload_insertion_keep_going_on_error", false),
            },
        })
    }
}

/// Refuses the other workloads by name.
fn named_core(properties: &Properties) -> Result<(), Error> {
    match properties.get("workload") {
        Some("site.ycsb.workloads.CoreWorkload" | "com.yahoo.ycsb.workloads.CoreWorkload") => Ok(()),
        Some(other) => Err(Error::refused(format!(
            "workload \"{other}\" is not supported: only site.ycsb.workloads.CoreWorkload is"
        ))),
        None => Err(Error::Usage("Missing property: workload\nFailed check required properties.".into())),
    }
}

/// A name of a table or keyspace. It stands in statements as it is, so that it means there what it means to the Java tool.
pub fn identifier(properties: &Properties, name: &str, default: &str) -> Result<String, Error> {
    let value = properties.text(name, default);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '"');
    if value.is_empty() || !value.chars().all(is_name) {
        return Err(Error::property(name, value, "a name of letters, digits and _"));
    }
    Ok(value.to_owned())
}

/// Buckets of a `HashSet` made from a collection of so many.
fn set_buckets(entries: usize) -> u32 {
    let wanted = (entries as f64 / 0.75) as u32 + 1;
    wanted.max(16).next_power_of_two()
}

fn field_lengths(properties: &Properties) -> Result<Lengths, Error> {
    let most = properties.whole("fieldlength", 100, 0..=FIELD_BYTES_MAX)?;
    let least = properties.whole("minfieldlength", 1, 0..=FIELD_BYTES_MAX)?;
    let name = "fieldlengthdistribution";
    match properties.text(name, "constant") {
        "constant" => Ok(Lengths::Constant(most)),
        "uniform" if least <= most => Ok(Lengths::Uniform(least, most)),
        "zipfian" if least <= most => Ok(Lengths::Zipfian(Zipfian::new(least, most))),
        "uniform" | "zipfian" => {
            Err(Error::refused(format!("minfieldlength {least} is more than fieldlength {most}")))
        }
        "histogram" => seen_lengths(properties.text("fieldlengthhistogram", "hist.txt")),
        other => Err(Error::refused(format!("Unknown field length distribution \"{other}\""))),
    }
}

fn scan_lengths(properties: &Properties) -> Result<Lengths, Error> {
    let least = properties.whole("minscanlength", 1, 0..=i32::MAX as u64)?;
    let most = properties.whole("maxscanlength", 1000, 0..=i32::MAX as u64)?;
    if most < least {
        return Err(Error::refused(format!("minscanlength {least} is more than maxscanlength {most}")));
    }
    match properties.text("scanlengthdistribution", "uniform") {
        "uniform" => Ok(Lengths::Uniform(least, most)),
        "zipfian" => Ok(Lengths::Zipfian(Zipfian::new(least, most))),
        other => Err(Error::refused(format!("Distribution \"{other}\" not allowed for scan length"))),
    }
}

/// Lengths from a file: `BlockSize`, a tab and bytes; then a line for each multiple of that from 0 on, with a tab and how often it was seen.
fn seen_lengths(file: &str) -> Result<Lengths, Error> {
    let text = String::from_utf8_lossy(&read_file("field length histogram file:", file)?).into_owned();
    parse_lengths(file, &text)
}

fn parse_lengths(file: &str, text: &str) -> Result<Lengths, Error> {
    let malformed =
        |line: usize, reason: &str| Error::Line { file: file.to_owned(), line, reason: reason.to_owned() };
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let (_, first) = lines.next().ok_or_else(|| malformed(1, "Empty input file!"))?;
    let block = match first.split('\t').collect::<Vec<_>>().as_slice() {
        ["BlockSize", bytes, ..] => {
            bytes.trim().parse::<u64>().ok().filter(|bytes| *bytes <= FIELD_BYTES_MAX)
        }
        _ => return Err(malformed(1, "First line of histogram is not the BlockSize!")),
    };
    let block =
        block.ok_or_else(|| malformed(1, "BlockSize and its bytes are wanted, with a tab between"))?;
    let mut counts: Vec<u64> = Vec::new();
    for (number, line) in lines {
        let mut parts = line.split('\t').map(|part| part.trim().parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten()) {
            (Some(index), Some(count)) if index == counts.len() as u64 && count <= u64::from(u32::MAX) => {
                counts.push(count);
            }
            _ => {
                let wanted = format!("{} and a count are wanted, with a tab between", counts.len());
                return Err(malformed(number, &wanted));
            }
        }
        if FIELD_BYTES_MAX < block * counts.len() as u64 {
            return Err(malformed(number, "fields of this length are too long"));
        }
    }
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return Err(malformed(1, "no length was seen"));
    }
    Ok(Lengths::Seen { block, counts, total })
}

/// Reads a file of the command line. Errors: says what it is for.
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "files of a command line, before there is any load"
)]
pub fn read_file(what: &'static str, file: &str) -> Result<Vec<u8>, Error> {
    use std::io::Read as _;
    let failed = |source| Error::Read { what, file: file.to_owned(), source };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(failed(std::io::Error::other("it is too long")));
    }
    Ok(bytes)
}

/// Which records there are.
struct Range {
    records: u64,
    start: u64,
    count: u64,
}

impl Range {
    fn read(properties: &Properties) -> Result<Range, Error> {
        let records = match properties.whole("recordcount", 0, COUNTS)? {
            0 => MANY,
            records => records,
        };
        let start = properties.whole("insertstart", 0, COUNTS)?;
        let count = properties.whole("insertcount", records.saturating_sub(start), COUNTS)?;
        if records < start.saturating_add(count) {
            return Err(Error::Bounds(
                "Invalid combination of insertstart, insertcount and recordcount.\n\
                 recordcount must be bigger than insertstart + insertcount.",
            ));
        }
        Ok(Range { records, start, count })
    }

    fn chooser(&self, properties: &Properties) -> Result<Chooser, Error> {
        let (first, count) = (self.start, self.count);
        match properties.text("requestdistribution", "uniform") {
            "uniform" => Ok(Chooser::Uniform(first, count)),
            "sequential" => Ok(Chooser::Sequential(first, count, 0)),
            "zipfian" => {
                let operations = properties.whole("operationcount", 0, COUNTS)?;
                let inserts = properties.number("insertproportion", 0.0)?;
                // Twice as many as are expected: so that the favourites stay the same when records are added.
                let expected = (operations as f64 * inserts * 2.0) as u64;
                Ok(Chooser::scattered(first, count.saturating_add(expected).saturating_add(1)))
            }
            "latest" => Ok(Chooser::latest(self.records)),
            "hotspot" => {
                let of = |name, default| {
                    let share = properties.number(name, default)?;
                    // What is no share is none, as in the Java tool.
                    Ok::<f64, Error>(if share <= 1.0 { share } else { 0.0 })
                };
                let hot = (count as f64 * of("hotspotdatafraction", 0.2)?) as u64;
                let share = of("hotspotopnfraction", 0.8)?;
                Ok(Chooser::Hotspot { first, hot, cold: count.saturating_sub(hot), share })
            }
            "exponential" => {
                let percentile = properties.number("exponential.percentile", 95.0)?;
                let share = properties.number("exponential.frac", 0.857_142_857_1)?;
                if 100.0 < percentile {
                    let value = properties.text("exponential.percentile", "");
                    return Err(Error::property("exponential.percentile", value, "a number of 0 to 100"));
                }
                Ok(Chooser::exponential(percentile, self.records as f64 * share))
            }
            other => Err(Error::refused(format!("Unknown request distribution \"{other}\""))),
        }
    }
}

/// What a run draws from, shared by its threads.
#[derive(Clone, Debug)]
pub struct Draws {
    rng: Prng,
    actions: Vec<(Action, f64)>,
    total: f64,
    chooser: Chooser,
    lengths: Lengths,
    scan_lengths: Lengths,
    fields: u64,
    next_load: u64,
    inserted: Acknowledged,
}

impl Draws {
    /// Of a workload, from a seed.
    pub fn new(workload: &Workload, seed: u64) -> Draws {
        Draws {
            rng: Prng::new(seed),
            actions: workload.actions.clone(),
            total: workload.actions.iter().map(|(_, share)| share).sum(),
            chooser: workload.chooser.clone(),
            lengths: workload.lengths.clone(),
            scan_lengths: workload.scan_lengths.clone(),
            fields: workload.fields.len() as u64,
            next_load: workload.insert_start,
            inserted: Acknowledged::new(workload.records),
        }
    }

    /// What comes next; `None` when nothing has a share.
    pub fn action(&mut self) -> Option<Action> {
        let mut at = self.rng.unit() * self.total;
        for (action, share) in &self.actions {
            at -= share;
            if at < 0.0 {
                return Some(*action);
            }
        }
        self.actions.last().map(|(action, _)| *action)
    }

    /// The next record of the load phase.
    pub fn load(&mut self) -> u64 {
        let next = self.next_load;
        self.next_load += 1;
        next
    }

    /// The record that the next insert of the run phase writes; to be acknowledged, whatever comes of it.
    pub fn insert(&mut self) -> u64 {
        self.inserted.take()
    }

    /// An insert of the run phase has ended.
    pub fn acknowledge(&mut self, record: u64) {
        self.inserted.acknowledge(record);
    }

    /// A record that is there.
    pub fn record(&mut self) -> u64 {
        self.chooser.draw(self.inserted.last(), &mut self.rng)
    }

    /// The index of a field.
    pub fn field(&mut self) -> usize {
        self.rng.below(self.fields) as usize
    }

    /// Bytes of a field.
    pub fn field_bytes(&mut self) -> usize {
        self.lengths.draw(&mut self.rng) as usize
    }

    /// How many records a scan takes.
    pub fn scan_records(&mut self) -> i32 {
        i32::try_from(self.scan_lengths.draw(&mut self.rng)).unwrap_or(i32::MAX)
    }

    /// A number of 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        self.rng.unit()
    }

    /// Random numbers for the bytes of values.
    pub fn rng(&mut self) -> &mut Prng {
        &mut self.rng
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Workload, String> {
        let mut properties = Properties::default();
        properties.set("workload", "site.ycsb.workloads.CoreWorkload");
        pairs.iter().for_each(|(name, value)| properties.set(*name, *value));
        Workload::read(&properties).map_err(|error| error.to_string())
    }

    fn good(pairs: &[(&str, &str)]) -> Workload {
        read(pairs).unwrap_or_else(|error| panic!("{pairs:?}: {error}"))
    }

    #[test]
    fn what_is_not_said_is_as_in_the_java_tool() {
        let workload = good(&[]);
        assert_eq!(
            (workload.table.as_str(), workload.records, workload.fields.len()),
            ("usertable", MANY, 10)
        );
        assert_eq!(workload.actions, [(Action::Read, 0.95), (Action::Update, 0.05)]);
        assert!(matches!(workload.chooser, Chooser::Uniform(0, MANY)));
        assert!(matches!(workload.lengths, Lengths::Constant(100)));
        assert!(matches!(workload.scan_lengths, Lengths::Uniform(1, 1000)));
        assert!(workload.reads_all && !workload.writes_all && !workload.integrity);
        assert_eq!(workload.retries.rest, Duration::from_secs(3));
        // As the Java tool's INSERT names them.
        assert_eq!(workload.write_order, [1, 0, 7, 6, 9, 8, 3, 2, 5, 4]);
    }

    #[test]
    fn a_part_of_the_records_may_be_loaded() {
        let workload = good(&[("recordcount", "100"), ("insertstart", "40"), ("insertcount", "20")]);
        assert!(matches!(workload.chooser, Chooser::Uniform(40, 20)));
        let mut draws = Draws::new(&workload, 1);
        assert_eq!((draws.load(), draws.load(), draws.insert()), (40, 41, 100));
        let records: Vec<u64> = (0..1000).map(|_| draws.record()).collect();
        assert!(records.iter().all(|record| (40..60).contains(record)));
        assert!(read(&[("recordcount", "100"), ("insertstart", "90"), ("insertcount", "20")]).is_err());
        assert!(read(&[("recordcount", "100"), ("insertstart", "101")]).is_err());
    }

    #[test]
    fn zipfian_keys_leave_room_for_twice_the_inserts() {
        let workload = good(&[
            ("recordcount", "1000"),
            ("operationcount", "2000"),
            ("insertproportion", "0.25"),
            ("requestdistribution", "zipfian"),
        ]);
        assert!(matches!(workload.chooser, Chooser::Zipfian { first: 0, count: 2001, .. }));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (name, value) in [
            ("workload", "site.ycsb.workloads.TimeSeriesWorkload"),
            ("fieldcount", "0"),
            ("fieldcount", "ten"),
            ("fieldlengthdistribution", "normal"),
            ("requestdistribution", "gaussian"),
            ("scanlengthdistribution", "latest"),
            ("minscanlength", "2000"),
            ("readproportion", "-1"),
            ("readproportion", "NaN"),
            ("recordcount", "1e6"),
            ("table", "a b"),
            ("table", "a;b"),
            ("exponential.percentile", "101"),
        ] {
            let mut pairs = vec![(name, value)];
            if name == "exponential.percentile" {
                pairs.push(("requestdistribution", "exponential"));
            }
            let error = read(&pairs).expect_err(value);
            assert!(error.contains(value), "{error}");
        }
        let uneven = [("dataintegrity", "true"), ("fieldlengthdistribution", "uniform")];
        assert!(read(&uneven).is_err());
        assert!(read(&[("minfieldlength", "200"), ("fieldlengthdistribution", "uniform")]).is_err());
        assert!(
            read(&[("fieldlengthdistribution", "histogram"), ("fieldlengthhistogram", "not/there")]).is_err()
        );
    }

    #[test]
    fn lengths_are_read_from_a_file() {
        let lengths = parse_lengths("hist.txt", "BlockSize\t10\n0\t5\n1\t6\n").expect("good");
        assert!(matches!(lengths, Lengths::Seen { block: 10, ref counts, total: 11 } if counts == &[5, 6]));
        for (text, line) in [
            ("", 1),
            ("Block\t10\n", 1),
            ("BlockSize\tten\n", 1),
            ("BlockSize\n0\t1\n", 1),
            ("BlockSize\t10\n", 1),
            ("BlockSize\t10\n0\t5\n2\t6\n", 3),
            ("BlockSize\t10\n0\t5\n1 6\n", 3),
            ("BlockSize\t10\n0\t-5\n", 2),
        ] {
            let error = parse_lengths("hist.txt", text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("hist.txt:{line}: ")), "{error}");
        }
    }

    #[test]
    fn actions_come_by_their_shares() {
        let workload = good(&[("readproportion", "1"), ("updateproportion", "0"), ("scanproportion", "3")]);
        let mut draws = Draws::new(&workload, 1);
        let scans = (0..10_000).filter(|_| draws.action() == Some(Action::Scan)).count();
        assert!((7_300..7_700).contains(&scans), "{scans}");
        let nothing = good(&[("readproportion", "0"), ("updateproportion", "0")]);
        assert_eq!(Draws::new(&nothing, 1).action(), None);
    }
}
