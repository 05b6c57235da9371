//! Reads of a run: what is asked, what is shown, what must be.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use base::{Instant, shard_of};
use mutation::{Key, ReadAnswer, ReadCommand, Scope, Slice, TokenRange};
use runtime::sim::World;
use storage::{Error, Store};

use super::change::{ReadOp, Trouble, Wanted, With, Write, WriteOp};
use super::limits::{AGAIN_MAX, RACE_READS_MAX};
use super::machine::{self, everywhere, on_shard};
use super::run::Run;
use super::shape::key_of;
use super::truth::{Known, Partition, Seen};

/// What a read of all pages gave.
pub(super) struct Answer {
    pub(super) pages: Vec<ReadAnswer>,
    /// The second at which it judged, and the one in which it ended.
    pub(super) from: u32,
    pub(super) to: u32,
}

/// A write of a race: what it was, how it went, and when that was told.
type Told = (Rc<Write>, Result<(), Error>, Instant);

/// A read of a race: writes told before it began, writes begun when it ended, and what it gave.
type Asked = (usize, usize, Result<Answer, Error>);

impl Run {
    fn command(&self, read: &ReadOp) -> ReadCommand {
        let shape = &self.shapes[read.table];
        let slices = match read.slices.is_empty() {
            true => [Slice::all()].into_iter().collect(),
            false => read.slices.iter().map(|(start, end)| shape.slice(start, end)).collect(),
        };
        let scope = match &read.wanted {
            Wanted::Keys(keys) => Scope::Keys(self.same_shard(keys).into_iter().map(key_of).collect()),
            Wanted::Tokens(first, last) => {
                Scope::Range(TokenRange::new(base::Token(*first), base::Token(*last)))
            }
        };
        ReadCommand {
            slices,
            reversed: read.reversed,
            static_counts: read.static_counts,
            row_limit: read.rows,
            partition_row_limit: read.partition_rows,
            byte_limit: mutation::ByteLimit::near(read.bytes.into()),
            tombstone_limit: if read.rows % 4 == 1 { 1 + read.rows % 5 } else { u32::MAX },
            ..ReadCommand::everything(shape.table.id, scope, 0)
        }
    }

    /// Those keys that the shard of the first one has.
    fn same_shard(&self, keys: &[u16]) -> Vec<u16> {
        let shard = |key: &u16| shard_of(key_of(*key).token, self.machine.shards);
        keys.iter().copied().filter(|key| shard(key) == shard(&keys[0])).collect()
    }

    /// What must be seen at a second, in the order of an answer; partitions of which nothing is seen are left out.
    pub(super) fn expected(&self, read: &ReadOp, now_s: u32) -> Vec<(u16, Seen)> {
        let known = &self.truth[read.table];
        let seen = self.asked(read).into_iter().filter_map(|key| {
            let seen = self.seen_of(read, &known.get(&key)?.now, now_s);
            (!seen.is_empty()).then_some((key, seen))
        });
        seen.collect()
    }

    /// The partitions that a read asks for, in the order of an answer.
    fn asked(&self, read: &ReadOp) -> Vec<u16> {
        match &read.wanted {
            Wanted::Keys(keys) => self.same_shard(keys),
            Wanted::Tokens(first, last) => {
                let known = self.truth[read.table].keys();
                let mut keys: Vec<(Key, u16)> = known.map(|key| (key_of(*key), *key)).collect();
                keys.retain(|(key, _)| *first <= key.token.0 && key.token.0 <= *last);
                keys.sort();
                keys.into_iter().map(|(_, number)| number).collect()
            }
        }
    }

    /// What a read sees of a partition that is this.
    fn seen_of(&self, read: &ReadOp, partition: &Partition, now_s: u32) -> Seen {
        let columns = &self.shapes[read.table].hidden;
        let mut seen = partition.seen(columns, &read.slices, read.reversed, now_s);
        seen.rows.truncate(read.partition_rows as usize);
        seen
    }

