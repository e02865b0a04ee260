//! The machine that a [`Core`](crate::Core) runs on: sockets, buffers, devices, and what all
//! reactors share.

use std::fmt;
use std::ops::{DerefMut, Range};
use std::sync::Arc;

use arbitration::{Class, Reactors};
use fabric::Nanos;
use fabric::controller::{
    BackendId, ConnectionId, ControllerShared, QueueKind, Refusal, Service, SmartCounters,
};
use fabric::queue::{self, Fetch, SlotId, Termination, Transport};
use qtcp::pacing::Pacing;

use super::arena::Memory;
use super::device::BlockDevice;
use super::job;
use super::key::Key;
use super::origin::Origin;
use super::policies::{Policies, Tenancy};
use crate::memory::payload::TxData;
use crate::stats::counters::{IoStats, PerReactor};
use crate::trace::TracedCommand;

/// The machine below one reactor.
///
/// The operation that a method starts ends with a call of the [`Core`](crate::Core) method that the
/// documentation names. No method may call the core back.
pub trait Driver: Sized + fmt::Debug {
    /// The transport of its connections' queues. A driver with transports of several kinds has an
    /// enum of them here: each call of it is a branch, and nothing else of the core knows of the
    /// kinds.
    type Transport: Transport<Payload = TxData<Buffer<Self>>> + fmt::Debug;
    /// The I/O buffers.
    type Memory: Memory;
    /// The device that keeps a namespace's blocks.
    type Device: BlockDevice;
    /// The settings of quality of service.
    type Policies: Policies;

    /// Receives from a connection from now on, until [`Self::stop_receiving`] or an error:
    /// [`Core::received`](crate::Core::received) for each chunk, then
    /// [`Core::receive_ended`](crate::Core::receive_ended), or
    /// [`Core::receive_starved`](crate::Core::receive_starved) where there is no memory.
    fn receive(&mut self, key: Key);
    /// Receives one chunk, as [`Self::receive`] does: used when memory to receive into is short, so that no
    /// connection takes all of it.
    fn receive_chunk(&mut self, key: Key);
    /// Ends [`Self::receive`]; chunks may still come until it has ended.
    fn stop_receiving(&mut self, key: Key);
    /// Receives once: [`Core::received_once`](crate::Core::received_once), or
    /// [`Core::receive_ended`](crate::Core::receive_ended) where the stream has ended. The first
    /// bytes go to `place`, whose buffer is the driver's until then; a few further bytes may
    /// follow.
    fn receive_once(&mut self, key: Key, place: Option<DataPlace<Buffer<Self>>>);
    /// Sends a batch: [`Core::sent`](crate::Core::sent), in the order of the batches. Of a
    /// connection there are as many at a time as its transport hands out.
    fn send(&mut self, key: Key, batch: Batch<Self>);
    /// Moves a part of a command's data from the host's memory to `place`, or without one to
    /// memory of the driver's: [`Core::fetched`](crate::Core::fetched). It need not begin before
    /// [`Self::begin_fetches`]. Transports that hand out no [`Fetch`] need no such driver.
    fn fetch(&mut self, key: Key, fetch: Fetch, place: Option<DataPlace<Buffer<Self>>>) {
        let _ = (key, fetch, place);
        debug_assert!(false, "no transport of this driver fetches");
    }
    /// Begins what [`Self::fetch`] was called for since the last call: it is called behind each run of
    /// fetches of a connection, so that a driver begins all of a run at once.
    fn begin_fetches(&mut self, key: Key) {
        let _ = key;
    }
    /// Returns whether [`Self::send`] can send these bytes of a device's memory in place.
    fn reaches(&self, key: Key, bytes: &[u8]) -> bool {
        let _ = (key, bytes);
        true
    }
    /// Ends a connection's stream in both directions; receiving and sending end.
    fn shut_down(&mut self, key: Key);
    /// Sets the DSCP of a connection's packets, and their priority in this machine's own queues (0 to 6). Returns
    /// false on failure.
    fn set_dscp(&mut self, key: Key, dscp: u8, priority: i32) -> bool;
    /// Makes a connection known to the network's stage. Returns false on failure.
    fn join_network(&mut self, key: Key, pacing: &Arc<Pacing>) -> bool;

    /// Starts a command in a device that takes a while:
    /// [`Core::job_ended`](crate::Core::job_ended), unless it is over already.
    fn launch(&mut self, job: Job<Self>) -> Started<Self>;
    /// Returns a device, for as long as it is used.
    fn device(&mut self, id: BackendId) -> Option<Arc<Self::Device>>;

