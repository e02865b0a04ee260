//! The commands that a host sends (NVMe base 2.0 and NVM command set 1.0).

use units::Class;
use zerocopy::little_endian::U32;

use crate::fabrics::{AuthCommand, CONNECT_DATA_BYTES, NQN_MAX};
use crate::nvm::LbaRange;
use crate::nvme::feature::{HOST_BEHAVIOR_SIZE, fid};
use crate::nvme::region::{GetRegion, RegionName, RegionRights};
use crate::nvme::{Sqe, opcode};

/// CC: EN (bit 0), IOSQES 19:16 = 6 (64 bytes), IOCQES 23:20 = 4 (16 bytes).
pub const CC_ENABLE: u32 = 1 | CC_ENTRY_SIZES;
/// CC: the entry sizes alone.
pub const CC_ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;
/// CC.AMS, bits 13:11: 001b, weighted round robin with urgent priority class.
pub const CC_WEIGHTED_ROUND_ROBIN: u32 = 1 << 11;
/// CC.SHN, bits 15:14: 01b, normal shutdown.
pub const CC_SHUTDOWN: u32 = 1 << 14;

fn fabrics(fctype: u8) -> Sqe {
    // FCTYPE is byte 4, where other commands have the low byte of the namespace identifier.
    Sqe { opcode: opcode::FABRICS, nsid: U32::new(u32::from(fctype)), ..Sqe::default() }
}

/// Encodes the priority class of a queue in CATTR bits 1:0. 0, Urgent, is also what hosts without
/// classes send: it counts only while CC.AMS is weighted round robin.
fn cattr(class: Option<Class>) -> u32 {
    match class {
        Some(Class::Urgent) | None => 0,
        Some(Class::High) => 1,
        Some(Class::Medium) => 2,
        Some(Class::Low) => 3,
    }
}

/// CATTR (byte 46) bit 2, in command dword 11 of Connect.
const DISABLE_SQ_FLOW_CONTROL: u32 = 1 << 2 << 16;

/// Makes Connect for queue `qid` with `sqsize` + 1 entries and a priority class, without submission
/// queue flow control.
#[must_use]
pub fn connect(qid: u16, sqsize: u16, kato_ms: u32, class: Option<Class>) -> Sqe {
    Sqe {
        cdw10: U32::new(u32::from(qid) << 16),
        cdw11: U32::new(u32::from(sqsize) | DISABLE_SQ_FLOW_CONTROL | cattr(class) << 16),
        cdw12: U32::new(kato_ms),
        ..fabrics(opcode::fabrics::CONNECT)
    }
}

/// Has a Connect use submission queue flow control: each completion then names the head of the queue, so that the
/// controller answers each command with a response capsule.
pub fn use_sq_flow_control(connect: &mut Sqe) {
    connect.cdw11 = U32::new(connect.cdw11.get() & !DISABLE_SQ_FLOW_CONTROL);
}

/// Makes the Connect data: HOSTID 15:0, CNTLID 17:16, SUBNQN 511:256, HOSTNQN 767:512.
#[must_use]
pub fn connect_data(host_id: [u8; 16], cntlid: u16, nqn: &str, hostnqn: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(CONNECT_DATA_BYTES as usize);
    data.extend(host_id);
    data.extend(cntlid.to_le_bytes());
    data.resize(256, 0);
    data.extend(nqn.bytes().take(NQN_MAX));
    data.resize(512, 0);
    data.extend(hostnqn.bytes().take(NQN_MAX));
    data.resize(CONNECT_DATA_BYTES as usize, 0);
    data
}

/// Makes Authentication Send of a message of `length` bytes.
#[must_use]
pub fn authentication_send(length: u32) -> Sqe {
    let [cdw10, cdw11] = AuthCommand::dwords(length);
    Sqe { cdw10, cdw11, ..fabrics(opcode::fabrics::AUTHENTICATION_SEND) }
}

/// Makes Authentication Receive of a message of up to `length` bytes.
#[must_use]
pub fn authentication_receive(length: u32) -> Sqe {
    let [cdw10, cdw11] = AuthCommand::dwords(length);
    Sqe { cdw10, cdw11, ..fabrics(opcode::fabrics::AUTHENTICATION_RECEIVE) }
}

/// Makes Property Get; `eight` for a property of 8 bytes.
#[must_use]
pub fn property_get(offset: u32, eight: bool) -> Sqe {
    Sqe {
        cdw10: U32::new(u32::from(eight)),
        cdw11: U32::new(offset),
        ..fabrics(opcode::fabrics::PROPERTY_GET)
    }
}

