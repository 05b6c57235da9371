//! Which replicas a request goes to and what must come back: the one place where a consistency level is decided.
//!
//! A plan is made of one snapshot before anything is sent, or says that too few replicas are alive. Each target names the need that its
//! answer counts for: a level is met when all its needs are. Most levels have one need; EACH_QUORUM has one for each datacenter, and an
//! answer from outside the local datacenter counts for none where the level says so.

use crate::{Holders, MemberState, Snapshot};
use base::HostId;
use schema::Replication;
use types::Consistency;

/// A replica that a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The replica.
    pub host: HostId,
    /// Which of the plan's needs its answer counts for.
    pub need: Option<u8>,
}

/// Where a write goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritePlan {
    /// Everybody alive who holds or will hold the token.
    pub targets: Vec<Target>,
    /// Who holds it and is not alive: what is written now must reach them later.
    pub missed: Vec<HostId>,
    /// Answers that must arrive, for each need.
    pub needs: Vec<usize>,
}

/// Whom a read asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPlan {
    /// As many as are needed, the nearest first.
    pub targets: Vec<Target>,
    /// Who can stand in for one of them with the same need, the nearest first.
    pub spares: Vec<Target>,
    /// Answers that must arrive, for each need.
    pub needs: Vec<usize>,
}

/// Too few replicas are alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// Replicas the level asks for.
    pub required: usize,
    /// Replicas alive that count.
    pub alive: usize,
    /// The datacenter that falls short, where a level asks each for its own.
    pub dc: Option<String>,
}

/// Which replicas a need counts.
enum Counted<'s> {
    All,
    Datacenter(&'s str),
}

impl Counted<'_> {
    fn counts(&self, snapshot: &Snapshot, host: HostId) -> bool {
        match self {
            Counted::All => true,
            Counted::Datacenter(dc) => snapshot.dc_of(host) == Some(dc),
        }
    }
}

/// What a level asks for. Serial levels ask for what a read at them waits for: the quorum of their scope. The replication factor that the
/// keyspace names counts, not how many nodes there are.
fn needs<'s>(
    snapshot: &'s Snapshot,
    replication: &'s Replication,
    level: Consistency,
) -> Vec<(Counted<'s>, usize)> {
    let total = total_factor(replication);
    let quorum = |factor: usize| factor / 2 + 1;
    let all = |count| vec![(Counted::All, count)];
    let local = |count| match replication {
        Replication::NetworkTopology { .. } => vec![(Counted::Datacenter(snapshot.local_dc()), count)],
        Replication::Local | Replication::Simple { .. } => all(count),
    };
    match level {
        Consistency::Any | Consistency::One => all(1),
        Consistency::Two => all(2),
        Consistency::Three => all(3),
        Consistency::Quorum | Consistency::Serial => all(quorum(total)),
        Consistency::All => all(total),
        Consistency::EachQuorum => match replication {
            Replication::NetworkTopology { factors } => {
                factors.iter().map(|(dc, f)| (Counted::Datacenter(dc), quorum(*f as usize))).collect()
            }
            Replication::Local | Replication::Simple { .. } => all(quorum(total)),
        },
        Consistency::LocalQuorum | Consistency::LocalSerial => {
            let factor = match replication {
                Replication::NetworkTopology { factors } => {
                    factors.get(snapshot.local_dc()).map_or(0, |f| *f as usize)
                }
                Replication::Local | Replication::Simple { .. } => total,
            };
            local(quorum(factor))
        }
        Consistency::LocalOne => local(1),
    }
}

fn total_factor(replication: &Replication) -> usize {
    match replication {
        Replication::Local => 1,
        Replication::Simple { factor } => *factor as usize,
        Replication::NetworkTopology { factors } => factors.values().map(|f| *f as usize).sum(),
    }
}

fn shortfall(level: Consistency, counted: &Counted<'_>, required: usize, alive: usize) -> Shortfall {
    let dc = match counted {
        Counted::Datacenter(dc) if level == Consistency::EachQuorum => Some((*dc).to_owned()),
        Counted::Datacenter(_) | Counted::All => None,
    };
    Shortfall { required, alive, dc }
}

