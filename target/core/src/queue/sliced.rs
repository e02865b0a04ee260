//! Commands that are executed in slices: large ones without data on the network (Write Zeroes, Verify), since
//! nothing else bounds their load on the device, and large deallocations (Dataset Management).
//!
//! Each slice takes a turn of its own at the device, charged to the command's session (docs/research/sources.md,
//! D2, D3): other commands wait for one slice at most, and a command can be aborted between two.

use std::collections::VecDeque;

use arbitration::arbiter::Submission;
use arbitration::limit::Content;
use fabric::controller::AbortTicket;
use fabric::nvm::{BlockFormat, DSM_RANGE_BYTES, IoCommand, IoLimits, LbaRange};
use fabric::queue::SlotId;

use crate::machine::device::{BlockDevice, Style};
use crate::machine::key::Key;

/// Ratio of a slice that is carried out on the spot to one at another device: 4 MiB of memory are
/// given back in less than 300 us.
const ON_THE_SPOT: u64 = 4;
/// Ratio of a deallocating slice to a zeroing one, at a queued device: a file system frees 64 MiB in the time of a
/// few writes.
const DEALLOCATED: u64 = 64;
/// Operation credits of a slice that occupies the reactor or the device longer than a user's command: an immediate
/// slice, or a deallocation.
const OPERATIONS: u32 = 4;

/// The effect of a command on its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Deallocates blocks.
    Deallocate,
    /// Writes zeroes.
    Zero { deallocate: bool, fua: bool },
    /// Reads blocks without a transfer.
    Verify,
}

/// A command that is carried out slice by slice.
#[derive(Debug)]
pub(crate) struct Sliced {
    work: Work,
    /// Ranges that are left, the next one first.
    left: VecDeque<LbaRange>,
    /// Most blocks of one slice.
    most: u32,
    /// Operation credits of a slice.
    operations: u32,
    /// Whether a slice was taken.
    begun: bool,
    /// Time for which the slices that are over were in the device, in ns.
    in_device_ns: u64,
    /// Whether no slice follows the one in the device.
    stopped: bool,
    /// Abort commands that stopped it, and have no answer yet.
    aborts: Vec<AbortTicket>,
}

/// Returns the maximum bytes of one slice at a device; `slice` is the maximum at a queued device.
#[inline]
fn slice_bytes(style: &Style<'_>, slice: u32) -> u64 {
    match style {
        Style::Immediate(_) => u64::from(slice) * ON_THE_SPOT,
        Style::Timed(_) | Style::Queued => u64::from(slice),
    }
}

/// Returns whether a Write Zeroes or Verify is so large that it is executed in slices.
#[inline]
pub(crate) fn is_large(
    command: &IoCommand,
    format: BlockFormat,
    style: &Style<'_>,
    slice: u32,
) -> bool {
    match command {
        IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range } => {
            range.bytes(format) > slice_bytes(style, slice)
        }
        _ => false,
    }
}

impl Sliced {
    /// Splits a command into slices: of `slice` bytes at a queued device. Returns `None` if the command is executed
    /// whole. `data` is the host's data.
    #[inline]
    pub(crate) fn of<V: BlockDevice>(
        command: &IoCommand,
        device: &V,
        data: Option<&[u8]>,
        slice: u32,
    ) -> Option<Box<Self>> {
        let work = match *command {
            IoCommand::DatasetManagement { deallocate: true, .. } => Work::Deallocate,
            IoCommand::WriteZeroes { deallocate, fua, .. } => Work::Zero { deallocate, fua },
            IoCommand::Verify { .. } => Work::Verify,
            _ => return None,
        };
        Self::taken_apart(work, command, device, data, slice)
    }

