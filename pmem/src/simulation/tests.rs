//! Tests of engines and monitor together: properties over random systems, and faults.

use core::time::Duration;

use proptest::prelude::*;
use units::Nanos;

use super::*;
use crate::capacity::Profile;
use crate::in_process::Nics;
use crate::monitor::Finding;
use crate::period::Period;
use crate::token::{Iops, Tokens};
use crate::word::PoolWord;

/// C_G of the data node, in I/Os per second.
const AGGREGATE: u64 = 100_000;
/// T * C_G.
const CAPACITY: u64 = 10_000;
/// T in ms.
const PERIOD: u64 = 100;
/// The most I/Os that a client has under way.
const WINDOW: u32 = 8;

/// The time of so many ms.
fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// Makes a data node of 10,000 I/Os in a period of 100 ms, of which a client alone does
/// `local` I/Os per second.
fn system(local: u64, clients: Vec<ClientSetup>) -> Setup {
    let clients =
        clients.into_iter().map(|client| ClientSetup { window: WINDOW, ..client }).collect();
    Setup {
        nics: Nics {
            io_at_node: time_of_io(AGGREGATE),
            io_at_client: time_of_io(local),
            word: Duration::from_nanos(20),
            travel: Duration::from_micros(2),
            jitter: 5,
        },
        local: Iops(local),
        period: Duration::from_millis(PERIOD),
        interval: Duration::from_millis(1),
        batch: Tokens(50),
        conversion: true,
        counts_packets: true,
        profile: Profile { mean: Tokens(CAPACITY), sigma: 0.0 },
        increment: Tokens(100),
        history: 5,
        clients,
        faults: Faults::default(),
        monitor_down: None,
        latencies: 0,
        seed: 7,
    }
}

/// Makes clients that always want more than they have reserved.
fn backlogged(reserved: &[u64]) -> Vec<ClientSetup> {
    let burst = Workload::Burst(2 * CAPACITY);
    reserved.iter().map(|reserved| ClientSetup::new(Tokens(*reserved), burst)).collect()
}

/// Computes the I/Os by which a client may fall short of its reservation, since conversion does not
/// count the tokens of batches, and since messages, reports and I/Os take time.
fn slack(clients: usize, batch: u64) -> u64 {
    let each = batch + u64::from(WINDOW);
    u64::try_from(clients).unwrap() * each + CAPACITY / PERIOD * 2
}

/// Returns the clients that got less than their reservation in a period from `first` on, with their
/// I/Os.
fn missed(record: &Record, reserved: &[u64], slack: u64, first: usize) -> Vec<(usize, usize, u64)> {
    let periods = record.periods.iter().enumerate().skip(first);
    let each = periods.flat_map(|(number, period)| {
        let clients = period.completed.iter().zip(reserved).enumerate();
        clients.map(move |(client, (done, reserved))| (number, client, *done, *reserved))
    });
    let less = each.filter(|(_, _, done, reserved)| done + slack < *reserved);
    less.map(|(number, client, done, _)| (number, client, done)).collect()
}

const EVEN: [u64; 4] = [2300, 2300, 2300, 2300];

#[test]
fn the_same_setup_runs_in_the_same_way() {
    let faults = Faults { lost: 10, repeated: 10, late: 10, delay: Duration::from_millis(5) };
    let setup = Setup { faults, ..system(40_000, backlogged(&EVEN)) };
    assert_eq!(run(setup.clone(), 5), run(setup.clone(), 5));
    assert_ne!(run(setup.clone(), 5), run(Setup { seed: 8, ..setup }, 5));
}

#[test]
fn latencies_are_kept_for_selected_clients() {
    let kept = |clients| {
        let setup = Setup { latencies: clients, ..system(40_000, backlogged(&EVEN)) };
        let record = run(setup, 3);
        let done = record.periods.iter().flat_map(|period| period.completed.iter().take(clients));
        (record.latencies.len() as u64, done.sum::<u64>())
    };
    for clients in 0..=4 {
        let (kept, done) = kept(clients);
        let under_way = u64::from(WINDOW) * clients as u64;
        assert!(done <= kept && kept <= done + under_way, "{clients}: {kept} of {done}");
    }
}

