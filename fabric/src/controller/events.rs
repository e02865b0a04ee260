//! Asynchronous events of one controller (NVMe base 2.0, section 5.2).

use std::collections::{BTreeSet, VecDeque};

use crate::nvme::identify::OptionalEvents;
use crate::nvme::log::lid;

/// AERL: outstanding Asynchronous Event Requests, 0's based.
pub(super) const AERL: u8 = 3;
/// Entries of the Changed Namespace List. More changes are reported as one entry FFFFFFFFh.
const CHANGED_MAX: usize = 1024;
/// Critical warnings of SMART that a host may ask events for: bits 7:0 of the configuration.
const SMART_EVENTS: u32 = 0xff;

/// The requests that wait for an event, the events that wait for a request, and the events that are
/// masked until the host has read the log page of the last one.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The Asynchronous Event Configuration feature.
    pub(super) configuration: u32,
    pending: OptionalEvents,
    masked: OptionalEvents,
    requests: VecDeque<u16>,
}

impl Events {
    /// Adds a request. Returns false if as many requests as AERL permits are outstanding.
    pub(super) fn request(&mut self, cid: u16) -> bool {
        let room = self.requests.len() <= usize::from(AERL);
        if room {
            self.requests.push_back(cid);
        }
        room
    }

    /// Withdraws request `cid`. Returns false where there is none.
    pub(super) fn cancel(&mut self, cid: u16) -> bool {
        let at = self.requests.iter().position(|&c| c == cid);
        at.and_then(|at| self.requests.remove(at)).is_some()
    }

    /// Withdraws and returns all requests, and forgets configuration, events and masks (reset).
    pub(super) fn reset(&mut self) -> VecDeque<u16> {
        std::mem::take(self).requests
    }

    /// Forgets configuration, events and masks, so that no event completes a request any more
    /// (shutdown). The requests stay outstanding until a reset or the end of the queue.
    pub(super) fn silence(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        *self = Self { requests, ..Self::default() };
    }

    /// Raises an event. The host is notified if it has enabled the event and has read the log page
    /// of the last one.
    pub(super) fn raise(&mut self, event: OptionalEvents) {
        let wanted = OptionalEvents::from_bits_truncate(self.configuration);
        self.pending |= event & wanted & !self.masked;
    }

    /// Notes that the host has read the log page of `event`, so that the next one may be reported.
    pub(super) fn log_read(&mut self, event: OptionalEvents) {
        self.masked.remove(event);
        self.pending.remove(event);
    }

    /// Returns the next request to complete: its identifier and result.
    pub(super) fn poll(&mut self) -> Option<(u16, u64)> {
        let event = self.pending.iter().next()?;
        let cid = self.requests.pop_front()?;
        self.pending.remove(event);
        self.masked.insert(event);
        Some((cid, result(event)))
    }
}

/// Encodes completion DW0: event type 2:0 (2 notice), information 15:8, log page 23:16.
fn result(event: OptionalEvents) -> u64 {
    let (information, page) = if event == OptionalEvents::NAMESPACE_ATTRIBUTE {
        (0x00, lid::CHANGED_NAMESPACES)
    } else if event == OptionalEvents::ANA_CHANGE {
        (0x03, lid::ANA)
    } else {
        (0xf0, lid::DISCOVERY)
    };
    2 | information << 8 | u64::from(page) << 16
}

/// Returns the events that an I/O controller can be asked for (OAES).
pub(super) fn io_events() -> OptionalEvents {
    OptionalEvents::NAMESPACE_ATTRIBUTE | OptionalEvents::ANA_CHANGE
}

/// Returns whether `configuration` asks only for existing events: `offered`, and on I/O controllers
/// the critical warnings, which never come.
pub(super) fn configuration_is_good(configuration: u32, offered: OptionalEvents) -> bool {
    let smart = if offered == OptionalEvents::DISCOVERY_CHANGE { 0 } else { SMART_EVENTS };
    configuration & !(offered.bits() | smart) == 0
}

/// The Changed Namespace List.
#[derive(Debug, Default)]
pub(super) struct ChangedNamespaces {
    nsids: BTreeSet<u32>,
    overflow: bool,
}

impl ChangedNamespaces {
    /// Notes that a namespace appeared, changed or went away.
    pub(super) fn insert(&mut self, nsid: u32) {
        self.nsids.insert(nsid);
        if self.nsids.len() > CHANGED_MAX {
            self.nsids.clear();
            self.overflow = true;
        }
    }

    /// Forgets all changes.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the log page.
    pub(super) fn page(&self) -> Vec<u8> {
        let overflow = self.overflow.then_some(u32::MAX);
        let listed = self.nsids.iter().copied().filter(|_| !self.overflow);
        let mut page: Vec<u8> =
            overflow.into_iter().chain(listed).flat_map(u32::to_le_bytes).collect();
        page.resize(CHANGED_MAX * 4, 0);
        page
    }
}
