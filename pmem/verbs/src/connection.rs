//! The client's side of a connection to a data node.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fabric_verbs::{
    ConnectionParams, Domain, Error, Event, EventChannel, Id, OneSided as Pair, OneSidedSize, Part,
    Regions, Token,
};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use thiserror::Error as ThisError;

use crate::message;
use crate::private_data::{Accept, BadPrivateData, Reject, Request};
use crate::provider::Provider;

/// READs and atomics under way at once, at the most; a device may allow fewer.
const READS: u8 = 16;
/// Messages of the data node that can arrive while the client is busy elsewhere: two in a period,
/// and the repeated ones.
const MESSAGES: u16 = 32;
/// The time in which the kernel looks up an address, and a route.
const LOOK_UP: Duration = Duration::from_millis(500);
/// The traffic class byte of sent packets, and of the data node's answers: DSCP 46, the value of
/// class Urgent, which switches assign a queue of its own (docs/research/sources.md, E12: Urgent has
/// priority in the network).
const TOS: u8 = 46 << 2;
/// The name of a connection in events where it is the only one.
const TOKEN: Token = Token(1);

/// The reason why there is no connection.
#[derive(Debug, ThisError)]
pub enum ConnectError {
    /// RDMA fails.
    #[error(transparent)]
    Rdma(#[from] Error),
    /// The data node refuses.
    #[error("refused: {0}")]
    Rejected(Reject),
    /// Something refuses that is no data node, or nothing listens there.
    #[error("{address} refuses the connection (status {status}): is it a data node's address?")]
    NoDataNode {
        /// The address.
        address: SocketAddr,
        /// The connection manager's number.
        status: i32,
    },
    /// The data node grants what nobody can use.
    #[error("the data node's answer: {0}")]
    BadAnswer(#[from] BadPrivateData),
    /// The connection cannot be made.
    #[error("no connection to {address}: {why}")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// The reason.
        why: String,
    },
    /// Nothing was heard in time.
    #[error("{address} has not answered for {time:?}")]
    TimedOut {
        /// The address.
        address: SocketAddr,
        /// The time.
        time: Duration,
    },
}

/// A connection in progress, for callers that take the connection manager's events themselves.
#[derive(Debug)]
pub struct Dial {
    address: SocketAddr,
    request: Request,
    operations: u16,
    time: Duration,
    stage: Stage,
}

/// How far a connection has come.
#[derive(Debug)]
enum Stage {
    /// The address, then the route, is looked up.
    Resolving(Id),
    /// The data node was asked.
    Asked(Box<Pair>, Regions),
    /// It stands, or has failed.
    Over,
}

impl Dial {
    /// Begins a connection with room for `operations` operations at once. `time` is for the address, and
    /// again for the route. Kernels have been seen that find the address of a neighbour only when this time
    /// is over: wait longer for the events.
    ///
    /// # Errors
    ///
    /// The address is of no RDMA device.
    pub fn begin(
        channel: &EventChannel,
        token: Token,
        address: SocketAddr,
        request: Request,
        operations: u16,
        time: Duration,
    ) -> Result<Self, ConnectError> {
        let id = Id::resolve(channel, address, time, token)?;
        id.set_tos(TOS)?;
        Ok(Self { address, request, operations, time, stage: Stage::Resolving(id) })
    }

    /// Handles an event of the connection. Returns the provider once the connection is established, with the registry
    /// of buffers.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] where there is no connection; then no event does anything more.
    pub fn event(&mut self, event: Event) -> Result<Option<(Provider, Regions)>, ConnectError> {
        match (std::mem::replace(&mut self.stage, Stage::Over), event) {
            (Stage::Resolving(id), Event::AddressResolved(_)) => {
                id.resolve_route(self.time)?;
                self.stage = Stage::Resolving(id);
                Ok(None)
            }
            (Stage::Resolving(id), Event::RouteResolved(_)) => {
                let (pair, regions) = self.ask(id)?;
                self.stage = Stage::Asked(Box::new(pair), regions);
                Ok(None)
            }
            (Stage::Asked(pair, regions), Event::Established(_, said)) => {
                let accept = Accept::parse(&said)?;
                Ok(Some((Provider::new(*pair, accept), regions)))
            }
            (_, event) => Err(failure(self.address, event)),
        }
    }