    /// Learns which of the writes a full disk refused have appeared: the fewest that explain what is shown, and would have from the
    /// first of these seconds to the last. Returns the partitions of which several explanations have nothing in common.
    fn learn(&mut self, read: &ReadOp, shown: &[(u16, Seen)], (from, to): (u32, u32)) -> Vec<u16> {
        let (mut unsure, lossy) = (Vec::new(), self.lossy.is_some());
        for key in self.asked(read) {
            let Some(known) = self.truth[read.table].get(&key).filter(|known| known.may_be_more()) else {
                continue;
            };
            let found = shown.iter().find(|(other, _)| *other == key).map(|(_, seen)| seen.clone());
            let found = found.unwrap_or_default();
            let shows = |state: &Partition| {
                let at = |second: u32| self.seen_of(read, state, second) == found;
                at(from) && (from == to || at(to))
            };
            if shows(&known.now) {
                continue;
            }
            let mut fitting = known.more();
            fitting.retain(|(state, _)| shows(state));
            fitting.sort_by_key(|(_, among)| among.len());
            let Some((_, fewest)) = fitting.first() else { continue };
            if fitting.iter().all(|(_, among)| fewest.iter().all(|number| among.contains(number))) {
                self.known(read.table, key).appeared(fewest, lossy);
            } else {
                unsure.push(key);
            }
        }
        unsure
    }

    /// What the pages of an answer show. Errors: something that nobody wrote, or rows counted wrong.
    pub(super) fn shown(&self, read: &ReadOp, answer: &Answer) -> Result<Vec<(u16, Seen)>, String> {
        let mut seen = Vec::new();
        for page in &answer.pages {
            if page.live_rows > read.rows {
                return Err(format!("a page of {} rows has {}", read.rows, page.live_rows));
            }
            self.shapes[read.table].add_page(page, (answer.from, answer.to), &mut seen)?;
        }
        seen.retain(|(_, partition)| !partition.is_empty());
        let alone = |seen: &Seen| seen.rows.is_empty() && read.static_counts;
        let rows: usize = seen.iter().map(|(_, seen)| seen.rows.len() + usize::from(alone(seen))).sum();
        let counted: u64 = answer.pages.iter().map(|page| u64::from(page.live_rows)).sum();
        if counted == rows as u64 { Ok(seen) } else { Err(format!("{rows} rows are counted as {counted}")) }
    }

    /// Reads all pages. `None`: it failed on a troubled disk.
    pub(super) fn ask(&mut self, world: &mut World, read: &ReadOp) -> Result<Option<Answer>, String> {
        let asking = asking(self.command(read), self.writes & 1 == 0);
        match self.machine.run(world, "a read", asking)? {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if matches!(self.trouble, Some(Trouble::Reads(_))) => Ok(None),
            Err(error) => Err(format!("a read fails: {error}")),
        }
    }

    pub(super) fn read(&mut self, world: &mut World, read: &ReadOp) -> Result<(), String> {
        for again in (0..AGAIN_MAX).rev() {
            let Some(answer) = self.ask(world, read)? else { return Ok(()) };
            let mut shown = self.shown(read, &answer)?;
            let unsure = self.learn(read, &shown, (answer.from, answer.to));
            let mut expected = self.expected(read, answer.from);
            shown.retain(|(key, _)| !unsure.contains(key));
            expected.retain(|(key, _)| !unsure.contains(key));
            if shown == expected {
                return if read.digest { self.digest(world, read) } else { Ok(()) };
            }
            // What a full disk refused may have appeared between two pages.
            let table = &self.truth[read.table];
            let more = |key: &u16| table.get(key).is_some_and(Known::may_be_more);
            if again > 0 && self.asked(read).iter().any(more) {
                continue;
            }
            // Something expired meanwhile, and may be gone.
            if answer.from == answer.to || expected == self.expected(read, answer.to) {
                return Err(format!("{read:?} at {} shows {}", answer.from, difference(&shown, &expected)));
            }
        }
        Ok(())
    }

