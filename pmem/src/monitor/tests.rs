//! Tests of the monitor on words in memory, without engines.

use core::num::NonZeroU64;

use super::*;
use crate::capacity::Profile;
use crate::in_process::Memory;
use crate::token::Iops;
use crate::word::ReportWord;

/// The time of so many ms.
fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// A monitor of a node that does 10,000 I/Os in a period of 1 s, and its clients' reports.
struct Node {
    monitor: Monitor,
    memory: Memory,
    reports: Vec<u64>,
    pushes: Vec<(u32, Push)>,
    grants: Vec<(u32, GrantWord)>,
    asks: Vec<u32>,
    evicted: Vec<u32>,
}

fn settings() -> super::Settings {
    super::Settings::new(Iops(4000), Memory::address(0))
}

fn estimator() -> Estimator {
    Estimator::new(Profile { mean: Tokens(10_000), sigma: 500.0 }, Tokens(100), 3)
}

impl Node {
    fn new(settings: super::Settings, reservations: &[u64]) -> Self {
        Self::with(settings, reservations, Memory::new(1))
    }

    fn with(settings: super::Settings, reservations: &[u64], memory: Memory) -> Self {
        let found = memory.get(Memory::address(0)).unwrap();
        let mut monitor = Monitor::new(settings, estimator(), found).unwrap();
        for (reservation, client) in reservations.iter().zip(0..) {
            monitor.admit(ClientId(client), Tokens(*reservation)).unwrap();
        }
        let (pushes, grants) = (Vec::new(), Vec::new());
        let (asks, reports) = (Vec::new(), vec![0; reservations.len()]);
        Self { monitor, memory, reports, pushes, grants, asks, evicted: Vec::new() }
    }

    fn tick(&mut self, now: Nanos) {
        let reports = &self.reports;
        self.monitor.tick(now, |client| reports[usize::try_from(client.0).unwrap()]);
        self.act();
    }

    /// Makes all checks from one ms to another.
    fn ticks(&mut self, ms_range: core::ops::RangeInclusive<u64>) {
        for now in ms_range {
            self.tick(ms(now));
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.monitor.next_action() {
            match action {
                Action::Push(client, push) => self.pushes.push((client.0, push)),
                Action::Grant(client, grant) => self.grants.push((client.0, grant)),
                Action::Ask(client, _) => self.asks.push(client.0),
                Action::Evict(client) => self.evicted.push(client.0),
                Action::Post(ticket, operation) => {
                    let result = self.memory.carry_out(operation);
                    self.monitor.completed(Completion { ticket, result });
                }
            }
        }
    }

    fn pool(&self) -> PoolWord {
        PoolWord::unpack(self.memory.get(Memory::address(0)).unwrap())
    }

    fn fetch(&mut self, tokens: i64) {
        let at = Memory::address(0);
        self.memory.carry_out(Operation::FetchAdd { at, add: -tokens }).unwrap();
    }

    fn report(&mut self, client: usize, residual: u64, completed: u64) {
        let period = self.monitor.period();
        let report = ReportWord::new(period, Tokens(residual), Tokens(completed));
        self.reports[client] = report.pack();
    }

    /// Reports the remaining tokens and the completed I/Os of all clients.
    fn report_all<const N: usize>(&mut self, reports: [(u64, u64); N]) {
        for (client, (residual, completed)) in reports.into_iter().enumerate() {
            self.report(client, residual, completed);
        }
    }

    fn findings(&mut self) -> Vec<Finding> {
        core::iter::from_fn(|| self.monitor.next_finding()).collect()
    }

    /// Touches the pool at 100 ms of the first period.
    fn touched(mut self) -> Self {
        self.ticks(0..=99);
        self.fetch(1000);
        self.tick(ms(100));
        self
    }
}

#[test]
fn h2_period_begins_with_pushes_and_pool() {
    let mut node = Node::new(settings(), &[3000, 2000]);
    node.tick(ms(0));
    let period = node.monitor.period();
    let push = |reservation| Push { period, reservation: Tokens(reservation) };
    assert_eq!(node.pushes, [(0, push(3000)), (1, push(2000))]);
    assert_eq!(node.pool(), PoolWord::new(period, Tokens(5000)));
    let grant = GrantWord { period, reservation: Tokens(2000) };
    assert_eq!(node.grants.last(), Some(&(1, grant)));
    node.ticks(1..=999);
    assert_eq!(node.pushes.len(), 2);
    node.tick(ms(1000));
    assert_eq!(
        node.pushes[2..],
        [
            (0, Push { period: period.next(), ..push(3000) }),
            (1, Push { period: period.next(), ..push(2000) })
        ]
    );
}

#[test]
fn h2_nobody_is_asked_while_the_pool_is_untouched() {
    let mut node = Node::new(settings(), &[3000, 2000]);
    node.ticks(0..=5000);
    assert_eq!(node.asks, []);
    assert_eq!(node.findings(), []);
    assert_eq!(node.monitor.capacity(), Tokens(10_000), "a quiet period says nothing");
}

#[test]
fn h2_clients_are_asked_once_pool_is_used() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    assert_eq!(node.asks, [0, 1]);
    node.report(0, 2500, 500);
    node.ticks(101..=103);
    assert_eq!(node.asks, [0, 1, 1, 1, 1], "client 1 has not reported");
    node.report(1, 1900, 100);
    node.ticks(104..=999);
    assert_eq!(node.asks.len(), 5);
    node.ticks(1000..=1900);
    assert_eq!(node.asks.len(), 5, "the next period is quiet");
}

