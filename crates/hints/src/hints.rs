//! The hints of one shard: what is taken, flushed, and when deliveries begin.

use crate::file::Name;
use crate::limits::{BUFFERED_BYTES_MAX, EXPIRY_MARGIN, FLUSH_BYTES};
use crate::metrics::Metrics;
use crate::queue::{Buffered, Content, Folder, Queue};
use crate::record;
use crate::settings::{Settings, Switches};
use base::{HostId, Instant};
use coordinator::{Coordinator, Missed, Ticket};
use mutation::Mutation;
use runtime::Group;
use runtime::sync::{Event, Semaphore};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storage::Planned;
use topology::Snapshot;

/// The hints of one shard. Installed in the runtime of every shard.
pub struct Hints {
    pub(crate) settings: Settings,
    pub(crate) switches: RefCell<Switches>,
    pub(crate) coordinator: Rc<Coordinator>,
    pub(crate) metrics: Metrics,
    pub(crate) queues: RefCell<BTreeMap<HostId, Rc<Queue>>>,
    buffered_bytes: Rc<Cell<usize>>,
    /// Since when this shard has seen other nodes down.
    down: RefCell<BTreeMap<HostId, Instant>>,
    salt: u64,
    /// Something may have to be flushed or delivered.
    pub(crate) wake: Event,
    pub(crate) deliveries: Semaphore,
    /// The folder is there, and its name will be after a power cut.
    has_folder: Cell<bool>,
    is_closed: Cell<bool>,
}

/// Why a missed write is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Hints are switched off, everywhere or for the datacenter, or the node stops.
    Off,
    /// The replica is this node.
    Own,
    /// The node has been down for longer than the window.
    Window,
    /// Its tables forget tombstones so soon that it could not be delivered in time.
    Grace,
    /// Too much is kept already.
    Full,
}

impl Hints {
    /// Opens this shard's part of the folder, which is made when there is something to put into it, and takes what replicas miss from now on. Nothing is delivered before
    /// [`Hints::start`].
    /// Errors: the folder cannot be read.
    pub async fn open(settings: Settings, coordinator: Rc<Coordinator>) -> io::Result<Rc<Hints>> {
        let switches = RefCell::new(settings.switches.clone());
        let hints = Rc::new(Hints {
            switches,
            metrics: Metrics::register(),
            queues: RefCell::default(),
            buffered_bytes: Rc::default(),
            down: RefCell::default(),
            salt: runtime::random_u64(),
            wake: Event::new(),
            deliveries: Semaphore::new(settings.deliveries_max.max(1)),
            has_folder: Cell::new(false),
            is_closed: Cell::new(false),
            settings,
            coordinator: coordinator.clone(),
        });
        hints.find().await?;
        hints.see(&coordinator.topology());
        hints.hook();
        Ok(hints)
    }

    /// Takes over the files of this shard, and those of shards that are there no more.
    async fn find(&self) -> io::Result<()> {
        let mut found = Vec::new();
        if !runtime::file::exists(&self.settings.directory).await? {
            return Ok(());
        }
        for entry in runtime::file::read_dir(&self.settings.directory).await? {
            let Some(name) = Name::parse(&entry.name) else { continue };
            if name.shard % runtime::shard_count() == runtime::shard().0 {
                found.push((name.ms, name.shard, name.target, entry.name));
            }
        }
        found.sort();
        for (ms, _, target, name) in found {
            let path = self.settings.directory.join(name);
            let bytes =
                runtime::file::File::open(&path, runtime::file::OpenOptions::READ).await?.size().await?;
            self.queue(target).found(path, ms, bytes);
        }
        Ok(())
    }

    fn hook(self: &Rc<Self>) {
        let taking = Rc::downgrade(self);
        self.coordinator.on_missed(move |missed| taking.upgrade()?.take(&missed));
        let asked = Rc::downgrade(self);
        self.coordinator.on_durable(move |ticket| {
            let hints = asked.upgrade();
            Box::pin(async move {
                match hints {
                    Some(hints) => hints.durable(ticket).await,
                    None => false,
                }
            })
        });
        let seeing = Rc::downgrade(self);
        self.coordinator.on_topology(move |snapshot| {
            if let Some(hints) = seeing.upgrade() {
                hints.see(snapshot);
                hints.wake.notify();
            }
        });
        let pending = |of: fn(Content) -> u64| {
            let counted = Rc::downgrade(self);
            move || counted.upgrade().map_or(0, |hints| hints.sum(of)) as f64
        };
        let gauge = |name: &str, help: &str, read: Box<dyn Fn() -> f64>| {
            runtime::metrics::gauge_fn(name, help, &[], read);
        };
        let (bytes, files) = (pending(|content| content.bytes), pending(|content| content.files));
        gauge("messina_hints_pending_bytes", "Bytes of hints not delivered yet.", Box::new(bytes));
        gauge("messina_hints_pending_files", "Files of hints not delivered yet.", Box::new(files));
    }

