//! A reactor with one host, whose I/O queue puts the load on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arbitration::credit::Caps;
use arbitration::device::DeviceRules;
use arbitration::session::{RootSpec, Sessions};
use fabric::Nanos;
use fabric::controller::{BackendId, Service, ServiceConfig, TransportType};
use fabric::host::commands;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Status;
use fabric::rdma::wire::QueueParams;
use sluice_core::device::Data;
use sluice_core::testing::wire::Carrier;
use sluice_core::testing::{
    self, Blocks, Disk, HeapArena, Kind, Parts, Rig, Rules, listener, namespace,
};
use sluice_core::{Held, HeldBlocks, Tenant};

/// The default settings of a daemon: the maximum data of a command, and of a capsule, in bytes.
const MAX_TRANSFER: u32 = 1 << 20;
const IN_CAPSULE_DATA: u32 = 8 << 10;
const RDMA_IN_CAPSULE_DATA: u32 = 4096;
/// Entries of the I/O queue.
const ENTRIES: u16 = 128;
/// The most bytes that are received at once: a receive buffer's.
const RECEIVED_MAX: usize = 64 << 10;
/// The block format of the device, and its blocks.
const FORMAT: BlockFormat = BlockFormat::BYTES_4096;
const BLOCKS: u64 = 1 << 20;
/// The least bytes of a read that is sent from where the blocks are, as in the daemon.
const HELD_MIN: u32 = 16 << 10;

/// Blocks that never move: the cost of moving data is not measured.
#[derive(Debug)]
struct Still(Arc<[u8]>);

impl Blocks for Still {
    fn run(&self, _: &IoCommand, _: Data<'_>) -> Status {
        Status::SUCCESS
    }

    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let IoCommand::Read { range, .. } = command else { return None };
        let bytes = range.transfer_bytes(FORMAT);
        (bytes >= HELD_MIN).then(|| Held::new(Answer(Arc::clone(&self.0), bytes as usize)))
    }
}

/// The blocks of an answer that is sent from where they are.
#[derive(Debug)]
struct Answer(Arc<[u8]>, usize);

impl HeldBlocks for Answer {
    fn bytes(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) carrier: Carrier,
    pub(crate) queued: bool,
    pub(crate) writes: bool,
    /// Bytes of a command.
    pub(crate) bytes: u32,
    /// Commands that are in the target at once.
    pub(crate) depth: u32,
}

/// The reactor and its host.
#[derive(Debug)]
pub(crate) struct Scene {
    load: Load,
    rig: Rig<Still>,
    /// The peer of the I/O queue.
    queue: usize,
    /// The number of the next command.
    next: u32,
}

impl Scene {
    /// Makes a reactor with a connected controller, and warms it up.
    pub(crate) fn new(load: Load) -> Self {
        let kind = if load.queued { Kind::Queued } else { Kind::Immediate };
        let content = Still(vec![7; 1 << 20].into());
        let disk = Disk::new(kind, content, (BLOCKS, FORMAT), DeviceRules::default(), 1);
        let caps = Caps { operations: 4096, payload: 64 << 20 };
        let sessions = Sessions::new(&RootSpec { caps, bounded: false, queue: 4096 });
        let arenas = (
            HeapArena::new(64 << 20, MAX_TRANSFER as usize),
            HeapArena::new(8 << 20, IN_CAPSULE_DATA as usize),
        );
        let mut rig = Rig::of(Parts {
            service: service(),
            rules: Rules::new(Tenant::new(sessions.root(), 1)),
            sessions,
            disks: HashMap::from([(BackendId(1), disk)]),
            settings: testing::settings(MAX_TRANSFER, IN_CAPSULE_DATA),
            memory: arenas,
            carrier: load.carrier,
            pair: QueueParams {
                qid: 0,
                entries: ENTRIES,
                in_capsule_data: RDMA_IN_CAPSULE_DATA,
                reads: 16,
                max_read: 1 << 30,
                posts: 3 * ENTRIES,
            },
            chunk: RECEIVED_MAX,
        });
        let queue = rig.add_host();
        let mut scene = Self { load, rig, queue, next: 0 };
        scene.run(200);
        scene
    }

    /// Traces all commands from now on.
    pub(crate) fn trace(&mut self) {
        self.rig.core.trace(Some(Arc::default()));
        self.run(200);
    }

    /// Measures commands, as [`Self::run`] carries them out. Tools that count instructions find this function by its name.
    #[inline(never)]
    pub(crate) fn measure(&mut self, commands: u32) -> Duration {
        self.run(commands)
    }

    /// Carries out this many commands, as many at once as the load says. Returns the time that the
    /// core took.
    pub(crate) fn run(&mut self, commands: u32) -> Duration {
        let (rig, queue) = (&mut self.rig, self.queue);
        rig.counted = Duration::ZERO;
        let Load { writes, bytes, depth, .. } = self.load;
        let blocks = u32::try_from(FORMAT.blocks(bytes.into())).unwrap_or(1);
        let most = u32::try_from(BLOCKS).unwrap_or(u32::MAX) / blocks;
        let mut left = commands;
        while left > 0 {
            let batch = depth.min(left);
            for _ in 0..batch {
                self.next = self.next.wrapping_add(1);
                let lba = u64::from(self.next % most * blocks);
                let sqe = commands::transfer(writes, 1, lba, blocks, 0);
                let data = writes.then(|| vec![5; bytes as usize]);
                rig.queue(queue, sqe, data, if writes { 0 } else { bytes });
            }
            while rig.peers[queue].answers.len() < batch as usize {
                rig.now = Nanos(rig.now.0 + 10_000);
                assert!(rig.turn(), "nothing happens any more");
                rig.end_jobs();
            }
            rig.core.driver().traced.clear();
            let peer = &mut rig.peers[queue];
            assert!(peer.answers.values().all(|(status, _)| status.is_success()), "{peer:?}");
            peer.forget();
            left -= batch;
        }
        rig.counted
    }
}

/// Makes the controllers' side of a target with one subsystem and one namespace.
fn service() -> Service {
    let config = ServiceConfig {
        max_transfer: MAX_TRANSFER,
        in_capsule_data: IN_CAPSULE_DATA,
        queue_entries: ENTRIES,
        admin_queue_entries: 32,
        ..ServiceConfig::default()
    };
    let listener = listener(Rig::<Still>::LISTENER, TransportType::Tcp);
    let service = testing::service(Nanos(0), config, Rig::<Still>::NQN, listener);
    let mut service = service.expect("a configuration");
    let namespace = namespace(1, FORMAT, BLOCKS);
    service.add_namespace(Nanos(0), Rig::<Still>::NQN, namespace).expect("a namespace");
    service
}
