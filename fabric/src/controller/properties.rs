//! Property Get and Property Set: enable, reset, shutdown (NVMe base 2.0, sections 3.1.3, 3.6,
//! 3.7).

use core::sync::atomic::Ordering;

use super::instance::{Controller, ControllerKind};
use super::registers::Quiesce;
use super::{Action, CloseReason, ControllerId, Reply, Service, ServiceConfig};
use crate::Nanos;
use crate::fabrics::{PropertyGet, PropertySet, PropertySize};
use crate::nvme::Status;
use crate::nvme::property::{
    Capabilities, Configuration, ControllerStatus, ShutdownNotification, VERSION_2_0, offset,
};

/// CAP.TO, CRTO.CRWMT (15:0) and CRTO.CRIMT (31:16): 15 s, in units of 500 ms; above the limit for
/// quiescing.
const TIMEOUT_UNITS: u8 = 30;
/// IOSQES: entries of 64 bytes.
const SQ_ENTRY_SIZE: u8 = 6;
/// IOCQES: entries of 16 bytes.
const CQ_ENTRY_SIZE: u8 = 4;
/// CC.CSS 000b: the NVM command set.
const CSS_NVM: u8 = 0;
/// CC.CSS 110b: all command sets that Identify tells of.
const CSS_ALL: u8 = 6;

impl Controller {
    /// Returns the controller's capabilities, CAP.
    fn capabilities(&self, config: &ServiceConfig) -> u64 {
        Capabilities {
            max_queue_entries: self.queue_entries.saturating_sub(1),
            weighted_round_robin: config.weighted_round_robin,
            timeout: TIMEOUT_UNITS,
        }
        .bits()
    }

    /// Answers Property Get. Each property is read in its own size.
    pub(super) fn property_get(&self, command: PropertyGet, config: &ServiceConfig) -> Reply {
        use PropertySize::{Eight, Four};
        let properties = &self.properties;
        let value = match (command.offset, command.size) {
            (offset::CAP, Some(Eight)) => self.capabilities(config),
            (offset::VS, Some(Four)) => u64::from(VERSION_2_0),
            (offset::CC, Some(Four)) => u64::from(properties.configuration.0),
            (offset::CSTS, Some(Four)) => u64::from(properties.status.bits()),
            (offset::CRTO, Some(Four)) => u64::from(TIMEOUT_UNITS) << 16 | u64::from(TIMEOUT_UNITS),
            _ => return Reply::failed(Status::INVALID_FIELD.dnr()),
        };
        Reply::value(value)
    }

    /// Returns whether a host may write `next` to CC now.
    fn check_configuration(&self, next: Configuration, config: &ServiceConfig) -> bool {
        let now = self.properties.configuration;
        if next.has_reserved_bits() || next.shutdown() == ShutdownNotification::Reserved {
            return false;
        }
        if !next.enabled() {
            return true;
        }
        if now.enabled() {
            return !now.conflicts_with(next);
        }
        self.may_enable(next, config)
    }

    /// Starts the enabled controller, which takes commands from now on.
    pub(super) fn start(&mut self, now: Nanos) {
        self.properties.status = ControllerStatus::READY;
        self.keep_alive.restart(now);
        let running = self.properties.configuration.shutdown() == ShutdownNotification::None;
        self.shared.ready.store(running, Ordering::Release);
    }

    /// Returns whether the controller can run as `next` says.
    fn may_enable(&self, next: Configuration, config: &ServiceConfig) -> bool {
        let command_set = [CSS_NVM, CSS_ALL].contains(&next.command_set());
        let arbitration = next.arbitration() <= u8::from(config.weighted_round_robin);
        let sizes = self.kind == ControllerKind::Discovery
            || (next.sq_entry_size() == SQ_ENTRY_SIZE && next.cq_entry_size() == CQ_ENTRY_SIZE);
        // CRIME is the host's choice: the controller never waits for media.
        command_set && arbitration && sizes && next.page_size() == 0
    }
}

