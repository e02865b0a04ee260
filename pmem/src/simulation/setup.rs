//! The set-up of a simulation.

use core::ops::Range;
use core::time::Duration;

use units::Nanos;

use crate::capacity::Profile;
use crate::in_process::Nics;
use crate::token::{Iops, Tokens};

/// The requests that a client makes in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// So many, all of them at the start: "burst requests" in the paper.
    Burst(u64),
    /// So many, evenly spaced: "constant-rate requests" in the paper.
    Constant(u64),
}

impl Workload {
    /// Returns the requests of a period.
    #[must_use]
    pub const fn requests(self) -> u64 {
        match self {
            Self::Burst(requests) | Self::Constant(requests) => requests,
        }
    }
}

/// The kinds of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client that has an engine.
    Engine,
    /// A client that sends I/Os without tokens and reports nothing.
    Bare,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSetup {
    /// Whether it has an engine.
    pub kind: Kind,
    /// R_i in tokens for a period; `None`: the monitor does not know it.
    pub reservation: Option<Tokens>,
    /// L_i in I/Os for a period.
    pub limit: Option<Tokens>,
    /// Its requests.
    pub workload: Workload,
    /// The periods, counted from 0, in which it makes requests.
    pub active: Range<usize>,
    /// The most I/Os under way at once.
    pub window: u32,
    /// The most I/Os under way at once when the next one takes a global token.
    pub best_effort_window: u32,
    /// The error of its clock in parts per million: positive where it is fast.
    pub skew: i32,
    /// Time at which it vanishes, and whether the monitor is notified then.
    pub vanishes: Option<(Nanos, bool)>,
    /// Times between which it is stopped.
    pub stopped: Option<(Nanos, Nanos)>,
}

impl ClientSetup {
    /// Makes a client with an engine, a window as in the paper, and a perfect clock.
    #[must_use]
    pub const fn new(reservation: Tokens, workload: Workload) -> Self {
        Self {
            kind: Kind::Engine,
            reservation: Some(reservation),
            limit: None,
            workload,
            active: 0..usize::MAX,
            window: 64,
            best_effort_window: 64,
            skew: 0,
            vanishes: None,
            stopped: None,
        }
    }
}

/// Faults of the monitor's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Percent of the messages that are lost.
    pub lost: u8,
    /// Percent of the messages that come twice.
    pub repeated: u8,
    /// Percent of the messages that come late.
    pub late: u8,
    /// The most by which they come late.
    pub delay: Duration,
}

/// A data node with its clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The capacities of the NICs.
    pub nics: Nics,
    /// C_L as the monitor knows it.
    pub local: Iops,
    /// T: length of a period.
    pub period: Duration,
    /// Time between two checks, reports, and updates of X.
    pub interval: Duration,
    /// B: tokens of a batch.
    pub batch: Tokens,
    /// Whether the monitor converts unused tokens.
    pub conversion: bool,
    /// Whether the data node's NIC counts the packets of each connection.
    pub counts_packets: bool,
    /// The profile that the estimate of the capacity begins with.
    pub profile: Profile,
    /// eta: the tokens by which the estimate grows.
    pub increment: Tokens,
    /// M: the periods in the history of the estimate.
    pub history: usize,
    /// The clients.
    pub clients: Vec<ClientSetup>,
    /// Faults of messages.
    pub faults: Faults,
    /// Times between which there is no monitor.
    pub monitor_down: Option<(Nanos, Nanos)>,
    /// The number of clients, the first ones, whose latencies are kept for each I/O.
    pub latencies: usize,
    /// The seed of all random values.
    pub seed: u64,
}
