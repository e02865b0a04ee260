//! The link that all connections share, and what each connection has seen of the link.

use std::sync::Arc;
use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::Nanos;
use qtcp::Observation;
use qtcp::class_split::{ClassFlow, LinkDirection};
use qtcp::lately::Lately;
use qtcp::link::{ClassGoal, Link, Rules};
use qtcp::pacing::Pacing;

/// Time between two looks at a connection, in ns.
pub(super) const LOOK_NS: u64 = 2_000_000;
/// Bytes in the queue above which data is marked.
pub(super) const MARK_BYTES: u64 = 60_000;
/// The most bytes, or messages, that a sender gives the link at once.
pub(super) const PIECE: usize = 8 << 10;
/// Bytes of payload in a packet.
const MSS: u32 = 1448;

/// Returns the share of a class; `None` where it has none.
pub(super) fn share(class: Class) -> Option<f64> {
    match class {
        Class::Urgent => None,
        Class::High => Some(3.0),
        Class::Medium => Some(2.0),
        Class::Low => Some(1.0),
    }
}

/// A direction of the link, or of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Towards hosts.
    Down,
    /// Towards the target.
    Up,
}

/// One direction of the link.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) classes: LinkDirection,
    /// Time at which the link has carried all that stands in its queue.
    pub(super) free_at: Nanos,
}

impl Direction {
    pub(super) fn new() -> Self {
        let goals =
            PerClass::from_fn(|class| share(class).map_or(ClassGoal::Free, ClassGoal::Share));
        let link = Link::new(goals, None, Rules::default());
        Self { classes: LinkDirection::new(link), free_at: Nanos(0) }
    }
}

/// The link.
#[derive(Debug)]
pub(super) struct SharedLink {
    /// Rate in bytes a second.
    pub(super) rate: u64,
    pub(super) down: Direction,
    pub(super) up: Direction,
}

impl SharedLink {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate, down: Direction::new(), up: Direction::new() }
    }

    pub(super) fn direction(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::Down => &mut self.down,
            Way::Up => &mut self.up,
        }
    }
}

/// What one direction of a connection has seen of the link since the last look.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) bytes: u64,
    pub(super) marked: u64,
    /// Time that the last bytes stood in the queue, in ns.
    pub(super) queued: u64,
    pub(super) flows: PerClass<ClassFlow>,
}

impl Seen {
    /// Makes the observation since the last look.
    pub(super) fn observation(
        &mut self,
        interval: u64,
        rtt: u64,
        app_limited: bool,
    ) -> Observation {
        let packets = |bytes: u64| u32::try_from(bytes.div_ceil(MSS.into())).unwrap_or(u32::MAX);
        let (bytes, marked) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.marked));
        Observation {
            interval: Duration::from_nanos(interval),
            delivered: packets(bytes),
            marked: packets(marked),
            bytes,
            rtt: Duration::from_nanos(rtt),
            mss: MSS,
            app_limited,
        }
    }

    pub(super) fn leave(&mut self, direction: &mut Direction) {
        for flow in self.flows.values_mut() {
            flow.leave(direction.classes.paced());
        }
    }
}

/// A connection that is looked at.
#[derive(Debug)]
pub(super) struct Paced {
    pub(super) pacing: Arc<Pacing>,
    pub(super) connection: usize,
    pub(super) looked_at: Nanos,
    pub(super) moved_at: Nanos,
    pub(super) lately: Lately,
    pub(super) down: Seen,
    pub(super) up: Seen,
}
