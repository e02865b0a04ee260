//! The configurations in which reservations were missed and reported as kept (issue 31).

use super::*;

const PERIODS: u64 = 8;

fn run(model: Model, operations: u64, tenant: Host) -> Lab {
    let mut lab = Lab::new(model, operations, [vec![tenant], flood(4, 64, 0)].concat());
    lab.run(PERIODS);
    lab
}

fn flash(service: u64, channels: usize) -> Model {
    Model { service, channels, seeks: false, window: 128, reactors: 1 }
}

#[test]
fn f3_forty_iops_are_kept_at_any_depth_and_gap() {
    let depths = [1, 2, 8, 32].map(|depth| (false, depth, 50_000));
    // One command at a time on a disk, with no gap, a short one, and one as long as another host's command.
    let gaps = [0, 50_000, 4 * MS, 8 * MS].map(|think| (true, 1, think));
    for (seeks, depth, think) in depths.into_iter().chain(gaps) {
        let lab = run(Model { seeks, ..flash(8 * MS, 1) }, 40, tenant(depth, think));
        let had = lab.had(0, PERIODS);
        let case = format!("seeks: {seeks}, depth {depth}, {think} ns: {had:?}");
        assert!(had.iter().all(|had| *had >= 40), "{case}");
        assert_eq!(lab.reserved[0].kept(), (PERIODS, PERIODS), "{case}");
        assert!(lab.total() >= 124 * PERIODS, "{case}: the device is busy: {}", lab.total());
    }
}

#[test]
fn f3_four_hundred_iops_are_kept_from_sufficient_depth() {
    for (depth, least) in [(1, 243), (2, 400), (8, 400), (32, 400)] {
        let lab = run(flash(2 * MS, 4), 400, tenant(depth, 50_000));
        let had = lab.had(0, PERIODS);
        assert!(had.iter().all(|had| *had >= least), "depth {depth}: {had:?}");
        let kept = had.iter().filter(|had| **had >= 400).count() as u64;
        assert_eq!(lab.reserved[0].kept(), (PERIODS, kept), "depth {depth}: {had:?}");
        assert!(lab.total() >= 1900 * PERIODS, "the device is busy: {}", lab.total());
    }
}

/// A limit above a reservation is no less than that. Others below the limit wait while it is due, on any reactor.
#[test]
fn f3_reservation_below_shared_limit_is_kept() {
    let pool = SessionSpec { iops: Rate::per_second(1000), ..SessionSpec::default() };
    let gold = spec("", Some("1"));
    for (reserved, own, depth) in [(500, 0, 8), (500, 1, 8), (900, 1, 16), (500, 1, 2), (100, 1, 1)]
    {
        for class in [Class::High, Class::Low] {
            let model = Model { reactors: 2, ..flash(2 * MS, 8) };
            let silver = flood(1, 64, 0).remove(0);
            let hosts = vec![Host { reactor: own, class, ..tenant(depth, 50_000) }, silver];
            let tenants = [(reserved, gold.clone()), (0, pool.clone())];
            let mut lab = Lab::several(model, &tenants, hosts);
            lab.run(PERIODS);
            let (had, others) = (lab.had(0, PERIODS), lab.had(1, PERIODS));
            let what =
                format!("{reserved}, reactor {own}, depth {depth}: {had:?} beside {others:?}");
            assert!(had.iter().all(|had| *had >= reserved), "{what}");
            assert_eq!(lab.reserved[0].kept(), (PERIODS, PERIODS), "{what}");
            assert!((990..=1010).contains(&(lab.total() / PERIODS)), "{what}");
        }
    }
}

