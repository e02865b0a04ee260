//! The rights of hosts, while they change: which namespaces their commands reach, that a reader's commands write
//! nothing, and that no command has a higher class than its host may have.

use arbitration::{Class, PerClass};
use fabric::controller::{AllowedHost, HostRights};
use fabric::nvme::{Sqe, Status, opcode};
use proptest::prelude::*;

use super::rig::{DRIVE, MEMORY, NQN, Plan, Rig, io, kind, of_class, read, write};

/// The name of the first host.
const HOST: &str = "nqn.2026-01.io:host1";

/// Sets the first host's rights.
fn allow(rig: &mut Rig, rights: HostRights) {
    let host = AllowedHost { rights, ..HOST.into() };
    rig.serve(|now, service| {
        let known = service.set_host(now, NQN, host.clone());
        known.or_else(|_| service.add_host(now, NQN, host)).unwrap();
    });
}

fn most(class: Class) -> HostRights {
    HostRights { max_class: Some(class), ..HostRights::default() }
}

/// Makes a command with this opcode, whose lowest bits name the direction of its data.
fn any_command(opcode: u8, nsid: u32, lba: u64, blocks: u32) -> (Sqe, Option<Vec<u8>>, u32) {
    let data = (opcode & 0b11 == 1).then(|| vec![9; blocks as usize * 512]);
    let reads = if opcode & 0b11 == 2 { blocks * 512 } else { 0 };
    (io(opcode, nsid, lba, blocks), data, reads)
}

proptest! {
    #[test]
    fn nothing_that_a_reader_sends_writes(
        commands in prop::collection::vec((any::<u8>(), 0u64..16, 1u32..64, any::<bool>()), 1..24),
        known in prop::sample::select(vec![
            opcode::io::WRITE, opcode::io::WRITE_ZEROES, opcode::io::DATASET_MANAGEMENT,
        ]),
        stages in any::<bool>(),
    ) {
        let mut rig = Rig::new(&Plan { stages, ..Plan::default() });
        for nsid in [MEMORY, DRIVE] {
            rig.submit(1, write(nsid, 0, 80), Some(vec![7; 80 * 512]), 0);
            while rig.end_oldest() {}
        }
        allow(&mut rig, HostRights { read_only: true, ..HostRights::default() });
        for (any, lba, blocks, drive) in commands {
            let nsid = if drive { DRIVE } else { MEMORY };
            for opcode in [any, known] {
                let (mut sqe, data, reads) = any_command(opcode, nsid, lba, blocks);
                if opcode == opcode::io::DATASET_MANAGEMENT {
                    // One range, and the bit that deallocates.
                    (sqe.cdw10, sqe.cdw11, sqe.cdw12) = (0.into(), 4.into(), 0.into());
                }
                let cid = rig.submit(1, sqe, data, reads);
                while rig.end_oldest() {}
                let refused = rig.answer(1, cid) == Some(Status::WRITE_PROTECTED.dnr().more());
                prop_assert!(refused || opcode != known, "{:?}", rig.answer(1, cid));
            }
        }
        allow(&mut rig, HostRights::default());
        for nsid in [MEMORY, DRIVE] {
            prop_assert!(rig.content(1, nsid, 0, 80) == [7; 80 * 512], "what was written stays");
        }
    }

    #[test]
    fn no_command_reaches_a_namespace_that_its_host_does_not_see(
        opcodes in prop::collection::vec(any::<u8>(), 1..24),
    ) {
        let mut rig = Rig::new(&Plan::default());
        allow(&mut rig, HostRights { namespaces: Some([MEMORY].into()), ..HostRights::default() });
        for opcode in opcodes.into_iter().filter(|opcode| *opcode != opcode::FABRICS) {
            let (sqe, data, reads) = any_command(opcode, DRIVE, 0, 1);
            let cid = rig.submit(1, sqe, data, reads);
            // The More bit says that the log has an entry, of which there are some in a second.
            let status = rig.answer(1, cid).map(kind);
            prop_assert_eq!(status, Some(kind(Status::INVALID_NAMESPACE)), "{}", opcode);
        }
        prop_assert!(!rig.end_oldest(), "the drive was given nothing");
        prop_assert_eq!(rig.call(1, read(MEMORY, 0, 1), None, 512).0, Status::SUCCESS);
    }

    #[test]
    fn a_command_has_the_class_that_it_names_up_to_the_highest_of_its_host(
        steps in prop::collection::vec((0usize..4, 0usize..4, any::<bool>()), 1..12),
        stages in any::<bool>(),
    ) {
        let mut rig = Rig::new(&Plan { stages, ..Plan::default() });
        let (mut expected, mut lowered) = (PerClass::from_fn(|_| 0), PerClass::from_fn(|_| 0));
        for (named_class, highest, drive) in steps {
            let (asked, highest) = (Class::ALL[named_class], Class::ALL[highest]);
            allow(&mut rig, most(highest));
            let nsid = if drive { DRIVE } else { MEMORY };
            rig.submit(1, of_class(asked, read(nsid, 0, 1)), None, 512);
            while rig.end_oldest() {}
            expected[asked.min(highest)] += 1;
            lowered[asked] += u64::from(asked > highest);
        }
        let counted = PerClass::from_fn(|class| {
            rig.core.driver().classes[class].snapshot().read.ops
        });
        prop_assert_eq!(counted, expected);
        prop_assert_eq!(rig.stats(1).lowered, lowered);
    }
}

#[test]
fn commands_that_wait_have_the_class_that_their_host_may_have_when_their_turn_comes() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let high = |lba| of_class(Class::High, read(DRIVE, lba, 1));
    (0..3).for_each(|lba| _ = rig.submit(1, high(lba), None, 512));
    allow(&mut rig, most(Class::Low));
    // Any input makes the queue check its rights again.
    rig.call(1, read(MEMORY, 0, 1), None, 512);
    while rig.end_oldest() {}
    let reads = |rig: &mut Rig, class| rig.core.driver().classes[class].snapshot().read.ops;
    assert_eq!(reads(&mut rig, Class::High), 1, "the one that was in the drive");
    assert_eq!(reads(&mut rig, Class::Low), 3);
}

#[test]
fn a_connection_has_no_higher_class_than_its_host_may_have() {
    let mut rig = Rig::new(&Plan::default());
    let dscp = PerClass { urgent: 46, high: 34, medium: 18, low: 8 };
    rig.change_rules(|rules| {
        (rules.class, rules.dscp, rules.mark) = (Some(Class::High), dscp, true);
    });
    let marked = |rig: &mut Rig| {
        rig.call(1, read(MEMORY, 0, 1), None, 512);
        let dscps = std::mem::take(&mut rig.dscps);
        dscps.into_iter().map(|(_, dscp, _)| dscp).collect::<Vec<u8>>()
    };
    assert_eq!(marked(&mut rig), [34]);
    allow(&mut rig, most(Class::Medium));
    assert_eq!(marked(&mut rig), [18]);
    allow(&mut rig, HostRights::default());
    assert_eq!(marked(&mut rig), [34]);
    assert_eq!(marked(&mut rig), []);
}
