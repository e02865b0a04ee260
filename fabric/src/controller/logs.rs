//! Get Log Page (NVMe base 2.0, section 5.16); the discovery page is in `discovery`.

use core::time::Duration;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::error_log::FailedCommand;
use super::features::{is_of_namespace, known};
use super::instance::{Controller, ControllerKind};
use super::{ConnectionId, Service};
use crate::Nanos;
use crate::nvme::identify::{OptionalCommands, OptionalEvents, ascii, zeroed};
use crate::nvme::log::{EffectsLog, FirmwareLog, GetLogPage, SmartLog, effects, lid};
use crate::nvme::{Status, opcode};

/// The composite temperature that is reported, in kelvin (40 °C), since there is no sensor.
const TEMPERATURE: u16 = 313;

/// The counters of a subsystem's SMART log page, counted by the daemon since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartCounters {
    /// Bytes that hosts have read.
    pub bytes_read: u64,
    /// Bytes that hosts have written.
    pub bytes_written: u64,
    /// Read commands completed.
    pub reads: u64,
    /// Write commands completed.
    pub writes: u64,
    /// Time with at least one command outstanding.
    pub busy: Duration,
    /// Time since the start.
    pub uptime: Duration,
    /// Commands that a device failed with a media error.
    pub media_errors: u64,
}

/// Copies the part of `page` that a command wants to `out`; beyond the end there are zeroes.
pub(super) fn copy_part(
    page: &[u8],
    command: &GetLogPage,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let length = usize::try_from(command.length).map_err(|_| Status::INVALID_FIELD)?;
    let offset = usize::try_from(command.offset).map_err(|_| Status::INVALID_FIELD)?;
    let rest = page.get(offset..).ok_or(Status::INVALID_FIELD)?;
    out.extend_from_slice(rest.get(..length).unwrap_or(rest));
    out.resize(length, 0);
    Ok(())
}

impl Service {
    /// Puts a failed I/O command into its controller's error log. `connection` is the queue's.
    pub fn log_error(&mut self, connection: ConnectionId, failed: FailedCommand) {
        if let Some(attachment) = self.connections.get(&connection)
            && let Some(controller) = self.controllers.get_mut(&attachment.controller)
        {
            controller.errors.record(controller.transport, failed);
        }
    }

    /// Answers Get Log Page; the caller clears events afterwards.
    pub(super) fn log_page(
        &self,
        now: Nanos,
        controller: &Controller,
        command: &GetLogPage,
        smart: &SmartCounters,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let too_long = command.length > u64::from(self.config.max_transfer);
        if too_long || !command.offset.is_multiple_of(4) || command.index_offset {
            return Err(Status::INVALID_FIELD);
        }
        let page = match (controller.kind, command.lid) {
            (_, lid::SUPPORTED) => {
                supported_pages(controller.kind, self.has_node_credits(controller.id))
            }
            (_, lid::ERROR) => controller.errors.page(),
            (_, lid::EFFECTS) => {
                let regions = self.serves_regions(controller.id);
                effects_page(controller, regions, self.has_node_credits(controller.id))
            }
            (_, lid::FEATURES) => features_page(controller.kind),
            (_, lid::MANAGEMENT_COMMANDS) => management_page(),
            (ControllerKind::Discovery, lid::DISCOVERY) => {
                return self.discovery_page(controller, command, out);
            }
            (ControllerKind::Io, lid::SMART) => smart_page(controller, command, smart)?,
            (ControllerKind::Io, lid::FIRMWARE) => self.firmware_page(),
            (ControllerKind::Io, lid::CHANGED_NAMESPACES) => controller.changed.page(),
            (ControllerKind::Io, lid::ANA) => self.ana_page(controller, command),
            (ControllerKind::Io, lid::NODE_CREDITS) => self.node_credit_page(now, controller)?,
            _ => return Err(Status::INVALID_LOG_PAGE),
        };
        copy_part(&page, command, out)
    }

    fn firmware_page(&self) -> Vec<u8> {
        let mut log = zeroed::<FirmwareLog>();
        log.active = 1;
        log.slot1 = ascii(&self.config.firmware);
        log.as_bytes().to_vec()
    }
}

impl Controller {
    /// Notes that the host has read a log page without Retain Asynchronous Event.
    pub(super) fn log_was_read(&mut self, page: u8) {
        match page {
            lid::CHANGED_NAMESPACES => {
                self.changed.clear();
                self.events.log_read(OptionalEvents::NAMESPACE_ATTRIBUTE);
            }
            lid::ANA => self.events.log_read(OptionalEvents::ANA_CHANGE),
            lid::DISCOVERY => self.events.log_read(OptionalEvents::DISCOVERY_CHANGE),
            _ => {}
        }
    }
}

