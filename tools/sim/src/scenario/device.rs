//! The devices of namespaces.

use std::time::Duration;

use arbitration::reservation::Overrides;
use units::{Nanos, nanos};

use super::error::{ScenarioError, value};
use super::file::{ChipOrder, DeviceKind, File, Namespace};
use super::value::Time;
use crate::device::{Disk, Pm, Profiled, SettingsError, Ssd, disk, pm, profiled, ssd};
use crate::model::DevicePlan;

/// The bytes of a namespace without a drive that says none.
const SIZE: u64 = 64 << 30;

/// The blocks of a plane unless a scenario says so: with fewer than a real drive's, a simulated one
/// takes a tenth of the memory, and behaves alike while nothing fills it.
const BLOCKS: u32 = 256;

/// A namespace's device, and its size.
#[derive(Debug)]
pub(super) struct Sized {
    /// The device that stores its blocks.
    pub(super) device: DevicePlan,
    pub(super) bytes: u64,
}

pub(super) fn bytes(file: &File, of: &Namespace, number: usize) -> Result<u64, ScenarioError> {
    let size = of.size.map(|size| size.0);
    let bytes = match of.device {
        DeviceKind::Ssd => within(number, size, drive(file, of, number)?.capacity(), "blocks")?,
        DeviceKind::Disk => {
            let sectors = hard_disk(of, number, 0)?.sectors();
            within(number, size, sectors.saturating_mul(512), "cylinders")?
        }
        DeviceKind::Memory | DeviceKind::Pm | DeviceKind::Profile => size.unwrap_or(SIZE),
    };
    Ok(bytes / 512 * 512)
}

/// Returns the size of a namespace on a device of that capacity, in bytes; `more` is the key with which the
/// device grows.
fn within(
    number: usize,
    size: Option<u64>,
    capacity: u64,
    more: &str,
) -> Result<u64, ScenarioError> {
    match size {
        Some(size) if size > capacity => {
            let must = format!("the drive has {capacity} bytes: make it smaller, or `{more}` more");
            Err(value(format!("namespace {number}.size"), format!("{size} bytes"), must))
        }
        size => Ok(size.unwrap_or(capacity)),
    }
}

/// Makes the device of a namespace; `seed` decides its random times.
pub(super) fn device(
    file: &File,
    of: &Namespace,
    number: usize,
    seed: u64,
) -> Result<Sized, ScenarioError> {
    let bytes = bytes(file, of, number)?;
    for (key, given, kind) in [
        ("ssd", of.ssd.is_some(), DeviceKind::Ssd),
        ("disk", of.disk.is_some(), DeviceKind::Disk),
        ("pm", of.pm.is_some(), DeviceKind::Pm),
        ("profile", of.profile.is_some(), DeviceKind::Profile),
    ] {
        if given && of.device != kind {
            let must = format!("it is for `device = \"{key}\"`: leave it out");
            return Err(value(format!("namespace {number}.{key}"), "given", must));
        }
    }
    let device = match of.device {
        DeviceKind::Memory => DevicePlan::Memory,
        DeviceKind::Ssd => {
            let drive = Ssd::new(drive(file, of, number)?);
            DevicePlan::Model(Box::new(drive.map_err(|error| fault(number, "ssd", &error))?))
        }
        DeviceKind::Disk => DevicePlan::Model(Box::new(hard_disk(of, number, seed)?)),
        DeviceKind::Pm => DevicePlan::Model(Box::new(Pm::new(memory(of), seed))),
        DeviceKind::Profile => {
            DevicePlan::Model(Box::new(Profiled::new(profile(of, number)?, seed)))
        }
    };
    Ok(Sized { device, bytes })
}

fn fault(number: usize, kind: &str, error: &SettingsError) -> ScenarioError {
    value(format!("namespace {number}.{kind}.{}", error.key), &error.value, error.range)
}

fn hard_disk(of: &Namespace, number: usize, seed: u64) -> Result<Disk, ScenarioError> {
    Disk::new(geometry(of), seed).map_err(|error| fault(number, "disk", &error))
}

/// Makes the properties of a hard disk.
fn geometry(of: &Namespace) -> disk::Settings {
    of.disk.clone().unwrap_or_default().settings()
}

