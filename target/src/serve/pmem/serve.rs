//! The thread of the data node: it listens, ends rights, and lets Haechi's monitor look
//! (docs/research/sources.md, H2: the data node hands out and converts tokens).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::nvme::region::RegionRights;
use fabric::rdma::placement::Placement;
use pmem::capacity::Profile;
use pmem::monitor::Finding;
use pmem::region::Kind;
use pmem::token::{Iops, Tokens};
use pmem_verbs::grant::Terms;
use pmem_verbs::message::Sync;
use pmem_verbs::node::{self, Claim, GrantKey, Grants, News, Node};
use pmem_verbs::private_data::{Reject, Request, Rights, Secret};
use sluice_config::Pmem;

use super::grants::{GrantId, tokens};
use super::memory::ClientMemory;
use super::shared::{EVICTED, Found, Order, PmemShared, secret};
use super::sync::Syncer;
use crate::serve::shared::Shared;

/// The time between two tries to listen.
const RETRY: Duration = Duration::from_secs(1);
/// The longest time until the end of the daemon is noticed.
const LONGEST: Duration = Duration::from_millis(100);
/// The time for which a kind of finding about a client is not logged again.
const QUIET: Duration = Duration::from_secs(60);
/// Checks without news after which a client's tokens are given back: clients may wait for a processor.
const SILENCE: u32 = 20;
/// M of the paper: the periods by which the capacity is estimated.
const HISTORY: usize = 5;

/// Serves regions until `over` holds: the body of the thread.
pub(crate) fn run(shared: &Shared, over: impl Fn() -> bool) {
    let pmem = &shared.pmem;
    let Some(address) = pmem.settings().address else { return };
    let mut syncer = match Syncer::start(Arc::clone(pmem), pmem.settings().clients) {
        Ok(syncer) => syncer,
        Err(error) => {
            tracing::error!(%error, "the thread that makes data survive cannot be started");
            return;
        }
    };
    let (mut node, mut tried) = (None, None::<Instant>);
    while !over() {
        if node.is_none() && tried.is_none_or(|tried| tried.elapsed() >= RETRY) {
            tried = Some(Instant::now());
            node = listen(pmem, address);
        }
        let Some(serving) = &mut node else {
            // Without a data node nobody has rights, and nothing can be measured.
            pmem.end_profile();
            pmem.has_carried_out(pmem.take_orders().len());
            std::thread::sleep(LONGEST);
            continue;
        };
        if let Err(error) = serving.turn(shared, &mut syncer) {
            serving.end(pmem);
            node = None;
            if pmem.set_open(Err(error.to_string())) {
                tracing::error!(%address, %error, "regions are not served any more");
            }
        }
    }
}

/// Begins to listen.
fn listen(pmem: &PmemShared, address: SocketAddr) -> Option<Serving> {
    let made = secret()
        .ok_or_else(|| "the kernel has no random numbers (/dev/urandom)".to_owned())
        .and_then(|secret| {
            let settings = settings(pmem.settings(), address, Secret(secret));
            Node::new(settings).map_err(|error| error.to_string())
        });
    match made {
        Ok(node) => Some(Serving { node, period: 0, told: HashMap::new() }),
        Err(why) => {
            if pmem.set_open(Err(why.clone())) {
                tracing::error!(%address, why, "regions are not served");
            }
            None
        }
    }
}

/// Translates the configuration.
fn settings(config: &Pmem, address: SocketAddr, secret: Secret) -> node::Settings {
    let capacity = tokens(config.capacity_of_all(), config.period);
    let sigma = tokens(config.deviation_of_capacity(), config.period);
    node::Settings {
        address,
        terms: Terms {
            period: config.period,
            interval: config.interval,
            batch: Tokens(config.batch),
            limit: None,
            io_bytes: u32::try_from(config.bytes_of_io())
                .ok()
                .and_then(NonZeroU32::new)
                .unwrap_or(NonZeroU32::MAX),
        },
        clients: config.clients,
        local: Iops(config.capacity_of_client()),
        profile: Profile { mean: capacity, sigma: sigma.0 as f64 },
        increment: Tokens(capacity.0 / 100),
        history: HISTORY,
        silence: SILENCE,
        secret,
    }
}

/// A data node that listens.
#[derive(Debug)]
struct Serving {
    node: Node,
    /// The number of the last period that was seen.
    period: u16,
    /// When findings were logged last, by client and kind.
    told: HashMap<(Option<GrantKey>, std::mem::Discriminant<Finding>), Instant>,
}

