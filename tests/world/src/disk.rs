//! Devices that keep their blocks in memory, with given service times.

use std::cell::{Cell, RefCell};

use fabric::Nanos;
use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use sluice_core::Held;
use sluice_core::device::Data;
use sluice_core::stats::IoSnapshot;
use sluice_core::testing::{self, Blocks, Kind, Ram};

/// A device.
pub(crate) type Disk = testing::Disk<Content>;

/// Number of a device's commands, and of the bytes that they read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    others: u64,
}

/// The blocks of a device, and its service times.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) ram: Ram,
    /// Time at which each channel is free.
    channels: RefCell<Vec<Nanos>>,
    service_ns: u64,
    /// Block at which the head is: the one after the last command's.
    head: Cell<u64>,
    /// Commands that the device was given.
    given: Cell<Counts>,
    /// The most bytes that it is to zero or verify at a time, and the most that it was given.
    slice: u64,
    largest: Cell<u64>,
}

impl Counts {
    /// Returns whether a device's counts agree with the target's. Commands other than reads and writes may come in
    /// slices, which the target counts as one command.
    pub(crate) fn agree_with(&self, told: &Self) -> bool {
        Self { others: told.others, ..*self } == *told && self.others >= told.others
    }
}

impl From<&IoSnapshot> for Counts {
    fn from(told: &IoSnapshot) -> Self {
        Self {
            reads: told.read.ops,
            read_bytes: told.read.bytes,
            writes: told.write.ops,
            written_bytes: told.write.bytes,
            others: told.other.ops,
        }
    }
}

impl Content {
    pub(crate) fn new(
        kind: Kind,
        blocks: u64,
        (channels, service_ns): (usize, u64),
        slice: u32,
    ) -> Self {
        Self {
            ram: Ram::new(blocks),
            channels: RefCell::new(vec![Nanos(0); channels.max(1)]),
            service_ns,
            head: Cell::new(0),
            given: Cell::default(),
            // The slices of an immediate device are larger, by this factor at most.
            slice: u64::from(slice) * if kind == Kind::Immediate { 4 } else { 1 },
            largest: Cell::new(0),
        }
    }

    /// Returns the counts of the device's commands.
    pub(crate) fn given(&self) -> Counts {
        self.given.get()
    }

    fn count(&self, command: &IoCommand) {
        let mut given = self.given.get();
        let bytes = |range: &LbaRange| range.bytes(BlockFormat::BYTES_512);
        match command {
            IoCommand::Read { range, .. } => {
                given.reads += 1;
                given.read_bytes += bytes(range);
            }
            IoCommand::Write { range, .. } => {
                given.writes += 1;
                given.written_bytes += bytes(range);
            }
            _ => given.others += 1,
        }
        self.given.set(given);
        if let IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range } = command {
            self.largest.set(self.largest.get().max(bytes(range)));
        }
    }

    /// Returns how many bytes it was to zero or verify at once, where that was too much.
    pub(crate) fn more_than_a_slice(&self) -> Option<u64> {
        let largest = self.largest.get();
        (largest > self.slice).then_some(largest)
    }

    /// Removes the device: every command fails from now on.
    pub(crate) fn fail(&self) {
        self.ram.fails.set(Some(Status::NAMESPACE_NOT_READY));
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

    /// Returns the service time of a command if the head moves over so many blocks: between half and twice the
    /// given one, by the distance. The head is then where the command ends.
    pub(crate) fn seek_ns(&self, command: &IoCommand, blocks: u64) -> u64 {
        let (head, blocks) = (self.head.get(), blocks.max(1));
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
}

impl Blocks for Content {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        self.count(command);
        self.ram.run(command, data)
    }

    /// Holds the blocks of every other place; the rest are copied into buffers.
    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let IoCommand::Read { range, .. } = command else { return None };
        if range.lba % 2 == 1 {
            return None;
        }
        let bytes = usize::try_from(range.bytes(BlockFormat::BYTES_512)).unwrap_or(usize::MAX);
        let mut held = vec![0; bytes];
        self.run(command, Data::Read(&mut held)).is_success().then(|| Held::new(held))
    }

    fn done_at(&self, now: Nanos, _: &IoCommand) -> Nanos {
        self.occupy(now, self.service_ns)
    }
}
