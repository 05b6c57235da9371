//! The sstable reader over sound files with changed bytes, checksums honoured or not: opening, point reads both ways
//! and scans answer with rows or with an error that names the file, and end.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mutation::{Slice, TokenRange};
use runtime::Bug;
use runtime::sim::{SimConfig, World};
use schema::Table;
use sstable::{Component, Descriptor, SstableId, Version};

#[path = "../../crates/sstable/tests/it/samples.rs"]
#[allow(dead_code, reason = "shared with the tests of sstable")]
mod samples;

const DIR: &str = "/table";
const NUMBER: SstableId = SstableId::Number(1);
/// Of both formats.
const NAMES: [Descriptor; 2] =
    [Descriptor { version: Version::Nb, id: NUMBER }, Descriptor { version: Version::Da, id: NUMBER }];
const BUDGET: usize = 1 << 16;

/// One sample table and the files that our writer makes of it.
struct Sample {
    table: Arc<Table>,
    files: [Files; 2],
    keys: Vec<(Vec<u8>, base::Token)>,
}

static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, which], edits)) = data.split_first_chunk::<2>() else { return };
    let samples = SAMPLES.get_or_init(|| samples::tables().into_iter().map(build).collect());
    let sample = &samples[usize::from(which) % samples.len()];
    let tries = mode & 2 == 2;
    let mut files = sample.files[usize::from(tries)].clone();
    for edit in edits.chunks(6).take(32) {
        apply(&mut files, edit);
    }
    let keys = sample.keys.clone();
    let table = sample.table.clone();
    run(mode & 1 == 1, move || read(tries, table.clone(), files.clone(), keys.clone()));
});

/// One edit: which file, where, and a byte to put, flip, cut from or insert.
fn apply(files: &mut [(Component, Vec<u8>)], edit: &[u8]) {
    let &[file, high, middle, low, how, byte] = edit else { return };
    let count = files.len();
    let bytes = &mut files[usize::from(file) % count].1;
    let at = (usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low)) % (bytes.len() + 1);
    match how % 5 {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, byte),
        2 if at < bytes.len() => drop(bytes.remove(at)),
        3 if at < bytes.len() => bytes[at] = byte,
        _ if at < bytes.len() => bytes[at] ^= 1 << (byte & 7),
        _ => {}
    }
}

/// Runs one future on one shard of a simulated node to its end.
fn run<F, Fut>(ignore_checksums: bool, main: F)
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = i32> + 'static,
{
    let mut world = World::new(1, SimConfig::calm());
    let node = world.add_node([10, 0, 0, 1].into());
    if ignore_checksums {
        world.plant(node, Bug::IgnoreCrc);
    }
    world.boot(node, 1, runtime::sim::main_of(main));
    assert!(world.run_until(|world| !world.alive(node), Duration::from_secs(3600)), "reading ends");
    assert_eq!(world.exit_code(node), Some(0));
}

async fn read(tries: bool, table: Arc<Table>, files: Files, keys: Vec<(Vec<u8>, base::Token)>) -> i32 {
    let dir = PathBuf::from(DIR);
    if runtime::file::create_dir_all(&dir).await.is_err() {
        return 1;
    }
    for (component, bytes) in &files {
        if runtime::file::write_new_synced(&component.path(&dir, NAMES[usize::from(tries)]), bytes)
            .await
            .is_err()
        {
            return 1;
        }
    }
    let Ok(reader) = sstable::Reader::open(&dir, NAMES[usize::from(tries)], table).await else { return 0 };
    let all = [Slice::all()];
    for (key, token) in keys {
        for reversed in [false, true] {
            let _ = reader.read_partition(&key, token, &all, reversed, BUDGET).await;
        }
    }
    let mut scanner = reader.scan(TokenRange::new(base::Token::MIN, base::Token::MAX));
    // A file cannot hold more fragments than bytes.
    let limit = files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    for _ in 0..limit {
        match scanner.next(&all, BUDGET).await {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return 0,
        }
    }
    1
}

/// Writes a table in the simulator and takes its files.
fn build(table: Arc<Table>) -> Sample {
    let amount = samples::Amount { partitions: 6, rows: 8, value_bytes: 30 };
    let partitions = samples::partitions(&table, 1, amount);
    let keys = partitions.iter().take(3).map(|partition| (partition.key.clone(), partition.token)).collect();
    let files = NAMES.map(|name| {
        let files = Taken::default();
        let (inside, partitions, taken) = (table.clone(), partitions.clone(), files.clone());
        run(false, move || write(name, inside.clone(), partitions.clone(), taken.clone()));
        std::mem::take(&mut *files.lock().expect("the writer has ended"))
    });
    Sample { table, files, keys }
}

type Files = Vec<(Component, Vec<u8>)>;
type Taken = Arc<std::sync::Mutex<Files>>;

async fn write(
    name: Descriptor,
    table: Arc<Table>,
    partitions: Vec<samples::SamplePartition>,
    taken: Taken,
) -> i32 {
    let dir = Path::new(DIR);
    if runtime::file::create_dir_all(dir).await.is_err() {
        return 1;
    }
    if samples::write(dir, name.version, 1, &table, &partitions).await.is_err() {
        return 1;
    }
    for component in Component::ALL {
        if let Ok(bytes) = runtime::file::read(&component.path(dir, name)).await {
            taken.lock().expect("one writer").push((component, bytes));
        }
    }
    0
}
