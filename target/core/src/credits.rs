//! Credits for data that hosts are to send (docs/sources.md, F5: the server asks for data when it
//! has room): an R2T is one, for as long as a host may owe data.
//!
//! A credit has its buffer from the beginning while there are buffers. When there are none it may
//! be given for one that is expected to be free by the time the data comes, so that the buffer
//! does not stand empty for a round trip. Data for which there is none after all is parked in
//! memory of its own, of which there is never more than was promised.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fabric::queue::{SlotId, Transport as _};
use qtcp::forecast::Forecast;

use crate::commands::{Source, State};
use crate::connection::Connection;
use crate::context::Context;
use crate::driver::{Buffer, Driver, Memory, Use};

/// The part of the I/O buffers that data from hosts may take, in quarters, and the part that may be
/// promised beside it, in eighths.
const DATA_QUARTERS: usize = 3;
const PROMISED_EIGHTHS: usize = 1;

/// Space that was promised; what is left of it goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) bytes: usize,
    all: Rc<Cell<usize>>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.all.set(self.all.get().saturating_sub(self.bytes));
    }
}

/// What one reactor has promised.
#[derive(Debug)]
pub(crate) struct Credits {
    forecast: Forecast,
    promised: Rc<Cell<usize>>,
    /// Bytes of buffers for data from hosts, and bytes that may be promised.
    data: usize,
    most: usize,
}

impl Credits {
    /// For `memory` bytes of I/O buffers.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            forecast: Forecast::default(),
            promised: Rc::default(),
            data: memory / 4 * DATA_QUARTERS,
            most: memory / 8 * PROMISED_EIGHTHS,
        }
    }

    /// Bytes that are promised.
    pub(crate) fn promised(&self) -> usize {
        self.promised.get()
    }

    /// Bytes that hosts may be asked for at one time: with buffers, and promised.
    pub(crate) fn window(&self) -> usize {
        self.data + self.most
    }

    /// A promise of `bytes` that will be free within `time`.
    fn promise(&self, bytes: usize, time: Duration) -> Option<Promise> {
        let all = self.promised.get() + bytes;
        let soon = usize::try_from(self.forecast.within(time)).unwrap_or(usize::MAX);
        if all > self.most.min(soon) {
            return None;
        }
        self.promised.set(all);
        Some(Promise { bytes, all: Rc::clone(&self.promised) })
    }
}

impl<D: Driver> Context<D> {
    /// Learns how fast buffers become free.
    pub(crate) fn foretell(&mut self) {
        let freed = self.pool.data_freed();
        self.credits.forecast.see(self.now, freed);
    }

    /// A buffer for data from a host, if its part of the buffers has one beside those that were
    /// promised to others.
    pub(crate) fn data_buffer(&self, bytes: usize) -> Option<Buffer<D>> {
        self.buffer_beside(self.credits.promised.get(), bytes)
    }

    fn buffer_beside(&self, promised: usize, bytes: usize) -> Option<Buffer<D>> {
        let used = self.pool.data_used() + promised;
        // One command may always go on, however few buffers there are.
        if used > 0 && used + bytes > self.credits.data {
            return None;
        }
        self.pool.take(bytes, Use::Data)
    }
}

impl<D: Driver> Connection<D> {
    /// Asks for a command's data although there is no buffer for it, if one is expected to be
    /// free when the data comes. Whether it did.
    pub(crate) fn ask_ahead(&mut self, io: &mut Context<D>, slot: SlotId, bytes: usize) -> bool {
        /// What a host takes to answer an R2T, beside the network's time.
        const HOST: Duration = Duration::from_micros(500);
        let Some(net) = &self.net else { return false };
        let time = net.flow.rtt() + HOST;
        let Some(promise) = io.credits.promise(bytes, time) else { return false };
        match self.commands.take(slot) {
            State::DataBuffer(grant) => self.commands.change(slot, State::Promised(promise, grant)),
            other => {
                self.commands.put_back(slot, other);
                return true;
            }
        }
        self.request(io, slot, u32::try_from(bytes).unwrap_or(u32::MAX));
        self.mark_dirty(io);
        true
    }

    /// The first data of a command has come whose buffer was promised.
    pub(crate) fn keep_promise(&mut self, io: &Context<D>, slot: SlotId) {
        match self.commands.take(slot) {
            State::Promised(promise, grant) => {
                let bytes = promise.bytes;
                let state = match io.buffer_beside(0, bytes) {
                    Some(buffer) => State::Filling(buffer, Source::Fetched(grant)),
                    None => State::Parked(vec![0; bytes], promise, grant),
                };
                self.commands.change(slot, state);
            }
            other => self.commands.put_back(slot, other),
        }
    }

    /// All data of a command has come that was parked: on it goes if there is a buffer now.
    /// False where there is still none.
    pub(crate) fn unpark(&mut self, io: &mut Context<D>, slot: SlotId) -> bool {
        let State::Parked(data, ..) = self.commands.state(slot) else { return true };
        let Some(mut buffer) = io.buffer_beside(0, data.len()) else { return false };
        buffer.copy_from_slice(data);
        let State::Parked(_, _, grant) = self.commands.take(slot) else { return true };
        let sqe = *self.protocol.sqe_of(slot);
        self.submit(io, slot, &sqe, Some(buffer), Source::Fetched(grant));
        self.mark_dirty(io);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f5_no_more_is_promised_than_will_be_free() {
        let mut credits = Credits::new(8 << 20);
        let rtt = Duration::from_millis(1);
        assert!(credits.promise(4096, rtt).is_none(), "nothing has become free yet");
        for ms in 0..1000_u64 {
            credits.forecast.see(qtcp::Nanos(ms * 1_000_000), ms << 20);
        }
        let mut promises = Vec::new();
        while let Some(promise) = credits.promise(65_536, rtt) {
            promises.push(promise);
        }
        assert!((4..=8).contains(&promises.len()), "half of 1 MiB: {}", promises.len());
        promises.pop();
        assert!(credits.promise(65_536, rtt).is_some(), "a promise that is kept may be made anew");
        let long = Duration::from_secs(10);
        while let Some(promise) = credits.promise(65_536, long) {
            promises.push(promise);
        }
        assert!(credits.promised.get() <= 1 << 20, "an eighth of the buffers at most");
    }
}
