//! `[[profile]]`: limits that many sessions have by its name.

use std::time::Duration;

use sluice_schema::keys::PROFILE;

use super::super::fields::Fields;
use super::super::table::{self, Written, read_already, table};
use super::session::{DirectionLimits, Session, write_rate};
use super::values;

/// `[[profile]]`: values of limits. Each session that names the profile has buckets of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// `name`: the profile's name.
    pub name: String,
    /// `iops`: the most commands per second.
    pub iops: Option<u64>,
    /// `bandwidth`: the most bytes per second.
    pub bandwidth: Option<u64>,
    /// `iops_per_gib`: the most commands per second for each GiB of a session's namespaces.
    pub iops_per_gib: Option<u64>,
    /// `bandwidth_per_gib`: the most bytes per second for each GiB.
    pub bandwidth_per_gib: Option<u64>,
    /// `read_iops`, `read_bandwidth`.
    pub reads: DirectionLimits,
    /// `write_iops`, `write_bandwidth`.
    pub writes: DirectionLimits,
    /// `burst`: time for which each limit saves credit; `None` means 1 ms.
    pub burst: Option<Duration>,
}

table! { Profile, PROFILE, nulls = true;
    "name" => with(read_already, |profile, _| Written::same(profile.name.as_str())),
    "iops" => field(iops),
    "bandwidth" => read(bandwidth, |node| values::bandwidth(node).map(Some), write_rate),
    "iops_per_gib" => field(iops_per_gib),
    "bandwidth_per_gib" => read(bandwidth_per_gib, |node| values::bandwidth(node).map(Some), write_rate),
    "read_iops" => field(reads.iops),
    "read_bandwidth" => read(reads.bandwidth, |node| values::bandwidth(node).map(Some), write_rate),
    "write_iops" => field(writes.iops),
    "write_bandwidth" => read(writes.bandwidth, |node| values::bandwidth(node).map(Some), write_rate),
    "burst" => field(burst),
}

/// Reads `[[profile]]`; a setting that is left out is as in `base`. `null` takes a setting back.
pub(crate) fn profile(mut fields: Fields<'_>, base: &Profile) -> Option<Profile> {
    let name = fields.require("name", "\"gold\"", values::profile_name);
    let mut profile = base.clone();
    table::read(&mut fields, &mut profile);
    fields.finish();
    profile.name = name?.value;
    Some(profile)
}

/// Returns a session with the limits of its profile where it sets none of its own.
pub(crate) fn with_profile(session: &Session, profiles: &[Profile]) -> Session {
    let mut filled = session.clone();
    let named = |profile: &&Profile| Some(&profile.name) == session.profile.as_ref();
    let Some(profile) = profiles.iter().find(named) else { return filled };
    let or = |own: DirectionLimits, other: DirectionLimits| DirectionLimits {
        iops: own.iops.or(other.iops),
        bandwidth: own.bandwidth.or(other.bandwidth),
    };
    filled.iops = session.iops.or(profile.iops);
    filled.bandwidth = session.bandwidth.or(profile.bandwidth);
    filled.iops_per_gib = session.iops_per_gib.or(profile.iops_per_gib);
    filled.bandwidth_per_gib = session.bandwidth_per_gib.or(profile.bandwidth_per_gib);
    filled.reads = or(session.reads, profile.reads);
    filled.writes = or(session.writes, profile.writes);
    filled.burst = session.burst.or(profile.burst);
    filled
}