/// A host with few commands at a time waits at a shared limit for one command of the others, whichever reactors they are
/// in.
#[test]
fn d1_shallow_host_gets_share_of_limit() {
    let pool = SessionSpec { iops: Rate::per_second(1000), ..SessionSpec::default() };
    for (own, depth, least) in [(0, 1, 245), (1, 1, 195), (1, 2, 390), (1, 4, 490), (1, 64, 490)] {
        for weight in [None, Some(100)] {
            let child = SessionSpec { weight, ..spec("", Some("1")) };
            let model = Model { reactors: 2, ..flash(2 * MS, 8) };
            let shallow = Host { reactor: own, class: Class::High, ..tenant(depth, 50_000) };
            let hosts = vec![shallow, flood(1, 64, 0).remove(0)];
            let mut lab = Lab::several(model, &[(0, child), (0, pool.clone())], hosts);
            lab.run(4);
            let (had, others) = (lab.had(0, 4), lab.had(1, 4));
            let what = format!("reactor {own}, depth {depth}: {had:?} beside {others:?}");
            assert!(had.iter().skip(1).all(|had| *had >= least), "{what}");
            assert!((990..=1010).contains(&(lab.total() / 4)), "{what}");
        }
    }
}

#[test]
fn f3_window_without_bound_reports_missed_periods() {
    for (depth, most) in [(1, 2), (2, 3), (8, 9)] {
        let hosts = [vec![tenant(depth, 50_000)], flood(4, 64, 0)].concat();
        let mut lab = Lab::new(flash(8 * MS, 1), 40, hosts);
        lab.device.follow_reservations(false);
        lab.arbiters[0].touch_device(DEVICE);
        lab.arbiters[0].settle(START, usize::MAX);
        lab.run(PERIODS);
        let had = lab.had(0, PERIODS);
        assert!(had.iter().all(|had| *had <= most), "depth {depth}: {had:?}");
        assert_eq!(lab.reserved[0].kept(), (PERIODS, 0), "depth {depth}");
        let missed = lab.reserved[0].missed();
        assert!(missed.by(Cause::Window) >= PERIODS - 2, "{missed:?}");
        let miss = lab.reserved[0].last_miss().unwrap().to_string();
        assert!(miss.ends_with("each, behind 127 others in the device"), "{miss}");
    }
}

/// At the start of a period, Urgent has more commands in a disk at once than another class, for which
/// the reservation and the share of Urgent leave less room.
#[test]
fn f3_urgent_keeps_share_of_disk_beside_reservation() {
    let in_disk = |class| {
        let model = Model { seeks: true, ..flash(8 * MS, 1) };
        let mut lab = Lab::new(model, 95, vec![tenant(0, 0), Host { class, ..tenant(16, 0) }]);
        lab.run(0);
        lab.device.set.commands()
    };
    let (urgent, high) = (in_disk(Class::Urgent), in_disk(Class::High));
    // Of a second, 779 ms are reserved (95 commands, two seeks) and 200 ms are left to Urgent.
    assert_eq!(high, 2, "of 9 ms at most, in 21 ms");
    assert!(urgent > high, "{urgent} commands of Urgent, {high} of High");
}

/// Reservations of most of the device leave Urgent its share of a fifth: Urgent earns by reserved commands, too.
#[test]
fn e5_urgent_has_share_beside_reservations() {
    for reactors in [1, 2] {
        for (depth, think) in [(4, 9 * MS), (16, 42 * MS), (32, 70 * MS)] {
            let model = Model { reactors, ..flash(2 * MS, 4) };
            let urgent = Host { class: Class::Urgent, ..tenant(depth, think) };
            let hosts = [vec![tenant(64, 0), urgent], flood(4, 64, reactors - 1)].concat();
            let mut lab = Lab::new(model, 1200, hosts);
            lab.run(PERIODS);
            let had = lab.had(1, PERIODS);
            let wanted = SECOND * depth / (think + 2 * MS);
            let least = wanted.min(400) * 9 / 10;
            assert!(had.iter().skip(1).all(|had| *had >= least), "{reactors}, {wanted}: {had:?}");
            assert!(lab.had(0, PERIODS).iter().all(|had| *had >= 1200), "{reactors}, {wanted}");
        }
    }
}

