//! The monitor of a data node: it hands out tokens and converts unused ones (docs/research/sources.md, H2;
//! Fig. 5 of the paper).
//!
//! - At each period's start it pushes R_i to every client (step T1) and writes C_G - sum R_i to the
//!   pool.
//! - In each check interval it looks at the pool (S1). Once tokens are missing (S2) it asks all
//!   clients for reports (S3).
//! - From then on, each check makes the pool max(C_G * (T - t) - L, 0), where C_G is a rate and L
//!   the sum of the reservation tokens left (T2), as soon as all clients that are there have
//!   reported once in the period.
//! - At the period's end it estimates the capacity from the reports (T3; [`crate::capacity`]), and
//!   names the clients that reserve too much. A period without reports says nothing: nobody wanted
//!   more than its reservation.
//!
//! The formula counts neither the tokens of batches that clients have fetched and not spent, nor I/Os
//! under way. So up to a batch and a window for each client are handed out twice. The paper's
//! formula is kept: the pool then lasts to the period's end, and no capacity is left unused while
//! clients hold batches that they do not need.
//!
//! # Clients that vanish, and monitors that restart
//!
//! A client is gone when it is removed (its connection has ended), or when its reports say nothing
//! new for some checks although its tokens must decay: its tokens count as given back. If it is
//! heard again, they count again.
//!
//! A monitor that restarts takes the period's number from the pool's word, and continues with the
//! next one. Its pushes are later than the periods of all clients, so it is a whole period like any
//! other; reservations may fail in the interrupted period. If the memory with the word is lost too,
//! all connections are lost, and engines that reconnect accept any period as later.
//!
//! # The power of a client that breaks the protocol
//!
//! The paper trusts the engine. A data node that shares its memory with untrusted engines must know
//! the power of each of them:
//!
//! | it can | and what bounds it |
//! |---|---|
//! | send I/Os without tokens, and not report them | evicted after two periods, where the device counts packets ([`Monitor::arrived`]) |
//! | send I/Os without tokens, and report them | nothing here: the device serves them, and its own limits apply |
//! | take more from the pool than it needs | the next check fills the pool again; hoarded tokens are handed out twice, as the tokens of any batch |
//! | put tokens into the pool, or write nonsense to it | found at the next check, and repaired; it is not known who did it |
//! | report more reservation tokens than it has | counted as R_i at most |
//! | keep its tokens without using them | R_i at most, which were reserved for it; it is named |
//! | report fewer I/Os, to make the estimate fall | the estimate's floor, mean - 3 sigma |
//! | report more I/Os, to make it grow | what C_L allows, and one increment in a period |
//! | change the reports or grants of others | the rights of regions: each client may write its own report, read its own grant, and nothing else but the pool |
//!
//! # Clients that do not report their I/Os
//!
//! The device counts each client's packets. A client whose packets are more than its reported I/Os
//! need is named after a period, and evicted after a second one ([`Action::Evict`]). A client whose
//! packets exceed its reservation makes the monitor ask for reports, although the pool is whole.
//!
//! The margin is a sixteenth of C_L, 3 check intervals of C_L, 128 I/Os under way, and the operations
//! on words that an engine can need. So an engine that works is never evicted, and a client that lies
//! gains 7 % of C_L.
//!
//! The pool is one word: who took tokens from it is not known. A client that reports its I/Os and
//! takes no tokens for them is therefore not found.

mod client;
mod finding;
mod pool;
mod settings;
#[cfg(test)]
mod tests;
mod traffic;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use units::{Nanos, nanos};

pub use finding::Finding;
pub use settings::{BadInterval, Settings};
pub use traffic::Arrivals;

use crate::admission::{Admission, Refusal};
use crate::capacity::{Estimator, Profile, ProfileError};
use crate::engine::BEST_EFFORT_WINDOW;
use crate::message::{Ask, ClientId, Push};
use crate::one_sided::{Completion, Failed, Operation, Ticket};
use crate::period::Period;
use crate::token::Tokens;
use crate::word::{GrantWord, PoolWord};
use client::{Bounds, Client};
use pool::Pool;

