//! The tools on files that Apache Cassandra wrote, against what its own tools print; and on the same files, damaged.

use crate::{
    DumpOptions, Error, MetadataOptions, Output, Place, dump, list, metadata, places, scrub, verify,
};
use serde_json::{Value, json};
use sstable::Component;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// Runs a test on one shard with an empty folder that is gone afterwards.
fn on_shard(test: impl Fn(PathBuf) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync + 'static) {
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("sstabletools-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let config = runtime::Config { pin: false, overprovisioned: true, ..runtime::Config::new(1) };
    let inside = dir.clone();
    let main: runtime::Main = Arc::new(move || {
        let test = test(inside.clone());
        Box::pin(async move {
            test.await;
            0
        })
    });
    let code = runtime::run(config, main);
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(code, 0);
}

fn golden() -> PathBuf {
    PathBuf::from("../sstable/testdata")
}

fn place(name: &str) -> Place {
    Place::of(&golden().join(format!("{name}-Data.db"))).unwrap()
}

fn options_of(words: &str) -> DumpOptions {
    let mut options = DumpOptions::default();
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-d" => options.lines_per_row = true,
            "-e" => options.only_keys = true,
            "-t" => options.raw_times = true,
            "-l" => options.json_lines = true,
            "-k" => options.keys.push(words.next().unwrap().to_owned()),
            "-x" => options.excluded.push(words.next().unwrap().to_owned()),
            other => panic!("{other}"),
        }
    }
    options
}

