//! The way to an address over RDMA, and the connection manager's events.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use fabric::rdma::wire::private_data::RejectReason;
use fabric_verbs::{Event, EventChannel, Id, Token};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::socket::ANSWER_TIMEOUT;

/// The time for an attempt to find the device and the route to an address. The kernel may not hear of
/// a neighbour's quick answer, and looks for it again only when this time is over.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The connection manager's reason to refuse where there is no listener (InfiniBand: invalid service
/// ID).
const NOBODY: i32 = 8;

pub(crate) fn open() -> anyhow::Result<EventChannel> {
    // The texts of these errors have those of their sources in them.
    EventChannel::new().map_err(anyhow::Error::msg)
}

/// Finds the device and the route to an address, for a connection of this name.
pub(crate) fn route(
    channel: &EventChannel,
    peer: SocketAddr,
    token: Token,
    tos: Option<u8>,
) -> anyhow::Result<Id> {
    let id = resolve(channel, peer, token)?;
    if let Some(tos) = tos {
        id.set_tos(tos).map_err(anyhow::Error::msg).context("setting the ToS")?;
    }
    id.resolve_route(ANSWER_TIMEOUT).map_err(anyhow::Error::msg)?;
    match next_event(channel)? {
        Event::RouteResolved(_) => Ok(id),
        other => Err(unexpected(other)),
    }
}

/// Finds the device, in several attempts.
fn resolve(channel: &EventChannel, peer: SocketAddr, token: Token) -> anyhow::Result<Id> {
    let end = Instant::now() + ANSWER_TIMEOUT;
    loop {
        let id = Id::resolve(channel, peer, ATTEMPT, token).map_err(anyhow::Error::msg)?;
        match next_event(channel)? {
            Event::AddressResolved(_) => return Ok(id),
            Event::Failed(..) if Instant::now() < end => {}
            other => return Err(unexpected(other)),
        }
    }
}

/// Waits for the next event of a connection that is being made.
pub(crate) fn next_event(channel: &EventChannel) -> anyhow::Result<Event> {
    let end = Instant::now() + ANSWER_TIMEOUT;
    loop {
        if let Some(event) = channel.next()? {
            return Ok(event);
        }
        let left = end.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "no answer within 10 s");
        sleep(&mut [PollFd::new(channel.as_fd(), PollFlags::POLLIN)], left)?;
    }
}

/// Sleeps until a descriptor is readable, or the time is over.
pub(crate) fn sleep(fds: &mut [PollFd<'_>], time: Duration) -> anyhow::Result<()> {
    let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    match poll(fds, time) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno).context("poll"),
    }
}

/// Says what an event means that ends the making of a connection.
pub(crate) fn unexpected(event: Event) -> anyhow::Error {
    match event {
        Event::Rejected(_, reason, said) => match RejectReason::parse(&said) {
            Some(reason) => anyhow!("the target refused the connection: {reason}"),
            None if reason == NOBODY => anyhow!("nobody listens there over RDMA"),
            None => {
                anyhow!("the connection was refused (the connection manager's reason {reason})")
            }
        },
        Event::Failed(_, why) => anyhow!("{why}"),
        other => anyhow!("the connection manager says {other:?}"),
    }
}
