//! The parts of a world, chosen by its seed.

use arbitration::Class;
use fabric::rdma::wire::QueueParams;
use fastrand::Rng;
use sluice_core::testing::Kind;

/// The most bytes that an admin command of a host moves.
const ADMIN_TRANSFER: u32 = 8192;

/// The transports that carry the queues of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carriers {
    #[default]
    Tcp,
    Rdma,
    /// One or the other for each connection.
    Both,
}

/// The size and the dangers of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scenario {
    /// Seed from which everything at random follows.
    pub seed: u64,
    /// Number of commands that hosts submit before they settle.
    pub commands: u64,
    /// Whether things go wrong: cuts, resets, silent hosts, slow readers, failing devices.
    pub faults: bool,
    pub(crate) reactors: usize,
    pub(crate) hosts: usize,
    pub(crate) queues: u16,
    pub(crate) depth: usize,
    pub(crate) blocks: u64,
    pub(crate) largest: u32,
    pub(crate) io_memory: usize,
    pub(crate) max_transfer: u32,
    pub(crate) in_capsule: u32,
    pub(crate) direct_min: u32,
    /// Bytes of one slice of a Write Zeroes or Verify at a device with a queue.
    pub(crate) slice: u32,
    pub(crate) carriers: Carriers,
    /// RDMA READs that a queue pair has out at once.
    pub(crate) reads: u8,
    /// The most bytes that one RDMA READ moves.
    pub(crate) max_read: u32,
    /// Work requests that a queue pair has out at once, beside READs.
    pub(crate) posts: u32,
    pub(crate) digests: bool,
    pub(crate) stages: bool,
    pub(crate) waiting: u32,
    pub(crate) disks: Vec<(Kind, usize, u64, Option<u32>)>,
    pub(crate) scratch: u32,
    pub(crate) whole_chunks: bool,
    pub(crate) think_ns: u64,
    /// Whether the target ends when all commands are submitted, instead of the hosts.
    pub(crate) drain: bool,
    /// Whether sessions of hosts are below others.
    pub(crate) groups: bool,
    /// Whether the first host reserves as much of the device as it may have.
    pub(crate) reserved: bool,
    /// The classes of the hosts whose parts of the only device are watched; empty: nobody's are. The
    /// first host has one queue.
    pub(crate) shares: Vec<Class>,
    /// Whether hosts whose parts are watched have weights of their own, which order their queues.
    pub(crate) own_weights: bool,
    /// Whether that host reserves with a latency, and sends as much as it reserved and no more.
    pub(crate) latency: bool,
    /// Whether hosts are bound to addresses, which change.
    pub(crate) bound: bool,
    /// Whether the rights of hosts change.
    pub(crate) ruled: bool,
    /// Whether devices have heads that move.
    pub(crate) seeks: bool,
    /// Whether devices order commands by place.
    pub(crate) by_place: bool,
    /// Hostility of all hosts but the last, one after another and from the first again; empty where
    /// none is hostile.
    pub(crate) hostility: Vec<Hostility>,
    /// Buffers that a reactor receives into.
    pub(crate) receive_buffers: usize,
}

/// The way in which a host is hostile to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hostility {
    /// The host does not read its answers.
    KeepsAnswers,
    /// The host falls silent: data that it was asked for, or a part of a capsule, never comes.
    OwesData,
    /// It sends admin commands as fast as they are answered.
    FloodsAdmin,
    /// It has always something to be received.
    Floods,
    /// It makes connections that send nothing, beside its own.
    TakesConnections,
    /// It makes connections that send nonsense, and ends them.
    SendsGarbage,
}

impl Hostility {
    /// All ways.
    pub const ALL: [Self; 6] = [
        Self::KeepsAnswers,
        Self::OwesData,
        Self::FloodsAdmin,
        Self::Floods,
        Self::TakesConnections,
        Self::SendsGarbage,
    ];
}