#[test]
fn h2_unused_reservations_become_global_tokens() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    assert_eq!(node.pool().tokens, 4000);
    node.report(0, 2500, 1500);
    node.tick(ms(101));
    assert_eq!(node.pool().tokens, 4000, "not before all have reported");
    node.report(1, 1800, 0);
    node.tick(ms(200));
    assert_eq!(node.pool().tokens, 8000 - 2500 - 1800, "C_G (T - t) - L");
    node.fetch(9000);
    assert_eq!(node.pool().tokens, 3700 - 9000, "below zero");
    node.report(0, 1000, 2500);
    node.tick(ms(500));
    assert_eq!(node.pool().tokens, 5000 - 1000 - 1800, "and harmless");
    node.report(1, 1800, 1);
    node.tick(ms(900));
    assert_eq!(node.pool().tokens, 0, "1000 are possible, 2800 reserved");
}

#[test]
fn h2_without_conversion_reservations_are_wasted() {
    let basic = super::Settings { conversion: false, ..settings() };
    let mut node = Node::new(basic, &[3000, 2000]).touched();
    node.report_all([(0, 0), (0, 0)]);
    node.ticks(101..=999);
    assert_eq!(node.pool().tokens, 4000);
}

#[test]
fn h2_vanished_client_returns_its_tokens() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    for now in 101..=111 {
        node.report(0, 2000, now);
        node.tick(ms(now));
    }
    assert_eq!(node.pool().tokens, 8890 - 2000, "client 1 has said nothing for 10 ms");
    node.monitor.remove(ClientId(0));
    node.tick(ms(200));
    assert_eq!(node.pool().tokens, 8000, "and client 0 is removed");
    node.report(1, 500, 100);
    node.tick(ms(300));
    assert_eq!(node.pool().tokens, 7000 - 500, "client 1 is heard again");
    node.ticks(301..=310);
    assert_eq!(node.pool().tokens, 6900, "and has said nothing new for 10 ms");
}

#[test]
fn h4_departed_clients_count_in_estimate() {
    let mut node = Node::new(settings(), &[3000, 2000, 1000]).touched();
    node.ticks(101..=989);
    node.report_all([(0, 4000), (0, 3900), (0, 1000)]);
    node.tick(ms(990));
    node.monitor.remove(ClientId(0));
    node.ticks(991..=1000);
    assert_eq!(node.monitor.capacity(), Tokens(8900));
    node.ticks(1001..=1099);
    node.fetch(1000);
    node.tick(ms(1100));
    node.report(1, 0, 100);
    node.ticks(1101..=2000);
    assert_eq!(node.monitor.capacity(), Tokens(8900), "a period of low demand");
}

#[test]
fn h4_the_estimate_of_the_next_period_follows_the_reports() {
    let mut node = Node::new(settings(), &[3000, 2000, 1000]).touched();
    node.ticks(101..=989);
    node.report_all([(0, 3500), (0, 3000), (0, 2500)]);
    node.ticks(990..=1000);
    assert_eq!(node.monitor.capacity(), Tokens(9000));
    assert_eq!(node.pool().tokens, 9000 - 6000);
    node.fetch(1000);
    node.tick(ms(1100));
    node.ticks(1101..=1989);
    node.report_all([(0, 3000); 3]);
    node.ticks(1990..=2000);
    assert_eq!(node.monitor.capacity(), Tokens(9100), "all tokens were used");
}

