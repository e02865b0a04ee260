//! The host's end of a connection, over TCP or RDMA: none of it is counted.

use std::rc::Rc;

use fabric::nvme::Sqe;
use fabric::queue::{Either, Fetch, HostReceived, HostTransport, Payload as _};
use fabric::rdma::wire::Post;
use fabric::rdma::wire::host_nic::{HostNic, Incoming};
use fabric::tcp::{HostConnection, HostParams};
use sluice_core::{Batch, DataPlace};
use zerocopy::IntoBytes as _;

use crate::machine::Machine;
use sluice_core::heap::HeapBuffer;

/// Commands of a queue pair that have a part of their host's memory, and its size in bytes.
const PARTS: usize = 128;
const PART: u32 = 1 << 20;

type Written = Rc<Vec<u8>>;

/// What a host has sent and its target has not received: bytes, or command capsules.
#[derive(Debug)]
pub(crate) enum Sent {
    Bytes(Vec<u8>),
    Capsules(Vec<Vec<u8>>),
}

impl Sent {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Capsules(capsules) => capsules.is_empty(),
        }
    }
}

/// The host's end.
#[derive(Debug)]
pub(crate) struct Host {
    end: Either<HostConnection<Written>, HostNic<Written>>,
    pub(crate) sent: Sent,
    /// Commands that were answered, and the result of the last one.
    pub(crate) answered: u32,
    pub(crate) result: u64,
}

impl Host {
    pub(crate) fn new(rdma: bool) -> Self {
        let (end, sent) = match rdma {
            true => (Either::Right(HostNic::new(PARTS, PART, true)), Sent::Capsules(Vec::new())),
            false => {
                let end = HostConnection::new(HostParams::default());
                (Either::Left(end), Sent::Bytes(Vec::new()))
            }
        };
        Self { end, sent, answered: 0, result: 0 }
    }

    /// Takes note of how much data a command capsule may have.
    pub(crate) fn set_in_capsule_data(&mut self, bytes: u32) {
        match &mut self.end {
            Either::Left(end) => end.set_in_capsule_data(bytes),
            Either::Right(end) => end.set_in_capsule_data(bytes),
        }
    }

    /// Submits a command.
    pub(crate) fn submit(&mut self, sqe: Sqe, data: Option<Written>, reads: u32) {
        let answer = match &mut self.end {
            Either::Left(end) => end.submit(sqe, data, reads),
            Either::Right(end) => end.submit(sqe, data, reads),
        };
        answer.expect("the host has room");
    }

    /// Sends what it has to send.
    pub(crate) fn send(&mut self) {
        match (&mut self.end, &mut self.sent) {
            (Either::Left(end), Sent::Bytes(sent)) => {
                let tx = end.tx();
                while tx.in_flight() || tx.begin() {
                    let before = sent.len();
                    tx.slices().for_each(|run| sent.extend_from_slice(run));
                    tx.advance(sent.len() - before);
                }
            }
            (Either::Right(end), Sent::Capsules(sent)) => end.take_capsules(sent),
            _ => panic!("a host has one transport"),
        }
    }

    /// Moves data from the host's memory to its place, as a device does. Returns the data without one.
    pub(crate) fn read(
        &mut self,
        fetch: &Fetch,
        place: Option<&mut DataPlace<HeapBuffer>>,
    ) -> Vec<u8> {
        let Either::Right(end) = &mut self.end else { panic!("data is read over RDMA") };
        let bytes = end.read(fetch.remote, fetch.length).expect("the host's memory");
        match place {
            Some(place) => {
                place.bytes_mut().copy_from_slice(&bytes);
                Vec::new()
            }
            None => bytes,
        }
    }

    /// Takes a batch of the target.
    pub(crate) fn take(&mut self, batch: &mut Batch<Machine>) {
        match (batch, &mut self.end) {
            (Either::Left(batch), Either::Left(end)) => {
                let mut bytes: Vec<u8> = Vec::new();
                batch.slices().for_each(|run| bytes.extend_from_slice(run));
                batch.advance(bytes.len());
                let mut input = &bytes[..];
                while let Some(event) = end.next(&mut input).expect("the target keeps the rules") {
                    note(event, &mut self.answered, &mut self.result);
                }
            }
            (Either::Right(batch), Either::Right(end)) => {
                let moved: Vec<Incoming> = batch
                    .posts
                    .iter()
                    .map(|post| match post {
                        Post::Data { payload, remote } => {
                            Incoming::Write(*remote, payload.bytes().to_vec())
                        }
                        Post::Response { cqe, invalidate } => {
                            Incoming::Response(cqe.as_bytes().to_vec(), *invalidate)
                        }
                    })
                    .collect();
                let mut input = &moved[..];
                while let Some(event) = end.next(&mut input).expect("the target keeps the rules") {
                    note(event, &mut self.answered, &mut self.result);
                }
            }
            _ => panic!("a batch is of its host's transport"),
        }
    }
}

fn note(event: HostReceived<'_>, answered: &mut u32, result: &mut u64) {
    if let HostReceived::Response { cqe, .. } = event {
        assert!(cqe.status().is_success(), "{}", cqe.status());
        (*answered, *result) = (*answered + 1, cqe.result.get());
    }
}
