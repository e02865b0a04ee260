//! The info block, of which an arena has two copies (UEFI, section "Block Translation Table (BTT)
//! Layout", EFI_BTT_INFO_BLOCK).

use super::geometry::{BlockSize, Geometry, PAGE};
use crate::medium::{Medium, WORD};

/// The words of an info block.
const WORDS: usize = 512;
/// The place of the checksum among the words.
const CHECKSUM: usize = WORDS - 1;
/// `BTT_ARENA_INFO`, and two zeroes.
const SIGNATURE: [u64; 2] = [u64::from_le_bytes(*b"BTT_AREN"), u64::from_le_bytes(*b"A_INFO\0\0")];
/// The layout that is written and read: version 2.0, which begins at the region's first byte.
const MAJOR: u64 = 2;
/// Bit 0 of the flags: the arena has been found to be damaged.
const FLAG_ERROR: u64 = 1;

/// The fields of an info block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) uuid: [u8; 16],
    /// The identifier of the namespace label; zeroes where there is none.
    pub(super) parent: [u8; 16],
    pub(super) geometry: Geometry,
}

/// The content of a place where an info block should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// An info block that is whole.
    Info(Info),
    /// Something without the signature.
    Other,
    /// An info block that cannot be used, and why.
    Bad(&'static str),
}

fn words(medium: &impl Medium, at: u64) -> [u64; WORDS] {
    std::array::from_fn(|index| medium.load(at + index as u64 * WORD))
}

/// Returns the 64-bit Fletcher checksum of an info block, whose own word counts as zero.
fn checksum(words: &[u64; WORDS]) -> u64 {
    let (mut low, mut high) = (0_u32, 0_u64);
    for word in &words[..CHECKSUM] {
        for half in halves(*word) {
            low = low.wrapping_add(half);
            high = high.wrapping_add(low.into());
        }
    }
    // The two halves of the word that counts as zero.
    high = high.wrapping_add(2 * u64::from(low));
    high << 32 | u64::from(low)
}

/// Returns bits 31:0 and bits 63:32.
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Reads the info block at `at`, of the arena at `start`.
pub(super) fn read(medium: &impl Medium, at: u64, start: u64) -> Found {
    let words = words(medium, at);
    if words[..2] != SIGNATURE {
        return Found::Other;
    }
    if words[CHECKSUM] != checksum(&words) {
        return Found::Bad("its checksum is wrong");
    }
    let [flags, version] = halves(words[6]);
    if u64::from(version & 0xffff) != MAJOR {
        return Found::Bad("it is of another version of the layout: version 2 is served");
    }
    if u64::from(flags) & FLAG_ERROR != 0 {
        return Found::Bad("whoever used it last has marked it as damaged");
    }
    let [external_size, external] = halves(words[7]);
    let [internal_size, internal] = halves(words[8]);
    let [lanes, _] = halves(words[9]);
    let Some(block) = BlockSize::from_bytes(external_size) else {
        return Found::Bad("its blocks have neither 512 nor 4096 bytes");
    };
    let pair = |first: u64, second: u64| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        bytes
    };
    let geometry = Geometry {
        start,
        next: words[10],
        block,
        internal_size,
        external,
        internal,
        lanes,
        data: words[11],
        map: words[12],
        flog: words[13],
        backup: words[14],
    };
    let (uuid, parent) = (pair(words[2], words[3]), pair(words[4], words[5]));
    Found::Info(Info { uuid, parent, geometry })
}

