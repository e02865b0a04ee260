//! Stamped data: each block says which block it is, and how often it was written before.

use fabric::tcp::crc32c;

const MAGIC: u64 = u64::from_le_bytes(*b"sluicegt");

/// The origin of a block of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The first logical block.
    pub(crate) lba: u64,
    /// The number of times that this run has written the block.
    pub(crate) generation: u64,
}

/// Fills `block` with the stamp, bytes that depend on all of it, and a CRC32C at the end. A block
/// has at least 64 bytes.
pub(crate) fn fill(block: &mut [u8], stamp: Stamp) {
    let seed = stamp.seed ^ stamp.lba.rotate_left(32) ^ stamp.generation.wrapping_mul(0x9e37_79b9);
    let mut random = fastrand::Rng::with_seed(seed);
    let (words, _) = block.as_chunks_mut::<8>();
    for (index, word) in words.iter_mut().enumerate() {
        let value = match index {
            0 => MAGIC,
            1 => stamp.seed,
            2 => stamp.lba,
            3 => stamp.generation,
            _ => random.u64(..),
        };
        *word = value.to_le_bytes();
    }
    if let Some((body, check)) = block.split_last_chunk_mut::<4>() {
        *check = crc32c(body).to_le_bytes();
    }
}

/// Compares `block` with what [`fill`] made for `stamp`, byte by byte; `scratch` is of the same
/// length.
///
/// # Errors
///
/// The block holds something else; the text says what.
pub(crate) fn check(block: &[u8], stamp: Stamp, scratch: &mut [u8]) -> Result<(), String> {
    fill(scratch, stamp);
    if block == scratch {
        return Ok(());
    }
    let Stamp { lba, generation, .. } = stamp;
    let asked = format!("LBA {lba}, generation {generation}");
    if let Some(found) = read_stamp(block).filter(|found| *found != stamp) {
        return Err(format!(
            "{asked}: the read returned data written to LBA {} as generation {}{}",
            found.lba,
            found.generation,
            if found.seed == stamp.seed { "" } else { " by another run" }
        ));
    }
    let differs = block.iter().zip(scratch.iter());
    let count = differs.clone().filter(|(found, expected)| found != expected).count();
    let first = differs.enumerate().find(|(_, (found, expected))| found != expected);
    let (offset, (found, expected)) = first.unwrap_or((0, (&0, &0)));
    Err(format!(
        "{asked}: {count} of {} bytes are wrong, the first at offset {offset}: {found:#04x} \
         instead of {expected:#04x}",
        block.len()
    ))
}

/// Reads the stamp of a block; `None` where the block is damaged.
fn read_stamp(block: &[u8]) -> Option<Stamp> {
    let (body, check) = block.split_last_chunk::<4>()?;
    let (words, _) = block.as_chunks::<8>();
    let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
    if word(0)? != MAGIC || crc32c(body).to_le_bytes() != *check {
        return None;
    }
    Some(Stamp { seed: word(1)?, lba: word(2)?, generation: word(3)? })
}

/// The generations of one connection's blocks, and which blocks have an outstanding command.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The generation of each unit; the top bit says that a command is outstanding.
    units: Vec<u32>,
}

impl Ledger {
    const BUSY: u32 = 1 << 31;

    pub(crate) fn new(units: usize) -> Self {
        Self { units: vec![0; units] }
    }

    /// Takes `unit`, or the next one without an outstanding command. Returns the unit and its
    /// generation.
    pub(crate) fn take(&mut self, unit: usize) -> Option<(usize, u32)> {
        let count = self.units.len();
        let mut candidates = (unit..count).chain(0..unit.min(count));
        let free =
            candidates.find(|at| self.units.get(*at).is_some_and(|g| g & Self::BUSY == 0))?;
        let entry = self.units.get_mut(free)?;
        *entry |= Self::BUSY;
        Some((free, *entry & !Self::BUSY))
    }

    /// Ends the command on `unit`; the block now has that generation.
    pub(crate) fn release(&mut self, unit: usize, generation: u32) {
        if let Some(entry) = self.units.get_mut(unit) {
            *entry = generation & !Self::BUSY;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_changed_byte_is_found(
            lba: u64, generation: u64, at in 0usize..512, flip in 1u8..=255,
        ) {
            let stamp = Stamp { seed: 1, lba, generation };
            let (mut block, mut scratch) = (vec![0; 512], vec![0; 512]);
            fill(&mut block, stamp);
            prop_assert_eq!(check(&block, stamp, &mut scratch), Ok(()));
            block[at] ^= flip;
            let error = check(&block, stamp, &mut scratch).unwrap_err();
            prop_assert!(error.contains(&format!("offset {at}:")), "{}", error);
        }
    }

    #[test]
    fn misplaced_and_stale_data_are_named() {
        let stamp = Stamp { seed: 1, lba: 8, generation: 3 };
        let (mut block, mut scratch) = (vec![0; 512], vec![0; 512]);
        fill(&mut block, Stamp { lba: 16, ..stamp });
        assert!(check(&block, stamp, &mut scratch).unwrap_err().contains("to LBA 16"));
        fill(&mut block, Stamp { generation: 2, ..stamp });
        assert!(check(&block, stamp, &mut scratch).unwrap_err().contains("as generation 2"));
    }

    #[test]
    fn a_ledger_gives_no_block_to_two_commands() {
        let mut ledger = Ledger::new(2);
        assert_eq!(ledger.take(1), Some((1, 0)));
        assert_eq!(ledger.take(1), Some((0, 0)));
        assert_eq!(ledger.take(0), None);
        ledger.release(1, 5);
        assert_eq!(ledger.take(0), Some((1, 5)));
    }
}