/// The paper's window, of which clients use [`BEST_EFFORT_WINDOW`] beyond their reservations.
const WINDOW: f64 = 64.0;

/// Check intervals that a client has for its report after it was asked.
const ANSWER: u32 = 10;
/// Periods in a row with unreported I/Os after which a client is evicted.
const EVICTED_AFTER: u32 = 2;

/// The next action of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a client the start of a period.
    Push(ClientId, Push),
    /// Write a client's grant, which it reads if the push is lost.
    Grant(ClientId, GrantWord),
    /// Ask a client for reports.
    Ask(ClientId, Ask),
    /// End a client's rights: it does not report its I/Os.
    Evict(ClientId),
    /// Post an operation on the pool's word, and report its result to [`Monitor::completed`]. It must pass through the
    /// NIC unless the NIC orders its atomics with the processor's.
    Post(Ticket, Operation),
}

/// A measurement of the capacity.
#[derive(Clone, Debug)]
struct Profiling {
    /// The number of samples wanted.
    periods: usize,
    /// Whether the running period began after the measurement.
    begun: bool,
    /// The I/Os of each period.
    samples: Vec<Tokens>,
}

/// The monitor of one data node.
#[derive(Clone, Debug)]
pub struct Monitor {
    settings: Settings,
    estimator: Estimator,
    clients: BTreeMap<ClientId, Client>,
    /// I/Os that clients completed in the running period which are gone.
    departed: Tokens,
    number: Period,
    /// Start of the running period; `None` before the first one.
    start: Option<Nanos>,
    /// C_G * T: the capacity of the running period.
    capacity: Tokens,
    /// The tokens that the pool had at the period's start.
    initial: PoolWord,
    /// Whether the pool was touched in this period, and reports were asked for.
    asking: bool,
    /// Time since the running period's start at which reports were asked for.
    asked_at: Duration,
    /// Time since the running period's start of the last check.
    elapsed: Duration,
    pool: Pool,
    next_tick: Nanos,
    profiling: Option<Profiling>,
    profiled: Option<Result<Profile, ProfileError>>,
    actions: VecDeque<Action>,
    findings: VecDeque<Finding>,
}

impl Monitor {
    /// Makes a monitor. `found` is the pool's word as a monitor before it left it; 0 where there was
    /// none.
    ///
    /// # Errors
    ///
    /// [`BadInterval`] where the check interval does not fit into the period.
    pub fn new(settings: Settings, estimator: Estimator, found: u64) -> Result<Self, BadInterval> {
        settings.check()?;
        let number = PoolWord::unpack(found).period;
        let capacity = estimator.estimate();
        Ok(Self {
            settings,
            estimator,
            clients: BTreeMap::new(),
            departed: Tokens::ZERO,
            number,
            start: None,
            capacity,
            initial: PoolWord::new(number, Tokens::ZERO),
            asking: false,
            asked_at: Duration::ZERO,
            elapsed: Duration::ZERO,
            pool: Pool::new(settings.pool, number),
            next_tick: Nanos::ZERO,
            profiling: None,
            profiled: None,
            actions: VecDeque::new(),
            findings: VecDeque::new(),
        })
    }

    /// Admits a client, or changes the reservation of an admitted one, from the next period on.
    /// Until then the client has global tokens only. Clients whose reservations become unattainable
    /// when all want more than they reserved are named ([`Finding::Contended`]).
    ///
    /// A client that connects again must be removed first: its new engine would read the grant of
    /// the running period, and have its reservation twice.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the reservation does not fit; admitted reservations stay.
    pub fn admit(&mut self, client: ClientId, reservation: Tokens) -> Result<(), Refusal> {
        let others = self.clients.iter().filter(|(id, _)| **id != client);
        let reserved = others.map(|(_, other)| other.reservation).sum();
        self.admission().check(reserved, reservation)?;
        if let Some(known) = self.clients.get_mut(&client) {
            known.reservation = reservation;
        } else {
            self.clients.insert(client, Client::new(reservation));
            let grant = GrantWord { period: self.number, reservation: Tokens::ZERO };
            self.actions.push_back(Action::Grant(client, grant));
        }
        self.judge_reservations();
        Ok(())
    }

