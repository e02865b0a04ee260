//! Devices that keep their blocks in memory, and take as long as they are told to.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use arbitration::device::{self as qos, DeviceRules};
use fabric::Nanos;
use fabric::nvm::{BlockFormat, IoCommand, IoLimits, LbaRange};
use fabric::nvme::Status;
use sluice_core::device::{BlockDevice, Data, Immediate, Style, Timed};
use sluice_core::stats::{IoStats, PerReactor};
use sluice_core::{Held, HeldBlocks};

/// Size of a block in bytes.
pub(crate) const BLOCK: usize = 512;

/// The way in which a device carries out commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Commands are carried out on the spot.
    Immediate,
    /// Commands are carried out on the spot, and complete after their service time.
    Timed,
    /// Commands are carried out between their launch and their end.
    Queued,
}

/// Number of a device's commands, and of the bytes that they read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    others: u64,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Disk {
    kind: Kind,
    blocks: Cell<u64>,
    data: RefCell<Vec<u8>>,
    qos: Arc<qos::Device>,
    stats: PerReactor,
    /// Time at which each channel is free.
    channels: RefCell<Vec<Nanos>>,
    service_ns: u64,
    /// Block at which the head is: the one after the last command's.
    head: Cell<u64>,
    /// Whether the device is gone, so that every command fails.
    failed: Cell<bool>,
    /// Commands that the device was given.
    given: Cell<Counts>,
    /// The most bytes that it is to zero or verify at a time, and the most that it was given.
    slice: u64,
    largest: Cell<u64>,
}

impl Counts {
    /// Whether what a device was given is what the target tells of. Others than reads and writes
    /// may come in slices, of which the target tells as one command.
    pub(crate) fn agree_with(&self, told: &Self) -> bool {
        Self { others: told.others, ..*self } == *told && self.others >= told.others
    }
}

impl Disk {
    pub(crate) fn new(
        kind: Kind,
        blocks: u64,
        (channels, service_ns): (usize, u64),
        rules: DeviceRules,
        (reactors, slice): (usize, u32),
    ) -> Self {
        let on_the_spot = kind == Kind::Immediate;
        let bytes = usize::try_from(blocks).unwrap_or(0) * BLOCK;
        Self {
            kind,
            blocks: Cell::new(blocks),
            data: RefCell::new(vec![0; bytes]),
            qos: Arc::new(qos::Device::new(rules, reactors)),
            stats: PerReactor::new(reactors),
            channels: RefCell::new(vec![Nanos(0); channels.max(1)]),
            service_ns,
            head: Cell::new(0),
            failed: Cell::new(false),
            given: Cell::default(),
            // What is done on the spot is done sixteen times as fast.
            slice: u64::from(slice) * if on_the_spot { 16 } else { 1 },
            largest: Cell::new(0),
        }
    }

    /// Returns what the device was given, and what the target says of that.
    pub(crate) fn counts(&self) -> (Counts, Counts) {
        let mut told = Counts::default();
        for stats in self.stats.iter().map(IoStats::snapshot) {
            told.reads += stats.read.ops;
            told.read_bytes += stats.read.bytes;
            told.writes += stats.write.ops;
            told.written_bytes += stats.write.bytes;
            told.others += stats.other.ops;
        }
        (self.given.get(), told)
    }