impl Serving {
    /// Does due work, and waits for more.
    fn turn(&mut self, shared: &Shared, syncer: &mut Syncer) -> Result<(), node::NodeError> {
        let pmem = &shared.pmem;
        let orders = pmem.take_orders();
        let count = orders.len();
        for order in orders {
            match order {
                Order::Revoke(GrantId(id)) => self.node.revoke(GrantKey(id)),
                Order::Profile(periods) => {
                    if !self.node.begin_profile(periods) {
                        pmem.note_profile(Err("no client is connected any more".to_owned()));
                    }
                }
                Order::Synced { client, ticket, done } => {
                    syncer.answered(client);
                    self.node.synced(GrantKey(client.0), ticket, done);
                }
            }
        }
        if count > 0 {
            pmem.has_carried_out(count);
        }
        self.node.turn(shared.clock.now(), &mut Granted(pmem))?;
        while let Some(news) = self.node.next_news() {
            self.take(news, shared, syncer);
        }
        let (capacity, period) = self.node.capacity();
        if period.0 != self.period {
            self.period = period.0;
            pmem.set_capacity(capacity, period.0);
            for served in self.node.served() {
                let completed = served.completed.map_or(0, |tokens| tokens.0);
                pmem.note(GrantId(served.key.0), |grant| {
                    grant.last_period = completed;
                    grant.completed = grant.completed.saturating_add(completed);
                });
            }
        }
        self.node.wait(shared.clock.now(), pmem.orders_fd(), LONGEST)?;
        pmem.is_awake();
        Ok(())
    }

    fn take(&mut self, news: News, shared: &Shared, syncer: &mut Syncer) {
        let pmem = &shared.pmem;
        match news {
            News::Ready => {
                pmem.set_open(Ok(()));
                let (address, device) = (self.node.address(), self.node.device().name());
                tracing::info!(%address, device, "regions are served by one-sided RDMA");
            }
            News::Connected(GrantKey(id)) => {
                let grant = pmem.note(GrantId(id), |grant| grant.connected = true);
                let Some(grant) = grant else { return self.node.revoke(GrantKey(id)) };
                if grant.address.is_none_or(|address| shared.may_log(address)) {
                    let rights = format_args!("{:?}", grant.rights);
                    let (host, region, reservation) =
                        (&grant.host, grant.region, grant.reservation);
                    tracing::info!(host, %region, %rights, reservation, "a client uses a region");
                }
            }
            News::Gone(GrantKey(id)) => {
                syncer.forget(GrantId(id));
                let Some(grant) = pmem.note(GrantId(id), |grant| grant.connected = false) else {
                    return;
                };
                if grant.address.is_none_or(|address| shared.may_log(address)) {
                    let (host, region) = (&grant.host, grant.region);
                    tracing::info!(host, %region, "a client's connection to a region has ended");
                }
            }
            News::Unregistered(GrantKey(id), why) => {
                let Some(found) = pmem.region_of(GrantId(id)) else { return };
                if found.grant.address.is_none_or(|address| shared.may_log(address)) {
                    let (host, region) = (&found.grant.host, found.grant.region);
                    tracing::warn!(
                        host, %region, why,
                        "the device does not take a region's memory: device DAX, memory and files in \
                         memory can be used by all, other files only where device and kernel have \
                         on-demand paging"
                    );
                }
            }
            News::Unreserved(GrantKey(id), reason) => {
                let grant = pmem.note(GrantId(id), |grant| grant.reservation = 0);
                if let Some(grant) = grant {
                    let (host, region) = (&grant.host, grant.region);
                    tracing::warn!(
                        host, %region, %reason,
                        "a client has lost its reservation: less can be done than when it was admitted"
                    );
                }
            }
            News::Refused(address, reason) => self.refused(shared, address, reason),
            News::Finding(key, finding) => self.finding(pmem, key, finding),
            News::Profiled(profile) => {
                let measured =
                    profile.map(|Profile { mean, sigma }| (mean, Tokens::rounded(sigma)));
                pmem.note_profile(measured.map_err(|why| why.to_string()));
            }
            News::Evicted(GrantKey(id)) => {
                let Some(grant) = pmem.evict(GrantId(id), Instant::now()) else { return };
                let (host, region, minutes) = (&grant.host, grant.region, EVICTED.as_secs() / 60);
                tracing::warn!(
                    host, %region, minutes,
                    "a client was evicted, since it sends I/Os without tokens or larger ones than \
                     `io_size`: its host gets no grant for some minutes, or until the regions change"
                );
            }
            News::Sync(key, asked) => {
                let id = GrantId(key.0);
                let found = pmem.region_of(id);
                if !found.is_some_and(|found| syncer.take(id, asked, found)) {
                    let Sync { ticket, .. } = asked;
                    self.node.synced(key, ticket, false);
                }
            }
        }
    }

