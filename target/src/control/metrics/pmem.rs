//! The metric families of regions of persistent memory and of their clients.

use std::fmt::Error;

use prometheus_client::registry::Unit;

use super::families::{Families, Labels, Pick};
use crate::serve::engine::{PmemState, RegionClient, RegionState};

impl Families<'_> {
    /// Writes the capacity, the regions and their clients. If `served` is false, clients have no address to connect
    /// to, and there is no capacity.
    pub(super) fn pmem(&mut self, state: &PmemState, served: bool) -> Result<(), Error> {
        let rate = Unit::Other("operations_per_second".into());
        let whole = |value: u64| served.then(|| (Labels::new(), value)).into_iter();
        let help = "1 while clients of regions can connect, 0 while they cannot";
        self.gauges("pmem_up", help, None, whole(u64::from(state.open.is_ok())))?;
        let help = "Estimated capacity of the data node, all clients together";
        self.gauges("pmem_capacity", help, Some(&rate), whole(state.capacity))?;
        let help = "The part of the capacity that is reserved";
        self.gauges("pmem_reserved", help, Some(&rate), whole(state.reserved))?;
        let each = |value: fn(&RegionState) -> Option<u64>| {
            let row = move |region: &RegionState| Some((of_region(region), value(region)?));
            state.regions.iter().filter_map(row)
        };
        let help = "1 while a region's memory is open, 0 while it is not";
        self.gauges("region_up", help, None, each(|region| Some(region.open.is_ok().into())))?;
        let size = each(|region| region.open.as_ref().ok().map(|facts| facts.bytes));
        self.gauges("region_size", "Size of a region", Some(&Unit::Bytes), size)?;
        let grants = each(|region| u64::try_from(region.clients.len()).ok());
        self.gauges("region_clients", "Clients that have a grant of a region", None, grants)?;
        let clients = state.regions.iter().flat_map(|region| {
            region.clients.iter().map(|client| (of_client(region, client), client))
        });
        self.region_clients(&clients.collect::<Vec<_>>(), &rate)
    }

    fn region_clients(
        &mut self,
        clients: &[(Labels, &RegionClient)],
        rate: &Unit,
    ) -> Result<(), Error> {
        let gauges: [(&str, &str, Option<&Unit>, Pick<RegionClient>); 2] = [
            ("region_connected", "1 while a client's RDMA connection stands", None, |client| {
                client.connected.into()
            }),
            ("region_reservation", "Reservation of a client", Some(rate), |client| {
                client.reservation
            }),
        ];
        for (name, help, unit, pick) in gauges {
            let values = clients.iter().map(|(labels, client)| (labels.clone(), pick(client)));
            self.gauges(name, help, unit, values)?;
        }
        let counters: [(&str, &str, Pick<RegionClient>); 2] = [
            ("region_operations", "Operations that a client has reported", |c| c.completed),
            ("region_missed_periods", "Periods without the whole reservation", |c| c.missed),
        ];
        for (name, help, pick) in counters {
            let values = clients.iter().map(|(labels, client)| (labels.clone(), pick(client)));
            self.counters(name, help, None, values)?;
        }
        Ok(())
    }
}

fn of_region(region: &RegionState) -> Labels {
    vec![("region", region.name.clone())]
}

/// Returns a client's labels; `grant` tells two clients of one host apart.
fn of_client(region: &RegionState, client: &RegionClient) -> Labels {
    vec![
        ("region", region.name.clone()),
        ("host", client.host.clone()),
        ("grant", client.grant.to_string()),
    ]
}
