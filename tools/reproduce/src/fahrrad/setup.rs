//! A scenario of streams on a disk with reservations, as TOML.

use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sluice_sim::device::disk;
use sluice_sim::scenario::DiskGeometry;
use sluice_sim::scenario::value::{Bytes, Time};
use units::nanos;

use super::super::disk::{Area, blocks, bounded, four_kib, names, properties};
use super::super::scenario::{first_seed, time_within, within};
use super::stages::Stages;
use super::workload::{Arrivals, Place, Stream};

/// The most requests that streams with a rate may send in a run, so that waiting requests fit into memory.
const REQUESTS: f64 = 1e7;
/// The longest run.
const LONGEST: Duration = Duration::from_hours(24);

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
    window: Time,
    windows: u32,
    #[serde(default)]
    disk: DiskGeometry,
    #[serde(default, rename = "stream")]
    streams: Vec<Entry>,
}

fn title() -> String {
    "Streams on one disk".to_owned()
}

/// The scheduler of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SchedulerName {
    /// The target's stages, with Fahrrad's bound of the set.
    #[default]
    Reservations,
    /// Linux's deadline scheduler.
    Deadline,
}

impl SchedulerName {
    /// Returns the name, as a scenario spells it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::Deadline => "deadline",
        }
    }
}

/// A `[[stream]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default)]
    reserves: u64,
    arrivals: Arrivals,
    #[serde(default = "four_kib")]
    size: Bytes,
    #[serde(default)]
    places: PlacesName,
    #[serde(default)]
    area: Area,
}

/// The order of a stream's places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PlacesName {
    #[default]
    Random,
    Sequential,
}

/// A scenario that was read.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(super) title: String,
    pub(crate) seed: u64,
    pub(super) scheduler: SchedulerName,
    pub(super) disk: disk::Settings,
    /// The length of a window, ns, and the number of them.
    pub(super) window: u64,
    pub(super) windows: u64,
    /// The streams before their first request.
    pub(super) streams: Vec<Stream>,
}

impl Setup {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// A key or a value is wrong, or a reservation does not fit the disk.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let (disk, sectors) = properties(&file.disk)?;
        time_within("window", file.window, Duration::from_millis(1)..=LONGEST)?;
        within("windows", file.windows, 1..=100_000, "")?;
        let length = file.window.0.saturating_mul(file.windows);
        ensure!(
            length <= LONGEST,
            "`windows` is {}, which makes a run of {length:?}: write fewer, for at most {LONGEST:?}",
            file.windows
        );
        names(file.streams.iter().map(|stream| stream.name.as_str()))?;
        let entries = file.streams.into_iter().zip(1..);
        let streams = entries.map(|(entry, number)| entry.stream(number, sectors));
        let streams = streams.collect::<anyhow::Result<Vec<_>>>()?;
        let sent: f64 = streams.iter().map(|stream| stream.arrivals.rate() as f64).sum();
        let sent = sent * length.as_secs_f64();
        ensure!(
            sent <= REQUESTS,
            "the streams send {sent:.0} requests in the run: write less for `rate` or `windows`, so that they \
             are at most {REQUESTS:.0}"
        );
        let closed =
            streams.iter().filter(|stream| matches!(stream.arrivals, Arrivals::Closed { .. }));
        let less = "write less for `windows` or `window`, or more for `size`";
        bounded(&disk, closed.map(|stream| stream.blocks), length, less)?;
        if file.scheduler == SchedulerName::Reservations {
            Stages::new(&disk, &streams)?;
        }
        Ok(Self {
            title: file.title,
            seed: file.seed,
            scheduler: file.scheduler,
            disk,
            window: nanos(file.window.0),
            windows: file.windows.into(),
            streams,
        })
    }

    /// Returns the requests that the closed streams have outstanding.
    pub(super) fn depth(&self) -> u64 {
        let depth = |stream: &Stream| match stream.arrivals {
            Arrivals::Closed { depth } => depth,
            _ => 0,
        };
        self.streams.iter().map(depth).sum()
    }

    /// Sets the requests that each closed stream has outstanding.
    pub(super) fn set_depth(&mut self, to: u64) {
        for stream in &mut self.streams {
            if let Arrivals::Closed { depth } = &mut stream.arrivals {
                *depth = to;
            }
        }
    }
}

