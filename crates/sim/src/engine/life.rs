//! Ends and begins: how a life of the node ends, what is there in the next, and what is left on the disk.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use base::Instant;
use runtime::sim::World;
use storage::{Durability, Error};

use super::change::{End, Flip, Part, Restart, Write, WriteOp};
use super::limits::{AGAIN_MAX, QUIET};
use super::machine::{on_shard, schema_of};
use super::reads::{difference, everything};
use super::run::Run;
use super::truth::{Known, Seen};
use crate::damage::damageable;

/// How writes under way went: what they were, and what was heard of them and when.
type Heard = Rc<RefCell<Vec<(Rc<Write>, Option<(Result<(), Error>, Instant)>)>>>;

/// What a partition is after a start.
struct Explained {
    key: u16,
    state: super::truth::Partition,
    /// It can be nothing else.
    is_certain: bool,
}

impl Run {
    /// The first start, on an empty disk.
    pub(super) fn begin(&mut self, world: &mut World, shards: u16) -> Result<(), String> {
        self.boot(world, shards);
        self.machine.opened(world)
    }

    fn boot(&mut self, world: &mut World, shards: u16) {
        let shapes: Vec<_> = self.shapes.iter().map(|shape| (**shape).clone()).collect();
        self.machine.start(world, shards, schema_of(&shapes));
    }

    /// Ends this life and begins the next one.
    pub(super) fn restart(&mut self, world: &mut World, restart: &Restart) -> Result<(), String> {
        let at = self.end(world, restart)?;
        // What was told before this is certain to be there.
        let horizon = match (self.lossy, restart.end) {
            (None, _) => Instant::MAX,
            (Some(_), End::Orderly) if !self.broken => Instant::MAX,
            // What a process leaves to the kernel is there, unless the power fails before a start has read it.
            (Some(_), End::Kill) if !self.broken && restart.cuts.is_empty() => Instant::MAX,
            (Some(certain_after), _) => {
                let sure = self.doubt.map_or(at, |doubt| doubt.min(at));
                if sure.0 > certain_after.as_nanos() as u64 { sure - certain_after } else { Instant(0) }
            }
        };
        (self.broken, self.doubt) = (false, None);
        if let Some(flip) = restart.flip {
            self.boot_with_rot(world, flip, restart.shards, horizon)?;
        }
        for (shards, after) in &restart.cuts {
            self.boot(world, *shards);
            world.run_for(*after);
            if world.alive(self.machine.node) {
                world.power_cut(self.machine.node);
            }
        }
        self.boot(world, restart.shards);
        self.machine.opened(world)?;
        self.settle(world, horizon)
    }

    /// Ends a life with writes under way; says when.
    fn end(&mut self, world: &mut World, restart: &Restart) -> Result<Instant, String> {
        let heard: Heard = Rc::default();
        let mut tasks = Vec::new();
        for op in &restart.writes {
            let Some(op) = self.admitted(op) else { continue };
            let timestamp = self.timer(&op);
            let (shape, heard) = (self.shapes[op.table].clone(), heard.clone());
            tasks.push(world.spawn(self.machine.node, async move {
                let write = Rc::new(super::run::timed(op, &timestamp));
                let number = heard.borrow().len();
                heard.borrow_mut().push((write.clone(), None));
                let result = super::run::apply(vec![shape.mutation(&write)], Durability::Mode).await;
                heard.borrow_mut()[number].1 = Some((result, runtime::now()));
            }));
        }
        world.run_for(restart.after);
        let at = world.now();
        let troubled = self.was_troubled();
        match restart.end {
            End::Orderly if !self.broken => {
                self.mend(world);
                let code = self.machine.stop(world)?;
                if code != 0 && !troubled {
                    return Err(format!("an orderly stop ends with {code}"));
                }
            }
            End::Kill if !self.broken => world.kill(self.machine.node),
            _ => world.power_cut(self.machine.node),
        }
        drop(tasks);
        self.mend(world);
        let stopped = restart.end == End::Orderly;
        for (write, outcome) in heard.take() {
            match outcome {
                Some((Ok(()), told)) => self.note(write, &Ok(()), told)?,
                // A stop refuses what comes too late.
                Some((Err(Error::TooLarge { .. }), _)) => {}
                Some((Err(error), _)) if !stopped && !troubled => {
                    return Err(format!("a write is refused on a good disk: {error}"));
                }
                Some((Err(_), _)) | None => self.known(write.table, write.key).refused(write, None),
            }
        }
        Ok(at)
    }

