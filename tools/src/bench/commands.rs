//! The commands that the initiator sends (NVMe base 2.0 and NVM command set 1.0).

use arbitration::Class;
use fabric::nvme::{Sqe, opcode};
use zerocopy::little_endian::U32;

/// Length of the Connect data, bytes.
const CONNECT_DATA: usize = 1024;

/// Identify: CNS values.
pub(crate) const CNS_NAMESPACE: u8 = 0;
pub(crate) const CNS_CONTROLLER: u8 = 1;

/// Property offsets.
pub(crate) const CAP: u32 = 0x00;
pub(crate) const CC: u32 = 0x14;
pub(crate) const CSTS: u32 = 0x1c;

/// CC: EN (bit 0), IOSQES 19:16 = 6 (64 bytes), IOCQES 23:20 = 4 (16 bytes).
pub(crate) const CC_ENABLE: u32 = 1 | 6 << 16 | 4 << 20;
/// CC.AMS, bits 13:11: 001b, weighted round robin with urgent priority class.
pub(crate) const CC_WRR: u32 = 1 << 11;
/// CAP.AMS, bits 18:17: bit 17, the controller can do that.
pub(crate) const CAP_WRR: u64 = 1 << 17;
/// CC.SHN, bits 15:14: 01b, normal shutdown.
pub(crate) const CC_SHUTDOWN: u32 = 1 << 14;

fn fabrics(fctype: u8) -> Sqe {
    // FCTYPE is byte 4, where other commands have the low byte of the namespace identifier.
    Sqe { opcode: opcode::FABRICS, nsid: U32::new(u32::from(fctype)), ..Sqe::default() }
}

/// CATTR bits 1:0: the priority class of a queue. 0, Urgent, is also what hosts send that know
/// nothing of classes: it counts only while CC.AMS is weighted round robin.
fn cattr(class: Option<Class>) -> u32 {
    match class {
        Some(Class::Urgent) | None => 0,
        Some(Class::High) => 1,
        Some(Class::Medium) => 2,
        Some(Class::Low) => 3,
    }
}

/// Connect for queue `qid` with `sqsize` + 1 entries and a priority class, without submission
/// queue flow control.
pub(crate) fn connect(qid: u16, sqsize: u16, kato_ms: u32, class: Option<Class>) -> Sqe {
    /// CATTR (byte 46) bit 2.
    const DISABLE_SQ_FLOW_CONTROL: u32 = 1 << 2 << 16;
    Sqe {
        cdw10: U32::new(u32::from(qid) << 16),
        cdw11: U32::new(u32::from(sqsize) | DISABLE_SQ_FLOW_CONTROL | cattr(class) << 16),
        cdw12: U32::new(kato_ms),
        ..fabrics(opcode::fabrics::CONNECT)
    }
}

/// The Connect data: HOSTID 15:0, CNTLID 17:16, SUBNQN 511:256, HOSTNQN 767:512.
pub(crate) fn connect_data(host_id: [u8; 16], cntlid: u16, nqn: &str, hostnqn: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(CONNECT_DATA);
    data.extend(host_id);
    data.extend(cntlid.to_le_bytes());
    data.resize(256, 0);
    data.extend(nqn.bytes().take(223));
    data.resize(512, 0);
    data.extend(hostnqn.bytes().take(223));
    data.resize(CONNECT_DATA, 0);
    data
}

/// Property Get; `eight` for a property of 8 bytes.
pub(crate) fn property_get(offset: u32, eight: bool) -> Sqe {
    Sqe {
        cdw10: U32::new(u32::from(eight)),
        cdw11: U32::new(offset),
        ..fabrics(opcode::fabrics::PROPERTY_GET)
    }
}

/// Property Set of a property of 4 bytes.
pub(crate) fn property_set(offset: u32, value: u32) -> Sqe {
    Sqe {
        cdw11: U32::new(offset),
        cdw12: U32::new(value),
        ..fabrics(opcode::fabrics::PROPERTY_SET)
    }
}

/// Identify.
pub(crate) fn identify(cns: u8, nsid: u32) -> Sqe {
    Sqe {
        opcode: opcode::admin::IDENTIFY,
        nsid: U32::new(nsid),
        cdw10: U32::new(u32::from(cns)),
        ..Sqe::default()
    }
}

/// Set Features, Number of Queues (07h): `queues` I/O queues.
pub(crate) fn set_number_of_queues(queues: u16) -> Sqe {
    let zero_based = u32::from(queues.saturating_sub(1));
    Sqe {
        opcode: opcode::admin::SET_FEATURES,
        cdw10: U32::new(0x07),
        cdw11: U32::new(zero_based << 16 | zero_based),
        ..Sqe::default()
    }
}

/// Keep Alive.
pub(crate) fn keep_alive() -> Sqe {
    Sqe { opcode: opcode::admin::KEEP_ALIVE, ..Sqe::default() }
}

/// Read or Write of `blocks` logical blocks from `slba`.
#[inline]
pub(crate) fn transfer(write: bool, nsid: u32, slba: u64, blocks: u32, cdw13: u32) -> Sqe {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = slba.to_le_bytes();
    Sqe {
        opcode: if write { opcode::io::WRITE } else { opcode::io::READ },
        nsid: U32::new(nsid),
        cdw10: U32::from_bytes([b0, b1, b2, b3]),
        cdw11: U32::from_bytes([b4, b5, b6, b7]),
        cdw12: U32::new(blocks.saturating_sub(1)),
        cdw13: U32::new(cdw13),
        ..Sqe::default()
    }
}
