//! Rows that do not stay: in `ks.e` they expire, in `ks.r` they are truncated or go with their table.
//!
//! Every row is written once, under a key that is never used again, so a row that is back too late or gone too early is seen
//! as such. What expires is certain but for a second around its end: expiry counts in whole seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Instant, Prng};

use crate::session::Row;

/// The columns a read of `ks.e` asks for.
pub(crate) const E_COLUMNS: &str = "pk, ck, v, w";
/// The id that `ks.r` has whenever it is made.
pub(crate) const R_ID: &str = "5a1c395e-b41f-11e5-9f22-ba0b0483c18c";
/// How far from its time something may expire.
const SLACK: Duration = Duration::from_millis(1_100);

/// Whether something must, must not or may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exists {
    Yes,
    No,
    Perhaps,
}

/// One row of `ks.e`.
#[derive(Clone, Debug)]
struct Expiring {
    pk: i32,
    /// The row itself stays and only its `w` expires.
    stays: bool,
    ttl: Duration,
    issued: Instant,
    acked: Option<Instant>,
    /// It cannot have been written later.
    latest: Instant,
    /// A verification did not find it although it had not expired: it was never written.
    gone: bool,
}

/// What is known of `ks.e`, by its clustering key.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpiringRows(BTreeMap<i32, Expiring>);

impl ExpiringRows {
    /// Notes a row before it is sent; its statements, to be run as one batch.
    pub(crate) fn issue(&mut self, rng: &mut Prng, stamp: i32, now: Instant) -> Vec<String> {
        let pk = rng.below(3) as i32;
        let ttl = [1, 2, 3, 1_000][rng.below(4) as usize];
        let stays = rng.chance(0.4);
        let row = Expiring {
            pk,
            stays,
            ttl: Duration::from_secs(ttl),
            issued: now,
            acked: None,
            latest: Instant::MAX,
            gone: false,
        };
        self.0.insert(stamp, row);
        let insert = format!("INSERT INTO ks.e (pk, ck, v) VALUES ({pk}, {stamp}, 'e{stamp}')");
        let place = format!("WHERE pk = {pk} AND ck = {stamp}");
        match stays {
            true => vec![insert, format!("UPDATE ks.e USING TTL {ttl} SET w = {stamp} {place}")],
            false => vec![
                format!("{insert} USING TTL {ttl}"),
                format!("UPDATE ks.e USING TTL {ttl} SET w = {stamp} {place}"),
            ],
        }
    }

    /// A row was acknowledged.
    pub(crate) fn acked(&mut self, stamp: i32, now: Instant) {
        if let Some(row) = self.0.get_mut(&stamp) {
            (row.acked, row.latest) = (Some(now), now);
        }
    }

    /// The node is gone: what was on its way is written now or never.
    pub(crate) fn orphan(&mut self, now: Instant) {
        self.0.values_mut().for_each(|row| row.latest = row.latest.min(now));
    }

    /// Checks all rows of [`E_COLUMNS`], read between two moments; acknowledged before `horizon` means written.
    pub(crate) fn check(
        &self,
        rows: &[Row],
        from: Instant,
        to: Instant,
        horizon: Instant,
    ) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for row in rows {
            let int = |index: usize| {
                let bytes = row.get(index)?.as_deref()?;
                Some(i32::from_be_bytes(bytes.try_into().ok()?))
            };
            let text = row.get(2).and_then(Option::as_deref);
            let stamp = int(1).unwrap_or(i32::MIN);
            let Some(known) = self.0.get(&stamp) else { return Err(format!("ks.e has a row {stamp}")) };
            let right = int(0) == Some(known.pk)
                && text == Some(format!("e{stamp}").as_bytes())
                && int(3).is_none_or(|w| w == stamp);
            if !right || found.insert(stamp, int(3).is_some()).is_some() {
                return Err(format!("ks.e has a wrong row {stamp}: {row:?}"));
            }
        }
        for (stamp, row) in &self.0 {
            row.explain(found.get(stamp).copied(), from, to, horizon)
                .map_err(|text| format!("row {stamp} of ks.e {text}: {row:?}, read {from:?} to {to:?}"))?;
        }
        Ok(())
    }

    /// Takes what a verification found as certain.
    pub(crate) fn settle(&mut self, rows: &[Row], now: Instant) {
        let stamp = |row: &Row| Some(i32::from_be_bytes(row.get(1)?.as_deref()?.try_into().ok()?));
        let found: Vec<i32> = rows.iter().filter_map(stamp).collect();
        for (stamp, row) in &mut self.0 {
            if found.contains(stamp) {
                row.acked.get_or_insert(row.latest);
            } else if row.stays || now < row.issued + (row.ttl - SLACK.min(row.ttl)) {
                row.gone = true;
            }
        }
    }
}

impl Expiring {
    /// `seen`: whether its `w` is there; None: the row is not.
    fn explain(
        &self,
        seen: Option<bool>,
        from: Instant,
        to: Instant,
        horizon: Instant,
    ) -> Result<(), &'static str> {
        let alive = to < self.issued + (self.ttl - SLACK.min(self.ttl));
        let dead = self.latest < Instant::MAX && self.latest + self.ttl + SLACK < from;
        let written = self.acked.is_some_and(|at| at < horizon) && !self.gone;
        match seen {
            Some(_) if self.gone => Err("is back"),
            Some(true) if dead => Err("has a value that expired"),
            Some(false) if alive => Err("lost a value that has not expired"),
            Some(_) if dead && !self.stays => Err("has expired and is there"),
            // One read sees one moment: a row without its value can only be one that stays.
            Some(false) if !self.stays => Err("is there without its value"),
            None if written && (alive || self.stays) => Err("is lost"),
            _ => Ok(()),
        }
    }
}

