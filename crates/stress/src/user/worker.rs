//! What one worker does: makes the requests of profiles and checks their answers.

use super::operation::{Bound, Operation, Slice};
use super::scan::Position;
use super::spec::{BATCH_MAX, Spec};
use crate::distribution::Sampler;
use crate::grammar::Ratio;
use crate::limits::SHOWN_ROWS_MAX;
use crate::partition::{Argument, Partition, Table};
use crate::population::{Seeds, Tickets, Visit};
use crate::profile::Fields;
use crate::session::{Session, statement_text};
use crate::work::Touched;
use base::Prng;
use protocol::request::{BatchKind, Parameters};
use protocol::response::Response;
use protocol::values::ValuesBuilder;
use std::cmp::Ordering;
use std::rc::Rc;
use types::{CqlType, Value};

/// Rows of a page of a query: what drivers ask for.
const PAGE_ROWS: u32 = 5_000;
/// Rows that are made before others are asked whether they want a turn: about a tenth of a millisecond.
const TURN_ROWS: usize = 64;

/// A profile's operation and what this worker keeps for it.
struct Kind {
    operation: Rc<Operation>,
    spec: Rc<Spec>,
    table: Table,
    partitions: Sampler,
    select: Share,
    row_population: Share,
    /// Where a scan is.
    position: Option<Position>,
}

/// Draws a share of something.
struct Share {
    draws: Sampler,
    divisor: f64,
}

impl Share {
    fn new(ratio: &Ratio) -> Share {
        Share { draws: ratio.distribution.sampler(runtime::random_u64() as i64), divisor: ratio.divisor }
    }

    fn draw(&mut self) -> f64 {
        (self.draws.next_double() / self.divisor).clamp(0.0, 1.0)
    }
}

/// Makes requests of profiles and checks their answers.
pub struct Worker {
    kinds: Vec<Kind>,
    rng: Prng,
    /// Which of the kinds was begun.
    kind: usize,
    partitions: Vec<Partition>,
    visits: Vec<Visit>,
    /// Rows to be written: which partition, which row, which share of its columns.
    rows: Vec<(u32, u64, f64)>,
    /// Of them sent, or bound and to be sent next.
    sent: usize,
    bound: Vec<ValuesBuilder>,
    bound_count: usize,
    /// Which slice of a depth is compared, and its bounds.
    slice: Option<Slice>,
    bounds: [Vec<Vec<u8>>; 2],
}

impl Worker {
    /// A worker of these operations, each of a profile.
    pub fn new(operations: &[(Rc<Operation>, Rc<Spec>)]) -> Worker {
        let kinds = operations.iter().map(|(operation, spec)| {
            let inserting = &spec.inserting;
            Kind {
                table: spec.table.clone(),
                partitions: inserting.partitions.sampler(runtime::random_u64() as i64),
                select: Share::new(&inserting.select),
                row_population: Share::new(&inserting.row_population),
                position: None,
                operation: operation.clone(),
                spec: spec.clone(),
            }
        });
        Worker {
            kinds: kinds.collect(),
            rng: Prng::new(runtime::random_u64()),
            kind: 0,
            partitions: Vec::new(),
            visits: Vec::new(),
            rows: Vec::new(),
            sent: 0,
            bound: Vec::new(),
            bound_count: 0,
            slice: None,
            bounds: [Vec::new(), Vec::new()],
        }
    }

