//! Several loaders of one run, each on a shard of its own: they begin at one instant, and what they see is put together.

use crate::error::Error;
use crate::ledger::Ledger;
use crate::loader::{Loader, LoaderEnd, Order};
use crate::population::Part;
use crate::settings::Settings;
use crate::work::{Operation, Prepared, Target};
use base::Instant;
use loadtools::measure::{Snapshot, Standing};
use loadtools::output::Output;
use runtime::sync::Flag;
use runtime::{Group, ShardId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a loader keeps on its shard.
struct Site {
    settings: Rc<Settings>,
    output: Rc<Output>,
    target: Target,
    operations: Vec<Operation>,
    /// The next run, or the one that is under way.
    run: RefCell<Option<(Order, Rc<Prepared>)>>,
    loader: RefCell<Option<Rc<Loader>>>,
}

/// The sites of a shard: one for each run that is under way on it.
#[derive(Default)]
struct Sites {
    /// Runs begun by this shard.
    begun: Cell<u64>,
    all: RefCell<BTreeMap<u64, Rc<Site>>>,
}

impl Sites {
    /// Those of this shard.
    fn here() -> Rc<Sites> {
        runtime::try_local::<Sites>().unwrap_or_else(|| {
            let sites = Rc::new(Sites::default());
            runtime::install(sites.clone());
            sites
        })
    }

    /// That of a run, which has one from its beginning to its end.
    fn site(run: u64) -> Rc<Site> {
        Sites::here().all.borrow().get(&run).cloned().expect("a run has a site on each of its shards")
    }
}

/// What keeps a shard without the tool's main task until its end.
struct Stay(Flag);

/// The loaders of a command.
pub struct Fleet {
    loaders: u32,
    /// The run's number on the shard that began it.
    run: u64,
}

/// What shards other than the first do: they stay until the first says that all is over.
pub async fn stay() {
    let stay = Rc::new(Stay(Flag::new()));
    runtime::install(stay.clone());
    stay.0.wait().await;
}

/// Ends the other shards.
pub async fn leave() {
    for shard in 1..runtime::shard_count() {
        runtime::submit_to(ShardId(shard), Group::MAIN, || async {
            if let Some(stay) = runtime::try_local::<Stay>() {
                stay.0.set();
            }
        })
        .await;
    }
}

impl Fleet {
    /// A loader on each shard: this one's has its target already, the others connect.
    pub async fn open(
        settings: &Rc<Settings>,
        output: &Rc<Output>,
        target: Target,
        operations: Vec<Operation>,
    ) -> Result<Fleet, Error> {
        let sites = Sites::here();
        let run = sites.begun.get();
        sites.begun.set(run + 1);
        install(run, settings.clone(), output.clone(), target, operations);
        let loaders = runtime::shard_count();
        let fleet = Fleet { loaders: u32::from(loaders), run };
        for shard in 1..loaders {
            let settings = Settings::clone(settings);
            let opened = runtime::submit_to(ShardId(shard), Group::MAIN, move || async move {
                let (settings, output) = (Rc::new(settings), Rc::new(Output::complaints_only()));
                let (target, operations) = Target::of_settings(&settings, None).await?;
                let operations = operations.into_iter().map(|(operation, _)| operation).collect();
                install(run, settings, output, target, operations);
                Ok::<(), Error>(())
            });
            if let Err(error) = opened.await {
                fleet.close().await;
                return Err(error);
            }
        }
        Ok(fleet)
    }

    /// Ends the run on every shard, and its connections: a command may have others before it ends.
    pub async fn close(&self) {
        let run = self.run;
        for shard in 0..self.loaders as u16 {
            runtime::submit_to(ShardId(shard), Group::MAIN, move || async move {
                let site = Sites::here().all.borrow_mut().remove(&run);
                drop(site);
            })
            .await;
        }
    }

    /// How many there are.
    pub fn loaders(&self) -> u32 {
        self.loaders
    }

    /// Does something on the shard of every loader, one after the other.
    async fn each<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Site>) -> F + Clone + Send + 'static,
    ) -> Vec<T> {
        let (mut all, run) = (Vec::new(), self.run);
        for shard in 0..self.loaders as u16 {
            let work = work.clone();
            all.push(runtime::submit_to(ShardId(shard), Group::MAIN, move || work(Sites::site(run))).await);
        }
        all
    }

    /// Prepares a run on all.
    pub async fn prepare(&self, order: &Order) -> Result<(), Error> {
        let (order, of) = (order.clone(), self.loaders);
        let prepared = self.each(move |site| async move {
            let part = Part { number: u32::from(runtime::shard().0), of };
            let order = Order { part, ..order };
            let operations: Vec<&Operation> =
                order.operations.iter().map(|(nth, _)| &site.operations[*nth]).collect();
            let prepared =
                site.target.prepare(&site.settings, &operations, (order.part, order.is_warm_up)).await?;
            *site.run.borrow_mut() = Some((order, Rc::new(prepared)));
            *site.loader.borrow_mut() = None;
            Ok::<(), Error>(())
        });
        prepared.await.into_iter().collect()
    }

    /// All begin at an instant; resolves when the last has ended. One that fails ends the others.
    pub async fn run(self: &Rc<Self>, start: Instant) -> Result<Vec<LoaderEnd>, Error> {
        let mut running = Vec::new();
        for shard in 0..self.loaders as u16 {
            let (fleet, run) = (self.clone(), self.run);
            running.push(runtime::spawn(Group::MAIN, async move {
                let ended = runtime::submit_to(ShardId(shard), Group::QUERY, move || async move {
                    let site = Sites::site(run);
                    let (order, prepared) = site.run.take()?;
                    let loader = Loader::new(order, site.settings.clone(), site.output.clone(), start);
                    *site.loader.borrow_mut() = Some(loader.clone());
                    Some(loader.run(&prepared).await)
                })
                .await;
                if ended.as_ref().is_none_or(|ended| ended.failed) {
                    fleet.stop().await;
                }
                ended
            }));
        }
        let mut ends = Vec::new();
        for loader in running {
            ends.push(loader.await.ok_or_else(|| Error::run("a loader was not prepared"))?);
        }
        Ok(ends)
    }

    /// No operation begins any more.
    pub async fn stop(&self) {
        self.each(|site| async move {
            if let Some(loader) = &*site.loader.borrow() {
                loader.stop();
            }
        })
        .await;
    }

    /// Ends a line of all.
    pub async fn snapshots(&self) -> Vec<Snapshot> {
        let snapshots =
            self.each(|site| async move { site.loader.borrow().as_ref().map(|loader| loader.snapshot()) });
        snapshots.await.into_iter().flatten().collect()
    }

    /// Takes what is known of the writes of all; nothing where that is not wanted.
    pub async fn ledger(&self) -> Option<Ledger> {
        let parts =
            self.each(|site| async move { site.target.ledger().map(|ledger| ledger.borrow_mut().take()) });
        parts.await.into_iter().flatten().reduce(|mut all, part| {
            all.join(part);
            all
        })
    }

    /// The tables have been emptied.
    pub async fn emptied(&self) {
        self.each(|site| async move {
            if let Some(ledger) = site.target.ledger() {
                ledger.borrow_mut().emptied();
            }
        })
        .await;
    }

    /// How they stand together.
    pub async fn standing(&self) -> Standing {
        let standings =
            self.each(|site| async move { site.loader.borrow().as_ref().map(|loader| loader.standing()) });
        let mut sum = Standing::default();
        standings.await.iter().flatten().for_each(|standing| sum.add(standing));
        sum
    }
}

fn install(run: u64, settings: Rc<Settings>, output: Rc<Output>, target: Target, operations: Vec<Operation>) {
    let site = Rc::new(Site {
        settings,
        output,
        target,
        operations,
        run: RefCell::default(),
        loader: RefCell::default(),
    });
    Sites::here().all.borrow_mut().insert(run, site);
}
