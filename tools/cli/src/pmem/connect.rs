//! A client of a region that was granted.

use std::time::Duration;

use anyhow::Context as _;
use fabric::nvme::region::{RegionGrant, RegionName, RegionRights};
use pmem_verbs::client::Client;
use pmem_verbs::gate::Pace;
use pmem_verbs::private_data::{RegionId, Request, Rights, Secret};

/// The time in which the data node must answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to the data node of a grant.
///
/// # Errors
///
/// There is no connection.
pub(crate) fn open(name: RegionName, grant: &RegionGrant, pace: Pace) -> anyhow::Result<Client> {
    let rights = match grant.rights {
        RegionRights::Read => Rights::Read,
        RegionRights::ReadWrite => Rights::ReadWrite,
    };
    let request = Request { region: RegionId(name.id()), secret: Secret(grant.secret), rights };
    let client = Client::open(grant.address, request, pace, PATIENCE);
    // The texts of these errors include the texts of their sources.
    client.map_err(anyhow::Error::msg).with_context(|| {
        format!("no connection for region {name} to its data node at {}", grant.address)
    })
}
