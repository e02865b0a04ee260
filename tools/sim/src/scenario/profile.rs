//! The measured times of a device, as a scenario and a file of its own have them.

use std::fmt::Write as _;

use serde::Deserialize;
use units::nanos;

use super::error::{ScenarioError, value};
use super::value::Time;
use crate::device::profiled::{SERVERS_MAX, Settings, Times};

/// `profile`: the measured times of a device. `sluice sim profile` writes a file with these keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceProfile {
    /// The namespace that the file is of, as NQN/NSID.
    namespace: Option<String>,
    /// Commands that the device carries out at the same time.
    parallelism: u32,
    read: KindProfile,
    /// As `read` unless given.
    write: Option<KindProfile>,
}

/// `read` and `write`: the times of a command of 4 KiB that is alone, and what more bytes cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindProfile {
    /// The mean, give or take an eighth; or the times below.
    mean: Option<Time>,
    least: Option<Time>,
    p50: Option<Time>,
    p90: Option<Time>,
    p99: Option<Time>,
    p999: Option<Time>,
    longest: Option<Time>,
    /// For each KiB beyond the first four.
    per_kib: Option<Time>,
    /// A command's time of its server, where the command is complete before.
    holds: Option<Time>,
}

/// The names of the points of a distribution, and the parts of commands that they are of.
const POINTS: [(&str, f64); 6] =
    [("least", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("longest", 1.0)];

impl KindProfile {
    fn points(&self) -> [Option<Time>; 6] {
        [self.least, self.p50, self.p90, self.p99, self.p999, self.longest]
    }

    /// Makes the times, which errors name by the key that they are in.
    fn times(&self, at: &str) -> Result<Times, ScenarioError> {
        let ns = |time: Option<Time>| time.map_or(0.0, |time| nanos(time.0) as f64);
        let (per_kib, holds) = (ns(self.per_kib), ns(self.holds));
        let given = self.points().iter().flatten().count();
        let made = match self.mean {
            Some(_) if given > 0 => {
                let must = "give `mean`, or `least` to `longest`, not both";
                return Err(value(format!("{at}.mean"), "given beside others", must));
            }
            Some(mean) => {
                let mean = nanos(mean.0) as f64;
                Times::new(vec![(0.0, mean * 0.875), (1.0, mean * 1.125)], per_kib, holds)
            }
            None => {
                let points = POINTS.iter().zip(self.points());
                let points = points.filter_map(|((_, part), time)| Some((*part, ns(Some(time?)))));
                Times::new(points.collect(), per_kib, holds)
            }
        };
        made.map_err(|error| {
            let must = format!("{error}; write for example {{ mean = \"100 us\" }}");
            value(at, "no device's", must)
        })
    }
}

impl DeviceProfile {
    /// Reads a file.
    ///
    /// # Errors
    /// The text is not TOML, or a key is unknown, missing or out of its range.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let profile: Self = toml::from_str(text)?;
        profile.settings("profile")?;
        Ok(profile)
    }

    /// Makes the profile of a device whose times are known, of the namespace NQN/NSID.
    #[must_use]
    pub fn of(settings: &Settings, namespace: Option<String>) -> Self {
        let kind = |times: &Times| {
            let time = |ns: f64| {
                let secs = (ns / 1e9).clamp(0.0, 3600.0);
                Time(std::time::Duration::from_secs_f64(secs))
            };
            let at = |part: f64| {
                let found = times.points().iter().find(|point| (point.0 - part).abs() < 1e-9);
                found.map(|point| time(point.1))
            };
            let [least, p50, p90, p99, p999, longest] = POINTS.map(|(_, part)| at(part));
            let more = |ns: f64| (ns > 0.0).then(|| time(ns));
            let (per_kib, holds) = (more(times.per_kib()), more(times.held()));
            KindProfile { mean: None, least, p50, p90, p99, p999, longest, per_kib, holds }
        };
        Self {
            namespace,
            parallelism: settings.parallelism,
            read: kind(&settings.read),
            write: Some(kind(&settings.write)),
        }
    }

    /// Returns the namespace that the profile is of, as NQN/NSID; `None`: of any.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Makes the device, whose errors name the key that the profile is in.
    pub(super) fn settings(&self, at: &str) -> Result<Settings, ScenarioError> {
        if !(1..=SERVERS_MAX).contains(&self.parallelism) {
            let must = format!("write 1 to {SERVERS_MAX} commands");
            return Err(value(format!("{at}.parallelism"), self.parallelism, must));
        }
        let read = self.read.times(&format!("{at}.read"))?;
        let write = self.write.map(|write| write.times(&format!("{at}.write"))).transpose()?;
        let write = write.unwrap_or_else(|| read.clone());
        Ok(Settings { parallelism: self.parallelism, read, write })
    }

    /// Writes the profile as TOML, as [`Self::parse`] reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        if let Some(namespace) = &self.namespace {
            let _ = writeln!(text, "namespace = {}", toml::Value::from(namespace.as_str()));
        }
        let _ = writeln!(text, "parallelism = {}", self.parallelism);
        let kinds = [("read", Some(self.read)), ("write", self.write)];
        for (name, kind) in kinds.into_iter().filter_map(|(name, kind)| Some((name, kind?))) {
            let points = POINTS.iter().zip(kind.points()).map(|((key, _), time)| (*key, time));
            let mut keys = vec![("mean", kind.mean)];
            keys.extend(points);
            keys.extend([("per_kib", kind.per_kib), ("holds", kind.holds)]);
            let keys = keys.into_iter().filter_map(|(key, time)| Some((key, time?)));
            let keys: Vec<String> =
                keys.map(|(key, time)| format!("{key} = \"{} ns\"", nanos(time.0))).collect();
            let _ = writeln!(text, "{name} = {{ {} }}", keys.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_wrong_names_its_key_and_what_would_be_right() {
        let one = |times: &str| format!("parallelism = 1\nread = {{ {times} }}");
        let both = one("mean = '1 ms' }\nwrite = { meen = '1 ms'");
        for (text, key, says) in [
            ("read = { mean = '1 ms' }", "parallelism", "missing"),
            ("parallelism = 0\nread = { mean = '1 ms' }", "profile.parallelism", "1 to 4096"),
            ("parallelism = 1", "read", "missing"),
            (&one(""), "profile.read", "mean = \"100 us\""),
            (&one("mean = 'soon'"), "mean", "\"10 s\""),
            (&one("mean = '0 s'"), "profile.read", "longest more than 0"),
            (&one("p50 = '1 ms'"), "profile.read", "give both"),
            (&one("least = '2 ms', longest = '1 ms'"), "profile.read", "at least the one before"),
            (&one("mean = '1 ms', least = '1 ms'"), "profile.read.mean", "not both"),
            (&both, "meen", "mean"),
        ] {
            let error = DeviceProfile::parse(text).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(says), "{key}, {says}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_profile_is_read_as_it_was_written(
            parallelism in 1_u32..=SERVERS_MAX,
            steps in proptest::collection::vec(0_u32..1_000_000, 6),
            (per_kib, holds) in (0_u32..10_000, 0_u32..1_000_000),
        ) {
            let mut at = 1.0;
            let points = POINTS.iter().zip(&steps).map(|((_, part), step)| {
                at += f64::from(*step);
                (*part, at)
            });
            let points: Vec<_> = points.collect();
            let times = Times::new(points, f64::from(per_kib), f64::from(holds)).unwrap();
            let settings = Settings { parallelism, read: times.clone(), write: times };
            let profile = DeviceProfile::of(&settings, Some("nqn.x/1".to_owned()));
            let read = DeviceProfile::parse(&profile.text()).unwrap();
            prop_assert_eq!(read.settings("profile").unwrap(), settings);
            prop_assert_eq!(read.namespace(), Some("nqn.x/1"));
        }
    }
}
