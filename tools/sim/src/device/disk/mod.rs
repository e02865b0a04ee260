//! A hard disk: the position of its head, the time of seeks, and the rotation.
//!
//! - [`settings`]: its geometry and times, with their sources.
//!
//! The model knows zones (more sectors on outer tracks), the seek curve, rotation, head and track
//! skew, and one read-ahead buffer. The disk serves one command at a time in order of arrival, as for
//! hosts that order their commands themselves. Writes go to the platter.

pub mod settings;

#[cfg(test)]
mod tests;

use fastrand::Rng;
use units::{Calendar, Nanos, nanos};

use super::error::SettingsError;
use super::interface::{Device, Kind, Request};
use crate::random::Draw as _;

pub use self::settings::Settings;

/// Bytes of a sector.
const SECTOR: u64 = 512;

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
pub struct Disk {
    settings: Settings,
    zones: Vec<Zone>,
    sectors: u64,
    /// The cylinder and head of the arm.
    arm: (u64, u64),
    ahead: Option<ReadAhead>,
    free_at: Nanos,
    /// The angle of the platter at the start, ns.
    phase: u64,
    /// Time that commands took it, in ns.
    busy: u64,
    random: Rng,
    under_way: Calendar<u64>,
}

impl Disk {
    /// Makes a disk whose arm is at the edge; `seed` sets the angle of the platter and the settling
    /// of the head.
    ///
    /// # Errors
    ///
    /// A property cannot be.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self::of(settings, seed))
    }

    /// Makes the disk of the sources, which [`Settings::default`] describes, as [`Self::new`] does.
    #[must_use]
    pub fn sata_7200(seed: u64) -> Self {
        Self::of(Settings::default(), seed)
    }

    fn of(settings: Settings, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let phase = random.below(settings.revolution());
        let (zones, sectors) = zones(&settings);
        Self {
            settings,
            zones,
            sectors,
            arm: (0, 0),
            ahead: None,
            free_at: Nanos::ZERO,
            phase,
            busy: 0,
            random,
            under_way: Calendar::new(),
        }
    }

    /// Returns the number of sectors of 512 bytes.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Serves a command that arrives at `now`, or once the previous one is done: `blocks` sectors from `lba` on, both
    /// clamped to the disk's size. Returns the time from `now` to its completion, in ns.
    pub fn service(&mut self, now: Nanos, lba: u64, blocks: u32, write: bool) -> u64 {
        let lba = lba.min(self.sectors.saturating_sub(1));
        let blocks = u64::from(blocks.max(1)).min(self.sectors.saturating_sub(lba));
        let begin = now.max(self.free_at);
        let start = begin.after(nanos(self.settings.overhead));
        let sought = self.by_seek(start, lba, blocks, write);
        let done = match self.by_reading_on(start, lba, blocks).filter(|_| !write) {
            Some(done) => done.min(sought),
            None => sought,
        };
        let end = self.place(lba + blocks - 1);
        self.arm = (end.cylinder, end.head);
        self.ahead = (!write).then_some(ReadAhead { next: lba + blocks, at: done });
        self.free_at = done;
        self.busy = self.busy.saturating_add(done.ns_since(begin));
        done.ns_since(now)
    }

    /// Computes the end of the command if the arm moves and waits for the sector.
    fn by_seek(&mut self, start: Nanos, lba: u64, blocks: u64, write: bool) -> Nanos {
        let place = self.place(lba);
        let there = start.after(self.positioning(&place, write));
        let turn = self.settings.revolution();
        let stands = (there.0 % turn + self.phase) % turn;
        let wait = (place.angle + turn - stands) % turn;
        there.after(wait + self.passing(&place, blocks))
    }

    fn positioning(&mut self, to: &Place, write: bool) -> u64 {
        let settle = if write { nanos(self.settings.write_settle) } else { 0 };
        let distance = self.arm.0.abs_diff(to.cylinder);
        let moved = match distance {
            0 if self.arm.1 == to.head => return settle,
            0 => nanos(self.settings.head_switch),
            _ => self.settings.seek(distance),
        };
        moved + settle + self.random.below(nanos(self.settings.settle_spread))
    }

    /// Computes when a read is done whose sectors the disk reads ahead, or has read: the head went
    /// on after the last read.
    fn by_reading_on(&self, start: Nanos, lba: u64, blocks: u64) -> Option<Nanos> {
        let ahead = self.ahead?;
        let skipped = lba.checked_sub(ahead.next)?;
        if skipped > u64::from(self.settings.read_ahead) {
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
        blocks * place.sector + crossings * self.settings.skew()
    }

    fn place(&self, lba: u64) -> Place {
        let after = self.zones.partition_point(|zone| zone.first_lba <= lba);
        let zone = self.zones.get(after.saturating_sub(1)).copied();
        let zone = zone.unwrap_or(Zone { first_lba: 0, first_cylinder: 0, sectors: 1 });
        let (turn, heads) = (self.settings.revolution(), u64::from(self.settings.heads.max(1)));
        let (track, sector) =
            ((lba - zone.first_lba) / zone.sectors, (lba - zone.first_lba) % zone.sectors);
        let skew = track % turn * self.settings.skew() % turn;
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
fn zones(settings: &Settings) -> (Vec<Zone>, u64) {
    let count = u64::from(settings.zones.max(1));
    let cylinders = u64::from(settings.cylinders.max(1)).div_ceil(count);
    let outer = u64::from(settings.outer_sectors.max(1));
    let lost = outer.saturating_sub(u64::from(settings.inner_sectors.max(1)));
    let mut total = 0;
    let zones = (0..count).map(|index| {
        let sectors = outer - lost * index / count.saturating_sub(1).max(1);
        let zone = Zone { first_lba: total, first_cylinder: index * cylinders, sectors };
        total += sectors * cylinders * u64::from(settings.heads.max(1));
        zone
    });
    (zones.collect(), total)
}

impl Device for Disk {
    fn submit(&mut self, now: Nanos, request: Request) {
        let end = match request.kind {
            Kind::Read | Kind::Write => {
                let blocks = u32::try_from(request.length.div_ceil(SECTOR)).unwrap_or(u32::MAX);
                let write = request.kind == Kind::Write;
                now.after(self.service(now, request.offset / SECTOR, blocks, write))
            }
            // Earlier writes are on the platter when the arm is done with them.
            Kind::Flush => self.free_at.max(now),
            Kind::Deallocate => now,
        };
        self.under_way.insert(end, request.id);
    }

    fn next(&self) -> Option<Nanos> {
        self.under_way.next_time()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        done.extend(core::iter::from_fn(|| self.under_way.pop_due(until)));
    }

    fn busy(&self) -> Option<u64> {
        Some(self.busy)
    }
}
