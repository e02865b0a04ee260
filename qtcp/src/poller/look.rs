//! The observations of a look at a connection, and the limits that follow.

use core::fmt;
use core::hash::Hash;
use core::time::Duration;

use crate::completions::LinkLoad;
use crate::lately::RecentEvents;
use crate::pacing::Pacing;
use crate::{Nanos, Observation, Rate};

/// A connection, as the poller reaches it: its reports about the network, and its limits.
pub trait WatchedConnection: fmt::Debug {
    /// The connection's name.
    type Id: Copy + Eq + Hash + fmt::Debug;

    /// Returns the connection's name.
    fn id(&self) -> Self::Id;
    /// Returns the state that its reactor and the poller share.
    fn pacing(&self) -> &Pacing;
    /// Makes the observations since the last look, on a link that carries so much. An interval of zero
    /// counts nothing. Returns `None` where the connection is gone; its reactor reports that.
    fn look(&mut self, now: Nanos, link: &Both<LinkLoad>) -> Option<LookObservations>;
    /// Sets limits.
    fn allow(&mut self, allowed: &AllowedTraffic<'_>);
    /// Restricts the handed-over data until the connection's traffic is known: to `start` bytes if
    /// the target itself bounds data in flight. The first look after a rest measures nothing: the
    /// bytes before it have no rate.
    fn rest(&mut self, start: &Both<u64>);
    /// Lifts all limits.
    fn lift(&mut self);
}

/// The observations of a look since the last one.
#[derive(Clone, Copy, Debug)]
pub struct LookObservations {
    /// Sent data.
    pub out: Observation,
    /// Received data.
    pub into: Observation,
    /// The round-trip time of the connection.
    pub rtt: Duration,
    /// Whether nothing behind the target holds data back: a class has more to send only if some of it
    /// waits in the target.
    pub idle: bool,
    /// Whether hosts send requested data: over RDMA the target fetches it itself.
    pub asked: bool,
    /// Whether the host is on the target's own machine, so that its data crosses no link.
    pub local: bool,
}

/// A direction of a link, seen from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the target to hosts.
    Out,
    /// From hosts to the target.
    Into,
}

/// A value of each direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Both<T> {
    /// The value for sent data.
    pub out: T,
    /// The value of what hosts send.
    pub into: T,
}

impl<T> Both<T> {
    /// Returns the value of one direction.
    pub const fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Out => &self.out,
            Direction::Into => &self.into,
        }
    }

    /// Returns the value of one direction, to change it.
    pub const fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Out => &mut self.out,
            Direction::Into => &mut self.into,
        }
    }
}

/// The limits of a connection from now on.
#[derive(Clone, Copy, Debug)]
pub struct AllowedTraffic<'a> {
    /// The present time.
    pub now: Nanos,
    /// The limits of its rates.
    pub limits: Both<Option<Rate>>,
    /// The rates that it has.
    pub rates: Both<Rate>,
    /// The rates that it is to have, or has where these are greater.
    pub aims: Both<Rate>,
    /// Whether classes that are never held back move data.
    pub free: Both<bool>,
    /// The round-trip time.
    pub rtt: Duration,
    /// Its recent events.
    pub lately: &'a RecentEvents,
}