async fn dumped(place: &Place, words: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    dump(place, &options_of(words), &mut Output::new(&mut bytes)).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn dumps_are_those_of_sstabledump() {
    on_shard(|_| {
        Box::pin(async {
            for (name, text) in [
                ("types/nb-1-big", include_str!("../testdata/types.json")),
                ("counts/da-3-bti", include_str!("../testdata/counts.json")),
            ] {
                assert_eq!(dumped(&place(name), "").await.unwrap(), text, "{name}");
            }
            for line in include_str!("../testdata/dumps.txt").lines() {
                let [name, words, bytes, crc] = line.split('|').collect::<Vec<_>>()[..] else {
                    panic!("{line}")
                };
                let text = dumped(&place(name), words).await.unwrap();
                assert_eq!(
                    (text.len().to_string(), format!("{:08x}", base::crc32(text.as_bytes()))),
                    (bytes.into(), crc.into()),
                    "{line}"
                );
            }
        })
    });
}

#[test]
fn keys_that_are_none_are_refused_and_those_that_are_not_there_find_nothing() {
    on_shard(|_| {
        Box::pin(async {
            let types = place("types/da-3-bti");
            assert_eq!(dumped(&types, "-k 12345").await.unwrap(), "[ ]");
            assert!(matches!(dumped(&types, "-k nosuch").await, Err(Error::Refused(_))));
            let keys = place("keys/nb-1-big");
            let one = dumped(&keys, "-k 12:k648 -k 76:k104 -k 12:k648").await.unwrap();
            assert_eq!(one.matches("\"partition\"").count(), 2);
            assert!(one.find("k104") < one.find("k648"), "in the order of the ring");
            assert!(Place::of(Path::new("la-1-big-Data.db")).is_err());
            let missing = Place::existing(Path::new("/nonexistent/nb-1-big-Data.db")).await;
            assert_eq!(missing.unwrap_err().to_string(), "Cannot find file /nonexistent/nb-1-big-Data.db");
        })
    });
}

#[test]
fn statistics_are_those_of_sstablemetadata() {
    on_shard(|_| {
        Box::pin(async {
            for (name, text) in [
                ("wide/nb-1-big", include_str!("../testdata/metadata.wide.nb-1-big.txt")),
                ("types/da-3-bti", include_str!("../testdata/metadata.types.da-3-bti.txt")),
                ("keys/nb-1-big", include_str!("../testdata/metadata.keys.nb-1-big.txt")),
            ] {
                let mut bytes = Vec::new();
                let mut out = Output::new(&mut bytes);
                metadata(&place(name), &MetadataOptions::default(), &mut out).await.unwrap();
                out.flush().unwrap();
                let printed = String::from_utf8(bytes).unwrap();
                let (file, printed) = printed.split_once('\n').unwrap();
                assert!(file.starts_with("SSTable: /") && file.ends_with(name), "{file}");
                let kept = printed
                    .lines()
                    .map(str::trim_end)
                    .filter(|line| !line.starts_with("Estimated droppable"));
                assert_eq!(kept.collect::<Vec<_>>(), text.lines().collect::<Vec<_>>(), "{name}");
            }
        })
    });
}

/// A copy of an sstable in a folder `<dir>/ks/<table>`.
fn copy(dir: &Path, name: &str) -> Place {
    let from = place(name);
    let to = dir.join("ks").join(name.split('/').next().unwrap());
    fs::create_dir_all(&to).unwrap();
    for component in Component::ALL {
        let path = from.file(component);
        if path.exists() {
            fs::copy(&path, component.path(&to, from.descriptor)).unwrap();
        }
    }
    Place { dir: to, descriptor: from.descriptor }
}

/// Turns bits of one byte round, and puts the digest right so that only the damage itself is seen.
fn damage(place: &Place, component: Component, at: usize) {
    let path = place.file(component);
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 0x55;
    fs::write(&path, &bytes).unwrap();
    if component == Component::Data {
        fs::write(place.file(Component::Digest), base::crc32(&bytes).to_string()).unwrap();
    }
}

#[test]
fn sound_files_are_sound_and_each_damage_is_named() {
    on_shard(|dir| {
        Box::pin(async move {
            for place in
                places(&["types", "wide", "keys", "names", "names_old"].map(|table| golden().join(table)))
                    .await
                    .unwrap()
            {
                let verdict = verify(&place).await.unwrap();
                assert_eq!(verdict.damages, Vec::<String>::new(), "{place:?}");
                assert!(verdict.partitions > 0 && verdict.bytes > 0);
            }
            for name in ["plain/nb-1-big", "plain/da-3-bti", "keys/nb-1-big"] {
                for (component, at) in
                    [(Component::Data, 1000), (Component::Statistics, 40), (Component::Digest, 0)]
                {
                    let copied = copy(&dir, name);
                    damage(&copied, component, at);
                    let verdict = verify(&copied).await.unwrap();
                    assert!(!verdict.is_sound(), "{name} {component:?}");
                    assert!(verdict.damages[0].contains(component.suffix()), "{:?}", verdict.damages);
                }
            }
            // A key in the index that is another than that in the data.
            let copied = copy(&dir, "keys/nb-1-big");
            damage(&copied, Component::Index, 3);
            let verdict = verify(&copied).await.unwrap();
            assert!(
                verdict.damages.iter().any(|damage| damage.contains("another key")),
                "{:?}",
                verdict.damages
            );
            let copied = copy(&dir, "keys/da-3-bti");
            let filter = copied.file(Component::Filter);
            let mut bytes = fs::read(&filter).unwrap();
            bytes[8..].fill(0);
            fs::write(&filter, bytes).unwrap();
            let verdict = verify(&copied).await.unwrap();
            assert!(verdict.damages[0].contains("Filter.db\" does not hold partition \"76:k104\""));
            assert_eq!(verdict.damages.len() as u64 + verdict.more, 1200);
            // What is behind the damage is looked at as well, by the index.
            let copied = copy(&dir, "keys/nb-1-big");
            damage(&copied, Component::Data, 100);
            let verdict = verify(&copied).await.unwrap();
            assert!(verdict.partitions > 600 && verdict.partitions < 1200, "{}", verdict.partitions);
            assert_eq!(verdict.partitions + verdict.unreadable, 1200);
            // What the command prints: file and offset; the exit code is of what it returns.
            let mut told = Vec::new();
            let paths = [copied.file(Component::Data), golden().join("types/nb-1-big-Index.db")];
            assert!(!crate::verify_all(&paths, &mut Output::new(&mut told)).await.unwrap());
            let told = String::from_utf8(told).unwrap();
            assert!(told.contains("nb-1-big-Data.db\" at offset 0: expected checksum 0x"), "{told}");
            assert!(told.contains(": DAMAGED, 1 faults; "), "{told}");
            assert!(
                told.ends_with("types/nb-1-big-Data.db: ok, 14 partitions, 13 rows, 2246 bytes\n"),
                "{told}"
            );
            fs::remove_file(copied.file(Component::Summary)).unwrap();
            let verdict = verify(&copied).await.unwrap();
            assert!(
                verdict.damages.iter().any(|damage| damage.contains("Summary.db\" is listed and missing"))
            );
        })
    });
}

#[test]
fn a_scrub_keeps_what_can_be_read_and_the_files_as_they_were() {
    on_shard(|dir| {
        Box::pin(async move {
            for (name, at) in [("keys/nb-1-big", 12_000), ("keys/da-3-bti", 7000), ("wide/nb-1-big", 2000)] {
                let copied = copy(&dir, name);
                let before = dumped(&copied, "-d").await.unwrap();
                damage(&copied, Component::Data, at);
                let damaged = fs::read(copied.file(Component::Data)).unwrap();
                let mut told = Vec::new();
                let sound = scrub(from_ref(&copied), &mut Output::new(&mut told)).await.unwrap();
                let told = String::from_utf8(told).unwrap();
                assert!(!sound && told.contains("lost: "), "{told}");
                let verdict = verify(&copied).await.unwrap();
                assert_eq!(verdict.damages, Vec::<String>::new(), "{name}");
                // Positions differ: what a line says behind them was said before.
                let said = |text: &str| -> Vec<String> {
                    text.lines()
                        .map(|line| line.split_once('@').unwrap().1.split_once(' ').unwrap().1.to_owned())
                        .collect()
                };
                let (before, after) = (said(&before), said(&dumped(&copied, "-d").await.unwrap()));
                assert!(
                    after.len() < before.len() && !after.is_empty(),
                    "{name}: {} of {}",
                    after.len(),
                    before.len()
                );
                let rows = after.iter().filter(|line| line.starts_with("Row"));
                assert!(rows.clone().all(|line| before.contains(line)), "{name}");
                assert!(rows.count() > 0, "{name}");
                let snapshots = fs::read_dir(copied.dir.join("snapshots")).unwrap();
                let kept = |snapshot: &PathBuf| Component::Data.path(snapshot, copied.descriptor).exists();
                let kept = snapshots.map(|entry| entry.unwrap().path()).find(kept).unwrap();
                assert_eq!(fs::read(Component::Data.path(&kept, copied.descriptor)).unwrap(), damaged);
                assert!(!copied.dir.join("scrub").exists());
            }
        })
    });
}

#[test]
fn a_scrub_of_a_sound_sstable_changes_nothing_that_it_says() {
    on_shard(|dir| {
        Box::pin(async move {
            for name in [
                "types/oa-2-big",
                "wide/da-3-bti",
                "counts/nb-1-big",
                "plain/nb-1-big",
                "seventy/da-3-bti",
                "names/da-3-bti",
            ] {
                let copied = copy(&dir, name);
                let before = dumped(&copied, "").await.unwrap();
                let mut told = Vec::new();
                assert!(scrub(from_ref(&copied), &mut Output::new(&mut told)).await.unwrap(), "{name}");
                assert_eq!(dumped(&copied, "").await.unwrap(), before, "{name}");
                assert!(verify(&copied).await.unwrap().is_sound(), "{name}");
            }
        })
    });
}

/// What a dump says, whatever order the columns have and wherever it stands in the file.
fn said_in_any_order(dump: &str) -> Value {
    let mut partitions: Value = serde_json::from_str(dump).unwrap();
    for partition in partitions.as_array_mut().unwrap() {
        partition["partition"].as_object_mut().unwrap().remove("position");
        for row in partition["rows"].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("position");
            row["cells"].as_array_mut().unwrap().sort_by_key(|cell| cell["name"].to_string());
        }
    }
    partitions
}