impl Scenario {
    /// Makes a world at random.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let max_transfer = 4096 << rng.u32(0..4);
        let disks = (0..rng.usize(1..4))
            .map(|_| {
                let kind = match rng.u8(0..4) {
                    0 => Kind::Immediate,
                    1 => Kind::Timed,
                    _ => Kind::Queued,
                };
                let window = rng.bool().then(|| rng.u32(1..16));
                (kind, rng.usize(1..9), rng.u64(1_000..300_000), window)
            })
            .collect();
        Self {
            seed,
            commands: 2_000,
            faults: rng.u8(0..4) > 0,
            reactors: rng.usize(1..4),
            hosts: rng.usize(1..6),
            queues: rng.u16(1..4),
            depth: rng.usize(1..40),
            blocks: rng.u64(8..200),
            largest: rng.u32(1..=max_transfer / 512),
            io_memory: (max_transfer as usize) << rng.u32(0..6),
            max_transfer,
            in_capsule: rng.u32(0..3) * 4096,
            digests: rng.bool(),
            stages: rng.u8(0..4) > 0,
            waiting: 1 << rng.u32(2..10),
            disks,
            scratch: if rng.bool() { rng.u32(2..20) } else { 0 },
            whole_chunks: rng.bool(),
            think_ns: rng.u64(0..100_000),
            drain: rng.u8(0..4) == 0,
            groups: rng.bool(),
            by_place: seed.is_multiple_of(5),
            receive_buffers: {
                // Drawn for nothing, so that kept seeds have the worlds in which they broke a promise.
                if rng.u8(0..3) == 0 {
                    let _ = rng.u64(20_000_000..500_000_000);
                }
                rng.usize(2..33)
            },
            direct_min: 512 << rng.u32(0..8),
            carriers: match rng.u8(0..4) {
                0 => Carriers::Tcp,
                1 => Carriers::Rdma,
                _ => Carriers::Both,
            },
            reads: rng.u8(1..=4),
            max_read: 1 << rng.u32(9..18),
            posts: rng.u32(9..18),
            slice: 512 << rng.u32(0..6),
            ..Self::default()
        }
    }

    /// Makes the same world in which all connections are over TCP.
    #[must_use]
    pub fn over_tcp(self) -> Self {
        Self { carriers: Carriers::Tcp, ..self }
    }

    /// Makes the same world in which nothing goes wrong, and the target goes on.
    #[must_use]
    pub fn without_faults(self) -> Self {
        Self { faults: false, drain: false, ..self }
    }

    /// Makes the same world in which nothing goes wrong, and the target ends by draining: its
    /// devices are so slow that a host's queues have their last answers at different times.
    #[must_use]
    pub fn draining(self) -> Self {
        let slow = |(kind, channels, time, window)| (kind, channels, time * 100, window);
        let disks = self.disks.into_iter().map(slow).collect();
        Self { faults: false, drain: true, depth: 1 + self.depth % 4, disks, ..self }
    }

    /// Returns the bytes of its host's memory that a command of a queue pair has: as many as any
    /// command moves.
    pub(crate) fn part(&self) -> u32 {
        self.max_transfer.max(ADMIN_TRANSFER)
    }

    /// Returns the parameters of the queue pair of queue `qid` with that number of entries.
    pub(crate) fn pair(&self, qid: u16, entries: u16) -> QueueParams {
        QueueParams {
            qid,
            entries,
            in_capsule_data: self.in_capsule,
            reads: u16::from(self.reads),
            max_read: self.max_read,
            posts: u16::try_from(self.posts).unwrap_or(u16::MAX),
        }
    }

    /// Returns smaller worlds that may break as this one does, the smallest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let fewer = [16, 4, 2].map(|parts| self.commands / parts);
        let mut all: Vec<_> = fewer.map(|commands| Self { commands, ..self.clone() }).into();
        all.push(Self { commands: self.commands - self.commands / 8, ..self.clone() });
        all.push(Self { faults: false, ..self.clone() });
        all.push(Self { stages: false, ..self.clone() });
        all.push(Self { carriers: Carriers::Tcp, ..self.clone() });
        if self.carriers == Carriers::Both {
            all.push(Self { carriers: Carriers::Rdma, ..self.clone() });
        }
        all.push(Self { digests: false, ..self.clone() });
        all.push(Self { direct_min: u32::MAX, ..self.clone() });
        all.push(Self { slice: 1 << 20, ..self.clone() });
        all.push(Self { whole_chunks: true, ..self.clone() });
        all.push(Self { scratch: 0, ..self.clone() });
        all.push(Self { drain: false, ..self.clone() });
        all.push(Self { groups: false, ..self.clone() });
        all.push(Self { by_place: false, ..self.clone() });
        all.push(Self { reactors: 1, ..self.clone() });
        all.push(Self { hosts: 1, ..self.clone() });
        all.push(Self { queues: 1, ..self.clone() });
        all.push(Self { depth: self.depth.div_ceil(2), ..self.clone() });
        all.push(Self { largest: self.largest.div_ceil(2), ..self.clone() });
        let disks: Vec<_> = self.disks.iter().take(1).cloned().collect();
        all.push(Self { disks, ..self.clone() });
        all.retain(|smaller| smaller != self && smaller.commands > 0);
        all
    }

    /// Makes a world at random in which nothing goes wrong, and hosts always have small commands to
    /// send.
    fn loaded(seed: u64) -> Self {
        Self {
            faults: false,
            largest: 8,
            blocks: 200,
            max_transfer: 64 << 10,
            in_capsule: 4096,
            stages: true,
            think_ns: 0,
            scratch: 0,
            drain: false,
            groups: false,
            ..Self::random(seed)
        }
    }

    /// Makes a world at random in which the first host reserves a part of a device, and always has
    /// more to do than that, as the others have.
    #[must_use]
    pub fn reserving(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let channels = rng.usize(1..9);
        let window = u32::try_from(channels).ok();
        Self {
            commands: 20_000,
            reactors: rng.usize(1..4),
            hosts: rng.usize(2..5),
            queues: 2,
            depth: 40,
            io_memory: 8 << 20,
            waiting: 4096,
            disks: vec![(Kind::Queued, channels, rng.u64(20_000..200_000), window)],
            reserved: true,
            ..Self::loaded(seed)
        }
    }

    /// Makes such a world whose device has a head that moves, and takes one command at a time.
    #[must_use]
    pub fn reserving_of_a_disk(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let window = rng.bool().then(|| rng.u32(1..33));
        Self {
            seeks: true,
            commands: 8000,
            by_place: rng.bool(),
            disks: vec![(Kind::Queued, 1, rng.u64(200_000..2_000_000), window)],
            ..Self::reserving(seed)
        }
    }

    /// Makes such a world whose first host reserves with a latency, and sends bursts at the rate that
    /// it reserved.
    #[must_use]
    pub fn promising(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let channels = rng.usize(1..3);
        let kind = if rng.bool() { Kind::Queued } else { Kind::Timed };
        let window = u32::try_from(channels).ok();
        Self {
            latency: true,
            commands: 5_000,
            disks: vec![(kind, channels, rng.u64(1_000_000..2_000_000), window)],
            by_place: false,
            whole_chunks: true,
            receive_buffers: 32,
            ..Self::reserving(seed)
        }
    }

    /// Makes a world at random, in which nothing goes wrong, whose hosts may come or may not, from
    /// their addresses or from others, and this changes all the time.
    #[must_use]
    pub fn bound(seed: u64) -> Self {
        let random = Self::random(seed).without_faults();
        let hosts = random.hosts + 1;
        Self { bound: true, hosts, depth: 4, think_ns: 50_000_000, ..random }
    }

    /// Makes a world at random, in which nothing goes wrong, whose hosts may do now this and now that:
    /// see other namespaces, only read, have no class above another one.
    #[must_use]
    pub fn ruled(seed: u64) -> Self {
        let random = Self::random(seed).without_faults();
        let (hosts, depth) = (random.hosts + 1, random.depth.min(8));
        Self { ruled: true, hosts, depth, think_ns: 5_000_000, ..random }
    }

    /// Makes a world at random in which hosts of these classes always have more to do than their
    /// device can: the first has one queue, the others have eight, on any of the reactors.
    #[must_use]
    pub fn sharing(seed: u64, reactors: usize, classes: &[Class]) -> Self {
        let mut rng = Rng::with_seed(seed);
        let channels = rng.usize(1..5);
        let kind = if rng.bool() { Kind::Queued } else { Kind::Timed };
        let window = u32::try_from(channels).ok().map(|channels| channels * rng.u32(1..3));
        Self {
            commands: 6000,
            reactors,
            hosts: classes.len(),
            queues: 8,
            depth: 20,
            io_memory: 16 << 20,
            waiting: 1 << 16,
            disks: vec![(kind, channels, rng.u64(100_000..300_000), window)],
            shares: classes.to_vec(),
            by_place: false,
            ..Self::loaded(seed)
        }
    }

    /// Makes such a world in which the hosts' commands are all Medium, and each host orders its queues
    /// by weights of its own.
    #[must_use]
    pub fn weighing(seed: u64, reactors: usize, hosts: usize) -> Self {
        let sharing = Self::sharing(seed, reactors, &vec![Class::Medium; hosts]);
        Self { own_weights: true, ..sharing }
    }

    /// Returns the Arbitration feature that a host sets for its own queues.
    pub(crate) fn own_weights_of(&self, host: usize) -> u32 {
        let mut rng = Rng::with_seed(self.seed.wrapping_add(host as u64));
        rng.u32(0..3) | rng.u32(0..2) << 8 | rng.u32(0..4) << 16 | rng.u32(0..6) << 24
    }

    /// Returns the priority class of a queue, where hosts with weights of their own are watched.
    pub(crate) const fn priority_of(qid: u16) -> Class {
        [Class::High, Class::Medium, Class::Low][qid as usize % 3]
    }

    /// Returns whether the hosts' shares of the device are checked.
    pub(crate) fn watches_parts(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Returns the number of I/O queues of a host.
    pub(crate) fn queues_of(&self, host: usize) -> u16 {
        if self.watches_parts() && host == 0 { 1 } else { self.queues }
    }

    /// Returns the hostility of a host, if it is hostile.
    pub(crate) fn hostility_of(&self, host: usize) -> Option<Hostility> {
        let hostile = host + 1 < self.hosts;
        self.hostility.iter().cycle().nth(host).copied().filter(|_| hostile)
    }

    /// Returns whether any host is hostile in this way.
    pub(crate) fn any_is(&self, hostility: Hostility) -> bool {
        (0..self.hosts).any(|host| self.hostility_of(host) == Some(hostility))
    }

    /// Makes a world at random in which all hosts but the last are hostile, each in the next of these
    /// ways.
    #[must_use]
    pub fn hostile(seed: u64, hostility: &[Hostility]) -> Self {
        let mut rng = Rng::with_seed(seed);
        // One reactor with memory for few commands that are large, and many hosts that hold it; or
        // memory for many commands.
        let holds = [Hostility::KeepsAnswers, Hostility::OwesData];
        let large = rng.bool() && hostility.iter().all(|way| holds.contains(way));
        let (max_transfer, transfers, blocks) = if large {
            (1 << rng.u32(18..21), 4, 4096)
        } else {
            (8192 << rng.u32(0..4), rng.u32(6..9), rng.u64(8..200))
        };
        let crowd = large || hostility == [Hostility::FloodsAdmin];
        Self {
            commands: 3000,
            faults: false,
            reactors: if crowd { 1 } else { rng.usize(1..4) },
            hosts: if crowd { 12 } else { rng.usize(2..7).max(hostility.len() + 1) },
            queues: rng.u16(1..5),
            depth: 40,
            blocks,
            largest: max_transfer / 512,
            io_memory: (max_transfer as usize) << transfers,
            max_transfer,
            drain: false,
            hostility: hostility.to_vec(),
            ..Self::random(seed)
        }
    }

    /// Makes a world that does a lot of work, to measure its speed.
    #[must_use]
    pub fn busy(commands: u64) -> Self {
        Self {
            commands,
            reactors: 2,
            hosts: 4,
            queues: 2,
            depth: 32,
            blocks: 4096,
            largest: 1,
            io_memory: 8 << 20,
            in_capsule: 8192,
            direct_min: 16 << 10,
            slice: 1 << 20,
            carriers: Carriers::Tcp,
            digests: false,
            waiting: 65_536,
            disks: vec![(Kind::Queued, 8, 10_000, Some(16))],
            whole_chunks: true,
            by_place: false,
            receive_buffers: 32,
            ..Self::loaded(1)
        }
    }
}
