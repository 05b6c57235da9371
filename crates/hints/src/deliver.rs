//! Writing hints to those who missed them.

use crate::file::{Batch, Reader};
use crate::hints::Hints;
use crate::limits::{
    DELIVERY_TIMEOUT, EXPIRY_MARGIN, REFUSALS_MAX, REQUEST_BYTES, RETRY_PAUSE, THROTTLE_WAIT_MAX,
};
use crate::queue::{Closed, Queue};
use crate::record::Hint;
use base::HostId;
use coordinator::Unwritten;
use mutation::Mutation;
use runtime::Bug;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use storage::{Durability, Planned, Point};

/// Why a delivery ends before its queue.
enum Halt {
    /// It must not go on: paused, stopping, the target is not there, or the file was thrown away.
    Stopped,
    /// It failed: to be tried again after a pause.
    Later,
}

/// Some mutations of one hint.
struct Part {
    planned: Planned,
    mutations: Vec<Mutation>,
    /// Behind the hint in its file.
    end: u64,
}

/// Hints by where they go.
struct Sorted {
    /// The point of the view by which they were sorted.
    on: Point,
    /// What the target still holds.
    own: Vec<Part>,
    /// What others hold instead.
    others: BTreeMap<HostId, Vec<Part>>,
    /// What this node holds instead.
    here: Vec<Mutation>,
}

impl Hints {
    /// Delivers a queue as far as possible, oldest file first.
    pub(crate) async fn deliver(self: Rc<Self>, queue: Rc<Queue>) {
        let permit = self.deliveries.acquire(1).await;
        let outcome = self.deliver_files(&queue).await;
        drop(permit);
        let mut state = queue.state.borrow_mut();
        state.is_delivering = false;
        match outcome {
            Ok(()) | Err(Halt::Stopped) => state.failures = 0,
            Err(Halt::Later) => {
                state.failures += 1;
                let (first, most) = RETRY_PAUSE;
                let pause = first * (1 << (state.failures - 1).min(10));
                state.retry_at = Some(runtime::now() + pause.min(most));
            }
        }
        drop(state);
        self.wake.notify();
    }

    async fn deliver_files(&self, queue: &Queue) -> Result<(), Halt> {
        while self.may_deliver(queue) {
            let Some(file) = queue.oldest().await else { return Ok(()) };
            match self.deliver_file(queue, &file).await {
                Ok(Ok(())) => queue.remove(&file.path).await,
                Ok(Err(halt)) => return Err(halt),
                Err(error) => {
                    runtime::error!("hints: skipping a file until the next start: {error}");
                    queue.pass_over(&file.path);
                }
            }
        }
        Err(Halt::Stopped)
    }

    /// Outer errors: the file cannot be read.
    async fn deliver_file(&self, queue: &Queue, file: &Closed) -> std::io::Result<Result<(), Halt>> {
        let Some(mut reader) = Reader::open(&file.path, file.delivered).await? else { return Ok(Ok(())) };
        loop {
            let request_bytes = self.rate().map_or(REQUEST_BYTES, |rate| REQUEST_BYTES.min(rate as usize));
            let Some(batch) = reader.next(request_bytes).await? else { return Ok(Ok(())) };
            if !self.may_deliver(queue) || !queue.has(&file.path) {
                return Ok(Err(Halt::Stopped));
            }
            if let Err(halt) = self.deliver_batch(queue, file, &batch).await {
                return Ok(Err(halt));
            }
            if batch.damaged > 0 {
                self.metrics.dropped.add(batch.damaged);
                let (path, end) = (file.path.display(), batch.end);
                runtime::warn!(
                    "hints: \"{path}\" is torn or damaged before offset {end}; what is sound was delivered"
                );
            }
            queue.note(&file.path, batch.end);
            self.pay(batch.bytes).await;
        }
    }

    async fn deliver_batch(&self, queue: &Queue, file: &Closed, batch: &Batch) -> Result<(), Halt> {
        let sorted = self.sort(queue.target, batch).await;
        if !sorted.own.is_empty() && !self.coordinator.topology().is_alive(queue.target) {
            // Put out and not replaced yet: it holds its tokens, and nobody takes its place.
            return Err(Halt::Later);
        }
        // Others behind it: what is handed over twice takes room twice.
        self.write_own(queue, file, sorted.own, sorted.on).await?;
        self.hand_over(sorted.others, sorted.here, sorted.on).await
    }

    /// Where the hints of a batch go, without what has expired and what is void.
    async fn sort(&self, target: HostId, batch: &Batch) -> Sorted {
        // ⚔ The view first: what is truncated behind it makes replicas refuse what is written on it.
        let (view, now) = (self.coordinator.view(), runtime::unix_micros());
        let local = view.snapshot.local_id();
        let mut sorted =
            Sorted { on: view.point(), own: Vec::new(), others: BTreeMap::new(), here: Vec::new() };
        for (Hint { planned, mutations }, end) in &batch.hints {
            let (planned, end) = (*planned, *end);
            let grace = self.grace_of(mutations).unwrap_or(EXPIRY_MARGIN).saturating_sub(EXPIRY_MARGIN);
            if planned.at.saturating_add(micros(grace)) <= now {
                self.metrics.expired.inc();
                continue;
            }
            let mut own = Vec::new();
            for mutation in mutations {
                let is_void = self.coordinator.local().is_overtaken(mutation.table(), planned).await;
                let holders = view.holders_of(mutation).filter(|_| !is_void);
                let Some(holders) = holders else {
                    self.metrics.truncated.inc();
                    continue;
                };
                if holders.contains(&target) {
                    own.push(mutation.clone());
                    continue;
                }
                self.metrics.moved.inc();
                for holder in holders {
                    match holder == local {
                        true => sorted.here.push(mutation.clone()),
                        false => {
                            let part = Part { planned, mutations: vec![mutation.clone()], end };
                            sorted.others.entry(holder).or_default().push(part);
                        }
                    }
                }
            }
            if !own.is_empty() {
                sorted.own.push(Part { planned, mutations: own, end });
            }
        }
        sorted
    }

