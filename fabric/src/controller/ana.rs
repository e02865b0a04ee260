//! Asymmetric Namespace Access (NVMe base 2.0, section 8.1): a namespace whose file or device is not there is
//! inaccessible.
//!
//! There are two groups, and a namespace changes its group: in the first one all namespaces can be
//! accessed, in the second one none. The state of a group is constant (until the target drains). So
//! a host with an old copy of the log still knows the state of a namespace by the group that
//! Identify Namespace reports. Both groups are always listed, for the same reason.
//!
//! Linux with native multipath holds back the I/O of a namespace that is inaccessible, without
//! timeouts and without counting retries. Linux without it enables the event, too, but treats the
//! status as an ordinary error and fails the command after five retries. The hosts differ in the
//! logs that they read before they connect I/O queues: only one with multipath reads this log then.
//! Only that host gets the status for an inaccessible namespace; others get Namespace Not Ready. An
//! operator who reads the log later (`nvme ana-log`) changes nothing.

use core::sync::atomic::Ordering;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::instance::Controller;
use super::{ControllerId, Namespace, Service};
use crate::nvme::identify::OptionalEvents;
use crate::nvme::log::{ANA_GROUPS_ONLY, AnaGroup, AnaHeader, GetLogPage, ana_state};

/// The group of the namespaces that can be accessed.
const ACCESSIBLE: u32 = 1;
/// The group of the namespaces whose file or device is not there.
const INACCESSIBLE: u32 = 2;
/// The number of groups, and the greatest identifier of one.
pub(super) const ANA_GROUPS: u32 = 2;
/// ANACAP: optimized (bit 0) and inaccessible (bit 2) are reported. A namespace changes its group (bit 6 is 0).
pub(super) const ANA_CAPABILITIES: u8 = 0b101;
/// ANATT in seconds: the time for which a group is in transition. No group ever is.
pub(super) const ANA_TRANSITION_TIME: u8 = 10;

/// The size in bytes of the log page of ANA states without the NSIDs, each of which takes 4 bytes more.
pub const ANA_LOG_HEAD: u32 = 16 + 32 * ANA_GROUPS;

impl Namespace {
    /// Returns the identifier of the group that the namespace is in.
    pub(super) fn ana_group(&self) -> u32 {
        if self.is_ready() { ACCESSIBLE } else { INACCESSIBLE }
    }
}

impl Service {
    /// Makes the log page, which is as long as it would be with all namespaces that there may be: hosts that read it
    /// in parts do not know beforehand where it ends, and read zeroes behind the last group.
    pub(super) fn ana_page(&self, controller: &Controller, command: &GetLogPage) -> Vec<u8> {
        let with_nsids = command.lsp & ANA_GROUPS_ONLY == 0;
        let changes = U64::new(self.ana_changes);
        let count = u16::try_from(ANA_GROUPS).unwrap_or(u16::MAX);
        let header = AnaHeader { changes, groups: U16::new(count), ..AnaHeader::default() };
        let mut page = header.as_bytes().to_vec();
        for id in [ACCESSIBLE, INACCESSIBLE] {
            let of_group = controller.table.iter().filter(|n| with_nsids && n.ana_group() == id);
            let nsids: Vec<u32> = of_group.map(|namespace| namespace.nsid).collect();
            let state = match id {
                ACCESSIBLE if !self.draining => ana_state::OPTIMIZED,
                _ => ana_state::INACCESSIBLE,
            };
            let group = AnaGroup {
                group: U32::new(id),
                namespaces: U32::new(u32::try_from(nsids.len()).unwrap_or(u32::MAX)),
                changes,
                state,
                ..AnaGroup::default()
            };
            page.extend_from_slice(group.as_bytes());
            page.extend(nsids.into_iter().flat_map(u32::to_le_bytes));
        }
        let most = ANA_LOG_HEAD.saturating_add(self.config.max_namespaces.saturating_mul(4));
        page.resize(page.len().max(usize::try_from(most).unwrap_or(usize::MAX)), 0);
        page
    }

    /// Notes that a controller's host has read the log page.
    pub(super) fn note_ana_log_read(&mut self, id: ControllerId) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.ana_read = Some(self.ana_changes);
            if controller.queues.is_empty() {
                controller.shared.knows_ana.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a controller's host has chosen its events. A host reads the log before: it would
    /// not learn of a change in between.
    pub(super) fn note_events_chosen(&mut self, id: ControllerId) {
        if let Some(controller) = self.controllers.get_mut(&id)
            && controller.ana_read.is_some_and(|read| read != self.ana_changes)
        {
            controller.events.raise(OptionalEvents::ANA_CHANGE);
            controller.pump_events(&mut self.actions);
        }
    }
}
