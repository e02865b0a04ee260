//! Header and data digests: CRC32C (TCP transport specification 1.0, section 3.3.1).

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the CRC32C of `bytes`, as a digest field holds it in little-endian order.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC32C over data that comes in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Running(Digest);

impl Running {
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest field of the bytes added so far.
    pub(crate) fn field(&self) -> [u8; 4] {
        // A 32-bit algorithm: the upper half is zero.
        u32::try_from(self.0.finalize()).unwrap_or(0).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn crc32c_of_the_check_string_is_the_catalogued_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn agrees_with_an_independent_implementation_in_any_pieces(
            bytes in prop::collection::vec(any::<u8>(), 0..2000), cut in 0usize..2000,
        ) {
            let cut = cut.min(bytes.len());
            let mut running = Running::new();
            running.update(&bytes[..cut]);
            running.update(&bytes[cut..]);
            let expected = crc32c::crc32c(&bytes);
            prop_assert_eq!(crc32c(&bytes), expected);
            prop_assert_eq!(running.field(), expected.to_le_bytes());
        }
    }
}