#[test]
fn h4_clients_that_overstate_are_found_and_named() {
    let mut node = Node::new(settings(), &[3000, 2000]);
    for second in 0..11 {
        let start = second * 1000;
        node.ticks(start..=start + 1);
        node.fetch(1000);
        node.ticks(start + 2..=start + 900);
        // Client 0 uses its reservation in one of five periods.
        node.report_all([(0, if second % 5 == 4 { 3000 } else { 1000 }), (0, 1500)]);
        node.ticks(start + 901..=start + 999);
    }
    let named = node.findings();
    let (client, reservation, used) = (ClientId(1), Tokens(2000), Tokens(1500));
    let overstated = |periods| Finding::Overstated { client, reservation, used, periods };
    assert_eq!(named, [overstated(5), overstated(10)], "client 0 is not named");
    assert!(named[0].to_string().contains("client 1 has used 1500 of the 2000"), "{}", named[0]);
}

#[test]
fn h3_reservations_are_admitted_for_the_next_period() {
    let mut node = Node::new(settings(), &[3000, 2000]);
    node.tick(ms(0));
    assert!(node.monitor.admit(ClientId(2), Tokens(4001)).is_err(), "more than C_L");
    assert!(node.monitor.admit(ClientId(2), Tokens(4000)).is_ok());
    let too_much = node.monitor.admit(ClientId(3), Tokens(1001)).unwrap_err();
    assert!(matches!(too_much, Refusal::Aggregate { fits: Tokens(1000), .. }), "{too_much}");
    assert!(node.monitor.admit(ClientId(0), Tokens(4000)).is_ok(), "its own 3000 do not count");
    node.reports.resize(3, 0);
    node.act();
    let none = GrantWord { period: node.monitor.period(), reservation: Tokens::ZERO };
    assert_eq!(node.grants.last(), Some(&(2, none)), "global tokens until then");
    node.ticks(1..=1000);
    let pushed: Vec<u64> = node.pushes[2..].iter().map(|(_, push)| push.reservation.0).collect();
    assert_eq!(pushed, [4000, 2000, 4000]);
    assert_eq!(node.pool().tokens, 0);
}

#[test]
fn h3_unattainable_reservations_are_named_at_admission() {
    // The node does 10,000, and one client 4000: four have 1000 each after 0.4 s.
    let mut node = Node::new(settings(), &[3300, 1000, 1000, 1000]);
    assert_eq!(node.findings(), [], "2400 more in 0.6 s are within reach");
    node.monitor.admit(ClientId(4), Tokens(1000)).unwrap();
    let findings = node.findings();
    let (client, reservation, attainable) = (ClientId(0), Tokens(3300), Tokens(3000));
    assert_eq!(findings, [Finding::Contended { client, reservation, attainable }]);
    for client in 5..7 {
        node.monitor.admit(ClientId(client), Tokens(1000)).unwrap();
    }
    let text = findings[0].to_string();
    assert!(
        text.starts_with("client 0 reserves 3300 I/Os in a period and can count on 3000"),
        "{text}"
    );
    assert_eq!(node.findings(), [], "it is named once");
    node.monitor.admit(ClientId(0), Tokens(2000)).unwrap();
    assert_eq!(node.findings(), [], "it is within reach");
    node.monitor.admit(ClientId(0), Tokens(3000)).unwrap();
    assert!(matches!(node.findings()[..], [Finding::Contended { reservation: Tokens(3000), .. }]));
}

