//! Tests of the engine on words in memory, without a monitor.

use proptest::prelude::*;

use super::*;
use crate::in_process::{Immediate, Memory};
use crate::one_sided::{Failed, OneSided};

/// The time of so many ms.
fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

fn settings() -> Settings {
    let [pool, grant, report] = [0, 1, 2].map(Memory::address);
    Settings::new(Words { pool, grant, report })
}

/// A client whose operations complete at once, and whose I/Os complete only on request.
struct Client {
    engine: Engine,
    memory: Memory,
    fetches: u64,
}

impl Client {
    fn new(settings: Settings) -> Self {
        let engine = Engine::new(settings).unwrap();
        Self { engine, memory: Memory::new(3), fetches: 0 }
    }

    /// Makes a client in a period that began at 0, with its reservation.
    fn in_period(period: u16, reservation: u64) -> Self {
        let mut client = Self::new(settings());
        client.push(ms(0), period, reservation);
        client
    }

    fn pool(&mut self, period: u16, tokens: u64) {
        let word = PoolWord::new(Period(period), Tokens(tokens)).pack();
        self.memory.set(Memory::address(0), word);
    }

    fn pool_tokens(&self) -> i64 {
        PoolWord::unpack(self.memory.get(Memory::address(0)).unwrap()).tokens
    }

    fn grant(&mut self, period: u16, reservation: u64) {
        let grant = GrantWord { period: Period(period), reservation: Tokens(reservation) };
        self.memory.set(Memory::address(1), grant.pack());
    }

    fn report(&self) -> ReportWord {
        ReportWord::unpack(self.memory.get(Memory::address(2)).unwrap())
    }

    fn push(&mut self, now: Nanos, period: u16, reservation: u64) {
        let push = Push { period: Period(period), reservation: Tokens(reservation) };
        self.engine.push(now, push);
    }

    /// Runs all steps of the engine; I/Os complete at once. Returns their number.
    fn run(&mut self, now: Nanos) -> u64 {
        let mut ios = 0;
        let mut access = Immediate::new(&mut self.memory);
        while let Some(step) = self.engine.next(now) {
            match step {
                Step::Io => {
                    ios += 1;
                    self.engine.io_completed();
                }
                Step::Post(ticket, operation) => {
                    self.fetches += u64::from(matches!(operation, Operation::FetchAdd { .. }));
                    access.post(ticket, operation).unwrap();
                    while let Some(completion) = access.completed() {
                        assert!(self.engine.completed(now, completion));
                    }
                }
            }
        }
        ios
    }
}

#[test]
fn h1_reservation_tokens_are_spent_before_any_is_fetched() {
    let mut client = Client::in_period(1, 300);
    client.pool(1, 2500);
    client.engine.request(300);
    assert_eq!((client.run(ms(0)), client.fetches), (300, 0), "own tokens last");
    client.engine.request(700);
    assert_eq!((client.run(ms(1)), client.fetches), (700, 1), "one batch");
    assert_eq!((client.engine.global(), client.pool_tokens()), (Tokens(300), 1500));
    client.engine.request(300);
    assert_eq!((client.run(ms(2)), client.fetches), (300, 1), "the rest of the batch");
}

#[test]
fn h1_no_io_goes_without_a_token() {
    let mut client = Client::new(settings());
    client.engine.request(5000);
    client.grant(1, 0);
    client.pool(1, 1500);
    assert_eq!(client.run(ms(0)), 1500, "no reservation, so only what the pool has");
    assert_eq!((client.pool_tokens(), client.fetches), (-1500, 3));
    assert_eq!((client.run(ms(0)), client.fetches), (0, 3), "it waits");
    client.pool(1, 200);
    assert_eq!(client.run(Nanos(999_999)), 0, "for an interval");
    assert_eq!(client.run(ms(1)), 200, "the monitor has converted tokens");
    client.push(ms(1000), 2, 50);
    client.pool(2, 0);
    assert_eq!(client.run(ms(1000)), 50);
}

#[test]
fn h1_new_engine_only_reads_its_grant() {
    let mut client = Client::new(settings());
    client.engine.request(5);
    client.pool(0, 5000);
    assert!(matches!(client.engine.next(ms(0)), Some(Step::Post(_, Operation::Read { .. }))));
    assert_eq!(client.engine.next(ms(0)), None);
    assert_eq!(client.engine.next(ms(1)), None, "one read is under way");
}