#[test]
fn h1_limits_hold_in_every_period() {
    let mut clients = backlogged(&[1000, 1000]);
    clients[0].limit = Some(Tokens(1500));
    clients[1].limit = Some(Tokens(3000));
    let record = run(system(90_000, clients), 6);
    for period in &record.periods {
        let window = u64::from(WINDOW);
        assert!(period.completed[0] <= 1500 + window, "{period:?}");
        assert!((2990..=3000 + window).contains(&period.completed[1]), "{period:?}");
    }
}

#[test]
fn h1_clocks_may_drift() {
    let mut clients = backlogged(&EVEN);
    for (client, skew) in clients.iter_mut().zip([-5000, -300, 300, 5000]) {
        client.skew = skew;
    }
    let record = run(system(40_000, clients), 12);
    assert_eq!(missed(&record, &EVEN, slack(4, 50), 0), []);
}

#[test]
fn h1_lost_late_and_repeated_messages_cost_no_reservation() {
    // The last ones come periods late.
    for (lost, repeated, late, delay) in
        [(40, 0, 0, 4), (0, 80, 0, 4), (0, 0, 80, 4), (30, 50, 50, 4), (0, 100, 50, 3 * PERIOD)]
    {
        let faults = Faults { lost, repeated, late, delay: Duration::from_millis(delay) };
        let setup = Setup { faults, ..system(50_000, backlogged(&EVEN)) };
        let record = run(setup, 20);
        assert_eq!(missed(&record, &EVEN, slack(4, 50), 0), [], "{faults:?}");
    }
}

#[test]
fn h2_vanished_client_leaves_tokens_to_others() {
    for told in [true, false] {
        let mut clients = backlogged(&[4000, 2000, 2000]);
        clients[0].vanishes = Some((ms(250), told));
        let record = run(system(60_000, clients), 10);
        assert_eq!(missed(&record, &[0, 2000, 2000], slack(3, 50), 0), []);
        for period in &record.periods[3..] {
            let others = period.completed[1] + period.completed[2];
            assert!(others > CAPACITY * 95 / 100, "told: {told}, {period:?}");
        }
        let silent = |(_, finding): &(usize, Finding)| matches!(finding, Finding::Silent { .. });
        assert_eq!(record.findings.iter().any(silent), !told);
    }
}

#[test]
fn h2_paused_client_harms_no_other_client() {
    let mut clients = backlogged(&EVEN);
    clients[0].stopped = Some((ms(250), ms(550)));
    let record = run(system(50_000, clients), 12);
    assert_eq!(missed(&record, &[0, 2300, 2300, 2300], slack(4, 50), 0), []);
    assert_eq!(record.periods[4].completed[0], 0, "it is stopped");
    assert!(record.periods[4].total() > CAPACITY * 95 / 100, "the others have its part");
    assert_eq!(missed(&record, &EVEN, slack(4, 50), 7), []);
}

#[test]
fn h2_restart_affects_only_running_period() {
    for (stops, starts) in [(250, 250), (250, 275), (201, 380), (250, 1250)] {
        let monitor_down = Some((ms(stops), ms(starts)));
        let setup = Setup { monitor_down, ..system(50_000, backlogged(&EVEN)) };
        let record = run(setup, 10);
        assert_eq!(missed(&record, &EVEN, slack(4, 50), 3), [], "{stops} {starts}");
        let before = Record { periods: record.periods[..2].to_vec(), ..Record::default() };
        assert_eq!(missed(&before, &EVEN, slack(4, 50), 0), [], "{stops} {starts}");
    }
}

