//! The geometry and the times of a hard disk.

use core::time::Duration;

use units::nanos;

use super::super::error::{SettingsError, require};

/// The geometry and the times of a disk. The default is the disk of intelliQoS (docs/research/sources.md, I1 to I3), a
/// Seagate ST3500514NS: 7200 rpm, 500 GB, 240,000 tracks per inch, 140 MB/s at the edge (all from its data sheet), a
/// mean seek of 8.5 ms. Values that we chose are marked as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Revolutions per minute: 7200.
    pub rpm: u32,
    /// Tracks on each surface: 264,000, from the tracks per inch.
    pub cylinders: u32,
    /// Surfaces: 2.
    pub heads: u32,
    /// Sectors of 512 bytes on each track of the outermost zone: 2278, from the rate at the edge.
    pub outer_sectors: u32,
    /// Sectors of 512 bytes on each track of the innermost zone: 1424 (ours), with which the capacity is
    /// its maker's. Zones between are interpolated.
    pub inner_sectors: u32,
    /// The number of zones, of equally many cylinders: 16 (ours).
    pub zones: u32,
    /// Seek to the next cylinder: 0.8 ms (ours).
    pub seek_min: Duration,
    /// Mean seek between random cylinders: 8.5 ms.
    pub seek_mean: Duration,
    /// Seek from the first cylinder to the last: 17 ms (ours).
    pub seek_max: Duration,
    /// Time of a switch between surfaces of the same cylinder: 0.8 ms (ours).
    pub head_switch: Duration,
    /// Time that a write needs more than a read to settle on its track: 0.5 ms (ours).
    pub write_settle: Duration,
    /// Variation of the head's settling: evenly between nothing and this, 0.2 ms (ours).
    pub settle_spread: Duration,
    /// Time from a command's arrival until the disk acts on it: 0.1 ms (ours).
    pub overhead: Duration,
    /// Sectors of 512 bytes that the disk reads ahead: 1024 (ours).
    pub read_ahead: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rpm: 7200,
            cylinders: 264_000,
            heads: 2,
            outer_sectors: 2278,
            inner_sectors: 1424,
            zones: 16,
            seek_min: Duration::from_micros(800),
            seek_mean: Duration::from_micros(8500),
            seek_max: Duration::from_millis(17),
            head_switch: Duration::from_micros(800),
            write_settle: Duration::from_micros(500),
            settle_spread: Duration::from_micros(200),
            overhead: Duration::from_micros(100),
            read_ahead: 1024,
        }
    }
}

impl Settings {
    /// Computes the time of one turn of the platter, ns.
    pub(super) fn revolution(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm.max(1))
    }

    /// Computes by how much a track begins later on the platter than the one before, so that a long
    /// read does not miss its first sector; ns.
    pub(super) fn skew(&self) -> u64 {
        nanos(self.head_switch.max(self.seek_min) + self.settle_spread)
    }

    /// Computes the time of the arm over `distance` cylinders, ns, from three numbers of the data
    /// sheet and the square root that fits them (Lee and Katz, "An analytic performance model of
    /// disk arrays", 1993).
    pub(super) fn seek(&self, distance: u64) -> u64 {
        let Some(beyond) = distance.checked_sub(1) else { return 0 };
        let cylinders = u64::from(self.cylinders.max(1));
        let beyond = beyond.min(cylinders);
        // Both in units of 2^-20.
        let root = i128::from((beyond << 40).checked_div(cylinders).unwrap_or(0).isqrt());
        let line = i128::from((beyond << 20) / cylinders);
        let times = [self.seek_min, self.seek_mean, self.seek_max].map(nanos);
        let [min, mean, max] = times.map(i128::from);
        let curve =
            (15 * mean - 10 * min - 5 * max) * root + (7 * min - 15 * mean + 8 * max) * line;
        // Numbers that no square root fits well bend the curve beyond its ends.
        let time = (min + ((curve / 3) >> 20)).clamp(min, max.max(min));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// Computes mean and worst time of a small command somewhere on the disk.
    #[must_use]
    pub fn profile(&self) -> (Duration, Duration) {
        let turn = Duration::from_nanos(self.revolution());
        let mean = self.overhead + self.seek_mean + self.settle_spread / 2 + turn / 2;
        let worst = self.overhead + self.seek_max + self.settle_spread + self.write_settle;
        (mean, worst + turn)
    }

    /// Computes a time in which no command of so many sectors ends: it waits for none, has an outermost track,
    /// and the disk has read it before.
    #[must_use]
    pub fn fastest(&self, sectors: u32) -> Duration {
        let sector = self.revolution() / u64::from(self.outer_sectors.max(1));
        self.overhead + Duration::from_nanos(u64::from(sectors) * sector / 2)
    }

    /// Checks the properties.
    ///
    /// # Errors
    ///
    /// The first value out of its range, with the range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let count = |key, value: u32, from: u32, to: u32, range| {
            require(key, (from..=to).contains(&value), value, range)
        };
        count("rpm", self.rpm, 1000, 30_000, "1000 to 30000, such as 7200")?;
        let range = "1 to 10000000 on each surface, such as 264000";
        count("cylinders", self.cylinders, 1, 10_000_000, range)?;
        count("heads", self.heads, 1, 64, "1 to 64, such as 2")?;
        let range = "1 to 100000 on each track, such as 2278";
        count("outer_sectors", self.outer_sectors, 1, 100_000, range)?;
        let range = "1 to the value of `outer_sectors`, such as 1424";
        count("inner_sectors", self.inner_sectors, 1, self.outer_sectors, range)?;
        let range = "1 to 1000, and at most the value of `cylinders`: such as 16";
        count("zones", self.zones, 1, self.cylinders.min(1000), range)?;
        count("read_ahead", self.read_ahead, 0, 1 << 20, "0 to 512 MiB, such as 512 KiB")?;
        let time = |key, value: Duration, from: Duration, to: Duration, range| {
            require(key, (from..=to).contains(&value), format!("{value:?}"), range)
        };
        let (none, second) = (Duration::ZERO, Duration::from_secs(1));
        time("seek_max", self.seek_max, none, second, "0 to 1 s, such as 17 ms")?;
        let range = "0 to the value of `seek_max`, such as 8.5 ms";
        time("seek_mean", self.seek_mean, none, self.seek_max, range)?;
        let range = "0 to the value of `seek_mean`, such as 800 us";
        time("seek_min", self.seek_min, none, self.seek_mean, range)?;
        for (key, value) in [
            ("head_switch", self.head_switch),
            ("write_settle", self.write_settle),
            ("settle_spread", self.settle_spread),
            ("overhead", self.overhead),
        ] {
            time(key, value, none, second, "0 to 1 s, such as 200 us")?;
        }
        Ok(())
    }
}
