//! The pieces of a command that have one set of replicas each, in the order of reading.

use crate::coordinator::Coordinator;
use base::Token;
use mutation::{Key, ReadCommand, Scope, TokenRange};
use schema::Replication;
use topology::{NodeIndex, Snapshot};

/// One piece of a scope and the nodes that hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) scope: Scope,
    pub(crate) replicas: Vec<NodeIndex>,
}

/// Divides a scope at the ring's tokens, from the resume point on. Neighbours with the same replicas stay together.
pub(crate) fn pieces(snapshot: &Snapshot, replication: &Replication, command: &ReadCommand) -> Vec<Piece> {
    match &command.scope {
        Scope::Keys(keys) => {
            let from =
                command.resume.as_ref().and_then(|r| keys.iter().position(|k| *k == r.key)).unwrap_or(0);
            key_pieces(snapshot, replication, &keys[from..])
        }
        Scope::Range(range) => {
            let first = command.resume.as_ref().map_or(range.first, |r| r.key.token.max(range.first));
            range_pieces(snapshot, replication, TokenRange::new(first, range.last))
        }
    }
}

fn key_pieces(snapshot: &Snapshot, replication: &Replication, keys: &[Key]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for key in keys {
        let replicas = snapshot.replicas(replication, key.token);
        match pieces.last_mut() {
            Some(Piece { scope: Scope::Keys(keys), replicas: same }) if *same == replicas => {
                keys.push(key.clone())
            }
            _ => pieces.push(Piece { scope: Scope::Keys(vec![key.clone()].into()), replicas }),
        }
    }
    pieces
}

fn range_pieces(snapshot: &Snapshot, replication: &Replication, range: TokenRange) -> Vec<Piece> {
    if range.is_empty() {
        return Vec::new();
    }
    let whole = |replicas| vec![Piece { scope: Scope::Range(range), replicas }];
    if snapshot.is_single() || *replication == Replication::Local {
        return whole(snapshot.replicas(replication, range.first));
    }
    let mut pieces: Vec<Piece> = Vec::new();
    let mut first = range.first;
    let ends = snapshot.ring().tokens().iter().map(|t| t.0).filter(|t| *t >= range.first && *t < range.last);
    let ends: Vec<Token> = ends.chain([range.last]).collect();
    for last in ends {
        let replicas = snapshot.replicas(replication, last);
        match pieces.last_mut() {
            Some(Piece { scope: Scope::Range(before), replicas: same }) if *same == replicas => {
                before.last = last
            }
            _ => pieces.push(Piece { scope: Scope::Range(TokenRange::new(first, last)), replicas }),
        }
        first = Token(last.0.saturating_add(1));
    }
    pieces
}

impl Coordinator {
    /// Replicas to ask, nearest first: this node, then those alive in its datacenter, then the rest.
    pub(crate) fn nearest_first(&self, snapshot: &Snapshot, replicas: &[NodeIndex]) -> Vec<NodeIndex> {
        let here = snapshot.local_index();
        let mut alive: Vec<NodeIndex> = replicas.iter().copied().filter(|n| snapshot.is_alive(*n)).collect();
        alive.sort_by_key(|n| (*n != here, snapshot.node(*n).dc != snapshot.local().dc));
        alive
    }
}
