//! Large deallocations (Dataset Management) on namespaces in memory. A gigabyte takes tens of
//! milliseconds to give back; in slices, each a system task that is charged to its session
//! (docs/sources.md, D2, D3), no command waits for more than one slice.

use std::collections::VecDeque;
use std::ops::Deref;

use arbitration::arbiter::Submission;
use fabric::nvm::{DSM_RANGE_BYTES, IoCommand, IoLimits, LbaRange};
use fabric::nvme::Status;
use fabric::queue::SlotId;

use crate::charge::Charge;
use crate::device::{BlockDevice, Data, Style};
use crate::job::{Ended, Job};
use crate::key::Key;

/// Size of one slice in bytes, which takes less than a millisecond.
const SLICE: u64 = 16 << 20;
/// Largest deallocation in bytes that is carried out at once.
const SMALL: u64 = 16 << 20;
/// Operation credits of a slice, which occupies the reactor for longer than a user's command.
const OPERATIONS: u32 = 4;

/// A deallocation that is carried out slice by slice.
#[derive(Debug)]
pub(crate) struct Deallocation<V, B> {
    pub(crate) job: Job<V, B>,
    /// Ranges that are left, the next one first.
    left: VecDeque<LbaRange>,
}

/// The outcome of a slice.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the caller takes it apart")]
pub(crate) enum Slice<V, B> {
    /// More slices follow.
    More(Box<Deallocation<V, B>>),
    /// The slice was the last one.
    Last(Ended<V, B>),
}

impl<V: BlockDevice, B: Deref<Target = [u8]>> Deallocation<V, B> {
    /// Returns the ranges that a job deallocates, where they are so large that slices are needed.
    pub(crate) fn ranges(job: &Job<V, B>) -> Option<VecDeque<LbaRange>> {
        let IoCommand::DatasetManagement { deallocate: true, ranges } = job.command else {
            return None;
        };
        let buffer = job.buffer.as_ref()?;
        let limits = IoLimits {
            format: job.device.format(),
            blocks: job.device.blocks(),
            read_only: false,
            max_transfer: u32::MAX,
        };
        let length = usize::from(ranges) * DSM_RANGE_BYTES as usize;
        let definitions = buffer.get(..length).unwrap_or(buffer);
        // The device reports what is wrong with a range.
        let left = limits.dsm_ranges(definitions).collect::<Result<VecDeque<_>, _>>().ok()?;
        let blocks: u64 = left.iter().map(|range| u64::from(range.blocks)).sum();
        (job.device.format().bytes(blocks) > SMALL).then_some(left)
    }

    /// Makes a deallocation of the ranges `left`.
    pub(crate) fn new(job: Job<V, B>, left: VecDeque<LbaRange>) -> Box<Self> {
        Box::new(Self { job, left })
    }

    /// Returns the charge of the deallocation's slices.
    pub(crate) fn charge(&self) -> Charge {
        self.job.charge
    }

    /// Returns what its next slice asks the stages for.
    pub(crate) fn submission(&self) -> Submission<(Key, SlotId)> {
        Submission { operations: OPERATIONS, ..Submission::of_host(self.job.origin, true, 0) }
    }

    /// Carries out the next slice.
    pub(crate) fn run(mut self: Box<Self>) -> Slice<V, B> {
        let mut status = Status::SUCCESS;
        let slice = self.next();
        if let (Some(range), Style::Immediate(immediate)) = (slice, self.job.device.style()) {
            let command = IoCommand::WriteZeroes { range, deallocate: true, fua: false };
            status = immediate.run(&command, Data::None);
        }
        if status.is_success() && !self.left.is_empty() {
            return Slice::More(self);
        }
        Slice::Last(Ended { job: self.job, result: 0, status })
    }

