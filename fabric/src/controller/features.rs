//! Get and Set Features (NVMe base 2.0, sections 5.15 and 5.27).

use core::sync::atomic::Ordering;

use super::events::{configuration_is_good, io_events};
use super::feature_values::Features;
use super::instance::{Controller, ControllerKind, KeepAlive};
use super::{Reply, ServiceConfig};
use crate::Nanos;
use crate::nvme::Status;
use crate::nvme::feature::{GetFeature, HOST_BEHAVIOR_SIZE, Select, SetFeature, fid};
use crate::nvme::identify::OptionalEvents;

/// Capabilities of a feature, DW0 bit 2: the feature can be changed. (Bit 0, saveable, is never
/// set.)
const CHANGEABLE: u64 = 1 << 2;
/// Capabilities, bit 1: the value belongs to one namespace.
const NAMESPACE_SPECIFIC: u64 = 1 << 1;

/// Encodes a number of queues, 0's based, in both halves of DW0.
fn queues(count: u16) -> u64 {
    let count = u64::from(count.saturating_sub(1));
    count | count << 16
}

impl Controller {
    /// Answers Get Features.
    pub(super) fn get_feature(
        &mut self,
        command: GetFeature,
        config: &ServiceConfig,
        out: &mut Vec<u8>,
    ) -> Reply {
        let known = self.knows_feature(command.fid);
        let value = match command.select.filter(|_| known) {
            Some(Select::Current) => self.current(command, config, out),
            // Nothing is saveable: the saved value is the default.
            Some(Select::Default | Select::Saved) => self.default_value(command, config, out),
            Some(Select::Capabilities) => Some(self.feature_capabilities(command.fid)),
            None => None,
        };
        value.map_or(Reply::failed(Status::INVALID_FIELD.dnr()), Reply::value)
    }

    fn knows_feature(&self, feature: u8) -> bool {
        known(self.kind).contains(&feature)
    }

    fn current(
        &mut self,
        command: GetFeature,
        config: &ServiceConfig,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        Some(match command.fid {
            fid::ARBITRATION => u64::from(self.arbitration(config)),
            fid::POWER => u64::from(self.features.power),
            fid::TEMPERATURE => u64::from(*self.features.threshold(command.cdw11, false)?),
            fid::ERROR_RECOVERY => u64::from(self.features.error_recovery),
            fid::WRITE_ATOMICITY => u64::from(self.features.write_atomicity),
            // The cache cannot be turned off.
            fid::WRITE_CACHE => 1,
            fid::QUEUES => queues(self.features.queues_granted),
            fid::ASYNC_EVENTS => u64::from(self.events.configuration),
            fid::KEEP_ALIVE => u64::from(self.keep_alive.milliseconds),
            fid::HOST_BEHAVIOR => {
                host_behavior(self.features.host_behavior, out);
                0
            }
            fid::HOST_IDENTIFIER => self.host_identifier(command.cdw11, out)?,
            _ => return None,
        })
    }

    fn default_value(
        &self,
        command: GetFeature,
        config: &ServiceConfig,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let mut features = Features::new(config);
        Some(match command.fid {
            fid::ARBITRATION => u64::from(config.arbitration),
            fid::TEMPERATURE => u64::from(*features.threshold(command.cdw11, false)?),
            fid::WRITE_CACHE => 1,
            fid::QUEUES => queues(features.queues_granted),
            fid::HOST_BEHAVIOR => {
                host_behavior(false, out);
                0
            }
            fid::HOST_IDENTIFIER => self.host_identifier(command.cdw11, out)?,
            _ => 0,
        })
    }

    /// Returns the host identifier in its 128-bit form (EXHID), the only one over fabrics.
    fn host_identifier(&self, cdw11: u32, out: &mut Vec<u8>) -> Option<u64> {
        if cdw11 & 1 == 0 {
            return None;
        }
        out.extend_from_slice(&self.host_id);
        Some(0)
    }

    /// Answers Set Features.
    pub(super) fn set_feature(
        &mut self,
        now: Nanos,
        command: SetFeature,
        data: &[u8],
        config: &ServiceConfig,
        most_queues: u16,
    ) -> Reply {
        if !self.knows_feature(command.fid) {
            return Reply::failed(Status::INVALID_FIELD.dnr());
        }
        if command.save {
            return Reply::failed(Status::FEATURE_NOT_SAVEABLE.dnr());
        }
        let value = command.cdw11;
        let done = match command.fid {
            fid::ARBITRATION => self.set_arbitration(value, config),
            fid::POWER => self.set_power(value),
            fid::TEMPERATURE => self.set_threshold(value),
            fid::ERROR_RECOVERY => self.set_error_recovery(value),
            fid::WRITE_ATOMICITY => self.set_write_atomicity(value),
            fid::WRITE_CACHE => set_write_cache(value),
            fid::QUEUES => return self.set_queues(value, most_queues),
            fid::ASYNC_EVENTS => self.set_events(value),
            fid::KEEP_ALIVE if KeepAlive::allows(value, self.kind, config) => {
                self.keep_alive.set(now, value, config);
                Ok(())
            }
            fid::KEEP_ALIVE => Err(Status::KEEP_ALIVE_INVALID),
            fid::HOST_BEHAVIOR => self.set_host_behavior(data),
            // Over fabrics, Connect sets the host identifier.
            _ => Err(Status::COMMAND_SEQUENCE_ERROR),
        };
        done.map_or_else(|status| Reply::failed(status.dnr()), |()| Reply::OK)
    }

