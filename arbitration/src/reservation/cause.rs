//! The causes of missed periods (docs/research/sources.md, F3: reservations are kept).

/// The cause for which less than the reservation was complete in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The device took longer for commands than it was measured to take.
    Device,
    /// The tenant had too few commands outstanding at a time.
    Depth,
    /// Commands waited inside the device behind others that the window had let in.
    Window,
    /// Commands waited in the target: for urgent commands, or for other reservations.
    Order,
    /// Commands waited for memory, or for the data of their hosts.
    Data,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 5] = [Self::Device, Self::Depth, Self::Window, Self::Order, Self::Data];

    /// The name of the cause.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Depth => "depth",
            Self::Window => "window",
            Self::Order => "order",
            Self::Data => "data",
        }
    }
}