#[test]
fn h1_limits_hold_for_reserved_and_global_tokens() {
    let mut client = Client::new(Settings { limit: Some(Tokens(1250)), ..settings() });
    client.pool(1, 9000);
    client.push(ms(0), 1, 100);
    client.engine.request(5000);
    assert_eq!(client.run(ms(0)), 1250);
    assert_eq!(client.pool_tokens(), 9000 - 1000 - 150, "no more is fetched than may be used");
    assert_eq!(client.run(ms(500)), 0);
    client.push(ms(1000), 2, 2000);
    assert_eq!(client.run(ms(1000)), 1250, "the limit is below the reservation");
}

#[test]
fn h1_tokens_above_the_bound_are_given_up_each_millisecond() {
    let mut client = Client::in_period(1, 1000);
    for now in 0..=1000 {
        client.run(ms(now));
        assert_eq!(client.engine.residual(), Tokens(1000 - now));
        assert_eq!(client.engine.next_tick(), ms(now + 1));
    }
    assert_eq!(client.engine.ledger().given_up, Tokens(1000));
}

#[test]
fn h1_ticks_that_come_late_lose_nothing() {
    let mut client = Client::new(settings());
    client.push(ms(5), 1, 1000);
    client.run(ms(5) + Duration::from_micros(250_700));
    assert_eq!(client.engine.residual(), Tokens(750));
    assert_eq!(client.engine.next_tick(), ms(256), "ticks keep to the period's start");
}

#[test]
fn h1_a_push_replaces_all_tokens() {
    let mut client = Client::in_period(1, 10);
    client.pool(1, 5000);
    client.engine.request(20);
    client.run(ms(1));
    assert_eq!(client.engine.global(), Tokens(990));
    client.push(ms(1000), 2, 30);
    assert_eq!((client.engine.residual(), client.engine.global()), (Tokens(30), Tokens::ZERO));
    assert_eq!(client.engine.completed_ios(), Tokens::ZERO);
    assert_eq!(client.engine.ledger().expired, Tokens(990));
}

#[test]
fn h1_repeated_and_old_pushes_change_nothing() {
    let mut client = Client::in_period(7, 100);
    client.engine.request(60);
    assert_eq!(client.run(ms(0)), 60);
    for period in [7, 6, 1, 0x8007] {
        client.push(ms(1), period, 100);
        assert_eq!(client.engine.residual(), Tokens(40), "{period}");
        assert_eq!(client.engine.period(), Some(Period(7)));
    }
}

#[test]
fn h1_lost_push_is_recovered_from_grant() {
    let mut client = Client::new(settings());
    client.push(ms(100), 1, 1000);
    client.grant(2, 1000);
    client.run(ms(1100));
    assert_eq!(client.engine.period(), Some(Period(1)), "a push may still come");
    client.run(ms(1102));
    assert_eq!(client.engine.period(), Some(Period(2)));
    assert_eq!(client.engine.residual(), Tokens(998), "2 ms of it are gone");
    client.grant(5, 1000);
    client.run(ms(4500));
    assert_eq!(client.engine.residual(), Tokens(600), "it began at 4.1 s");
    client.grant(6, 1000);
    client.run(ms(9000));
    assert_eq!(client.engine.residual(), Tokens(1000), "another time than its clock expects");
}

#[test]
fn h1_tokens_expire_with_their_period() {
    let mut client = Client::in_period(1, 1000);
    client.engine.request(5000);
    client.pool(1, 100_000);
    client.grant(1, 1000);
    assert_eq!(client.engine.next(ms(0)), Some(Step::Io));
    client.run(ms(1002));
    assert_eq!((client.engine.residual(), client.engine.global()), (Tokens::ZERO, Tokens::ZERO));
    assert_eq!(client.fetches, 0, "nor does it fetch tokens of a period that is over");
    assert_eq!(client.engine.ledger().spent, Tokens(1));
}

#[test]
fn h1_tokens_of_another_period_are_not_used() {
    for of in [1, 3] {
        let mut client = Client::in_period(2, 0);
        client.engine.request(10);
        client.pool(of, 5000);
        assert_eq!((client.run(ms(0)), client.fetches), (0, 1), "period {of}");
        assert_eq!(client.engine.global(), Tokens::ZERO);
    }
}

