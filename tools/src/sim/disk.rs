//! A model of a hard disk: the position of its head, the time of seeks, and the rotation.
//!
//! The model knows zones (more sectors on outer tracks), the seek curve, rotation, head and track
//! skew, and one read-ahead buffer. The disk serves one command at a time, as for hosts
//! that order their commands themselves. Writes go to the platter.

use arbitration::Nanos;

use crate::random::Random;

/// The geometry and the times of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskGeometry {
    /// Revolutions per minute.
    pub(crate) rpm: u32,
    /// Tracks on each surface.
    pub(crate) cylinders: u32,
    /// Surfaces.
    pub(crate) heads: u32,
    /// Sectors of 512 bytes on each track of the outermost zone.
    pub(crate) outer_sectors: u32,
    /// Sectors of 512 bytes on each track of the innermost zone; zones between are interpolated.
    pub(crate) inner_sectors: u32,
    /// The number of zones, of equally many cylinders.
    pub(crate) zones: u32,
    /// Seek to the next cylinder, ns.
    pub(crate) seek_min: u64,
    /// Mean seek between random cylinders, ns.
    pub(crate) seek_mean: u64,
    /// Seek from the first cylinder to the last, ns.
    pub(crate) seek_max: u64,
    /// Time of a switch between surfaces of the same cylinder, ns.
    pub(crate) head_switch: u64,
    /// Time that a write needs more than a read to settle on its track, ns.
    pub(crate) write_settle: u64,
    /// Variation of the head's settling, ns: evenly between nothing and this.
    pub(crate) settle_spread: u64,
    /// Time from a command's arrival until the disk acts on it, ns.
    pub(crate) overhead: u64,
    /// Sectors that the disk reads ahead.
    pub(crate) read_ahead: u32,
}

impl DiskGeometry {
    /// Seagate ST3500514NS, the disk of intelliQoS (docs/sources.md, I1 to I3): 7200 rpm, 500 GB,
    /// 240,000 tracks per inch, 140 MB/s at the edge (all as its maker says), a mean seek of 8.5
    /// ms.
    pub(crate) const SATA_7200: Self = Self {
        rpm: 7200,
        cylinders: 264_000,
        heads: 2,
        outer_sectors: 2278,
        inner_sectors: 1424,
        zones: 16,
        seek_min: 800_000,
        seek_mean: 8_500_000,
        seek_max: 17_000_000,
        head_switch: 800_000,
        write_settle: 500_000,
        settle_spread: 200_000,
        overhead: 100_000,
        read_ahead: 1024,
    };

    /// Computes the time of one turn of the platter, ns.
    pub(crate) fn revolution(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm.max(1))
    }

    /// Computes by how much a track begins later on the platter than the one before, so that a long
    /// read does not miss its first sector; ns.
    fn skew(&self) -> u64 {
        self.head_switch.max(self.seek_min) + self.settle_spread
    }

    /// Computes the time of the arm over `distance` cylinders, ns, from three numbers of the data
    /// sheet and the square root that fits them (Lee and Katz, "An analytic performance model of
    /// disk arrays", 1993).
    fn seek(&self, distance: u64) -> u64 {
        let Some(beyond) = distance.checked_sub(1) else { return 0 };
        let cylinders = u64::from(self.cylinders.max(1));
        let beyond = beyond.min(cylinders);
        // Both in units of 2^-20.
        let root = i128::from((beyond << 40).checked_div(cylinders).unwrap_or(0).isqrt());
        let line = i128::from((beyond << 20) / cylinders);
        let [min, mean, max] = [self.seek_min, self.seek_mean, self.seek_max].map(i128::from);
        let curve =
            (15 * mean - 10 * min - 5 * max) * root + (7 * min - 15 * mean + 8 * max) * line;
        u64::try_from(min + ((curve / 3) >> 20)).unwrap_or(self.seek_min)
    }
}

/// Cylinders whose tracks hold the same number of sectors.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_lba: u64,
    first_cylinder: u64,
    sectors: u64,
}

/// The place of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    cylinder: u64,
    head: u64,
    /// The time at which the sector comes under the head, in ns after the start of a turn.
    angle: u64,
    /// The time of one sector under the head, ns.
    sector: u64,
    /// The sectors from here to the end of the track.
    left_on_track: u64,
    /// The sectors of the track.
    track: u64,
}

/// The read-ahead after a read: its next sector, and since when.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    next: u64,
    at: Nanos,
}

