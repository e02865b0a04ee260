//! A scenario of readers of a disk whose users see outputs, as TOML.

use std::ops::Range;
use std::time::Duration;

use anyhow::Context as _;
use arbitration::container::Scheduler;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sluice_sim::device::disk;
use sluice_sim::scenario::DiskGeometry;
use sluice_sim::scenario::value::{Bytes, Time};
use units::nanos;

use super::super::disk::{Area, blocks, bounded, four_kib, names, properties};
use super::super::scenario::{first_seed, time_within, within};

/// The longest time of a reader's.
const LONGEST: Duration = Duration::from_hours(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "model")]
    _model: IgnoredAny,
    #[serde(default = "title")]
    title: String,
    #[serde(default = "first_seed")]
    seed: u64,
    #[serde(default)]
    scheduler: SchedulerName,
    batch: Option<u32>,
    outputs: u32,
    #[serde(default)]
    learning: usize,
    counted: usize,
    #[serde(default)]
    disk: DiskGeometry,
    #[serde(default, rename = "stream")]
    streams: Vec<Entry>,
}

fn title() -> String {
    "One disk as its users see it".to_owned()
}

/// The scheduler of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SchedulerName {
    #[default]
    Containers,
    Batches,
    Vanilla,
}

/// A `[[stream]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default = "depth")]
    depth: u32,
    #[serde(default = "nothing")]
    pace: Time,
    #[serde(default = "nothing")]
    think: Time,
    #[serde(default = "four_kib")]
    size: Bytes,
    #[serde(default)]
    area: Area,
    latency: Time,
    promised: Option<Bytes>,
}

/// Computes the promise of a request of this size in each such time of ns, in bytes per second.
fn promise(Bytes(size): Bytes, latency: u64) -> Option<u64> {
    let bytes = u128::from(size) * 1_000_000_000;
    bytes.checked_div(latency.into()).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

const fn depth() -> u32 {
    32
}

const fn nothing() -> Time {
    Time(Duration::ZERO)
}

/// A scenario that was read.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(super) title: String,
    pub(crate) seed: u64,
    pub(super) scheduler: Scheduler,
    pub(super) disk: disk::Settings,
    /// The outputs that each user sees in a second.
    pub(super) outputs_per_second: u64,
    /// The number of outputs that are left out while the scheduler learns, and of outputs that count.
    pub(super) learning: usize,
    pub(super) counted: usize,
    pub(super) streams: Vec<Stream>,
}

/// A reader of random blocks.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    /// The requests in flight.
    pub(super) depth: u32,
    /// The time between two requests when the reader starts, ns.
    pub(super) pace: u64,
    /// The time from a completion until the reader has sent another request, ns, half of it random.
    pub(super) think: u64,
    /// The sectors of a request.
    pub(super) blocks: u32,
    /// The sectors of its file.
    pub(super) area: Range<u64>,
    /// The time allowed for a request, ns: the scheduler promises a request in each such time.
    pub(super) latency: u64,
    /// The throughput with which outputs are compared, bytes per second.
    pub(super) promised: u64,
}

impl Setup {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// A key or a value is wrong.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let (disk, sectors) = properties(&file.disk)?;
        let scheduler = match (file.scheduler, file.batch) {
            (SchedulerName::Containers, None) => Scheduler::Containers,
            (SchedulerName::Vanilla, None) => Scheduler::Vanilla,
            (SchedulerName::Batches, size) => {
                let size = size.unwrap_or(8);
                within("batch", size, 1..=65_536, "")?;
                Scheduler::Batch(size)
            }
            (_, Some(size)) => {
                anyhow::bail!(
                    "`batch` is {size}: it is for `scheduler = \"batches\"`: leave it out"
                )
            }
        };
        within("outputs", file.outputs, 1..=1000, "")?;
        within("learning", file.learning, 0..=100_000, "")?;
        within("counted", file.counted, 1..=100_000, "")?;
        names(file.streams.iter().map(|stream| stream.name.as_str()))?;
        let entries = file.streams.into_iter().zip(1..);
        let streams = entries.map(|(entry, number)| entry.stream(number, sectors));
        let streams = streams.collect::<anyhow::Result<Vec<_>>>()?;
        let outputs = file.learning.saturating_add(file.counted) as f64;
        let length = Duration::from_secs_f64(outputs / f64::from(file.outputs));
        let less = "write less for `learning` or `counted`, or more for `outputs` or `size`";
        bounded(&disk, streams.iter().map(|stream| stream.blocks), length, less)?;
        Ok(Self {
            title: file.title,
            seed: file.seed,
            scheduler,
            disk,
            outputs_per_second: file.outputs.into(),
            learning: file.learning,
            counted: file.counted,
            streams,
        })
    }
}

