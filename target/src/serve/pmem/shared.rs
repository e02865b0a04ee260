//! The state of regions that threads share: the regions, their grants, and the orders for the data node.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabric::controller::{ControllerId, RegionGrants, RegionRefusal, RegionRequest};
use fabric::nvme::region::{RegionGrant, RegionName, RegionRights};
use nix::sys::eventfd::{EfdFlags, EventFd};
use pmem::admission::Admission;
use pmem::token::{Iops, Tokens};
use sluice_config::{Pmem, PmemConfig, RegionConfig};

use super::grants::{Grant, GrantId, Grants, Refused, Wish, per_second, tokens};
use crate::disks::backend::OpenRegion;
use crate::disks::backings::Backings;
use crate::serve::engine::{
    EngineError, EvictedHost, PmemState, ProfileState, RegionClient, RegionFacts, RegionState,
};
use crate::sys::sync::lock;

/// How regions are opened.
pub(crate) trait RegionFiles {
    /// Returns the records of files and devices.
    fn backings(&self) -> &Backings;

    /// Opens a region, or resizes the open one (`from`). `is_change` means that an operator asks for it.
    ///
    /// # Errors
    /// The region cannot be opened, or cannot have its size.
    fn open_or_resize(
        &self,
        region: &RegionConfig,
        from: Option<&OpenRegion>,
        is_change: bool,
    ) -> Result<OpenRegion, EngineError>;
}

impl RegionFiles for Backings {
    fn backings(&self) -> &Backings {
        self
    }

    fn open_or_resize(
        &self,
        region: &RegionConfig,
        from: Option<&OpenRegion>,
        _: bool,
    ) -> Result<OpenRegion, EngineError> {
        let Some(open) = from else { return Ok(self.open_region(region)?) };
        let place = region.path.clone().unwrap_or_else(|| region.name.clone().into());
        Ok(open.resized(&place, region.size)?)
    }
}

/// The state that threads share.
#[derive(Debug)]
pub(crate) struct PmemShared {
    settings: Pmem,
    state: Mutex<State>,
    orders: Mutex<Orders>,
    /// Told when orders have been carried out.
    carried_out: Condvar,
    /// Makes the data node look at its orders.
    wake: EventFd,
}

/// The orders for the data node.
#[derive(Debug, Default)]
struct Orders {
    left: VecDeque<Order>,
    /// Number of orders that were ever given, and that were ever carried out.
    given: u64,
    carried_out: u64,
}

/// The longest wait for orders that are not carried out.
const LONGEST: Duration = Duration::from_secs(2);

/// The time for which the host of an evicted client gets no grant.
pub(super) const EVICTED: Duration = Duration::from_secs(600);

/// An order for the data node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// End a client's rights and its connection.
    Revoke(GrantId),
    /// Measure the capacity in so many periods.
    Profile(u32),
    /// Tell a client how its wish for survival ended.
    Synced {
        /// The client.
        client: GrantId,
        /// The client's number of its wish.
        ticket: u32,
        /// Whether the data survives.
        done: bool,
    },
}

/// The state of the data node.
#[derive(Clone, Debug)]
struct Node {
    /// Whether clients can connect; why not, in words.
    open: Result<(), String>,
    /// The tokens of a period, as they are estimated now.
    capacity: Tokens,
    /// The number of the running period.
    period: u16,
}

/// A region of the configuration.
#[derive(Clone, Debug)]
struct Served {
    config: RegionConfig,
    name: RegionName,
    /// The open region; why it is not open, in words.
    open: Result<OpenRegion, String>,
}

#[derive(Debug)]
struct State {
    node: Node,
    regions: Vec<Served>,
    grants: Grants,
    /// Hosts of evicted clients, until a time.
    evicted: Vec<(String, Instant)>,
    profile: Option<ProfileState>,
}