/// Makes Property Set of a property of 4 bytes.
#[must_use]
pub fn property_set(offset: u32, value: u32) -> Sqe {
    Sqe {
        cdw11: U32::new(offset),
        cdw12: U32::new(value),
        ..fabrics(opcode::fabrics::PROPERTY_SET)
    }
}

/// Makes Identify.
#[must_use]
pub fn identify(cns: u8, nsid: u32) -> Sqe {
    Sqe {
        opcode: opcode::admin::IDENTIFY,
        nsid: U32::new(nsid),
        cdw10: U32::new(u32::from(cns)),
        ..Sqe::default()
    }
}

/// Makes Set Features, Number of Queues (07h): `queues` I/O queues.
#[must_use]
pub fn set_number_of_queues(queues: u16) -> Sqe {
    let zero_based = u32::from(queues.saturating_sub(1));
    Sqe {
        opcode: opcode::admin::SET_FEATURES,
        cdw10: U32::new(u32::from(fid::QUEUES)),
        cdw11: U32::new(zero_based << 16 | zero_based),
        ..Sqe::default()
    }
}

/// Makes Set Features with a value in CDW11.
#[must_use]
pub fn set_feature(fid: u8, value: u32) -> Sqe {
    Sqe {
        opcode: opcode::admin::SET_FEATURES,
        cdw10: U32::new(u32::from(fid)),
        cdw11: U32::new(value),
        ..Sqe::default()
    }
}

/// Makes Set Features, Host Behavior Support (16h), of a host that honours retry delays (ACRE, byte 0),
/// and its data.
#[must_use]
pub fn honour_retry_delays() -> (Sqe, Vec<u8>) {
    let mut data = vec![1];
    data.resize(HOST_BEHAVIOR_SIZE, 0);
    (set_feature(fid::HOST_BEHAVIOR, 0), data)
}

/// Makes Asynchronous Event Request, which is completed when an event has happened.
#[must_use]
pub fn event_request() -> Sqe {
    Sqe { opcode: opcode::admin::ASYNC_EVENT_REQUEST, ..Sqe::default() }
}

/// Makes Keep Alive.
#[must_use]
pub fn keep_alive() -> Sqe {
    Sqe { opcode: opcode::admin::KEEP_ALIVE, ..Sqe::default() }
}

/// Makes Get Log Page of `bytes` bytes from `offset` of a page, both multiples of 4. Events stay masked.
#[must_use]
pub fn log_page(lid: u8, offset: u64, bytes: u32) -> Sqe {
    let dwords = (bytes / 4).saturating_sub(1);
    let [o0, o1, o2, o3, o4, o5, o6, o7] = offset.to_le_bytes();
    Sqe {
        opcode: opcode::admin::GET_LOG_PAGE,
        // LID 7:0, RAE 15, NUMDL 31:16.
        cdw10: U32::new(u32::from(lid) | 1 << 15 | (dwords & 0xffff) << 16),
        cdw11: U32::new(dwords >> 16),
        cdw12: U32::from_bytes([o0, o1, o2, o3]),
        cdw13: U32::from_bytes([o4, o5, o6, o7]),
        ..Sqe::default()
    }
}

/// Makes Get Region, vendor specific: asks for a region of persistent memory with a reservation in I/Os
/// per second, 0 for none. [`region_granted`](super::region_granted) reads the answer, whose data is
/// [`REGION_GRANT_SIZE`](crate::nvme::region::REGION_GRANT_SIZE) bytes.
#[must_use]
pub fn get_region(name: RegionName, rights: RegionRights, reservation: u32) -> Sqe {
    GetRegion { name, rights, reservation }.sqe()
}

/// Makes Dataset Management that deallocates `blocks` logical blocks from `slba`, and its data: one
/// range definition.
#[must_use]
pub fn deallocate(nsid: u32, slba: u64, blocks: u32) -> (Sqe, Vec<u8>) {
    let definition = LbaRange { lba: slba, blocks }.definition().to_vec();
    let sqe = Sqe {
        opcode: opcode::io::DATASET_MANAGEMENT,
        nsid: U32::new(nsid),
        // AD, bit 2: deallocate.
        cdw11: U32::new(1 << 2),
        ..Sqe::default()
    };
    (sqe, definition)
}

/// Makes Read or Write of `blocks` logical blocks from `slba`.
#[must_use]
#[inline]
pub fn transfer(write: bool, nsid: u32, slba: u64, blocks: u32, cdw13: u32) -> Sqe {
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