#[test]
fn h1_reports_are_one_word_each_millisecond_once_asked_for() {
    let mut client = Client::in_period(3, 1000);
    client.engine.request(400);
    client.run(ms(0));
    client.run(ms(5));
    assert_eq!(client.report().completed, Tokens::ZERO, "not asked");
    client.engine.ask(Ask { period: Period(3) });
    client.run(ms(5));
    let first = client.report();
    assert!(first.is_of(Period(3)));
    assert_eq!((first.residual, first.completed), (Tokens(600), Tokens(400)));
    client.engine.request(10);
    client.run(ms(5));
    assert_eq!(client.report(), first, "the next one is due in a millisecond");
    client.run(ms(6));
    assert_eq!((client.report().residual, client.report().completed), (Tokens(590), Tokens(410)));
    client.push(ms(1000), 4, 1000);
    client.run(ms(1001));
    assert!(client.report().is_of(Period(3)), "a new period asks anew");
}

#[test]
fn h1_early_ask_counts_and_stale_ask_is_ignored() {
    let mut client = Client::in_period(3, 100);
    client.engine.ask(Ask { period: Period(4) });
    client.engine.ask(Ask { period: Period(2) });
    client.run(ms(1));
    assert_eq!(client.report().period, 0, "not for this period");
    client.push(ms(1000), 4, 100);
    client.run(ms(1000));
    assert!(client.report().is_of(Period(4)));
}

#[test]
fn h1_windows_bound_outstanding_ios() {
    let settings = Settings { window: 4, best_effort_window: 2, ..settings() };
    let mut engine = Engine::new(settings).unwrap();
    engine.push(ms(0), Push { period: Period(1), reservation: Tokens(6) });
    engine.request(20);
    let ios = |engine: &mut Engine| {
        let mut ios = 0;
        while let Some(Step::Io) = engine.next(ms(0)) {
            ios += 1;
        }
        ios
    };
    assert_eq!(ios(&mut engine), 4);
    engine.io_completed();
    assert_eq!(ios(&mut engine), 1);
    engine.io_completed();
    assert_eq!(engine.next(ms(0)), Some(Step::Io), "the last reserved one");
    engine.io_completed();
    let Some(Step::Post(ticket, _)) = engine.next(ms(0)) else { panic!("a fetch is next") };
    let word = PoolWord::new(Period(1), Tokens(5000)).pack();
    engine.completed(ms(0), Completion { ticket, result: Ok(word) });
    assert_eq!(ios(&mut engine), 0, "3 are under way");
    engine.io_completed();
    engine.io_completed();
    assert_eq!(ios(&mut engine), 1);
}

#[test]
fn h1_operations_may_take_any_time_and_complete_once() {
    let Client { mut engine, .. } = Client::in_period(1, 0);
    engine.request(5);
    let Some(Step::Post(ticket, _)) = engine.next(ms(0)) else { panic!("a fetch is next") };
    assert_eq!(engine.next(ms(3)), None, "it does not wait: there is nothing to do");
    let word = PoolWord::new(Period(1), Tokens(3)).pack();
    let completion = Completion { ticket, result: Ok(word) };
    assert!(engine.completed(ms(9), completion));
    assert_eq!(engine.global(), Tokens(3));
    assert!(!engine.completed(ms(9), completion), "a repeated completion counts once");
    assert_eq!(engine.global(), Tokens(3));
}

#[test]
fn h1_operations_that_fail_are_tried_again_and_bring_nothing() {
    let Client { mut engine, .. } = Client::in_period(1, 0);
    engine.request(5);
    let Some(Step::Post(ticket, _)) = engine.next(ms(0)) else { panic!("a fetch is next") };
    engine.completed(ms(0), Completion { ticket, result: Err(Failed::Disconnected) });
    assert_eq!((engine.global(), engine.next(ms(0))), (Tokens::ZERO, None));
    let Some(Step::Post(ticket, _)) = engine.next(ms(1)) else { panic!("it fetches again") };
    engine.not_posted(ms(1), ticket);
    assert_eq!(engine.next(ms(1)), None);
    assert!(matches!(engine.next(ms(2)), Some(Step::Post(..))));
}