    async fn write_own(&self, queue: &Queue, file: &Closed, own: Vec<Part>, on: Point) -> Result<(), Halt> {
        let all: Vec<Mutation> = own.iter().flat_map(|part| part.mutations.iter().cloned()).collect();
        if all.is_empty() {
            return Ok(());
        }
        match self.coordinator.write_missed(queue.target, all, on, DELIVERY_TIMEOUT).await {
            Ok(()) => {
                self.note_delivered(queue, &own);
                Ok(())
            }
            Err(Unwritten::Unheard) if runtime::planted(Bug::HintUnheardIsDelivered) => Ok(()),
            Err(Unwritten::Unheard | Unwritten::Behind) => {
                self.metrics.unanswered.inc();
                Err(Halt::Later)
            }
            // One of them may be what it cannot take.
            Err(Unwritten::Failed(_)) => {
                for part in own {
                    self.write_one(queue, &part, on).await?;
                    queue.note(&file.path, part.end);
                }
                Ok(())
            }
        }
    }

    fn note_delivered(&self, queue: &Queue, parts: &[Part]) {
        queue.state.borrow_mut().refusals = 0;
        self.metrics.delivered.add(parts.len() as u64);
        let bytes = parts.iter().flat_map(|part| &part.mutations).map(|mutation| mutation.as_bytes().len());
        self.metrics.delivered_bytes.add(bytes.sum::<usize>() as u64);
    }

    /// Writes one hint, or finds that it can never be written, or puts it behind the others.
    async fn write_one(&self, queue: &Queue, part: &Part, on: Point) -> Result<(), Halt> {
        let mutations = part.mutations.clone();
        let written = self.coordinator.write_missed(queue.target, mutations, on, DELIVERY_TIMEOUT).await;
        let error = match written {
            Ok(()) => {
                self.note_delivered(queue, std::slice::from_ref(part));
                return Ok(());
            }
            Err(Unwritten::Unheard | Unwritten::Behind) => {
                self.metrics.unanswered.inc();
                return Err(Halt::Later);
            }
            Err(Unwritten::Failed(error)) => error,
        };
        match error {
            replica::Error::TooLarge(_) | replica::Error::Malformed(_) => {
                self.metrics.dropped.inc();
                runtime::warn!("hints: dropping a hint that {} can never apply: {error}", queue.target);
                Ok(())
            }
            // It takes nothing at the moment, whatever it is.
            replica::Error::Refused(_) => {
                self.metrics.unanswered.inc();
                Err(Halt::Later)
            }
            replica::Error::UnknownTable(_)
            | replica::Error::Overtaken(_)
            | replica::Error::Failed(_)
            | replica::Error::TooManyTombstones(_) => {
                self.metrics.unanswered.inc();
                let refusals = {
                    let mut state = queue.state.borrow_mut();
                    state.refusals += 1;
                    state.refusals
                };
                if refusals < REFUSALS_MAX {
                    return Err(Halt::Later);
                }
                let ticket = self.put(queue.target, part.planned, &part.mutations);
                if !self.durable(ticket).await {
                    return Err(Halt::Later);
                }
                runtime::warn!(
                    "hints: a hint for {} is moved to the end of the queue: {error}",
                    queue.target
                );
                queue.state.borrow_mut().refusals = 0;
                self.metrics.postponed.inc();
                Ok(())
            }
        }
    }

    /// Hands hints over to those who hold their tokens now; they are durable there when this returns.
    async fn hand_over(
        &self,
        others: BTreeMap<HostId, Vec<Part>>,
        here: Vec<Mutation>,
        on: Point,
    ) -> Result<(), Halt> {
        if !here.is_empty() && self.coordinator.local().write(here, Durability::Synced, on).await.is_err() {
            return Err(Halt::Later);
        }
        for (holder, parts) in others {
            let mut last = None;
            for part in parts {
                let bytes = crate::record::encoded_len(&part.mutations);
                if self.room_for(bytes).is_err() {
                    return Err(Halt::Later);
                }
                last = Some(self.put(holder, part.planned, &part.mutations));
            }
            if let Some(ticket) = last
                && !self.durable(ticket).await
            {
                return Err(Halt::Later);
            }
        }
        Ok(())
    }

    // ---- pace ------------------------------------------------------------------------------------------------------

    /// Bytes per second that this shard may deliver to one target; `None`: as many as it can. As in Cassandra all other nodes are thought
    /// to deliver to it as well.
    fn rate(&self) -> Option<u64> {
        let throttle = self.switches.borrow().throttle;
        let others = self.coordinator.topology().others().count().max(1) as u64;
        let rate = throttle / others / u64::from(runtime::shard_count());
        (0 < throttle).then_some(rate.max(1))
    }

    /// Waits for as long as so many bytes take.
    async fn pay(&self, bytes: usize) {
        let mut left = bytes as u64;
        while let Some(rate) = self.rate() {
            let slice = (u128::from(rate) * THROTTLE_WAIT_MAX.as_nanos() / 1_000_000_000).max(1) as u64;
            let paid = left.min(slice);
            let nanos = u128::from(paid) * 1_000_000_000 / u128::from(rate);
            runtime::sleep(Duration::from_nanos(nanos as u64)).await;
            left -= paid;
            if left == 0 || self.is_closed() {
                return;
            }
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