    /// Takes the next slice's blocks.
    fn next(&mut self) -> Option<LbaRange> {
        let format = self.job.device.format();
        let most = u32::try_from(format.blocks(SLICE)).unwrap_or(u32::MAX);
        let range = self.left.front_mut()?;
        let slice = LbaRange { lba: range.lba, blocks: range.blocks.min(most) };
        range.lba += u64::from(slice.blocks);
        range.blocks -= slice.blocks;
        if range.blocks == 0 {
            self.left.pop_front();
        }
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use arbitration::device as qos;
    use fabric::Nanos;
    use fabric::nvm::BlockFormat;
    use fabric::nvme::Sqe;

    use super::*;
    use crate::device::Immediate;
    use crate::stats::IoStats;

    /// A device that notes what it is told to deallocate, and fails at a block.
    #[derive(Debug, Default)]
    struct Device(Mutex<Vec<(u64, u32)>>, Option<u64>);

    impl Immediate for Device {
        fn run(&self, command: &IoCommand, _: Data<'_>) -> Status {
            let IoCommand::WriteZeroes { range, deallocate: true, .. } = command else {
                return Status::INVALID_OPCODE;
            };
            self.0.lock().unwrap().push((range.lba, range.blocks));
            let fails = self.1.is_some_and(|at| range.lba >= at);
            if fails { Status::INTERNAL_ERROR } else { Status::SUCCESS }
        }
    }

    impl crate::device::BlockDevice for Device {
        fn style(&self) -> Style<'_> {
            Style::Immediate(self)
        }

        fn format(&self) -> BlockFormat {
            BlockFormat::BYTES_4096
        }

        fn blocks(&self) -> u64 {
            1 << 30
        }

        fn qos(&self) -> &Arc<qos::Device> {
            unreachable!("slices are not ordered by the device")
        }

        fn stats(&self, _: usize) -> Option<&IoStats> {
            None
        }
    }

    fn job(device: Device, ranges: &[(u64, u32)]) -> Job<Device, Vec<u8>> {
        let mut definitions = Vec::new();
        for (lba, blocks) in ranges {
            definitions.extend([0; 4]);
            definitions.extend(blocks.to_le_bytes());
            definitions.extend(lba.to_le_bytes());
        }
        let ranges = u16::try_from(ranges.len()).unwrap();
        Job {
            origin: (Key { index: 0, generation: 0 }, SlotId(0)),
            device: Arc::new(device),
            command: IoCommand::DatasetManagement { deallocate: true, ranges },
            sqe: Sqe::default(),
            buffer: Some(definitions),
            arrived: Nanos(0),
            charge: Charge::default(),
            grant: None,
            memory: None,
            lease: None,
            waited_ns: 0,
        }
    }

    fn run(job: Job<Device, Vec<u8>>) -> (Vec<(u64, u32)>, Status) {
        let device = Arc::clone(&job.device);
        let ranges = Deallocation::ranges(&job).unwrap();
        let mut deallocation = Deallocation::new(job, ranges);
        loop {
            match deallocation.run() {
                Slice::More(more) => deallocation = more,
                Slice::Last(ended) => return (device.0.lock().unwrap().clone(), ended.status),
            }
        }
    }

    #[test]
    fn d3_slices_cover_each_range_and_none_is_larger_than_16_mib() {
        let (slices, status) = run(job(Device::default(), &[(100, 10_000), (50_000, 1)]));
        let expected = [(100, 4096), (4196, 4096), (8292, 1808), (50_000, 1)];
        assert_eq!((slices.as_slice(), status), (&expected[..], Status::SUCCESS));
    }

    #[test]
    fn d3_a_slice_that_fails_is_the_last() {
        let (slices, status) = run(job(Device(Mutex::default(), Some(4196)), &[(100, 10_000)]));
        assert_eq!((slices.len(), status), (2, Status::INTERNAL_ERROR));
    }

    #[test]
    fn d3_a_small_deallocation_is_done_at_once() {
        assert!(Deallocation::ranges(&job(Device::default(), &[(0, 4096)])).is_none());
        assert!(Deallocation::ranges(&job(Device::default(), &[(0, 4097)])).is_some());
        let mut outside = job(Device::default(), &[(1 << 30, 5000)]);
        assert!(Deallocation::ranges(&outside).is_none(), "the device says what is wrong");
        outside.command = IoCommand::Flush;
        assert!(Deallocation::ranges(&outside).is_none());
    }

    #[test]
    fn d2_a_slice_asks_for_more_than_a_users_command() {
        let deallocation = Deallocation::new(job(Device::default(), &[(0, 9000)]), VecDeque::new());
        let submission = deallocation.submission();
        let user = Submission::of_host(deallocation.job.origin, true, 0);
        assert!(submission.operations > user.operations);
    }
}