    /// Names the clients that cannot rely on their admitted reservations, each once.
    fn judge_reservations(&mut self) {
        let reservations: Vec<Tokens> =
            self.clients.values().map(|client| client.reservation).collect();
        let attainable =
            self.admission().attainable(&reservations, f64::from(BEST_EFFORT_WINDOW) / WINDOW);
        for ((id, client), attainable) in self.clients.iter_mut().zip(attainable) {
            let (reservation, was_contended) = (client.reservation, client.contended);
            client.contended = attainable < reservation;
            if client.contended && !was_contended {
                let client = *id;
                self.findings.push_back(Finding::Contended { client, reservation, attainable });
            }
        }
    }

    /// Removes a client whose connection has ended. Its tokens are given back.
    pub fn remove(&mut self, client: ClientId) {
        if let Some(gone) = self.clients.remove(&client) {
            self.departed += gone.completed;
        }
    }

    /// Begins to measure the capacity, in so many periods after the running one, by the packets that
    /// the device counts. All clients must be backlogged; they may leave out their tokens meanwhile,
    /// as nobody is evicted. The estimate continues from the result ([`Self::take_profile`]).
    pub fn begin_profile(&mut self, periods: u32) {
        let periods = usize::try_from(periods).unwrap_or(usize::MAX);
        self.profiling = Some(Profiling { periods, begun: false, samples: Vec::new() });
    }

    /// Returns the result of a measurement that is over, once.
    pub fn take_profile(&mut self) -> Option<Result<Profile, ProfileError>> {
        self.profiled.take()
    }

    /// Returns the next action, until there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the next finding, until there is none.
    pub fn next_finding(&mut self) -> Option<Finding> {
        self.findings.pop_front()
    }

    /// Returns the time of the next check.
    #[must_use]
    pub const fn next_tick(&self) -> Nanos {
        self.next_tick
    }

    /// Returns the number of the running period.
    #[must_use]
    pub const fn period(&self) -> Period {
        self.number
    }

    /// Returns the end of the running period; the origin of time before the first one.
    #[must_use]
    pub fn period_end(&self) -> Nanos {
        self.start.map_or(Nanos::ZERO, |start| start + self.settings.period)
    }

    /// Returns the capacity of the running period, in tokens.
    #[must_use]
    pub const fn capacity(&self) -> Tokens {
        self.capacity
    }

    /// Returns whether the monitor has asked for reports in the running period.
    #[must_use]
    pub const fn is_asking(&self) -> bool {
        self.asking
    }

    /// Returns each client's use in the last whole period: its reservation, and the I/Os that it
    /// has reported; `None` if no report was wanted or arrived.
    pub fn served(&self) -> impl Iterator<Item = (ClientId, Tokens, Option<Tokens>)> {
        self.clients.iter().map(|(id, client)| {
            let (reservation, completed) = client.before;
            (*id, reservation, completed)
        })
    }