impl State {
    /// Returns the hosts of evicted clients, with the time for which they get no grant.
    fn evicted(&self, now: Instant) -> impl Iterator<Item = (&str, Duration)> {
        let left = move |until: &Instant| until.saturating_duration_since(now);
        let all = self.evicted.iter().map(move |(host, until)| (host.as_str(), left(until)));
        all.filter(|(_, left)| !left.is_zero())
    }
}

impl PmemShared {
    /// Makes the state without regions.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(crate) fn new(settings: &Pmem) -> std::io::Result<Self> {
        let why = match settings.address {
            Some(address) => format!("{address} is not listened on yet"),
            None => "no `address` is given in [pmem]".to_owned(),
        };
        let capacity = tokens(settings.capacity_of_all(), settings.period);
        let node = Node { open: Err(why), capacity, period: 0 };
        let grants = Grants::new(settings.clients);
        Ok(Self {
            settings: settings.clone(),
            state: Mutex::new(State {
                node,
                regions: Vec::new(),
                grants,
                evicted: Vec::new(),
                profile: None,
            }),
            orders: Mutex::default(),
            carried_out: Condvar::new(),
            wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        })
    }

    /// Returns the settings of `[pmem]`.
    pub(crate) const fn settings(&self) -> &Pmem {
        &self.settings
    }

    /// Returns whether clients are served at all.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.settings.address.is_some()
    }

    /// Takes the regions of the configuration at the start. A region that cannot be opened is tried again by
    /// [`Self::retry`].
    pub(crate) fn begin(&self, files: &impl RegionFiles, regions: &[RegionConfig]) {
        let open = |config: &RegionConfig| {
            let open = files.open_or_resize(config, None, false).map_err(|error| error.to_string());
            if let Err(error) = &open {
                tracing::error!(region = config.name, %error, "a region is not served");
            }
            Some(Served { name: name(config)?, config: config.clone(), open })
        };
        let regions: Vec<Served> = regions.iter().filter_map(open).collect();
        lock(&self.state).regions = regions;
        self.note_seen(files.backings());
    }

    /// Notes the states of the regions' files and devices.
    fn note_seen(&self, backings: &Backings) {
        let regions = lock(&self.state).regions.clone();
        let bytes = |region: &Served| region.open.as_ref().ok().map(|open| open.bytes);
        backings.note_regions(regions.iter().map(|region| (&region.config, bytes(region))));
    }

    /// Returns whether clients are served and a region is not open.
    pub(crate) fn has_closed(&self) -> bool {
        self.is_wanted() && lock(&self.state).regions.iter().any(|region| region.open.is_err())
    }

    /// Tries again to open regions that are not open. This may wait for a device or file system.
    pub(crate) fn retry(&self, files: &impl RegionFiles) {
        let state = lock(&self.state);
        let closed = state.regions.iter().filter(|region| region.open.is_err());
        let closed: Vec<RegionConfig> = closed.map(|region| region.config.clone()).collect();
        drop(state);
        for config in closed {
            let Ok(open) = files.open_or_resize(&config, None, false) else { continue };
            let mut state = lock(&self.state);
            let known = state.regions.iter_mut().find(|region| region.config == config);
            if let Some(region) = known.filter(|region| region.open.is_err()) {
                region.open = Ok(open);
                tracing::info!(region = config.name, "the region is served");
                drop(state);
                self.note_seen(files.backings());
            }
        }
    }

    /// Replaces the regions. Regions that stay keep their grants, except for hosts that may no longer use them, and
    /// for regions that have become smaller. All other grants have ended when this returns; if the data node takes
    /// longer than [`LONGEST`] to end them, a warning is logged.
    ///
    /// # Errors
    /// A region cannot be opened or cannot have its size; then nothing has changed.
    pub(crate) fn set(
        &self,
        files: &impl RegionFiles,
        regions: &[RegionConfig],
    ) -> Result<(), EngineError> {
        let before = lock(&self.state).regions.clone();
        let mut after = Vec::new();
        for config in regions {
            let Some(name) = name(config) else { continue };
            // If only the rights differ, the memory is mapped already, and claimed.
            let is_it = |known: &&Served| known.name == name && known.config.path == config.path;
            let open = match before.iter().find(is_it) {
                Some(known) if known.config.size == config.size => known.open.clone(),
                Some(Served { open: Ok(open), .. }) => {
                    Ok(files.open_or_resize(config, Some(open), true)?)
                }
                _ => Ok(files.open_or_resize(config, None, true)?),
            };
            after.push(Served { config: config.clone(), name, open });
        }
        let mut state = lock(&self.state);
        let gone = state.grants.take_back(|grant| !may_stay(grant, &before, &after));
        state.regions = after;
        // The operator has looked at who may use what.
        state.evicted.clear();
        drop(state);
        self.note_seen(files.backings());
        let gone: Vec<Order> = gone.into_iter().map(Order::Revoke).collect();
        if !gone.is_empty() {
            self.order(gone);
            self.wait_for_orders();
        }
        Ok(())
    }

    /// Returns the settings of all regions.
    pub(crate) fn config(&self) -> PmemConfig {
        let state = lock(&self.state);
        let regions = state.regions.iter().map(|region| region.config.clone()).collect();
        PmemConfig { general: self.settings.clone(), regions }
    }

    /// Returns the present state.
    pub(crate) fn state(&self) -> PmemState {
        let state = lock(&self.state);
        let State { node, regions, grants, .. } = &*state;
        let clients = |name| grants.iter().filter(move |grant| grant.region == name).map(client);
        let regions = regions.iter().map(|region| RegionState {
            name: region.config.name.clone(),
            open: region
                .open
                .as_ref()
                .map_err(Clone::clone)
                .map(|open| RegionFacts { bytes: open.bytes, kind: open.kind.to_owned() }),
            clients: clients(region.name).collect(),
        });
        PmemState {
            open: node.open.clone(),
            capacity: per_second(node.capacity, self.settings.period),
            reserved: grants.reserved_per_second(),
            period: node.period,
            regions: regions.collect(),
            evicted: state
                .evicted(Instant::now())
                .map(|(host, left)| EvictedHost { host: host.to_owned(), seconds: left.as_secs() })
                .collect(),
            profile: state.profile.clone(),
        }
    }

    /// Begins to measure the capacity, in so many periods.
    ///
    /// # Errors
    /// No client is connected, or the capacity is being measured.
    pub(crate) fn begin_profile(&self, periods: u32) -> Result<(), EngineError> {
        let mut state = lock(&self.state);
        if state.profile == Some(ProfileState::Running) {
            let text = "the capacity is being measured: wait for the end (`sluice pmem show`)";
            return Err(EngineError::Refused(text.to_owned()));
        }
        if !state.grants.iter().any(|grant| grant.connected) {
            let text = "no client is connected whose I/Os could be counted: run \
                        `sluice bench --pmem REGION --bare` on several clients meanwhile";
            return Err(EngineError::Refused(text.to_owned()));
        }
        state.profile = Some(ProfileState::Running);
        drop(state);
        self.order([Order::Profile(periods)]);
        Ok(())
    }

    /// Notes the end of a measurement: mean and standard deviation in tokens of a period, or why there is no
    /// result.
    pub(super) fn note_profile(&self, measured: Result<(Tokens, Tokens), String>) {
        let period = self.settings.period;
        lock(&self.state).profile = Some(match measured {
            Ok((mean, sigma)) => ProfileState::Measured {
                capacity: per_second(mean, period),
                deviation: per_second(sigma, period),
            },
            Err(why) => ProfileState::Failed(why),
        });
    }

    /// Notes that the data node has ended, and a measurement with it.
    pub(super) fn end_profile(&self) {
        let mut state = lock(&self.state);
        if state.profile == Some(ProfileState::Running) {
            state.profile = Some(ProfileState::Failed("the data node has ended".to_owned()));
        }
    }

    /// Ends the grant of an evicted client, and gives its host none for [`EVICTED`]. Returns the grant.
    pub(super) fn evict(&self, id: GrantId, now: Instant) -> Option<Grant> {
        let mut state = lock(&self.state);
        let grant = state.grants.get_mut(id)?.clone();
        state.grants.take_back(|grant| grant.id == id);
        state.evicted.retain(|(host, until)| *until > now && *host != grant.host);
        state.evicted.push((grant.host.clone(), now + EVICTED));
        Some(grant)
    }

    /// Leaves orders for the data node.
    pub(super) fn order(&self, orders: impl IntoIterator<Item = Order>) {
        let mut all = lock(&self.orders);
        let before = all.left.len();
        all.left.extend(orders);
        let more = all.left.len().saturating_sub(before);
        if more > 0 {
            all.given = all.given.saturating_add(more as u64);
            // The counter can only be full if the thread has been woken already.
            let _ = self.wake.write(1);
        }
    }

    /// Waits until all orders so far are carried out, so that a caller that revoked rights can report it. A data
    /// node that hangs, or is about to end, must not hold up a change of the configuration.
    fn wait_for_orders(&self) {
        let all = lock(&self.orders);
        let given = all.given;
        let waits = |all: &mut Orders| all.carried_out < given;
        let waited = self.carried_out.wait_timeout_while(all, LONGEST, waits);
        let (all, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let orders = given.saturating_sub(all.carried_out);
            tracing::warn!(
                orders,
                "rights to persistent memory have not ended yet: the data node is slow"
            );
        }
    }

    /// Takes the orders that were left.
    pub(super) fn take_orders(&self) -> VecDeque<Order> {
        std::mem::take(&mut lock(&self.orders).left)
    }

    /// Adds a number of orders to the count of completed ones.
    pub(super) fn has_carried_out(&self, orders: usize) {
        let mut all = lock(&self.orders);
        all.carried_out = all.carried_out.saturating_add(orders as u64);
        self.carried_out.notify_all();
    }

    /// Returns the descriptor that is readable while there may be orders.
    pub(super) fn orders_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Makes the descriptor of orders unreadable.
    pub(super) fn is_awake(&self) {
        let _ = self.wake.read();
    }

    /// Sets whether clients can connect; returns whether that is new.
    pub(super) fn set_open(&self, open: Result<(), String>) -> bool {
        let node = &mut lock(&self.state).node;
        let is_new = node.open != open;
        node.open = open;
        is_new
    }

    /// Takes the tokens of a period as they are estimated now, and the period's number.
    pub(super) fn set_capacity(&self, capacity: Tokens, period: u16) {
        let node = &mut lock(&self.state).node;
        (node.capacity, node.period) = (capacity, period);
    }

    /// Changes a grant. Returns the changed grant.
    pub(super) fn note(&self, id: GrantId, change: impl FnOnce(&mut Grant)) -> Option<Grant> {
        let mut state = lock(&self.state);
        let grant = state.grants.get_mut(id)?;
        change(grant);
        Some(grant.clone())
    }

    /// Changes all grants.
    pub(super) fn note_all(&self, change: impl Fn(&mut Grant)) {
        lock(&self.state).grants.iter_mut().for_each(change);
    }

    /// Finds the grant that a secret stands for, and its region.
    pub(super) fn find(&self, region: u128, is_it: impl Fn(u128) -> bool) -> Option<Found> {
        let state = lock(&self.state);
        let mut of_region = state.grants.iter().filter(|grant| grant.region.id() == region);
        let grant = of_region.find(|grant| is_it(grant.secret))?;
        let served = state.regions.iter().find(|known| known.name == grant.region)?;
        let region = served.open.clone().ok()?;
        Some(Found { grant: grant.clone(), region })
    }

    /// Finds a grant's region.
    pub(super) fn region_of(&self, id: GrantId) -> Option<Found> {
        let mut state = lock(&self.state);
        let grant = state.grants.get_mut(id)?.clone();
        let served = state.regions.iter().find(|known| known.name == grant.region)?;
        let region = served.open.clone().ok()?;
        Some(Found { grant, region })
    }

    fn admission(&self, node: &Node) -> Admission {
        Admission {
            period: self.settings.period,
            capacity: node.capacity,
            local: Iops(self.settings.capacity_of_client()),
        }
    }
}

