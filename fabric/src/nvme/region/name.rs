//! The name of a region, as text and as 16 bytes.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// Longest name of a region in bytes, and the number of bytes that it has on the wire.
pub const REGION_NAME_MAX: usize = 16;

/// The name of a region: 1 to 16 letters, digits, `-`, `_` and `.` of ASCII, on the wire padded with
/// zeroes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionName([u8; REGION_NAME_MAX]);

/// The fault of a text that names no region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a region's name has 1 to 16 letters, digits, '-', '_' and '.'")]
pub struct BadRegionName;

impl RegionName {
    /// Reads a name as a person writes it.
    ///
    /// # Errors
    /// The text is empty or longer than 16 bytes, or has another character.
    pub fn from_text(text: &str) -> Result<Self, BadRegionName> {
        let mut bytes = [0; REGION_NAME_MAX];
        let place = bytes.get_mut(..text.len()).ok_or(BadRegionName)?;
        place.copy_from_slice(text.as_bytes());
        // A NUL within the text would pass for padding.
        if text.contains('\0') { Err(BadRegionName) } else { Self::from_bytes(bytes) }
    }

    /// Reads a name as it is on the wire.
    ///
    /// # Errors
    /// The name is empty, has another character, or goes on after a zero.
    pub fn from_bytes(bytes: [u8; REGION_NAME_MAX]) -> Result<Self, BadRegionName> {
        let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
        let length = bytes.iter().take_while(|&b| *b != 0).count();
        let good = length > 0
            && bytes.iter().take(length).all(allowed)
            && bytes.iter().skip(length).all(|b| *b == 0);
        if good { Ok(Self(bytes)) } else { Err(BadRegionName) }
    }

    /// Returns the name as it is on the wire.
    #[must_use]
    pub fn bytes(self) -> [u8; REGION_NAME_MAX] {
        self.0
    }

    /// Returns the name without its padding.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // The bytes are ASCII.
        core::str::from_utf8(&self.0).unwrap_or_default().trim_end_matches('\0')
    }

    /// Returns the number by which the RDMA connection manager's private data names the region: the
    /// bytes of the wire, little-endian.
    #[must_use]
    pub fn id(self) -> u128 {
        u128::from_le_bytes(self.0)
    }
}

impl FromStr for RegionName {
    type Err = BadRegionName;

    fn from_str(text: &str) -> Result<Self, BadRegionName> {
        Self::from_text(text)
    }
}

impl fmt::Display for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionName({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_of_few_characters_and_not_empty() {
        for good in ["l", "log", "A-b_c.9", "0123456789abcdef", "."] {
            assert_eq!(RegionName::from_text(good).map(|n| n.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "0123456789abcdefg", "a b", "a/b", "a\0", "\0", "a\0b", "ä", "a\n"] {
            assert_eq!(RegionName::from_text(bad), Err(BadRegionName), "{bad:?}");
        }
    }

    #[test]
    fn number_has_first_character_in_low_byte() {
        let name = RegionName::from_text("log").unwrap();
        assert_eq!(name.bytes(), *b"log\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(name.id(), 0x67_6f6c);
    }

    proptest! {
        #[test]
        fn bytes_name_a_region_exactly_where_their_text_does(
            bytes in prop_oneof![
                any::<[u8; 16]>(),
                ("[-_.a-z0-9]{1,16}", 0..16_usize, any::<u8>()).prop_map(|(text, at, byte)| {
                    let mut bytes = [0; 16];
                    bytes[..text.len()].copy_from_slice(text.as_bytes());
                    bytes[at] = byte;
                    bytes
                }),
            ],
        ) {
            let text = core::str::from_utf8(&bytes).unwrap_or("").trim_end_matches('\0');
            let name = RegionName::from_bytes(bytes);
            prop_assert_eq!(name, RegionName::from_text(text));
            if let Ok(name) = name {
                prop_assert_eq!(name.bytes(), bytes);
            }
        }
    }
}
