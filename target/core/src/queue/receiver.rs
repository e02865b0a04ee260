//! The way in which the driver receives for a connection: chunk after chunk, or once, where data of
//! the next command goes straight to its buffer.

use fabric::queue::{Arriving, Transport as _};

use super::state::Queue;
use crate::machine::driver::Driver;
use crate::machine::key::Key;
use crate::reactor::context::Context;

/// Number of single receives in a row without much data for a command, before the driver receives
/// chunk after chunk again: commands and heads come between large data.
const SINGLES: u8 = 8;

/// The driver's current receive operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    /// The driver does not receive.
    No,
    /// Chunk after chunk.
    Stream,
    /// Chunk after chunk; a stop was requested.
    Stopping,
    /// One chunk.
    Chunk,
    /// Once.
    Once,
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    receiving: Receiving,
    /// Number of single receives without much data for a command that are left, before the driver
    /// receives chunk after chunk again.
    singles: u8,
}

impl Receiver {
    /// Makes the receiving side of a connection that does not receive yet.
    pub(crate) fn new() -> Self {
        Self { receiving: Receiving::No, singles: 0 }
    }

    /// Returns whether the driver does not receive.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.receiving == Receiving::No
    }

    /// Starts to receive; the driver must be idle. With `own`, input goes into memory of the connection's own, a
    /// little at a time.
    pub(crate) fn begin<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        queue: &mut Queue<D>,
        own: bool,
    ) {
        let large = large_data(queue, io);
        let Queue { key, commands, .. } = queue;
        let place = large.and_then(|Arriving { slot, offset, length }| {
            commands.lend(io.now, slot, offset, length)
        });
        self.singles = if place.is_some() { SINGLES } else { self.singles.saturating_sub(1) };
        if self.singles > 0 || own {
            self.receiving = Receiving::Once;
            io.driver.receive_once(*key, place);
        } else if io.turns.is_short() {
            self.receiving = Receiving::Chunk;
            io.driver.receive_chunk(*key);
        } else {
            self.receiving = Receiving::Stream;
            io.driver.receive(*key);
        }
    }

    /// Notes that the driver receives no more.
    pub(crate) fn ended(&mut self) {
        self.receiving = Receiving::No;
    }

    /// Ends the stream of chunks.
    pub(crate) fn stop<D: Driver>(&mut self, io: &mut Context<D>, key: Key) {
        if self.receiving == Receiving::Stream {
            self.receiving = Receiving::Stopping;
            io.driver.stop_receiving(key);
        }
    }

    /// Ends the stream of chunks where data of the next command may go to its buffer instead.
    #[inline]
    pub(crate) fn stop_for_large<D: Driver>(&mut self, io: &mut Context<D>, queue: &Queue<D>) {
        if self.receiving == Receiving::Stream && large_data(queue, io).is_some() {
            // All of the large data may have come before the stream of chunks ends: then the next
            // data may go where it belongs.
            self.singles = SINGLES;
            self.stop(io, queue.key);
        }
    }
}

/// Returns where data of the next command belongs, if there is much of it and it has a buffer.
#[inline]
fn large_data<D: Driver>(queue: &Queue<D>, io: &Context<D>) -> Option<Arriving> {
    let arriving = queue.transport.arriving()?;
    let large = arriving.length >= io.settings.direct_min;
    (large && queue.commands.is_filling(arriving.slot)).then_some(arriving)
}
