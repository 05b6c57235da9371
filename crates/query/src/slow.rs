//! Slow requests: what took longer than the operator allows is told in the log, requests of one statement together.
//!
//! ```text
//! query - 4 operations were slow in the last 5000 ms:
//! <SELECT * FROM shop.visits WHERE who = ?>, was slow 3 times: avg/min/max 812/640/1033 ms - slow timeout 500 ms
//! <SELECT * FROM shop.pages>, time 3201 ms - slow timeout 500 ms
//! ```
//! Owned by one shard. The lines are those of Cassandra's monitoring of slow reads; here writes and batches are watched,
//! too. A request that ends in the step in which it arrived is far below any useful limit, so the clock is only read for
//! it when the limit is.

use crate::limits::{SLOW_INTERVAL, SLOW_LINE_BYTES, SLOW_STATEMENTS_MAX, SLOW_STEP};
use base::Instant;
use core::time::Duration;
use runtime::Group;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

/// The slow requests of one shard since the last report.
pub struct SlowRequests {
    /// Zero watches nothing.
    limit: Duration,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    statements: Vec<Slow>,
    /// Requests of statements for which there was no room.
    left_out: u64,
    since: Option<Instant>,
}

/// The slow requests of one statement.
struct Slow {
    keyspace: Option<String>,
    text: String,
    count: u64,
    total: Duration,
    least: Duration,
    most: Duration,
}

impl SlowRequests {
    /// Watches for requests that take longer than `limit`; zero watches nothing.
    pub fn new(limit: Duration) -> Rc<SlowRequests> {
        Rc::new(SlowRequests { limit, seen: RefCell::default() })
    }

    /// The time at which a request begins, if requests are watched.
    pub fn begin(&self) -> Option<Instant> {
        (self.limit != Duration::ZERO).then(runtime::now)
    }

    /// As [`SlowRequests::begin`] for a request that may end within its step.
    #[inline]
    pub fn begin_step(&self) -> Option<Instant> {
        if self.limit < SLOW_STEP { self.begin() } else { None }
    }

    /// A request is over. Only of a slow one the text is asked for: its keyspace, if the connection has one, and its
    /// statement.
    #[inline]
    pub fn end(self: &Rc<Self>, begun: Option<Instant>, text: impl FnOnce() -> (Option<String>, String)) {
        let Some(begun) = begun else { return };
        let took = runtime::now().since(begun);
        if self.limit < took {
            let (keyspace, text) = text();
            self.note(keyspace, text, took);
        }
    }

    fn note(self: &Rc<Self>, keyspace: Option<String>, mut text: String, took: Duration) {
        shorten(&mut text);
        let mut seen = self.seen.borrow_mut();
        let is_room = seen.statements.len() < SLOW_STATEMENTS_MAX;
        let known = seen.statements.iter_mut().find(|slow| slow.text == text && slow.keyspace == keyspace);
        match known {
            Some(slow) => {
                slow.count += 1;
                slow.total += took;
                slow.least = slow.least.min(took);
                slow.most = slow.most.max(took);
            }
            None if is_room => {
                seen.statements.push(Slow { keyspace, text, count: 1, total: took, least: took, most: took });
            }
            None => seen.left_out += 1,
        }
        if seen.since.is_none() {
            seen.since = Some(runtime::now());
            drop(seen);
            let slow = self.clone();
            drop(runtime::spawn(Group::MAIN, async move {
                // A stop ends the interval: its lines are still told.
                let _ended = runtime::timeout(SLOW_INTERVAL, runtime::shutdown_requested()).await;
                slow.report();
            }));
        }
    }

    fn report(&self) {
        let seen = self.seen.take();
        let Some(since) = seen.since else { return };
        let interval = runtime::now().since(since).as_millis();
        for line in seen.told(interval, self.limit).lines() {
            runtime::info!("{line}");
        }
    }
}

