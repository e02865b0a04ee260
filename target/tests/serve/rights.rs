//! The rights of hosts, through the whole daemon: while they are connected, on all their queues.

use fabric::host::commands;
use fabric::nvme::identify::cns;
use fabric::nvme::{Sqe, Status, opcode};
use sluice_config::{AllowedHost, HostRights};
use sluiced::serve::engine::{Engine, Loss};
use zerocopy::little_endian::U32;

use super::client::{HOST, NQN, Queue, connected, deallocate, io, pattern};
use super::{memory, target};

fn with(rights: HostRights) -> AllowedHost {
    AllowedHost { rights, ..HOST.into() }
}

#[test]
fn a_connected_host_is_held_to_its_rights_at_once_and_others_are_not() {
    let (runtime, address) = target(vec![memory(), memory()], 2);
    runtime.add_host(NQN, &HOST.into()).unwrap();
    let (mut admin, id) = Queue::controller(address);
    let mut queues = [1, 2].map(|qid| Queue::connect(address, qid, id).0);
    let write = |queue: &mut Queue, seed: u8| {
        queue.call(io(opcode::io::WRITE, 0, 8), Some(pattern(0, 8, seed)), 0).0
    };
    // Changes the host's rights, which takes some of them away.
    let set = |rights: HostRights| {
        let host = with(rights);
        let loss = Loss::Access { nqn: NQN, any: true, hosts: std::slice::from_ref(&host) };
        assert_eq!(runtime.hosts_hurt(&loss).connected, [HOST]);
        runtime.set_host(NQN, &host).unwrap();
    };
    assert_eq!(queues.each_mut().map(|queue| write(queue, 1)), [Status::SUCCESS; 2]);

    set(HostRights { read_only: true, ..HostRights::default() });
    let statuses = queues.each_mut().map(|queue| write(queue, 2));
    let (trim, ranges) = deallocate(0, 8);
    let trimmed = queues[0].call(trim, Some(ranges), 0).0;
    let zeroed = queues[1].call(io(opcode::io::WRITE_ZEROES, 0, 8), None, 0).0;
    for status in statuses.into_iter().chain([trimmed, zeroed]) {
        assert!(status.is(Status::WRITE_PROTECTED), "{status}");
    }
    assert!(queues[0].read(1, 0, 8) == pattern(0, 8, 1), "nothing was written");
    let mut identify =
        |nsid: u32| admin.call(commands::identify(cns::NAMESPACE, nsid), None, 4096).2;
    assert_eq!(identify(1)[99] & 1, 1, "NSATTR: write protected");

    set(HostRights { namespaces: Some([2].into()), ..HostRights::default() });
    for queue in &mut queues {
        assert!(write(queue, 3).is(Status::INVALID_NAMESPACE));
    }
    assert!(identify(1).iter().all(|byte| *byte == 0));
    assert_eq!(identify(2)[99] & 1, 0);

    let before = &runtime.subsystems()[0];
    assert_eq!(before.rights[HOST].namespaces.as_deref(), Some(&[2][..]));
    runtime.remove_host(NQN, HOST).unwrap();
    assert!(write(&mut queues[0], 4).is_success(), "as any host, which has all rights here");
    assert!(runtime.subsystems()[0].rights.is_empty());
}

#[test]
fn the_statistics_say_what_a_host_asked_for_and_did_not_get() {
    use arbitration::Class;
    let (runtime, address) = target(vec![memory()], 1);
    let host = with(HostRights { max_class: Some(Class::Medium), ..HostRights::default() });
    runtime.add_host(NQN, &host).unwrap();
    let (_admin, [mut queue]) = connected(address);
    let mut read = |bits: u32| {
        let sqe = Sqe { cdw13: U32::new(bits << 8), ..io(opcode::io::READ, 0, 1) };
        assert!(queue.call(sqe, None, 4096).0.is_success());
    };
    [1, 2, 2, 3].into_iter().for_each(&mut read);
    let of_host = || runtime.statistics().hosts.into_iter().find(|(host, ..)| host == HOST);
    let lowered = || of_host().map(|(_, _, io)| io.lowered).unwrap_or_default();
    super::eventually("they are counted", || lowered().high == 2 && lowered().urgent == 1);
    assert_eq!((lowered().medium, lowered().low), (0, 0));
    let reads = |class: Class| runtime.qos().classes[class].io.read.ops;
    super::eventually("they are Medium", || reads(Class::Medium) == 4);
    assert_eq!(reads(Class::High) + reads(Class::Urgent), 0);
    runtime.set_host(NQN, &HOST.into()).unwrap();
    read(2);
    super::eventually("it is High", || reads(Class::High) == 1);
    assert_eq!(lowered().high, 2);
}