    /// What caches answer is what the files and memtables say, tombstones included.
    fn past_caches(&mut self, world: &mut World, read: &ReadOp) -> Result<(), String> {
        let (command, key) = (self.command(read), read.wanted.first_key());
        let shard = shard_of(key_of(key).token, self.machine.shards);
        let asking = async move {
            let asked = ReadCommand { now_s: machine::second(), ..command };
            let (first, cold, last) = (asked.clone(), asked.clone(), asked);
            let first = on_shard(shard, move |store: Rc<Store>| async move { store.read(&first).await });
            let first = first.await;
            let cold = on_shard(shard, move |store: Rc<Store>| async move { store.read_cold(&cold).await });
            let cold = cold.await;
            let last = on_shard(shard, move |store: Rc<Store>| async move { store.read(&last).await });
            (first, cold, last.await)
        };
        let (first, cold, last) = self.machine.run(world, "a read past the caches", asking)?;
        let (Ok(first), Ok(cold), Ok(last)) = (first, cold, last) else { return Ok(()) };
        let table = self.shapes[read.table].table.clone();
        let asked = self.command(read);
        let digest = |answer: &ReadAnswer| mutation::digest(&table, &asked, answer, None);
        // A compaction may have forgotten a tombstone in between.
        if digest(&first) == digest(&last) && digest(&first) != digest(&cold) {
            let (ours, cold) = (parts(&first), parts(&cold));
            return Err(format!(
                "{read:?}: only caches answer {}; only past them there is {}",
                beyond(&ours, &cold),
                beyond(&cold, &ours)
            ));
        }
        Ok(())
    }

    /// The digest of a page is that of its content.
    fn digest(&mut self, world: &mut World, read: &ReadOp) -> Result<(), String> {
        let Wanted::Keys(_) = read.wanted else { return Ok(()) };
        // As coordinators ask: without the limit of each partition.
        let command = ReadCommand { partition_row_limit: u32::MAX, ..self.command(read) };
        let Scope::Keys(keys) = &command.scope else { return Ok(()) };
        let shard = shard_of(keys[0].token, self.machine.shards);
        let asked = command.clone();
        let asking = async move {
            let now_s = machine::second();
            let one = move |digest_only: bool| {
                let asked = ReadCommand { now_s, digest_only, ..command.clone() };
                on_shard(shard, move |store: Rc<Store>| async move { store.read(&asked).await })
            };
            (one(false).await, one(true).await, one(false).await)
        };
        let (before, digest, after) = self.machine.run(world, "a digest", asking)?;
        let (Ok(before), Ok(digest), Ok(after)) = (before, digest, after) else { return Ok(()) };
        // A compaction may have forgotten a tombstone in between. Where bytes limit a page, how far it goes may depend on where
        // things lie: a tombstone's bounds count, and files cut those that reach beyond what is asked for.
        let table = &self.shapes[read.table].table;
        let content = |answer: &ReadAnswer| mutation::digest(table, &asked, answer, None);
        let ends_alike = read.bytes == u32::MAX || before.stopped == digest.stopped;
        let same = content(&before) == content(&after) && ends_alike;
        if same && digest.digest != Some(content(&before)) {
            return Err(format!("{read:?}: the digest is not that of the content"));
        }
        Ok(())
    }

