//! What a scrub does beside a merge: it goes on behind what cannot be read, and sets apart what is out of order.

use super::{Input, Merge, piece_bytes};
use crate::Error;
use crate::compaction::output::Output;
use crate::compaction::strategy::Shape;
use crate::table::Sstable;
use base::Token;
use mutation::{Key, Slice};
use sstable::SourceSlice;

impl Merge<'_> {
    /// Keeps a partition that does not lie behind the one before for an sstable in which it does.
    pub(super) async fn set_apart(&mut self, key: &Key, index: usize) -> Result<(), Error> {
        self.merged.out_of_order += 1;
        let mut piece = self.inputs[index].piece.take();
        while let Some(next) = &piece {
            if self.apart.take(&self.definition, key, next)? {
                self.write_apart().await?;
            }
            if next.complete_to.is_none() {
                break;
            }
            self.check()?;
            self.settle().await?;
            piece = self.continue_piece(index).await?;
        }
        Ok(())
    }

    /// Writes what was set apart as an sstable of level 0: it overlaps the others.
    pub(super) async fn write_apart(&mut self) -> Result<(), Error> {
        if self.apart.len() == 0 {
            return Ok(());
        }
        let inputs = self.claim.sstables();
        let output = Output::new(self.store, self.table, self.definition.clone(), Shape::ONE, &inputs);
        let mut output = output.of_keys(self.apart.len() as u64);
        let written = self.apart.write(&mut output).await;
        match written {
            Ok(()) => self.output.take_over(&mut output),
            Err(_) => self.store.doom(self.table, output.discard().await),
        }
        written
    }

    /// Whether a token of an input counts for this shard. Out of order a partition may lie outside of what the sstable says of
    /// itself.
    pub(super) fn holds(&self, sstable: &Sstable, token: Token) -> bool {
        match self.work.skips_damage {
            false => sstable.covers(token),
            true => {
                self.store.interval.contains(token)
                    && (sstable.covers(token) || !sstable.entry.meta.covers(token))
            }
        }
    }

    /// Goes on behind what an input could not read: at the next partition by the index that can be read, alone, for reading ahead may
    /// have failed at damage that is not its own. By places in the file, not by tokens: these may be out of order.
    pub(super) async fn step_over(&mut self, index: usize) -> Option<SourceSlice> {
        let input = &mut self.inputs[index];
        input.scanner = None;
        let sstable = input.sstable.clone()?;
        let tells = input.tells(self.store.interval);
        let (mut at, mut unreadable) = (input.reached, None::<(u64, sstable::Error)>);
        let found = loop {
            let Some(start) = self.next_start(index, at).await else { break None };
            at = start + 1;
            self.inputs[index].met += 1;
            let mut closely = sstable.reader.scan_closely_from(start);
            let token = match closely.enter().await {
                Ok(Some(entered)) => entered.token,
                Ok(None) => continue,
                Err(error) => {
                    unreadable = Some(unreadable.map_or((1, error), |(count, first)| (count + 1, first)));
                    runtime::yield_if_needed().await;
                    continue;
                }
            };
            self.inputs[index].latest = Some(token);
            match closely.piece(&[Slice::all()], piece_bytes()).await {
                Ok(Some(scanned)) => break Some((closely, scanned.slice)),
                Ok(None) => {}
                Err(error) if self.holds(&sstable, token) => {
                    self.merged.lost_partitions += 1;
                    self.lose(format!("the partition of token {token}: {error}"));
                }
                Err(_) => {}
            }
            runtime::yield_if_needed().await;
        };
        if let Some((count, error)) = unreadable.filter(|_| tells) {
            self.merged.lost_partitions += count;
            self.lose(format!("{count} partitions one after the other: {error}"));
        }
        let (closely, slice) = found?;
        let rest = self.next_start(index, at).await;
        let input = &mut self.inputs[index];
        input.reached = at - 1;
        input.scanner = rest.map(|rest| sstable.reader.scan_from(rest));
        input.apart = Some(closely);
        Some(slice)
    }

    /// Where the first partition starts at or behind a place, by the index.
    pub(super) async fn next_start(&mut self, index: usize, at: u64) -> Option<u64> {
        let input = &mut self.inputs[index];
        let sstable = input.sstable.clone()?;
        let told = input.starts.next(&sstable.reader, at).await;
        let tells = input.tells(self.store.interval);
        if let Some(error) = told.filter(|_| tells) {
            self.lose(format!("what stands behind damage where the index does not lead: {error}"));
        }
        self.inputs[index].starts.first_from(at)
    }

    /// Counts what should be there and was not come to: behind damage a scan goes on by the index, which may be damaged, too.
    pub(super) fn lose_unmet(&mut self) {
        let of = |input: &Input| {
            let sstable = input.sstable.as_ref()?;
            let meta = &sstable.entry.meta;
            let unmet = meta.partitions.saturating_sub(input.met);
            (0 < unmet && input.tells(self.store.interval))
                .then(|| (unmet, sstable.reader.path(sstable::Component::Data)))
        };
        let unmet: Vec<_> = self.inputs.iter().filter_map(of).collect();
        for (count, path) in unmet {
            self.merged.lost_partitions += count;
            self.lose(format!("{count} partitions of \"{}\" that were not found", path.display()));
        }
    }

    /// Names what could not be read.
    pub(super) fn lose(&mut self, what: String) {
        runtime::warn!("scrub: table {}: lost {what}", self.definition.qualified_name());
        self.merged.lost.push(what);
    }

    /// Begins a scan behind the partition that an input stands in.
    pub(super) async fn go_on_by_index(&mut self, index: usize) {
        let Some(this) = self.next_start(index, self.inputs[index].reached).await else {
            self.inputs[index].scanner = None;
            return;
        };
        let next = self.next_start(index, this + 1).await;
        let input = &mut self.inputs[index];
        let Some(sstable) = &input.sstable else { return };
        input.scanner = next.map(|next| sstable.reader.scan_from(next));
    }
}