impl Seen {
    fn told(&self, interval_ms: u128, limit: Duration) -> String {
        let limit = limit.as_millis();
        let count: u64 = self.statements.iter().map(|slow| slow.count).sum::<u64>() + self.left_out;
        let mut told = format!("{count} operations were slow in the last {interval_ms} ms:");
        // Writing to a string cannot fail.
        for slow in &self.statements {
            let _ = write!(told, "\n<{}>", slow.text);
            if let Some(keyspace) = &slow.keyspace {
                let _ = write!(told, " in {keyspace}");
            }
            let _ = match slow.count {
                1 => write!(told, ", time {} ms", slow.most.as_millis()),
                count => write!(
                    told,
                    ", was slow {count} times: avg/min/max {}/{}/{} ms",
                    slow.total.as_millis() / u128::from(count),
                    slow.least.as_millis(),
                    slow.most.as_millis()
                ),
            };
            let _ = write!(told, " - slow timeout {limit} ms");
        }
        if self.left_out > 0 {
            let _ = write!(told, "\n... ({} were dropped)", self.left_out);
        }
        told
    }
}

/// Makes a statement one line, and cuts it to what a line holds and before what nobody may read.
fn shorten(text: &mut String) {
    if text.contains(char::is_control) {
        *text = text.replace(char::is_control, " ");
    }
    const SECRET: &str = "password";
    if let Some(at) = text.to_ascii_lowercase().find(SECRET) {
        text.truncate(at + SECRET.len());
        text.push_str(" *******");
    }
    text.truncate(text.floor_char_boundary(SLOW_LINE_BYTES));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_statement_is_one_line() {
        let slow = |count, text: &str| Slow {
            keyspace: (count == 1).then(|| "shop".into()),
            text: text.into(),
            count,
            total: Duration::from_millis(800 * count),
            least: Duration::from_millis(640),
            most: Duration::from_millis(1033),
        };
        let seen =
            Seen { statements: vec![slow(3, "SELECT a"), slow(1, "SELECT b")], left_out: 2, since: None };
        assert_eq!(
            seen.told(5000, Duration::from_millis(500)),
            "6 operations were slow in the last 5000 ms:\n\
             <SELECT a>, was slow 3 times: avg/min/max 800/640/1033 ms - slow timeout 500 ms\n\
             <SELECT b> in shop, time 1033 ms - slow timeout 500 ms\n\
             ... (2 were dropped)"
        );
    }

    #[test]
    fn passwords_are_not_told() {
        let mut text = "CREATE ROLE ann WITH Password = 'secret' AND LOGIN = true".to_string();
        shorten(&mut text);
        assert_eq!(text, "CREATE ROLE ann WITH Password *******");
        let mut text = "SELECT 1\r\nERROR forged".to_string();
        shorten(&mut text);
        assert_eq!(text, "SELECT 1  ERROR forged");
    }

    #[test]
    fn slow_requests_are_counted_and_told_once_per_interval() {
        let mut world = runtime::sim::World::new(1, runtime::sim::SimConfig::calm());
        let node = world.add_node([10, 0, 0, 1].into());
        let main: runtime::Main = std::sync::Arc::new(|| {
            Box::pin(async {
                let slow = SlowRequests::new(Duration::from_millis(500));
                let text = |index: usize| move || (None, format!("SELECT {index}"));
                let begun = slow.begin();
                runtime::sleep(Duration::from_millis(400)).await;
                slow.end(begun, || panic!("nothing was slow"));
                runtime::sleep(Duration::from_millis(200)).await;
                for index in 0..SLOW_STATEMENTS_MAX + 3 {
                    slow.end(begun, text(index));
                    slow.end(begun, text(0));
                }
                runtime::sleep(SLOW_INTERVAL * 2).await;
                assert!(slow.begin_step().is_none());
                let watchful = SlowRequests::new(Duration::from_millis(1));
                assert!(watchful.begin_step().is_some());
                assert!(SlowRequests::new(Duration::ZERO).begin().is_none());
                0
            })
        });
        world.boot(node, 1, main);
        assert!(world.run_until(|world| !world.alive(node), Duration::from_secs(60)));
        let lines = world.log_lines();
        let told: Vec<&String> =
            lines.iter().map(|line| &line.1).filter(|line| line.contains("query - ")).collect();
        assert_eq!(told.len(), 2 + SLOW_STATEMENTS_MAX, "{lines:?}");
        let count = 2 * (SLOW_STATEMENTS_MAX + 3);
        let begun = format!("query - {count} operations were slow in the last 5000 ms:\n");
        assert!(told[0].ends_with(&begun), "{}", told[0]);
        assert!(told[1].contains("query - <SELECT 0>, was slow"), "{}", told[1]);
        assert!(told[told.len() - 1].ends_with("... (3 were dropped)\n"));
    }
}
