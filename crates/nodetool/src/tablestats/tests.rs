//! Screens of Apache Cassandra 5.0.6, printed again from the numbers they show.

use super::*;
use crate::golden::golden;

/// `shop.visits` as Cassandra had it when the golden texts were taken.
fn visits() -> Table {
    let read = Histogram { count: 20, total: 4644.0, mean: 280.3, ..Histogram::default() };
    let write = Histogram { count: 405, total: 25_350.0, mean: 71.2, ..Histogram::default() };
    Table {
        keyspace: "shop".into(),
        table: "visits".into(),
        sstable_count: 1,
        max_sstable_bytes: 10_641,
        space_live: 10_641,
        space_total: 10_641,
        compression_ratio: 0.326_859_632_741_985_7,
        partitions_estimate: 20,
        memtable_switches: 1,
        read,
        write,
        bytes_unrepaired: 16_065,
        bloom_space: 40,
        bloom_off_heap: 32,
        index_summary_off_heap: 18,
        compression_metadata_off_heap: 8,
        partition_min: 771,
        partition_max: 924,
        partition_mean: 924,
        live_per_slice: Histogram {
            count: 24,
            mean: 33.833_333_333_333_336,
            max: 103.0,
            ..Histogram::default()
        },
        tombstones_per_slice: Histogram {
            count: 24,
            mean: 1.083_333_333_333_333_3,
            max: 3.0,
            ..Histogram::default()
        },
        ..Table::default()
    }
}

/// `shop.carts`, as far as the keyspace's line needs it.
fn carts() -> Table {
    Table {
        keyspace: "shop".into(),
        table: "carts".into(),
        read: Histogram { count: 20, total: 4920.0, ..Histogram::default() },
        write: Histogram { count: 400, total: 21_082.0, ..Histogram::default() },
        sstables_per_level: vec![1, 0, 0, 0, 0, 0, 0, 0, 0],
        sstable_bytes_per_level: vec![2940, 0, 0, 0, 0, 0, 0, 0, 0],
        ..Table::default()
    }
}

fn printed(words: &[&str], style: &Style<'_>, format: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut out = String::new();
    print(&[carts(), visits()], &Filter::new(&words, false), style, format, &mut out);
    out
}

const PLAIN: Style<'_> = Style { human: false, locations: false, sort: None, top: 0 };

#[test]
fn a_human_reads_it() {
    let text = printed(&["shop.visits"], &Style { human: true, ..PLAIN }, "");
    assert_eq!(text, golden(include_str!("../../testdata/tablestats_human.txt")));
}

#[test]
fn json_has_the_same_names_in_the_same_order() {
    assert_eq!(printed(&["shop.visits"], &PLAIN, "json"), include_str!("../../testdata/tablestats.json"));
}

#[test]
fn yaml_has_the_same_names_in_the_same_order() {
    assert_eq!(printed(&["shop.visits"], &PLAIN, "yaml"), include_str!("../../testdata/tablestats.yaml"));
}

#[test]
fn levels_that_are_too_full_say_so() {
    let mut table = carts();
    table.sstables_per_level = vec![5, 11, 3];
    let mut out = String::new();
    fields::print(&table, "carts", "\t\t", false, false, &mut out);
    assert!(out.contains("\t\tSSTables in each level: [5/4, 11/10, 3]\n"), "{out}");
    // What is too much for one shard is not for two.
    (table.shards, out) = (2, String::new());
    fields::print(&table, "carts", "\t\t", false, false, &mut out);
    assert!(out.contains("\t\tSSTables in each level: [5, 11, 3]\n"), "{out}");
}

#[test]
fn sorted_tables_carry_their_keyspace() {
    let text = printed(&[], &Style { sort: Some("writes"), top: 1, ..PLAIN }, "");
    assert!(text.starts_with(
        "Total number of tables: 2 (showing top 1 by writes)\n----------------\n\tTable: shop.visits\n"
    ));
    assert!(!text.contains("carts"));
    let text = printed(&[], &Style { sort: Some("reads"), ..PLAIN }, "");
    assert!(text.find("shop.carts") < text.find("shop.visits"), "equal ones come by name");
}

#[test]
fn what_does_not_exist_is_named() {
    let words = ["nope".to_owned(), "shop.a".to_owned(), "shop.visits".to_owned(), "shop.b".to_owned()];
    let tables = [carts(), visits()];
    let known = ["shop".to_owned()];
    let error = Filter::new(&words, false).verify(&known, &tables).unwrap_err();
    assert_eq!(error.to_string(), "Unknown keyspace: nope");
    let error = Filter::new(&words[1..], false).verify(&known, &tables).unwrap_err();
    assert_eq!(error.to_string(), "Unknown tables: [a, b] in keyspace: shop");
}

#[test]
fn ignored_tables_leave_the_others() {
    let words = ["shop.visits".to_owned()];
    let filter = Filter::new(&words, true);
    assert!(filter.shows(&carts()) && !filter.shows(&visits()));
    assert!(printed(&["other"], &PLAIN, "").is_empty(), "a keyspace without tables prints nothing");
}