    /// Reads while writes come: each read shows all of some first ones of them, those told before it began among them.
    pub(super) fn race(
        &mut self,
        world: &mut World,
        read: &ReadOp,
        reads: u32,
        writes: &[WriteOp],
        with: With,
    ) -> Result<(), String> {
        let command = self.command(read);
        let id = command.table;
        let [Wanted::Keys(keys)] = std::slice::from_ref(&read.wanted) else { return Ok(()) };
        let key = keys[0];
        let writing: Vec<_> = writes.iter().filter_map(|op| self.writing(op)).collect();
        let told: Rc<RefCell<Vec<Told>>> = Rc::default();
        let begun: Rc<Cell<usize>> = Rc::default();
        let done: Rc<Cell<bool>> = Rc::default();
        let (told_in, begun_in, done_in) = (told.clone(), begun.clone(), done.clone());
        let shard = shard_of(key_of(key).token, self.machine.shards);
        let mut pause = u64::from(key) % 7 * 40;
        let writer = async move {
            for write in writing {
                runtime::sleep(Duration::from_micros(pause)).await;
                begun_in.set(begun_in.get() + 1);
                let (write, result) = write.await;
                told_in.borrow_mut().push((write, result, runtime::now()));
                pause = pause * 3 % 500;
            }
        };
        let mut tasks = vec![world.spawn(self.machine.node, writer)];
        let shown: Rc<RefCell<Vec<Asked>>> = Rc::default();
        for number in 0..reads {
            let (command, shown, told, begun) = (command.clone(), shown.clone(), told.clone(), begun.clone());
            let done = done.clone();
            tasks.push(world.spawn(self.machine.node, async move {
                runtime::sleep(Duration::from_micros(u64::from(number) * 70)).await;
                for _ in 0..RACE_READS_MAX {
                    if with.chill {
                        let chill = move |store: Rc<Store>| async move { store.forget_cached(id) };
                        let _ = on_shard(shard, chill).await;
                    }
                    let least = told.borrow().iter().filter(|(_, result, _)| result.is_ok()).count();
                    let answer = asking(command.clone(), false).await;
                    shown.borrow_mut().push((least, begun.get(), answer));
                    if !with.chill || done.get() {
                        return;
                    }
                }
            }));
        }
        tasks.push(world.spawn(self.machine.node, async move {
            // What they say is told by the next flush that is waited for.
            if with.flush {
                let _ = everywhere(move |store| async move { store.flush(Some(id)).await }).await;
            }
            if with.compact {
                let _ = everywhere(move |store| async move { store.compact(id).await }).await;
            }
            done_in.set(true);
        }));
        if !world.run_until(|_| tasks.iter().all(|task| task.done()), 2 * crate::limits::START) {
            return Err("reads and writes of one partition do not end".to_string());
        }
        let mut states = vec![self.known(read.table, key).now.clone()];
        for (write, result, at) in told.take() {
            self.note(write, &result, at)?;
            states.push(self.known(read.table, key).now.clone());
        }
        let refused = self.known(read.table, key).ghosts() > 0;
        if self.known(read.table, key).may_be_more() {
            // What a full disk refused may have appeared between any two of them.
            return self.read(world, read);
        }
        for (least, most, answer) in shown.take() {
            let answer = match answer {
                Ok(answer) => answer,
                Err(_) if matches!(self.trouble, Some(Trouble::Reads(_))) => continue,
                Err(error) => return Err(format!("a read fails: {error}")),
            };
            // Of many sstables little is read at a time, and each page shows what was there when it was read.
            if answer.pages.len() > 1 {
                continue;
            }
            let shown = self.shown(read, &answer)?;
            let least = if refused { 0 } else { least };
            let columns = &self.shapes[read.table].hidden;
            let is_of = |state: &Partition, now_s: u32| {
                let seen = state.seen(columns, &read.slices, read.reversed, now_s);
                let shown = shown.first().map(|(_, seen)| seen.clone()).unwrap_or_default();
                seen == shown
            };
            let allowed = &states[least..=most.min(states.len() - 1)];
            let expired = answer.from != answer.to;
            if !expired && !allowed.iter().any(|state| is_of(state, answer.from)) {
                let expected = allowed[0].seen(columns, &read.slices, read.reversed, answer.from);
                return Err(format!(
                    "{read:?} while {} writes came shows none of their states {least}..={most}: {}",
                    states.len() - 1,
                    difference(&shown, &[(key, expected)])
                ));
            }
        }
        self.read(world, read)
    }