/// Writes an info block at `at`, and waits until it survives. A cut meanwhile leaves a block whose
/// checksum is wrong.
pub(super) fn write(medium: &impl Medium, at: u64, info: &Info) {
    let geometry = &info.geometry;
    let first = |id: &[u8; 16]| u64::from_le_bytes(id[..8].try_into().unwrap_or_default());
    let second = |id: &[u8; 16]| u64::from_le_bytes(id[8..].try_into().unwrap_or_default());
    let mut words = [0; WORDS];
    let fields = [
        SIGNATURE[0],
        SIGNATURE[1],
        first(&info.uuid),
        second(&info.uuid),
        first(&info.parent),
        second(&info.parent),
        MAJOR << 32,
        joined(geometry.block.bytes(), geometry.external),
        joined(geometry.internal_size, geometry.internal),
        u64::from(geometry.lanes) | PAGE << 32,
        geometry.next,
        geometry.data,
        geometry.map,
        geometry.flog,
        geometry.backup,
    ];
    for (word, field) in words.iter_mut().zip(fields) {
        *word = field;
    }
    words[CHECKSUM] = checksum(&words);
    for (index, word) in words.iter().enumerate() {
        medium.store(at + index as u64 * WORD, *word);
    }
    medium.flush(at, PAGE);
    medium.fence();
}

/// The first word of a region while its layout is being made.
const UNFINISHED: u64 = u64::from_le_bytes(*b"SLUICE_F");

/// Marks a region whose layout is being made, so that it is made again after a cut.
pub(super) fn mark_unfinished(medium: &impl Medium) {
    medium.store(0, UNFINISHED);
    medium.flush(0, WORD);
    medium.fence();
}

/// Returns whether a region's layout was being made when it was cut.
pub(super) fn is_unfinished(medium: &impl Medium) -> bool {
    medium.load(0) == UNFINISHED
}

#[cfg(test)]
mod tests {
    use super::super::geometry::{SHAPE, divide};
    use super::*;
    use crate::medium::model::Model;

    fn info() -> Info {
        let mut geometry = divide(3 << 39, BlockSize::B4096, SHAPE).unwrap()[1];
        geometry.start = 0;
        Info { uuid: *b"0123456789abcdef", parent: [0; 16], geometry }
    }

    #[test]
    fn bytes_match_specification() {
        let medium = Model::new(PAGE);
        write(&medium, 0, &info());
        let mut bytes = [0; 4096];
        medium.read(0, &mut bytes);
        let int = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(&bytes[..16], b"BTT_ARENA_INFO\0\0");
        assert_eq!(&bytes[16..32], b"0123456789abcdef");
        assert_eq!(bytes[32..52], [0; 20], "no parent, no flags");
        assert_eq!((bytes[52], bytes[53], bytes[54], bytes[55]), (2, 0, 0, 0), "version 2.0");
        let geometry = info().geometry;
        assert_eq!((int(56), int(60)), (4096, geometry.external));
        assert_eq!((int(64), int(68)), (4096, geometry.internal));
        assert_eq!((int(72), int(76)), (256, 4096), "free blocks, size of the info block");
        assert_eq!((long(80), long(88)), (512 << 30, 4096), "next arena, data");
        assert_eq!((long(96), long(104)), (geometry.map, geometry.flog));
        assert_eq!(long(112), geometry.backup);
        // The checksum as the specification describes it, over the bytes.
        bytes[4088..].fill(0);
        let (mut low, mut high) = (0_u32, 0_u32);
        for word in bytes.chunks(4) {
            low = low.wrapping_add(u32::from_le_bytes(word.try_into().unwrap()));
            high = high.wrapping_add(low);
        }
        assert_eq!(medium.load(4088), u64::from(high) << 32 | u64::from(low));
    }

    #[test]
    fn info_block_round_trips_and_detects_damage() {
        let medium = Model::new(PAGE);
        assert_eq!(read(&medium, 0, 0), Found::Other);
        write(&medium, 0, &info());
        assert_eq!(read(&medium, 0, 0), Found::Info(info()));
        for at in (0..PAGE).step_by(8) {
            let whole = medium.load(at);
            for bit in [0, 31, 32, 63] {
                medium.store(at, whole ^ 1 << bit);
                assert!(!matches!(read(&medium, 0, 0), Found::Info(_)), "bit {bit} at {at}");
            }
            medium.store(at, whole);
        }
    }
}