#[test]
fn h1_requests_that_are_withdrawn_claim_no_tokens() {
    let mut client = Client::new(Settings { window: 1, ..settings() });
    client.push(ms(0), 1, 1000);
    client.engine.request(900);
    assert_eq!(client.engine.next(ms(0)), Some(Step::Io));
    client.engine.next(ms(500));
    assert_eq!(client.engine.residual(), Tokens(999), "899 wait, and 100 are below the bound");
    assert_eq!(client.engine.withdraw(u64::MAX), 899);
    client.engine.next(ms(600));
    assert_eq!((client.engine.residual(), client.engine.waiting()), (Tokens(400), 0));
}

#[test]
fn settings_out_of_range_are_refused() {
    let bad = [
        Settings { interval: Duration::ZERO, ..settings() },
        Settings { interval: Duration::from_secs(2), ..settings() },
        Settings { window: 0, ..settings() },
        Settings { best_effort_window: 0, ..settings() },
        Settings { batch: Tokens::ZERO, ..settings() },
        Settings { batch: Tokens(1 << 31), ..settings() },
    ];
    for settings in bad {
        assert!(Engine::new(settings).is_err(), "{settings:?}");
    }
}

/// Possible events of an engine.
#[derive(Clone, Copy, Debug)]
enum Event {
    Request(u64),
    Withdraw(u64),
    Push(u16, u64),
    Ask(u16),
    Pass(u64),
    Step,
    IoDone,
    WordDone(u64, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0_u64..3000).prop_map(Event::Request),
        (0_u64..3000).prop_map(Event::Withdraw),
        (0_u16..6, 0_u64..3000).prop_map(|(period, tokens)| Event::Push(period, tokens)),
        (0_u16..6).prop_map(Event::Ask),
        (0_u64..700_000_000).prop_map(Event::Pass),
        Just(Event::Step),
        Just(Event::Step),
        Just(Event::IoDone),
        (any::<u64>(), any::<bool>()).prop_map(|(word, plain)| Event::WordDone(word, plain)),
    ]
}

proptest! {
    /// Any events in any order, with any words from the data node.
    #[test]
    fn h1_tokens_are_conserved_in_any_order_of_messages(
        events in prop::collection::vec(event(), 1..300), limit in prop::option::of(0_u64..4000),
    ) {
        let limit = limit.map(Tokens);
        let mut engine = Engine::new(Settings { limit, ..settings() }).unwrap();
        let (mut now, mut under_way, mut ios) = (Nanos::ZERO, Vec::new(), 0_u64);
        let (mut in_period, mut period) = (0_u64, None);
        for event in events {
            match event {
                Event::Request(count) => engine.request(count),
                Event::Withdraw(count) => {
                    engine.withdraw(count);
                }
                Event::Push(period, tokens) => engine
                    .push(now, Push { period: Period(period), reservation: Tokens(tokens) }),
                Event::Ask(period) => engine.ask(Ask { period: Period(period) }),
                Event::Pass(ns) => now = now.after(ns),
                Event::Step => {
                    for _ in 0..100 {
                        let held = engine.residual() + engine.global();
                        match engine.next(now) {
                            Some(Step::Io) => {
                                prop_assert!(held > Tokens::ZERO, "an I/O without a token");
                                if period != engine.period() {
                                    (in_period, period) = (0, engine.period());
                                }
                                (ios, in_period) = (ios + 1, in_period + 1);
                                prop_assert!(limit.is_none_or(|limit| in_period <= limit.0));
                            }
                            Some(Step::Post(ticket, operation)) => {
                                let fetch = matches!(operation, Operation::FetchAdd { .. });
                                prop_assert!(!fetch || held == Tokens::ZERO, "own tokens last");
                                under_way.push(ticket);
                            }
                            None => break,
                        }
                    }
                }
                Event::IoDone => engine.io_completed(),
                Event::WordDone(word, plain) => {
                    if let Some(ticket) = under_way.pop() {
                        let period = engine.period().unwrap_or_default();
                        let pool = PoolWord::new(period, Tokens(word % 5000));
                        let word = if plain { pool.pack() } else { word };
                        engine.completed(now, Completion { ticket, result: Ok(word) });
                    }
                }
            }
            let ledger = engine.ledger();
            prop_assert_eq!(ledger.held(), engine.residual() + engine.global());
            prop_assert_eq!(ledger.spent, Tokens(ios));
            let came = ledger.pushed + ledger.fetched;
            let went = ledger.spent + ledger.given_up + ledger.expired + ledger.held();
            prop_assert_eq!(came, went);
        }
    }
}
