//! The engine of a client: no I/O without a token (docs/research/sources.md, H1; Fig. 3 and 4 of the paper).
//!
//! The client passes its requests to the engine ([`Engine::request`]) and repeatedly asks it for
//! the next [`Step`]: an operation on a word of the data node, which the client posts by its
//! [`OneSided`](crate::one_sided::OneSided), or one I/O that may be dispatched. It reports
//! completions, the monitor's messages, and the time to the engine. No call waits, and there may be
//! any time between a step and its completion.
//!
//! - Reservation tokens come with the [`Push`] at the start of a period. Those for which no request
//!   is there decay with X.
//! - When they are spent, global tokens are fetched from the pool, a batch at a time, and no batch
//!   while tokens are left. From an empty pool the engine tries again after an interval, when the
//!   monitor may have converted tokens.
//! - Once the monitor has asked, a report is written in each interval.
//!
//! # Messages that are lost, late or repeated
//!
//! A push that is not of a later period than the present one changes nothing. Tokens of another
//! period than the engine's, which its fetch may bring at a period's edge, are not used. Tokens end
//! with their period by the client's own clock, two intervals after it at the latest: without a push
//! the engine reads its grant in each interval, and so finds a period whose push was lost. It then
//! puts the start where its own clock expects it, so that X is right although it comes late. A push
//! that comes late by d delays X by d until the next one; the client gets no more than R_i tokens
//! for it.
//!
//! A client's clock may be wrong by two intervals in a period (2000 ppm with the paper's values)
//! before reserved tokens end too early.

mod flight;
mod ledger;
mod reservation;
mod settings;
#[cfg(test)]
mod tests;

use core::time::Duration;

use units::{Nanos, nanos};

pub use ledger::Ledger;
pub use settings::{BEST_EFFORT_WINDOW, Settings, SettingsError, Words};

use crate::message::{Ask, Push};
use crate::one_sided::{Completion, Operation, Ticket};
use crate::period::Period;
use crate::token::Tokens;
use crate::word::{GrantWord, PoolWord, ReportWord};
use flight::{Flights, Purpose};
use reservation::Reservation;

/// Intervals after a period's end, by the client's clock, for which its tokens stay good: the push
/// may be on its way.
const GRACE: u32 = 2;

/// The next action of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Post an operation on a word, and tell [`Engine::completed`] how it ended.
    Post(Ticket, Operation),
    /// Carry out one I/O, whose token is spent with this, and call [`Engine::io_completed`] after
    /// it.
    Io,
}

/// The period that the engine is in.
#[derive(Clone, Copy, Debug)]
struct Current {
    number: Period,
    /// Start of the period by the client's clock.
    start: Nanos,
    reservation: Reservation,
    /// Number of I/Os that were started in the period.
    issued: Tokens,
    /// N_i: number of I/Os that completed in the period.
    completed: Tokens,
}

/// The engine of one client of one data node.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    current: Option<Current>,
    /// Global tokens of the present period.
    global: Tokens,
    /// Number of requests that wait for their I/O.
    waiting: Tokens,
    /// Number of I/Os under way.
    outstanding: u32,
    /// The period for which the monitor wants reports.
    asked: Option<Period>,
    report_due: bool,
    grant_due: bool,
    flights: Flights,
    /// Number of tokens that the fetch under way asks for.
    fetching: Tokens,
    /// Earliest time of the next fetch, after the pool was found empty.
    fetch_after: Nanos,
    next_tick: Nanos,
    ledger: Ledger,
}