    #[cold]
    fn taken_apart<V: BlockDevice>(
        work: Work,
        command: &IoCommand,
        device: &V,
        data: Option<&[u8]>,
        slice: u32,
    ) -> Option<Box<Self>> {
        let (format, style) = (device.format(), device.style());
        let on_the_spot = matches!(style, Style::Immediate(_));
        // The model of a device deallocates nothing.
        let deallocates = !matches!(style, Style::Timed(_));
        let left = match *command {
            IoCommand::DatasetManagement { ranges, .. } if deallocates => {
                deallocated(ranges, data?, format, device.blocks())?
            }
            IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range } => {
                VecDeque::from([range])
            }
            _ => return None,
        };
        let most = match (work, &style) {
            (Work::Deallocate, Style::Queued) => u64::from(slice) * DEALLOCATED,
            _ => slice_bytes(&style, slice),
        };
        let blocks: u64 = left.iter().map(|range| u64::from(range.blocks)).sum();
        (format.bytes(blocks) > most).then(|| {
            Box::new(Self {
                work,
                left,
                most: u32::try_from(format.blocks(most)).unwrap_or(u32::MAX).max(1),
                operations: match on_the_spot || work == Work::Deallocate {
                    true => OPERATIONS,
                    false => 1,
                },
                begun: false,
                in_device_ns: 0,
                stopped: false,
                aborts: Vec::new(),
            })
        })
    }

    /// Returns the submission of the next slice to the stages. Deallocation moves no bytes. Limits charge one
    /// operation for the whole command, however many slices it has.
    pub(crate) fn submission(
        &self,
        item: (Key, SlotId),
        format: BlockFormat,
    ) -> Submission<(Key, SlotId)> {
        let (lba, blocks) = self.front().map_or((0, 0), |range| (range.lba, range.blocks));
        let (write, bytes) = match self.work {
            Work::Deallocate => (true, 0),
            Work::Zero { .. } => (true, format.transfer_bytes(blocks)),
            Work::Verify => (false, format.transfer_bytes(blocks)),
        };
        let operations = self.operations;
        let content = if self.begun { Content::Continued } else { Content::Nothing };
        let submission = Submission::of_host(item, write, bytes);
        Submission { content, operations, lba, blocks, ..submission }
    }

    /// Notes for how many ns a slice was in the device.
    pub(crate) fn was_in_device(&mut self, nanos: u64) {
        self.in_device_ns = self.in_device_ns.saturating_add(nanos);
    }

    /// Returns whether a slice was taken: the command would begin anew when its host sends it again.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns for how many ns its slices were in the device.
    pub(crate) fn in_device_ns(&self) -> u64 {
        self.in_device_ns
    }

    /// Takes out the next slice, as a command for the device.
    pub(crate) fn take(&mut self) -> Option<IoCommand> {
        let range = self.front()?;
        self.begun = true;
        let left = self.left.front_mut()?;
        left.lba += u64::from(range.blocks);
        left.blocks -= range.blocks;
        if left.blocks == 0 {
            self.left.pop_front();
        }
        Some(match self.work {
            Work::Deallocate => IoCommand::Deallocate { range },
            Work::Zero { deallocate, fua } => IoCommand::WriteZeroes { range, deallocate, fua },
            Work::Verify => IoCommand::Verify { range },
        })
    }

    /// Returns whether all slices were taken.
    pub(crate) fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    /// Stops the command after the slice in the device.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Stops the command after the slice in the device; an Abort command is answered then.
    pub(crate) fn abort(&mut self, ticket: AbortTicket) {
        self.stop();
        self.aborts.push(ticket);
    }

    /// Returns whether no slice follows.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Takes the Abort commands that wait for their answers.
    pub(crate) fn take_aborts(&mut self) -> Vec<AbortTicket> {
        std::mem::take(&mut self.aborts)
    }

    /// Returns the next slice's blocks.
    fn front(&self) -> Option<LbaRange> {
        let range = self.left.front()?;
        Some(LbaRange { lba: range.lba, blocks: range.blocks.min(self.most) })
    }
}

