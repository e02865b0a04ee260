//! The dispatch of a client's I/Os: an engine with tokens, or a window alone. Pure.

use core::mem;
use std::collections::VecDeque;

use pmem::engine::{BEST_EFFORT_WINDOW, Engine, Settings, SettingsError, Step};
use pmem::one_sided::{Completion, Ticket};
use pmem::period::Period;
use pmem::token::Tokens;
use units::Nanos;

use crate::message::Message;

/// How I/Os are let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each I/O spends a token, as the guarantees of all clients want it.
    Tokens {
        /// The most I/Os under way at once.
        window: u16,
        /// The most I/Os under way at once when the next one takes a global token: see
        /// [`Settings::best_effort_window`].
        best_effort_window: u16,
    },
    /// Without tokens: this measures the capacities C_G and C_L of a data node and a client. No
    /// client has a reservation meanwhile.
    Bare {
        /// The most I/Os under way at once.
        window: u16,
    },
}

impl Pace {
    /// Creates the pace of a client with this many I/Os outstanding at once. Its I/Os beyond its
    /// reservation yield to the reserved I/Os of others: their window is [`BEST_EFFORT_WINDOW`].
    #[must_use]
    pub const fn tokens(window: u16) -> Self {
        Self::Tokens { window, best_effort_window: BEST_EFFORT_WINDOW }
    }

    /// Returns the most I/Os under way at once.
    #[must_use]
    pub const fn window(self) -> u16 {
        match self {
            Self::Tokens { window, .. } | Self::Bare { window } => window,
        }
    }
}

/// A period that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodEnd {
    /// Number of the period.
    pub period: Period,
    /// The client's reservation R_i in it, in tokens.
    pub reservation: Tokens,
    /// N_i: the I/Os that completed in it.
    pub completed: Tokens,
}

/// The two ways in which I/Os are let go.
#[derive(Debug)]
enum Kind {
    Engine(Box<Engine>),
    Bare { window: u32, waiting: u64, under_way: u32 },
}

/// The dispatcher of a client's I/Os, with the ended periods.
///
/// Events are reported to it, and it returns the next [`Step`], like an [`Engine`].
#[derive(Debug)]
pub struct Gate {
    kind: Kind,
    /// The reservation of the present period.
    reservation: Tokens,
    ended: VecDeque<PeriodEnd>,
}

/// The most ended periods that are kept for the caller.
const MOST_ENDED: usize = 64;

impl Gate {
    /// Creates the gate of a client that has just connected. `settings` are granted by the data
    /// node; the windows come from `pace`.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] where a setting is out of its range.
    pub fn new(pace: Pace, settings: Settings) -> Result<Self, SettingsError> {
        let kind = match pace {
            Pace::Tokens { window, best_effort_window } => {
                let (window, best_effort_window) = (window.into(), best_effort_window.into());
                let engine = Engine::new(Settings { window, best_effort_window, ..settings })?;
                Kind::Engine(Box::new(engine))
            }
            Pace::Bare { window: 0 } => return Err(SettingsError::NoWindow),
            Pace::Bare { window } => Kind::Bare { window: window.into(), waiting: 0, under_way: 0 },
        };
        Ok(Self { kind, reservation: Tokens::ZERO, ended: VecDeque::new() })
    }

    /// Returns the engine, where there is one.
    #[must_use]
    pub const fn engine(&self) -> Option<&Engine> {
        match &self.kind {
            Kind::Engine(engine) => Some(engine),
            Kind::Bare { .. } => None,
        }
    }

    /// Adds `count` requests of the client.
    pub fn want(&mut self, count: u64) {
        match &mut self.kind {
            Kind::Engine(engine) => engine.request(count),
            Kind::Bare { waiting, .. } => *waiting = waiting.saturating_add(count),
        }
    }

    /// Withdraws all waiting requests.
    pub fn want_no_more(&mut self) {
        match &mut self.kind {
            Kind::Engine(engine) => _ = engine.withdraw(u64::MAX),
            Kind::Bare { waiting, .. } => *waiting = 0,
        }
    }

