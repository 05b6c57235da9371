//! Queries over the whole table, token range by token range.

use super::spec::Spec;
use crate::population::Part;
use crate::profile::ScanSpec;
use crate::settings::TokenRange;
use base::Token;
use std::cell::RefCell;
use std::collections::VecDeque;
use types::text::quote_name;

/// Rows of a page of a warm-up, at most.
const WARM_UP_ROWS: u32 = 100;

/// A range of tokens: above the first, up to the second; without one, from the beginning or to the end.
pub type Range = (Option<Token>, Option<Token>);

/// The ranges that workers share.
pub struct Ranges {
    all: Vec<Range>,
    pending: RefCell<VecDeque<Range>>,
    wraps: bool,
}

impl Ranges {
    /// Those between the tokens of the nodes, each in as many parts as wanted; of them those of one loader.
    pub fn new(mut tokens: Vec<Token>, how: TokenRange, part: Part) -> Ranges {
        tokens.sort();
        tokens.dedup();
        let starts = std::iter::once(None).chain(tokens.iter().copied().map(Some));
        let ends = tokens.iter().copied().map(Some).chain([None]);
        let all = starts.zip(ends).flat_map(|range| split(range, u64::from(how.split.max(1))));
        let all: Vec<Range> = all.skip(part.number as usize).step_by(part.of.max(1) as usize).collect();
        Ranges { pending: RefCell::new(all.iter().copied().collect()), all, wraps: how.wrap }
    }

    /// The next range; `None` when all have been taken.
    pub fn next(&self) -> Option<Range> {
        let mut pending = self.pending.borrow_mut();
        if pending.is_empty() && self.wraps {
            pending.extend(self.all.iter().copied());
        }
        pending.pop_front()
    }
}

/// A range in even parts.
fn split((start, end): Range, parts: u64) -> Vec<Range> {
    let from = start.map_or(i128::from(i64::MIN), |token| i128::from(token.0));
    let to = end.map_or(i128::from(i64::MAX), |token| i128::from(token.0));
    let parts = i128::from(parts).min((to - from).max(1));
    let bound = |part: i128| (from + (to - from) * part / parts) as i64;
    (0..parts)
        .map(|part| {
            let first = if part == 0 { start } else { Some(Token(bound(part))) };
            let last = if part + 1 == parts { end } else { Some(Token(bound(part + 1))) };
            (first, last)
        })
        .collect()
}

/// How a scan is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    token: String,
    columns: String,
    table: String,
    /// Rows of a page.
    pub page_rows: u32,
    /// One page of a range is enough.
    pub is_warm_up: bool,
}

impl Asked {
    /// What a profile asks of its table.
    pub fn new(spec: &Spec, scan: &ScanSpec, is_warm_up: bool) -> Asked {
        let table = &spec.table;
        let names = |columns: &[crate::column::Column]| -> Vec<String> {
            columns.iter().map(|column| quote_name(column.name())).collect()
        };
        let key = names(&table.key);
        // The token comes with the columns, so every one of them must be named.
        let columns = match scan.columns.trim() {
            "*" => [key.clone(), names(&table.clustering), names(&table.values)].concat().join(", "),
            columns => columns.to_owned(),
        };
        let page_rows = if is_warm_up { scan.page_rows.min(WARM_UP_ROWS) } else { scan.page_rows };
        Asked {
            token: format!("token({})", key.join(", ")),
            columns,
            table: spec.quoted_name(),
            page_rows,
            is_warm_up,
        }
    }

    /// The statement of a range.
    pub fn text(&self, range: Range) -> String {
        format!("SELECT {}, {} FROM {}{}", self.token, self.columns, self.table, within(&self.token, range))
    }
}

/// The condition that a token, as a statement writes it, is in a range; nothing for all of them.
pub fn within(token: &str, (start, end): Range) -> String {
    let bounds =
        [start.map(|start| format!("{token} > {}", start.0)), end.map(|end| format!("{token} <= {}", end.0))];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    if bounds.is_empty() { String::new() } else { format!(" WHERE {}", bounds.join(" AND ")) }
}

/// Where one worker is in a range.
#[derive(Clone, Debug)]
pub struct Position {
    /// The range.
    pub range: Range,
    /// Its statement.
    pub text: String,
    /// Where the next page begins.
    pub paging_state: Option<Vec<u8>>,
    /// The token of the last row, as it came.
    pub last_token: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every token is in exactly one range.
    #[test]
    fn ranges_cover_all_tokens_once() {
        for tokens in [vec![], vec![5], vec![i64::MIN + 1, -7, 900, i64::MAX]] {
            for split in [1, 3, 64] {
                let tokens: Vec<Token> = tokens.iter().copied().map(Token).collect();
                let ranges = Ranges::new(tokens.clone(), TokenRange { wrap: false, split }, Part::WHOLE);
                let all: Vec<Range> = std::iter::from_fn(|| ranges.next()).collect();
                assert_eq!(all.first().map(|range| range.0), Some(None));
                assert_eq!(all.last().map(|range| range.1), Some(None));
                assert!(all.windows(2).all(|pair| pair[0].1.is_some() && pair[0].1 == pair[1].0), "{all:?}");
                assert!(
                    all.iter().all(|(from, to)| from.zip(*to).is_none_or(|(from, to)| from < to)),
                    "{all:?}"
                );
                assert!(all.len() > tokens.len());
            }
        }
    }

    #[test]
    fn ranges_come_again_when_they_wrap() {
        let ranges = Ranges::new(vec![Token(0)], TokenRange { wrap: true, split: 1 }, Part::WHOLE);
        let seen: Vec<Range> = (0..4).filter_map(|_| ranges.next()).collect();
        assert_eq!(
            seen,
            [(None, Some(Token(0))), (Some(Token(0)), None), (None, Some(Token(0))), (Some(Token(0)), None)]
        );
    }
}