    /// Reads all of a table, whole and key by key.
    pub(super) fn cold(&mut self, world: &mut World, table: usize) -> Result<(), String> {
        self.read(world, &everything(table))?;
        let keys: Vec<u16> = self.truth[table].keys().copied().collect();
        for key in keys {
            let read = ReadOp { wanted: Wanted::Keys(vec![key]), ..everything(table) };
            self.read(world, &read)?;
            self.past_caches(world, &read)?;
        }
        Ok(())
    }
}

/// A read of all of a table.
pub(super) fn everything(table: usize) -> ReadOp {
    ReadOp {
        table,
        wanted: Wanted::Tokens(i64::MIN, i64::MAX),
        slices: Vec::new(),
        reversed: false,
        rows: u32::MAX,
        partition_rows: u32::MAX,
        bytes: u32::MAX,
        static_counts: false,
        digest: false,
    }
}

/// Reads all pages of a command, a range on every shard.
async fn asking(command: ReadCommand, in_one_step: bool) -> Result<Answer, Error> {
    let from = machine::second();
    let command = ReadCommand { now_s: from, ..command };
    let pages = match &command.scope {
        Scope::Keys(keys) => {
            let shard = shard_of(keys[0].token, runtime::shard_count());
            machine::pages(shard, command, in_one_step).await?
        }
        Scope::Range(_) => {
            let mut pages = Vec::new();
            for shard in 0..runtime::shard_count() {
                pages.extend(machine::pages(shard, command.clone(), false).await?);
            }
            pages
        }
    };
    Ok(Answer { pages, from, to: machine::second() })
}

/// What an answer is made of: key, deletion, static row, rows and range tombstones of each partition, as text.
fn parts(answer: &ReadAnswer) -> Vec<String> {
    let mut parts = Vec::new();
    for partition in answer.partitions.iter() {
        let view = partition.view();
        let key = view.key;
        parts.push(format!("{key:?} {:?} static {:?}", view.deletion, view.static_row));
        parts.extend(view.items().map(|item| format!("{key:?} {item:?}")));
    }
    parts
}

/// Which parts one answer has and the other has not; a few, and only the beginning of each.
fn beyond(ours: &[String], theirs: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut only = ours.iter().filter(|part| !theirs.contains(part));
    let shown: Vec<String> = only.by_ref().take(SHOWN).map(|part| format!("{part:.400}")).collect();
    match only.count() {
        0 if shown.is_empty() => "nothing".into(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The first place where what is shown is not what must be.
pub(super) fn difference(shown: &[(u16, Seen)], expected: &[(u16, Seen)]) -> String {
    let empty = Seen::default();
    let keys = |of: &[(u16, Seen)]| of.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    for (key, must) in expected {
        let found = shown.iter().find(|(other, _)| other == key).map_or(&empty, |(_, seen)| seen);
        if found != must {
            return partition_difference(*key, found, must);
        }
    }
    for (key, found) in shown {
        if !expected.iter().any(|(other, _)| other == key) {
            return partition_difference(*key, found, &empty);
        }
    }
    format!("partitions {:?} in place of {:?}", keys(shown), keys(expected))
}

fn partition_difference(key: u16, found: &Seen, must: &Seen) -> String {
    let partition = format!("in partition {key}");
    if found.fixed != must.fixed {
        return format!("{partition} the static row {:?} in place of {:?}", found.fixed, must.fixed);
    }
    let places = |seen: &Seen| seen.rows.iter().map(|(place, _)| place.clone()).collect::<Vec<_>>();
    if places(found) != places(must) {
        let (found, must) = (places(found), places(must));
        let more: Vec<_> = found.iter().filter(|place| !must.contains(place)).collect();
        let less: Vec<_> = must.iter().filter(|place| !found.contains(place)).collect();
        return format!(
            "{partition} {} rows in place of {}; too many: {more:?}; missing: {less:?}",
            found.len(),
            must.len()
        );
    }
    let rows = found.rows.iter().zip(&must.rows).find(|(found, must)| found != must);
    match rows {
        Some((found, must)) => format!("{partition} the row {found:?} in place of {must:?}"),
        None => partition,
    }
}