impl Entry {
    /// Makes the stream, on a disk of so many sectors.
    fn stream(self, number: usize, disk: u64) -> anyhow::Result<Stream> {
        let at = format!("stream {number}");
        let check = |key: &str, value: u64, most: u64| {
            within(&format!("{at}.arrivals.{key}"), value, 1..=most, "")
        };
        match self.arrivals {
            Arrivals::Constant { rate, room } => {
                check("rate", rate, 1_000_000)?;
                check("room", room.unwrap_or(1), u64::MAX)?;
            }
            Arrivals::Burst { rate, count } => {
                check("rate", rate, 1_000_000)?;
                check("count", count, 65_536)?;
            }
            Arrivals::Closed { depth } => {
                check("depth", depth, 65_536)?;
            }
        }
        within(&format!("{at}.reserves"), self.reserves, 0..=1_000_000, "")?;
        let blocks = blocks(&at, self.size)?;
        let area = self.area.sectors(&at, blocks, disk)?;
        let place = match self.places {
            PlacesName::Random => Place::Random(area),
            PlacesName::Sequential => Place::Sequential { next: area.start, area },
        };
        Ok(Stream::new(self.name, self.reserves, blocks, self.arrivals, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::refused;

    const SCENARIO: &str = include_str!("../../../scenarios/fahrrad-3.toml");

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let cases = [
            ("\"5 s\"", "\"5 moons\"", "window", "\"10 s\""),
            ("\"5 s\"", "\"0 s\"", "`window`", "0.001 to 86400 s"),
            ("windows = 100", "windows = 0", "`windows`", "1 to 100000"),
            ("windows = 100", "windows = 20_000", "`windows`", "at most 86400s"),
            ("windows = 100", "windows = 17_000", "`rate`", "at most 10000000"),
            ("windows = 100", "windows = 3000", "or more for `size`", "at most 100000000"),
            ("windows = 100", "window_count = 9", "window_count", "`windows`"),
            ("\"reservations\"\n", "\"fair\"\n", "scheduler", "`deadline`"),
            ("\"media 2\"", "\"media 1\"", "`stream 2.name`", "of its own"),
            ("\"media 2\"", "\"\"", "`stream 2.name`", "of its own"),
            ("reserves = 20\n", "reserves = 2_000_000\n", "`stream 3.reserves`", "0 to 1000000"),
            ("reserves = 10\n", "reserves = 100\n", "\"background\"", "would fit"),
            ("rate = 200", "rate = 0", "`stream 2.arrivals.rate`", "1 to 1000000"),
            ("room = 400", "room = 0", "`stream 2.arrivals.room`", "1 to"),
            ("count = 100", "count = 70_000", "`stream 3.arrivals.count`", "1 to 65536"),
            ("depth = 384", "depth = 0", "`stream 4.arrivals.depth`", "1 to 65536"),
            ("depth = 384", "depth = -1", "arrivals", "u64"),
            ("\"closed\"", "\"open\"", "open", "`closed`"),
            ("\"32 KiB\"", "\"1000 B\"", "`stream 1.size`", "512"),
            ("\"32 KiB\"", "\"17 MiB\"", "`stream 1.size`", "16 MiB"),
            ("\"sequential\"", "\"near\"", "places", "`random`"),
            ("from = \"25 %\"", "from = \"90 %\"", "`stream 3.area`", "where the disk does"),
            ("from = \"25 %\"", "from = \"far\"", "area", "\"25 %\""),
            ("span = \"25 %\"", "span = 0", "`stream 3.area`", "leave room"),
            ("\n[[stream]]", "\n[disk]\nrpm = 3\n[[stream]]", "[disk]: `rpm`", "1000 to 30000"),
        ];
        refused(SCENARIO, Setup::parse, &cases);
        let none = SCENARIO.split("[[stream]]").next().unwrap();
        assert!(Setup::parse(none).unwrap_err().to_string().contains("write 1 to 16"));
    }
}
