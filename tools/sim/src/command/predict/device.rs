//! The device of a namespace, from a profile, the configuration or measurements.

use anyhow::{Context as _, bail};
use sluice_config::answer;
use toml::{Table, Value};

use super::config::{Namespace, bandwidth, time};
use crate::scenario::DeviceProfile;

/// Sources of device times beside the configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The files that were named.
    pub(super) files: Vec<DeviceProfile>,
    /// Measurements of a running daemon.
    pub(super) measured: Vec<answer::DeviceRow>,
    /// The source of `measured`.
    pub(super) asked: Asked,
}

/// The daemon that measurements were requested from.
#[derive(Clone, Debug, Default)]
pub(super) enum Asked {
    /// The daemon whose configuration it is.
    #[default]
    Own,
    /// A daemon that runs, beside a configuration from a file.
    Other,
    /// Nobody, and why: the configuration is from a file, and no daemon answers.
    Nobody(String),
}

impl Asked {
    /// Returns why the times of a device are not known, and the remedy.
    fn remedy(&self) -> String {
        match self {
            Self::Own => "let hosts work on it for some seconds, or measure it with `sluice sim \
                          profile` and name the file with --device"
                .to_owned(),
            Self::Other => {
                "the running daemon has not measured a namespace of this name, `backend` and \
                            `path`: let hosts work on it there for some seconds, or name a file of \
                            `sluice sim profile` with --device"
                    .to_owned()
            }
            Self::Nobody(why) => format!(
                "--config needs --device with a file of `sluice sim profile` where no daemon \
                 reports its measurements ({why})"
            ),
        }
    }
}

/// Writes the device of a namespace as keys of `[[namespace]]` of a scenario.
///
/// Uses the first of: a profile file, the model that the configuration describes, the daemon's measurements, the times
/// in the configuration. Adds a note about times that another daemon measured.
///
/// # Errors
///
/// Nothing is known of the device.
pub(super) fn keys(
    (nqn, nsid): (&str, u32),
    of: &Namespace,
    known: &Known,
    notes: &mut Vec<String>,
) -> anyhow::Result<Table> {
    let name = format!("{nqn}/{nsid}");
    let named = known.files.iter().find(|file| file.namespace() == Some(&name));
    let file = named.or_else(|| known.files.iter().find(|file| file.namespace().is_none()));
    if let Some(file) = file {
        let mut keys: Table = toml::from_str(&file.text()).context("a profile is TOML")?;
        keys.remove("namespace");
        return Ok(profiled(keys));
    }
    let row = known.measured.iter().find(|row| row.subsystem == nqn && row.nsid == nsid);
    let profile = match (of.backend.as_str(), row.and_then(|row| row.profile)) {
        ("null", _) => model(of, &name)?,
        ("memory" | "pmem", _) => None,
        (_, Some(measured)) => {
            if matches!(known.asked, Asked::Other) {
                notes.push(format!("{name}: the running daemon has measured its times"));
            }
            Some(as_measured(&measured))
        }
        _ => Some(configured(of).with_context(|| {
            format!("the times of the device of {name} are not known: {}", known.asked.remedy())
        })?),
    };
    let memory = || Table::from_iter([("device".to_owned(), Value::from("memory"))]);
    Ok(profile.map_or_else(memory, profiled))
}

/// Makes the keys of a device of a profile.
fn profiled(profile: Table) -> Table {
    let device = ("device".to_owned(), Value::from("profile"));
    Table::from_iter([device, ("profile".to_owned(), Value::Table(profile))])
}

/// Makes the profile of the device that `null` imitates; `None` where it imitates none.
fn model(of: &Namespace, name: &str) -> anyhow::Result<Option<Table>> {
    if of.service_time.is_none() && of.bandwidth.is_none() && of.channels.is_none() {
        return Ok(None);
    }
    let Some(fixed) = of.service_time.as_deref().map_or(Some(0), time) else {
        bail!("`service_time` of {name} is no time");
    };
    let per_byte = match &of.bandwidth {
        Some(rate) => match bandwidth(rate).filter(|rate| *rate > 0) {
            Some(rate) => 1e9 / rate as f64,
            None => bail!("`bandwidth` of {name} is {rate}: write bytes per second: \"200 MiB/s\""),
        },
        None => 0.0,
    };
    // The service time is spread by an eighth; bytes take theirs beside it.
    let moving = per_byte * 4096.0;
    let at = |eighths: f64| ns((fixed as f64 * eighths / 8.0 + moving).max(1.0));
    let times = Table::from_iter([
        ("least".to_owned(), at(7.0)),
        ("longest".to_owned(), at(9.0)),
        ("per_kib".to_owned(), ns(per_byte * 1024.0)),
    ]);
    Ok(Some(Table::from_iter([
        ("parallelism".to_owned(), Value::from(i64::from(of.channels.unwrap_or(1)))),
        ("read".to_owned(), Value::Table(times)),
    ])))
}

/// Makes the profile that a daemon has measured.
fn as_measured(of: &answer::DeviceProfile) -> Table {
    let kind = |times: &answer::DeviceTimes| {
        Value::Table(Table::from_iter([
            ("mean".to_owned(), ns(times.mean_ns.max(1) as f64)),
            ("per_kib".to_owned(), ns(times.per_kib_ns as f64)),
        ]))
    };
    Table::from_iter([
        ("parallelism".to_owned(), Value::from(i64::from(of.parallelism.max(1)))),
        ("read".to_owned(), kind(&of.read)),
        ("write".to_owned(), kind(&of.write)),
    ])
}

/// Makes the profile of the times that the configuration names; `None` where it names none.
fn configured(of: &Namespace) -> Option<Table> {
    let mean = of.mean_time.as_deref()?;
    let times = Table::from_iter([("mean".to_owned(), Value::from(mean))]);
    Some(Table::from_iter([
        ("parallelism".to_owned(), Value::from(of.parallelism.unwrap_or(1))),
        ("read".to_owned(), Value::Table(times)),
    ]))
}

/// Writes a time.
fn ns(ns: f64) -> Value {
    Value::from(format!("{ns:.0} ns"))
}
