//! What is agreed on.

use crate::{Ballot, Error};
use base::ByteReader;
use mutation::Mutation;

/// When something was planned first: what its coordinator knew of the cluster, and the time. It goes along through every hand-over, so that nothing
/// planned before a truncation takes effect behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Epoch and index of the cluster's log.
    pub on: (u64, u64),
    /// Microseconds since the Unix epoch.
    pub at: i64,
}

/// What a round proposes: a mutation, or nothing, which changes no rows and fences off what came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The round in which it was proposed first; later ones may carry it on unchanged.
    pub origin: Ballot,
    /// When `origin` was planned.
    pub planned: Planned,
    /// What to write. `None`: nothing.
    pub mutation: Option<Mutation>,
}

impl Proposal {
    /// Appends it as bytes.
    ///
    /// ```text
    /// u8 version 1   uuid origin   i64 at   u64 epoch   u64 index   mutation, or no bytes
    /// ```
    /// On disk and on the wire between releases.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        out.push(1);
        out.extend_from_slice(&self.origin.to_bytes());
        out.extend_from_slice(&self.planned.at.to_be_bytes());
        out.extend_from_slice(&self.planned.on.0.to_be_bytes());
        out.extend_from_slice(&self.planned.on.1.to_be_bytes());
        if let Some(mutation) = &self.mutation {
            out.extend_from_slice(mutation.as_bytes());
        }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    /// Reads what [`Proposal::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Proposal, Error> {
        let cut = |_| Error::Malformed("a proposal is cut".into());
        let mut input = ByteReader::new(bytes);
        match input.u8().map_err(cut)? {
            1 => {}
            version => return Err(Error::Malformed(format!("a proposal of version {version}"))),
        }
        let origin = Ballot::from_bytes(input.array().map_err(cut)?);
        let at = input.u64().map_err(cut)? as i64;
        let on = (input.u64().map_err(cut)?, input.u64().map_err(cut)?);
        let rest = input.bytes(input.remaining()).map_err(cut)?;
        let mutation = match rest {
            [] => None,
            bytes => Some(Mutation::from_bytes(bytes.to_vec()).map_err(|e| Error::Malformed(e.to_string()))?),
        };
        Ok(Proposal { origin, planned: Planned { on, at }, mutation })
    }
}
