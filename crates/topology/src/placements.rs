//! Who holds which tokens under a replication rule: a pure function of the members.
//!
//! ```text
//! ring      ──── 10 ──────── 40 ──────── 70 ────     a token belongs to the first end at or after it, around the end
//! read          A B C       B C A       C A B        natural replicas, the owner first
//! pending         –           D           –          writes go there, too, and are waited for on top of the level
//! changed       5:12        5:31        5:12         the version that made this range so
//! ```
//! Reads go where the tokens of the members that hold them say. What is pending follows from how the ring will look: with those who
//! join, with those who replace in the place of those they replace, and without those who leave.

use crate::{Location, Member, MemberState, Members, Placement, Version};
use base::{HostId, Token};
use schema::Replication;

/// The replicas of a range of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holders {
    /// The last token of the range; the first is behind the end of the range before.
    pub end: Token,
    /// Who is read from and written to: the owner first, then around the ring.
    pub read: Box<[HostId]>,
    /// Who is written to besides.
    pub pending: Box<[HostId]>,
    /// The version that changed this range last.
    pub changed: Version,
}

/// The holders of every token under one replication rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placements {
    /// Ascending by end, at least one. The last one's tokens go on around the end of the ring to the first one.
    ranges: Vec<Holders>,
}

/// Tokens and their owners in ring order, and how many replicas fit where.
struct Ring<'m> {
    nodes: Vec<&'m Member>,
    /// Each with the place of its owner in `nodes`.
    tokens: Vec<(Token, usize)>,
    placement: Placement,
}

impl<'m> Ring<'m> {
    fn new(members: impl Iterator<Item = &'m Member>) -> Ring<'m> {
        // A member without tokens would be waited for on a walk.
        let nodes: Vec<&Member> = members.filter(|member| !member.tokens.is_empty()).collect();
        let of = |(at, member): (usize, &&'m Member)| {
            member.tokens.iter().map(move |token| (*token, at)).collect()
        };
        let mut tokens: Vec<(Token, usize)> = nodes.iter().enumerate().flat_map::<Vec<_>, _>(of).collect();
        // Members come in the order of their host ids: of two with one token, every node takes the same.
        tokens.sort_unstable();
        tokens.dedup_by_key(|(token, _)| *token);
        let placement = Placement::among(nodes.iter().map(|member| location(member)));
        Ring { nodes, tokens, placement }
    }

    fn replicas(&self, replication: &Replication, token: Token) -> Vec<HostId> {
        let first = self.tokens.partition_point(|(end, _)| *end < token);
        let around = self.tokens[first..].iter().chain(&self.tokens[..first]).map(|(_, node)| *node);
        let placed = self.placement.replicas(replication, around, |at| location(self.nodes[at]));
        placed.into_iter().map(|at| self.nodes[at].host_id).collect()
    }
}

fn location(member: &Member) -> Location<'_> {
    Location { dc: &member.dc, rack: &member.rack }
}

impl Placements {
    /// Who holds what. `local`: this node, which alone holds what [`Replication::Local`] places.
    /// `before`: the placements of an earlier version, whose unchanged ranges keep their version.
    /// O(tokens · nodes passed on a walk around the ring); 16,000 tokens with three replicas are some ten milliseconds.
    pub fn of(
        members: &Members,
        replication: &Replication,
        local: HostId,
        before: Option<&Placements>,
    ) -> Placements {
        let whole = |read: Vec<HostId>| {
            let (read, pending) = (read.into(), Box::default());
            vec![Holders { end: Token::MAX, read, pending, changed: Version::ZERO }]
        };
        let mut ranges = match replication {
            Replication::Local => whole(vec![local]),
            Replication::Simple { .. } | Replication::NetworkTopology { .. } => placed(members, replication),
        };
        if ranges.is_empty() {
            ranges = whole(Vec::new());
        }
        let last = ranges.last().map_or(Token::MAX, |range| range.end);
        let mut first = Token::MIN;
        for (at, range) in ranges.iter_mut().enumerate() {
            let mut kept = before.map(|before| before.parts(first, range.end));
            if at == 0
                && let (Some(before), Some(kept), Some(behind)) = (before, &mut kept, last.0.checked_add(1))
            {
                kept.extend(before.parts(Token(behind), Token::MAX));
            }
            // ⚔ All of it: a range that has grown over that of a member that is gone has changed, whoever holds its end.
            let is_same = |old: &Holders| old.read == range.read && old.pending == range.pending;
            let kept = kept.filter(|parts| parts.iter().all(|(_, _, old)| is_same(old)));
            let changed = kept.and_then(|parts| parts.iter().map(|(_, _, old)| old.changed).max());
            range.changed = changed.unwrap_or(members.version());
            first = Token(range.end.0.saturating_add(1));
        }
        Placements { ranges }
    }

    /// The holders of a token. O(log ranges).
    pub fn at(&self, token: Token) -> &Holders {
        let at = self.ranges.partition_point(|range| range.end < token);
        self.ranges.get(at).unwrap_or(&self.ranges[0])
    }

    /// The holders of every token, if they are the same.
    pub fn of_all(&self) -> Option<&Holders> {
        match &*self.ranges {
            [only] => Some(only),
            _ => None,
        }
    }

    /// All ranges, ascending by end; the first begins behind the end of the last.
    pub fn ranges(&self) -> &[Holders] {
        &self.ranges
    }

    /// The tokens from `first` to `last` in parts that have one range's holders each, in order. Empty when `last < first`.
    pub fn parts(&self, first: Token, last: Token) -> Vec<(Token, Token, &Holders)> {
        let mut parts = Vec::new();
        let mut from = first;
        while from <= last {
            let at = self.ranges.partition_point(|range| range.end < from);
            let (holders, end) = match self.ranges.get(at) {
                Some(range) => (range, range.end.min(last)),
                None => (&self.ranges[0], last),
            };
            parts.push((from, end, holders));
            match end.0.checked_add(1) {
                Some(next) => from = Token(next),
                None => break,
            }
        }
        parts
    }
}

/// The ranges of a ring; none when nobody has a token.
fn placed(members: &Members, replication: &Replication) -> Vec<Holders> {
    let all_normal = members.iter().all(|member| member.state == MemberState::Normal);
    let now = Ring::new(members.iter().filter(|member| member.state.is_read()));
    let stays = |member: &&Member| member.state != MemberState::Leaving && !is_replaced(members, member);
    let later = (!all_normal).then(|| Ring::new(members.iter().filter(stays)));
    let mut ends: Vec<Token> = now.tokens.iter().map(|(token, _)| *token).collect();
    ends.extend(later.iter().flat_map(|ring| ring.tokens.iter().map(|(token, _)| *token)));
    ends.sort_unstable();
    ends.dedup();
    let mut ranges: Vec<Holders> = Vec::with_capacity(ends.len());
    for end in ends {
        let read = now.replicas(replication, end);
        let mut pending = later.as_ref().map_or_else(Vec::new, |ring| ring.replicas(replication, end));
        pending.retain(|host| !read.contains(host));
        match ranges.last_mut() {
            Some(last) if *last.read == *read && *last.pending == *pending => last.end = end,
            _ => {
                let (read, pending) = (read.into(), pending.into());
                ranges.push(Holders { end, read, pending, changed: Version::ZERO });
            }
        }
    }
    ranges
}

/// Whether somebody takes the place of a member.
fn is_replaced(members: &Members, member: &Member) -> bool {
    members.iter().any(|other| other.state == MemberState::Replacing(member.host_id))
}

#[cfg(test)]
mod tests;
