//! Which files of a node may be damaged without the damage being excusable.

/// Sstables' own files, and log segments whose end is certain: no crash explains a wrong bit there.
/// `logs`: those of the log as well.
pub(crate) fn damageable(files: &[(String, u64)], logs: bool) -> Vec<(String, u64)> {
    let wanted = |(path, size): &&(String, u64)| {
        let log = log_name(path).filter(|_| logs);
        let behind = files.iter().filter_map(|(other, _)| log_name(other));
        // The last one with entries may end anywhere, and one behind it may be prepared.
        let older =
            log.is_some_and(|(a, b, c)| behind.filter(|(x, y, z)| (a, b) == (*x, *y) && c < *z).count() > 1);
        // A snapshot's files are the table's own under a second name, and the node names the first.
        *size > 0 && (path.ends_with(".db") && !path.contains("/snapshots/") || older)
    };
    files.iter().filter(wanted).cloned().collect()
}

/// Incarnation, shard and number in the path of a log segment.
fn log_name(path: &str) -> Option<(u32, u32, u32)> {
    let name = path.rsplit('/').next()?.strip_suffix(".log")?;
    let mut numbers = name.split('-').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}
