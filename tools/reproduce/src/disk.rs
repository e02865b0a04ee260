//! Common parts of the scenarios of streams on one hard disk: places on it, the bounds of a run, and its results.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use sluice_sim::device::{Disk, disk};
use sluice_sim::report::{Axis, Chart, Column, Kind, Report, Series, Table};
use sluice_sim::scenario::DiskGeometry;
use sluice_sim::scenario::value::{Bytes, Part};

use super::scenario;

/// The bytes of a sector.
pub(super) const SECTOR: u32 = 512;
/// The most bytes of a request.
const LARGEST: u64 = 16 << 20;
/// The most streams.
const STREAMS: usize = 16;
/// The most requests that closed streams may have served in a run, which takes minutes then.
const SERVED: f64 = 1e8;

/// A length on the disk.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "write bytes such as \"100 GB\", or a part of the disk such as \"25 %\""
)]
enum Length {
    Part(Part),
    Bytes(Bytes),
}

impl Length {
    /// Computes the sectors of the length on a disk that has `disk` of them.
    fn sectors(self, disk: u64) -> u64 {
        match self {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a part of a number of sectors"
            )]
            Self::Part(Part(part)) => (disk as f64 * part).round() as u64,
            Self::Bytes(Bytes(bytes)) => bytes / u64::from(SECTOR),
        }
    }
}

/// The area of a stream; the whole disk unless given.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Area {
    from: Option<Length>,
    span: Option<Length>,
}

impl Area {
    /// Finds the sectors of the area for requests of `blocks` sectors, on a disk of `disk`.
    ///
    /// # Errors
    ///
    /// No request has room in it, or it is not on the disk.
    pub(super) fn sectors(self, at: &str, blocks: u32, disk: u64) -> anyhow::Result<Range<u64>> {
        let from = self.from.map_or(0, |from| from.sectors(disk));
        let span = self.span.map_or(disk.saturating_sub(from), |span| span.sectors(disk));
        let end = from.saturating_add(span);
        ensure!(
            span >= u64::from(blocks) && end <= disk,
            "`{at}.area` is sectors {from} to {end}: leave room for a request, and end at sector {disk} or \
             before it, where the disk does"
        );
        Ok(from..end)
    }
}

/// Returns the size of requests unless a scenario says so.
pub(super) const fn four_kib() -> Bytes {
    Bytes(4096)
}

/// Makes the properties of the disk, and counts its sectors.
///
/// # Errors
///
/// No disk can have them.
pub(super) fn properties(geometry: &DiskGeometry) -> anyhow::Result<(disk::Settings, u64)> {
    let settings = geometry.settings();
    let sectors = Disk::new(settings, 0).context("[disk]")?.sectors();
    Ok((settings, sectors))
}

/// Counts the sectors of a request.
///
/// # Errors
///
/// Its size is none.
pub(super) fn blocks(at: &str, size: Bytes) -> anyhow::Result<u32> {
    let fits = size.0.is_multiple_of(SECTOR.into()) && (1..=LARGEST).contains(&size.0);
    ensure!(fits, "`{at}.size` is {}: write a multiple of 512 bytes, up to \"16 MiB\"", size.0);
    Ok(u32::try_from(size.0).unwrap_or(u32::MAX) / SECTOR)
}

/// Checks the streams' names, and how many there are.
///
/// # Errors
///
/// There are none, too many, or two of one name.
pub(super) fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> anyhow::Result<()> {
    let count = names.len();
    ensure!((1..=STREAMS).contains(&count), "there are {count} [[stream]]: write 1 to {STREAMS}");
    scenario::names("stream", names)
}

/// Checks that a disk cannot serve too many requests of closed streams in a run. `sectors` are the sizes of a request
/// of each such stream, and `less` is the remedy: how to make the run shorter.
///
/// # Errors
///
/// It can.
pub(super) fn bounded(
    disk: &disk::Settings,
    sectors: impl Iterator<Item = u32>,
    length: Duration,
    less: &str,
) -> anyhow::Result<()> {
    let Some(fewest) = sectors.min() else { return Ok(()) };
    let least = disk.fastest(fewest).max(Duration::from_nanos(1));
    let served = length.as_secs_f64() / least.as_secs_f64();
    ensure!(
        served <= SERVED,
        "the disk can serve {served:.0} requests in the run, which is {length:?} long: {less}, so that they are \
         at most {SERVED:.0}"
    );
    Ok(())
}

/// The results of a run: a table with a row of each stream, and a chart with a line of each.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    /// The scenario's title, and a line about the run.
    pub(super) title: &'a str,
    pub(super) about: String,
    /// The table's title, its columns with their units, its rows, and the note below it.
    pub(super) table: &'a str,
    pub(super) columns: &'a [(&'a str, &'a str)],
    pub(super) rows: Vec<Vec<String>>,
    pub(super) note: String,
    /// The chart's title, its axes and its lines.
    pub(super) chart: &'a str,
    pub(super) axes: [&'a str; 2],
    pub(super) lines: Vec<Series<(f64, f64)>>,
}

impl Shown<'_> {
    pub(super) fn report(self) -> Report {
        let [x, y] = self.axes.map(Axis::linear);
        let columns = self.columns.iter().map(|(name, unit)| Column::new(*name, *unit)).collect();
        Report {
            title: self.title.to_owned(),
            about: vec![self.about],
            tables: vec![Table {
                title: self.table.to_owned(),
                file: "streams".to_owned(),
                columns,
                names: 1,
                rows: self.rows,
                note: self.note,
            }],
            charts: vec![Chart {
                title: self.chart.to_owned(),
                file: "streams".to_owned(),
                x,
                y,
                kind: Kind::Lines(self.lines),
            }],
            scenario: String::new(),
        }
    }
}
