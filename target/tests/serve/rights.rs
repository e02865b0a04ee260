//! The rights of hosts, through the whole daemon: while they are connected, on all their queues.

use fabric::nvme::{Sqe, Status, opcode};
use sluice_config::{AllowedHost, HostRights};
use sluiced::serve::engine::{Engine, Loss};
use zerocopy::little_endian::U32;

use super::client::{HOST, NQN, Queue, connected, deallocate, io, pattern};
use super::{memory, target};

fn with(rights: HostRights) -> AllowedHost {
    AllowedHost { rights, ..HOST.into() }
}

/// Returns the status code with its type.
fn code(status: Status) -> u16 {
    status.bits() & 0x7ff
}

#[test]
fn a_connected_host_is_held_to_its_rights_at_once_and_others_are_not() {
    let (runtime, address) = target(vec![memory(), memory()], 2);
    runtime.add_host(NQN, &HOST.into()).unwrap();
    let (mut admin, id) = Queue::controller(address);
    let mut queues = [1, 2].map(|qid| Queue::connect(address, qid, id).0);
    let write = |queue: &mut Queue, seed: u8| {
        let status = queue.call(io(opcode::io::WRITE, 0, 8), Some(pattern(0, 8, seed)), 0).0;
        code(status)
    };
    assert_eq!(queues.each_mut().map(|queue| write(queue, 1)), [0, 0]);

    let reader = with(HostRights { read_only: true, ..HostRights::default() });
    let loss = Loss::Access { nqn: NQN, any: true, hosts: std::slice::from_ref(&reader) };
    assert_eq!(runtime.hosts_hurt(&loss).connected, [HOST], "it could write until now");
    runtime.set_host(NQN, &reader).unwrap();
    let refused = code(Status::WRITE_PROTECTED);
    assert_eq!(queues.each_mut().map(|queue| write(queue, 2)), [refused; 2]);
    let (trim, ranges) = deallocate(0, 8);
    assert_eq!(code(queues[0].call(trim, Some(ranges), 0).0), refused);
    assert_eq!(code(queues[1].call(io(opcode::io::WRITE_ZEROES, 0, 8), None, 0).0), refused);
    let read = |queue: &mut Queue| queue.call(io(opcode::io::READ, 0, 8), None, 8 * 4096).2;
    assert!(read(&mut queues[0]) == pattern(0, 8, 1), "nothing was written");
    let identify = |admin: &mut Queue, nsid: u32| {
        let identify = opcode::admin::IDENTIFY;
        let sqe = Sqe { opcode: identify, nsid: U32::new(nsid), ..Sqe::default() };
        admin.call(sqe, None, 4096).2
    };
    assert_eq!(identify(&mut admin, 1)[99] & 1, 1, "NSATTR: write protected");

    let other = with(HostRights { namespaces: Some([2].into()), ..HostRights::default() });
    assert_eq!(
        runtime
            .hosts_hurt(&Loss::Access { nqn: NQN, any: true, hosts: std::slice::from_ref(&other) })
            .connected,
        [HOST]
    );
    runtime.set_host(NQN, &other).unwrap();
    for queue in &mut queues {
        assert_eq!(write(queue, 3), code(Status::INVALID_NAMESPACE));
    }
    assert!(identify(&mut admin, 1).iter().all(|byte| *byte == 0));
    assert_eq!(identify(&mut admin, 2)[99] & 1, 0);

    let before = &runtime.subsystems()[0];
    assert_eq!(before.rights[HOST].namespaces.as_deref(), Some(&[2][..]));
    runtime.remove_host(NQN, HOST).unwrap();
    assert_eq!(write(&mut queues[0], 4), 0, "as any host, which has all rights here");
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