/// A client that takes no tokens, beside two that need all the rest.
fn client_without_tokens() -> Setup {
    let mut clients = backlogged(&[2000, 4000, 4000]);
    clients[0].kind = Kind::Bare;
    system(60_000, clients)
}

#[test]
fn h2_client_without_tokens_is_evicted_within_three_periods() {
    let record = run(client_without_tokens(), 10);
    assert_eq!(record.evicted, [(2, 0)]);
    let unreported = record.findings.iter().filter_map(|(_, finding)| match finding {
        Finding::Unreported { client, reported, periods, .. } => {
            Some((client.0, *reported, *periods))
        }
        _ => None,
    });
    let unreported: Vec<_> = unreported.collect();
    assert_eq!(unreported, [(0, Tokens::ZERO, 1), (0, Tokens::ZERO, 2)]);
    assert_eq!(missed(&record, &[0, 4000, 4000], slack(3, 50), 2), [], "the others have theirs");
    for period in &record.periods[2..] {
        assert!(period.completed[0] == 0 && period.total() > CAPACITY * 95 / 100, "{period:?}");
    }
}

/// On a device that counts no packets clients are trusted (docs/use/pmem.md): this shows the share that
/// an untrustworthy client can take.
#[test]
fn h2_client_without_tokens_is_unbounded_without_counts() {
    let record = run(Setup { counts_packets: false, ..client_without_tokens() }, 10);
    let last = record.periods.last().unwrap();
    assert!(last.completed[0] > 3000, "it takes more than its 2000: {last:?}");
    let short = (last.completed[1] + 100 < 4000, last.completed[2] + 100 < 4000);
    assert_eq!(short, (true, true), "the others miss their reservations: {last:?}");
    // Nobody has spent its reservation, so nobody touches the pool, and no report is asked for.
    assert_eq!(record.findings, [], "and nothing shows it");
}

#[test]
fn h2_new_monitor_finds_client_without_tokens_too() {
    let record =
        run(Setup { monitor_down: Some((ms(150), ms(160))), ..client_without_tokens() }, 10);
    assert_eq!(record.evicted, [(4, 0)]);
}

#[test]
fn h2_filled_pool_is_repaired_without_loss() {
    let mut world = World::new(system(50_000, backlogged(&EVEN)));
    let mut filled = 0;
    while world.record().periods.len() < 8 && world.step() {
        if world.now() > ms(50 + 100 * filled) {
            filled += 1;
            let period = world.monitor().map_or(Period(0), |monitor| monitor.period());
            world.write_pool(PoolWord::new(period, Tokens(1 << 30)).pack());
        }
    }
    let record = world.record();
    assert_eq!(missed(record, &EVEN, slack(4, 50), 0), []);
    let found = |(_, finding): &&(usize, Finding)| matches!(finding, Finding::PoolWritten { .. });
    assert_eq!(record.findings.iter().filter(found).count(), 8, "{:?}", record.findings);
}

#[test]
fn h2_a_pool_below_zero_is_harmless() {
    let reserved = [3300, 3300, 3300];
    let mut world =
        World::new(Setup { conversion: false, ..system(60_000, backlogged(&reserved)) });
    let mut least = 0;
    while world.record().periods.len() < 6 && world.step() {
        least = least.min(PoolWord::unpack(world.pool()).tokens);
    }
    assert!(least < -100, "the pool was overdrawn: {least}");
    assert_eq!(missed(world.record(), &reserved, slack(3, 50), 0), []);
}

#[test]
fn h2_no_client_is_asked_without_pool_use() {
    let mut clients = backlogged(&EVEN);
    for client in &mut clients {
        client.workload = Workload::Burst(2000);
    }
    let record = run(system(50_000, clients), 5);
    for period in &record.periods[1..] {
        assert!(!period.asked && period.total() == 8000, "{period:?}");
    }
    assert!(record.words < 5 * (PERIOD + 10), "only the monitor looks: {}", record.words);
}

