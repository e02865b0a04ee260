//! The sending side of a connection: the batches that are with the driver.

use fabric::Nanos;
use fabric::queue::Transport as _;

use super::progress::taken_by;
use crate::machine::driver::{Batch, Driver};
use crate::machine::key::Key;
use crate::trace::answers::Answers;

/// The sending side of a connection.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// Number of batches that are with the driver.
    batches: usize,
    /// Time by which the host must have taken the oldest of them.
    until: Option<Nanos>,
}

impl Sender {
    /// Passes all batches that the transport hands out to the driver, and notes each for the traced `answers`.
    #[inline]
    pub(crate) fn send<D: Driver>(
        &mut self,
        (driver, now): (&mut D, Nanos),
        key: Key,
        transport: &mut D::Transport,
        mut answers: Option<&mut Answers>,
    ) {
        let mut unsent = transport.unsent();
        while let Some(batch) = transport.take_batch() {
            self.batches += 1;
            self.until.get_or_insert_with(|| taken_by(now, unsent));
            driver.send(key, batch);
            let before = unsent;
            unsent = transport.unsent();
            if let Some(answers) = &mut answers {
                answers.batch_taken(now, before.saturating_sub(unsent));
            }
            if unsent == 0 {
                break;
            }
        }
    }

    /// Takes a batch back from the driver.
    #[inline]
    pub(crate) fn came_back<D: Driver>(
        &mut self,
        now: Nanos,
        transport: &mut D::Transport,
        batch: Batch<D>,
    ) {
        transport.give_back(batch);
        self.batches = self.batches.saturating_sub(1);
        self.until = (self.batches > 0).then(|| taken_by(now, 0));
    }

    /// Returns the number of batches that the driver has.
    pub(crate) fn batches(&self) -> usize {
        self.batches
    }

    /// Returns whether the driver has no batch.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.batches == 0
    }

    /// Returns whether the host receives its answers too slowly.
    pub(crate) fn is_kept(&self, now: Nanos) -> bool {
        self.until.is_some_and(|until| now > until)
    }
}
