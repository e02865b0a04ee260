//! The answer to Get Region, as a host reads it.

use crate::nvme::Status;
use crate::nvme::region::{BadRegionGrant, RegionGrant};

/// The reason for which a host has got no region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// There is no such region, or not for this host, or not with these rights: the target does not
    /// tell which.
    #[error(
        "the target does not grant the region: check its name, that this host is in its list of hosts, \
         and that it may be written if that is asked for"
    )]
    NotGranted,
    /// The reservation does not fit.
    #[error("the target does not admit the reservation: {fits} I/Os per second would fit now")]
    Reservation {
        /// The largest reservation that would fit, I/Os per second.
        fits: u32,
    },
    /// There are as many grants as there can be.
    #[error("the target has no room for more clients of its regions now: try again later")]
    NoRoom,
    /// The controller has no such command.
    #[error(
        "the target serves no regions by RDMA ([pmem] address), or this is a discovery controller"
    )]
    NotServed,
    /// The command failed in another way.
    #[error("Get Region: the target answered: {0}")]
    Failed(Status),
    /// The data is not an answer.
    #[error(transparent)]
    Data(#[from] BadRegionGrant),
}

/// Reads the answer to Get Region: the completion's status, DW0 and DW1, and the data.
///
/// # Errors
/// The region was not granted, or the data is no answer.
pub fn region_granted(
    status: Status,
    result: u64,
    data: &[u8],
) -> Result<RegionGrant, RegionError> {
    if status.is_success() {
        return Ok(RegionGrant::parse(data)?);
    }
    Err(if status.is(Status::REGION_NOT_GRANTED) {
        RegionError::NotGranted
    } else if status.is(Status::RESERVATION_REFUSED) {
        // DW0; DW1 is reserved.
        RegionError::Reservation { fits: u32::try_from(result & 0xffff_ffff).unwrap_or(u32::MAX) }
    } else if status.is(Status::NO_ROOM_FOR_REGION) {
        RegionError::NoRoom
    } else if status.is(Status::INVALID_OPCODE) {
        RegionError::NotServed
    } else {
        RegionError::Failed(status)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_refusal_is_told_apart_whatever_the_flags() {
        let table = [
            (Status::REGION_NOT_GRANTED, RegionError::NotGranted),
            (Status::RESERVATION_REFUSED, RegionError::Reservation { fits: 7 }),
            (Status::NO_ROOM_FOR_REGION, RegionError::NoRoom),
            (Status::INVALID_OPCODE, RegionError::NotServed),
        ];
        for (status, error) in table {
            for flagged in [status, status.dnr(), status.dnr().more(), status.with_retry_delay(2)] {
                assert_eq!(region_granted(flagged, 7 | 9 << 32, &[]), Err(error));
            }
        }
        let other = Status::INVALID_FIELD.dnr();
        assert_eq!(region_granted(other, 7, &[]), Err(RegionError::Failed(other)));
        let texts: BTreeSet<String> = table.iter().map(|(_, error)| error.to_string()).collect();
        assert_eq!(texts.len(), table.len());
        let short = Err(RegionError::Data(BadRegionGrant::Short { has: 0 }));
        assert_eq!(region_granted(Status::SUCCESS, 0, &[]), short);
    }
}
