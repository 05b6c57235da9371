//! What a replica answers: rows with their timestamps and tombstones, so that answers of several can be merged.

use crate::command::{Resume, put_resume, resume};
use crate::encoded::Mutation;
use crate::error::Error;
use crate::input::{Input, put_sized};
use smallvec::SmallVec;

/// Partitions of an answer; the one of most reads has its place in the answer itself.
pub type Partitions = SmallVec<[Mutation; 1]>;

/// The answer to a [`crate::ReadCommand`]; by default that nothing is known of all that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadAnswer {
    /// Partitions in the order asked for, items in the order of reading (descending when reversed). Partitions about
    /// which nothing is known are left out; those that hold only tombstones are not. Empty when only a digest was
    /// asked for.
    pub partitions: Partitions,
    /// Live rows in it.
    pub live_rows: u32,
    /// Where a limit stopped the read; everything up to it is covered. `None`: all that was asked for is covered.
    pub stopped: Option<Resume>,
    /// Hash of the covered content, if asked for.
    pub digest: Option<[u8; 16]>,
    /// Tombstones and expired cells met, those included that the command told of.
    pub tombstones: u32,
}

impl ReadAnswer {
    /// The answer as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.partitions.len() as u32).to_be_bytes());
        for partition in &self.partitions {
            put_sized(out, partition.as_bytes());
        }
        out.extend_from_slice(&self.live_rows.to_be_bytes());
        put_resume(out, self.stopped.as_ref());
        match &self.digest {
            Some(digest) => {
                out.push(1);
                out.extend_from_slice(digest);
            }
            None => out.push(0),
        }
        out.extend_from_slice(&self.tombstones.to_be_bytes());
    }

    /// Reads what [`ReadAnswer::encode`] wrote, validating every mutation in it.
    pub fn decode(bytes: &[u8]) -> Result<ReadAnswer, Error> {
        let mut input = Input::new(bytes);
        let count = input.u32("count of partitions")?;
        let mut partitions = Partitions::new();
        for _ in 0..count {
            partitions.push(Mutation::from_bytes(input.sized("a partition")?.to_vec())?);
        }
        let live_rows = input.u32("live rows")?;
        let stopped = resume(&mut input)?;
        let digest = if input.u8("digest flag")? != 0 { Some(input.array("digest")?) } else { None };
        let tombstones = input.u32("tombstones")?;
        Ok(ReadAnswer { partitions, live_rows, stopped, digest, tombstones })
    }
}
