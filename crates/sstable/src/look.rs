//! Looking around in a file, such as down a trie: a plain function over pages that may have to be read first.
//!
//! The function asks for bytes where it goes. What is cached it gets; otherwise it is left, the block is read and held, and
//! the function runs again from its start, over blocks that are all in memory as far as it came. A walk whose blocks are
//! cached neither waits nor copies.

use smallvec::SmallVec;
use std::rc::Rc;

use crate::cursor::{Decoded, Fault};
use crate::error::Error;
use crate::limits::LOOK_BLOCKS_MAX;
use crate::pages::Purpose;
use crate::pages::blocks::Block;
use crate::source::Source;
use crate::trie::Pages;

/// The bytes of a file, as far as they are in memory.
pub(crate) struct Look {
    source: Rc<Source>,
    purpose: Purpose,
    /// Few, unless the trie is deep.
    held: SmallVec<[(u32, Block); 6]>,
    missing: Option<u32>,
}

impl Pages for Look {
    /// The function must pass on the fault it gets: it may mean that it will be called again.
    fn bytes(&mut self, offset: u64) -> Decoded<&[u8]> {
        if offset >= self.source.length() {
            let expected = format!("a position below {}", self.source.length());
            return Err(Fault::Bad { at: offset, expected, got: offset.to_string() });
        }
        let index = self.source.index_of(offset);
        let place = match self.held.iter().position(|(held, _)| *held == index) {
            Some(place) => place,
            None => match self.source.cached(index, self.purpose) {
                Some(block) => {
                    self.held.push((index, block));
                    self.held.len() - 1
                }
                None => {
                    self.missing = Some(index);
                    return Err(Fault::Short { at: offset, wanted: 1 });
                }
            },
        };
        let skipped = offset - u64::from(index) * self.source.block_length();
        Ok(&self.held[place].1[skipped as usize..])
    }
}

impl Source {
    /// What a function finds in the file. It runs again after every read, so it must have no effects before its end.
    /// Errors: what it says is wrong, with offsets from the start of the file; `Corrupt` when it asks for more blocks than
    /// any sound index needs; `Io`.
    pub(crate) async fn look<T>(
        self: &Rc<Self>,
        mut find: impl FnMut(&mut Look) -> Decoded<T>,
    ) -> Result<T, Error> {
        let (source, purpose) = (self.clone(), Purpose::of_task());
        let mut look = Look { source, purpose, held: SmallVec::new(), missing: None };
        loop {
            let found = find(&mut look);
            let Some(missing) = look.missing.take() else {
                return found.map_err(|fault| fault.in_file(self.path(), 0));
            };
            if look.held.len() >= LOOK_BLOCKS_MAX {
                let at = u64::from(missing) * self.block_length();
                let expected = format!("a way over at most {LOOK_BLOCKS_MAX} blocks");
                return Err(Error::corrupt(self.path(), at, expected, "more"));
            }
            let block = self.block(missing, missing, look.purpose).await?;
            look.held.push((missing, block));
        }
    }
}
