//! The state of the stages of quality of service.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::Io;
use crate::params::Settings;

/// The keys of `[qos]` with their values.
pub type QosSettings = Settings;
/// The keys of `[[session]]` with their values.
pub type SessionSettings = Settings;
/// The keys of `[[profile]]` with their values.
pub type ProfileSettings = Settings;
/// A value for each class by the class's name.
pub type ByClass<T> = BTreeMap<String, T>;

/// The answer to `qos.show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Qos {
    /// The keys of `[qos]`. As JSON they stand beside the other fields.
    #[serde(flatten)]
    pub settings: QosSettings,
    /// The classes, the most urgent first.
    pub classes: Vec<ClassTraffic>,
    /// The sessions, a parent before its children.
    pub sessions: Vec<Session>,
    /// The devices of namespaces.
    pub devices: Vec<DeviceRow>,
    /// The policies, each with the keys of `[[policy]]`.
    pub policies: Vec<Settings>,
}

/// The traffic through a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Traffic {
    /// Commands that wait now.
    pub waiting: u64,
    /// Commands that were rejected with a status that asks the host to retry later.
    pub refused: u64,
    /// The operations that were carried out.
    pub io: Io,
}

/// A class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClassTraffic {
    /// The name.
    pub class: String,
    /// The commands. As JSON the fields stand beside the name.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// A session as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Session {
    /// The name.
    pub name: String,
    /// The parent's name; `None` for the root.
    pub parent: Option<String>,
    /// Whether the session comes with a subsystem or a namespace.
    pub automatic: bool,
    /// Credits in commands.
    #[serde(rename = "commands", alias = "operations")]
    pub operations: CreditUse,
    /// Payload credits in bytes.
    pub payload: CreditUse,
    /// The limits in effect. As JSON the fields stand beside the others.
    #[serde(flatten)]
    pub limits: Limits,
    /// The profile whose limits it has where it sets none of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Commands that may wait before hosts are held back.
    pub queue: u32,
    /// The weight beside the other sessions of the parent; 0 in answers of daemons without weights.
    pub weight: u32,
    /// The reservation.
    pub reserve: Option<Reservation>,
    /// Whether a live change makes the session differ from the configuration file.
    pub live: bool,
    /// The traffic on the session's account. As JSON the fields stand beside the others.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The limits of a session or profile; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// All commands, per second.
    pub iops: Option<u64>,
    /// Their bytes per second.
    pub bandwidth: Option<u64>,
    /// Commands per second that do not change blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Their bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<u64>,
    /// Commands per second that change blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// Their bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<u64>,
}

/// Credits of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreditUse {
    /// Credits in use.
    pub used: u64,
    /// All credits.
    pub credits: u64,
    /// The share of the parent's credits in per cent, where one is set.
    pub share: Option<u8>,
}

/// A reservation as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reservation {
    /// NQN/NSID of the namespace.
    pub namespace: String,
    /// Budget and period in words.
    pub terms: String,
    /// The share of the device that is set aside, 0 to 1.
    pub utilisation: f64,
    /// Periods that have ended with demand.
    pub periods: u64,
    /// Periods in which the tenant got its budget, or its whole demand; with an allowed latency, periods in which
    /// no command was late.
    pub kept: u64,
    /// Periods in which it got less, by cause: "device", "depth", "window", "order" or "data".
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missed: BTreeMap<String, u64>,
    /// The latest of these periods in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_miss: Option<String>,
    /// The rate that the tenant gets at least, by its depth, in words; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub floors: String,
    /// Commands that had to be complete by a deadline, by the allowed latency.
    pub promised: u64,
    /// Those of them that were late.
    pub late: u64,
}

/// A namespace's device as the stages see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceRow {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The namespace identifier.
    pub nsid: u32,
    /// The class of the namespace's commands.
    pub class: Option<String>,
    /// Whether the target arbitrates, so that commands wait for their turn at all.
    pub arbitrated: bool,
    /// Commands of ordinary size that the device may hold now; `None` means any number.
    pub window: Option<f64>,
    /// The bound that a reservation sets to the window, where that is lower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<WindowBound>,
    /// Commands of ordinary size that the device holds.
    pub in_use: f64,
    /// Commands that wait.
    pub waiting: ByClass<u64>,
    /// Mean service times.
    pub mean_ns: MeanTimes,
    /// The share of the device that is reserved, 0 to 1.
    pub reserved: f64,
    /// The device's measured times, and the configured times that replace them; `None` until they are known.
    pub profile: Option<DeviceProfile>,
    /// The promise of `order = "containers"`; `None` with another order, and until the device's times are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerPromise>,
}

/// The promise of `order = "containers"` to each host, and the number of hosts for which a device has time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContainerPromise {
    /// Time in which each host is promised a command of class High, in nanoseconds.
    pub latency_ns: u64,
    /// Mean time that a 4 KiB command takes of the device, in nanoseconds.
    pub command_ns: u64,
    /// Hosts with commands always waiting for which the device has time without any seek saved.
    pub hosts: u64,
}

/// The bound that a reservation sets to a device's window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WindowBound {
    /// Commands of 4 KiB that the device may hold.
    pub depth: u64,
    /// The session whose reservation is the tightest.
    pub session: String,
    /// The part of the latest second for which the device was busy, 0 to 1.
    pub busy: f64,
}

/// The times of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceProfile {
    /// Commands that the device carries out at the same time.
    pub parallelism: u32,
    /// Times of reads.
    pub read: DeviceTimes,
    /// Times of writes.
    pub write: DeviceTimes,
}

/// Times in the device, in nanoseconds, of a command that does not wait there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceTimes {
    /// The mean, of 4 KiB.
    pub mean_ns: u64,
    /// The longest of the last minute or two, of 4 KiB.
    pub worst_ns: u64,
    /// Time that each KiB beyond the first four adds.
    pub per_kib_ns: u64,
}

/// Mean service times of 4 KiB commands in nanoseconds, as measured; 0 until they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MeanTimes {
    /// The time of a read.
    pub read: u64,
    /// The time of a write.
    pub write: u64,
}
