//! What the scenarios of streams on one hard disk have in common: places on it, and values in their range.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use sluice_sim::device::{Disk, disk};
use sluice_sim::scenario::DiskGeometry;
use sluice_sim::scenario::value::{Bytes, Part};

/// The bytes of a sector.
pub(super) const SECTOR: u32 = 512;
/// The most bytes of a request.
const LARGEST: u64 = 16 << 20;
/// The most streams.
const STREAMS: usize = 16;

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
    /// Computes the sectors, on a disk of so many.
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

/// Returns the seed of a scenario that names none.
pub(super) const fn first_seed() -> u64 {
    1
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
    let mut seen = BTreeSet::new();
    for (name, number) in names.zip(1..) {
        ensure!(
            !name.is_empty() && seen.insert(name),
            "`stream {number}.name` is \"{name}\": give each stream a name of its own"
        );
    }
    Ok(())
}

/// Checks that a value is in its range.
///
/// # Errors
///
/// It is not; the error tells the key and the range.
pub(super) fn within<T: PartialOrd + Debug>(
    key: &str,
    value: &T,
    range: &RangeInclusive<T>,
) -> anyhow::Result<()> {
    let (least, most) = (range.start(), range.end());
    ensure!(range.contains(value), "`{key}` is {value:?}: write {least:?} to {most:?}");
    Ok(())
}