    /// Returns the number of requests that wait.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        match &self.kind {
            Kind::Engine(engine) => engine.waiting(),
            Kind::Bare { waiting, .. } => *waiting,
        }
    }

    /// Returns the next step: as [`Engine::next`].
    pub fn next(&mut self, now: Nanos) -> Option<Step> {
        match &mut self.kind {
            Kind::Engine(engine) => engine.next(now),
            Kind::Bare { window, waiting, under_way } => {
                (*waiting > 0 && under_way < window).then(|| {
                    *waiting = waiting.saturating_sub(1);
                    *under_way = under_way.saturating_add(1);
                    Step::Io
                })
            }
        }
    }

    /// Returns the time at which [`Self::next`] should be called again even if nothing happens.
    #[must_use]
    pub fn next_tick(&self) -> Nanos {
        self.engine().map_or(Nanos::MAX, Engine::next_tick)
    }

    /// Handles the completion of an I/O.
    pub fn io_completed(&mut self) {
        match &mut self.kind {
            Kind::Engine(engine) => engine.io_completed(),
            Kind::Bare { under_way, .. } => *under_way = under_way.saturating_sub(1),
        }
    }

    /// Handles the completion of an operation on a word.
    pub fn completed(&mut self, now: Nanos, completion: Completion) {
        self.tell(|engine| _ = engine.completed(now, completion));
    }

    /// Notes that an operation on a word could not be posted.
    pub fn not_posted(&mut self, now: Nanos, ticket: Ticket) {
        self.tell(|engine| engine.not_posted(now, ticket));
    }

    /// Handles a message of the data node.
    pub fn message(&mut self, now: Nanos, message: Message) {
        self.tell(|engine| match message {
            Message::Push(push) => engine.push(now, push),
            Message::Ask(ask) => engine.ask(ask),
            // It concerns no tokens.
            Message::Synced { .. } => {}
        });
    }

    /// Returns the first period that is over and was not returned yet. Only the last 64 are kept.
    pub fn period_ended(&mut self) -> Option<PeriodEnd> {
        self.ended.pop_front()
    }

    /// Calls the engine, and checks whether a period begins with it.
    fn tell(&mut self, what: impl FnOnce(&mut Engine)) {
        let Kind::Engine(engine) = &mut self.kind else { return };
        let (before, completed, pushed) =
            (engine.period(), engine.completed_ios(), engine.ledger().pushed);
        what(engine);
        if engine.period() == before {
            return;
        }
        let begins = engine.ledger().pushed - pushed;
        let reservation = mem::replace(&mut self.reservation, begins);
        if let Some(period) = before {
            if self.ended.len() >= MOST_ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back(PeriodEnd { period, reservation, completed });
        }
    }
}

#[cfg(test)]
mod tests {
    use pmem::engine::Words;
    use pmem::message::Push;
    use pmem::one_sided::Address;
    use pmem::word::{GrantWord, PoolWord};

    use super::*;

    fn settings() -> Settings {
        Settings::new(Words { pool: Address(0), grant: Address(8), report: Address(16) })
    }

    fn push(period: u16, reservation: u64) -> Message {
        Message::Push(Push { period: Period(period), reservation: Tokens(reservation) })
    }

    fn gate(window: u16) -> Gate {
        let pace = Pace::Tokens { window, best_effort_window: window };
        Gate::new(pace, settings()).unwrap()
    }

    /// Releases all permitted I/Os, and completes them. Returns their number.
    fn run(gate: &mut Gate, now: Nanos) -> u64 {
        let mut ios = 0;
        while let Some(step) = gate.next(now) {
            if step == Step::Io {
                ios += 1;
                gate.io_completed();
            }
        }
        ios
    }