    /// Reads everything; from then on that is certain.
    /// Errors: it is nothing that it may be.
    fn settle(&mut self, world: &mut World, horizon: Instant) -> Result<(), String> {
        let mut doubtful = Vec::new();
        for table in 0..self.shapes.len() {
            for Explained { key, state, is_certain } in self.explained(world, table, horizon)? {
                self.known(table, key).becomes(state);
                if !is_certain {
                    doubtful.push((table, key));
                }
            }
        }
        if doubtful.is_empty() { Ok(()) } else { self.resolve(world, &doubtful) }
    }

    /// Deletes partitions that may be one of several things which look alike: a tombstone may be there that hides nothing yet.
    fn resolve(&mut self, world: &mut World, partitions: &[(usize, u16)]) -> Result<(), String> {
        let apart = std::time::Duration::from_millis(2);
        world.run_for(apart);
        for (table, key) in partitions {
            let op =
                WriteOp { table: *table, key: *key, back: 0, ttl: 0, parts: vec![Part::DeletePartition] };
            let Some(op) = self.admitted(&op) else { continue };
            let (timestamp, shape) = (self.timer(&op), self.shapes[*table].clone());
            let writing = async move {
                let write = Rc::new(super::run::timed(op, &timestamp));
                let result = super::run::apply(vec![shape.mutation(&write)], Durability::Synced).await;
                (write, result)
            };
            let (write, result) = self.machine.run(world, "a write", writing)?;
            result.map_err(|error| format!("a write is refused on a good disk: {error}"))?;
            let known = self.known(*table, *key);
            known.told(write, Instant(0), false);
            known.settle();
        }
        world.run_for(apart);
        Ok(())
    }

    /// What each partition is now, of everything it may be.
    fn explained(
        &mut self,
        world: &mut World,
        table: usize,
        horizon: Instant,
    ) -> Result<Vec<Explained>, String> {
        let read = everything(table);
        let mut wrong = String::new();
        for _ in 0..AGAIN_MAX {
            let Some(answer) = self.ask(world, &read)? else { continue };
            let shown = self.shown(&read, &answer)?;
            let find = |key: u16| shown.iter().find(|(other, _)| *other == key).map(|(_, seen)| seen);
            let columns = &self.shapes[table].hidden;
            let mut becomes = Vec::new();
            wrong.clear();
            for (key, _) in &shown {
                if !self.truth[table].contains_key(key) {
                    return Err(format!(
                        "after a start table {table} has a partition {key} that nobody wrote"
                    ));
                }
            }
            for (key, known) in &self.truth[table] {
                let found = find(*key).cloned().unwrap_or_default();
                let is_it = |state: &super::truth::Partition| {
                    [answer.from, answer.to]
                        .iter()
                        .any(|now_s| state.seen(columns, &[], false, *now_s) == found)
                };
                let candidates = known.candidates(horizon);
                let mut fitting = candidates.iter().filter(|state| is_it(state));
                match fitting.next() {
                    Some(state) => {
                        let is_certain = fitting.next().is_none();
                        becomes.push(Explained { key: *key, state: state.clone(), is_certain });
                    }
                    None => {
                        let must: Seen = candidates[0].seen(columns, &[], false, answer.from);
                        let told = difference(&[(*key, found)], &[(*key, must)]);
                        let count = candidates.len();
                        wrong = format!("after a start table {table} shows none of {count} states: {told}");
                        break;
                    }
                }
            }
            if wrong.is_empty() {
                return Ok(becomes);
            }
            if answer.from == answer.to {
                break;
            }
        }
        Err(if wrong.is_empty() { "what is there after a start cannot be read".to_string() } else { wrong })
    }

