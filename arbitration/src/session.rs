//! Stage S2: the tree of QoS sessions (docs/research/sources.md, D1 to D3, D5).
//!
//! A session has a share of its parent's operation and payload credits, limits on its rates, and a
//! bound on its queue. [`Sessions`] is the control side: it changes one session at a time, and
//! returns the sessions that the reactors must look at again. The counters live in the
//! [`Session`]s, which the reactors share, so a change loses no count.

mod host_id;
mod limits;
mod resent;
mod tree;

use crate::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;

use thiserror::Error;
use units::Nanos;

use crate::credit::{Caps, Credits};
use crate::limit::{Directions, Limiters, Rate, Rates};
use crate::overload::Backlog;
use crate::reactors::Reactors;
use crate::reservation::Reserved;
use crate::sharing::Sharing;

pub use host_id::HostId;
pub use limits::SessionLimits;
pub use resent::Reconnect;
pub use tree::Sessions;

/// The number of a session. No two sessions share a number at one time, but a new session may reuse
/// the number of a removed one. The root's is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

impl SessionId {
    /// The session above all others.
    pub const ROOT: Self = Self(0);
}

/// Weight of a session without one of its own, and of each host.
pub const WEIGHT: u32 = 100;

/// Largest weight of a session.
pub const WEIGHT_MAX: u16 = 1000;

/// The specification of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSpec {
    /// Unique name.
    pub name: String,
    /// Name of the parent; `None`: the root.
    pub parent: Option<String>,
    /// Operation credits, in per cent of the parent's; `None`: no bound but the parent's.
    pub operations: Option<u8>,
    /// Payload credits, in per cent of the parent's; `None`: no bound but the parent's.
    pub payload: Option<u8>,
    /// Commands per second.
    pub iops: Option<Rate>,
    /// Bytes per second.
    pub bandwidth: Option<Rate>,
    /// Limits on commands that do not change their device, beside those on all commands.
    pub reads: Rates,
    /// Limits on commands that change their device, beside those on all commands.
    pub writes: Rates,
    /// Time for which an idle session saves credit at each of its limits; less than
    /// [`TOLERANCE`](crate::limit::TOLERANCE) counts as that.
    pub burst: Nanos,
    /// Commands that may wait before hosts are held back; `None`: the root's number.
    pub queue: Option<u32>,
    /// Weight among those below the same parent that have commands waiting, 1 to [`WEIGHT_MAX`];
    /// `None`: [`WEIGHT`].
    pub weight: Option<u16>,
}

impl SessionSpec {
    /// Computes the caps of a session whose parent has `parent`: without a share, a session has no
    /// cap of its own.
    fn caps(&self, parent: Caps) -> Caps {
        Caps {
            operations: self.operations.map_or(u32::MAX, |percent| {
                share(u64::from(parent.operations), percent).try_into().unwrap_or(u32::MAX)
            }),
            payload: self.payload.map_or(u64::MAX, |percent| share(parent.payload, percent)),
        }
    }

    fn has_share(&self) -> bool {
        self.operations.is_some() || self.payload.is_some()
    }
}

/// The specification of the root session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSpec {
    /// Operation and payload credits of the whole target, of which sessions have shares.
    pub caps: Caps,
    /// Whether the credits bound the target itself. If not, commands of sessions without a share
    /// are not counted, which saves time for each.
    pub bounded: bool,
    /// Commands that may wait in the whole target.
    pub queue: u32,
}

impl RootSpec {
    fn own_caps(&self) -> Caps {
        if self.bounded { self.caps } else { Caps::NONE }
    }
}

/// The reason why a tree of sessions is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The parent is not there, or is below the session itself.
    #[error("session {name} has the parent {parent}, which {why}")]
    Parent {
        /// The session.
        name: String,
        /// Its parent.
        parent: String,
        /// Description of the fault.
        why: &'static str,
    },
    /// Two sessions have one name.
    #[error("there are two sessions named {0}")]
    Twice(String),
    /// The shares of the sessions below one parent are more than it has.
    #[error("the {what} credits of the sessions below {parent} sum to {sum} %; at most 100 % fit")]
    Shares {
        /// The parent.
        parent: String,
        /// `operation` or `payload`.
        what: &'static str,
        /// Sum of the shares, in per cent.
        sum: u32,
    },
}

/// A session, as all reactors share it.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    serial: u32,
    name: String,
    parent: Option<Arc<Self>>,
    /// Credits: the caps, and the amounts in use.
    pub credits: Arc<Credits>,
    /// Limits on all commands.
    pub(crate) all: Limiters,
    /// Limits per direction.
    directions: Directions,
    /// Commands that wait.
    pub backlog: Backlog,
    /// Reactors with commands that wait for the session's credits, one bit each.
    waiters: AtomicU64,
    /// KiB of each reactor's memory for hosts' data that are set aside for it.
    aside: AtomicU32,
    /// Unpaid reconnects of all hosts. Only the root's are used.
    debts: resent::Debts,
    /// Weight among those below the same parent; shared with the devices' orders.
    weight: Arc<AtomicU32>,
}

