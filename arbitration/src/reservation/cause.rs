//! The causes of missed periods (docs/research/sources.md, F3: reservations are kept).

units::named! {
    /// The cause for which less than the reservation was complete in a period.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cause {
        /// The device took longer for commands than it was measured to take.
        Device => "device",
        /// The tenant had too few commands outstanding at a time.
        Depth => "depth",
        /// Commands waited inside the device behind others that the window had let in.
        Window => "window",
        /// Commands waited in the target: for urgent commands, or for other reservations.
        Order => "order",
        /// Commands waited for memory, or for the data of their hosts.
        Data => "data",
    }
}
