//! The scene of the arbiter's benchmarks: one reactor's arbiter with sessions, a host on each, and
//! commands that wait.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark of known size"
)]

use std::collections::VecDeque;
use std::sync::Arc;

use arbitration::arbiter::{Arbiter, DeviceId, Grant, HostFlowId, Pull, Submission, Waiters};
use arbitration::credit::Caps;
use arbitration::device::{Device, DeviceRules};
use arbitration::session::{HostId, RootSpec, SessionSpec, Sessions};
use arbitration::settings::{OrderSettings, WindowRule};
use arbitration::{Class, Nanos, Sharing};

const DEVICE: DeviceId = DeviceId(0);
const ROOT: RootSpec = RootSpec { caps: Caps::NONE, bounded: false, queue: u32::MAX };
/// Commands in the device, at most half of its window.
const IN_DEVICE: u64 = 32;

/// The scene: see the module's documentation.
pub(crate) struct Scene {
    arbiter: Arbiter<u64>,
    flows: Vec<HostFlowId>,
    grants: VecDeque<Grant>,
    now: u64,
    random: fastrand::Rng,
}

impl Scene {
    /// Makes `sessions` sessions and, in four classes and on random sessions, `queued` commands.
    pub(crate) fn new(sessions: usize, queued: usize) -> Self {
        let name = |number| format!("s{number}");
        let specs: Vec<SessionSpec> = (0..sessions)
            .map(|number| SessionSpec { name: name(number), ..SessionSpec::default() })
            .collect();
        let mut tree = Sessions::shared(&ROOT, Sharing::One);
        tree.apply(Nanos(0), &ROOT, &specs).unwrap();
        let rules = DeviceRules { window: WindowRule::Fixed(64), ..DeviceRules::default() };
        let waiters = Arc::new(Waiters::new(1));
        let mut arbiter = Arbiter::new(0, &OrderSettings::default(), waiters, queued + 64);
        arbiter.add_device(DEVICE, Arc::new(Device::new(rules, 1)));
        let flows = (0..sessions)
            .map(|number| {
                let session = tree.named(&name(number)).unwrap();
                arbiter.flow(DEVICE, session, HostId(number as u64)).unwrap()
            })
            .collect();
        let mut scene = Self {
            arbiter,
            flows,
            grants: VecDeque::new(),
            now: 1000,
            random: fastrand::Rng::with_seed(1),
        };
        for _ in 0..queued as u64 + IN_DEVICE {
            scene.enqueue();
        }
        for _ in 0..IN_DEVICE {
            scene.dispatch();
        }
        scene
    }

    #[inline]
    fn enqueue(&mut self) {
        let random = self.random.u64(..);
        let flow = self.flows[(random >> 40) as usize % self.flows.len()];
        let class = Class::ALL[(random % 4) as usize];
        let submission = Submission::of_host(random, false, 4096);
        self.arbiter.enqueue(Nanos(self.now), flow, class, submission).unwrap();
    }

    #[inline]
    fn dispatch(&mut self) {
        let Pull::Command(command) = self.arbiter.pull(Nanos(self.now)) else {
            panic!("the window has room, and commands wait")
        };
        self.grants.push_back(command.grant);
    }

    /// Enqueues one command, completes one and dispatches one, `times` times; the choice of flow
    /// and class is in it.
    #[inline(never)]
    pub(crate) fn turns(&mut self, times: u64) {
        for _ in 0..times {
            self.now += 100;
            self.enqueue();
            let grant = self.grants.pop_front().unwrap();
            self.arbiter.complete(Nanos(self.now), grant, true);
            self.dispatch();
        }
    }

    /// Measures the time in ns for one command to be enqueued and one to be dispatched, over a
    /// batch of as many as are in the device; what completes meanwhile does so outside the time.
    #[inline(never)]
    pub(crate) fn enqueue_dispatch(&mut self) -> f64 {
        while let Some(grant) = self.grants.pop_front() {
            self.now += 100;
            self.arbiter.complete(Nanos(self.now), grant, true);
        }
        let start = std::time::Instant::now();
        for _ in 0..IN_DEVICE {
            self.now += 100;
            self.enqueue();
            self.dispatch();
        }
        start.elapsed().as_nanos() as f64 / IN_DEVICE as f64
    }

    /// Passes one command where nothing waits, and completes it, `times` times. The scene must have
    /// no commands queued.
    #[inline(never)]
    pub(crate) fn passes(&mut self, times: u64) {
        let read = Submission::of_host((), false, 4096);
        for _ in 0..times {
            self.now += 100;
            let flow = self.flows[self.now as usize / 100 % self.flows.len()];
            let grant = self.arbiter.pass(Nanos(self.now), flow, &read).unwrap();
            self.arbiter.complete(Nanos(self.now + 50), grant, true);
        }
    }

    /// Does the benchmark's own part of [`Self::turns`], to measure its cost.
    #[inline(never)]
    pub(crate) fn nothing(&mut self, times: u64) {
        for _ in 0..times {
            self.now += 100;
            let random = self.random.u64(..);
            let flow = self.flows[(random >> 40) as usize % self.flows.len()];
            let class = Class::ALL[(random % 4) as usize];
            std::hint::black_box((flow, class));
            let grant = self.grants.pop_front().unwrap();
            self.grants.push_back(std::hint::black_box(grant));
        }
    }
}
