//! A scenario of the discrete-time model, as TOML.

use std::path::Path;
use std::time::Duration;

use crate::models::dtm::{Arrivals, Goal, ModelClass, Setup};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use sluice_sim::control::Limits;
use sluice_sim::scenario::value::{Bits, Time};

use super::super::scenario::first_seed;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    duration: Time,
    #[serde(default = "first_seed")]
    seed: u64,
    link: LinkSection,
    #[serde(default)]
    control: Control,
    #[serde(default, rename = "class")]
    classes: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkSection {
    capacity: Bits,
    #[serde(default = "packet")]
    packet: u32,
    threshold: f64,
    delay: Time,
}

/// The settings of windows; the defaults are the model's.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Control {
    gain: Option<f64>,
    epsilon: Option<f64>,
    initial_window: Option<f64>,
    max_window: Option<f64>,
}

/// A `[[class]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    share: Option<f64>,
    latency: Option<Time>,
    #[serde(default = "flow")]
    flows: u32,
    delay: Option<Time>,
    #[serde(default)]
    arrivals: Source,
}

/// The source of a class's packets.
#[derive(Debug, Default, Deserialize)]
#[serde(tag = "process", rename_all = "kebab-case", deny_unknown_fields)]
enum Source {
    #[default]
    Saturated,
    Constant {
        rate: Bits,
    },
    Poisson {
        rate: Bits,
        #[serde(default = "packet_at_a_time")]
        burst: f64,
    },
    OnOff {
        rate: Bits,
        on: Time,
        off: Time,
    },
}

const fn packet() -> u32 {
    1500
}

const fn flow() -> u32 {
    1
}

const fn packet_at_a_time() -> f64 {
    1.0
}

/// A scenario that was read.
#[derive(Debug)]
pub(super) struct Scenario {
    /// The length of the run.
    pub(super) duration: Duration,
    /// Bits of a packet on the wire.
    pub(super) packet_bits: f64,
    /// The classes' names.
    pub(super) names: Vec<String>,
    /// The setup of the model.
    pub(super) setup: Setup,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a value is wrong; the error names the place and the remedy.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the scenario {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in the scenario {}", path.display()))
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        if !(64..=65_536).contains(&file.link.packet) {
            bail!("a packet of {} bytes: `link.packet` is 64 to 65536", file.link.packet);
        }
        if file.duration.0 > Duration::from_secs(3600) || file.duration.0.is_zero() {
            bail!("a duration of {:?}: it is above 0 and at most 1h", file.duration.0);
        }
        let packet_bits = f64::from(file.link.packet) * 8.0;
        let classes = file.classes.iter().map(|entry| class(entry, &file.link, packet_bits));
        let (control, default) = (&file.control, Setup::default());
        let limits = Limits {
            initial: control.initial_window.unwrap_or(default.limits.initial),
            max: control.max_window.unwrap_or(default.limits.max),
            ..default.limits
        };
        let setup = Setup {
            capacity: file.link.capacity.0 as f64 / packet_bits,
            threshold: file.link.threshold,
            gain: control.gain.unwrap_or(default.gain),
            epsilon: control.epsilon.unwrap_or(default.epsilon),
            limits,
            seed: file.seed,
            classes: classes.collect::<Result<_, _>>()?,
        };
        let names = file.classes.into_iter().map(|entry| entry.name).collect();
        Ok(Self { duration: file.duration.0, packet_bits, names, setup })
    }
}

fn class(entry: &Entry, link: &LinkSection, packet_bits: f64) -> anyhow::Result<ModelClass> {
    let goal = match (entry.share, entry.latency) {
        (Some(_), Some(_)) => {
            bail!("class {} has a share and a latency: give it one of them", entry.name)
        }
        (Some(share), None) => Goal::Share(share),
        (None, Some(latency)) => Goal::Latency(latency.0),
        (None, None) => Goal::None,
    };
    let packets = |Bits(bits): Bits| bits as f64 / packet_bits;
    let arrivals = match entry.arrivals {
        Source::Saturated => Arrivals::Saturated,
        Source::Constant { rate } => Arrivals::Constant { rate: packets(rate) },
        Source::Poisson { rate, burst } => Arrivals::Poisson { rate: packets(rate), burst },
        Source::OnOff { rate, on, off } => {
            Arrivals::OnOff { rate: packets(rate), on: on.0, off: off.0 }
        }
    };
    let delay = entry.delay.unwrap_or(link.delay).0;
    Ok(ModelClass { goal, flows: entry.flows, delay, arrivals })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str =
        "duration = '1ms'\n[link]\ncapacity = '10 Gbit/s'\nthreshold = 20\ndelay = '20us'\n";

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (class, says) in [
            ("name = 'a'\nshare = 1\nlatency = '1ms'", "one of them"),
            ("name = 'a'\nsharing = 1", "unknown field `sharing`"),
            ("name = 'a'\nlatency = '1 moon'", "\"10 s\""),
            ("name = 'a'\narrivals = { process = 'poisson', rate = '3' }", "\"3 Gbit/s\""),
            ("name = 'a'\narrivals = { process = 'often' }", "poisson"),
            ("share = 1", "missing field `name`"),
        ] {
            let error = Scenario::parse(&format!("{LINK}[[class]]\n{class}")).unwrap_err();
            assert!(format!("{error:#}").contains(says), "{class}: {error:#}");
        }
    }

    #[test]
    fn a_class_has_the_link_s_delay_and_a_flow_unless_it_says_otherwise() {
        let text =
            format!("{LINK}[[class]]\nname = 'a'\n[[class]]\nname = 'b'\ndelay = '1us'\nflows = 3");
        let setup = Scenario::parse(&text).unwrap().setup;
        let micros = |class: &ModelClass| (class.delay.as_micros(), class.flows, class.goal);
        let classes: Vec<_> = setup.classes.iter().map(micros).collect();
        assert_eq!(classes, [(20, 1, Goal::None), (1, 3, Goal::None)]);
        assert_eq!(setup.capacity, 10e9 / 12_000.0);
    }
}
