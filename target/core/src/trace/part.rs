//! The parts of a command's time.

units::named! {
    /// A part of a command's time in the target. The variants are in the order in which a write passes through them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Part {
        /// The command was received, but its connection was paused: a backlog was full, the host did not read its
        /// answers, or other hosts had their turns.
        Input => "input",
        /// The network's stage delayed the request for the host's data (R2T).
        R2t => "r2t",
        /// The command waited for its share of the memory for data.
        Memory => "memory",
        /// The command had its share of the memory, and waited for a free buffer.
        Buffer => "buffer",
        /// The host sent the data that it was asked for.
        Data => "data",
        /// A limit of a session on commands per second.
        Iops => "iops",
        /// A limit of a session on bytes per second.
        Bandwidth => "bandwidth",
        /// The operation or payload credits of a session.
        Credits => "credits",
        /// The device was left to reservations of other tenants.
        Reservation => "reservation",
        /// The device was left to other commands by the order of classes, sessions, hosts and queues.
        Order => "order",
        /// The device held as much as its window allows.
        Window => "window",
        /// The device executed the command.
        Device => "device",
        /// The answer waited for its turn on the connection.
        Reply => "reply",
        /// The answer was with the kernel's socket, or with the RDMA device, until all of its batch was sent.
        Socket => "socket",
    }
}

/// The parts of a command's time, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times([u64; Part::ALL.len()]);

impl Times {
    /// Returns the time of a part in ns.
    #[must_use]
    pub fn time(&self, part: Part) -> u64 {
        self.0.get(part as usize).copied().unwrap_or(0)
    }

    /// Returns the sum of all parts in ns: the command's time in the target.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, time| sum.saturating_add(*time))
    }

    #[inline]
    pub(crate) fn add(&mut self, part: Part, ns: u64) {
        if let Some(time) = self.0.get_mut(part as usize) {
            *time = time.saturating_add(ns);
        }
    }
}