/// Makes Supported Log Pages: bit 0 of the entry of each page. `node_credits`: the controller has Node Credits.
fn supported_pages(kind: ControllerKind, node_credits: bool) -> Vec<u8> {
    let pages: &[u8] = match kind {
        ControllerKind::Io => &[
            lid::SUPPORTED,
            lid::ERROR,
            lid::SMART,
            lid::FIRMWARE,
            lid::CHANGED_NAMESPACES,
            lid::EFFECTS,
            lid::ANA,
            lid::FEATURES,
            lid::MANAGEMENT_COMMANDS,
        ],
        ControllerKind::Discovery => &[
            lid::SUPPORTED,
            lid::ERROR,
            lid::EFFECTS,
            lid::FEATURES,
            lid::MANAGEMENT_COMMANDS,
            lid::DISCOVERY,
        ],
    };
    let is_supported = |id: u8| pages.contains(&id) || (node_credits && id == lid::NODE_CREDITS);
    (0..=u8::MAX).flat_map(|id| u32::from(is_supported(id)).to_le_bytes()).collect()
}

/// Makes SMART of the whole controller; there is none for single namespaces (LPA bit 0 is 0).
fn smart_page(
    controller: &Controller,
    command: &GetLogPage,
    smart: &SmartCounters,
) -> Result<Vec<u8>, Status> {
    if command.nsid != 0 && command.nsid != u32::MAX {
        return Err(Status::INVALID_FIELD);
    }
    let low = |value: u64| [U64::new(value), U64::ZERO];
    let units = |bytes: u64| low(bytes.div_ceil(512_000));
    let mut log = zeroed::<SmartLog>();
    log.temperature = U16::new(TEMPERATURE);
    log.spare = 100;
    log.spare_threshold = 10;
    log.units_read = units(smart.bytes_read);
    log.units_written = units(smart.bytes_written);
    log.reads = low(smart.reads);
    log.writes = low(smart.writes);
    log.busy_minutes = low(smart.busy.as_secs() / 60);
    log.power_cycles = low(1);
    log.power_on_hours = low(smart.uptime.as_secs() / 3600);
    log.media_errors = low(smart.media_errors);
    log.error_entries = low(controller.errors.count);
    Ok(log.as_bytes().to_vec())
}

/// Makes Feature Identifiers Supported and Effects: the support of each feature, and its scope.
/// None has an effect on data or on namespaces.
fn features_page(kind: ControllerKind) -> Vec<u8> {
    let entry = |feature: u8| {
        let scope = if is_of_namespace(feature) {
            effects::NAMESPACE_SCOPE
        } else {
            effects::CONTROLLER_SCOPE
        };
        if known(kind).contains(&feature) { effects::SUPPORTED | scope } else { 0 }
    };
    (0..=u8::MAX).flat_map(|feature| entry(feature).to_le_bytes()).collect()
}

/// Makes NVMe-MI Commands Supported and Effects: there are none.
fn management_page() -> Vec<u8> {
    vec![0; 1024]
}

/// Makes Commands Supported and Effects, in accord with Identify's ONCS. `regions`: the controller has
/// Get Region; `node_credits`: Report Backlog.
fn effects_page(controller: &Controller, regions: bool, node_credits: bool) -> Vec<u8> {
    use opcode::{admin, io};
    let for_all = U32::new(effects::SUPPORTED | effects::CONTROLLER_SCOPE);
    // I/O commands report no scope: Linux hosts warn of each that does.
    let supported = U32::new(effects::SUPPORTED);
    let writes = U32::new(effects::SUPPORTED | effects::CHANGES_BLOCKS);
    let mut log = zeroed::<EffectsLog>();
    let mut set = |code: u8, io: bool, value: U32| {
        let table = if io { &mut log.io } else { &mut log.admin };
        if let Some(entry) = table.get_mut(usize::from(code)) {
            *entry = value;
        }
    };
    for code in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT_REQUEST,
        admin::KEEP_ALIVE,
    ] {
        set(code, false, for_all);
    }
    if controller.kind == ControllerKind::Discovery {
        return log.as_bytes().to_vec();
    }
    let optional = controller.table.commands();
    set(admin::ABORT, false, for_all);
    if regions {
        set(admin::GET_REGION, false, for_all);
    }
    if node_credits {
        set(admin::REPORT_BACKLOG, false, for_all);
    }
    set(io::FLUSH, true, supported);
    set(io::READ, true, supported);
    set(io::WRITE, true, writes);
    for (command, code, value) in [
        (OptionalCommands::COMPARE, io::COMPARE, supported),
        (OptionalCommands::VERIFY, io::VERIFY, supported),
        (OptionalCommands::WRITE_ZEROES, io::WRITE_ZEROES, writes),
        (OptionalCommands::DATASET_MANAGEMENT, io::DATASET_MANAGEMENT, writes),
    ] {
        if optional.contains(command) {
            set(code, true, value);
        }
    }
    log.as_bytes().to_vec()
}