    /// Returns the test that a reservation has to pass now.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        let Settings { period, local, .. } = self.settings;
        Admission { period, capacity: self.estimator.estimate(), local }
    }

    /// Makes the check of an interval, if its time has come. `report` returns the word that a client
    /// wrote last.
    pub fn tick(&mut self, now: Nanos, mut report: impl FnMut(ClientId) -> u64) {
        if now < self.next_tick {
            return;
        }
        if let Some(start) = self.start {
            let elapsed = now.since(start).min(self.settings.period);
            self.elapsed = elapsed;
            if self.asking {
                self.take_reports(elapsed, &mut report);
            }
            if elapsed < self.settings.period {
                self.check(elapsed);
                self.next_tick = self.tick_after(start, elapsed);
                return;
            }
            self.end_period();
        }
        self.begin_period(now);
    }

    /// Handles the completion of an operation on the pool.
    pub fn completed(&mut self, completion: Completion) {
        let news = self.pool.completed(completion);
        self.actions.extend(news.post.map(|(ticket, operation)| Action::Post(ticket, operation)));
        let Some((found, expected)) = news.found else { return };
        if found.period != expected.period || found.tokens > expected.tokens {
            let (found, expected) = (found.tokens, expected.tokens);
            self.findings.push_back(Finding::PoolWritten { found, expected });
        }
        if found != self.initial {
            self.begin_asking();
        }
    }

    /// Takes a client's packets, as the device counts them: in each check interval or less often, but
    /// before 2^24 packets have come.
    pub fn arrived(&mut self, client: ClientId, arrivals: Arrivals) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        known.traffic.count(arrivals);
        let (granted, traffic) = (known.granted, known.traffic);
        let most = granted + self.settings.unreported_margin();
        if traffic
            .ios(self.settings.packets_of_words(granted))
            .is_some_and(|counted| counted > most)
        {
            self.begin_asking();
        }
    }

    /// Asks for reports, unless they were asked for in this period.
    fn begin_asking(&mut self) {
        if !self.asking {
            (self.asking, self.asked_at) = (true, self.elapsed);
            self.ask();
        }
    }

    /// Finds the clients that have not reported their I/Os, and evicts clients found twice in a row.
    fn judge_traffic(&mut self) {
        let Settings { period, interval, .. } = self.settings;
        if self.asking && self.asked_at.saturating_add(interval.saturating_mul(ANSWER)) > period {
            // There was no time for reports.
            return;
        }
        for (id, client) in &mut self.clients {
            let counted = client.traffic.ios(self.settings.packets_of_words(client.completed));
            let most = client.completed + self.settings.unreported_margin();
            let Some(counted) = counted.filter(|counted| self.asking && *counted > most) else {
                client.traffic.unreported = 0;
                continue;
            };
            client.traffic.unreported = client.traffic.unreported.saturating_add(1);
            let (reported, periods) = (client.completed, client.traffic.unreported);
            let finding = Finding::Unreported { client: *id, reported, counted, periods };
            self.findings.push_back(finding);
            if periods >= EVICTED_AFTER {
                self.actions.push_back(Action::Evict(*id));
            }
        }
    }

    /// Notes that an operation on the pool could not be posted; it is wanted again later.
    pub fn not_posted(&mut self, ticket: Ticket) {
        let result = Err(Failed::Disconnected);
        self.pool.completed(Completion { ticket, result });
    }

    fn begin_period(&mut self, now: Nanos) {
        // Periods keep to their time where a check is late by less than an interval.
        let due = self.period_end();
        let start = if now.since(due) < self.settings.interval { due } else { now };
        self.start = Some(start);
        self.number = self.number.next();
        self.capacity = self.estimator.estimate();
        self.departed = Tokens::ZERO;
        (self.asking, self.elapsed) = (false, Duration::ZERO);
        let period = self.number;
        let mut reserved = Tokens::ZERO;
        let Settings { interval, silence, .. } = self.settings;
        let checks = nanos(self.settings.period) / nanos(interval).max(1);
        for (id, client) in &mut self.clients {
            client.begin(silence, checks);
            let reservation = client.granted;
            reserved += reservation;
            self.actions.push_back(Action::Grant(*id, GrantWord { period, reservation }));
            self.actions.push_back(Action::Push(*id, Push { period, reservation }));
        }
        let tokens = self.capacity - reserved;
        self.initial = PoolWord::new(period, tokens);
        let (ticket, operation) = self.pool.begin(period, tokens);
        self.actions.push_back(Action::Post(ticket, operation));
        self.next_tick = self.tick_after(start, now.since(start));
    }

    /// Returns the time of the check after one at `elapsed` of a period.
    fn tick_after(&self, start: Nanos, elapsed: Duration) -> Nanos {
        let interval = nanos(self.settings.interval).max(1);
        let whole = (nanos(elapsed) / interval).saturating_mul(interval);
        start.after(whole).after(interval).min(start + self.settings.period)
    }

    /// Looks at the pool, and converts tokens where reports have come.
    fn check(&mut self, elapsed: Duration) {
        let mut target = None;
        if self.asking {
            self.ask();
            let mut clients = self.clients.values();
            let ready = clients.all(|client| client.has_reported() || client.is_silent());
            if ready && self.settings.conversion {
                target = Some(self.converted(elapsed));
            }
        }
        let post = self.pool.check(target);
        self.actions.extend(post.map(|(ticket, operation)| Action::Post(ticket, operation)));
    }

    /// Computes max(C_G * (T - t) - L, 0), where `elapsed` is t.
    fn converted(&self, elapsed: Duration) -> Tokens {
        let period = self.settings.period;
        let rest = self.capacity.for_part(period.saturating_sub(elapsed), period);
        let residual: Tokens = self.clients.values().map(|client| client.residual()).sum();
        rest - residual
    }

    /// Asks the clients for reports that have not reported in this period, and do not count as gone.
    fn ask(&mut self) {
        let ask = Ask { period: self.number };
        for (id, client) in &self.clients {
            if !client.has_reported() && !client.is_silent() {
                self.actions.push_back(Action::Ask(*id, ask));
            }
        }
    }

    fn take_reports(&mut self, elapsed: Duration, report: &mut impl FnMut(ClientId) -> u64) {
        let Settings { interval, local, .. } = self.settings;
        let admission = self.admission();
        let most = local.in_time(elapsed);
        // A client's clock, and the I/Os outstanding at the period's start.
        let margin = Tokens(most.0 / 16) + local.in_time(interval.saturating_mul(3));
        for (id, client) in &mut self.clients {
            let bounds = Bounds { period: self.number, completed: most + margin };
            if client.take(report(*id), bounds) {
                self.findings.push_back(Finding::Impossible { client: *id });
            }
            let residual = client.residual();
            let reach = admission.in_reach(residual, Tokens::ZERO, elapsed);
            if client.has_reported() && !reach && !client.out_of_reach {
                client.out_of_reach = true;
                self.findings.push_back(Finding::OutOfReach { client: *id, residual });
            }
        }
    }

    /// Estimates the capacity from the reports, and judges the clients by them.
    fn end_period(&mut self) {
        if self.profiling.is_some() {
            self.take_sample();
            return;
        }
        self.judge_traffic();
        if self.asking {
            let reported: Tokens = self.clients.values().map(|client| client.completed).sum();
            self.estimator.period_ended(reported + self.departed);
            self.judge_use();
        }
    }

    /// Takes the I/Os of the period that ends as a sample of the profile.
    fn take_sample(&mut self) {
        let ios = |client: &Client| {
            let words =
                client.has_reported().then(|| self.settings.packets_of_words(client.completed));
            client.traffic.ios(words.unwrap_or(0)).unwrap_or(Tokens::ZERO)
        };
        let counted: Tokens = self.clients.values().map(ios).sum();
        let Some(profiling) = &mut self.profiling else { return };
        if profiling.begun {
            profiling.samples.push(counted);
        }
        profiling.begun = true;
        if profiling.samples.len() >= profiling.periods {
            let profile = Profile::from_samples(&profiling.samples);
            if let Ok(profile) = profile {
                self.estimator.restart(profile);
            }
            (self.profiling, self.profiled) = (None, Some(profile));
        }
    }

    /// Finds the clients that did not use their reservation, or did not get it.
    fn judge_use(&mut self) {
        let Settings { period, interval, alert_after, .. } = self.settings;
        for (id, client) in &mut self.clients {
            let (reservation, completed) = (client.granted, client.completed);
            if !client.has_reported() && client.is_silent() {
                client.silent = client.silent.saturating_add(1);
                let periods = client.silent;
                self.findings.push_back(Finding::Silent { client: *id, periods });
            } else {
                client.silent = 0;
            }
            // The last report is up to an interval old, and was under way for a while.
            let margin = reservation.for_part(interval.saturating_mul(2), period);
            let missing = reservation - completed - margin;
            let kept = client.residual() - margin;
            if !missing.is_zero() && !kept.is_zero() {
                self.findings.push_back(Finding::Missed { client: *id, reservation, completed });
            }
            if (missing - kept).is_zero() {
                client.unused = 0;
                continue;
            }
            client.unused = client.unused.saturating_add(1);
            if client.unused.is_multiple_of(alert_after.max(1)) {
                let (client, used, periods) = (*id, completed, client.unused);
                self.findings.push_back(Finding::Overstated { client, reservation, used, periods });
            }
        }
    }
}
