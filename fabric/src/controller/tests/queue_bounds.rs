//! Hosts that do not honour Command Retry Delays, and the size of their queues.

use super::users::{self, save};
use super::*;

fn mqes(bench: &mut Bench, admin: ConnectionId) -> u64 {
    bench.ok(admin, &property_get(0, 1)) & 0xffff
}

#[test]
fn host_without_acre_is_remembered() {
    let mut bench = Bench::new();
    let (_, first) = bench.admin_queue(0);
    assert_eq!(first.without_acre, None, "nothing is known of it");
    bench.io_queue(1, first.controller.0);
    bench.io_queue(2, first.controller.0);
    let hosts = bench.service.hosts_without_acre();
    let [host] = &hosts[..] else { panic!("one host: {hosts:?}") };
    assert_eq!((host.host.as_str(), host.subsystem.as_str()), (HOST, SUBSYSTEM));
    assert_eq!((host.commands, &host.nsids[..]), (64, &[1][..]));
    let (admin, second) = bench.admin_queue(0);
    assert_eq!(second.without_acre, Some(2), "it had two queues");
    bench.set_acre(admin);
    bench.io_queue(1, second.controller.0);
    assert_eq!(bench.service.hosts_without_acre().len(), 1, "the first controller");
    let (_, third) = bench.admin_queue(0);
    assert_eq!(third.without_acre, None, "it honours the delays now");
}

#[test]
fn host_without_acre_is_remembered_by_the_next_process() {
    let mut before = users::bench();
    let (_, first) = before.admin_queue(0);
    before.io_queue(1, first.controller.0);
    before.io_queue(2, first.controller.0);
    save(&mut before);
    let restart = |before: &Bench| {
        let mut after = users::bench();
        after
            .service
            .restore_hosts(after.now, before.service.users.saved.clone().into_iter().collect());
        after
    };
    let mut after = restart(&before);
    let (admin, second) = after.admin_queue(0);
    assert_eq!(second.without_acre, Some(2), "it had two queues");
    after.set_acre(admin);
    after.io_queue(1, second.controller.0);
    save(&mut after);
    let (_, third) = restart(&after).admin_queue(0);
    assert_eq!(third.without_acre, None, "it honours the delays now");
}

#[test]
fn queue_sizes_may_differ_between_controllers() {
    let (mut bench, admin, connected) = Bench::connected();
    assert_eq!(mqes(&mut bench, admin), 127);
    bench.service.bound_queues(connected.controller, 16);
    assert_eq!(mqes(&mut bench, admin), 15);
    bench.ok(admin, &identify(1, 0));
    assert_eq!(bench.out[514..516], [16, 0], "MAXCMD");
    let mut connect = Connect::new(SUBSYSTEM, 1, connected.controller.0);
    connect.command.sqsize = U16::new(16);
    assert_eq!(connect.refused(&mut bench).reason, Refusal::QueueSize);
    connect.command.sqsize = U16::new(15);
    assert_eq!(connect.accepted(&mut bench).1.entries, 16);
    bench.service.bound_queues(connected.controller, 0);
    assert_eq!(mqes(&mut bench, admin), 1, "a queue has two entries at least");
    let (other, _) = bench.admin_queue(0);
    assert_eq!(mqes(&mut bench, other), 127);
}