#[test]
fn a_scrub_of_columns_in_either_order_loses_nothing() {
    on_shard(|dir| {
        Box::pin(async move {
            for name in ["names/nb-1-big", "names_old/nb-1-big", "names_old/da-3-bti"] {
                let copied = copy(&dir, name);
                let before = dumped(&copied, "").await.unwrap();
                assert!(before.matches("zhe").count() > 10, "{name}");
                let mut told = Vec::new();
                assert!(scrub(from_ref(&copied), &mut Output::new(&mut told)).await.unwrap(), "{name}");
                let after = dumped(&copied, "").await.unwrap();
                assert_eq!(after != before, name.starts_with("names_old") || name.contains("nb"), "{name}");
                assert!(said_in_any_order(&after) == said_in_any_order(&before), "{name}: {before}\n{after}");
                assert!(verify(&copied).await.unwrap().is_sound(), "{name}");
            }
        })
    });
}

#[test]
fn a_scrub_refuses_where_a_node_runs_and_goes_on_where_one_was_cut_off() {
    on_shard(|dir| {
        Box::pin(async move {
            let copied = copy(&dir, "keys/nb-1-big");
            let lock = runtime::file::lock_exclusive(&dir).await.unwrap();
            let mut told = Vec::new();
            let refused = scrub(from_ref(&copied), &mut Output::new(&mut told)).await;
            assert!(matches!(refused, Err(Error::Refused(_))));
            drop(lock);
            // A power cut while the new files were put in place: half of them are.
            let workplace = copied.dir.join("scrub");
            fs::create_dir_all(&workplace).unwrap();
            for component in Component::ALL {
                let new = component.path(&workplace, sstable::Descriptor::new(copied.descriptor.version, 1));
                match component {
                    Component::Data => {}
                    _ if copied.file(component).exists() => fs::rename(copied.file(component), new).unwrap(),
                    _ => {}
                }
            }
            fs::write(workplace.join("moving"), "nb-1-big-Data.db").unwrap();
            assert!(!verify(&copied).await.unwrap().is_sound());
            assert!(scrub(from_ref(&copied), &mut Output::new(&mut told)).await.unwrap());
            assert!(verify(&copied).await.unwrap().is_sound());
            let mut shown = Vec::new();
            assert!(list(&dir, false, &mut Output::new(&mut shown)).await.unwrap());
            let shown = String::from_utf8(shown).unwrap();
            assert!(shown.lines().nth(1).unwrap().starts_with("ks        keys   nb-1-big"), "{shown}");
            assert!(shown.ends_with("KiB\n") && shown.contains("\n1 sstables, "), "{shown}");
        })
    });
}