/// A tenant whose own limit is below its reservation asks for nothing while the limit holds its
/// commands back: a limit on all, or on the direction in which all go.
#[test]
fn f3_commands_that_a_limit_holds_back_are_no_demand() {
    let all = SessionSpec { iops: Rate::per_second(10), ..SessionSpec::default() };
    let reads = SessionSpec { reads: iops(10), ..SessionSpec::default() };
    for limited in [all, reads] {
        let hosts = [vec![tenant(8, 0)], flood(4, 64, 0)].concat();
        let mut lab = Lab::several(flash(8 * MS, 1), &[(40, limited)], hosts);
        lab.run(PERIODS);
        let had = lab.had(0, PERIODS);
        assert!(had[1..].iter().all(|had| (9..=11).contains(had)), "{had:?}");
        let reserved = &lab.reserved[0];
        let (periods, kept) = reserved.kept();
        assert_eq!(kept, periods, "{:?}: {:?}", reserved.missed(), reserved.last_miss());
    }
}

/// Reads of a tenant are demand, and keep its reservation, while a limit holds its writes back:
/// reads that always wait, and reads that begin after nothing but writes has waited for a while.
#[test]
fn f3_reads_keep_reservation_while_writes_are_limited() {
    let limited = SessionSpec { writes: iops(10), ..SessionSpec::default() };
    for (service, channels, seeks) in [(8 * MS, 1, false), (2 * MS, 4, false), (8 * MS, 1, true)] {
        for (depth, think) in [(4, 0), (1, 4 * MS), (2, 20 * MS)] {
            let writer = Host { write: true, of: Some(0), ..tenant(8, 0) };
            let hosts = [vec![tenant(depth, think), writer], flood(4, 64, 0)].concat();
            let model = Model { seeks, ..flash(service, channels) };
            let mut lab = Lab::several(model, &[(40, limited.clone())], hosts);
            lab.run(PERIODS);
            let had: Vec<_> = lab.had(0, PERIODS).into_iter().zip(lab.had(1, PERIODS)).collect();
            let case = format!("{model:?}, {depth} at a time, {think} ns: {had:?}");
            assert!(had[1..].iter().all(|(_, writes)| (9..=11).contains(writes)), "{case}");
            assert!(had.iter().all(|(reads, writes)| reads + writes >= 40), "{case}");
            assert_eq!(lab.reserved[0].kept(), (PERIODS, PERIODS), "{case}");
        }
    }
}

/// Waits of a tenant's writes for memory that others hold, or for the tenant's own data, are the cause of its misses.
#[test]
fn f3_wait_for_memory_or_data_is_named() {
    let writer = |host: Host| Host { bytes: 1 << 20, write: true, ..host };
    for (reserved, memory, sends, depth) in
        [(200, 8 << 20, 0, 16), (30, 1 << 30, 500 * MS, 4), (30, 1 << 30, 3 * SECOND, 1)]
    {
        let hosts = [tenant(depth, 0)].into_iter().chain(flood(5, 64, 0)).map(writer).collect();
        let mut lab = Lab::new(flash(2 * MS, 4), reserved, hosts).with_memory(memory, sends);
        lab.run(6);
        let (missed, had) = (lab.reserved[0].missed(), lab.had(0, 6));
        assert_eq!(lab.reserved[0].kept(), (6, 0), "{sends}: {had:?}");
        assert!(missed.by(Cause::Data) >= 5, "{memory}, {sends}: {missed:?}, {had:?}");
    }
}

/// A disk that orders commands by place holds one of another host for three periods, and then one of the tenant: in
/// the first three the tenant's command waits for its turn, in the others the device has it.
#[test]
fn f3_standstill_names_place_of_command() {
    let model = Model { service: 3 * SECOND, channels: 1, seeks: true, window: 1, reactors: 1 };
    let profile = Overrides { mean: Some(Nanos(8 * MS)), seeks: true, ..Overrides::default() };
    let rules = DeviceRules { window: WindowRule::Fixed(1), profile, containers: by_place(8) };
    let hosts = vec![tenant(1, 0), flood(1, 1, 0).remove(0)];
    let device = Arc::new(Device::new(rules, 1));
    let mut lab = Lab::on(model, device, &[(10, SessionSpec::default())], hosts);
    lab.run(12);
    let missed = lab.reserved[0].missed();
    // The last of three periods has the completion.
    assert!(missed.by(Cause::Order) >= 3 && missed.by(Cause::Device) >= 3, "{missed:?}");
    assert_eq!(lab.logs.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
}