    #[expect(clippy::unused_self, reason = "one of the kinds of news")]
    fn refused(&self, shared: &Shared, address: IpAddr, reason: Reject) {
        if shared.may_log(address) {
            tracing::warn!(%address, %reason, "a client of regions was refused");
        }
    }

    /// Counts and logs a finding of the monitor.
    fn finding(&mut self, pmem: &PmemShared, key: Option<GrantKey>, finding: Finding) {
        let missed = matches!(finding, Finding::Missed { .. });
        let id = key.map(|GrantKey(id)| GrantId(id));
        let grant = id.and_then(|id| pmem.note(id, |grant| grant.missed += u64::from(missed)));
        let kind = (key, std::mem::discriminant(&finding));
        if self.told.get(&kind).is_some_and(|told| told.elapsed() < QUIET) {
            return;
        }
        self.told.retain(|_, told| told.elapsed() < QUIET);
        self.told.insert(kind, Instant::now());
        let host = grant.as_ref().map(|grant| grant.host.as_str());
        let region = grant.as_ref().map(|grant| tracing::field::display(grant.region));
        tracing::warn!(host, region, %finding, "the monitor of regions has found something out");
    }

    /// Notes that all clients are gone.
    fn end(&self, pmem: &PmemShared) {
        pmem.note_all(|grant| grant.connected = false);
        pmem.end_profile();
    }
}

/// Finds the placement by which a FLUSH promises as much as a sync does on a region of this kind.
fn as_good_as_a_sync(kind: Kind) -> Option<Placement> {
    match kind {
        Kind::DeviceDax | Kind::DaxFile => Some(Placement::Persistent),
        // The page cache must be written to the disk.
        Kind::File => None,
        Kind::MemoryFile | Kind::Anonymous => Some(Placement::Global),
    }
}

/// The table of grants, as the data node asks it.
struct Granted<'a>(&'a PmemShared);

impl Grants for Granted<'_> {
    fn claim(&mut self, wanted: &Request) -> Result<(GrantKey, Claim), Reject> {
        let is_it = |secret| Secret(secret) == wanted.secret;
        let found = self.0.find(wanted.region.0, is_it).ok_or(Reject::NoGrant)?;
        let Found { grant, region } = found;
        let rights = match grant.rights {
            RegionRights::Read => Rights::Read,
            RegionRights::ReadWrite => Rights::ReadWrite,
        };
        // Fewer rights than were granted may be asked for.
        if wanted.rights == Rights::ReadWrite && rights == Rights::Read {
            return Err(Reject::NoGrant);
        }
        let period = self.0.settings().period;
        let bytes = usize::try_from(region.bytes).map_err(|_| Reject::NoGrant)?;
        let kind = region.memory.kind();
        let claim = Claim {
            data: (Arc::new(ClientMemory(region.memory)), 0..bytes),
            rights: wanted.rights,
            reservation: tokens(grant.reservation, period),
            limit: grant.limit.map(|limit| tokens(limit, period)),
            flushes: as_good_as_a_sync(kind),
        };
        Ok((GrantKey(grant.id.0), claim))
    }
}

#[cfg(test)]
mod tests {
    use pmem::region::AfterPowerCut;

    use super::*;

    #[test]
    fn a_flush_stands_for_a_sync_where_it_promises_as_much() {
        for kind in [Kind::DeviceDax, Kind::DaxFile, Kind::File, Kind::MemoryFile, Kind::Anonymous]
        {
            let wanted = match kind.after_power_cut() {
                AfterPowerCut::Flushed => Some(Placement::Persistent),
                AfterPowerCut::Synchronized => None,
                AfterPowerCut::Nothing => Some(Placement::Global),
            };
            assert_eq!(as_good_as_a_sync(kind), wanted, "{}", kind.name());
        }
    }
}