    // ---- rot -----------------------------------------------------------------------------------------------------

    /// The file and the byte that a flip is about.
    fn target(&self, world: &World, flip: Flip, logs: bool) -> Option<(String, u64)> {
        let files = damageable(&world.files(self.machine.node), logs);
        let (path, size) = files.get((flip.file % files.len().max(1) as u64) as usize)?;
        Some((path.clone(), flip.byte % size))
    }

    /// Starts with a flipped bit: either everything is as it must be, or file and place are named. Then it is flipped back.
    fn boot_with_rot(
        &mut self,
        world: &mut World,
        flip: Flip,
        shards: u16,
        horizon: Instant,
    ) -> Result<(), String> {
        let Some((path, byte)) = self.target(world, flip, true) else { return Ok(()) };
        let node = self.machine.node;
        let names = world.names_of(node, &path);
        world.flip_bit(node, &path, byte, flip.bit);
        let said_before = world.log_lines().len();
        self.boot(world, shards);
        let read = self.machine.opened(world).and_then(|()| self.check_all(world, horizon));
        let judged = judge(world, &names, said_before, read)
            .map_err(|text| format!("bit {} of byte {byte} of {path} is flipped, and {text}", flip.bit));
        if world.alive(node) {
            world.power_cut(node);
        }
        self.flip_back(world, &names, byte, flip);
        judged
    }

    /// Flips it back under the first name that the file still has: where an import gave it two, the other may be gone.
    fn flip_back(&self, world: &mut World, names: &[String], byte: u64, flip: Flip) {
        names.iter().any(|name| world.flip_bit(self.machine.node, name, byte, flip.bit));
    }

    fn check_all(&mut self, world: &mut World, horizon: Instant) -> Result<(), String> {
        (0..self.shapes.len()).try_for_each(|table| self.explained(world, table, horizon).map(drop))
    }

    /// Flips a bit of an sstable in use: reads are right, or say where. Then it is flipped back and the node starts anew.
    pub(super) fn rot(&mut self, world: &mut World, flip: Flip) -> Result<(), String> {
        if self.is_troubled() {
            return Ok(());
        }
        let Some((path, byte)) = self.target(world, flip, false) else { return Ok(()) };
        let node = self.machine.node;
        let names = world.names_of(node, &path);
        world.flip_bit(node, &path, byte, flip.bit);
        let said_before = world.log_lines().len();
        let read = self.check_all(world, Instant::MAX);
        let judged = judge(world, &names, said_before, read).map_err(|text| {
            format!("bit {} of byte {byte} of {path} in use is flipped, and {text}", flip.bit)
        });
        self.flip_back(world, &names, byte, flip);
        judged?;
        let (after, shards) = (std::time::Duration::ZERO, self.machine.shards);
        let (end, writes, flip, cuts) = (End::Kill, Vec::new(), None, Vec::new());
        self.restart(world, &Restart { end, writes, after, flip, cuts, shards })
    }

    // ---- the end -------------------------------------------------------------------------------------------------

    /// Everything is as it must be, also after a stop in good order, and nothing is left over on the disk.
    pub(super) fn finish(&mut self, world: &mut World) -> Result<(), String> {
        self.mend(world);
        let shards = self.machine.shards;
        let restart = |end: End| Restart {
            end,
            writes: Vec::new(),
            after: std::time::Duration::ZERO,
            flip: None,
            cuts: Vec::new(),
            shards,
        };
        if self.broken {
            self.restart(world, &restart(End::Power))?;
        }
        let all = |run: &mut Run, world: &mut World| {
            (0..run.shapes.len()).try_for_each(|table| run.cold_of(world, table))
        };
        all(self, world)?;
        self.restart(world, &restart(End::Orderly))?;
        all(self, world)?;
        self.nothing_is_left_over(world)?;
        self.truth.iter_mut().flat_map(|table| table.values_mut()).for_each(Known::settle);
        match self.machine.stop(world)? {
            0 => Ok(()),
            code => Err(format!("an orderly stop ends with {code}")),
        }
    }

