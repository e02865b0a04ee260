//! The state that all threads of the daemon share: the handles of its parts. The threads that keep the state up to
//! date are in `upkeep`.
//!
//! The usual I/O command takes no lock in here. Exceptions are the first command of a connection for a namespace or
//! class, and the first one after a change of settings. A failed or aborted command takes the service's lock, for
//! its entry in the error log.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{BackendId, Service, SmartCounters};

use super::connections::Connections;
use super::gauges::{Events, ReactorGauges};
use super::hosts::{HostLog, Line};
use super::network::NetworkShared;
use super::pmem::PmemShared;
use super::qos::{LimitChange, Nodes, QosShared};
use super::rdma::RdmaShared;
use super::reactor::mailbox::{Mailbox, Message};
use super::service::SharedService;
use super::tls::TlsShared;
use super::traces::Traces;
use super::workloads::Workloads;
use crate::disks::devices::{Devices, OpenDevice};
use crate::sys::clock::Clock;
use crate::sys::deferred_free::DeferredFree;
use crate::sys::line_bound::{LeftOut, LineBound};
use crate::sys::sync::lock;
use sluice_core::{Entrance, Touched};

/// The state that all threads share.
#[derive(Debug)]
pub struct Shared {
    /// `[target]` of the configuration.
    pub settings: sluice_config::TargetConfig,
    /// The clock.
    pub clock: Clock,
    /// The open devices.
    pub devices: Devices,
    /// Quality of service.
    pub(crate) qos: Arc<QosShared>,
    /// Stage S6, the network.
    pub(crate) network: NetworkShared,
    /// Connections over TLS.
    pub(crate) tls: TlsShared,
    /// RDMA connections.
    pub(crate) rdma: RdmaShared,
    /// Regions of persistent memory, and their clients.
    pub(crate) pmem: Arc<PmemShared>,
    /// The mailboxes of the reactors.
    pub mailboxes: Vec<Mailbox>,
    /// The counters of the reactors.
    pub gauges: Vec<ReactorGauges>,
    /// Counters of rare events.
    pub events: Events,
    /// Traces of commands.
    pub(crate) traces: Traces,
    /// Whether the kernel has NVMe passthrough by io_uring.
    pub passthrough: AtomicBool,
    /// The present connections, and the operations of ended ones.
    pub connections: Connections,
    /// The operations of each host in each class at each namespace.
    pub(crate) workloads: Workloads,
    /// The lock of changes, which are made one at a time.
    pub(crate) change: Mutex<()>,
    /// The lists of sessions and devices that reactors must look at again.
    touched: DeferredFree<Touched>,
    /// The lines of the log about hosts.
    hosts: Mutex<HostLog>,
    /// The bound on lines of the log that peers cause.
    peers: Mutex<LineBound<IpAddr>>,
    service: SharedService,
}

impl Shared {
    /// Makes the state that the reactors of a configuration share.
    ///
    /// # Errors
    /// No file descriptors or threads are left.
    pub fn new(config: &sluice_config::Config, mut service: Service) -> std::io::Result<Self> {
        let settings = config.target.clone();
        let reactors = settings.cores.len();
        let memory = settings.io_memory.saturating_mul(reactors as u64);
        let pmem = Arc::new(PmemShared::new(&config.pmem.general)?);
        if pmem.is_wanted() {
            service.set_region_grants(Arc::clone(&pmem) as Arc<_>);
        }
        let tls = TlsShared::new(settings.keyring.as_deref())?;
        service.set_generated_keys(Arc::clone(tls.keys()) as Arc<_>);
        let lowest = sluice_config::LowestRates::of(&config.target);
        let qos = Arc::new(QosShared::new((&config.qos, lowest), reactors, memory));
        service.set_node_credits(Arc::new(Nodes::new(Arc::clone(&qos))));
        Ok(Self {
            qos,
            network: NetworkShared::new(&config.network),
            pmem,
            tls,
            rdma: RdmaShared::new()?,
            settings,
            clock: Clock::start(config.target.clock),
            devices: Devices::default(),
            mailboxes: (0..reactors).map(|_| Mailbox::new()).collect::<Result<_, _>>()?,
            gauges: (0..reactors).map(|_| ReactorGauges::default()).collect(),
            events: Events::default(),
            traces: Traces::new(reactors),
            passthrough: AtomicBool::new(false),
            connections: Connections::default(),
            workloads: Workloads::new(reactors),
            change: Mutex::default(),
            touched: DeferredFree::default(),
            hosts: Mutex::default(),
            peers: Mutex::default(),
            service: SharedService::new(service),
        })
    }

