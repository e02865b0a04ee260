//! The host of these tests, under one name. A target that breaks the rules fails the test.

use std::net::SocketAddr;

use fabric::host::commands;
use fabric::nvme::{Sqe, Status};
pub(crate) use hostile::commands::{io, pattern};
use hostile::{Answer, Identity, Raw};

pub(crate) const NQN: &str = "nqn.2026-01.io.sluicegate:test";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000abcd";

/// Returns the names by which the host connects.
fn identity() -> Identity {
    Identity { subsystem: NQN.to_owned(), host: HOST.to_owned(), host_id: [7; 16] }
}

/// Returns the Connect data.
pub(crate) fn connect_data(cntlid: u16) -> Vec<u8> {
    identity().connect_data(cntlid)
}

/// One queue.
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

    /// Says whether the target has sent anything that was not read yet.
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

/// Connects queue `qid` of controller `cntlid`, whose PDUs are then written by hand.
pub(crate) fn connect_raw(address: SocketAddr, qid: u16, cntlid: u16) -> Raw {
    Raw::connect(address, &identity(), qid, cntlid).unwrap().0
}

/// Returns a deallocation of blocks of namespace 1, and its data.
pub(crate) fn deallocate(lba: u64, blocks: u32) -> (Sqe, Vec<u8>) {
    commands::deallocate(1, lba, blocks)
}