    /// Begins to flush and to deliver.
    pub fn start(self: &Rc<Self>) {
        let hints = self.clone();
        drop(runtime::spawn(Group::STREAMING, async move { hints.run().await }));
    }

    /// Takes no more hints, ends deliveries, and makes durable what was taken.
    pub async fn close(&self) {
        self.is_closed.set(true);
        self.wake.notify();
        for queue in self.all() {
            self.flush(&queue).await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get() || self.coordinator.is_closed()
    }

    pub(crate) fn all(&self) -> Vec<Rc<Queue>> {
        self.queues.borrow().values().cloned().collect()
    }

    fn sum(&self, of: fn(Content) -> u64) -> u64 {
        self.queues.borrow().values().map(|queue| of(queue.content())).sum()
    }

    fn queue(&self, target: HostId) -> Rc<Queue> {
        let mut queues = self.queues.borrow_mut();
        let made = || Rc::new(Queue::new(target, self.buffered_bytes.clone()));
        queues.entry(target).or_insert_with(made).clone()
    }

    // ---- taking ----------------------------------------------------------------------------------------------------

    /// Notes who is down, and since when.
    fn see(&self, snapshot: &Snapshot) {
        let mut down = self.down.borrow_mut();
        down.retain(|host, _| snapshot.member(*host).is_some() && !snapshot.is_alive(*host));
        for member in snapshot.others().filter(|member| !snapshot.is_alive(member.host_id)) {
            down.entry(member.host_id).or_insert_with(runtime::now);
        }
    }

    /// Keeps what a replica missed. `None`: it is not kept. Cost: a copy of the mutations.
    pub fn take(&self, missed: &Missed<'_>) -> Option<Ticket> {
        let bytes = record::encoded_len(missed.mutations);
        if self.judge(missed, bytes).is_err() {
            self.metrics.refused.inc();
            return None;
        }
        self.metrics.taken.inc();
        self.metrics.taken_bytes.add(bytes as u64);
        Some(self.put(missed.host, missed.planned, missed.mutations))
    }

    pub(crate) fn judge(&self, missed: &Missed<'_>, bytes: usize) -> Result<(), Refused> {
        let snapshot = self.coordinator.topology();
        let switches = self.switches.borrow();
        let in_disabled = || snapshot.dc_of(missed.host).is_some_and(|dc| switches.disabled_dcs.contains(dc));
        if self.is_closed() || !switches.is_enabled || in_disabled() {
            return Err(Refused::Off);
        }
        if missed.host == snapshot.local_id() {
            return Err(Refused::Own);
        }
        if self.grace_of(missed.mutations).is_none_or(|grace| grace <= EXPIRY_MARGIN) {
            return Err(Refused::Grace);
        }
        let queues = self.queues.borrow();
        let content = queues.get(&missed.host).map(|queue| queue.content()).unwrap_or_default();
        if !snapshot.is_alive(missed.host) && self.is_window_over(missed.host, &content, switches.window) {
            return Err(Refused::Window);
        }
        let share = self.settings.host_bytes_max.div_ceil(u64::from(runtime::shard_count()));
        if 0 < share && share < content.bytes + bytes as u64 {
            return Err(Refused::Full);
        }
        self.room_for(bytes)
    }

    /// Whether the buffers have room. One that is larger than all of them finds room when they are empty.
    pub(crate) fn room_for(&self, bytes: usize) -> Result<(), Refused> {
        match self.buffered_bytes.get() {
            0 => Ok(()),
            buffered if buffered + bytes <= BUFFERED_BYTES_MAX => Ok(()),
            _ => Err(Refused::Full),
        }
    }

    fn is_window_over(&self, host: HostId, content: &Content, window: Duration) -> bool {
        let since = self.down.borrow().get(&host).copied();
        let down_for = since.map(|since| runtime::now().saturating_duration_since(since));
        let kept_for = content.oldest_ms.filter(|_| self.settings.is_window_persistent).map(|oldest| {
            let ms = (runtime::unix_micros() / 1000).saturating_sub(oldest);
            Duration::from_millis(u64::try_from(ms).unwrap_or(0))
        });
        down_for.max(kept_for).is_some_and(|time| window < time)
    }

    /// The shortest grace of the tables of these mutations, of those that are there; `None`: none is.
    pub(crate) fn grace_of(&self, mutations: &[Mutation]) -> Option<Duration> {
        let schema = self.coordinator.schema();
        let tables = mutations.iter().filter_map(|mutation| schema.table_by_id(mutation.table()));
        let graces = tables.map(|table| u64::try_from(table.options.gc_grace_seconds).unwrap_or(0));
        graces.min().map(Duration::from_secs)
    }

    /// Puts a hint into the buffer of a queue, without judging it.
    pub(crate) fn put(&self, host: HostId, planned: Planned, mutations: &[Mutation]) -> Ticket {
        let queue = self.queue(host);
        let is_first = queue.buffered().is_none();
        let number = queue.push(runtime::now(), |out| record::encode(out, self.salt, planned, mutations));
        let is_full = queue.buffered().is_some_and(|buffered| FLUSH_BYTES <= buffered.bytes);
        if is_first || is_full {
            self.wake.notify();
        }
        Ticket { host, number }
    }

    // ---- flushing --------------------------------------------------------------------------------------------------

    /// Waits until a hint is on the disk. False: it cannot be put there now, or an operator has thrown it away.
    pub async fn durable(&self, ticket: Ticket) -> bool {
        let queue = self.queue(ticket.host);
        if !queue.is_durable(ticket.number) {
            self.flush(&queue).await;
            self.wake.notify();
        }
        queue.is_durable(ticket.number)
    }

    /// Makes durable what is in the buffer of a queue. False: it stays there.
    pub(crate) async fn flush(&self, queue: &Queue) -> bool {
        let Settings { directory: path, file_bytes_max, .. } = &self.settings;
        let (salt, is_made) = (self.salt, &self.has_folder);
        let folder = Folder { path, is_made, salt, file_bytes_max: *file_bytes_max };
        match queue.flush(&folder).await {
            Ok(bytes) => {
                self.metrics.flushed_bytes.add(bytes);
                true
            }
            Err(error) => {
                self.metrics.flush_failures.inc();
                runtime::warn!("hints: cannot flush the hints for {}: {error}", queue.target);
                false
            }
        }
    }

    async fn run(self: Rc<Self>) {
        while !self.is_closed() {
            let now = runtime::now();
            for queue in self.all() {
                if queue.buffered().is_some_and(|buffered| self.is_due(buffered, now)) {
                    self.flush(&queue).await;
                }
            }
            self.begin_deliveries();
            match self.next_look() {
                Some(at) => drop(runtime::timeout_at(at, self.wake.wait()).await),
                None => self.wake.wait().await,
            }
        }
    }

    fn is_due(&self, buffered: Buffered, now: Instant) -> bool {
        // What could not be written is not tried again with every hint that comes.
        let is_full = FLUSH_BYTES <= buffered.bytes && !buffered.has_failed;
        is_full || buffered.since + self.settings.flush_period <= now
    }

    /// When the next flush or delivery is due that nothing else wakes for.
    fn next_look(&self) -> Option<Instant> {
        let queues = self.queues.borrow();
        let flushes = queues.values().filter_map(|queue| queue.buffered());
        let flushes = flushes.map(|buffered| buffered.since + self.settings.flush_period);
        let retries = queues.values().filter(|queue| self.may_deliver(queue));
        let retries = retries.filter_map(|queue| queue.state.borrow().retry_at);
        flushes.chain(retries).min()
    }

    // ---- beginning deliveries --------------------------------------------------------------------------------------

    /// Whether a queue has something that can be delivered at the moment, as far as the cluster goes.
    pub(crate) fn may_deliver(&self, queue: &Queue) -> bool {
        if self.is_closed() || self.switches.borrow().is_paused || !queue.has_files() {
            return false;
        }
        let snapshot = self.coordinator.topology();
        // What was kept for one who is gone goes to who holds the tokens now.
        let is_gone = snapshot.member(queue.target).is_none_or(|member| !member.state.is_in());
        is_gone || snapshot.is_alive(queue.target)
    }

    fn begin_deliveries(self: &Rc<Self>) {
        let now = runtime::now();
        for queue in self.all() {
            let is_free = {
                let state = queue.state.borrow();
                !state.is_delivering && state.retry_at.is_none_or(|at| at <= now)
            };
            if is_free && self.may_deliver(&queue) {
                {
                    let mut state = queue.state.borrow_mut();
                    state.is_delivering = true;
                    state.retry_at = None;
                }
                let hints = self.clone();
                drop(runtime::spawn(Group::STREAMING, async move { hints.deliver(queue).await }));
            }
        }
    }
}