    /// Soon the files of tables are those of sstables that count, each of them whole.
    fn nothing_is_left_over(&mut self, world: &mut World) -> Result<(), String> {
        let until = world.now() + QUIET;
        loop {
            let left = self.left_over(world)?;
            match left {
                None => return Ok(()),
                Some(text) if world.now() >= until => return Err(text),
                Some(_) => world.run_for(std::time::Duration::from_secs(1)),
            }
        }
    }

    fn left_over(&mut self, world: &mut World) -> Result<Option<String>, String> {
        for shape in self.shapes.clone() {
            let id = shape.table.id;
            let folder = format!("/{}-{:032x}/", shape.table.name, id.0);
            let files = world.files(self.machine.node);
            let ours = files.iter().filter_map(|(path, _)| path.split_once(&folder).map(|(_, name)| name));
            let names: Vec<&str> = ours.filter(|name| !name.contains('/')).collect();
            if let Some(name) = names.iter().find(|name| name.ends_with(".tmp")) {
                return Ok(Some(format!("the temporary file {name} is left over")));
            }
            // A name is version, generation, format and component.
            let whole = |suffix: &str| -> BTreeSet<&str> {
                names.iter().filter_map(|name| name.strip_suffix(suffix)).collect()
            };
            let sstables = whole("-TOC.txt");
            let stray = names.iter().find(|name| {
                let head = name.rsplit_once('-').map_or("", |(head, _)| head);
                !sstables.contains(head)
            });
            if let Some(name) = stray {
                return Ok(Some(format!("{name} belongs to no whole sstable")));
            }
            let counting = async move {
                let mut count = 0;
                for shard in 0..runtime::shard_count() {
                    let of_shard = move |store: Rc<storage::Store>| async move { store.sstables(id) };
                    count += on_shard(shard, of_shard).await?;
                }
                Ok::<usize, Error>(count)
            };
            let counting = self.machine.run(world, "a count of sstables", counting)?;
            let count = counting.map_err(|error| format!("sstables cannot be counted: {error}"))?;
            // Several shards may share one.
            if sstables.len() > count {
                let found = sstables.len();
                return Ok(Some(format!(
                    "{found} sstables of table {} are on the disk, {count} count",
                    shape.table.name
                )));
            }
        }
        Ok(None)
    }

    /// All of a table, whole and by key.
    fn cold_of(&mut self, world: &mut World, table: usize) -> Result<(), String> {
        self.play(world, &super::change::Op::Cold { table })
    }
}

/// How the texts of reads and starts begin that failed, unlike those of answers that are wrong.
const FAILURES: [&str; 2] = ["a read fails: ", "the stores do not open: "];

/// What a start says that goes on without an sstable, as the policy for failing disks lets it: what is answered then is not all.
const WITHOUT: &str = "an sstable is left out until the next start: ";

/// What was read with a bit flipped is right, or it failed and file and place are named. A wrong answer stays one, whatever a log
/// says, but for a start that went on without the file.
/// `names`: those of the file, which may be an sstable twice: its own snapshot was imported.
fn judge(
    world: &World,
    names: &[String],
    said_before: usize,
    read: Result<(), String>,
) -> Result<(), String> {
    let Err(text) = read else { return Ok(()) };
    let named = |text: &str| names.iter().any(|name| text.contains(name)) && text.contains("offset");
    let failed = FAILURES.iter().any(|failure| text.starts_with(failure));
    // The tables' folders are named t0, t1 and so on.
    let table = names[0].split("/t").find_map(|part| part.split_once('-').map(|(number, _)| number));
    let of_it = table.is_some_and(|number| text.contains(&format!("table {number} ")));
    let excuses = |line: &str| named(line) && (failed || of_it && line.contains(WITHOUT));
    if named(&text) || world.log_lines().iter().skip(said_before).any(|(_, line)| excuses(line)) {
        return Ok(());
    }
    Err(format!("all that is said: {text}"))
}
