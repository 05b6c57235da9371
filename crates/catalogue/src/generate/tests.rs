//! Equal seeds make equal catalogues, other seeds others, and every file is its own.

use super::*;
use crate::path;
use crate::placement::guid_place;
use crate::record::Locations;
use std::collections::BTreeSet;

#[test]
fn a_seed_decides_everything() {
    let (first, again, other) =
        (Generator::new(1, 5_000), Generator::new(1, 5_000), Generator::new(2, 5_000));
    let (first, again, other) = (first.expect("few"), again.expect("few"), other.expect("few"));
    for file in [0, 1, 777, 4_999] {
        assert_eq!(first.file(file), again.file(file));
        assert_ne!(first.file(file).size, other.file(file).size);
    }
    // They are what files on disks hold: they must not change.
    let facts = first.file(0);
    assert_eq!(first.folder_path(0), "/alice/data/2010/LHC10b/000100000/raw");
    assert_eq!((facts.name.as_str(), facts.owner.as_str()), ("1000010000033.00000.root", "alidaq"));
    // 2010-02-01T00:00:00Z.
    assert_eq!((facts.changed, facts.permissions), (1_264_982_400_000, 0o644));
    assert!(Generator::new(1, 0).is_err() && Generator::new(1, FILES_MAX + 1).is_err());
}

#[test]
fn files_are_in_folders_and_their_own() {
    let generator = Generator::new(7, 30_000).expect("few");
    let (mut guids, mut paths, mut places) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for folder in 0..generator.folders() {
        let range = generator.files_of(folder);
        let mut last = String::new();
        for file in range.clone() {
            assert_eq!(generator.folder_of(file), folder);
            let facts = generator.file(file);
            assert!(last < facts.name, "names are in order: {last} {}", facts.name);
            let path = path::join(&generator.folder_path(folder), &facts.name);
            path::checked(&path).expect("a path");
            assert!(Locations::new(&facts.locations).all(|location| location.is_some()));
            places.insert(guid_place(&facts.guid).expect("a time"));
            assert!(guids.insert(facts.guid) && paths.insert(path), "{file}");
            assert!(facts.size > 0);
            last = facts.name;
        }
    }
    assert_eq!(guids.len(), 30_000);
    // What a folder's files are indexed by is one partition's or a few's.
    assert!(places.len() < 2 * generator.folders(), "{} of {}", places.len(), generator.folders());
    assert!((400..1_000).contains(&generator.folders()), "{}", generator.folders());
}

#[test]
fn a_large_catalogue_has_the_same_years() {
    let generator = Generator::new(3, 20_000_000).expect("fits");
    let last = generator.run_path(generator.runs() - 1);
    assert!(last.starts_with("/alice/data/2019/LHC19k/"), "{last}");
}