    /// Makes the next request of a kind; how many partitions it touches, none when the run ends.
    pub async fn begin(&mut self, kind: usize, seeds: &Seeds, tickets: &Tickets) -> u64 {
        self.kind = kind;
        let operation = self.kinds[kind].operation.clone();
        match &*operation {
            Operation::Insert { bound, visits } => {
                let wanted = self.kinds[kind].partitions.draw().max(1) as u64;
                self.begin_insert(bound, visits, tickets.take(wanted), seeds).await
            }
            Operation::Scan(asked, ranges) => {
                let kind = &mut self.kinds[kind];
                if kind.position.is_none() {
                    let Some(range) = ranges.next() else { return 0 };
                    let text = asked.text(range);
                    kind.position = Some(Position { range, text, paging_state: None, last_token: None });
                }
                tickets.take(1)
            }
            Operation::Query(bound, fields) => {
                if !self.begin_read(seeds, tickets).await {
                    return 0;
                }
                self.bind_query(bound, *fields);
                1
            }
            Operation::Validate(depths) => {
                if !self.begin_read(seeds, tickets).await {
                    return 0;
                }
                let slices = &depths[self.rng.below(depths.len() as u64) as usize];
                let slice = slices[self.rng.below(slices.len() as u64) as usize].clone();
                self.bind_slice(&slice);
                self.slice = Some(slice);
                1
            }
        }
    }

    /// Makes the keys of the next partition to read.
    async fn begin_read(&mut self, seeds: &Seeds, tickets: &Tickets) -> bool {
        if tickets.take(1) == 0 {
            return false;
        }
        let Some(seed) = seeds.for_read() else { return false };
        self.rows.clear();
        self.fill(0, seed).await;
        true
    }

    async fn fill(&mut self, at: usize, seed: i64) {
        if self.partitions.len() <= at {
            self.partitions.push(Partition::default());
        }
        let (table, partition) = (&mut self.kinds[self.kind].table, &mut self.partitions[at]);
        let mut filling = table.fill(seed, partition);
        while !table.fill_on(&mut filling, TURN_ROWS, &mut self.rng, partition) {
            runtime::yield_if_needed().await;
        }
    }

    // ---- inserts ---------------------------------------------------------------------------------------------------

    async fn begin_insert(
        &mut self,
        bound: &Bound,
        visits: &crate::population::Visits,
        wanted: u64,
        seeds: &Seeds,
    ) -> u64 {
        self.visits.clear();
        self.rows.clear();
        self.sent = 0;
        while (self.visits.len() as u64) < wanted {
            let Some(open) = visits.next(seeds) else { break };
            let at = self.visits.len();
            self.fill(at, open.seed).await;
            // Others may have taken the last of its rows.
            let Some(visit) = visits.begin(&open, self.partitions[at].rows()) else { continue };
            self.choose_rows(at as u32, &visit).await;
            self.visits.push(visit);
            runtime::yield_if_needed().await;
        }
        self.bind_rows(bound).await;
        self.visits.len() as u64
    }

    /// The rows of a visit, or a share of them by chance; one at least.
    async fn choose_rows(&mut self, partition: u32, visit: &Visit) {
        let (share, filled) = {
            let kind = &mut self.kinds[self.kind];
            (kind.select.draw(), kind.row_population.draw())
        };
        let before = self.rows.len();
        let mut row = visit.from;
        while row < visit.to {
            if share < 1.0 {
                // How many are left out before the next: as if each had been drawn for.
                let left_out = (1.0 - self.rng.unit()).ln() / (1.0 - share).ln();
                row = row.saturating_add(if share > 0.0 { left_out as u64 } else { u64::MAX });
                if row >= visit.to {
                    break;
                }
            }
            self.rows.push((partition, row, filled));
            row += 1;
            if self.rows.len().is_multiple_of(TURN_ROWS) {
                runtime::yield_if_needed().await;
            }
        }
        if self.rows.len() == before {
            let any = visit.from + self.rng.below(visit.to - visit.from);
            self.rows.push((partition, any, filled));
        }
    }

    /// Binds as many of the rows that have not been sent as a batch can have.
    async fn bind_rows(&mut self, bound: &Bound) {
        self.bound_count = (self.rows.len() - self.sent).min(BATCH_MAX);
        self.bound.resize_with(self.bound.len().max(self.bound_count), ValuesBuilder::new);
        let table = &mut self.kinds[self.kind].table;
        let rows = self.bound.iter_mut().zip(&self.rows[self.sent..]);
        for (nth, (values, (partition, row, filled))) in rows.enumerate() {
            values.clear();
            table.bind(&self.partitions[*partition as usize], *row, &bound.arguments, *filled, values);
            if (nth + 1).is_multiple_of(TURN_ROWS) {
                runtime::yield_if_needed().await;
            }
        }
    }