impl Service {
    /// Answers Property Set; CC is the only property that can be set.
    pub(super) fn property_set(
        &mut self,
        now: Nanos,
        id: ControllerId,
        command: PropertySet,
    ) -> Reply {
        let invalid = Reply::failed(Status::INVALID_FIELD.dnr());
        // The high half is reserved for a property of 4 bytes.
        let value = u32::try_from(command.value & 0xffff_ffff).unwrap_or(u32::MAX);
        if command.offset != offset::CC || command.size != Some(PropertySize::Four) {
            return invalid;
        }
        let next = Configuration(value);
        let Some(controller) = self.controllers.get_mut(&id) else { return invalid };
        if !controller.check_configuration(next, &self.config) {
            return invalid;
        }
        let was = controller.properties.configuration;
        if next.enabled() && !was.enabled() && controller.properties.quiesce.is_some() {
            return Reply::failed(Status::COMMAND_SEQUENCE_ERROR.dnr());
        }
        controller.properties.configuration = next;
        self.configuration_written(now, id, was, next);
        Reply::OK
    }

    fn configuration_written(
        &mut self,
        now: Nanos,
        id: ControllerId,
        was: Configuration,
        next: Configuration,
    ) {
        let none = ShutdownNotification::None;
        let shutdown = next.shutdown() != none && was.shutdown() == none;
        if next.enabled() && !was.enabled() {
            self.enable(now, id, next);
        }
        if was.enabled() && !next.enabled() {
            self.quiesce(now, id, true, shutdown);
        } else if shutdown {
            self.quiesce(now, id, false, true);
        }
    }

    fn enable(&mut self, now: Nanos, id: ControllerId, next: Configuration) {
        let waits = self.start_waits(now, id);
        let Some(controller) = self.controllers.get_mut(&id) else { return };
        controller.shared.wrr.store(next.arbitration() == 1, Ordering::Relaxed);
        controller.properties.starts = waits;
        controller.keep_alive.restart(now);
        if waits.is_none() {
            controller.start(now);
        }
    }

    /// Begins a reset or a shutdown: I/O queues are closed and grants of regions end. CSTS reports the
    /// end once the I/O queues' commands are settled, so that no earlier write lands after it.
    ///
    /// A reset completes Asynchronous Event Requests as aborted. A shutdown leaves them outstanding
    /// until the queue ends: SPDK's host takes a completion then for a fault and drops the queue
    /// before it reads CSTS.
    fn quiesce(&mut self, now: Nanos, id: ControllerId, reset: bool, shutdown: bool) {
        let reason =
            if reset { CloseReason::ControllerReset } else { CloseReason::ControllerShutdown };
        self.close_queues(id, reason);
        let Some(controller) = self.controllers.get_mut(&id) else { return };
        controller.properties.starts = None;
        controller.regions = None;
        controller.shared.ready.store(false, Ordering::Release);
        if reset {
            let connection = controller.admin;
            let requests = controller.reset(&self.config);
            self.actions.extend(requests.into_iter().map(|cid| Action::Complete {
                connection,
                cid,
                result: 0,
                status: Status::ABORTED_SQ_DELETION,
            }));
        } else {
            controller.events.silence();
        }
        let properties = &mut controller.properties;
        if shutdown {
            self.users.ended(now, id, true);
            properties.status.remove(ControllerStatus::SHUTDOWN_COMPLETE);
            properties.status.insert(ControllerStatus::SHUTDOWN_OCCURRING);
        }
        let before = properties.quiesce.take();
        properties.quiesce = Some(Quiesce {
            until: now + self.config.quiesce_limit,
            reset: reset || before.is_some_and(|b| b.reset),
            shutdown: shutdown || before.is_some_and(|b| b.shutdown && !reset),
        });
        self.finish_quiesce_if_settled(id);
    }
}
