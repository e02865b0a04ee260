//! The present values of a controller's features (NVMe base 2.0, section 5.27).

use super::ServiceConfig;

/// Warning composite temperature in kelvin (WCTEMP): the default over-temperature threshold.
pub(super) const WARNING_TEMPERATURE: u16 = 343;

/// The features' present values, as far as they can be set.
#[derive(Debug)]
pub(super) struct Features {
    /// The Arbitration feature that the host has set; `None`: the target's holds.
    pub(super) arbitration: Option<u32>,
    pub(super) power: u32,
    pub(super) over_temperature: u16,
    pub(super) under_temperature: u16,
    pub(super) error_recovery: u32,
    pub(super) write_atomicity: u32,
    /// I/O queues that the host may connect.
    pub(super) queues_granted: u16,
    /// Whether the host has said how many I/O queues it wants.
    pub(super) queues_asked: bool,
    pub(super) host_behavior: bool,
}

impl Features {
    /// Makes the values after a reset.
    pub(super) fn new(config: &ServiceConfig) -> Self {
        Self {
            arbitration: None,
            power: 0,
            over_temperature: WARNING_TEMPERATURE,
            under_temperature: 0,
            error_recovery: 0,
            write_atomicity: 0,
            queues_granted: config.max_queues,
            queues_asked: false,
            host_behavior: false,
        }
    }

    /// Finds the threshold that TMPSEL and THSEL of `cdw11` name, if it exists: only the composite
    /// temperature has any.
    pub(super) fn threshold(&mut self, cdw11: u32, all: bool) -> Option<&mut u16> {
        let sensor = cdw11 >> 16 & 0xf;
        if sensor != 0 && !(all && sensor == 0xf) {
            return None;
        }
        match cdw11 >> 20 & 0x3 {
            0 => Some(&mut self.over_temperature),
            1 => Some(&mut self.under_temperature),
            _ => None,
        }
    }
}
