//! A model for tests of devices in memory: an array of blocks of 512 bytes.

use std::ops::Range;

use fabric::nvm::{IoCommand, LbaRange};
use fabric::nvme::Status;
use proptest::prelude::*;
use sluice_core::device::Data;

type Outcome = Result<(), TestCaseError>;

/// A command on blocks, from an LBA on.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(u64, u32, u8),
    Zero(u64, u32),
    Deallocate(u64, u32),
    /// A step of the device's own.
    Again(u64),
}

/// Makes steps that begin in so many blocks; some go up to 39 blocks beyond them.
pub(super) fn steps(blocks: u64, again: Range<u64>) -> impl Strategy<Value = Vec<Step>> {
    let range = (0..blocks, 1_u32..40);
    let step = prop_oneof![
        3 => (range.clone(), any::<u8>()).prop_map(|((lba, n), b)| Step::Write(lba, n, b)),
        1 => range.clone().prop_map(|(lba, n)| Step::Zero(lba, n)),
        1 => range.prop_map(|(lba, n)| Step::Deallocate(lba, n)),
        1 => again.prop_map(Step::Again),
    ];
    proptest::collection::vec(step, 1..40)
}

/// The expected content of the device.
pub(super) struct BlockArray(Vec<u8>);

impl BlockArray {
    pub(super) fn new(blocks: u64) -> Self {
        let mut array = Self(Vec::new());
        array.resize(blocks);
        array
    }

    pub(super) fn resize(&mut self, blocks: u64) {
        self.0.resize(usize::try_from(blocks * 512).unwrap(), 0);
    }

    fn blocks(&mut self, lba: u64, blocks: u32) -> Option<&mut [u8]> {
        let start = usize::try_from(lba * 512).unwrap();
        self.0.get_mut(start..start + blocks as usize * 512)
    }

    /// Carries a command out on the device and in the model. Only a deallocation may go beyond the end.
    pub(super) fn carry_out(
        &mut self,
        step: &Step,
        run: impl Fn(&IoCommand, Data<'_>) -> Status,
    ) -> Outcome {
        match *step {
            Step::Write(lba, blocks, byte) => {
                let Some(place) = self.blocks(lba, blocks) else { return Ok(()) };
                place.fill(byte);
                let (range, data) = (LbaRange { lba, blocks }, place.to_vec());
                let write = IoCommand::Write { range, fua: lba.is_multiple_of(2) };
                prop_assert_eq!(run(&write, Data::Write(&data)), Status::SUCCESS);
                let compare = IoCommand::Compare { range };
                prop_assert_eq!(run(&compare, Data::Write(&data)), Status::SUCCESS);
                let mut other = data.clone();
                other[data.len() - 1] ^= 1;
                prop_assert_eq!(run(&compare, Data::Write(&other)), Status::COMPARE_FAILURE);
                prop_assert_eq!(run(&IoCommand::Verify { range }, Data::None), Status::SUCCESS);
            }
            Step::Zero(lba, blocks) => {
                let Some(place) = self.blocks(lba, blocks) else { return Ok(()) };
                place.fill(0);
                let (range, fua) = (LbaRange { lba, blocks }, blocks.is_multiple_of(2));
                let zero = IoCommand::WriteZeroes { range, deallocate: false, fua };
                prop_assert_eq!(run(&zero, Data::None), Status::SUCCESS);
            }
            Step::Deallocate(lba, blocks) => {
                let mut definition = [0; 16];
                definition[4..8].copy_from_slice(&blocks.to_le_bytes());
                definition[8..].copy_from_slice(&lba.to_le_bytes());
                let command = IoCommand::DatasetManagement { ranges: 1, deallocate: true };
                let status = run(&command, Data::Write(&definition));
                let place = self.blocks(lba, blocks);
                prop_assert_eq!(status.is_success(), place.is_some());
                if let Some(place) = place {
                    place.fill(0);
                }
            }
            Step::Again(_) => {}
        }
        Ok(())
    }

    /// Compares all blocks.
    pub(super) fn compare(&self, run: impl Fn(&IoCommand, Data<'_>) -> Status) -> Outcome {
        let mut seen = vec![1; self.0.len()];
        let range = LbaRange { lba: 0, blocks: u32::try_from(self.0.len() / 512).unwrap() };
        let read = IoCommand::Read { range, fua: false };
        prop_assert_eq!(run(&read, Data::Read(&mut seen)), Status::SUCCESS);
        prop_assert!(seen == self.0);
        Ok(())
    }
}