    async fn send_rows(&mut self, bound: &Bound) -> Result<Option<Touched>, client::Error> {
        loop {
            let spec = &self.kinds[self.kind].spec;
            let session = &spec.session;
            let parameters = parameters(session, bound);
            match &self.bound[..self.bound_count] {
                [] => {}
                [row] => {
                    let parameters = Parameters { values: row.values(), ..parameters };
                    session.send(&bound.statement, parameters).await?;
                }
                rows => {
                    let kind: BatchKind = spec.inserting.batch;
                    session.send_batch(kind, &bound.statement, rows, parameters).await?;
                }
            }
            // A try after a failure begins where it failed.
            self.sent += self.bound_count;
            if self.sent >= self.rows.len() {
                break;
            }
            self.bind_rows(bound).await;
        }
        Ok(Some(Touched { partitions: self.visits.len() as u64, rows: self.rows.len() as u64 }))
    }

    // ---- queries ---------------------------------------------------------------------------------------------------

    fn bind_query(&mut self, bound: &Bound, fields: Fields) {
        let (table, partition) = (&mut self.kinds[self.kind].table, &self.partitions[0]);
        self.bound.resize_with(self.bound.len().max(1), ValuesBuilder::new);
        let values = &mut self.bound[0];
        values.clear();
        let rows = partition.rows();
        let row = self.rng.below(rows);
        for argument in &*bound.arguments {
            let row = match (fields, argument) {
                (Fields::SameRow, _) | (_, Argument::Key(_)) => row,
                (Fields::MultiRow, _) => self.rng.below(rows),
            };
            table.bind(partition, row, std::slice::from_ref(argument), 1.0, values);
        }
    }

    async fn send_query(&self, bound: &Bound) -> Result<Option<Touched>, client::Error> {
        let session = &self.kinds[self.kind].spec.session;
        let mut paging_state: Option<Vec<u8>> = None;
        let mut rows = 0;
        loop {
            let parameters = Parameters {
                values: self.bound[0].values(),
                page_size: Some(PAGE_ROWS),
                paging_state: paging_state.as_deref(),
                ..parameters(session, bound)
            };
            let answer = session.send(&bound.statement, parameters).await?;
            match answer.response()? {
                Response::Rows(page) => {
                    rows += page.row_count as u64;
                    paging_state = page.metadata.paging_state.map(<[u8]>::to_vec);
                }
                _ => paging_state = None,
            }
            if paging_state.is_none() {
                return Ok(Some(Touched { partitions: rows.min(1), rows }));
            }
        }
    }

    // ---- comparisons -----------------------------------------------------------------------------------------------

    /// Draws two bounds, the lesser first.
    fn bind_slice(&mut self, slice: &Slice) {
        let (table, partition) = (&self.kinds[self.kind].table, &self.partitions[0]);
        for bound in &mut self.bounds {
            bound.clear();
            for at in 0..slice.depth {
                let level = partition.level(at);
                bound.push(level[self.rng.below(level.len() as u64) as usize].clone());
            }
        }
        let types: Vec<&CqlType> = table.clustering.iter().map(crate::column::Column::ty).collect();
        let [from, to] = &mut self.bounds;
        if order(&types, from.iter().map(Vec::as_slice), to) == Ordering::Greater {
            std::mem::swap(from, to);
        }
        self.bound.resize_with(self.bound.len().max(1), ValuesBuilder::new);
        let values = &mut self.bound[0];
        values.clear();
        for value in partition.key().iter().chain(from.iter()).chain(to.iter()) {
            values.bytes(value);
        }
    }

