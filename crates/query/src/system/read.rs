//! Answers a read command from generated partitions, by the rules a replica follows.

use super::partitions::Partitions;
use mutation::{Budget, Emit, Key, Partition, ReadAnswer, ReadCommand, Resume, Scope, emit};
use schema::Table;

/// Reads `command` from `partitions`.
pub fn read(table: &Table, partitions: &Partitions, command: &ReadCommand) -> ReadAnswer {
    let mut reading = Reading {
        table,
        command,
        rows_left: command.row_limit,
        bytes_left: command.byte_limit.bytes(),
        answer: ReadAnswer::default(),
    };
    let resume = command.resume.as_ref();
    match &command.scope {
        Scope::Keys(keys) => {
            // Keys are distinct, so the key the read stopped in tells where it stopped.
            let behind = resume.and_then(|r| keys.iter().position(|k| k.bytes == r.key.bytes));
            for key in &keys[behind.unwrap_or(0)..] {
                let place = (key.token, key.bytes.to_vec());
                let Some(partition) = partitions.get(&place) else { continue };
                if !reading.partition(key, partition) {
                    break;
                }
            }
        }
        Scope::Range(range) => {
            let first = resume.map_or((range.first, Vec::new()), |r| (r.key.token, r.key.bytes.to_vec()));
            for ((token, bytes), partition) in partitions.range(first..) {
                if *token > range.last {
                    break;
                }
                let key = Key::with_token(*token, bytes);
                if range.contains(*token) && !reading.partition(&key, partition) {
                    break;
                }
            }
        }
    }
    reading.answer
}

struct Reading<'a> {
    table: &'a Table,
    command: &'a ReadCommand,
    rows_left: u32,
    bytes_left: usize,
    answer: ReadAnswer,
}

impl Reading<'_> {
    /// Returns false when a limit stopped the read.
    fn partition(&mut self, key: &Key, partition: &Partition) -> bool {
        let here = self.command.resume.as_ref().filter(|r| r.key == *key);
        if here.is_some_and(|r| r.after.is_none()) {
            return true;
        }
        let taken = here.map_or(0, |r| r.rows_taken);
        let partition_rows = self.command.partition_row_limit.saturating_sub(taken);
        if partition_rows == 0 {
            return true;
        }
        if self.rows_left == 0 || self.bytes_left == 0 {
            self.answer.stopped = self.answer.partitions.last().map(|last| Resume {
                key: Key::with_token(last.token(), last.view().key),
                after: None,
                rows_taken: 0,
            });
            return self.answer.stopped.is_none();
        }
        let budget =
            Budget { rows: self.rows_left, partition_rows, bytes: self.bytes_left, tombstones: u32::MAX };
        let after = here.and_then(|r| r.after.as_ref());
        let part = Emit { table: self.table.id, key, command: self.command, after, complete_to: None };
        let emitted = emit(partition, &part, budget);
        self.rows_left = self.rows_left.saturating_sub(emitted.live_rows);
        self.answer.live_rows += emitted.live_rows;
        if let Some(mutation) = emitted.mutation {
            self.bytes_left = self.bytes_left.saturating_sub(mutation.as_bytes().len());
            self.answer.partitions.push(mutation);
        }
        let cut_by_partition = emitted.live_rows >= partition_rows;
        match emitted.cut_after {
            Some(after) if !cut_by_partition => {
                let rows_taken = taken.saturating_add(emitted.live_rows);
                self.answer.stopped = Some(Resume { key: key.clone(), after: Some(after), rows_taken });
                false
            }
            _ => true,
        }
    }
}
