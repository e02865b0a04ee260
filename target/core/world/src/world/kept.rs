//! What a world keeps of a drain that is under way, and of reservations in force.

use std::sync::Arc;
use std::time::Duration;

use arbitration::reservation::{Admitted, Reserved};
use fabric::Nanos;
use fabric::controller::BackendId;

/// A drain that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// How long reactors may take to settle what they have.
    pub(super) time: Duration,
    /// When they must have closed everything.
    pub(super) until: Nanos,
    /// Reactors that were not told yet.
    pub(super) untold: usize,
    /// The step at which the last of them was told.
    pub(super) told: u64,
    /// Commands that reactors had when they were told, and those that hosts had answers for since.
    pub(super) had: usize,
    pub(super) answered: usize,
}

/// A reservation in force.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub(super) backend: BackendId,
    pub(super) session: String,
    pub(super) admitted: Admitted,
    pub(super) reserved: Arc<Reserved>,
}