/// Reads the ranges that a Dataset Management command deallocates. Returns `None` where one is
/// wrong, which the device reports.
fn deallocated(
    ranges: u16,
    data: &[u8],
    format: BlockFormat,
    blocks: u64,
) -> Option<VecDeque<LbaRange>> {
    let limits = IoLimits { format, blocks, read_only: false, max_transfer: u32::MAX };
    let length = usize::from(ranges) * DSM_RANGE_BYTES as usize;
    limits.dsm_ranges(data.get(..length).unwrap_or(data)).collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arbitration::device::DeviceRules;

    use super::*;
    use crate::testing::{Disk, Kind, Ram};

    const SLICE: u32 = 1 << 20;
    const FORMAT: BlockFormat = BlockFormat::BYTES_4096;

    fn device(kind: Kind) -> Arc<Disk<Ram>> {
        Disk::new(kind, Ram::new(0), (1 << 30, FORMAT), DeviceRules::default(), 1)
    }

    fn memory() -> Arc<Disk<Ram>> {
        device(Kind::Immediate)
    }

    fn drive() -> Arc<Disk<Ram>> {
        device(Kind::Queued)
    }

    fn deallocation(device: &Disk<Ram>, ranges: &[(u64, u32)]) -> Option<Box<Sliced>> {
        let definition = |&(lba, blocks): &(u64, u32)| LbaRange { lba, blocks }.definition();
        let definitions: Vec<u8> = ranges.iter().flat_map(definition).collect();
        let ranges = u16::try_from(ranges.len()).unwrap();
        let command = IoCommand::DatasetManagement { deallocate: true, ranges };
        Sliced::of(&command, device, Some(&definitions), SLICE)
    }

    fn zeroes(blocks: u32) -> IoCommand {
        IoCommand::WriteZeroes { range: LbaRange { lba: 7, blocks }, deallocate: false, fua: true }
    }

    /// Asserts that a command goes in these slices: first blocks and numbers of blocks.
    fn assert_slices<const N: usize>(
        sliced: Option<Box<Sliced>>,
        slice: fn(LbaRange) -> IoCommand,
        expected: [(u64, u32); N],
    ) {
        let mut sliced = sliced.unwrap();
        let slices: Vec<IoCommand> = std::iter::from_fn(|| sliced.take()).collect();
        assert_eq!(slices, expected.map(|(lba, blocks)| slice(LbaRange { lba, blocks })));
        assert!(sliced.is_over());
    }

    #[test]
    fn d3_commands_are_sliced_to_device_limits() {
        let deallocate = |range| IoCommand::Deallocate { range };
        let slices = [(100, 1024), (1124, 1024), (2148, 452), (50_000, 1)];
        assert_slices(deallocation(&memory(), &[(100, 2500), (50_000, 1)]), deallocate, slices);
        let slices = [(100, 16_384), (16_484, 16_384), (32_868, 7232), (50_000, 1)];
        assert_slices(deallocation(&drive(), &[(100, 40_000), (50_000, 1)]), deallocate, slices);
        // Each is on media when it ends, as the host has asked.
        let zero = |range| IoCommand::WriteZeroes { range, deallocate: false, fua: true };
        let sliced = Sliced::of(&zeroes(600), &*drive(), None, SLICE);
        assert_slices(sliced, zero, [(7, 256), (263, 256), (519, 88)]);
        let verify = |range| IoCommand::Verify { range };
        let sliced = Sliced::of(&verify(LbaRange { lba: 0, blocks: 257 }), &*drive(), None, SLICE);
        assert_slices(sliced, verify, [(0, 256), (256, 1)]);
    }

    #[test]
    fn d3_a_small_command_is_carried_out_as_it_is() {
        for (device, most) in [(drive(), 256), (memory(), 1024)] {
            for (blocks, sliced) in [(most, false), (most + 1, true)] {
                let command = zeroes(blocks);
                assert_eq!(Sliced::of(&command, &*device, None, SLICE).is_some(), sliced);
                assert_eq!(is_large(&command, FORMAT, &device.style(), SLICE), sliced);
            }
        }
        for (device, ranges, is_sliced) in [
            (memory(), &[(0, 1024)][..], false),
            (memory(), &[(0, 1025)], true),
            (drive(), &[(0, 16_384)], false),
            (drive(), &[(0, 16_384), (0, 1)], true),
            // The device reports the error, and executes no part.
            (memory(), &[(1 << 30, 5000)], false),
            (drive(), &[(0, 40_000), (1 << 30, 1)], false),
        ] {
            assert_eq!(deallocation(&device, ranges).is_some(), is_sliced, "{ranges:?}");
        }
        assert!(Sliced::of(&IoCommand::Flush, &*drive(), None, SLICE).is_none());
    }

    #[test]
    fn d2_a_slice_is_charged_for_what_it_does() {
        let item = (Key { index: 0, generation: 0 }, SlotId(0));
        let user = Submission::of_host(item, true, 0);
        for (sliced, blocks, (lba, most, bytes)) in [
            (deallocation(&memory(), &[(3, 9000)]), 9000, (3, 1024, 0)),
            (deallocation(&drive(), &[(3, 90_000)]), 90_000, (3, 16_384, 0)),
            (Sliced::of(&zeroes(600), &*drive(), None, SLICE), 600, (7, 256, SLICE)),
        ] {
            let mut whole = sliced.unwrap();
            let slice = whole.submission(item, FORMAT);
            assert_eq!((slice.lba, slice.blocks, slice.bytes), (lba, most, bytes), "of {blocks}");
            assert!(slice.write && (bytes > 0 || slice.operations > user.operations));
            assert_eq!(slice.content, Content::Nothing);
            assert!(whole.take().is_some() && whole.has_begun());
            let next = whole.submission(item, FORMAT);
            assert_eq!(next.content, Content::Continued, "one operation in all");
        }
    }
}
