//! The properties of one controller, as they are now (NVMe base 2.0, section 3.1.3).

use crate::Nanos;
use crate::nvme::property::{Configuration, ControllerStatus};

/// The properties of one controller.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) configuration: Configuration,
    pub(super) status: ControllerStatus,
    /// The reset or shutdown that waits for the I/O queues to end.
    pub(super) quiesce: Option<Quiesce>,
    /// The time until which the enabled controller waits for others of its host to settle their
    /// commands before it is ready; `None`: it waits for none.
    pub(super) starts: Option<Nanos>,
}

/// A reset or shutdown under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiesce {
    /// The time at which the end is reported, regardless of the I/O queues.
    pub(super) until: Nanos,
    pub(super) reset: bool,
    pub(super) shutdown: bool,
}

impl Properties {
    /// Reports a reset or shutdown as complete.
    pub(super) fn finish_quiesce(&mut self) {
        let Some(quiesce) = self.quiesce.take() else { return };
        if quiesce.reset {
            self.status = ControllerStatus::empty();
        }
        if quiesce.shutdown {
            self.status.remove(ControllerStatus::SHUTDOWN_OCCURRING);
            self.status.insert(ControllerStatus::SHUTDOWN_COMPLETE);
        }
    }
}
