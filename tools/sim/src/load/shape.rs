//! The shape of accesses: reads or writes, their sizes and places.

use fastrand::Rng;
use serde::Deserialize;
use thiserror::Error;

use super::Access;
use crate::random::Draw as _;

/// Bytes of a logical block: sizes and places are whole numbers of these.
pub(super) const BLOCK: u64 = 512;

/// The size of accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Always so many bytes.
    Fixed(u32),
    /// A number of `step` bytes each, every number from `least` to `most` equally likely.
    Uniform {
        /// Least size in bytes.
        least: u32,
        /// Greatest size in bytes.
        most: u32,
        /// Distance between two sizes in bytes.
        step: u32,
    },
    /// Exponentially distributed with a mean in bytes, rounded up to blocks, and at most `most`.
    Exponential {
        /// Mean in bytes.
        mean: u32,
        /// Greatest size in bytes.
        most: u32,
    },
}

/// The places of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Places {
    /// Each where chance has it, at a multiple of 4 KiB.
    #[default]
    Random,
    /// Each behind the one before, from the beginning again at the end.
    Sequential,
}

/// The shape of accesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Part of the accesses that read, 0.0 to 1.0.
    pub reads: f64,
    /// Sizes.
    pub size: Size,
    /// Places.
    pub places: Places,
    /// Bytes of the namespace that they are in, at least the greatest size.
    pub within: u64,
}

/// A shape that no access can have.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum ShapeError {
    /// Not a part of 1.
    #[error("reads are {0} of all accesses; write a part from 0.0 to 1.0")]
    Reads(f64),
    /// Not a whole number of blocks.
    #[error("an access of {0} bytes; write a multiple of 512 that is at least 512")]
    Blocks(u32),
    /// The least is more than the greatest.
    #[error("sizes from {0} to {1} bytes; the first must not be the greater")]
    Order(u32, u32),
    /// No access fits.
    #[error("accesses of up to {most} bytes do not fit into {within}; make them smaller")]
    Within {
        /// The greatest size.
        most: u32,
        /// The bytes of the namespace.
        within: u64,
    },
}

impl Size {
    /// Computes the mean in bytes, before an exponential distribution is cut off and rounded.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            Self::Fixed(bytes) => f64::from(bytes),
            Self::Uniform { least, most, .. } => f64::midpoint(f64::from(least), f64::from(most)),
            Self::Exponential { mean, .. } => f64::from(mean),
        }
    }

    /// Returns the greatest size in bytes.
    #[must_use]
    pub const fn most(self) -> u32 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform { most, .. } | Self::Exponential { most, .. } => most,
        }
    }

    /// Draws a size.
    fn draw(self, random: &mut Rng) -> u32 {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform { least, most, step } => {
                let step = step.max(1);
                least.saturating_add(random.u32(0..=most.saturating_sub(least) / step) * step)
            }
            Self::Exponential { mean, most } => {
                let bytes = random.exponential(f64::from(mean)).min(f64::from(most));
                let blocks = (bytes / BLOCK as f64).ceil().max(1.0) * BLOCK as f64;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "`as` saturates"
                )]
                let blocks = blocks as u32;
                blocks.min(most)
            }
        }
    }
}

impl Shape {
    /// Checks that accesses can be like this.
    ///
    /// # Errors
    ///
    /// A number is out of its range, or no access fits.
    pub fn check(&self) -> Result<(), ShapeError> {
        if !(0.0..=1.0).contains(&self.reads) {
            return Err(ShapeError::Reads(self.reads));
        }
        let sizes = match self.size {
            Size::Fixed(bytes) => [bytes; 3],
            Size::Uniform { least, most, step } => [least, most, step],
            Size::Exponential { most, .. } => [most; 3],
        };
        let block = |bytes: &&u32| u64::from(**bytes).is_multiple_of(BLOCK) && **bytes > 0;
        if let Some(bytes) = sizes.iter().find(|bytes| !block(bytes)) {
            return Err(ShapeError::Blocks(*bytes));
        }
        let [least, most, _] = sizes;
        if least > most {
            return Err(ShapeError::Order(least, most));
        }
        if u64::from(most) > self.within {
            return Err(ShapeError::Within { most, within: self.within });
        }
        Ok(())
    }
}

