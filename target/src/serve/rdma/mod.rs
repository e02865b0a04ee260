//! RDMA connections: their listeners, and the thread for the connection manager's events.
//!
//! The thread makes the resources of a queue pair (protection domain, completion queues, registered memory), makes
//! the queue pair, and leaves it in the mailbox of a reactor, which accepts the connection and uses the queue pair
//! from then on. Queue pairs that have ended come back to be destroyed here, since that takes long. The thread also
//! reads devices' events: the connections and listeners of a device that has failed or is gone are closed, and
//! after the last of the connections everything made on the device is freed.

mod connector;
mod devices;
mod new_queue_pair;
mod shared;
mod watch;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric_verbs::{Error, EventChannel, Listener, Token};

use super::shared::Shared;

use connector::Connector;
pub(crate) use new_queue_pair::NewQueuePair;
pub(crate) use shared::RdmaShared;

/// Checks that a listener can be opened on an address; with `ours` it may be in use.
///
/// # Errors
/// The machine has no RDMA, the address is of no RDMA device, or in use; in words.
pub(crate) fn check(address: SocketAddr, ours: bool) -> Result<(), String> {
    let opened = EventChannel::new()
        .and_then(|channel| Listener::new(&channel, address, 1, Token(0)).map(drop));
    match opened {
        Err(Error::Address { source, .. })
            if ours && source.raw_os_error() == Some(libc::EADDRINUSE) =>
        {
            Ok(())
        }
        other => other.map_err(|error| error.to_string()),
    }
}

/// The time between two tries to open listeners that could not be opened.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two looks at the memory of namespaces: until then, reads of a new one are answered
/// from buffers.
const LOOK: Duration = Duration::from_millis(200);

/// Handles the connection manager's events until `over` holds: the body of the thread.
pub(crate) fn run(shared: &Shared, over: impl Fn() -> bool) {
    let rdma = &shared.rdma;
    let mut connector = Connector::default();
    let (mut tried, mut looked) = (Instant::now(), Instant::now());
    while !over() {
        let channel = rdma.channel();
        connector.ended(shared, rdma.take_ended());
        connector.watch(&rdma.take_opened());
        drop(rdma.take_unused());
        connector.take_device_events(shared);
        while let Some(channel) = &channel {
            match channel.next() {
                Ok(Some(event)) => connector.take(shared, event),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "the RDMA connection manager has failed");
                    rdma.lose_channel();
                    break;
                }
            }
        }
        if tried.elapsed() >= RETRY {
            tried = Instant::now();
            rdma.retry();
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            connector.look_after_memory(shared);
        }
        rdma.wait(channel.as_deref(), connector.device_fds());
    }
    connector.ended(shared, rdma.take_ended());
    drop(rdma.take_unused());
}
