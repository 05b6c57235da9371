//! Filling this node with what a member held that it replaces.
//!
//! The leader asks, again and again, until this node says that it is done; whoever leads next asks the same. Nothing of it is kept on disk: after a restart
//! it begins anew, and what is there already is only compared. See `docs/mechanisms/repair.md`.

use crate::error::Error;
use crate::group::Group0;
use base::{ByteReader, HostId};
use coordinator::Coordinator;
use core::cell::{Cell, RefCell};
use core::time::Duration;
use group0::OperationKind;
use rpc::Outgoing;
use runtime::{Bug, Group};
use std::rc::Rc;
use topology::Version;

/// Pause before what could not be filled is tried again.
const FILL_AGAIN: Duration = Duration::from_secs(2);
/// Longest wait for older requests of this node before it begins.
const BARRIER_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait for a node's answer how far it is.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// How far a node is with filling itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filling {
    /// It does not replace anybody, as far as it knows.
    None,
    /// It is at it; in words.
    Running(String),
    /// It has everything, durably.
    Done,
}

/// The filling of one operation on this node.
pub(crate) struct Fill {
    /// The operation's version.
    since: Version,
    done: Cell<bool>,
    /// How far it is, or why it does not get on.
    said: RefCell<String>,
}

impl Group0 {
    /// How far this node is with the operation of a version; it begins if it has not.
    pub(crate) fn fill(&self, since: Version) -> Filling {
        let state = self.machine.state();
        let ours = state.operation().filter(|operation| operation.host == self.local_id());
        if ours.is_none_or(|ours| ours.since != since || !matches!(ours.kind, OperationKind::Replace(_))) {
            return Filling::None;
        }
        let mut filling = self.filling.borrow_mut();
        if let Some(fill) = filling.as_ref().filter(|fill| fill.since == since) {
            return match fill.done.get() {
                true => Filling::Done,
                false => Filling::Running(fill.said.borrow().clone()),
            };
        }
        let begun =
            Rc::new(Fill { since, done: Cell::new(false), said: RefCell::new("it has begun".to_owned()) });
        *filling = Some(begun.clone());
        let this = runtime::local::<Group0>();
        drop(runtime::spawn(Group::STREAMING, async move { this.run_fill(&begun).await }));
        Filling::Running("it has begun".to_owned())
    }

    async fn run_fill(&self, fill: &Fill) {
        let is_wanted = || {
            let state = self.machine.state();
            !self.is_stopped() && state.operation().is_some_and(|operation| operation.since == fill.since)
        };
        while is_wanted() {
            match self.try_fill(fill).await {
                Ok(()) => return fill.done.set(true),
                Err(text) => {
                    if *fill.said.borrow() != text {
                        runtime::warn!("cluster: data of this node's ranges is still missing: {text}");
                    }
                    *fill.said.borrow_mut() = text;
                    runtime::sleep(FILL_AGAIN).await;
                }
            }
        }
    }

    async fn try_fill(&self, fill: &Fill) -> Result<(), String> {
        // ⚔ Every shard plans with this node pending, or it would find nothing to fetch.
        let passed = self.held(fill.since, runtime::now() + BARRIER_WITHIN).await;
        passed.ok_or_else(|| format!("requests from before {} still run", fill.since))?;
        if runtime::planted(Bug::ReplaceUnfilled) {
            return Ok(());
        }
        let coordinator = runtime::local::<Coordinator>();
        let filled = coordinator
            .fill(|done, all| {
                *fill.said.borrow_mut() = format!("{done} of {all} ranges are there");
                runtime::info!("cluster: {done} of {all} ranges of the node that is replaced are here");
            })
            .await?;
        // Roles are not in there: they are a part of the cluster's state.
        for keyspace in filled.lost.iter().filter(|keyspace| *keyspace != "system_auth") {
            runtime::error!(
                "cluster: the node that is replaced alone held ranges of keyspace {keyspace}: what was in them is lost; its replication \
                 factor is too low"
            );
        }
        let (mutations, bytes) = filled.written;
        runtime::info!("cluster: {mutations} mutations, {bytes} bytes, were copied from other replicas");
        Ok(())
    }

    /// Answers how far this node is.
    pub(crate) fn answer_fill(&self, body: &[u8]) -> Vec<u8> {
        let mut input = ByteReader::new(body);
        let (Ok(epoch), Ok(index)) = (input.u64(), input.u64()) else { return Vec::new() };
        let (kind, text) = match self.fill(Version { epoch, index }) {
            Filling::None => (0, String::new()),
            Filling::Running(text) => (1, text),
            Filling::Done => (2, String::new()),
        };
        let mut out = vec![kind];
        out.extend_from_slice(text.as_bytes());
        out
    }

    /// Asks a node how far it is with filling itself; it begins if it has not.
    pub(crate) async fn ask_fill(&self, host: HostId, since: Version) -> Result<Filling, Error> {
        if host == self.local_id() {
            return Ok(self.fill(since));
        }
        let outgoing = Outgoing { verb: crate::wire::VERB_FILL, version: since.index, timeout: ASK_WITHIN };
        let answer = self.links.call(host, outgoing, |out| {
            out.extend_from_slice(&since.epoch.to_be_bytes());
            out.extend_from_slice(&since.index.to_be_bytes());
        });
        let answer = answer.await.map_err(|error| Error::Consensus(error.to_string()))?;
        let Some((kind, text)) = answer.split_first() else {
            return Err(Error::Consensus(format!("{host} has not started yet")));
        };
        Ok(match kind {
            1 => Filling::Running(String::from_utf8_lossy(text).into_owned()),
            2 => Filling::Done,
            _ => Filling::None,
        })
    }
}