/// The need that an answer of a host counts for.
fn need_of(snapshot: &Snapshot, needs: &[(Counted<'_>, usize)], host: HostId) -> Option<u8> {
    let at = needs.iter().position(|(counted, _)| counted.counts(snapshot, host))?;
    u8::try_from(at).ok()
}

impl Snapshot {
    /// Where a write to these holders goes. Who joins is waited for on top of the level: whoever reads from the new holder must find what was
    /// acknowledged. ⚔ Who replaces a dead member is sent everything, and neither waited for nor counted: the dead one is refused, so that all
    /// who confirm hold the token before, during and after, and a level that they meet is met by them. At ANY the plan may have no target.
    /// Errors: too few are alive, and nothing must be sent.
    pub fn plan_write(
        &self,
        replication: &Replication,
        holders: &Holders,
        level: Consistency,
    ) -> Result<WritePlan, Shortfall> {
        let needs = needs(self, replication, level);
        let mut plan = WritePlan { targets: Vec::new(), missed: Vec::new(), needs: Vec::new() };
        for host in holders.read.iter().chain(&holders.pending).copied() {
            match self.is_alive(host) {
                true if self.replaces(host) => plan.targets.push(Target { host, need: None }),
                true => plan.targets.push(Target { host, need: need_of(self, &needs, host) }),
                false => plan.missed.push(host),
            }
        }
        for (at, (counted, count)) in needs.iter().enumerate() {
            let pending = match level {
                Consistency::Any => 0,
                _ => {
                    let waited = holders.pending.iter().filter(|host| !self.replaces(**host));
                    waited.filter(|host| counted.counts(self, **host)).count()
                }
            };
            let alive = plan.targets.iter().filter(|target| target.need.map(usize::from) == Some(at)).count();
            let required = count + pending;
            // ANY is met by a hint, too: whoever writes finds out whether one is kept.
            if alive < required && level != Consistency::Any {
                return Err(shortfall(level, counted, required, alive));
            }
            plan.needs.push(required);
        }
        Ok(plan)
    }

    /// Whether a member is to take the place of a dead one.
    fn replaces(&self, host: HostId) -> bool {
        self.member(host).is_some_and(|member| matches!(member.state, MemberState::Replacing(_)))
    }

    /// Whom a read of what these replicas hold asks: those of this datacenter first, of them this node and then those of the lowest class, of a class
    /// the nearest, of equals in the order given. `class`: how slow another node is, 0 for as fast as any. Errors: too few are alive.
    pub fn plan_read(
        &self,
        replication: &Replication,
        replicas: &[HostId],
        level: Consistency,
        class: impl Fn(HostId) -> u8,
    ) -> Result<ReadPlan, Shortfall> {
        let needs = needs(self, replication, level);
        let mut alive: Vec<HostId> = replicas.iter().copied().filter(|host| self.is_alive(*host)).collect();
        alive.sort_by_key(|host| match self.distance(*host) {
            0 => (false, 0, 0),
            distance => (2 < distance, class(*host), distance),
        });
        let mut left: Vec<usize> = needs.iter().map(|(_, count)| *count).collect();
        let mut plan = ReadPlan { targets: Vec::new(), spares: Vec::new(), needs: left.clone() };
        for host in alive {
            // Who counts for nothing is not asked.
            let Some(need) = need_of(self, &needs, host) else { continue };
            let target = Target { host, need: Some(need) };
            match &mut left[usize::from(need)] {
                0 => plan.spares.push(target),
                open => {
                    *open -= 1;
                    plan.targets.push(target);
                }
            }
        }
        for ((counted, required), open) in needs.iter().zip(left) {
            if open > 0 {
                return Err(shortfall(level, counted, *required, required - open));
            }
        }
        Ok(plan)
    }

    /// Whether this node alone meets a level for what these replicas hold, so that a read need not leave it.
    pub fn suffices_to_read(
        &self,
        replication: &Replication,
        replicas: &[HostId],
        level: Consistency,
    ) -> bool {
        if !replicas.contains(&self.local_id()) {
            return false;
        }
        needs(self, replication, level)
            .iter()
            .all(|(counted, count)| *count == 1 && counted.counts(self, self.local_id()))
    }

    /// Whether a write to these holders goes to this node alone and is done with it.
    pub fn suffices_to_write(
        &self,
        replication: &Replication,
        holders: &Holders,
        level: Consistency,
    ) -> bool {
        holders.pending.is_empty()
            && *holders.read == [self.local_id()]
            && self.suffices_to_read(replication, &holders.read, level)
    }
}

#[cfg(test)]
mod tests;
