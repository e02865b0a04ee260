//! The stages of the target, as a namespace with `order = "containers"` on a disk has them.

use std::sync::Arc;

use anyhow::Context as _;
use arbitration::arbiter::{Arbiter, DeviceId, Grant, HostFlowId, Pull, Submission, Waiters};
use arbitration::container::Scheduler;
use arbitration::credit::Caps;
use arbitration::device::{ContainerRules, Device, DeviceRules};
use arbitration::reservation::{Broker, Overrides, PerKib, Profile, Reserved, ServiceTime};
use arbitration::session::{HostId, Reservation, RootSpec, SessionSpec, Sessions};
use arbitration::settings::{OrderSettings, Unit, WindowRule};
use arbitration::{Class, Nanos};
use sluice_sim::device::disk;
use units::nanos;

use super::super::disk::SECTOR;
use super::workload::{DiskRequest, Stream};

/// The share of the disk, in per cent, that is kept for Urgent, a class without streams here.
const URGENT_SHARE: u8 = 1;

const DEVICE: DeviceId = DeviceId(0);

/// The latency target: long enough for commands to be ordered by place.
const DEADLINE: u64 = 1_000_000_000;

/// One reactor before a disk that takes one command at a time.
#[derive(Debug)]
pub(super) struct Stages {
    arbiter: Arbiter<(usize, DiskRequest)>,
    /// The flow of each stream, and the blocks of a request.
    flows: Vec<(HostFlowId, u32)>,
    in_disk: Option<Grant>,
}

impl Stages {
    /// Makes the stages on such a disk, with a session for each stream, and its reservation.
    ///
    /// # Errors
    ///
    /// A reservation does not fit the disk.
    pub(super) fn new(disk: &disk::Settings, streams: &[Stream]) -> anyhow::Result<Self> {
        let largest = streams.iter().map(|stream| stream.blocks).max().unwrap_or(0);
        let profile = profile(disk, largest);
        let (mut own, mut admitted) = (Vec::new(), Vec::new());
        for (stream, terms) in streams.iter().filter_map(|stream| Some((stream, stream.terms()?))) {
            let one = Broker::admit(&profile, &admitted, URGENT_SHARE, &terms);
            let refused = || format!("`reserves` of the stream \"{}\" does not fit", stream.name);
            admitted.push(one.with_context(refused)?);
            own.push(stream);
        }
        // The source counts requests.
        let order = OrderSettings {
            unit: Unit::Commands,
            urgent_share: URGENT_SHARE,
            ..OrderSettings::default()
        };
        let root = RootSpec { caps: Caps::NONE, bounded: true, queue: u32::MAX };
        let named =
            |stream: &Stream| SessionSpec { name: stream.name.clone(), ..SessionSpec::default() };
        let specs: Vec<SessionSpec> = streams.iter().map(named).collect();
        let mut sessions = Sessions::new(&root);
        sessions.apply(Nanos::ZERO, &root, &specs)?;
        let (scheduler, deadline_ns) = (Scheduler::Containers, DEADLINE);
        let rules = DeviceRules {
            window: WindowRule::Fixed(1),
            containers: Some(ContainerRules { scheduler, capacity: 256, deadline_ns }),
            profile: Overrides { seeks: true, ..Overrides::default() },
        };
        let device = Arc::new(Device::new(rules, 1));
        let own = own.iter().filter_map(|stream| sessions.named(&stream.name));
        let reservations = own.zip(&admitted).map(|(session, admitted)| Reservation {
            session: Arc::clone(session),
            reserved: Arc::new(Reserved::new(Nanos::ZERO, admitted).in_set(device.is_bounded())),
        });
        device.reserve(reservations.collect());
        let mut arbiter = Arbiter::new(0, &order, Arc::new(Waiters::new(1)), 1024);
        arbiter.add_device(DEVICE, device);
        let mut flows = Vec::new();
        for (host, stream) in (0..).zip(streams) {
            let session = sessions.named(&stream.name);
            let session = session.context("each stream has its session")?;
            let flow = arbiter.flow(DEVICE, session, HostId(host));
            flows.push((flow.context("the device is there")?, stream.blocks));
        }
        Ok(Self { arbiter, flows, in_disk: None })
    }

    /// Submits a request of a stream.
    pub(super) fn arrive(&mut self, now: Nanos, stream: usize, request: DiskRequest) {
        let Some((flow, blocks)) = self.flows.get(stream).copied() else { return };
        let bytes = blocks.saturating_mul(SECTOR);
        let submission = Submission {
            lba: request.position,
            blocks,
            ..Submission::of_host((stream, request), false, bytes)
        };
        let _ = self.arbiter.enqueue(now, flow, Class::Medium, submission);
    }

    /// Returns the next request for the idle disk, with the number of its stream.
    pub(super) fn pick(&mut self, now: Nanos) -> Option<(usize, DiskRequest)> {
        match self.arbiter.pull(now) {
            Pull::Command(command) => {
                self.in_disk = Some(command.grant);
                Some(command.item)
            }
            _ => None,
        }
    }

    /// Notes that the request picked last is complete.
    pub(super) fn completed(&mut self, now: Nanos) {
        if let Some(grant) = self.in_disk.take() {
            self.arbiter.complete(now, grant, true);
        }
    }
}

/// Makes a disk's profile for the broker; requests have `largest` sectors at most.
fn profile(disk: &disk::Settings, largest: u32) -> Profile {
    let (mean, worst) = disk.profile();
    // The tracks that are crossed on the way through a request, and one to spare.
    let tracks = largest.div_ceil(disk.inner_sectors.max(1)) + 1;
    let crossed = tracks * (disk.head_switch.max(disk.seek_min) + disk.settle_spread);
    let time = ServiceTime { mean: Nanos(nanos(mean)), worst: Nanos(nanos(worst + crossed)) };
    // An innermost track passes in one turn. Of the figure's disk a KiB takes 12 us of it: 85 MB/s.
    let turn = 60_000_000 / u64::from(disk.rpm.max(1));
    let us = (2 * turn).div_ceil(disk.inner_sectors.max(1).into());
    let per_kib = PerKib { read: 1000 * us, write: 1000 * us };
    Profile { read: time, write: time, per_kib, parallelism: 1, seeks: true }
}