/// What is known of `ks.r`.
#[derive(Clone, Debug)]
pub(crate) struct Wiped {
    pub(crate) table: Exists,
    keys: BTreeMap<i32, Exists>,
}

impl Default for Wiped {
    fn default() -> Wiped {
        Wiped { table: Exists::Yes, keys: BTreeMap::new() }
    }
}

impl Wiped {
    /// A row is about to be written, or was acknowledged.
    pub(crate) fn note(&mut self, key: i32, exists: Exists) {
        self.keys.insert(key, exists);
    }

    /// Everything is about to be wiped.
    pub(crate) fn wiping(&mut self) {
        self.keys.values_mut().filter(|key| **key == Exists::Yes).for_each(|key| *key = Exists::Perhaps);
    }

    /// Everything was wiped.
    pub(crate) fn wiped(&mut self) {
        self.keys.values_mut().for_each(|key| *key = Exists::No);
    }

    /// Checks what was read; None: there was no such table. `lossy`: acknowledged rows may be gone.
    pub(crate) fn check(&self, rows: Option<&[Row]>, lossy: bool) -> Result<(), String> {
        let Some(rows) = rows else {
            return match self.table {
                Exists::Yes => Err("ks.r is gone".to_string()),
                Exists::No | Exists::Perhaps => Ok(()),
            };
        };
        if self.table == Exists::No {
            return Err("ks.r was dropped and is back".to_string());
        }
        let found = keys_of(rows);
        if let Some(key) =
            found.iter().find(|key| !matches!(self.keys.get(key), Some(Exists::Yes | Exists::Perhaps)))
        {
            return Err(format!("row {key} of ks.r was wiped, or never written, and is there: {self:?}"));
        }
        let lost = self.keys.iter().find(|(key, exists)| **exists == Exists::Yes && !found.contains(key));
        match lost {
            Some((key, _)) if !lossy => {
                Err(format!("row {key} of ks.r is lost: found {found:?} of {self:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Takes what a verification found as certain.
    pub(crate) fn settle(&mut self, rows: Option<&[Row]>) {
        self.table = if rows.is_some() { Exists::Yes } else { Exists::No };
        let found = keys_of(rows.unwrap_or_default());
        for (key, exists) in &mut self.keys {
            *exists = if found.contains(key) { Exists::Yes } else { Exists::No };
        }
    }
}

fn keys_of(rows: &[Row]) -> Vec<i32> {
    let key = |row: &Row| Some(i32::from_be_bytes(row.first()?.as_deref()?.try_into().ok()?));
    rows.iter().map(|row| key(row).unwrap_or(i32::MIN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn row(pk: i32, stamp: i32, w: bool) -> Row {
        let int = |value: i32| Some(value.to_be_bytes().to_vec());
        vec![int(pk), int(stamp), Some(format!("e{stamp}").into_bytes()), if w { int(stamp) } else { None }]
    }

    #[test]
    fn expired_rows_are_missed_too_early_and_found_too_late() {
        let mut rows = ExpiringRows::default();
        let mut rng = Prng::new(1);
        for stamp in 0..40 {
            rows.issue(&mut rng, stamp, Instant(SECOND));
            rows.acked(stamp, Instant(SECOND));
        }
        let check =
            |all: &[Row], at: u64| rows.check(all, Instant(at * SECOND), Instant(at * SECOND), Instant::MAX);
        let all: Vec<Row> = rows.0.iter().map(|(stamp, row_of)| row(row_of.pk, *stamp, true)).collect();
        assert_eq!(check(&all, 1), Ok(()));
        assert!(check(&all[1..], 1).is_err(), "one is lost");
        assert!(check(&all, 9).is_err(), "some have expired");
        let left: Vec<Row> = (rows.0.iter())
            .filter(|(_, known)| known.stays || known.ttl > Duration::from_secs(9))
            .map(|(stamp, known)| row(known.pk, *stamp, known.ttl > Duration::from_secs(9)))
            .collect();
        assert_eq!(check(&left, 9), Ok(()));
    }

    #[test]
    fn wiped_rows_stay_away() {
        let mut wiped = Wiped::default();
        let rows =
            |keys: &[i32]| keys.iter().map(|key| vec![Some(key.to_be_bytes().to_vec())]).collect::<Vec<_>>();
        wiped.note(1, Exists::Yes);
        assert!(wiped.check(Some(&[]), false).is_err(), "lost");
        assert_eq!(wiped.check(Some(&[]), true), Ok(()));
        wiped.wiping();
        assert_eq!((wiped.check(Some(&[]), false), wiped.check(Some(&rows(&[1])), false)), (Ok(()), Ok(())));
        wiped.wiped();
        assert!(wiped.check(Some(&rows(&[1])), false).is_err(), "it is back");
        assert!(wiped.check(None, false).is_err(), "the table was not dropped");
    }
}