/// A grant with the region that it is of.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) grant: Grant,
    pub(super) region: OpenRegion,
}

impl RegionGrants for PmemShared {
    fn grant(&self, asked: &RegionRequest<'_>) -> Result<RegionGrant, RegionRefusal> {
        let mut state = lock(&self.state);
        let is_evicted = state.evicted(Instant::now()).any(|(host, _)| host == asked.host);
        let State { node, regions, grants, .. } = &mut *state;
        let region = regions.iter().find(|region| region.name == asked.name);
        let region = region.filter(|region| {
            let writes = asked.rights == RegionRights::ReadWrite;
            let is_allowed = region.config.hosts.iter().any(|host| host == asked.host);
            is_allowed && !is_evicted && !(writes && region.config.read_only)
        });
        let region = region.ok_or(RegionRefusal::NotGranted)?;
        // A host that may use the region must retry while the region is not available.
        let (Ok(open), Ok(()), Some(address)) = (&region.open, &node.open, self.settings.address)
        else {
            return Err(RegionRefusal::NoRoom);
        };
        let secret = secret().ok_or(RegionRefusal::NoRoom)?;
        let wish = Wish {
            region: asked.name,
            host: asked.host,
            address: asked.address,
            controller: asked.controller,
            rights: asked.rights,
            reservation: asked.reservation.into(),
            most_reserved: region.config.reserve,
            limit: region.config.limit,
            secret,
        };
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let given = grants.give(wish, self.admission(node));
        let grant = given.map_err(|refused| match refused {
            Refused::NoRoom => RegionRefusal::NoRoom,
            Refused::Reservation { fits } => RegionRefusal::Reservation { fits: small(fits) },
        })?;
        Ok(RegionGrant {
            rights: grant.rights,
            address,
            secret,
            length: open.bytes,
            reservation: asked.reservation,
            limit: small(grant.limit.unwrap_or(0)),
            survives: open.survives,
        })
    }

