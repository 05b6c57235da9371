//! The pieces of a command that have one set of replicas each, in the order of reading.

use base::HostId;
use mutation::{Key, ReadCommand, Scope, TokenRange};
use topology::Placements;

/// One piece of a scope and the nodes that hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) scope: Scope,
    /// In the order of the ring, the first one's for a piece of several ranges.
    pub(crate) replicas: Vec<HostId>,
}

/// Divides a scope where the replicas change, from the resume point on. Neighbours with the same set of replicas stay together.
pub(crate) fn pieces(placements: &Placements, command: &ReadCommand) -> Vec<Piece> {
    match &command.scope {
        Scope::Keys(keys) => {
            let from =
                command.resume.as_ref().and_then(|r| keys.iter().position(|k| *k == r.key)).unwrap_or(0);
            key_pieces(placements, &keys[from..])
        }
        Scope::Range(range) => {
            let first = command.resume.as_ref().map_or(range.first, |r| r.key.token.max(range.first));
            range_pieces(placements, TokenRange::new(first, range.last))
        }
    }
}

fn key_pieces(placements: &Placements, keys: &[Key]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for key in keys {
        let replicas = &placements.at(key.token).read;
        match pieces.last_mut() {
            Some(Piece { scope: Scope::Keys(keys), replicas: same }) if is_same_set(same, replicas) => {
                keys.push(key.clone())
            }
            _ => {
                let scope = Scope::Keys(vec![key.clone()].into());
                pieces.push(Piece { scope, replicas: replicas.to_vec() });
            }
        }
    }
    pieces
}

fn range_pieces(placements: &Placements, range: TokenRange) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (first, last, holders) in placements.parts(range.first, range.last) {
        match pieces.last_mut() {
            Some(Piece { scope: Scope::Range(before), replicas: same })
                if is_same_set(same, &holders.read) =>
            {
                before.last = last
            }
            _ => {
                let scope = Scope::Range(TokenRange::new(first, last));
                pieces.push(Piece { scope, replicas: holders.read.to_vec() });
            }
        }
    }
    pieces
}

fn is_same_set(a: &[HostId], b: &[HostId]) -> bool {
    a.len() == b.len() && a.iter().all(|host| b.contains(host))
}
