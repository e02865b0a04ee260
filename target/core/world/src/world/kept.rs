//! Records of a drain that is under way, and of reservations in force.

use std::sync::Arc;
use std::time::Duration;

use arbitration::reservation::{Admitted, Reserved};
use fabric::Nanos;
use fabric::controller::BackendId;

/// A drain that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// Time that reactors have to settle their commands.
    pub(super) time: Duration,
    /// Time at which reactors must have closed everything.
    pub(super) until: Nanos,
    /// Number of reactors that were not told yet.
    pub(super) untold: usize,
    /// Step at which the last reactor was told.
    pub(super) told: u64,
    /// Number of commands that reactors had when they were told.
    pub(super) had: usize,
    /// Number of those commands that were answered since.
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