    fn controller_ended(&self, controller: ControllerId) {
        let gone = lock(&self.state).grants.take_back(|grant| grant.controller == controller);
        self.order(gone.into_iter().map(Order::Revoke));
    }
}

/// Returns whether a grant stays when the regions change.
fn may_stay(grant: &Grant, before: &[Served], after: &[Served]) -> bool {
    let find = |regions: &'_ [Served]| {
        let found = regions.iter().find(|region| region.name == grant.region)?;
        Some((found.config.clone(), found.open.as_ref().ok()?.bytes))
    };
    let (Some((before, had)), Some((after, bytes))) = (find(before), find(after)) else {
        return false;
    };
    before.is_same_memory(&after) && bytes >= had && after.hosts.contains(&grant.host)
}

fn name(config: &RegionConfig) -> Option<RegionName> {
    // The configuration was checked.
    RegionName::from_text(&config.name).ok()
}

fn client(grant: &Grant) -> RegionClient {
    RegionClient {
        grant: grant.id.0,
        host: grant.host.clone(),
        address: grant.address.map(|address| address.to_string()),
        rights: match grant.rights {
            RegionRights::Read => "read".to_owned(),
            RegionRights::ReadWrite => "read-write".to_owned(),
        },
        reservation: grant.reservation,
        limit: grant.limit,
        connected: grant.connected,
        completed: grant.completed,
        last_period: grant.last_period,
        missed: grant.missed,
    }
}

/// Makes a secret that nobody can guess; `None` where the kernel has none.
pub(super) fn secret() -> Option<u128> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    Some(u128::from_le_bytes(bytes))
}