#[test]
fn h3_changed_reservation_spares_running_period() {
    for changed in [4000, 1000] {
        let mut node = Node::new(settings(), &[3000, 2000]).touched();
        node.monitor.admit(ClientId(0), Tokens(changed)).unwrap();
        node.act();
        assert_eq!(node.grants.len(), 4, "{changed}: the grant that the engine reads stays");
        // Both clients still hold all their tokens, of which 3000 were pushed to client 0.
        node.report_all([(3000, 0), (2000, 0)]);
        node.ticks(101..=102);
        assert_eq!(node.pool().tokens, 8980 - 5000, "{changed}: L counts what was pushed");
        assert_eq!(node.findings(), [], "{changed}: 3000 tokens are possible");
        node.report(0, 3001, 0);
        node.ticks(103..=103);
        let impossible = Finding::Impossible { client: ClientId(0) };
        assert_eq!(node.findings(), [impossible], "{changed}: 3001 are not");
        node.ticks(104..=900);
        node.report_all([(0, 3000), (0, 2000)]);
        node.ticks(901..=1000);
        assert_eq!(node.findings(), [], "{changed}: the period is judged by what was pushed");
        let served: Vec<_> = node.monitor.served().collect();
        assert_eq!(served[0], (ClientId(0), Tokens(3000), Some(Tokens(3000))), "{changed}");
        let pushed: Vec<u64> =
            node.pushes[2..].iter().map(|(_, push)| push.reservation.0).collect();
        assert_eq!(pushed, [changed, 2000], "{changed}: the next period has it");
    }
}

#[test]
fn h2_reconnected_client_has_reservation_once() {
    let mut node = Node::new(settings(), &[3000, 2000]);
    node.ticks(0..=100);
    let granted = |node: &Node| node.grants.iter().rfind(|(client, _)| *client == 0).unwrap().1;
    assert_eq!(granted(&node).reservation, Tokens(3000));
    node.monitor.remove(ClientId(0));
    node.monitor.admit(ClientId(0), Tokens(3000)).unwrap();
    node.tick(ms(101));
    assert_eq!(granted(&node).reservation, Tokens::ZERO);
    node.ticks(102..=1000);
    assert_eq!(granted(&node).reservation, Tokens(3000));
}

#[test]
fn h2_restarted_monitor_continues_with_next_period() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    node.ticks(1000..=1100);
    let last = node.monitor.period();
    let mut again = Node::with(settings(), &[3000, 2000], node.memory);
    again.tick(ms(7300));
    assert_eq!(again.pushes[0].1.period, last.next());
    assert_eq!(again.pool(), PoolWord::new(last.next(), Tokens(5000)));
    assert_eq!(again.monitor.period_end(), ms(8300));
}

#[test]
fn h2_periods_keep_to_their_time_where_checks_are_late() {
    let mut node = Node::new(settings(), &[3000]);
    node.tick(ms(0));
    node.tick(ms(1000) + Duration::from_micros(900));
    assert_eq!(node.monitor.period_end(), ms(2000));
    node.tick(ms(2050));
    assert_eq!(node.monitor.period_end(), ms(3050), "too late: clients have a whole period");
}

#[test]
fn h2_impossible_report_is_named() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    node.report_all([(0, 900), (2001, 0)]);
    node.tick(ms(101));
    let impossible = |client| Finding::Impossible { client: ClientId(client) };
    assert_eq!(node.findings(), [impossible(0), impossible(1)], "4 in 1 ms are possible");
}

#[test]
fn h2_overwritten_pool_is_repaired() {
    for damage in [-50_000, 1 << 60] {
        let mut node = Node::new(settings(), &[3000, 2000]);
        node.ticks(0..=10);
        node.fetch(damage);
        node.tick(ms(11));
        assert!(matches!(node.findings()[..], [Finding::PoolWritten { expected: 5000, .. }]));
        node.report_all([(3000, 0), (2000, 0)]);
        node.ticks(12..=13);
        assert_eq!(node.pool().tokens, 9870 - 5000, "{damage}");
    }
}

#[test]
fn h2_a_silent_client_is_named() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    node.report(0, 0, 3000);
    node.ticks(101..=1000);
    assert!(node.findings().contains(&Finding::Silent { client: ClientId(1), periods: 1 }));
    assert!((10..13).contains(&node.asks.len()), "not asked for ever: {:?}", node.asks);
}

