//! A simulated client: an engine with a clock and requests, or only requests.

use units::Nanos;

use super::setup::ClientSetup;
use crate::engine::{Engine, Step};
use crate::in_process::PortId;
use crate::message::{Ask, Push};
use crate::one_sided::Completion;

/// A client's clock, which is wrong by some parts per million.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(i32);

impl Clock {
    /// Returns the clock's reading at a time.
    pub(super) fn shows(self, now: Nanos) -> Nanos {
        let shown = i128::from(now.0) * i128::from(1_000_000 + i64::from(self.0)) / 1_000_000;
        Nanos(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// Returns a time at which the clock shows `shown` or a little more.
    fn time(self, shown: Nanos) -> Nanos {
        let rate = i128::from(1_000_000 + i64::from(self.0)).max(1);
        let time = (i128::from(shown.0) * 1_000_000).div_euclid(rate) + 1;
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// The sender of a client.
#[derive(Debug)]
enum Sender {
    Engine(Box<Engine>),
    Bare { waiting: u64, outstanding: u32 },
}

/// A client in the simulation.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) setup: ClientSetup,
    pub(super) port: PortId,
    pub(super) clock: Clock,
    sender: Sender,
    /// Time of the tick that is set; others that come are of no use.
    pub(super) tick: Nanos,
    /// Number of the period whose requests are made now.
    pub(super) period: u32,
    /// The requests still to be made in the period, one by one.
    pub(super) to_come: u64,
    pub(super) stopped: bool,
    pub(super) gone: bool,
    /// I/Os completed in the period.
    pub(super) completed: u64,
}

impl Client {
    pub(super) fn new(setup: ClientSetup, port: PortId, engine: Option<Engine>) -> Self {
        let bare = Sender::Bare { waiting: 0, outstanding: 0 };
        Self {
            clock: Clock(setup.skew),
            sender: engine.map_or(bare, |engine| Sender::Engine(Box::new(engine))),
            setup,
            port,
            tick: Nanos::MAX,
            period: 0,
            to_come: 0,
            stopped: false,
            gone: false,
            completed: 0,
        }
    }

    /// Returns the engine, if the client has one.
    pub(super) fn engine(&self) -> Option<&Engine> {
        match &self.sender {
            Sender::Engine(engine) => Some(engine),
            Sender::Bare { .. } => None,
        }
    }

    fn engine_mut(&mut self) -> Option<&mut Engine> {
        match &mut self.sender {
            Sender::Engine(engine) => Some(engine),
            Sender::Bare { .. } => None,
        }
    }

    pub(super) fn request(&mut self, count: u64) {
        match &mut self.sender {
            Sender::Engine(engine) => engine.request(count),
            Sender::Bare { waiting, .. } => *waiting = waiting.saturating_add(count),
        }
    }

    /// Withdraws all waiting requests.
    pub(super) fn withdraw(&mut self) {
        match &mut self.sender {
            Sender::Engine(engine) => {
                engine.withdraw(u64::MAX);
            }
            Sender::Bare { waiting, .. } => *waiting = 0,
        }
    }

    pub(super) fn push(&mut self, now: Nanos, push: Push) {
        let now = self.clock.shows(now);
        if let Some(engine) = self.engine_mut() {
            engine.push(now, push);
        }
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        if let Some(engine) = self.engine_mut() {
            engine.ask(ask);
        }
    }

    /// Returns the client's next step.
    pub(super) fn next(&mut self, now: Nanos) -> Option<Step> {
        let now = self.clock.shows(now);
        let window = self.setup.window;
        match &mut self.sender {
            Sender::Engine(engine) => engine.next(now),
            Sender::Bare { waiting, outstanding } => {
                (*waiting > 0 && *outstanding < window).then(|| {
                    (*waiting, *outstanding) = (*waiting - 1, *outstanding + 1);
                    Step::Io
                })
            }
        }
    }

    /// Returns the time of the engine's next tick; [`Nanos::MAX`] without an engine.
    pub(super) fn next_tick(&self) -> Nanos {
        self.engine().map_or(Nanos::MAX, |engine| self.clock.time(engine.next_tick()))
    }

    pub(super) fn io_completed(&mut self) {
        self.completed += 1;
        match &mut self.sender {
            Sender::Engine(engine) => engine.io_completed(),
            Sender::Bare { outstanding, .. } => *outstanding = outstanding.saturating_sub(1),
        }
    }

    pub(super) fn word_completed(&mut self, now: Nanos, completion: Completion) {
        let now = self.clock.shows(now);
        if let Some(engine) = self.engine_mut() {
            engine.completed(now, completion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_reaches_shown_time() {
        for skew in [-900_000, -200, 0, 1, 200, 5000] {
            let clock = Clock(skew);
            for shown in [0, 1, 999, 1_000_000, 123_456_789_012] {
                let time = clock.time(Nanos(shown));
                let shows = clock.shows(time);
                assert!(shows >= Nanos(shown) && shows.0 <= shown + 2, "{skew} {shown} {shows:?}");
            }
        }
        assert_eq!(Clock(200).shows(Nanos(1_000_000)), Nanos(1_000_200));
    }
}