    /// Returns the version of the present settings.
    fn policies_version(&self) -> u64;
    /// Returns the present settings.
    fn policies(&self) -> Arc<Self::Policies>;
    /// Resolves what holds for the commands of a host's connection to a namespace; for the
    /// connection itself without `nsid`.
    fn resolve(
        &self,
        policies: &Self::Policies,
        origin: &Origin,
        host: &str,
        subsystem: &str,
        nsid: Option<u32>,
    ) -> Tenancy;
    /// Returns a class's statistics in this reactor.
    fn class_stats(&self, class: Class) -> Option<&IoStats>;
    /// Returns the statistics of a workload: a host's commands to a namespace of a subsystem, of one
    /// class. They are the caller's as long as it counts in them.
    fn workload_stats(
        &self,
        now: Nanos,
        host: &str,
        subsystem: &str,
        of: (u32, Class),
    ) -> Arc<PerReactor>;

    /// Calls a function with the subsystems and controllers, which all reactors share.
    fn service<R>(&mut self, use_it: impl FnOnce(&mut Service) -> R) -> R;
    /// Returns the counters that the SMART log shows, of these devices.
    fn smart(&self, devices: &[BackendId]) -> SmartCounters;
    /// Wakes other reactors.
    fn wake(&mut self, reactors: Reactors);
    /// Reports an event; nothing depends on it.
    fn notice(&mut self, key: Key, notice: Notice<'_, Self::Transport>);
    /// Takes a traced command whose answer was sent.
    fn traced(&mut self, command: TracedCommand) {
        let _ = command;
    }
    /// Takes note that a connection is over: nothing is called for that connection any more.
    fn ended(&mut self, key: Key, end: End<'_>);
}

/// A piece of what arrives at a connection of a driver.
pub type Chunk<'a, D> = queue::Chunk<'a, Arrivals<D>>;
/// The input of a connection of a driver that is not taken yet.
pub(crate) type Arrivals<D> = <<D as Driver>::Transport as Transport>::Inbox;
/// The batch that a driver sends at a time.
pub type Batch<D> = <<D as Driver>::Transport as Transport>::Batch;
/// The buffers of a driver.
pub type Buffer<D> = <<D as Driver>::Memory as Memory>::Buffer;
/// A command in a device of a driver.
pub type Job<D> = job::Job<<D as Driver>::Device, Buffer<D>>;
/// A job of a driver that has ended.
pub type Ended<D> = job::Ended<<D as Driver>::Device, Buffer<D>>;
/// The outcome of starting a driver's job.
pub type Started<D> = job::Started<<D as Driver>::Device, Buffer<D>>;

/// A command's buffer, lent to the driver, and where in it the next bytes that arrive belong.
#[derive(Debug)]
pub struct DataPlace<B> {
    /// The command's slot.
    pub slot: SlotId,
    /// The buffer.
    pub buffer: B,
    /// The part of the buffer to receive into, from its start.
    pub range: Range<usize>,
}

impl<B: DerefMut<Target = [u8]>> DataPlace<B> {
    /// Returns the bytes to receive into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.range.clone()).unwrap_or_default()
    }
}

/// An event of a connection.
#[derive(Debug)]
pub enum Notice<'a, T: Transport> {
    /// The connection became a queue of a controller.
    Connected {
        /// The kind of the queue.
        kind: QueueKind,
        /// The queue's number.
        qid: u16,
        /// The controller.
        shared: &'a Arc<ControllerShared>,
        /// The transport, as host and target have agreed to use it.
        transport: &'a T,
    },
    /// The connection's Connect was refused.
    Refused {
        /// The data of the Connect command.
        data: &'a [u8],
        /// Why.
        reason: Refusal,
    },
    /// The host broke the protocol.
    BrokeProtocol(&'a T::Violation),
    /// The host ended the connection, and said why.
    Terminated(Termination),
    /// The controller's keep-alive timer has expired.
    KeepAliveExpired,
    /// The host sent no Connect in time.
    NoConnect,
    /// The host is too slow with data that it owes, or in taking its answers; the text says how.
    TooSlow(&'static str),
    /// The connection's end begins, for this reason.
    Ending(&'a str),
}

/// The end of a connection.
#[derive(Debug)]
pub struct End<'a> {
    /// The connection's name in the whole daemon.
    pub id: ConnectionId,
    /// Why.
    pub reason: &'a str,
}