    /// Makes the queue pair, and asks the data node.
    fn ask(&self, id: Id) -> Result<(Pair, Regions), Error> {
        let device = id.device()?;
        let reads = device.limits().reads.min(READS);
        let regions = Regions::new(&Domain::new(&device)?);
        let (operations, message_bytes) = (self.operations, message::LENGTH);
        let size = OneSidedSize { operations, messages: MESSAGES, message_bytes };
        let pair = Pair::new(id, &regions, size)?;
        let params = ConnectionParams {
            responder_resources: 0,
            initiator_depth: reads,
            retries: 7,
            not_ready_retries: 7,
        };
        pair.id().connect(params, &self.request.emit())?;
        Ok((pair, regions))
    }
}

/// A connection to a data node.
#[derive(Debug)]
pub struct Connection {
    /// The provider of operations.
    pub provider: Provider,
    regions: Regions,
    channel: EventChannel,
    ended: bool,
}

impl Connection {
    /// Connects to a data node, with room for `operations` operations at once. Waits for it, `time` for
    /// each answer at the most.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] where the data node refuses, does not answer, or RDMA fails.
    pub fn open(
        address: SocketAddr,
        request: Request,
        operations: u16,
        time: Duration,
    ) -> Result<Self, ConnectError> {
        let channel = EventChannel::new()?;
        let look_up = (time / 2).min(LOOK_UP);
        let mut dial = Dial::begin(&channel, TOKEN, address, request, operations, look_up)?;
        loop {
            let event = next_event(&channel, address, time)?;
            if let Some((provider, regions)) = dial.event(event)? {
                return Ok(Self { provider, regions, channel, ended: false });
            }
        }
    }

    /// Makes buffers for transfers, of `length` bytes each.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn buffers(&self, count: u16, length: usize) -> Result<Vec<Part>, Error> {
        Part::several(&self.regions, count, length)
    }

    /// Waits until something happens, for `time` at the most, and takes it: see [`Provider`].
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn wait(&mut self, time: Duration) -> Result<(), Error> {
        self.provider.arm()?;
        self.provider.poll();
        if !self.provider.is_idle() {
            return Ok(());
        }
        wait_for(&[&self.provider, &self.channel], time);
        self.provider.take_events();
        while let Some(event) = self.channel.next()? {
            if event.ends_connection() && !self.ended {
                self.ended = true;
                // Outstanding operations come back flushed. It has perhaps ended on this side too.
                let _ = self.provider.pair().id().disconnect();
            }
        }
        self.provider.poll();
        Ok(())
    }

    /// Returns whether the data node has ended the connection, or is gone.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended
    }
}

/// Waits until one of some descriptors is readable, for `time` at the most.
fn wait_for(descriptors: &[&dyn AsFd], time: Duration) {
    let fds = descriptors.iter().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN));
    let mut fds: Vec<PollFd<'_>> = fds.collect();
    // A thread woken by a signal looks again.
    let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(time)), None);
}

/// Waits for the next event of a connection that begins.
fn next_event(
    channel: &EventChannel,
    address: SocketAddr,
    time: Duration,
) -> Result<Event, ConnectError> {
    let end = Instant::now() + time;
    loop {
        if let Some(event) = channel.next()? {
            return Ok(event);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConnectError::TimedOut { address, time });
        }
        wait_for(&[channel], left.max(Duration::from_millis(1)));
    }
}

/// Returns the error of an event that is not the one expected.
fn failure(address: SocketAddr, event: Event) -> ConnectError {
    match event {
        Event::Rejected(_, status, said) => match Reject::parse(&said) {
            Some(reason) => ConnectError::Rejected(reason),
            None => ConnectError::NoDataNode { address, status },
        },
        Event::Failed(_, why) => ConnectError::Failed { address, why },
        other => ConnectError::Failed { address, why: format!("unexpected: {other:?}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let address: SocketAddr = "10.0.0.1:4430".parse().unwrap();
        let said = |bytes: &[u8]| failure(address, Event::Rejected(TOKEN, 28, bytes.to_vec()));
        let ours = said(&[&Reject::NoGrant.emit()[..], &[0; 100]].concat());
        assert!(ours.to_string().contains("no such grant"), "{ours}");
        let nvme = said(&[0, 0, 2, 0]);
        assert!(nvme.to_string().contains("is it a data node's address?"), "{nvme}");
        let failed = failure(address, Event::Failed(TOKEN, "there is no route".to_owned()));
        assert!(failed.to_string().ends_with("there is no route"), "{failed}");
    }
}
