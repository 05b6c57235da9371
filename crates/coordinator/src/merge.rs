//! Several replicas' answers to one command become one.
//!
//! Each answer covers the scope up to where it stopped. What all cover is merged by timestamp; what only some cover is
//! left for the next round. A limit counts rows alive after merging, so rows that another replica has deleted make the
//! merged page short, and the next round reads on from where it ended. Replicas are asked without the limit on rows of
//! one partition ([`for_replicas`]): what such a limit cuts off would be covered by nobody.

use base::HashMap;
use mutation::{
    Budget, Emit, Error, Key, Mutation, MutationView, Partition, ReadAnswer, ReadCommand, Resume, Scope, emit,
};
use schema::{Position, Table};
use std::cmp::Ordering;

/// What merging gave.
pub(crate) struct Merged {
    /// The merged answer; `stopped` says up to where the replicas' answers and the limits reach.
    pub(crate) answer: ReadAnswer,
    /// For each replica, in the order given, what it lacks of the covered part.
    pub(crate) repairs: Vec<Vec<Mutation>>,
}

/// Merges answers of replicas to the same command. Errors when an answer does not fit the table.
pub(crate) fn merge_answers(
    table: &Table,
    command: &ReadCommand,
    answers: &[ReadAnswer],
) -> Result<Merged, Error> {
    merge_with(table, command, answers, vec![Vec::new(); answers.len()])
}

/// As [`merge_answers`]; nobody wants to know what each lacks.
pub(crate) fn merge_only(
    table: &Table,
    command: &ReadCommand,
    answers: &[ReadAnswer],
) -> Result<ReadAnswer, Error> {
    Ok(merge_with(table, command, answers, Vec::new())?.answer)
}

fn merge_with(
    table: &Table,
    command: &ReadCommand,
    answers: &[ReadAnswer],
    repairs: Vec<Vec<Mutation>>,
) -> Result<Merged, Error> {
    let covered = first_stop(command, answers);
    let tombstones = answers.iter().map(|answer| answer.tombstones).max().unwrap_or(0);
    let mut merged = Merged {
        answer: ReadAnswer { stopped: covered.cloned(), tombstones, ..ReadAnswer::default() },
        repairs,
    };
    let mut budget = Budget {
        rows: command.row_limit,
        partition_rows: command.partition_row_limit,
        bytes: command.byte_limit.bytes(),
        // Replicas have ended their answers where they met too many.
        tombstones: u32::MAX,
    };
    let indexes: Vec<Index<'_>> = answers.iter().map(index).collect();
    for key in keys_in_order(command, answers) {
        let versions: Vec<Option<MutationView<'_>>> =
            indexes.iter().map(|index| index.get(&*key.bytes).copied()).collect();
        let place = covered.map(|stop| (compare_keys(command, &key, &stop.key), stop.after.as_ref()));
        let complete_to = match place {
            Some((Ordering::Greater, _)) => break,
            Some((Ordering::Equal, after)) => after,
            Some((Ordering::Less, _)) | None => None,
        };
        if budget.rows == 0 || budget.bytes == 0 {
            merged.answer.stopped = merged.answer.partitions.last().map(Resume::behind);
            return Ok(merged);
        }
        let emitted = put_partition(table, command, &key, &versions, complete_to, budget, &mut merged)?;
        if emitted.cut {
            return Ok(merged);
        }
        budget.rows = budget.rows.saturating_sub(emitted.live_rows);
        budget.bytes = budget.bytes.saturating_sub(emitted.bytes);
    }
    Ok(merged)
}

/// The answer of replicas whose digests are equal: the first one has the data, the others may know more behind a limit
/// that it just met.
pub(crate) fn agreed(command: &ReadCommand, mut answers: Vec<ReadAnswer>) -> ReadAnswer {
    let stopped = first_stop(command, &answers).cloned();
    ReadAnswer { stopped, ..answers.swap_remove(0) }
}

/// Up to where all answers reach; `None`: all of them cover everything.
fn first_stop<'a>(command: &ReadCommand, answers: &'a [ReadAnswer]) -> Option<&'a Resume> {
    answers.iter().filter_map(|a| a.stopped.as_ref()).min_by(|a, b| compare_stops(command, a, b))
}

/// The command as several replicas are asked it.
pub(crate) fn for_replicas(command: &ReadCommand) -> ReadCommand {
    ReadCommand { partition_row_limit: u32::MAX, ..command.clone() }
}

struct Put {
    live_rows: u32,
    bytes: usize,
    /// A limit ended the merged answer inside this partition.
    cut: bool,
}

