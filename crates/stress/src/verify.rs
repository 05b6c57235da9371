//! What was written is read back, partition by partition, and the whole table is looked through for rows that nobody wrote.
//!
//! ```text
//!  ledger ─► every partition that was written or may be ─► read at the level of the writes ─► lost, stale, phantom
//!               └─► its token ──► sorted ◄── the tokens of all rows since the start, range by range ─► phantom
//! ```
//! Rows that were there before the run began are told by their times, and are nobody's business.

use crate::ledger::{Finding, Findings, Found, Known, Ledger, judge};
use crate::limits::{READERS_MAX, SCAN_PAGE_ROWS, UNREAD_MAX};
use crate::population::Part;
use crate::session::Session;
use crate::settings::{Rate, Settings, TokenRange};
use crate::standard::{self, Operation, Standard};
use crate::user::{Range, Ranges, within};
use base::Token;
use client::contact::named;
use loadtools::java::grouped;
use loadtools::output::Output;
use protocol::request::Parameters;
use runtime::Group;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use types::text::format_hex;

/// Rest between two tries.
const REST: Duration = Duration::from_millis(100);
/// Tokens are kept apart by their first bits.
const BUCKETS: usize = 256;

/// Tokens of partitions, eight bytes each.
struct Tokens(Vec<Vec<i64>>);

impl Tokens {
    fn new() -> Tokens {
        Tokens(vec![Vec::new(); BUCKETS])
    }

    fn bucket(token: i64) -> usize {
        (token as u64 >> 56) as usize
    }

    fn push(&mut self, token: Token) {
        self.0[Tokens::bucket(token.0)].push(token.0);
    }

    /// Before they are looked for.
    async fn sort(&mut self) {
        for bucket in &mut self.0 {
            bucket.sort_unstable();
            runtime::yield_if_needed().await;
        }
    }

    fn has(&self, token: Token) -> bool {
        self.0[Tokens::bucket(token.0)].binary_search(&token.0).is_ok()
    }
}

/// What has been seen.
#[derive(Default)]
struct Seen {
    acknowledged: Cell<u64>,
    doubtful: Cell<u64>,
    read: Cell<u64>,
    /// Partitions that could not be read, and ranges that could not be looked through.
    unread: Cell<u64>,
    unread_ranges: Cell<u64>,
    rows: Cell<u64>,
    before: Cell<u64>,
}

fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// What the readers of a verification share.
struct Check {
    session: Rc<Session>,
    settings: Rc<Settings>,
    output: Rc<Output>,
    /// Before the first write.
    start: i64,
    walk: RefCell<Box<dyn Iterator<Item = (i64, Known)>>>,
    tokens: RefCell<Tokens>,
    findings: RefCell<Findings>,
    seen: Seen,
    ranges: Ranges,
}

/// Reads back what a ledger knows, and says what came of it; true when nothing is wrong.
pub async fn verify(
    session: Rc<Session>,
    settings: Rc<Settings>,
    ledger: Ledger,
    output: Rc<Output>,
) -> bool {
    output.line(&format!("Verifying what was written, at {}", settings.command.level));
    let (start, early) = (ledger.start(), ledger.early.clone());
    let Some(standard) = prepared(&session, &settings, &output).await else {
        output.line("Not verified: no server prepares the statement that reads it back");
        early.examples.iter().for_each(|example| output.line(&format!("  while it ran, {example}")));
        return false;
    };
    let ranges =
        Ranges::new(session.pool.tokens().collect(), TokenRange { wrap: false, split: 1 }, Part::WHOLE);
    let readers = match settings.rate {
        Rate::Threads { threads, .. } => threads,
        Rate::Steps { most, .. } => most,
    };
    let check = Rc::new(Check {
        session,
        settings,
        output,
        start,
        walk: RefCell::new(ledger.into_known()),
        tokens: RefCell::new(Tokens::new()),
        findings: RefCell::default(),
        seen: Seen::default(),
        ranges,
    });
    let readers = readers.clamp(1, READERS_MAX);
    let reading =
        (0..readers).map(|_| runtime::spawn(Group::QUERY, read_all(check.clone(), standard.clone())));
    for reader in reading.collect::<Vec<_>>() {
        reader.await;
    }
    let mut tokens = check.tokens.replace(Tokens::new());
    tokens.sort().await;
    check.tokens.replace(tokens);
    let scanning = (0..readers).map(|_| runtime::spawn(Group::QUERY, scan_all(check.clone())));
    for scanner in scanning.collect::<Vec<_>>() {
        scanner.await;
    }
    if runtime::shutdown_is_requested() {
        check.output.line("Not verified: ended before everything was read back");
        return early.is_clean() && check.findings.borrow().is_clean();
    }
    check.tell(&early);
    let is_whole = check.seen.unread.get() + check.seen.unread_ranges.get() == 0;
    is_whole && early.is_clean() && check.findings.borrow().is_clean()
}

/// Prepares the reads, after as many tries as an operation has; nothing when all have failed.
async fn prepared(session: &Session, settings: &Settings, output: &Output) -> Option<Standard> {
    for _ in 0..settings.errors.tries {
        match Standard::prepare(session, settings, vec![Operation::Read], None).await {
            Ok(standard) => return Some(standard),
            Err(error) => output.complain(&named(&error)),
        }
        if runtime::timeout(REST, runtime::shutdown_requested()).await.is_ok() {
            break;
        }
    }
    None
}