impl Entry {
    /// Makes the stream, on a disk of so many sectors.
    fn stream(self, number: usize, disk: u64) -> anyhow::Result<Stream> {
        let at = format!("stream {number}");
        within(&format!("{at}.depth"), self.depth, 1..=4096, "")?;
        for (key, time) in [("pace", self.pace), ("think", self.think), ("latency", self.latency)] {
            time_within(&format!("{at}.{key}"), time, Duration::ZERO..=LONGEST)?;
        }
        let blocks = blocks(&at, self.size)?;
        let latency = nanos(self.latency.0);
        let promised = match self.promised {
            Some(Bytes(promised)) => promised,
            None => promise(self.size, latency).with_context(|| {
                format!("`{at}.promised` is missing, and none follows from a `latency` of 0: write either")
            })?,
        };
        Ok(Stream {
            depth: self.depth,
            pace: nanos(self.pace.0),
            think: nanos(self.think.0),
            blocks,
            area: self.area.sectors(&at, blocks, disk)?,
            latency,
            promised,
            name: self.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{changed, refused};

    const SCENARIO: &str = include_str!("../../../scenarios/intelliqos-2.toml");

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let cases = [
            ("\"containers\" ", "\"fair\" ", "scheduler", "`batches`"),
            ("\"containers\" ", "\"vanilla\"\nbatch = 8", "`batch`", "leave it out"),
            ("\"containers\" ", "\"batches\"\nbatch = 0", "`batch`", "1 to 65536"),
            ("outputs = 1 ", "outputs = 0", "`outputs`", "1 to 1000"),
            ("outputs = 1 ", "prints = 1", "prints", "`outputs`"),
            ("learning = 10 ", "learning = 100_001", "`learning`", "0 to 100000"),
            ("counted = 250", "counted = 0", "`counted`", "1 to 100000"),
            ("counted = 250", "counted = 100_000", "`counted`, or more for", "at most 100000000"),
            ("\"second\"", "\"first\"", "`stream 2.name`", "of its own"),
            ("depth = 100 ", "depth = 5000", "`stream 1.depth`", "1 to 4096"),
            ("\"50 us\"", "\"2 h\"", "`stream 1.pace`", "0 to 3600 s"),
            ("\"200 us\"", "\"2 h\"", "`stream 1.think`", "0 to 3600 s"),
            ("\"20 ms\"", "\"2 h\"", "`stream 1.latency`", "0 to 3600 s"),
            ("latency = \"20 ms\"", "", "latency", "missing"),
            ("\"4 KiB\"", "0", "`stream 1.size`", "512"),
            ("\"128 MiB\"", "\"1 KiB\"", "`stream 1.area`", "leave room"),
            ("\"102.4 GB\"", "\"600 GB\"", "`stream 1.area`", "where the disk does"),
            ("\"200 KiB\"", "\"fast\"", "promised", "\"4 GiB\""),
            ("\n[[stream]]", "\n[disk]\nrpm = 3\n[[stream]]", "[disk]: `rpm`", "1000 to 30000"),
        ];
        refused(SCENARIO, Setup::parse, &cases);
    }

    #[test]
    fn a_promise_is_a_request_in_each_latency_unless_it_is_given() {
        let promised = |changes: &[(&str, &str)]| {
            Setup::parse(&changed(SCENARIO, changes)).map(|setup| setup.streams[0].promised)
        };
        let none = ("promised = \"200 KiB\"", "");
        assert_eq!(promised(&[none]).unwrap(), 200 << 10);
        assert_eq!(promised(&[none, ("\"4 KiB\"", "\"8 KiB\"")]).unwrap(), 400 << 10);
        assert_eq!(promised(&[none, ("\"20 ms\"", "\"10 ms\"")]).unwrap(), 400 << 10);
        assert_eq!(promised(&[("\"20 ms\"", "\"10 ms\"")]).unwrap(), 200 << 10);
        let error = promised(&[none, ("\"20 ms\"", "\"0 s\"")]).unwrap_err().to_string();
        assert!(error.contains("`stream 1.promised`") && error.contains("`latency`"), "{error}");
    }
}