    #[test]
    fn h5_best_effort_default_is_one_outstanding_io() {
        let mut gate = Gate::new(Pace::tokens(4), settings()).unwrap();
        gate.want(20);
        gate.message(Nanos(0), push(7, 6));
        let reserved = core::iter::from_fn(|| gate.next(Nanos(1)));
        assert_eq!(reserved.take_while(|step| *step == Step::Io).count(), 4, "its window");
        (0..4).for_each(|_| gate.io_completed());
        assert_eq!([(); 2].map(|()| gate.next(Nanos(1))), [Some(Step::Io); 2], "the last reserved");
        (0..2).for_each(|_| gate.io_completed());
        let Some(Step::Post(ticket, _)) = gate.next(Nanos(1)) else { panic!("a fetch is next") };
        let pool = PoolWord::new(Period(7), Tokens(5000)).pack();
        gate.completed(Nanos(1), Completion { ticket, result: Ok(pool) });
        assert_eq!([(); 2].map(|()| gate.next(Nanos(1))), [Some(Step::Io), None]);
    }

    #[test]
    fn ended_period_keeps_own_reservation_and_ios() {
        let mut gate = gate(4);
        gate.want(u64::MAX);
        assert_eq!(run(&mut gate, Nanos(0)), 0, "there are no tokens yet");
        gate.message(Nanos(0), push(7, 30));
        assert_eq!(gate.period_ended(), None, "nothing was before the first one");
        assert_eq!(run(&mut gate, Nanos(1)), 30);
        gate.message(Nanos(1_000_000_000), push(8, 20));
        assert_eq!(run(&mut gate, Nanos(1_000_000_001)), 20);
        gate.message(Nanos(1_000_000_002), push(8, 20));
        gate.message(Nanos(2_000_000_000), push(9, 0));
        let end = |period, reservation, completed| PeriodEnd {
            period: Period(period),
            reservation: Tokens(reservation),
            completed: Tokens(completed),
        };
        assert_eq!(gate.period_ended(), Some(end(7, 30, 30)));
        assert_eq!(gate.period_ended(), Some(end(8, 20, 20)));
        assert_eq!(gate.period_ended(), None);
    }

    #[test]
    fn grant_of_later_period_ends_previous_one() {
        let mut gate = gate(4);
        gate.message(Nanos(0), push(7, 30));
        // Nothing was pushed for the next period: the engine reads its grant.
        let now = Nanos(1_100_000_000);
        let read = |gate: &mut Gate| match gate.next(now) {
            Some(Step::Post(ticket, _)) => ticket,
            other => panic!("{other:?}"),
        };
        let ticket = read(&mut gate);
        let grant = GrantWord { period: Period(8), reservation: Tokens(25) };
        gate.completed(now, Completion { ticket, result: Ok(grant.pack()) });
        assert_eq!(gate.period_ended().map(|end| end.period), Some(Period(7)));
        gate.message(Nanos(2_000_000_000), push(9, 1));
        assert_eq!(gate.period_ended().map(|end| end.reservation), Some(Tokens(25)));
    }

    #[test]
    fn without_tokens_the_window_is_the_only_bound() {
        assert_eq!(
            Gate::new(Pace::Bare { window: 0 }, settings()).unwrap_err(),
            SettingsError::NoWindow
        );
        let mut gate = Gate::new(Pace::Bare { window: 3 }, settings()).unwrap();
        assert_eq!(
            (gate.next(Nanos(0)), gate.next_tick()),
            (None, Nanos::MAX),
            "nothing is wanted"
        );
        gate.want(5);
        let step = |gate: &mut Gate| gate.next(Nanos(0));
        assert_eq!(
            [(); 4].map(|()| step(&mut gate)),
            [Some(Step::Io), Some(Step::Io), Some(Step::Io), None]
        );
        gate.io_completed();
        assert_eq!((step(&mut gate), step(&mut gate), gate.waiting()), (Some(Step::Io), None, 1));
        gate.want_no_more();
        gate.io_completed();
        assert_eq!(step(&mut gate), None);
        gate.message(Nanos(0), push(1, 9));
        assert_eq!(gate.period_ended(), None);
    }

    #[test]
    fn the_oldest_periods_go_where_nobody_asks_for_them() {
        let mut gate = gate(1);
        for period in 0..100 {
            gate.message(Nanos(u64::from(period) * 1_000_000_000), push(period, 1));
        }
        let ended: Vec<u16> =
            core::iter::from_fn(|| gate.period_ended()).map(|end| end.period.0).collect();
        assert_eq!(ended, (35..99).collect::<Vec<u16>>());
    }
}