/// Reads one partition after the other until there are no more.
async fn read_all(check: Rc<Check>, mut standard: Standard) {
    while !runtime::shutdown_is_requested() {
        let Some((partition, known)) = check.walk.borrow_mut().next() else { return };
        count(if known.since.is_some() { &check.seen.acknowledged } else { &check.seen.doubtful });
        let Some(found) = check.read(&mut standard, partition).await else {
            count(&check.seen.unread);
            continue;
        };
        count(&check.seen.read);
        check.tokens.borrow_mut().push(standard.token_of(partition));
        if let Some((finding, text)) = judge(known, found, check.start) {
            check.findings.borrow_mut().add(finding, &text, || standard.name());
        }
        runtime::yield_if_needed().await;
    }
}

/// Looks through one range after the other until there are no more.
async fn scan_all(check: Rc<Check>) {
    while !runtime::shutdown_is_requested() {
        let Some(range) = check.ranges.next() else { return };
        if !check.scan(range).await {
            count(&check.seen.unread_ranges);
        }
    }
}

impl Check {
    /// A partition, after as many tries as an operation has; nothing when all have failed, or so many others that nobody is there.
    async fn read(&self, standard: &mut Standard, partition: i64) -> Option<Found> {
        for _ in 0..self.settings.errors.tries {
            if self.seen.unread.get() >= UNREAD_MAX || runtime::shutdown_is_requested() {
                break;
            }
            match standard.read_back(&self.session, partition).await {
                Ok(found) => return Some(found),
                Err(error) => self.failed(&error).await,
            }
        }
        // Its token is known all the same.
        self.tokens.borrow_mut().push(standard.token_of(partition));
        None
    }

    /// Says an error, while there are few, and rests.
    async fn failed(&self, error: &client::Error) {
        if self.seen.unread.get() == 0 {
            self.output.complain(&named(error));
        }
        let _ended_early = runtime::timeout(REST, runtime::shutdown_requested()).await;
    }

    /// Looks for rows of a range that nobody wrote; false when it could not be read to its end.
    async fn scan(&self, range: Range) -> bool {
        let text = format!("{}{}", standard::scan_text(&self.settings), within("token(key)", range));
        let mut paging_state: Option<Vec<u8>> = None;
        let mut failures = 0;
        loop {
            let parameters = Parameters {
                page_size: Some(SCAN_PAGE_ROWS),
                paging_state: paging_state.as_deref(),
                ..Parameters::at(self.session.level)
            };
            let page = match self.session.pool.query(&text, parameters).await {
                Ok(outcome) => outcome.rows(),
                Err(error) => {
                    failures += 1;
                    if failures >= self.settings.errors.tries || runtime::shutdown_is_requested() {
                        return false;
                    }
                    self.failed(&error).await;
                    continue;
                }
            };
            page.rows.iter().for_each(|row| self.look(row));
            runtime::yield_if_needed().await;
            match page.paging_state {
                Some(state) => paging_state = Some(state),
                None => return true,
            }
        }
    }

    /// Looks at a row of the scan: its key, and the time of its first value.
    fn look(&self, row: &[Option<Vec<u8>>]) {
        let [Some(key), time] = row else { return };
        count(&self.seen.rows);
        let time = time.as_deref().and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes);
        if self.tokens.borrow().has(Token::of_key(key)) {
            return;
        }
        if time.is_some_and(|time| time < self.start) {
            return count(&self.seen.before);
        }
        let text = match time {
            Some(time) => format!("written at {time}, by nobody"),
            None => "a row without its first value, which nobody wrote".to_owned(),
        };
        self.findings.borrow_mut().add(Finding::Phantom, &text, || format!("key {}", format_hex(key)));
    }

    fn tell(&self, early: &Findings) {
        let (seen, findings) = (&self.seen, self.findings.borrow());
        let line = |label: &str, number: u64, more: String| {
            self.output.line(&format!("{label:<26}: {:>10}{more}", grouped(number)));
        };
        let none = String::new;
        self.output.line("");
        self.output.line("Verification:");
        line("Partitions acknowledged", seen.acknowledged.get(), none());
        line("Partitions in doubt", seen.doubtful.get(), none());
        line("Partitions read back", seen.read.get(), none());
        line("Rows of the table", seen.rows.get(), format!(" [from before: {}]", grouped(seen.before.get())));
        for (label, late, early) in [
            ("Lost", findings.lost, early.lost),
            ("Stale", findings.stale, early.stale),
            ("Phantom", findings.phantom, early.phantom),
        ] {
            line(label, late, format!(" [while it ran: {}]", grouped(early)));
        }
        line(
            "Not read",
            seen.unread.get(),
            format!(" [ranges of tokens: {}]", grouped(seen.unread_ranges.get())),
        );
        let told = [(&early.examples, "while it ran, "), (&findings.examples, "")];
        for (example, when) in
            told.iter().flat_map(|(examples, when)| examples.iter().map(move |e| (e, when)))
        {
            self.output.line(&format!("  {when}{example}"));
        }
        self.output.line("");
    }
}