    fn count(&self, command: &IoCommand) {
        let mut given = self.given.get();
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK as u64;
        match command {
            IoCommand::Read { range, .. } => {
                given.reads += 1;
                given.read_bytes += bytes(range.blocks);
            }
            IoCommand::Write { range, .. } => {
                given.writes += 1;
                given.written_bytes += bytes(range.blocks);
            }
            _ => given.others += 1,
        }
        self.given.set(given);
        if let IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range } = command {
            self.largest.set(self.largest.get().max(bytes(range.blocks)));
        }
    }

    /// Returns how many bytes it was to zero or verify at once, where that was too much.
    pub(crate) fn more_than_a_slice(&self) -> Option<u64> {
        let largest = self.largest.get();
        (largest > self.slice).then_some(largest)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Removes the device: every command fails from now on.
    pub(crate) fn fail(&self) {
        self.failed.set(true);
    }

    pub(crate) fn resize(&self, blocks: u64) {
        self.blocks.set(blocks);
        let bytes = usize::try_from(blocks).unwrap_or(0) * BLOCK;
        let mut data = self.data.borrow_mut();
        if data.len() < bytes {
            data.resize(bytes, 0);
        }
    }

    /// Occupies the device with a command that comes now. Returns the time at which the command is
    /// complete, in its turn.
    pub(crate) fn occupy(&self, now: Nanos, service_ns: u64) -> Nanos {
        let mut channels = self.channels.borrow_mut();
        let free = channels.iter_mut().min();
        free.map_or(now, |free| {
            *free = Nanos((*free).max(now).0 + service_ns);
            *free
        })
    }

    pub(crate) fn service_ns(&self) -> u64 {
        self.service_ns
    }

    /// Returns what a command takes that comes to a head which moves: between half and twice the
    /// service time, by the distance. The head is then where the command ends.
    pub(crate) fn seek_ns(&self, command: &IoCommand) -> u64 {
        let (head, blocks) = (self.head.get(), self.blocks.get().max(1));
        let (lba, end) = match command {
            IoCommand::Read { range, .. }
            | IoCommand::Write { range, .. }
            | IoCommand::WriteZeroes { range, .. }
            | IoCommand::Deallocate { range }
            | IoCommand::Compare { range } => (range.lba, range.lba + u64::from(range.blocks)),
            _ => (head, head),
        };
        self.head.set(end);
        self.service_ns / 2 + self.service_ns * lba.abs_diff(head).min(blocks) * 3 / 2 / blocks
    }

    /// Carries a command out.
    pub(crate) fn execute(&self, command: &IoCommand, data: Data<'_>) -> Status {
        self.count(command);
        if self.failed.get() {
            return Status::NAMESPACE_NOT_READY;
        }
        let mut all = self.data.borrow_mut();
        let span = |range: &LbaRange| {
            let start = usize::try_from(range.lba).unwrap_or(usize::MAX).saturating_mul(BLOCK);
            start..start.saturating_add(range.blocks as usize * BLOCK)
        };
        match (command, data) {
            (IoCommand::Read { range, .. }, Data::Read(into)) => match all.get(span(range)) {
                Some(from) if from.len() == into.len() => into.copy_from_slice(from),
                _ => return Status::LBA_OUT_OF_RANGE.dnr(),
            },
            (IoCommand::Write { range, .. }, Data::Write(from)) => match all.get_mut(span(range)) {
                Some(into) if from.len() == into.len() => into.copy_from_slice(from),
                _ => return Status::LBA_OUT_OF_RANGE.dnr(),
            },
            (IoCommand::Compare { range }, Data::Write(with)) => match all.get(span(range)) {
                Some(held) if held == with => {}
                Some(_) => return Status::COMPARE_FAILURE,
                None => return Status::LBA_OUT_OF_RANGE.dnr(),
            },
            (IoCommand::WriteZeroes { range, .. } | IoCommand::Deallocate { range }, _) => {
                match all.get_mut(span(range)) {
                    Some(into) => into.fill(0),
                    None => return Status::LBA_OUT_OF_RANGE.dnr(),
                }
            }
            (IoCommand::DatasetManagement { ranges, deallocate: true }, Data::Write(from)) => {
                let format = BlockFormat::BYTES_512;
                let limits = IoLimits {
                    format,
                    blocks: self.blocks.get(),
                    read_only: false,
                    max_transfer: u32::MAX,
                    zeroes_limit: u32::MAX,
                };
                let definitions = from.get(..usize::from(*ranges) * 16).unwrap_or(from);
                for range in limits.dsm_ranges(definitions) {
                    match range {
                        Ok(range) => {
                            if let Some(into) = all.get_mut(span(&range)) {
                                into.fill(0);
                            }
                        }
                        Err(status) => return status,
                    }
                }
            }
            _ => {}
        }
        Status::SUCCESS
    }
}

impl BlockDevice for Disk {
    fn style(&self) -> Style<'_> {
        match self.kind {
            Kind::Immediate => Style::Immediate(self),
            Kind::Timed => Style::Timed(self),
            Kind::Queued => Style::Queued,
        }
    }

    fn format(&self) -> BlockFormat {
        BlockFormat::BYTES_512
    }

    fn blocks(&self) -> u64 {
        self.blocks.get()
    }

    fn qos(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    fn stats(&self, reactor: usize) -> Option<&IoStats> {
        self.stats.get(reactor)
    }
}

/// A copy of blocks as they were.
#[derive(Debug)]
struct Copied(Vec<u8>);

impl HeldBlocks for Copied {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Immediate for Disk {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        self.execute(command, data)
    }

    /// Holds the blocks of every other place; the rest are copied into buffers.
    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let IoCommand::Read { range, .. } = command else { return None };
        if range.lba % 2 == 1 {
            return None;
        }
        let bytes = usize::try_from(range.bytes(BlockFormat::BYTES_512)).unwrap_or(usize::MAX);
        let mut held = vec![0; bytes];
        self.execute(command, Data::Read(&mut held)).is_success().then(|| Held::new(Copied(held)))
    }
}

impl Timed for Disk {
    fn done_at(&self, now: Nanos, _: &IoCommand) -> Nanos {
        self.occupy(now, self.service_ns)
    }
}
