//! The events of a reactor's turn.

use fabric::controller::Action;
use fabric::queue::{Either, Fetch, Inbox as _};

use super::disk::Blocks;
use super::machine::Machine;
use super::wire::{Batch, Place, Units};
use crate::machine::driver::{Ended, Started};
use crate::machine::key::Key;
use crate::reactor::core::Core;

/// An event of a connection, or of all of a reactor.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box of a job would cost more than its moves")]
pub enum Input<B: Blocks> {
    /// A chunk has arrived.
    Received(Key, Units<Vec<u8>>),
    /// A receive into a place is over: the place, the number of bytes there, and the units after them.
    ReceivedOnce(Key, Option<Place>, usize, Units<Vec<u8>>),
    /// A receive is over, and whether the connection was lost.
    ReceiveEnded(Key, bool),
    /// There is no memory to receive into.
    ReceiveStarved(Key),
    /// A batch was sent, or lost.
    Sent(Key, Batch, bool),
    /// A fetch is over: the data where it had no place, and whether it was lost.
    Fetched(Key, Fetch, Option<Place>, Vec<u8>, bool),
    /// A command has left its device.
    JobEnded(Ended<Machine<B>>),
    /// The service wants something done.
    Act(Action),
}

impl<B: Blocks> Input<B> {
    /// Passes the event to a reactor. Returns the memory of received units.
    pub fn put(self, core: &mut Core<Machine<B>>) -> Units<Vec<u8>> {
        let why = |lost: bool| lost.then(|| "it was cut".into());
        match self {
            Self::Received(key, units) => {
                core.received(key, units.kept());
                core.caught_up(key);
                return units;
            }
            Self::ReceivedOnce(key, place, placed, rest) => {
                core.received_once(key, place, placed, rest.kept());
                core.caught_up(key);
                return rest;
            }
            Self::Fetched(key, fetch, place, bytes, lost) => {
                core.fetched(key, (&fetch, &bytes), place, why(lost));
                return Either::Left(bytes);
            }
            Self::ReceiveEnded(key, lost) => core.receive_ended(key, why(lost)),
            Self::ReceiveStarved(key) => core.receive_starved(key),
            Self::Sent(key, batch, lost) => core.sent(key, batch, why(lost)),
            Self::JobEnded(ended) => {
                core.driver().job_ends();
                core.job_ended(ended.job.connection(), Started::<Machine<B>>::Ended(ended));
            }
            Self::Act(action) => core.act(action),
        }
        Units::default()
    }
}