/// Makes the properties of a drive.
fn drive(file: &File, of: &Namespace, number: usize) -> Result<ssd::Settings, ScenarioError> {
    let measured = ssd::Settings { blocks: BLOCKS, ..ssd::Settings::measured() };
    let of = of.ssd.clone().unwrap_or_default();
    let weights = file.qos.weights.unwrap_or([3, 2, 1]).map(u32::from);
    let order = match of.order {
        // Drives know no classes unless a scenario says so.
        None | Some(ChipOrder::Arrival) => ssd::Order::Arrival,
        Some(ChipOrder::Classes) => ssd::Order::Classes { weights },
    };
    let page = of.page.map_or(u64::from(measured.page), |page| page.0);
    let settings = ssd::Settings {
        channels: of.channels.unwrap_or(measured.channels),
        chips: of.chips.unwrap_or(measured.chips),
        dies: of.dies.unwrap_or(measured.dies),
        planes: of.planes.unwrap_or(measured.planes),
        blocks: of.blocks.unwrap_or(measured.blocks),
        pages: of.pages.unwrap_or(measured.pages),
        page: u32::try_from(page).unwrap_or(u32::MAX),
        read: of.read.map_or(measured.read, |time| time.0),
        program: of.program.map_or(measured.program, |time| time.0),
        erase: of.erase.map_or(measured.erase, |time| time.0),
        channel_rate: of.channel_rate.map_or(measured.channel_rate, |rate| rate.0),
        host_rate: of.host_rate.map_or(measured.host_rate, |rate| rate.0),
        controller: of.controller.map_or(measured.controller, |time| time.0),
        write_buffer: of.write_buffer.map_or(measured.write_buffer, |buffer| buffer.0),
        spare: of.spare.map_or(measured.spare, |spare| spare.0),
        collect_below: of.collect_below.map_or(measured.collect_below, |part| part.0),
        collect_first_below: measured.collect_first_below,
        order,
    };
    settings.check().map_err(|error| fault(number, "ssd", &error))?;
    Ok(settings)
}

/// Makes the device of which measured times are known.
fn profile(of: &Namespace, number: usize) -> Result<profiled::Settings, ScenarioError> {
    let at = format!("namespace {number}.profile");
    match &of.profile {
        Some(profile) => profile.settings(&at),
        None => {
            let must =
                "write the device's times: { parallelism = 8, read = { mean = \"100 us\" } }";
            Err(ScenarioError::Missing { key: at, must })
        }
    }
}

/// Makes the times of a device that reservations are checked against, if they are known: the namespace's own, else
/// those in its profile or of its disk.
pub(super) fn times(of: &Namespace, number: usize) -> Result<Overrides, ScenarioError> {
    let given = |time: Option<Time>| time.map(|time| Nanos(nanos(time.0)));
    let mut times = Overrides {
        mean: given(of.mean_time),
        worst: given(of.worst_time),
        parallelism: of.parallelism,
        seeks: false,
    };
    if of.device == DeviceKind::Disk {
        let (mean, worst) = geometry(of).profile();
        times.mean = times.mean.or(Some(Nanos(nanos(mean))));
        times.worst = times.worst.or(Some(Nanos(nanos(worst))));
        times.parallelism = times.parallelism.or(Some(1));
        times.seeks = true;
    }
    if of.device == DeviceKind::Profile {
        let device = profile(of, number)?;
        let longer = |of_kind: fn(&profiled::Times) -> f64| {
            let ns = of_kind(&device.read).max(of_kind(&device.write));
            Nanos(nanos(Duration::from_secs_f64(ns / 1e9)).max(1))
        };
        times.mean = times.mean.or(Some(longer(|times| times.mean().max(times.held()))));
        times.worst = times.worst.or(Some(longer(|times| times.longest().max(times.held()))));
        times.parallelism = times.parallelism.or(Some(device.parallelism));
    }
    Ok(times)
}

/// Makes the properties of persistent memory.
fn memory(of: &Namespace) -> pm::Settings {
    let (of, source) = (of.pm.clone().unwrap_or_default(), pm::Settings::default());
    pm::Settings {
        least: of.least.map_or(source.least, |time| time.0),
        longest: of.longest.map_or(source.longest, |time| time.0),
        rate: of.rate.map_or(source.rate, |rate| rate.0),
    }
}