    /// Returns whether one more connection may be served.
    pub(crate) fn has_room(&self) -> bool {
        let sum = |of: fn(&ReactorGauges) -> &AtomicU64| -> u64 {
            self.gauges.iter().map(|one| of(one).load(Ordering::Relaxed)).sum()
        };
        Entrance::<()>::has_room(sum(|one| &one.waiting), self.settings.max_waiting.into())
            && Entrance::<()>::has_room(
                sum(|one| &one.connections),
                self.settings.connections_in_all(),
            )
    }

    pub(crate) fn mailbox(&self, reactor: usize) -> Option<&Mailbox> {
        let mailbox = self.mailboxes.get(reactor);
        debug_assert!(mailbox.is_some(), "each reactor has a mailbox");
        mailbox
    }

    pub(crate) fn gauges(&self, reactor: usize) -> Option<&ReactorGauges> {
        let gauges = self.gauges.get(reactor);
        debug_assert!(gauges.is_some(), "each reactor has gauges");
        gauges
    }

    pub(crate) fn service(&self) -> &SharedService {
        &self.service
    }

    /// Calls `use_it` with the service, then posts the service's actions.
    pub fn with_service<R>(&self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        self.service.with(&self.mailboxes, use_it)
    }

    /// Describes the limit that a change would lower too far for connected hosts without ACRE; `None` if there is none.
    pub(crate) fn refusal(&self, change: LimitChange<'_>) -> Option<String> {
        let hosts = self.with_service(|service| service.hosts_without_acre());
        self.qos.refusal(change, &hosts, self.settings.max_transfer)
    }

    /// Returns whether a line that a peer causes now is logged; otherwise it is counted. Every such line must ask
    /// here first.
    pub(crate) fn may_log(&self, peer: IpAddr) -> bool {
        lock(&self.peers).allows(self.clock.now(), peer)
    }

    /// Returns the number of lines about peers that were left out of the log.
    pub(crate) fn lines_left_out(&self) -> u64 {
        lock(&self.peers).left_out()
    }

    /// Takes the lines about peers that were left out of the log since the last call.
    pub(crate) fn take_left_out(&self) -> Option<LeftOut<IpAddr>> {
        lock(&self.peers).tell(self.clock.now())
    }

    /// Notes an event of a host, and logs the lines that follow from it.
    pub(crate) fn tell_of_hosts<L: IntoIterator<Item = Line>>(
        &self,
        note: impl FnOnce(&mut HostLog, Nanos) -> L,
    ) {
        let lines = note(&mut lock(&self.hosts), self.clock.now());
        for line in lines {
            if line.peer().is_none_or(|peer| self.may_log(peer)) {
                line.log();
            }
        }
    }

    /// Tells the reactors that settings have changed.
    pub(crate) fn refresh(&self) {
        if let Some(touched) = self.qos.take_touched() {
            let touched = Arc::new(touched);
            for mailbox in &self.mailboxes {
                mailbox.post(Message::Refresh(Arc::clone(&touched)));
            }
            self.touched.keep(touched);
        }
    }

    /// Removes devices and tells the reactors. Returns the devices.
    pub(crate) fn remove_devices(&self, ids: &[BackendId]) -> Vec<Arc<OpenDevice>> {
        let removed: Vec<_> = ids.iter().filter_map(|id| self.devices.remove(*id)).collect();
        let gone: Arc<[BackendId]> = ids.into();
        for mailbox in self.mailboxes.iter().filter(|_| !removed.is_empty()) {
            mailbox.post(Message::Gone(Arc::clone(&gone)));
        }
        removed
    }

    /// Sums up the SMART log's counters over these devices; devices that are gone count nothing.
    #[must_use]
    pub fn smart(&self, devices: &[BackendId]) -> SmartCounters {
        let total = self.devices.done(devices);
        SmartCounters {
            bytes_read: total.read.bytes,
            bytes_written: total.write.bytes,
            reads: total.read.ops,
            writes: total.write.ops,
            media_errors: 0,
            busy: Duration::ZERO,
            uptime: Duration::from_nanos(self.clock.now().0),
        }
    }
}
