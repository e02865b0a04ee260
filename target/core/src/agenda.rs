//! What a reactor has to come back to: connections and commands, by the reason.

use fabric::Nanos;
use fabric::queue::SlotId;

use crate::key::Key;

/// What a reactor has to come back to.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Connections with something to send.
    pub(crate) to_send: Vec<Key>,
    /// Connections that carried commands out on the spot, which are not recorded yet.
    pub(crate) to_record: Vec<Key>,
    /// Connections with data to ask their hosts for.
    pub(crate) r2t_waits: Vec<Key>,
    /// Time at which the first of those hosts may be asked.
    pub(crate) next_r2t: Nanos,
    /// Connections that take no commands until there is room.
    pub(crate) paused: Vec<Key>,
    /// Connections that end.
    pub(crate) closing: Vec<Key>,
    /// Time at which the first of those connections ends, whatever it has still to send.
    pub(crate) next_end: Option<Nanos>,
    /// Commands whose next slice is due.
    pub(crate) slices: Vec<(Key, SlotId)>,
}

impl Agenda {
    /// Makes an agenda with nothing to come back to.
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            to_send: Vec::new(),
            to_record: Vec::new(),
            r2t_waits: Vec::new(),
            next_r2t: now,
            paused: Vec::new(),
            closing: Vec::new(),
            next_end: None,
            slices: Vec::new(),
        }
    }

    /// Adds a connection whose host is asked for data as soon as it may be.
    pub(crate) fn add_r2t(&mut self, connection: Key, now: Nanos) {
        self.r2t_waits.push(connection);
        self.next_r2t = now;
    }
}
