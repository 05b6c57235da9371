//! One answer put together from parts that lie one behind the other in the order of reading: shards of a node, pieces of a scope with replicas of their own,
//! rounds of one read.

use crate::answer::{Partitions, ReadAnswer};
use crate::command::{Key, ReadCommand, Resume, Scope};
use crate::encoded::{Item, Mutation, MutationBuilder};
use crate::ranges::RangeTombstone;

/// The parts so far, and what the limits of the command leave for the next one.
pub struct Page<'c> {
    command: &'c ReadCommand,
    whole: ReadAnswer,
    bytes: usize,
}

impl<'c> Page<'c> {
    /// An answer to a command, empty so far.
    pub fn new(command: &'c ReadCommand) -> Page<'c> {
        Page { command, whole: ReadAnswer::default(), bytes: 0 }
    }

    /// The command for the next part, with what is left of the limits. The resume point is the whole command's: it is for the caller to say
    /// whether it lies in this part. Rows and no digest: a digest of a part is worth nothing.
    pub fn next(&self, scope: Scope) -> ReadCommand {
        ReadCommand {
            scope,
            digest_only: false,
            tombstones: self.whole.tombstones.max(self.command.tombstones),
            row_limit: self.command.row_limit.saturating_sub(self.whole.live_rows).max(1),
            byte_limit: self.command.byte_limit.after(self.bytes),
            ..self.command.clone()
        }
    }

    /// Takes the next part. Its count of tombstones includes those it was told of, so that it is that of the whole.
    pub fn push(&mut self, part: ReadAnswer) {
        self.whole.live_rows += part.live_rows;
        self.whole.tombstones = part.tombstones;
        self.bytes += part.partitions.iter().map(|partition| partition.as_bytes().len()).sum::<usize>();
        append(&mut self.whole.partitions, part.partitions);
        self.whole.stopped = part.stopped;
    }

    /// Whether a limit of the command is met.
    pub fn is_full(&self) -> bool {
        self.command.row_limit <= self.whole.live_rows
            || self.command.byte_limit.is_reached_by(self.bytes)
            || self.command.is_tired_by(self.whole.tombstones)
    }

    /// Where the last part has stopped.
    pub fn stopped(&self) -> Option<&Resume> {
        self.whole.stopped.as_ref()
    }

    /// Whether the answer ends here although further parts would follow: the last one has stopped, or a limit is met. Then it stops behind its last
    /// partition; with none so far there is no such place, and it goes on.
    pub fn ends_before_more(&mut self) -> bool {
        if self.whole.stopped.is_none() && self.is_full() {
            self.whole.stopped = self.whole.partitions.last().map(Resume::behind);
        }
        self.whole.stopped.is_some()
    }

    /// The answer.
    pub fn finish(self) -> ReadAnswer {
        self.whole
    }
}

impl Resume {
    /// The point behind a whole partition.
    pub fn behind(partition: &Mutation) -> Resume {
        let view = partition.view();
        Resume { key: Key::with_token(view.token, view.key), after: None, rows_taken: 0 }
    }
}

/// Adds the partitions of a further part. One that goes on where the part before stopped in it stays one partition: whoever reads the answer must
/// not take its end for a partition of only a static row.
fn append(whole: &mut Partitions, more: Partitions) {
    let mut more = more.into_iter();
    if let (Some(last), Some(first)) = (whole.last_mut(), more.as_slice().first())
        && last.view().key == first.view().key
    {
        *last = joined(last, first);
        more.next();
    }
    whole.extend(more);
}

/// Two parts of one partition, one behind the other in the order of reading.
fn joined(first: &Mutation, second: &Mutation) -> Mutation {
    let (first, second) = (first.view(), second.view());
    let mut builder = MutationBuilder::new(first.table, first.token, first.key);
    builder.deletion(first.deletion);
    if let Some(body) = first.static_row.or(second.static_row) {
        builder.static_row(body);
    }
    for item in first.items().chain(second.items()) {
        match item {
            Item::Row { clustering, body } => builder.row(clustering, body),
            Item::Range { start, end, deletion } => {
                let (start, end) = (start.to_bound(), end.to_bound());
                builder.range(&RangeTombstone { start, end, deletion });
            }
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::command::TokenRange;
    use crate::deletion::{Deletion, Liveness};
    use crate::limit::ByteLimit;
    use crate::row::RowWriter;
    use base::Token;
    use schema::TableId;

    fn partition(key: u8) -> Mutation {
        MutationBuilder::new(TableId(1), Token(i64::from(key)), &[key]).finish()
    }

    fn part(keys: &[u8], live_rows: u32) -> ReadAnswer {
        let partitions = keys.iter().map(|key| partition(*key)).collect();
        ReadAnswer { partitions, live_rows, ..ReadAnswer::default() }
    }

    fn command() -> ReadCommand {
        let range = Scope::Range(TokenRange::ALL);
        ReadCommand { row_limit: 3, tombstone_limit: 10, ..ReadCommand::everything(TableId(1), range, 0) }
    }

    #[test]
    fn limits_shrink_with_each_part_and_end_the_page_behind_its_last_partition() {
        let command = command();
        let mut page = Page::new(&command);
        page.push(part(&[1], 2));
        assert!(!page.ends_before_more());
        let next = page.next(command.scope.clone());
        assert_eq!(next.row_limit, 1);
        assert_eq!(next.byte_limit.bytes(), ByteLimit::MOST.bytes() - partition(1).as_bytes().len());
        page.push(part(&[2], 1));
        assert!(page.ends_before_more());
        assert_eq!(page.finish().stopped, Some(Resume::behind(&partition(2))));
    }

    #[test]
    fn a_page_without_partitions_goes_on_whatever_it_has_met() {
        let command = command();
        let mut page = Page::new(&command);
        page.push(ReadAnswer { tombstones: 11, ..ReadAnswer::default() });
        assert!(page.is_full() && !page.ends_before_more());
        assert_eq!(page.next(command.scope.clone()).tombstones, 11);
    }

    #[test]
    fn a_partition_that_goes_on_stays_one() {
        let part = |key: &[u8], c: u8| {
            let mut builder = MutationBuilder::new(TableId(1), Token(0), key);
            builder.static_row_with(|out| {
                RowWriter::new(out, Liveness::NONE, Deletion::LIVE).simple(0, Cell::live(1, b"s"));
            });
            let mut clustering = Vec::new();
            schema::push_component(&mut clustering, Some(&[c]));
            builder.write_row(&clustering, Liveness::at(1), Deletion::LIVE, |_| {});
            builder.finish()
        };
        let answer = |partitions: &[Mutation]| ReadAnswer {
            partitions: partitions.iter().cloned().collect(),
            ..ReadAnswer::default()
        };
        let command = command();
        let mut page = Page::new(&command);
        page.push(answer(&[part(b"a", 1)]));
        page.push(answer(&[part(b"a", 2), part(b"b", 1)]));
        page.push(answer(&[part(b"c", 1)]));
        let whole = page.finish().partitions;
        let rows: Vec<usize> = whole.iter().map(|one| one.view().rows().count()).collect();
        assert_eq!(rows, [2, 1, 1]);
        assert!(whole.iter().all(|one| one.view().static_row.is_some()));
    }
}