    /// Returns a feature's capabilities.
    fn feature_capabilities(&self, feature: u8) -> u64 {
        match feature {
            fid::ARBITRATION if !self.has_own_weights() => 0,
            fid::WRITE_CACHE | fid::HOST_IDENTIFIER => 0,
            feature if is_of_namespace(feature) => CHANGEABLE | NAMESPACE_SPECIFIC,
            _ => CHANGEABLE,
        }
    }

    /// Returns whether the host may have weights of its own: CC.AMS is weighted round robin.
    fn has_own_weights(&self) -> bool {
        self.shared.wrr.load(Ordering::Relaxed)
    }

    /// Returns the present burst and weights: the host's, or else the target's.
    pub(super) fn arbitration(&self, config: &ServiceConfig) -> u32 {
        self.features.arbitration.unwrap_or(config.arbitration)
    }

    /// Sets the burst and the weights that order the host's own queues. Without weighted round
    /// robin the feature shows the values for all hosts, and no host can change it.
    fn set_arbitration(&mut self, value: u32, config: &ServiceConfig) -> Result<(), Status> {
        // Bits 7:3 are reserved.
        if value & 0xf8 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if self.has_own_weights() {
            self.features.arbitration = Some(value);
            self.shared.weights.set(value);
            return Ok(());
        }
        if value == config.arbitration { Ok(()) } else { Err(Status::FEATURE_NOT_CHANGEABLE) }
    }

    /// Sets the power state, of which there is one; the workload hint (7:5) is kept.
    fn set_power(&mut self, value: u32) -> Result<(), Status> {
        if value & !0xe0 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        self.features.power = value;
        Ok(())
    }

    fn set_threshold(&mut self, value: u32) -> Result<(), Status> {
        let [low, high, ..] = value.to_le_bytes();
        let threshold = self.features.threshold(value, true).ok_or(Status::INVALID_FIELD)?;
        *threshold = u16::from_le_bytes([low, high]);
        Ok(())
    }

    /// Sets TLER; DULBE needs a namespace that tells deallocated blocks from others.
    fn set_error_recovery(&mut self, value: u32) -> Result<(), Status> {
        if value & !0xffff != 0 {
            return Err(Status::INVALID_FIELD);
        }
        self.features.error_recovery = value;
        Ok(())
    }

    /// Sets DN, which says that the host does not need AWUN and NAWUN. Both are one block, which
    /// the target writes atomically in any case.
    fn set_write_atomicity(&mut self, value: u32) -> Result<(), Status> {
        if value & !1 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        self.features.write_atomicity = value;
        Ok(())
    }

    fn set_queues(&mut self, value: u32, most: u16) -> Reply {
        let (submission, completion) = (value & 0xffff, value >> 16);
        if submission == 0xffff || completion == 0xffff {
            return Reply::failed(Status::INVALID_FIELD.dnr());
        }
        if !self.queues.is_empty() {
            return Reply::failed(Status::COMMAND_SEQUENCE_ERROR.dnr());
        }
        let asked = u16::try_from(submission.min(completion) + 1).unwrap_or(u16::MAX);
        self.features.queues_granted = asked.min(most);
        self.features.queues_asked = true;
        Reply::value(queues(self.features.queues_granted))
    }

    fn set_events(&mut self, value: u32) -> Result<(), Status> {
        if !configuration_is_good(value, self.offered_events()) {
            return Err(Status::INVALID_FIELD);
        }
        self.events.configuration = value;
        Ok(())
    }

    /// Returns the events that the controller offers (OAES).
    pub(super) fn offered_events(&self) -> OptionalEvents {
        match self.kind {
            ControllerKind::Io => io_events(),
            ControllerKind::Discovery => OptionalEvents::DISCOVERY_CHANGE,
        }
    }

    /// Sets ACRE (byte 0); the other behaviours are ignored, as the controller offers none of them.
    fn set_host_behavior(&mut self, data: &[u8]) -> Result<(), Status> {
        let on = match data.first() {
            Some(0) => false,
            Some(1) => true,
            _ => return Err(Status::INVALID_FIELD),
        };
        self.features.host_behavior = on;
        self.shared.acre.store(on, Ordering::Relaxed);
        Ok(())
    }
}

fn host_behavior(acre: bool, out: &mut Vec<u8>) {
    out.push(u8::from(acre));
    out.resize(HOST_BEHAVIOR_SIZE, 0);
}

/// Refuses to turn the cache off: Flush and FUA are the way to stable storage.
fn set_write_cache(value: u32) -> Result<(), Status> {
    match value {
        1 => Ok(()),
        0 => Err(Status::FEATURE_NOT_CHANGEABLE),
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Returns the features of a controller.
pub(super) fn known(kind: ControllerKind) -> &'static [u8] {
    match kind {
        ControllerKind::Io => &[
            fid::ARBITRATION,
            fid::POWER,
            fid::TEMPERATURE,
            fid::ERROR_RECOVERY,
            fid::WRITE_CACHE,
            fid::QUEUES,
            fid::WRITE_ATOMICITY,
            fid::ASYNC_EVENTS,
            fid::KEEP_ALIVE,
            fid::HOST_BEHAVIOR,
            fid::HOST_IDENTIFIER,
        ],
        ControllerKind::Discovery => &[fid::ASYNC_EVENTS, fid::KEEP_ALIVE],
    }
}

/// Returns whether a feature's value belongs to one namespace.
pub(super) fn is_of_namespace(feature: u8) -> bool {
    feature == fid::ERROR_RECOVERY
}
