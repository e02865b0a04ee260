//! The Arbitration feature of a host with weighted round robin, which orders its own queues within
//! its part of a device.

use arbitration::Class;
use fabric::host::commands;
use fabric::nvme::{Sqe, Status, opcode};
use fabric::tcp::HostParams;

use super::rig::{self, DRIVE, Plan, Rig, of_class};

/// Sends reads of the drive that name the class Medium, in a queue of any class.
fn read(rig: &mut Rig, peer: usize, commands: usize) {
    let read = of_class(Class::Medium, rig::read(DRIVE, 0, 1));
    (0..commands).for_each(|_| _ = rig.queue(peer, read, None, 512));
    rig.run();
}

/// Ends commands one after the other. Returns how many of them came from each of these queues.
fn serve<const N: usize>(rig: &mut Rig, commands: usize, peers: [usize; N]) -> [usize; N] {
    let answered = |rig: &Rig| peers.map(|peer| rig.peers[peer].order.len());
    let before = answered(rig);
    assert!((0..commands).all(|_| rig.end_oldest()), "the drive is never idle");
    let after = answered(rig);
    std::array::from_fn(|peer| after[peer] - before[peer])
}

#[test]
fn a_hosts_weights_order_its_own_queues_and_change_no_other_hosts_part() {
    // Without weighted round robin, in order of arrival; with it, by the weights.
    let run = |weights: Option<u32>| {
        let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
        let queues = [Class::High, Class::Medium, Class::Low];
        let (admin, queues) = rig.add_host_with(weights.is_some(), queues);
        if let Some(weights) = weights {
            let set = commands::set_feature(0x01, weights);
            assert_eq!(rig.call(admin, set, None, 0).0, Status::SUCCESS);
        }
        let [high, medium, low] = queues;
        for peer in [1, low, medium, high] {
            read(&mut rig, peer, 120);
        }
        serve(&mut rig, 160, [1, high, medium, low])
    };
    let plain = run(None);
    assert_eq!(plain[1..], [0, 0, 80], "the queue that came first");
    for (weights, parts) in [(0x0502_0000, [48, 24, 8]), (0x0000_0000, [27, 27, 27])] {
        let had = run(Some(weights));
        assert_eq!(had[0], plain[0], "the other host");
        for (had, part) in had[1..].iter().zip(parts) {
            // The first command of all was in the drive before the others came.
            assert!(had.abs_diff(part) <= 2, "{weights:#x}: {had}, not {part}");
        }
    }
}

#[test]
fn weights_hold_at_once_for_queues_that_are_there_and_for_those_that_come() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let (admin, [high, low]) = rig.add_host_with(true, [Class::High, Class::Low]);
    let set = |rig: &mut Rig, weights| {
        let set = commands::set_feature(0x01, weights);
        assert_eq!(rig.call(admin, set, None, 0).0, Status::SUCCESS);
        let get = Sqe { opcode: opcode::admin::GET_FEATURES, ..commands::set_feature(0x01, 0) };
        assert_eq!(rig.call(admin, get, None, 0).1, u64::from(weights));
    };
    set(&mut rig, 0x0700_0000);
    read(&mut rig, high, 120);
    read(&mut rig, low, 120);
    let [of_high, of_low] = serve(&mut rig, 40, [high, low]);
    assert!(of_high.abs_diff(35) <= 2, "{of_high} and {of_low}");
    set(&mut rig, 0x0000_0700);
    let [of_high, of_low] = serve(&mut rig, 40, [high, low]);
    assert!(of_high.abs_diff(5) <= 2, "{of_high} and {of_low}");
    // A queue that connects now has the weights that hold now, or goes first.
    let another = rig.connect(3, HostParams::default(), Some(Class::High));
    read(&mut rig, another, 20);
    let had = serve(&mut rig, 36, [high, another, low]);
    assert!(had[0].abs_diff(2) <= 1 && had[1].abs_diff(2) <= 1, "{had:?}");
    let urgent = rig.connect(4, HostParams::default(), Some(Class::Urgent));
    read(&mut rig, urgent, 20);
    let had = serve(&mut rig, 20, [urgent, low]);
    assert!(had[0] >= 19, "{had:?}");
}

#[test]
fn weights_are_refused_without_weighted_round_robin() {
    let mut rig = Rig::new(&Plan::default());
    let (status, _) = rig.call(0, commands::set_feature(0x01, 0x0502_0100), None, 0);
    assert_eq!(status, Status::FEATURE_NOT_CHANGEABLE.dnr().more());
}
