//! A host's end of a queue pair, with the memory that the target's device reads and writes.

use fabric::queue::{HostReceived, HostTransport as _, Payload as _, Remote};
use fabric::rdma::wire::{COMMAND_BYTES, HostInput, HostPost, HostQueue, HostQueueParams};
use units::Nanos;
use zerocopy::IntoBytes as _;

use super::written::{LARGEST, Written};
use crate::connection::Connection;
use crate::network::Network;
use crate::pair::{ToHost, ToTarget};

/// The key and the address of a host's memory.
const MEMORY: Remote = Remote { address: 1 << 40, key: 1 };
/// The part of the memory that a command of an admin queue has, in bytes: more than any of them reads.
const ADMIN_PART: u32 = 64 << 10;

/// A host's end of a queue pair. The memory of I/O commands has no content: it is all zeroes.
#[derive(Debug)]
pub(super) struct HostPair {
    pub(super) queue: HostQueue<Written, Vec<u8>>,
    part: u32,
    /// The data that commands write, by their identifiers.
    placed: Vec<Option<Written>>,
    /// The memory that admin commands read to, as far as it was used; `None`: it has no content.
    memory: Option<Vec<u8>>,
}

impl HostPair {
    /// Makes the end of a queue with so many entries, an admin queue's or an I/O queue's.
    pub(super) fn new(entries: u16, admin: bool) -> Self {
        let part = if admin { ADMIN_PART } else { LARGEST };
        let length = usize::from(u16::MAX).saturating_mul(part as usize);
        let params = HostQueueParams { memory: MEMORY, length, part, invalidate: false };
        let mut queue = HostQueue::new(params);
        queue.limit_capsules(entries);
        Self { queue, part, placed: Vec::new(), memory: admin.then(Vec::new) }
    }

    /// Sends all posts of the end: only the number of outstanding commands bounds them.
    pub(super) fn pump(&mut self, now: Nanos, connection: &mut Connection, network: &mut Network) {
        let Some(pair) = &mut connection.pair else { return };
        let mut sent = 0;
        while let Some(post) = self.queue.take_post() {
            match post {
                HostPost::Place { cid, data } => {
                    let place = usize::from(cid);
                    if self.placed.len() <= place {
                        self.placed.resize(place + 1, None);
                    }
                    if let Some(at) = self.placed.get_mut(place) {
                        *at = Some(data);
                    }
                }
                HostPost::Capsule { sqe, data } => {
                    let data = data.as_ref().map_or(&[][..], |data| data.bytes());
                    let bytes = (COMMAND_BYTES + data.len()) as u64;
                    pair.send_up(bytes, ToTarget::Capsule([sqe.as_bytes(), data].concat()));
                    sent += bytes;
                }
            }
        }
        connection.up.send(now, network, sent);
    }

    /// Returns the next message that has arrived. The device answers READs on the way, and sends the requested data.
    pub(super) fn next(
        &mut self,
        now: Nanos,
        connection: &mut Connection,
        network: &mut Network,
        mut heard: impl FnMut(HostReceived<'_>),
    ) -> Result<(), String> {
        while let Some(message) = connection.pair.as_mut().and_then(|pair| pair.take_down()) {
            let mut capsule = Vec::new();
            match message {
                ToHost::Accepted => {}
                ToHost::Write(remote, data) => {
                    if let (Some(memory), Some(data)) = (&mut self.memory, data) {
                        let start = usize::try_from(remote.address - MEMORY.address).unwrap_or(0);
                        let end = start.saturating_add(data.len());
                        if memory.len() < end {
                            memory.resize(end, 0);
                        }
                        if let Some(into) = memory.get_mut(start..end) {
                            into.copy_from_slice(&data);
                        }
                    }
                    continue;
                }
                ToHost::Read(remote, length) => {
                    let data = self.read(remote, length);
                    if let Some(pair) = &mut connection.pair {
                        pair.send_up(length.into(), ToTarget::Fetched(data));
                    }
                    connection.up.send(now, network, length.into());
                    continue;
                }
                ToHost::Response(bytes) => capsule.push(bytes),
            }
            let memory = self.memory.as_deref().unwrap_or_default();
            let mut input = HostInput { capsules: &capsule, memory };
            loop {
                match self.queue.next(&mut input) {
                    Ok(Some(received)) => heard(received),
                    Ok(None) => break,
                    Err(violation) => return Err(violation.to_string()),
                }
            }
        }
        Ok(())
    }

    /// Reads the host's memory; `None`: zeroes.
    fn read(&self, remote: Remote, length: u32) -> Option<Vec<u8>> {
        let offset = remote.address.checked_sub(MEMORY.address)?;
        let part = u64::from(self.part);
        let cid = usize::try_from(offset / part).ok()?;
        let Written::Bytes(bytes) = self.placed.get(cid)?.as_ref()? else { return None };
        let start = usize::try_from(offset % part).ok()?;
        let data = bytes.get(start..start.checked_add(length as usize)?)?;
        Some(data.to_vec())
    }
}
