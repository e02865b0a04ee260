//! The host of these tests, under one name. A target that breaks the rules fails the test.

use std::net::SocketAddr;

use fabric::host::commands;
use fabric::nvme::{Sqe, Status, opcode};
pub(crate) use hostile::commands::{io, pattern};
use hostile::{Answer, Identity, Raw};
use zerocopy::little_endian::U32;

pub(crate) const NQN: &str = "nqn.2026-01.io.sluicegate:test";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000abcd";

pub(crate) fn free_address() -> SocketAddr {
    hostile::free_address().unwrap()
}

/// Returns the names by which the host connects.
pub(crate) fn identity() -> Identity {
    Identity { subsystem: NQN.to_owned(), host: HOST.to_owned(), host_id: [7; 16] }
}

pub(crate) fn connect_data(cntlid: u16) -> Vec<u8> {
    identity().connect_data(cntlid)
}

pub(crate) struct Queue(hostile::Queue);

impl Queue {
    /// Connects queue `qid` of controller `cntlid`.
    pub(crate) fn connect(address: SocketAddr, qid: u16, cntlid: u16) -> (Self, u16) {
        let (queue, id) = hostile::Queue::connect(address, &identity(), qid, cntlid).unwrap();
        (Self(queue), id)
    }

    /// Returns an enabled controller: its admin queue and its identifier.
    pub(crate) fn controller(address: SocketAddr) -> (Self, u16) {
        let (admin, id) = hostile::Queue::controller(address, &identity()).unwrap();
        (Self(admin), id)
    }

    /// Sends a command without waiting.
    pub(crate) fn submit(&mut self, sqe: Sqe, data: Option<Vec<u8>>, read: u32) -> u16 {
        self.0.submit(sqe, data, read).unwrap()
    }

    /// Waits for a command's status, result and data.
    pub(crate) fn wait(&mut self, cid: u16) -> (Status, u64, Vec<u8>) {
        let Answer { status, result, data } = self.0.wait(cid).unwrap();
        (status, result, data)
    }

    /// Reads blocks of 4096 bytes.
    pub(crate) fn read(&mut self, nsid: u32, lba: u32, blocks: u32) -> Vec<u8> {
        let sqe = on(nsid, io(opcode::io::READ, lba, blocks));
        let (status, _, data) = self.call(sqe, None, blocks * 4096);
        assert!(status.is_success(), "read of {blocks} blocks at {lba}: {status}");
        data
    }

    /// Reads one block. Returns the status.
    pub(crate) fn try_read(&mut self, nsid: u32, lba: u32) -> Status {
        self.call(on(nsid, io(opcode::io::READ, lba, 1)), None, 4096).0
    }

    /// Sends a read of namespace 1 without waiting.
    pub(crate) fn submit_read(&mut self, lba: u32, blocks: u32) -> u16 {
        self.submit(io(opcode::io::READ, lba, blocks), None, blocks * 4096)
    }

    /// Writes blocks of 4096 bytes.
    pub(crate) fn write(&mut self, nsid: u32, lba: u32, data: Vec<u8>) {
        let blocks = u32::try_from(data.len() / 4096).unwrap();
        let (status, ..) = self.call(on(nsid, io(opcode::io::WRITE, lba, blocks)), Some(data), 0);
        assert!(status.is_success(), "write of {blocks} blocks at {lba}: {status}");
    }

    /// Sends a write of blocks of pattern 1 without waiting.
    pub(crate) fn submit_write(&mut self, nsid: u32, lba: u32, blocks: u32) -> u16 {
        let write = on(nsid, io(opcode::io::WRITE, lba, blocks));
        self.submit(write, Some(pattern(lba, blocks, 1)), 0)
    }

    /// Aborts a command of queue 1 in time, by the admin queue.
    pub(crate) fn abort(&mut self, cid: u16) {
        let cdw10 = U32::new(1 | u32::from(cid) << 16);
        let abort = Sqe { opcode: opcode::admin::ABORT, cdw10, ..Sqe::default() };
        let (status, result, _) = self.call(abort, None, 0);
        assert!(status.is_success() && result & 1 == 0, "the abort says that it aborted: {result}");
    }

    /// Waits for commands, which all succeed.
    pub(crate) fn complete(&mut self, cids: impl IntoIterator<Item = u16>) {
        for cid in cids {
            let (status, ..) = self.wait(cid);
            assert!(status.is_success(), "{status}");
        }
    }

    /// Returns whether the target has sent anything not read yet.
    pub(crate) fn has_answers(&self) -> bool {
        self.0.has_answers().unwrap()
    }

    /// Sends a command and waits for its status, result and data.
    pub(crate) fn call(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read: u32,
    ) -> (Status, u64, Vec<u8>) {
        let cid = self.submit(sqe, data, read);
        self.wait(cid)
    }
}

/// Connects a host: its admin queue, and I/O queues 1 to N.
pub(crate) fn connected<const N: usize>(address: SocketAddr) -> (Queue, [Queue; N]) {
    let (admin, id) = Queue::controller(address);
    let connect = |index: usize| Queue::connect(address, u16::try_from(index + 1).unwrap(), id).0;
    (admin, std::array::from_fn(connect))
}

/// Sends a command to another namespace than the first.
pub(crate) fn on(nsid: u32, sqe: Sqe) -> Sqe {
    Sqe { nsid: U32::new(nsid), ..sqe }
}

/// Connects queue `qid` of controller `cntlid`, whose PDUs are then written by hand.
pub(crate) fn connect_raw(address: SocketAddr, qid: u16, cntlid: u16) -> Raw {
    Raw::connect(address, &identity(), qid, cntlid).unwrap().0
}

/// Makes the only H2CData PDU of a command, without digests.
pub(crate) fn h2c_data(cid: u16, tag: u16, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let mut pdu = vec![6, 4, 24, 24];
    pdu.extend((24 + length).to_le_bytes());
    pdu.extend([cid, tag].map(u16::to_le_bytes).concat());
    pdu.extend([0, length, 0].map(u32::to_le_bytes).concat());
    pdu.extend(data);
    pdu
}

/// Returns a deallocation of blocks of namespace 1, and its data.
pub(crate) fn deallocate(lba: u64, blocks: u32) -> (Sqe, Vec<u8>) {
    commands::deallocate(1, lba, blocks)
}
