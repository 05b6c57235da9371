//! What every owner has: files and bytes, counted by a scan of all entries, ranges of tokens in parallel.

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::scan::scan;
use crate::tables::{Ask, Cells, FILE};
use std::collections::BTreeMap;

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files, those in deleted folders among them.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were deleted by themselves and are in the trash.
    pub trashed_files: u64,
    /// Their bytes.
    pub trashed_bytes: u64,
}

impl Usage {
    /// Counts a file.
    pub fn add(&mut self, bytes: i64, is_trashed: bool) {
        let (files, sum) = self.of(is_trashed);
        *files += 1;
        *sum += bytes as u64;
    }

    /// Counts a file no more.
    pub fn remove(&mut self, bytes: i64, is_trashed: bool) {
        let (files, sum) = self.of(is_trashed);
        *files -= 1;
        *sum -= bytes as u64;
    }

    fn of(&mut self, is_trashed: bool) -> (&mut u64, &mut u64) {
        match is_trashed {
            false => (&mut self.files, &mut self.bytes),
            true => (&mut self.trashed_files, &mut self.trashed_bytes),
        }
    }
}

/// What each owner has.
pub type Quotas = BTreeMap<String, Usage>;

impl Catalogue {
    /// Counts everything, reading so many ranges at a time.
    pub async fn quotas(&self, parallel: usize) -> Result<Quotas, Error> {
        scan(&self.session, Ask::ScanOwners, parallel, Quotas::new(), count).await
    }
}

fn count(quotas: &mut Quotas, row: &[Option<&[u8]>]) -> Result<(), Error> {
    let mut cells = Cells::new("entries", row);
    if i8::from_be_bytes(cells.number()?) != FILE {
        return Ok(());
    }
    let owner = cells.text()?;
    let size = i64::from_be_bytes(cells.number()?);
    let is_trashed = cells.bytes().is_some();
    match quotas.get_mut(owner) {
        Some(usage) => usage.add(size, is_trashed),
        None => quotas.entry(owner.to_owned()).or_default().add(size, is_trashed),
    }
    Ok(())
}