impl Session {
    fn new(
        (id, serial): (SessionId, u32),
        name: String,
        parent: Option<Arc<Self>>,
        (sharing, queue): (Sharing, &Arc<AtomicU32>),
    ) -> Self {
        Self {
            id,
            serial,
            name,
            parent,
            credits: Arc::new(Credits::new(Caps::NONE)),
            all: Limiters::default(),
            directions: Directions::default(),
            backlog: Backlog::common(Arc::clone(queue), sharing),
            waiters: AtomicU64::new(0),
            aside: AtomicU32::new(0),
            debts: resent::Debts::default(),
            weight: Arc::new(AtomicU32::new(WEIGHT)),
        }
    }

    /// Returns the session's number.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns the serial number: sessions that have the same [`id`](Self::id) one after the other
    /// differ by it.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Returns the session's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the session above.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Returns the session's weight, 1 to [`WEIGHT_MAX`].
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.weight.load(SeqCst)
    }

    /// Returns the place of the weight, which changes while commands are under way.
    pub(crate) fn weight_cell(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.weight)
    }

    /// Returns whether the session's credits are bounded.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.credits.caps() != Caps::NONE
    }

    /// Sets this many bytes of each reactor's memory for hosts' data aside for the session and those
    /// below it (docs/research/sources.md, F4: buffers count in admission). Flows that are made from now on
    /// have them. Returns whether that is another amount than before.
    pub fn set_aside(&self, bytes: u64) -> bool {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        self.aside.swap(kib, SeqCst) != kib
    }

    /// Returns how much is set aside for the session, in KiB.
    #[inline]
    pub(crate) fn kib_aside(&self) -> u32 {
        self.aside.load(SeqCst)
    }

    /// Notes that a reactor has commands which wait for this session's credits.
    pub(crate) fn wait(&self, reactor: u32) {
        self.waiters.fetch_or(1 << (reactor & 63), SeqCst);
    }

    /// Takes out the reactors that wait for this session's credits.
    pub(crate) fn take_waiters(&self) -> Reactors {
        if self.waiters.load(SeqCst) == 0 {
            return Reactors::NONE;
        }
        Reactors::of_bits(self.waiters.swap(0, SeqCst))
    }

    /// Takes new settings, with shares of `parent`.
    fn set(&self, now: Nanos, spec: &SessionSpec, parent: Caps) {
        self.credits.set(spec.caps(parent));
        self.set_limits(now, &spec.limits());
        let weight = spec.weight.map_or(WEIGHT, |weight| weight.clamp(1, WEIGHT_MAX).into());
        self.weight.store(weight, SeqCst);
        match spec.queue {
            Some(bound) => self.backlog.set(bound),
            None => self.backlog.inherit(),
        }
    }

    /// Removes the limits, so that the outstanding commands of a removed session end without them.
    fn retire(&self, now: Nanos) {
        self.set(now, &SessionSpec::default(), Caps::NONE);
    }

    /// Lists the session and those above it, the root last.
    pub(crate) fn line(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |session| session.parent.as_ref())
    }
}

/// Computes a share of an amount, at least 1.
fn share(of: u64, percent: u8) -> u64 {
    (u128::from(of) * u128::from(percent) / 100).try_into().unwrap_or(u64::MAX).max(1)
}

/// A reservation in force on a device.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The session that has it.
    pub session: Arc<Session>,
    /// The reservation's budget, and its charges.
    pub reserved: Arc<Reserved>,
}

impl Session {
    /// Charges a command of a direction and of `bytes` bytes, which its host would fail rather than send once more, to
    /// the limits of the session and of its parents. The command then bypasses them. A limit with a debt of
    /// more than 400 s is not charged. Returns false if no limit exists.
    pub fn charge_last_try(&self, now: Nanos, write: bool, bytes: u64) -> bool {
        let latest = now.after(resent::DEBT_MAX);
        let mut is_limited = false;
        for (limit, amount) in self.line_limiters(write, bytes) {
            is_limited |= limit.rate().is_some();
            if limit.paid_at() <= latest {
                limit.charge(now, now, amount);
            }
        }
        is_limited
    }

    /// Charges a resent command of a direction and of `bytes` bytes to the limits of the session and of its parents, which
    /// the command then bypasses. Returns false, and charges nothing, if no limit exists, if two earlier
    /// reconnects of the host are unpaid, or if a limit has a debt of more than 400 s: the command then
    /// waits for its limits.
    ///
    /// The caller decides which commands are resent, at most the content of the host's queues for each
    /// reconnect. Then the commands of any time interval cost at most the limit for that interval, plus
    /// the content of the queues for two reconnects of each host.
    pub fn charge_resent(&self, now: Nanos, reconnect: Reconnect, write: bool, bytes: u64) -> bool {
        let limits =
            || self.line_limiters(write, bytes).filter(|(limit, _)| limit.rate().is_some());
        if limits().next().is_none() {
            return false;
        }
        let top = std::iter::successors(Some(self), |session| session.parent.as_deref()).last();
        top.is_some_and(|top| {
            top.debts.charge(now, reconnect, || {
                let latest = now.after(resent::DEBT_MAX);
                if limits().any(|(limit, _)| limit.paid_at() > latest) {
                    return None;
                }
                for (limit, amount) in limits() {
                    limit.charge(now, now, amount);
                }
                limits().map(|(limit, _)| limit.paid_at()).max()
            })
        })
    }
}

#[cfg(test)]
mod tests;
