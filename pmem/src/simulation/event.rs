//! The events of the simulation.

use crate::message::{Ask, Push};

/// An event that happens by itself, or because a message arrives. Clients are named by index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The monitor makes its check.
    Monitor,
    /// The monitor is killed.
    MonitorStops,
    /// Another monitor starts.
    MonitorStarts,
    /// A period starts where there is no monitor.
    Period,
    /// A client's engine runs the actions of an interval.
    Client(usize),
    /// A client makes a request of its period with this number.
    Request(usize, u32),
    /// A push arrives.
    Push(usize, Push),
    /// A request for reports arrives.
    Ask(usize, Ask),
    /// A client vanishes, and the monitor is notified or not.
    Vanishes(usize, bool),
    /// A client is stopped.
    Stops(usize),
    /// A client goes on.
    GoesOn(usize),
}
