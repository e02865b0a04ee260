//! The state of regions of persistent memory, as answers show it.

use sluice_config::wire::Failure;
use sluice_config::{RegionConfig, answer, params, table};

use super::Control;
use crate::control::store::ObjectId;
use crate::serve::engine::{PmemState, ProfileState, RegionState};

/// The periods in which the capacity is measured, unless others are wanted.
const PROFILED: u32 = 10;

impl Control {
    /// Answers `pmem.show`.
    pub(super) fn pmem_show(&self) -> answer::Pmem {
        let PmemState { open, capacity, reserved, period, regions, evicted, profile } =
            self.engine().pmem();
        let config = self.live().current().pmem.clone();
        let objects = self.live_objects();
        let row = |region: &RegionConfig| {
            let state = regions.iter().find(|state| state.name == region.name);
            let live = objects.has(&ObjectId::of::<RegionConfig>(region.name.as_str()));
            answer::RegionRow { live, ..row(region, state) }
        };
        answer::Pmem {
            settings: table::show(&config.general),
            open: open.is_ok(),
            reason: open.err(),
            capacity_now: capacity,
            reserved,
            period_now: period,
            regions: config.regions.iter().map(row).collect(),
            evicted,
            profile: profile.map(capacity_profile),
        }
    }

    /// Answers `pmem.profile`.
    pub(super) fn pmem_profile(
        &self,
        asked: &params::PmemProfile,
    ) -> Result<answer::Nothing, Failure> {
        self.engine().begin_pmem_profile(asked.periods.unwrap_or(PROFILED))?;
        Ok(answer::Nothing::default())
    }
}

fn capacity_profile(profile: ProfileState) -> answer::CapacityProfile {
    let (state, capacity, deviation, reason) = match profile {
        ProfileState::Running => ("running", None, None, None),
        ProfileState::Measured { capacity, deviation } => {
            ("measured", Some(capacity), Some(deviation), None)
        }
        ProfileState::Failed(why) => ("failed", None, None, Some(why)),
    };
    answer::CapacityProfile { state: state.to_owned(), capacity, deviation, reason }
}

/// Shows the settings of a region, its memory and its clients.
fn row(region: &RegionConfig, state: Option<&RegionState>) -> answer::RegionRow {
    let facts = state.and_then(|state| state.open.as_ref().ok());
    answer::RegionRow {
        settings: table::show(region),
        open: facts.is_some(),
        reason: state.and_then(|state| state.open.clone().err()),
        bytes: facts.map(|facts| facts.bytes),
        kind: facts.map(|facts| facts.kind.clone()),
        clients: state.map(|state| state.clients.clone()).unwrap_or_default(),
        live: false,
    }
}
