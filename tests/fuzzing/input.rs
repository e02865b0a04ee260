//! Decisions from an input's bytes.

/// Cuts a stream into chunks of pseudo-random lengths. The same seed gives the same chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunks(u32);

impl Chunks {
    /// Makes the chunks of a seed: of 1 byte for 0, of up to 4 KiB for large seeds.
    #[must_use]
    pub fn new(seed: u8) -> Self {
        Self(u32::from(seed))
    }

    /// Removes the next chunk from `stream`: at least a byte, while there is one.
    pub fn take<'a>(&mut self, stream: &mut &'a [u8]) -> &'a [u8] {
        // The generator of Numerical Recipes, whose high bits are the good ones.
        let longest = 1 + (self.0 & 0xff) * 16;
        let next = (self.0 >> 8).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = 1 + (next >> 12) % longest;
        self.0 = next << 8 | self.0 & 0xff;
        let length = usize::try_from(length).unwrap_or(1).min(stream.len());
        let (chunk, rest) = stream.split_at(length);
        *stream = rest;
        chunk
    }
}

/// Removes the first byte of `data`; 0 if there is none.
pub fn byte(data: &mut &[u8]) -> u8 {
    let Some((&first, rest)) = data.split_first() else { return 0 };
    *data = rest;
    first
}

/// Removes up to `count` bytes of `data`.
pub fn bytes<'a>(data: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = data.split_at(count.min(data.len()));
    *data = rest;
    taken
}
