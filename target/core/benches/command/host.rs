//! The host's end of a connection, over TCP or RDMA: none of it is counted.

use fabric::nvme::Sqe;
use fabric::queue::{HostReceived, HostTransport, Inbox as _};
use fabric::tcp::HostParams;
use sluice_core::testing::wire::{
    Batch, Carrier, Down, HostEnd, Up, Written, host_over_rdma, host_over_tcp,
};

/// The size in bytes of the part that a command of a queue pair has of its host's memory.
const PART: u32 = 1 << 20;

/// The host's end.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) end: HostEnd,
    /// What it has sent and its target has not received.
    pub(crate) up: Up,
    carrier: Carrier,
    /// Commands that were answered, and the result of the last one.
    pub(crate) answered: u32,
    pub(crate) result: u64,
}

impl Host {
    pub(crate) fn new(carrier: Carrier) -> Self {
        let end = match carrier {
            Carrier::Tcp => host_over_tcp(HostParams::default()),
            Carrier::Rdma => host_over_rdma(PART, true),
        };
        Self { end, up: Up::new(carrier), carrier, answered: 0, result: 0 }
    }

    /// Submits a command.
    pub(crate) fn submit(&mut self, sqe: Sqe, data: Option<Written>, reads: u32) {
        self.end.submit(sqe, data, reads).expect("the host has room");
    }

    /// Sends what it has to send.
    pub(crate) fn send(&mut self) {
        self.up.fill(&mut self.end, usize::MAX);
    }

    /// Takes a batch of the target.
    pub(crate) fn take(&mut self, batch: &mut Batch) {
        let (mut down, mut sent, mut all) = (Down::new(self.carrier), 0, false);
        while !all {
            all = down.fill(batch, usize::MAX, &mut sent);
            let units = down.take(usize::MAX);
            let mut input = units.kept();
            while let Some(event) = self.end.next(&mut input).expect("the target keeps the rules") {
                if let HostReceived::Response { cqe, .. } = event {
                    assert!(cqe.status().is_success(), "{}", cqe.status());
                    (self.answered, self.result) = (self.answered + 1, cqe.result.get());
                }
            }
        }
    }
}