    /// The rows that the slice must show, in the server's order.
    fn expected(&self, slice: &Slice) -> Vec<u64> {
        let kind = &self.kinds[self.kind];
        let (table, partition) = (&kind.table, &self.partitions[0]);
        let types: Vec<&CqlType> = table.clustering.iter().map(crate::column::Column::ty).collect();
        let [from, to] = &self.bounds;
        let values = |row: u64, depth: usize| (0..depth).map(move |at| partition.clustering(row, at));
        let inside = |row: &u64| {
            let after = order(&types, values(*row, slice.depth), from);
            let before = order(&types, values(*row, slice.depth), to);
            (after == Ordering::Greater || (slice.from_included && after == Ordering::Equal))
                && (before == Ordering::Less || (slice.to_included && before == Ordering::Equal))
        };
        let mut rows: Vec<u64> = match slice.depth {
            0 => (0..partition.rows()).collect(),
            _ => (0..partition.rows()).filter(inside).collect(),
        };
        rows.sort_by(|a, b| {
            let columns = types.iter().zip(&kind.spec.reversed).enumerate();
            columns.fold(Ordering::Equal, |order, (at, (ty, reversed))| {
                order.then_with(|| {
                    let order = ty.compare(partition.clustering(*a, at), partition.clustering(*b, at));
                    if *reversed { order.reverse() } else { order }
                })
            })
        });
        rows
    }

    async fn compare(&mut self, slice: &Slice) -> Result<Option<Touched>, client::Error> {
        let session = self.kinds[self.kind].spec.session.clone();
        let expected = self.expected(slice);
        let mut left = expected.iter();
        let mut paging_state: Option<Vec<u8>> = None;
        loop {
            let parameters = Parameters {
                values: self.bound[0].values(),
                page_size: Some(PAGE_ROWS),
                paging_state: paging_state.as_deref(),
                skip_metadata: session.prepared,
                ..Parameters::at(session.level)
            };
            let answer = session.send(&slice.statement, parameters).await?;
            let Response::Rows(page) = answer.response()? else {
                return Err(client::Error::Unexpected("a SELECT"));
            };
            for row in page.iter() {
                let Some(expected) = left.next() else { return Ok(None) };
                let shown = slice.shown.iter().copied().zip(row);
                if !self.kinds[self.kind].table.is_row(&self.partitions[0], *expected, shown) {
                    return Ok(None);
                }
            }
            paging_state = page.metadata.paging_state.map(<[u8]>::to_vec);
            if paging_state.is_none() {
                let rows = expected.len() as u64;
                return Ok(left.next().is_none().then_some(Touched { partitions: rows.min(1), rows }));
            }
        }
    }

    // ---- scans -----------------------------------------------------------------------------------------------------

    async fn send_scan(&mut self, operation: &Operation) -> Result<Option<Touched>, client::Error> {
        let kind = &mut self.kinds[self.kind];
        let (Operation::Scan(asked, _), Some(position)) = (operation, &mut kind.position) else {
            return Err(client::Error::Unexpected("a scan that was not begun"));
        };
        let session = &kind.spec.session;
        let parameters = Parameters {
            page_size: Some(asked.page_rows),
            paging_state: position.paging_state.as_deref(),
            ..Parameters::at(session.level)
        };
        let page = session.pool.query(&position.text, parameters).await?.rows();
        let mut touched = Touched { partitions: 0, rows: page.rows.len() as u64 };
        for row in &page.rows {
            let token = row.first().cloned().flatten();
            // The rows of a partition follow each other.
            if token != position.last_token {
                touched.partitions += 1;
                position.last_token = token;
            }
        }
        position.paging_state = page.paging_state;
        if position.paging_state.is_none() || asked.is_warm_up {
            kind.position = None;
        }
        Ok(Some(touched))
    }

    // ---- all -------------------------------------------------------------------------------------------------------

