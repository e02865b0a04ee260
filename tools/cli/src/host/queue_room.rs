//! The room that a queue needs at the host.

/// The room that a connection has to have for its queue. A stream needs none; a queue pair is made with
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueRoom {
    /// The queue; 0 is the admin queue.
    pub(crate) qid: u16,
    /// The controller of an I/O queue.
    pub(crate) cntlid: u16,
    /// Commands that may be outstanding.
    pub(crate) depth: u16,
    /// The most bytes that a command moves.
    pub(crate) transfer: u32,
    /// The most bytes that travel in a command's capsule.
    pub(crate) in_capsule_data: u32,
}
