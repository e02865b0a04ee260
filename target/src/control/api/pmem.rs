//! The state of regions of persistent memory, as answers show it.

use sluice_config::{RegionConfig, answer, table};

use super::Control;
use crate::control::store::ObjectId;
use crate::serve::engine::{PmemState, RegionClient, RegionState};

impl Control {
    /// Answers `pmem.show`.
    pub(super) fn pmem_show(&self) -> answer::Pmem {
        let PmemState { open, capacity, reserved, period, regions } = self.engine().pmem();
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
        }
    }
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
        clients: state.into_iter().flat_map(|state| &state.clients).map(client).collect(),
        live: false,
    }
}

fn client(client: &RegionClient) -> answer::RegionClient {
    answer::RegionClient {
        grant: client.grant,
        host: client.host.clone(),
        address: client.address.map(|address| address.to_string()),
        rights: client.rights.to_owned(),
        reservation: client.reservation,
        limit: client.limit,
        connected: client.connected,
        completed: client.completed,
        last_period: client.last_period,
        missed: client.missed,
    }
}