fn put_partition(
    table: &Table,
    command: &ReadCommand,
    key: &Key,
    versions: &[Option<MutationView<'_>>],
    complete_to: Option<&Position>,
    budget: Budget,
    merged: &mut Merged,
) -> Result<Put, Error> {
    let mut partition = Partition::new();
    for version in versions.iter().flatten() {
        partition.apply(table, version)?;
    }
    let resume = command.resume.as_ref().filter(|r| r.key == *key);
    let taken = resume.map_or(0, |r| r.rows_taken);
    let budget = Budget { partition_rows: budget.partition_rows.saturating_sub(taken), ..budget };
    let after = resume.and_then(|r| r.after.as_ref());
    let request = Emit { table: table.id, key, command, after, complete_to };
    let emitted = emit(&partition, &request, budget);
    let bytes = emitted.mutation.as_ref().map_or(0, |m| m.as_bytes().len());
    merged.answer.live_rows += emitted.live_rows;
    if let Some(mutation) = emitted.mutation.as_ref().filter(|_| !merged.repairs.is_empty()) {
        collect_repairs(table, versions, mutation, &mut merged.repairs)?;
    }
    let partition_full = emitted.live_rows >= budget.partition_rows;
    let all_full = emitted.live_rows >= budget.rows || bytes >= budget.bytes;
    let mut put = Put { live_rows: emitted.live_rows, bytes, cut: false };
    if let Some(stopped) = merged.answer.stopped.as_mut().filter(|s| s.key == *key) {
        stopped.rows_taken = taken + emitted.live_rows;
    }
    if let Some(after) = emitted.cut_after
        && complete_to != Some(&after)
    {
        // The partition's own limit ends the partition, not the page.
        put.cut = all_full || !partition_full;
        if put.cut {
            let rows_taken = taken + emitted.live_rows;
            merged.answer.stopped = Some(Resume { key: key.clone(), after: Some(after), rows_taken });
        }
    }
    merged.answer.partitions.extend(emitted.mutation);
    Ok(put)
}

/// A replica that lacks something gets the merged partition; writing what it has already does no harm.
fn collect_repairs(
    table: &Table,
    versions: &[Option<MutationView<'_>>],
    whole: &Mutation,
    repairs: &mut [Vec<Mutation>],
) -> Result<(), Error> {
    let mut merged = Partition::new();
    merged.apply(table, &whole.view())?;
    for (version, repairs) in versions.iter().zip(repairs) {
        let mut theirs = Partition::new();
        if let Some(version) = version {
            theirs.apply(table, version)?;
        }
        let mut both = theirs.clone();
        both.apply(table, &whole.view())?;
        if both != theirs {
            repairs.push(whole.clone());
        }
    }
    Ok(())
}

/// The partitions of an answer by key.
type Index<'a> = HashMap<&'a [u8], MutationView<'a>>;

fn index(answer: &ReadAnswer) -> Index<'_> {
    answer.partitions.iter().map(Mutation::view).map(|view| (view.key, view)).collect()
}

/// Every partition that any answer mentions, once, in the order of reading.
fn keys_in_order(command: &ReadCommand, answers: &[ReadAnswer]) -> Vec<Key> {
    let views = answers.iter().flat_map(|a| &a.partitions).map(Mutation::view);
    let mut keys: Vec<Key> = views.map(|v| Key::with_token(v.token, v.key)).collect();
    match &command.scope {
        Scope::Range(_) => keys.sort(),
        Scope::Keys(asked) => {
            let places: HashMap<&Key, usize> = asked.iter().enumerate().map(|(at, key)| (key, at)).collect();
            keys.sort_by_key(|key| places.get(key).copied().unwrap_or(usize::MAX));
        }
    }
    keys.dedup();
    keys
}

fn compare_keys(command: &ReadCommand, a: &Key, b: &Key) -> Ordering {
    match &command.scope {
        Scope::Range(_) => a.cmp(b),
        Scope::Keys(keys) => {
            let place = |key: &Key| keys.iter().position(|k| k == key).unwrap_or(usize::MAX);
            place(a).cmp(&place(b))
        }
    }
}

/// Which of two stops comes first in the order of reading.
fn compare_stops(command: &ReadCommand, a: &Resume, b: &Resume) -> Ordering {
    compare_keys(command, &a.key, &b.key).then_with(|| match (&a.after, &b.after) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(x), Some(y)) if command.reversed => y.cmp(x),
        (Some(x), Some(y)) => x.cmp(y),
    })
}

#[cfg(test)]
mod tests;