/// A disk at work.
#[derive(Debug)]
pub(crate) struct Disk {
    geometry: DiskGeometry,
    zones: Vec<Zone>,
    sectors: u64,
    /// The cylinder and head of the arm.
    arm: (u64, u64),
    ahead: Option<ReadAhead>,
    free_at: Nanos,
    /// The angle of the platter at the start, ns.
    phase: u64,
    random: Random,
}

impl Disk {
    /// Makes a disk whose arm is at the edge; `seed` sets the angle of the platter and the settling
    /// of the head.
    pub(crate) fn new(geometry: DiskGeometry, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let phase = random.below(geometry.revolution());
        let (zones, sectors) = zones(&geometry);
        Self {
            geometry,
            zones,
            sectors,
            arm: (0, 0),
            ahead: None,
            free_at: Nanos::ZERO,
            phase,
            random,
        }
    }

    /// Returns the number of sectors of 512 bytes.
    #[cfg_attr(not(test), allow(dead_code, reason = "figures with fixed places need not ask"))]
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Serves a command that arrives at `now`, or once the one before is done: `blocks` sectors
    /// from `lba` on, both cut to what the disk has. Returns how long after `now` it is done, in
    /// ns.
    pub(crate) fn service(&mut self, now: Nanos, lba: u64, blocks: u32, write: bool) -> u64 {
        let lba = lba.min(self.sectors.saturating_sub(1));
        let blocks = u64::from(blocks.max(1)).min(self.sectors.saturating_sub(lba));
        let start = now.max(self.free_at).after(self.geometry.overhead);
        let sought = self.by_seek(start, lba, blocks, write);
        let done = match self.by_reading_on(start, lba, blocks).filter(|_| !write) {
            Some(done) => done.min(sought),
            None => sought,
        };
        let end = self.place(lba + blocks - 1);
        self.arm = (end.cylinder, end.head);
        self.ahead = (!write).then_some(ReadAhead { next: lba + blocks, at: done });
        self.free_at = done;
        done.ns_since(now)
    }

    /// Computes mean and worst time of a small command somewhere on the disk, ns.
    #[cfg_attr(not(test), allow(dead_code, reason = "for schedulers that are told of the disk"))]
    pub(crate) fn profile(&self) -> (u64, u64) {
        let of = &self.geometry;
        let mean = of.overhead + of.seek_mean + of.settle_spread / 2 + of.revolution() / 2;
        let worst = of.overhead + of.seek_max + of.settle_spread + of.write_settle;
        (mean, worst + of.revolution())
    }

    /// Computes the end of the command if the arm moves and waits for the sector.
    fn by_seek(&mut self, start: Nanos, lba: u64, blocks: u64, write: bool) -> Nanos {
        let place = self.place(lba);
        let there = start.after(self.positioning(&place, write));
        let turn = self.geometry.revolution();
        let stands = (there.0 % turn + self.phase) % turn;
        let wait = (place.angle + turn - stands) % turn;
        there.after(wait + self.passing(&place, blocks))
    }

    fn positioning(&mut self, to: &Place, write: bool) -> u64 {
        let settle = if write { self.geometry.write_settle } else { 0 };
        let distance = self.arm.0.abs_diff(to.cylinder);
        let moved = match distance {
            0 if self.arm.1 == to.head => return settle,
            0 => self.geometry.head_switch,
            _ => self.geometry.seek(distance),
        };
        moved + settle + self.random.below(self.geometry.settle_spread)
    }

    /// Computes when a read is done whose sectors the disk reads ahead, or has read: the head went
    /// on after the last read.
    fn by_reading_on(&self, start: Nanos, lba: u64, blocks: u64) -> Option<Nanos> {
        let ahead = self.ahead?;
        let skipped = lba.checked_sub(ahead.next)?;
        if skipped > u64::from(self.geometry.read_ahead) {
            return None;
        }
        let place = self.place(ahead.next);
        let read = self.passing(&place, skipped + blocks);
        // From the buffer to the host at twice the speed of the platter.
        Some(ahead.at.after(read).max(start.after(blocks * place.sector / 2)))
    }

    /// Computes how long `blocks` sectors from `place` on take to pass under the heads, ns.
    fn passing(&self, place: &Place, blocks: u64) -> u64 {
        let crossings = blocks.saturating_sub(place.left_on_track).div_ceil(place.track.max(1));
        blocks * place.sector + crossings * self.geometry.skew()
    }

