//! The geometry and the times of a hard disk, as a scenario has them.

use std::time::Duration;

use serde::Deserialize;

use super::value::{Bytes, Time};
use crate::device::disk::Settings;

/// `disk`: the properties of a hard disk. Missing ones default to [`Settings::default`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskGeometry {
    rpm: Option<u32>,
    cylinders: Option<u32>,
    heads: Option<u32>,
    outer_sectors: Option<u32>,
    inner_sectors: Option<u32>,
    zones: Option<u32>,
    seek_min: Option<Time>,
    seek_mean: Option<Time>,
    seek_max: Option<Time>,
    head_switch: Option<Time>,
    write_settle: Option<Time>,
    settle_spread: Option<Time>,
    overhead: Option<Time>,
    read_ahead: Option<Bytes>,
}

impl DiskGeometry {
    /// Makes the properties. Whether a disk can have them, [`Settings::check`] tells.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let source = Settings::default();
        let time = |given: Option<Time>, before: Duration| given.map_or(before, |time| time.0);
        let ahead = self.read_ahead.map(|bytes| u32::try_from(bytes.0 / 512).unwrap_or(u32::MAX));
        Settings {
            rpm: self.rpm.unwrap_or(source.rpm),
            cylinders: self.cylinders.unwrap_or(source.cylinders),
            heads: self.heads.unwrap_or(source.heads),
            outer_sectors: self.outer_sectors.unwrap_or(source.outer_sectors),
            inner_sectors: self.inner_sectors.unwrap_or(source.inner_sectors),
            zones: self.zones.unwrap_or(source.zones),
            seek_min: time(self.seek_min, source.seek_min),
            seek_mean: time(self.seek_mean, source.seek_mean),
            seek_max: time(self.seek_max, source.seek_max),
            head_switch: time(self.head_switch, source.head_switch),
            write_settle: time(self.write_settle, source.write_settle),
            settle_spread: time(self.settle_spread, source.settle_spread),
            overhead: time(self.overhead, source.overhead),
            read_ahead: ahead.unwrap_or(source.read_ahead),
        }
    }
}