#[test]
fn h4_client_reserving_too_much_is_named() {
    let mut clients = backlogged(&[4000, 3000, 2000]);
    clients[0].workload = Workload::Constant(2000);
    let record = run(system(90_000, clients), 12);
    let named = record.findings.iter().filter_map(|(_, finding)| match finding {
        Finding::Overstated { client, used, .. } => Some((client.0, used.0 / 100)),
        _ => None,
    });
    let named: Vec<(u32, u64)> = named.collect();
    assert!(!named.is_empty() && named.iter().all(|(client, _)| *client == 0), "{named:?}");
    assert!(named.iter().all(|(_, used)| (18..=20).contains(used)), "{named:?}");
}

/// Divides up to `most` tokens at random, mostly nearly all of them, and unevenly.
fn reservations(most: u64) -> impl Strategy<Value = Vec<u64>> {
    let part = prop_oneof![1_u64..100, 500_u64..1000];
    let percent = prop_oneof![1_u64..=100, Just(100)];
    (prop::collection::vec(part, 2..7), percent).prop_map(move |(parts, percent)| {
        let sum: u64 = parts.iter().sum();
        parts.iter().map(|part| part * most * percent / 100 / sum).collect()
    })
}

fn faults() -> impl Strategy<Value = Faults> {
    (0_u8..40, 0_u8..100, 0_u8..60, 0_u64..250).prop_map(|(lost, repeated, late, delay)| Faults {
        lost,
        repeated,
        late,
        delay: Duration::from_millis(delay),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each backlogged client gets its reservation in every period, under any demand of the others,
    /// if one client can use the whole node: then Definition 2 asks only for the sum.
    #[test]
    fn h5_no_reservation_is_missed_while_the_admitted_sum_holds(
        reserved in reservations(CAPACITY * 97 / 100), batch in 1_u64..200, constant: bool,
        conversion: bool, seed: u64,
    ) {
        let mut clients = backlogged(&reserved);
        if constant {
            for (client, reserved) in clients.iter_mut().zip(&reserved) {
                client.workload = Workload::Constant(reserved + 300);
            }
        }
        let setup = Setup { batch: Tokens(batch), seed, conversion, ..system(200_000, clients) };
        let record = run(setup, 4);
        prop_assert_eq!(missed(&record, &reserved, slack(reserved.len(), batch), 0), []);
        prop_assert_eq!(record.evicted, [], "an engine that works");
    }

    /// If one client cannot use the whole node, others may leave a client more than it can do
    /// (Definition 2): then it is named.
    #[test]
    fn h3_client_missing_reservation_is_named(
        reserved in reservations(CAPACITY * 97 / 100), local in 20_u64..100, seed: u64,
    ) {
        let most = local * PERIOD;
        let reserved: Vec<u64> = reserved.into_iter().map(|reserved| reserved.min(most)).collect();
        let setup = Setup { seed, ..system(local * 1000, backlogged(&reserved)) };
        let record = run(setup, 4);
        for (number, client, done) in missed(&record, &reserved, slack(reserved.len(), 50), 0) {
            let named = record.findings.iter().any(|(period, finding)| {
                let out = matches!(finding, Finding::OutOfReach { client: named, .. }
                    if usize::try_from(named.0) == Ok(client));
                out && *period == number
            });
            prop_assert!(named, "period {number}, client {client}: {done} of {reserved:?}");
        }
    }

    /// A reservation of no more than an equal part of the node is never out of reach.
    #[test]
    fn h5_equal_part_reservations_survive_message_faults(
        parts in prop::collection::vec(1_u64..=100, 2..6), faults in faults(), seed: u64,
        skews in prop::collection::vec(-2000_i32..2000, 6), conversion: bool,
    ) {
        let equal = CAPACITY * 93 / 100 / u64::try_from(parts.len()).unwrap();
        let reserved: Vec<u64> = parts.iter().map(|part| part * equal / 100).collect();
        let mut clients = backlogged(&reserved);
        for (client, skew) in clients.iter_mut().zip(skews) {
            client.skew = skew;
        }
        let setup = Setup { faults, seed, conversion, ..system(60_000, clients) };
        let record = run(setup, 5);
        // A push that is lost is found two intervals later.
        let slack = slack(reserved.len(), 50) + CAPACITY * 3 / PERIOD;
        prop_assert_eq!(missed(&record, &reserved, slack, 0), []);
        prop_assert_eq!(record.evicted, [], "an engine that works");
    }

    /// Tokens unused by some clients are used by others in the same period.
    #[test]
    fn h2_unused_tokens_are_used_within_the_period(
        reserved in reservations(CAPACITY * 97 / 100), idle in prop::collection::vec(any::<bool>(), 7),
        demand in 0_u64..100, constant: bool, seed: u64,
    ) {
        let mut clients = backlogged(&reserved);
        let mut quiet = Vec::new();
        for ((client, reserved), idle) in clients.iter_mut().zip(&reserved).zip(idle).skip(1) {
            let requests = reserved * demand / 100;
            quiet.extend(idle.then_some(*reserved));
            match (idle, constant) {
                (true, true) => client.workload = Workload::Constant(requests),
                (true, false) => client.workload = Workload::Burst(requests),
                (false, _) => {}
            }
        }
        // Each client can use the whole node, so nothing stays unused for want of C_L. A report, a
        // check and a fetch take up to an interval each, whenever the pool has run dry. And while
        // idle clients may still claim X, what conversion leaves to the others for an interval,
        // (C_G - r) * (T - t), is less than they can do in it when the end is near, and it takes
        // them an interval to find the pool filled again. With 400 intervals in a period all this
        // is small, and with the paper's 1000 smaller.
        let in_an_interval = CAPACITY / 400;
        let kept: u64 = quiet.iter().sum();
        let near_the_end = in_an_interval * CAPACITY / (CAPACITY - kept);
        let least = CAPACITY.saturating_sub(12 * in_an_interval + 3 * near_the_end);
        let interval = Duration::from_micros(250);
        let record = run(Setup { seed, interval, ..system(200_000, clients) }, 4);
        for period in &record.periods {
            prop_assert!(period.total() > least, "{period:?} of {reserved:?}, not {least}");
        }
    }

    /// Without conversion each token is made once: clients never get more tokens in a period than
    /// exist, under any faults of messages, clocks, and the monitor.
    #[test]
    fn h2_tokens_are_conserved(
        reserved in reservations(CAPACITY), faults in faults(), seed: u64,
        skews in prop::collection::vec(-200_000_i32..200_000, 7), down in 0_u64..400,
        conversion: bool,
    ) {
        let mut clients = backlogged(&reserved);
        for (client, skew) in clients.iter_mut().zip(skews) {
            client.skew = skew;
        }
        let count = clients.len();
        let monitor_down = (down > 150).then(|| (ms(down), ms(down + 30)));
        let setup = system(60_000, clients);
        let setup = Setup { faults, seed, conversion, monitor_down, ..setup };
        let mut world = World::new(setup);
        while world.record().periods.len() < 4 && world.step() {}
        let ledgers = (0..count).map(|client| world.engine(client).unwrap().ledger());
        let made = Tokens(CAPACITY * 5 + 100 * 10);
        let came: Tokens = ledgers.clone().map(|ledger| ledger.pushed + ledger.fetched).sum();
        prop_assert!(conversion || came <= made, "{came} of {made}");
        for (ledger, client) in ledgers.zip(0..) {
            let engine = world.engine(client).unwrap();
            prop_assert_eq!(ledger.held(), engine.residual() + engine.global());
            let done: u64 = world.record().periods.iter().map(|period| period.completed[client]).sum();
            prop_assert!(done <= ledger.spent.0, "an I/O without a token");
        }
        prop_assert_eq!(&world.record().evicted, &[], "an engine that works");
    }
}
