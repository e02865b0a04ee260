//! The part of a region that is read or written, and its pieces.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use anyhow::{Context as _, ensure};

/// The range and the pacing of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// First byte of the region.
    pub(crate) offset: u64,
    /// Number of bytes; `None`: as many as there are.
    pub(crate) length: Option<u64>,
    /// Bytes of a piece.
    pub(crate) bs: usize,
    /// Pieces under way at once.
    pub(crate) depth: u16,
    /// Pieces under way at most when the next one is beyond the reservation.
    pub(crate) best_effort: u16,
}

impl Plan {
    /// Finds the part of a region of `region` bytes: its bytes, counted from 0.
    ///
    /// # Errors
    ///
    /// The part is not all inside the region.
    pub(crate) fn part(&self, region: u64) -> anyhow::Result<Range<u64>> {
        let rest = region.checked_sub(self.offset).with_context(|| {
            format!("--offset {} is beyond the region, which has {region} bytes", self.offset)
        })?;
        let length = self.length.unwrap_or(rest);
        ensure!(
            length <= rest,
            "--length {length} is beyond the region, which has {rest} bytes from offset {} on",
            self.offset
        );
        Ok(self.offset..self.offset.saturating_add(length))
    }
}

/// Divides a part into pieces of `bs` bytes, the last of which may be shorter: the first byte of each and
/// its length.
pub(crate) fn pieces(part: Range<u64>, bs: usize) -> impl Iterator<Item = (u64, usize)> {
    let Range { start, end } = part;
    (start..end).step_by(bs.max(1)).map(move |first| (first, piece(first..end, bs)))
}

/// Returns the length of the first piece of a part.
pub(crate) fn piece(part: Range<u64>, bs: usize) -> usize {
    usize::try_from(part.end.saturating_sub(part.start)).map_or(bs, |rest| rest.min(bs))
}

/// Reads bytes until the buffer is full or the input ends. Returns their number.
///
/// # Errors
///
/// The input cannot be read.
pub(crate) fn fill(input: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = buffer.get_mut(filled..) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAN: Plan = Plan { offset: 0, length: None, bs: 4096, depth: 1, best_effort: 1 };

    #[test]
    fn a_part_beyond_the_region_is_refused_with_what_there_is() {
        assert_eq!(PLAN.part(10).unwrap(), 0..10);
        assert_eq!(Plan { offset: 10, ..PLAN }.part(10).unwrap(), 10..10);
        let refused = |plan: Plan| plan.part(10).unwrap_err().to_string();
        let text = refused(Plan { offset: 11, ..PLAN });
        assert_eq!(text, "--offset 11 is beyond the region, which has 10 bytes");
        let text = refused(Plan { offset: 8, length: Some(3), ..PLAN });
        assert!(text.contains("has 2 bytes from offset 8"), "{text}");
        assert_eq!(Plan { offset: 8, length: Some(2), ..PLAN }.part(10).unwrap(), 8..10);
    }

    #[test]
    fn a_buffer_is_filled_from_an_input_that_comes_in_pieces() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let some = into.len().min(3);
                self.0.read(&mut into[..some])
            }
        }
        let (mut input, mut buffer) = (Slow(b"0123456789"), [0; 8]);
        assert_eq!(fill(&mut input, &mut buffer).unwrap(), 8);
        assert_eq!(buffer, *b"01234567");
        assert_eq!(fill(&mut input, &mut buffer).unwrap(), 2);
        assert_eq!(fill(&mut input, &mut buffer).unwrap(), 0);
    }

    proptest! {
        #[test]
        fn pieces_cover_a_part_once_and_in_order(
            start in 0_u64..1 << 40, length in 0_u64..10_000, bs in 1_usize..5000,
        ) {
            let mut at = start;
            for (first, piece) in pieces(start..start + length, bs) {
                prop_assert!(first == at && (1..=bs).contains(&piece));
                prop_assert!(piece == bs || first + piece as u64 == start + length);
                at += piece as u64;
            }
            prop_assert_eq!(at, start + length);
        }
    }
}
