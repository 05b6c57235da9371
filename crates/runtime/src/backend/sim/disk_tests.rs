//! What survives: synced bytes and names always, unsynced ones by seed, torn only inside their sector.

use super::*;

const MIB: u64 = 1 << 20;

fn run(disk: &mut Disk, op: DiskOp) -> io::Result<DiskOut> {
    let ticket = disk.submit(op);
    disk.complete(ticket)
}

fn open(disk: &mut Disk, path: &str) -> u64 {
    let flags = OpenFlags { create: true, ..OpenFlags::default() };
    match run(disk, DiskOp::Open { path: path.into(), flags }) {
        Ok(DiskOut::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

fn write(disk: &mut Disk, handle: u64, offset: u64, data: &[u8]) -> io::Result<DiskOut> {
    run(disk, DiskOp::Write { handle, offset, data: data.to_vec() })
}

fn sync(disk: &mut Disk, handle: u64) -> io::Result<DiskOut> {
    run(disk, DiskOp::Sync { handle })
}

fn sync_dir(disk: &mut Disk, path: &str) {
    run(disk, DiskOp::SyncDir { path: path.into() }).expect("the folder exists");
}

fn contents(disk: &mut Disk, path: &str) -> Option<Vec<u8>> {
    let handle = match run(disk, DiskOp::Open { path: path.into(), flags: OpenFlags::default() }) {
        Ok(DiskOut::Handle(handle)) => handle,
        _ => return None,
    };
    let bytes = match run(disk, DiskOp::Read { handle, offset: 0, len: 1 << 30 }) {
        Ok(DiskOut::Bytes(bytes)) => bytes,
        other => panic!("{other:?}"),
    };
    disk.close(handle);
    Some(bytes)
}

#[test]
fn synced_bytes_and_names_survive_every_power_cut() {
    for seed in 0..200 {
        let mut disk = Disk::new(seed, MIB);
        run(&mut disk, DiskOp::CreateDirAll { path: "/d/e".into() }).expect("room");
        sync_dir(&mut disk, "/");
        sync_dir(&mut disk, "/d");
        let handle = open(&mut disk, "/d/e/f");
        sync_dir(&mut disk, "/d/e");
        write(&mut disk, handle, 0, &[7; 3000]).expect("room");
        sync(&mut disk, handle).expect("no fault");
        write(&mut disk, handle, 3000, &[8; 600]).expect("room");
        disk.power_cut();
        let bytes = contents(&mut disk, "/d/e/f").expect("its name was synced");
        assert!(bytes.len() >= 3000, "seed {seed}");
        assert!(bytes[..3000].iter().all(|b| *b == 7), "seed {seed}");
        assert!(bytes[3000..].iter().all(|b| *b == 8 || *b == 0), "seed {seed}");
    }
}

#[test]
fn an_unsynced_sector_is_lost_kept_or_torn_over_the_seeds() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..400 {
        let mut disk = Disk::new(seed, MIB);
        let handle = open(&mut disk, "/f");
        sync_dir(&mut disk, "/");
        write(&mut disk, handle, 0, &[1; 512]).expect("room");
        sync(&mut disk, handle).expect("no fault");
        write(&mut disk, handle, 0, &[2; 512]).expect("room");
        disk.power_cut();
        let bytes = contents(&mut disk, "/f").expect("synced");
        assert_eq!(bytes.len(), 512);
        assert!(bytes.iter().all(|b| *b == 1 || *b == 2));
        match bytes.iter().filter(|b| **b == 2).count() {
            0 => lost += 1,
            512 => kept += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 20 && kept > 20 && torn > 20, "{lost} {kept} {torn}");
}

#[test]
fn renames_without_a_folder_sync_may_or_may_not_have_happened_but_never_half() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..200 {
        let mut disk = Disk::new(seed, MIB);
        let a = open(&mut disk, "/a");
        write(&mut disk, a, 0, b"old").expect("room");
        sync(&mut disk, a).expect("no fault");
        sync_dir(&mut disk, "/");
        let b = open(&mut disk, "/a.tmp");
        write(&mut disk, b, 0, b"new").expect("room");
        sync(&mut disk, b).expect("no fault");
        run(&mut disk, DiskOp::Rename { from: "/a.tmp".into(), to: "/a".into() }).expect("both exist");
        disk.power_cut();
        let bytes = contents(&mut disk, "/a").expect("either version is there");
        match &bytes[..] {
            b"old" => old += 1,
            b"new" => {
                new += 1;
                assert!(contents(&mut disk, "/a.tmp").is_none(), "the rename is one step");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(old > 20 && new > 20, "{old} {new}");
}

#[test]
fn a_sync_covers_what_completed_before_it_was_asked() {
    let mut lost = 0;
    for seed in 0..200 {
        let mut disk = Disk::new(seed, MIB);
        let handle = open(&mut disk, "/f");
        sync_dir(&mut disk, "/");
        write(&mut disk, handle, 0, &[1; 512]).expect("room");
        let asked = disk.submit(DiskOp::Sync { handle });
        write(&mut disk, handle, 512, &[2; 512]).expect("room");
        disk.complete(asked).expect("no fault");
        disk.power_cut();
        let bytes = contents(&mut disk, "/f").expect("synced");
        assert_eq!(&bytes[..512], &[1; 512]);
        lost += u32::from(bytes.len() < 1024 || bytes[512..] != [2; 512]);
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn a_failed_sync_may_lose_what_it_covered_for_good() {
    let mut lost = 0;
    for seed in 0..200 {
        let mut disk = Disk::new(seed, MIB);
        let handle = open(&mut disk, "/f");
        sync_dir(&mut disk, "/");
        write(&mut disk, handle, 0, &[1; 512]).expect("room");
        disk.fail_next_syncs(1);
        assert!(sync(&mut disk, handle).is_err());
        sync(&mut disk, handle).expect("only one was to fail");
        disk.power_cut();
        let bytes = contents(&mut disk, "/f").expect("synced name");
        lost += u32::from(bytes != [1; 512]);
    }
    assert!(lost > 20 && lost < 180, "{lost}");
}

#[test]
fn a_killed_process_loses_only_its_operations_in_flight_and_its_locks() {
    let mut disk = Disk::new(3, MIB);
    let handle = open(&mut disk, "/f");
    assert!(disk.lock("/"));
    assert!(!disk.lock("/"));
    write(&mut disk, handle, 0, &[5; 4096]).expect("room");
    disk.kill();
    assert!(disk.lock("/"));
    assert_eq!(contents(&mut disk, "/f"), Some(vec![5; 4096]));
}

#[test]
fn space_runs_out_and_comes_back() {
    let mut disk = Disk::new(1, 4096);
    let handle = open(&mut disk, "/f");
    let full = write(&mut disk, handle, 0, &[0; 5000]).expect_err("too large");
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    write(&mut disk, handle, 0, &[0; 4096]).expect("fits");
    assert_eq!(disk.free_space(), 0);
    run(&mut disk, DiskOp::Remove { path: "/f".into() }).expect("exists");
    assert_eq!(disk.free_space(), 0, "still open");
    disk.close(handle);
    assert_eq!(disk.free_space(), 4096);
}

#[test]
fn truncated_and_grown_again_never_shows_old_bytes_after_a_sync() {
    for seed in 0..100 {
        let mut disk = Disk::new(seed, MIB);
        let handle = open(&mut disk, "/f");
        sync_dir(&mut disk, "/");
        write(&mut disk, handle, 0, &[9; 2000]).expect("room");
        sync(&mut disk, handle).expect("no fault");
        run(&mut disk, DiskOp::Truncate { handle, len: 100 }).expect("open");
        run(&mut disk, DiskOp::Allocate { handle, len: 3000 }).expect("room");
        sync(&mut disk, handle).expect("no fault");
        disk.power_cut();
        let bytes = contents(&mut disk, "/f").expect("synced");
        assert_eq!(bytes.len(), 3000);
        assert!(bytes[..100].iter().all(|b| *b == 9));
        assert!(bytes[100..].iter().all(|b| *b == 0), "seed {seed}");
    }
}

#[test]
fn bits_rot_where_they_are_told_to() {
    let mut disk = Disk::new(1, MIB);
    let handle = open(&mut disk, "/f");
    write(&mut disk, handle, 0, &[0; 10]).expect("room");
    assert!(disk.flip_bit("/f", 3, 2));
    assert!(!disk.flip_bit("/f", 10, 0));
    assert_eq!(contents(&mut disk, "/f").expect("open")[3], 4);
    assert_eq!(disk.files(), vec![("/f".to_string(), 10)]);
}

#[test]
fn folders_list_and_vanish_whole() {
    let mut disk = Disk::new(1, MIB);
    run(&mut disk, DiskOp::CreateDirAll { path: "/x/y".into() }).expect("room");
    let handle = open(&mut disk, "/x/y/f");
    write(&mut disk, handle, 0, &[1; 7]).expect("room");
    disk.close(handle);
    let names: Vec<String> = disk.read_dir("/x").expect("exists").into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["y"]);
    assert!(run(&mut disk, DiskOp::Remove { path: "/x".into() }).is_err());
    run(&mut disk, DiskOp::RemoveDirAll { path: "/x".into() }).expect("exists");
    assert!(disk.read_dir("/x").is_err());
    assert_eq!(disk.free_space(), MIB);
}
