//! Whether a peer answers its pings: a value that is given each event with its time.

use crate::limits::{OWN_PAUSE_MIN, PING_PAUSE, PINGS_REMEMBERED, SILENCE_MAX};
use base::Instant;
use std::collections::VecDeque;

/// The pings of one control connection that were not answered.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    unanswered: VecDeque<(u64, Instant)>,
    next: u64,
    last_tick: Option<Instant>,
    /// Since when hellos alone speak for the peer, on however many connections: no ping was answered since.
    greeted: Option<Instant>,
}

/// What a tick asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tick {
    /// Send a ping of this number.
    Ping(u64),
    /// The peer is silent.
    Silent,
}

impl Watch {
    /// A turn, about every [`PING_PAUSE`]; `proved` is when the peer did something else that only a living one does.
    pub(crate) fn tick(&mut self, now: Instant, proved: Instant) -> Tick {
        let late = self.last_tick.is_some_and(|last| PING_PAUSE + OWN_PAUSE_MIN < now - last);
        self.last_tick = Some(now);
        if late {
            // This process was stopped: answers may lie in the socket.
            self.unanswered.iter_mut().for_each(|(_, at)| *at = now);
            self.greeted = self.greeted.map(|_| now);
        }
        if self.oldest().is_some_and(|at| SILENCE_MAX < now - at && SILENCE_MAX < now - proved) {
            return Tick::Silent;
        }
        self.next += 1;
        if self.unanswered.len() == PINGS_REMEMBERED {
            // Proved alive all the while: the oldest keeps its time.
            self.unanswered.remove(1);
        }
        self.unanswered.push_back((self.next, now));
        Tick::Ping(self.next)
    }

    /// Another connection: what was sent on the last one will not be answered. `was_up`: its hello follows others that counted as life. One that says
    /// hello again and again and answers nothing gets no more time by it.
    pub(crate) fn restart(&mut self, now: Instant, was_up: bool) {
        self.unanswered.clear();
        self.last_tick = None;
        self.greeted = self.greeted.filter(|_| was_up).or(Some(now));
    }

    /// Since when there is no answer: when the oldest ping without one was sent, or the first hello came that no answer followed.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let pinged = self.unanswered.front().map(|(_, at)| *at);
        [pinged, self.greeted].into_iter().flatten().min()
    }

    /// When the oldest ping without an answer will have waited too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.oldest().map(|at| at + SILENCE_MAX)
    }

    /// A ping was answered, and with it those before: a connection keeps its order. When it was sent, if that is known.
    pub(crate) fn pong(&mut self, number: u64) -> Option<Instant> {
        let mut sent = None;
        if self.unanswered.front().is_some_and(|(first, _)| *first <= number) {
            self.greeted = None;
        }
        while let Some((first, at)) = self.unanswered.front().copied().filter(|(first, _)| *first <= number) {
            sent = Some(at).filter(|_| first == number);
            self.unanswered.pop_front();
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    //! Pauses of either side, lost pongs and large transfers.
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Instant {
        Instant(1_000_000_000_000) + Duration::from_millis(millis)
    }

    const NEVER: Instant = Instant(0);

    #[test]
    fn a_pause_of_two_seconds_is_no_silence_and_a_longer_one_is() {
        let mut watch = Watch::default();
        for turn in 0..10 {
            let Tick::Ping(number) = watch.tick(at(500 * turn), NEVER) else { panic!("silent at {turn}") };
            watch.pong(number);
        }
        // It stops right before the ping at 5000, and would answer at 7000.
        for turn in 10..=14 {
            assert_eq!(watch.tick(at(500 * turn), NEVER), Tick::Ping(turn + 1));
        }
        assert_eq!(watch.deadline(), Some(at(7500)));
        watch.pong(15);
        assert_eq!((watch.deadline(), watch.tick(at(7500), NEVER)), (None, Tick::Ping(16)));
        for turn in 16..=20 {
            assert!(matches!(watch.tick(at(500 * turn), NEVER), Tick::Ping(_)), "{turn}");
        }
        assert_eq!(watch.tick(at(10_001), NEVER), Tick::Silent);
    }

    #[test]
    fn our_own_pause_is_not_their_silence() {
        let mut watch = Watch::default();
        assert_eq!(watch.tick(at(0), NEVER), Tick::Ping(1));
        assert_eq!(watch.tick(at(30_000), NEVER), Tick::Ping(2), "answers were not read yet");
        for turn in 1..=5 {
            assert!(matches!(watch.tick(at(30_000 + 500 * turn), NEVER), Tick::Ping(_)));
        }
        assert_eq!(watch.tick(at(32_501), NEVER), Tick::Silent, "but now they were");
    }

    #[test]
    fn a_large_transfer_that_goes_on_is_a_sign_of_life() {
        let mut watch = Watch::default();
        for turn in 0..100 {
            let proved = at((500u64 * turn).saturating_sub(2000));
            assert!(matches!(watch.tick(at(500 * turn), proved), Tick::Ping(_)), "{turn}");
        }
        assert!(watch.unanswered.len() <= PINGS_REMEMBERED);
        assert_eq!(watch.tick(at(50_000), at(47_000)), Tick::Silent);
    }

    #[test]
    fn hellos_alone_are_life_for_no_longer_than_one_silence() {
        let mut watch = Watch::default();
        watch.restart(at(0), false);
        assert_eq!(watch.tick(at(0), NEVER), Tick::Ping(1));
        // Its connection breaks and it says hello anew, again and again.
        for turn in 1..=2 {
            watch.restart(at(1000 * turn), true);
            assert!(matches!(watch.tick(at(1000 * turn), NEVER), Tick::Ping(_)), "{turn}");
        }
        assert_eq!(watch.deadline(), Some(at(2500)));
        assert_eq!(watch.tick(at(2501), NEVER), Tick::Silent);
        // One that was down meanwhile begins anew, and one that answers has all its time.
        watch.restart(at(9000), false);
        assert_eq!(watch.tick(at(9000), NEVER), Tick::Ping(4));
        watch.pong(4);
        assert_eq!(watch.deadline(), None);
        watch.restart(at(20_000), true);
        assert_eq!(watch.deadline(), Some(at(22_500)));
        // Our own pause is not its silence.
        watch.tick(at(20_000), NEVER);
        assert_eq!(watch.tick(at(50_000), NEVER), Tick::Ping(6));
    }

    #[test]
    fn old_pongs_change_nothing() {
        let mut watch = Watch::default();
        watch.tick(at(0), NEVER);
        watch.pong(0);
        assert_eq!(watch.deadline(), Some(at(2500)));
        watch.pong(1);
        assert_eq!(watch.deadline(), None);
    }
}