impl Engine {
    /// Makes the engine of a client that has just connected: it has no tokens yet.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] where a setting is out of its range.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            settings,
            current: None,
            global: Tokens::ZERO,
            waiting: Tokens::ZERO,
            outstanding: 0,
            asked: None,
            report_due: false,
            grant_due: false,
            flights: Flights::default(),
            fetching: Tokens::ZERO,
            fetch_after: Nanos::ZERO,
            next_tick: Nanos::ZERO,
            ledger: Ledger::default(),
        })
    }

    /// Adds `count` requests of the client.
    pub fn request(&mut self, count: u64) {
        self.waiting += Tokens(count);
    }

    /// Withdraws up to `count` waiting requests, and returns their number.
    pub fn withdraw(&mut self, count: u64) -> u64 {
        let withdrawn = self.waiting.min(Tokens(count));
        self.waiting -= withdrawn;
        withdrawn.0
    }

    /// Returns the number of requests that wait for their I/O.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.waiting.0
    }

    /// Returns the number of the present period; `None` before the first one.
    #[must_use]
    pub fn period(&self) -> Option<Period> {
        self.current.map(|current| current.number)
    }

    /// Returns N_i, the I/Os that completed in the present period.
    #[must_use]
    pub fn completed_ios(&self) -> Tokens {
        self.current.map_or(Tokens::ZERO, |current| current.completed)
    }

    /// Returns the reservation tokens that are left.
    #[must_use]
    pub fn residual(&self) -> Tokens {
        self.current.map_or(Tokens::ZERO, |current| current.reservation.left())
    }

    /// Returns the global tokens that are left.
    #[must_use]
    pub const fn global(&self) -> Tokens {
        self.global
    }

    /// Returns where the client's tokens came from and went to.
    #[must_use]
    pub const fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Handles the push at a period's start. A push for the present or an earlier period is
    /// ignored.
    pub fn push(&mut self, now: Nanos, push: Push) {
        if self.is_later(push.period) {
            self.begin(now, now, push.period, push.reservation);
        }
    }

    /// Handles the request for reports; a request for another period than the present counts only if that period
    /// begins.
    pub fn ask(&mut self, ask: Ask) {
        let news = self.current.is_none_or(|current| {
            ask.period == current.number || ask.period.after(current.number).is_some()
        });
        if news {
            self.asked = Some(ask.period);
            self.report_due |= self.is_asked();
        }
    }

    /// Returns the time at which [`Self::next`] should be called again even if nothing happens
    /// until then: X and the report change with time alone.
    #[must_use]
    pub const fn next_tick(&self) -> Nanos {
        self.next_tick
    }

    /// Returns the next step; `None` if there is none before a completion, a message of the
    /// monitor, a request of the client, or the time of [`Self::next_tick`].
    pub fn next(&mut self, now: Nanos) -> Option<Step> {
        self.tick(now);
        self.next_report().or_else(|| self.next_grant()).or_else(|| self.next_io(now))
    }

    /// Handles the completion of an operation. Returns false if no such operation was in flight.
    pub fn completed(&mut self, now: Nanos, completion: Completion) -> bool {
        let Some(purpose) = self.flights.end(completion.ticket) else { return false };
        match (purpose, completion.result) {
            (Purpose::Fetch, result) => {
                let word = result.ok().map(PoolWord::unpack);
                let of_now = word.filter(|word| Some(word.period) == self.period());
                let granted = of_now.map_or(Tokens::ZERO, |word| word.granted(self.fetching));
                self.global += granted;
                self.ledger.fetched += granted;
                if granted.is_zero() {
                    self.fetch_after = now + self.settings.interval;
                }
            }
            (Purpose::Grant, Ok(word)) => self.take_grant(now, GrantWord::unpack(word)),
            // Failed writes and reads are due again in the next interval.
            (Purpose::Grant | Purpose::Report, _) => {}
        }
        true
    }

    /// Handles the completion of an I/O.
    pub fn io_completed(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if let Some(current) = &mut self.current {
            current.completed += Tokens(1);
        }
    }

    /// Notes that an operation could not be posted; it is wanted again later.
    pub fn not_posted(&mut self, now: Nanos, ticket: Ticket) {
        match self.flights.end(ticket) {
            Some(Purpose::Fetch) => self.fetch_after = now + self.settings.interval,
            Some(Purpose::Report | Purpose::Grant) | None => {}
        }
    }

    fn is_later(&self, period: Period) -> bool {
        self.current.is_none_or(|current| period.after(current.number).is_some())
    }

    fn is_asked(&self) -> bool {
        self.asked.is_some() && self.asked == self.period()
    }

    /// Begins a period that started at `start`.
    fn begin(&mut self, now: Nanos, start: Nanos, number: Period, tokens: Tokens) {
        self.expire();
        let reservation = Reservation::new(tokens);
        let (issued, completed) = (Tokens::ZERO, Tokens::ZERO);
        self.current = Some(Current { number, start, reservation, issued, completed });
        self.ledger.pushed += tokens;
        self.fetch_after = now;
        self.grant_due = false;
        self.report_due = self.is_asked();
        self.update(now);
    }

    /// Drops all tokens.
    fn expire(&mut self) {
        self.ledger.expired += self.global + self.residual();
        self.global = Tokens::ZERO;
        if let Some(current) = &mut self.current {
            current.reservation = Reservation::new(Tokens::ZERO);
        }
    }

    /// Handles a grant that was read. If it belongs to a later period, its push was lost or is
    /// late.
    fn take_grant(&mut self, now: Nanos, grant: GrantWord) {
        if !self.is_later(grant.period) {
            return;
        }
        let expected = self.current.and_then(|current| {
            let periods = grant.period.after(current.number)?;
            let length = nanos(self.settings.period).saturating_mul(u64::from(periods));
            Some(current.start.after(length))
        });
        // If the monitor has not kept to the client's clock, as after a restart, the period counts
        // from now.
        let fits = |start: &Nanos| *start <= now && now.since(*start) < self.settings.period;
        let start = expected.filter(fits).unwrap_or(now);
        self.begin(now, start, grant.period, grant.reservation);
    }

    /// Runs the actions of an interval, if one has passed.
    fn tick(&mut self, now: Nanos) {
        if now >= self.next_tick {
            self.update(now);
        }
    }

    /// Brings X up to date, and notes the actions due in this interval.
    fn update(&mut self, now: Nanos) {
        let (interval, period) = (self.settings.interval, self.settings.period);
        self.report_due = self.is_asked();
        let Some(current) = &mut self.current else {
            self.grant_due = true;
            self.next_tick = now + interval;
            return;
        };
        let elapsed = now.since(current.start);
        if elapsed >= period.saturating_add(interval.saturating_mul(GRACE)) {
            self.expire();
            self.grant_due = true;
            self.report_due = false;
            self.next_tick = now + interval;
            return;
        }
        let interval = nanos(interval).max(1);
        let whole = (nanos(elapsed) / interval).saturating_mul(interval);
        self.next_tick = current.start.after(whole).after(interval);
        let given_up = current.reservation.decay(Duration::from_nanos(whole), period, self.waiting);
        self.ledger.given_up += given_up;
    }

    fn next_report(&mut self) -> Option<Step> {
        let current = self.current.filter(|_| self.report_due)?;
        let ticket = self.flights.begin(Purpose::Report)?;
        self.report_due = false;
        let residual = current.reservation.left();
        let word = ReportWord::new(current.number, residual, current.completed).pack();
        Some(Step::Post(ticket, Operation::Write { at: self.settings.words.report, word }))
    }

    fn next_grant(&mut self) -> Option<Step> {
        if !self.grant_due {
            return None;
        }
        let ticket = self.flights.begin(Purpose::Grant)?;
        self.grant_due = false;
        Some(Step::Post(ticket, Operation::Read { at: self.settings.words.grant }))
    }

    /// Returns the I/O of the first request that waits, or the fetch of tokens that it needs.
    fn next_io(&mut self, now: Nanos) -> Option<Step> {
        let Settings { window, best_effort_window, limit, batch, words, .. } = self.settings;
        let current = self.current.as_mut()?;
        let allowed = limit.map_or(Tokens(u64::MAX), |limit| limit - current.issued);
        if self.waiting.is_zero() || allowed.is_zero() || self.outstanding >= window {
            return None;
        }
        if current.reservation.take() {
            return Some(self.spend());
        }
        if !self.global.is_zero() {
            if self.outstanding >= best_effort_window {
                return None;
            }
            self.global -= Tokens(1);
            return Some(self.spend());
        }
        let late = now.since(current.start) >= self.settings.period;
        if late || now < self.fetch_after {
            return None;
        }
        let ticket = self.flights.begin(Purpose::Fetch)?;
        self.fetching = batch.min(allowed);
        let add = i64::try_from(self.fetching.0).unwrap_or(i64::MAX).wrapping_neg();
        Some(Step::Post(ticket, Operation::FetchAdd { at: words.pool, add }))
    }

    /// Notes an I/O that has its token.
    fn spend(&mut self) -> Step {
        if let Some(current) = &mut self.current {
            current.issued += Tokens(1);
        }
        self.ledger.spent += Tokens(1);
        self.waiting -= Tokens(1);
        self.outstanding = self.outstanding.saturating_add(1);
        Step::Io
    }
}
