//! The place of a command's data, as transports without keyed memory describe it.

use super::CapsuleData;
use crate::nvm::Transfer;
use crate::nvme::{SglKind, Sqe, Status};

/// Checks a descriptor of in-capsule data (SGL Data Block, offset 0) or of data that the transport
/// moves (Transport SGL Data Block) against the data in the capsule.
///
/// # Errors
/// The status to complete the command with, with Do Not Retry.
#[inline]
pub(crate) fn check_place(
    sqe: &Sqe,
    transfer: &Transfer,
    data: &CapsuleData<'_>,
) -> Result<(), Status> {
    let present = match data {
        CapsuleData::None => 0,
        CapsuleData::Whole(bytes) => bytes.len(),
        CapsuleData::Partial { length } => *length as usize,
    };
    match (sqe.sgl.decode(), transfer) {
        (SglKind::Transport, _) if present == 0 => Ok(()),
        (SglKind::InCapsule { offset: 0 }, Transfer::ToController(_))
            if present >= sqe.sgl.length.get() as usize =>
        {
            Ok(())
        }
        (SglKind::InCapsule { offset: 1.. }, _) => Err(Status::SGL_OFFSET_INVALID.dnr()),
        (SglKind::InCapsule { .. } | SglKind::Transport, _) => {
            Err(Status::DATA_SGL_LENGTH_INVALID.dnr())
        }
        (SglKind::Keyed { .. } | SglKind::Other(_), _) => Err(Status::SGL_TYPE_INVALID.dnr()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::SglDescriptor;

    #[test]
    fn data_place_must_match_descriptor() {
        let (length, write, read) = (4096, Transfer::ToController(4096), Transfer::ToHost(4096));
        let with = |sgl| Sqe { sgl, ..Sqe::default() };
        let (capsule, moved) =
            (with(SglDescriptor::in_capsule(length)), with(SglDescriptor::transport(length)));
        let bytes = [0; 4096];
        let (whole, partial) = (CapsuleData::Whole(&bytes), CapsuleData::Partial { length });
        let (short, none) = (CapsuleData::Partial { length: length - 1 }, CapsuleData::None);
        let (good, bad_length) = (Ok(()), Err(Status::DATA_SGL_LENGTH_INVALID.dnr()));
        for (sqe, transfer, data, expected) in [
            (&capsule, write, &whole, good),
            (&capsule, write, &partial, good),
            (&capsule, write, &short, bad_length),
            (&capsule, write, &none, bad_length),
            (&capsule, read, &whole, bad_length),
            (&moved, write, &none, good),
            (&moved, read, &none, good),
            (&moved, write, &whole, bad_length),
            (&moved, read, &partial, bad_length),
        ] {
            assert_eq!(check_place(sqe, &transfer, data), expected, "{transfer:?} {data:?}");
        }
        let mut shifted = capsule;
        shifted.sgl.address = 1.into();
        assert_eq!(check_place(&shifted, &write, &whole), Err(Status::SGL_OFFSET_INVALID.dnr()));
        for kind in [0x00, 0x02, 0x40, 0x4f] {
            let other = with(SglDescriptor { kind, ..SglDescriptor::transport(length) });
            let refused = Err(Status::SGL_TYPE_INVALID.dnr());
            assert_eq!(check_place(&other, &write, &none), refused, "{kind:#x}");
        }
    }
}