#[test]
fn h2_missed_reservation_is_named() {
    let mut node = Node::new(settings(), &[3000, 2000]).touched();
    for now in 101..1000 {
        // Client 0 wants all it has and gets half of it; client 1 gets all.
        node.report_all([(3000 - now * 3 / 2, now * 3 / 2), (2000 - now * 2, now * 2)]);
        node.tick(ms(now));
    }
    node.tick(ms(1000));
    let findings = node.findings();
    let missed = |finding: &&Finding| matches!(finding, Finding::Missed { .. });
    let named: Vec<&Finding> = findings.iter().filter(missed).collect();
    let (client, reservation) = (ClientId(0), Tokens(3000));
    assert_eq!(named, [&Finding::Missed { client, reservation, completed: Tokens(1498) }]);
    let reach = findings.iter().find(|finding| matches!(finding, Finding::OutOfReach { .. }));
    // 3000 - 1.5 t > 4 (1000 - t) from t = 400 ms on.
    let residual = Tokens(3000 - 401 * 3 / 2);
    assert_eq!(reach, Some(&Finding::OutOfReach { client, residual }));
}

#[test]
fn settings_out_of_range_are_refused() {
    for interval in [Duration::ZERO, Duration::from_secs(2)] {
        let settings = super::Settings { interval, ..settings() };
        assert!(Monitor::new(settings, estimator(), 0).is_err());
    }
}

/// Has a client's packets counted, at 4 for an I/O.
fn arrive(node: &mut Node, client: u32, ios: u32) {
    let packets_per_io = NonZeroU64::new(4).unwrap();
    node.monitor.arrived(ClientId(client), Arrivals { next: ios * 4, packets_per_io });
}

#[test]
fn h2_packets_beyond_reservation_make_the_monitor_ask() {
    let mut node = Node::new(settings(), &[1000, 3000]);
    node.ticks(0..=1);
    for client in [0, 1] {
        arrive(&mut node, client, 0);
    }
    node.ticks(2..=1000);
    // C_L is 4000: the margin is a sixteenth of it, 3 ms of it, and 128; and a thousand engines' words.
    let words = (1001 * 4 + 1) / 4;
    let most = 1000 + 250 + 12 + 128 + words;
    arrive(&mut node, 0, most);
    node.ticks(1001..=1002);
    assert_eq!(node.asks, [], "{most} I/Os may be those of an engine");
    arrive(&mut node, 0, most + 2);
    assert!(node.monitor.is_asking());
}

#[test]
fn h4_capacity_is_measured_by_packets_in_whole_periods() {
    let mut node = Node::new(settings(), &[1000, 3000]);
    let mut total = 0;
    let mut second = |node: &mut Node, number: u64, ios: u32| {
        total += ios;
        for client in [0, 1] {
            arrive(node, client, total);
        }
        node.ticks(number * 1000..=number * 1000 + 999);
    };
    second(&mut node, 0, 0);
    node.monitor.begin_profile(3);
    for (number, ios) in (1..).zip([9000, 3000, 2900, 3100]) {
        assert_eq!(node.monitor.take_profile(), None);
        second(&mut node, number, ios);
    }
    second(&mut node, 5, 0);
    let profile = node.monitor.take_profile().unwrap().unwrap();
    assert_eq!(profile.mean, Tokens(6000), "{profile:?}: not the period in which it began");
    assert!((profile.sigma - 200.0).abs() < 1e-9, "{profile:?}");
    assert_eq!(node.monitor.admission().capacity, Tokens(6000));
    assert_eq!(node.monitor.next_finding(), None, "nobody is accused meanwhile");
}

#[test]
fn h2_client_underreporting_twice_in_a_row_is_evicted() {
    let mut node = Node::new(settings(), &[1000, 3000]);
    arrive(&mut node, 0, 0);
    node.ticks(0..=0);
    let mut total = 0;
    // I/Os that the device counts and that are reported, and whether these are too few.
    let periods = [(2500, 900, true), (2500, 2400, false), (2500, 900, true), (2600, 900, true)];
    for ((counted, reported, is_too_few), number) in periods.into_iter().zip(0..) {
        assert_eq!(node.evicted, []);
        node.fetch(1000);
        node.ticks(number * 1000 + 1..=number * 1000 + 900);
        node.report(0, 0, reported);
        node.ticks(number * 1000 + 901..=number * 1000 + 999);
        total += counted;
        arrive(&mut node, 0, total);
        node.tick(ms(number * 1000 + 1000));
        let unreported = |found: &Finding| matches!(found, Finding::Unreported { .. });
        assert_eq!(node.findings().iter().any(unreported), is_too_few, "period {number}");
    }
    assert_eq!(node.evicted, [0]);
}