    /// Sends what was begun. What came back or was written; `Ok(None)` when it is not what was written.
    pub async fn send(&mut self) -> Result<Option<Touched>, client::Error> {
        let operation = self.kinds[self.kind].operation.clone();
        match &*operation {
            Operation::Insert { bound, .. } => self.send_rows(bound).await,
            Operation::Query(bound, _) => self.send_query(bound).await,
            Operation::Scan(..) => self.send_scan(&operation).await,
            Operation::Validate(_) => match self.slice.take() {
                Some(slice) => {
                    let compared = self.compare(&slice).await;
                    self.slice = Some(slice);
                    compared
                }
                None => Err(client::Error::Unexpected("a comparison that was not begun")),
            },
        }
    }

    /// What was sent has ended, well or not.
    pub fn end(&mut self, seeds: &Seeds) {
        if let Operation::Insert { visits, .. } = &*self.kinds[self.kind].operation {
            self.visits.drain(..).for_each(|visit| visits.end(&visit, seeds));
        }
    }

    /// The statement of what was begun and its values, as failures print them; of a batch the first rows.
    pub fn statement_text(&self) -> String {
        let kind = &self.kinds[self.kind];
        let of = |statement: &client::Statement, rows: &[ValuesBuilder]| {
            let shown: Vec<String> = rows
                .iter()
                .take(SHOWN_ROWS_MAX)
                .map(|row| statement_text(statement.text(), row.values()))
                .collect();
            match rows.len().saturating_sub(SHOWN_ROWS_MAX) {
                0 => shown.join("\n"),
                more => format!("{}\n… {more} more rows of the batch", shown.join("\n")),
            }
        };
        match &*kind.operation {
            Operation::Insert { bound, .. } => of(&bound.statement, &self.bound[..self.bound_count]),
            Operation::Query(bound, _) => of(&bound.statement, self.bound.get(..1).unwrap_or_default()),
            Operation::Validate(_) => self.slice.as_ref().map_or_else(String::new, |slice| {
                of(&slice.statement, self.bound.get(..1).unwrap_or_default())
            }),
            Operation::Scan(..) => kind.position.as_ref().map_or_else(String::new, |position| {
                statement_text(&position.text, ValuesBuilder::new().values())
            }),
        }
    }

    /// The keys of what was begun, as failures name them.
    pub fn key_text(&self) -> String {
        let kind = &self.kinds[self.kind];
        if let Operation::Scan(..) = &*kind.operation {
            let bound = |token: Option<base::Token>| {
                token.map_or_else(|| "-".to_owned(), |token| token.0.to_string())
            };
            return kind.position.as_ref().map_or_else(
                || "-".to_owned(),
                |position| format!("[{}, {}]", bound(position.range.0), bound(position.range.1)),
            );
        }
        let count = self.rows.last().map_or(1, |(partition, ..)| *partition as usize + 1);
        let keys = self.partitions.iter().take(count).map(|partition| {
            let parts =
                partition.key().iter().zip(&kind.table.key).map(|(value, column)| shown(column.ty(), value));
            parts.collect::<Vec<_>>().join("|")
        });
        keys.collect::<Vec<_>>().join(", ")
    }
}

/// A value of a key as failures name it.
fn shown(ty: &CqlType, value: &[u8]) -> String {
    match Value::decode(ty, value) {
        Ok(Value::Text(text)) => text,
        Ok(value) => value.to_cql(),
        Err(_) => types::text::format_hex(value),
    }
}

/// What all requests of a statement have in common.
fn parameters<'p>(session: &Session, bound: &Bound) -> Parameters<'p> {
    Parameters {
        skip_metadata: session.prepared,
        timestamp: Some(session.timestamp()),
        serial_consistency: Some(bound.levels.serial.unwrap_or(session.serial_level)),
        ..Parameters::at(bound.levels.level.unwrap_or(session.level))
    }
}

/// The order of a tuple of clustering values and another.
fn order<'v>(types: &[&CqlType], a: impl Iterator<Item = &'v [u8]>, b: &[Vec<u8>]) -> Ordering {
    let columns = types.iter().zip(a.zip(b));
    columns.fold(Ordering::Equal, |order, (ty, (a, b))| order.then_with(|| ty.compare(a, b)))
}
