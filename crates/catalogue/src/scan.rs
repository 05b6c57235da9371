//! Whole tables, range of tokens by range of tokens, several at a time.

use crate::error::Error;
use crate::limits::SCAN_RANGES_MIN;
use crate::session::Session;
use crate::tables::Ask;
use base::Token;
use protocol::values::ValuesBuilder;
use runtime::Group;
use std::cell::RefCell;
use std::rc::Rc;

/// What is done with a row.
pub type Visit<T> = fn(&mut T, &[Option<&[u8]>]) -> Result<(), Error>;

/// What the tasks of a scan share.
struct Shared<T> {
    session: Rc<Session>,
    ask: Ask,
    visit: Visit<T>,
    state: RefCell<T>,
    ranges: RefCell<Vec<(i64, i64)>>,
    failed: RefCell<Option<Error>>,
}

/// Gives every row that a statement finds over all tokens to `visit`, in no order, and gives its state back. `parallel` ranges are read at
/// a time. Errors: of the database, of `visit`; the scan ends.
pub async fn scan<T: 'static>(
    session: &Rc<Session>,
    ask: Ask,
    parallel: usize,
    state: T,
    visit: Visit<T>,
) -> Result<T, Error> {
    let ranges = ranges((parallel * 8).max(SCAN_RANGES_MIN));
    let shared = Rc::new(Shared {
        session: session.clone(),
        ask,
        visit,
        state: RefCell::new(state),
        ranges: RefCell::new(ranges),
        failed: RefCell::default(),
    });
    let tasks: Vec<_> =
        (0..parallel.max(1)).map(|_| runtime::spawn(Group::QUERY, work(shared.clone()))).collect();
    for task in tasks {
        task.await;
    }
    let Some(shared) = Rc::into_inner(shared) else {
        return Err(Error::Damaged("a scan that has ended goes on".into()));
    };
    match shared.failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(shared.state.into_inner()),
    }
}

async fn work<T>(shared: Rc<Shared<T>>) {
    loop {
        // Whoever fails ends all.
        let range = if shared.failed.borrow().is_some() { None } else { shared.ranges.borrow_mut().pop() };
        let Some(range) = range else { return };
        if let Err(error) = one(&shared, range).await {
            shared.failed.borrow_mut().get_or_insert(error);
        }
    }
}

/// Reads one range, page by page. A page is visited when it is there: what is asked again is not counted twice.
async fn one<T>(shared: &Shared<T>, (start, end): (i64, i64)) -> Result<(), Error> {
    let mut values = ValuesBuilder::new();
    values.bytes(&start.to_be_bytes()).bytes(&end.to_be_bytes());
    let mut paging = None;
    loop {
        let visit = |row: &[Option<&[u8]>]| (shared.visit)(&mut shared.state.borrow_mut(), row);
        let at = (Token(end), paging.as_deref());
        paging = shared.session.page(shared.ask, &values, at, visit).await?;
        if paging.is_none() {
            return Ok(());
        }
        runtime::yield_if_needed().await;
    }
}

/// All tokens in so many even ranges, each above its first up to its last. No partition has the least token.
fn ranges(count: usize) -> Vec<(i64, i64)> {
    let bound = |nth: usize| {
        let whole = i128::from(i64::MAX) - i128::from(i64::MIN);
        (i128::from(i64::MIN) + whole * nth as i128 / count as i128) as i64
    };
    (0..count).map(|nth| (bound(nth), bound(nth + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_tokens_once() {
        for count in [1, 3, 64] {
            let ranges = ranges(count);
            assert_eq!((ranges[0].0, ranges[count - 1].1), (i64::MIN, i64::MAX));
            assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].0 < pair[0].1));
        }
    }
}