/// What the metadata of the same files say in the words of Cassandra's sstablemetadata.
#[test]
fn a_list_as_json_says_of_every_sstable_what_it_is() {
    on_shard(|dir| {
        Box::pin(async move {
            let (keys, plain, broken) =
                (copy(&dir, "keys/nb-1-big"), copy(&dir, "plain/da-3-bti"), copy(&dir, "types/oa-2-big"));
            fs::write(broken.file(Component::Statistics), b"nothing of the kind").unwrap();
            let mut shown = Vec::new();
            let sound = list(&dir, true, &mut Output::new(&mut shown)).await.unwrap();
            assert!(!sound, "one cannot be read");
            let listed: Vec<Value> = serde_json::from_slice(&shown).unwrap();
            let [first, second, third] = &listed[..] else { panic!("{listed:?}") };
            let bytes = |place: &Place| -> u64 {
                let files = fs::read_dir(&place.dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
                files.map(|file| file.len()).sum()
            };
            let path = |place: &Place| place.file(Component::Data).display().to_string();
            assert_eq!(
                *first,
                json!({
                    "keyspace": "ks", "table": "keys", "sstable": "nb-1-big", "version": "nb", "format": "big",
                    "path": path(&keys), "bytes": bytes(&keys),
                    "partitions": 1200, "rows": 1200, "level": 0,
                    "first_token": -9195829797993836303i64, "first_key": "76:k104",
                    "last_token": 9219560883842847432i64, "last_key": "458:k482",
                    "min_timestamp": 1700000000000000i64, "max_timestamp": 1700000000001199i64,
                    "tombstones": 0, "expires_at": null, "repaired_at": 0,
                    "compressor": "LZ4Compressor", "compression_ratio": 0.4689500019394127,
                })
            );
            let names =
                |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
            assert_eq!(names(second), names(first), "the same of each");
            for (name, want) in [
                ("sstable", json!("da-3-bti")),
                ("format", json!("bti")),
                ("bytes", json!(bytes(&plain))),
                ("compressor", Value::Null),
                ("compression_ratio", Value::Null),
            ] {
                assert_eq!(second[name], want, "{name}");
            }
            assert_eq!((&third["table"], &third["path"]), (&json!("types"), &json!(path(&broken))));
            assert!(third["error"].as_str().unwrap().contains("Statistics.db"), "{third}");
            assert_eq!(third.get("rows"), None);
            // A folder without any is a list without any.
            let mut shown = Vec::new();
            let empty = dir.join("empty");
            fs::create_dir_all(&empty).unwrap();
            assert!(list(&empty, true, &mut Output::new(&mut shown)).await.unwrap());
            assert_eq!(shown, b"[]\n");
        })
    });
}

#[test]
fn bytes_without_checksums_never_panic() {
    on_shard(|dir| {
        Box::pin(async move {
            for (name, component) in [
                ("plain/nb-1-big", Component::Data),
                ("plain/da-3-bti", Component::Data),
                ("plain/nb-1-big", Component::Index),
                ("plain/da-3-bti", Component::Rows),
                ("plain/da-3-bti", Component::Partitions),
            ] {
                let copied = copy(&dir, name);
                for absent in [Component::Crc, Component::Digest] {
                    fs::remove_file(copied.file(absent)).unwrap();
                }
                let sound = fs::read(copied.file(component)).unwrap();
                let step = (sound.len() / 25).max(1);
                for at in (0..sound.len()).step_by(step) {
                    for bits in [0x01, 0x80, 0xff] {
                        let mut bytes = sound.clone();
                        bytes[at] ^= bits;
                        fs::write(copied.file(component), &bytes).unwrap();
                        let _ = dumped(&copied, "").await;
                        let _ = dumped(&copied, "-d -k 1").await;
                        verify(&copied).await.unwrap();
                    }
                }
                fs::write(copied.file(component), &sound[..sound.len() / 2]).unwrap();
                assert!(!verify(&copied).await.unwrap().is_sound(), "{name} {component:?}");
            }
        })
    });
}