    fn place(&self, lba: u64) -> Place {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba);
        let zone = self.zones.get(after.saturating_sub(1)).copied();
        let zone = zone.unwrap_or(Zone { first_lba: 0, first_cylinder: 0, sectors: 1 });
        let (turn, heads) = (self.geometry.revolution(), u64::from(self.geometry.heads.max(1)));
        let (track, sector) =
            ((lba - zone.first_lba) / zone.sectors, (lba - zone.first_lba) % zone.sectors);
        let skew = track % turn * self.geometry.skew() % turn;
        Place {
            cylinder: zone.first_cylinder + track / heads,
            head: track % heads,
            angle: (sector * turn / zone.sectors + skew) % turn,
            sector: turn / zone.sectors,
            left_on_track: zone.sectors - sector,
            track: zone.sectors,
        }
    }
}

/// Makes the zones from the edge inwards, and counts their sectors.
fn zones(geometry: &DiskGeometry) -> (Vec<Zone>, u64) {
    let count = u64::from(geometry.zones.max(1));
    let cylinders = u64::from(geometry.cylinders.max(1)).div_ceil(count);
    let outer = u64::from(geometry.outer_sectors.max(1));
    let lost = outer.saturating_sub(u64::from(geometry.inner_sectors.max(1)));
    let mut total = 0;
    let zones = (0..count).map(|index| {
        let sectors = outer - lost * index / count.saturating_sub(1).max(1);
        let zone = Zone { first_lba: total, first_cylinder: index * cylinders, sectors };
        total += sectors * cylinders * u64::from(geometry.heads.max(1));
        zone
    });
    (zones.collect(), total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn disk() -> Disk {
        Disk::new(DiskGeometry::SATA_7200, 1)
    }

    /// Measures the mean time of `count` reads of 4 KiB at places that `place` chooses, each right
    /// after the one before.
    fn mean(disk: &mut Disk, count: u64, mut place: impl FnMut(u64) -> u64) -> u64 {
        let mut now = Nanos::ZERO;
        for index in 0..count {
            now = now.after(disk.service(now, place(index), 8, false));
        }
        now.0 / count
    }

    #[test]
    fn it_is_as_large_and_as_fast_as_its_maker_says() {
        let mut disk = disk();
        let sectors = disk.sectors();
        assert!(sectors.abs_diff(976_773_168) < 9_767_731, "{sectors} sectors");
        let mut random = Random::new(7);
        let time = mean(&mut disk, 20_000, |_| random.below(sectors));
        let (expected, worst) = disk.profile();
        // A data sheet's mean seek is over random cylinders; more sectors are at the edge.
        assert!(time.abs_diff(expected) < MS / 2, "{time} beside {expected}");
        assert!(worst > 25 * MS && worst < 27 * MS);
        let start = disk.free_at;
        let mut now = start;
        for index in 0..1000 {
            now = now.after(disk.service(now, index * 2048, 2048, false));
        }
        let rate = 1000 * 2048 * 512 * 1000 / (now.ns_since(start) / MS);
        assert!((115_000_000..140_000_000).contains(&rate), "{rate} bytes per second at the edge");
    }

    #[test]
    fn no_command_takes_longer_than_the_worst_case() {
        let mut disk = disk();
        let (mut random, (_, worst)) = (Random::new(3), disk.profile());
        let mut now = Nanos::ZERO;
        for _ in 0..20_000 {
            let write = random.below(2) == 0;
            let time = disk.service(now, random.below(disk.sectors()), 8, write);
            assert!(time <= worst + MS / 10, "{time}");
            now = now.after(time + random.below(MS));
        }
    }

    #[test]
    fn near_is_quicker_than_far_and_next_is_quickest() {
        let sectors = |bytes: u64| bytes / 512;
        let mut random = Random::new(5);
        let mut within = |bytes| random.below(sectors(bytes));
        let near = mean(&mut disk(), 5000, |_| within(128 << 20));
        let far =
            mean(&mut disk(), 5000, |index| sectors(32 << 30) * (index % 2) + within(128 << 20));
        let next = mean(&mut disk(), 5000, |index| index * 8);
        assert!(near > 4 * MS && near < 6 * MS, "{near}");
        assert!(far > near + 2 * MS && far < 10 * MS, "{far}");
        assert!(next < MS / 4, "{next}");
    }

    #[test]
    fn the_seed_decides_everything() {
        let run = |seed| {
            let mut disk = Disk::new(DiskGeometry::SATA_7200, seed);
            mean(&mut disk, 100, |index| index * 7_919_777 % 900_000_000)
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn sectors_beyond_the_end_are_not_read() {
        let mut disk = disk();
        let (_, worst) = disk.profile();
        assert!(disk.service(Nanos::ZERO, u64::MAX, u32::MAX, true) <= worst);
    }
}