/// Draws accesses of a shape.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    shape: Shape,
    /// The place behind the last sequential access.
    behind: u64,
}

impl Drawn {
    /// Begins at the start of the namespace.
    pub(super) const fn new(shape: Shape) -> Self {
        Self { shape, behind: 0 }
    }

    /// Draws the next access.
    pub(super) fn draw(&mut self, random: &mut Rng) -> Access {
        const STEP: u64 = 4096;
        let write = random.f64() >= self.shape.reads;
        let length = self.shape.size.draw(random);
        let last = self.shape.within.saturating_sub(u64::from(length));
        let offset = match self.shape.places {
            Places::Random => random.u64(0..=last / STEP) * STEP,
            Places::Sequential if self.behind <= last => self.behind,
            Places::Sequential => 0,
        };
        self.behind = offset.saturating_add(u64::from(length));
        Access { write, offset, length }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    fn sizes() -> impl Strategy<Value = Size> {
        let blocks = 1_u32..256;
        prop_oneof![
            blocks.clone().prop_map(|blocks| Size::Fixed(blocks * 512)),
            (blocks.clone(), blocks.clone()).prop_map(|(least, more)| Size::Uniform {
                least: least * 512,
                most: (least + more) * 512,
                step: 512
            }),
            (blocks.clone(), blocks).prop_map(|(mean, more)| Size::Exponential {
                mean: mean * 512,
                most: (mean + more) * 512
            }),
        ]
    }

    proptest! {
        #[test]
        fn accesses_are_whole_blocks_within_the_namespace(
            size in sizes(),
            reads in 0.0..=1.0,
            sequential: bool,
            blocks in 512_u64..10_000,
            seed: u64,
        ) {
            let places = if sequential { Places::Sequential } else { Places::Random };
            let shape = Shape { reads, size, places, within: blocks * 512 };
            prop_assert_eq!(shape.check(), Ok(()));
            let (mut random, mut drawn) = (Rng::with_seed(seed), Drawn::new(shape));
            let mut behind = 0;
            for _ in 0..100 {
                let Access { offset, length, .. } = drawn.draw(&mut random);
                prop_assert!(length > 0 && length <= size.most() && length % 512 == 0);
                prop_assert!(offset % 512 == 0);
                prop_assert!(offset + u64::from(length) <= shape.within);
                prop_assert!(!sequential || offset == behind || offset == 0);
                behind = offset + u64::from(length);
            }
        }
    }

    #[test]
    fn the_mean_size_and_the_part_of_reads_are_what_was_asked_for() {
        for size in [
            Size::Fixed(4096),
            Size::Uniform { least: 4096, most: 65_536, step: 4096 },
            Size::Exponential { mean: 32_768, most: 1 << 20 },
        ] {
            let shape = Shape { reads: 0.7, size, places: Places::Random, within: 1 << 30 };
            let (mut random, mut drawn) = (Rng::with_seed(5), Drawn::new(shape));
            let (mut bytes, mut reads) = (0.0, 0.0);
            for _ in 0..50_000 {
                let access = drawn.draw(&mut random);
                bytes += f64::from(access.length) / 50_000.0;
                reads += f64::from(u8::from(!access.write)) / 50_000.0;
            }
            // Rounding up to blocks makes an exponential one half a block larger.
            assert!((bytes / size.mean() - 1.0).abs() < 0.02, "{size:?}: {bytes}");
            assert!((reads - 0.7).abs() < 0.01, "{reads}");
        }
    }

    #[test]
    fn what_no_access_can_be_is_refused_with_what_would_be_right() {
        let shape =
            Shape { reads: 0.5, size: Size::Fixed(4096), places: Places::Random, within: 8192 };
        let wrong = |shape: Shape| shape.check().unwrap_err().to_string();
        assert!(wrong(Shape { reads: 70.0, ..shape }).contains("0.0 to 1.0"));
        assert!(wrong(Shape { size: Size::Fixed(1000), ..shape }).contains("multiple of 512"));
        assert!(wrong(Shape { size: Size::Fixed(16_384), ..shape }).contains("do not fit"));
        let size = Size::Uniform { least: 8192, most: 4096, step: 4096 };
        assert!(wrong(Shape { size, ..shape }).contains("greater"));
    }
}
