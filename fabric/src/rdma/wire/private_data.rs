//! The private data of the connection manager's messages (NVMe/RDMA transport specification 1.0,
//! section 2.2): which queue a connection is for, and why one was refused.

use core::fmt;

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Violation;

/// A host's private data in its connection request, 32 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ConnectRequest {
    /// Bytes 1:0: record format, 0.
    pub recfmt: U16,
    /// Bytes 3:2: queue identifier, 0 for the admin queue.
    pub qid: U16,
    /// Bytes 5:4: the host's receive queue size: number of response capsules that it can take.
    pub hrqsize: U16,
    /// Bytes 7:6: the host's send queue size, 0's based: number of command capsules less 1.
    pub hsqsize: U16,
    /// Bytes 9:8: the controller of an I/O queue; 0 where the host does not say.
    pub cntlid: U16,
    /// Bytes 31:10.
    pub reserved10: [u8; 22],
}

/// A target's private data on acceptance, 32 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ConnectAccept {
    /// Bytes 1:0: record format, 0.
    pub recfmt: U16,
    /// Bytes 3:2: the controller's receive queue size: number of command capsules that it can take.
    pub crqsize: U16,
    /// Bytes 31:4.
    pub reserved4: [u8; 28],
}

/// A target's private data on rejection, 4 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ConnectReject {
    /// Bytes 1:0: record format, 0.
    pub recfmt: U16,
    /// Bytes 3:2: the reason, see [`RejectReason`].
    pub sts: U16,
}

const _: () = assert!(size_of::<ConnectRequest>() == 32);
const _: () = assert!(size_of::<ConnectAccept>() == 32);
const _: () = assert!(size_of::<ConnectReject>() == 4);

/// The reason for which a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum RejectReason {
    /// The private data is shorter than 32 bytes.
    Length = 1,
    /// RECFMT is not 0.
    RecordFormat = 2,
    /// QID is out of range.
    QueueId = 3,
    /// HSQSIZE is 0, or beyond a queue's limit.
    SendQueueSize = 4,
    /// HRQSIZE is less than HSQSIZE + 1.
    ReceiveQueueSize = 5,
    /// There is no room for one more queue pair.
    NoResources = 6,
    /// The host answers no RDMA READs.
    ResponderResources = 7,
    /// The host's own RDMA READs are too many.
    InitiatorDepth = 8,
    /// CNTLID is no controller.
    ControllerId = 9,
}

impl RejectReason {
    const ALL: [Self; 9] = [
        Self::Length,
        Self::RecordFormat,
        Self::QueueId,
        Self::SendQueueSize,
        Self::ReceiveQueueSize,
        Self::NoResources,
        Self::ResponderResources,
        Self::InitiatorDepth,
        Self::ControllerId,
    ];

    /// Makes the private data of the refusal.
    #[must_use]
    pub fn private_data(self) -> ConnectReject {
        ConnectReject { recfmt: U16::ZERO, sts: U16::new(self as u16) }
    }

    /// Reads the private data of a refusal; `None` where it is not NVMe's.
    #[must_use]
    pub fn parse(private_data: &[u8]) -> Option<Self> {
        let (reject, _) = ConnectReject::ref_from_prefix(private_data).ok()?;
        let known = |reason: &Self| *reason as u16 == reject.sts.get() && reject.recfmt.get() == 0;
        Self::ALL.into_iter().find(known)
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the private data is too short (01h)",
            Self::RecordFormat => "the record format is unknown (02h)",
            Self::QueueId => "the queue identifier is out of range (03h)",
            Self::SendQueueSize => "the host's send queue has no valid size (04h)",
            Self::ReceiveQueueSize => {
                "the host's receive queue has no room for its commands' responses (05h)"
            }
            Self::NoResources => "there is no room for one more queue (06h)",
            Self::ResponderResources => "the host answers no RDMA READs (07h)",
            Self::InitiatorDepth => "the host has too many RDMA READs of its own (08h)",
            Self::ControllerId => "there is no such controller (09h)",
        })
    }
}

/// The most queue entries that the host may ask for, by kind of queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Entries of an admin queue.
    pub admin_entries: u16,
    /// Entries of an I/O queue.
    pub io_entries: u16,
}

impl ConnectRequest {
    /// Reads and checks a host's private data; the connection manager pads it with zeroes.
    ///
    /// # Errors
    /// The reason to refuse the connection.
    pub fn parse(private_data: &[u8], limits: QueueLimits) -> Result<Self, RejectReason> {
        let parsed = Self::read_from_prefix(private_data);
        let (request, _) = parsed.map_err(|_| RejectReason::Length)?;
        if request.recfmt.get() != 0 {
            return Err(RejectReason::RecordFormat);
        }
        let admin = request.qid.get() == 0;
        let most = if admin { limits.admin_entries } else { limits.io_entries };
        let size = request.hsqsize.get();
        if size == 0 || size >= most {
            return Err(RejectReason::SendQueueSize);
        }
        if request.hrqsize.get() <= size {
            return Err(RejectReason::ReceiveQueueSize);
        }
        Ok(request)
    }

    /// Returns the number of entries of the queue.
    #[must_use]
    pub fn entries(&self) -> u16 {
        self.hsqsize.get().saturating_add(1)
    }
}

impl ConnectAccept {
    /// Creates the answer of a target with this many receive buffers.
    #[must_use]
    pub fn new(entries: u16) -> Self {
        Self { crqsize: U16::new(entries), ..Self::default() }
    }

    /// Reads and checks a target's private data; the connection manager pads it with zeroes.
    /// Returns the number of command capsules that the host may have outstanding.
    ///
    /// # Errors
    /// The violation; the host must end the connection.
    pub fn parse(private_data: &[u8]) -> Result<u16, Violation> {
        let parsed = Self::ref_from_prefix(private_data);
        let (accept, _) = parsed.map_err(|_| {
            Violation("the target accepts with less private data than the 32 bytes of NVMe/RDMA")
        })?;
        if accept.recfmt.get() != 0 {
            return Err(Violation("the target accepts with private data of an unknown format"));
        }
        match accept.crqsize.get() {
            0 => {
                Err(Violation("the target accepts with room for no command at all (CRQSIZE is 0)"))
            }
            room => Ok(room),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: QueueLimits = QueueLimits { admin_entries: 32, io_entries: 128 };

    fn request(qid: u16, hrqsize: u16, hsqsize: u16) -> ConnectRequest {
        let (qid, hrqsize) = (U16::new(qid), U16::new(hrqsize));
        ConnectRequest { qid, hrqsize, hsqsize: U16::new(hsqsize), ..ConnectRequest::default() }
    }

    #[test]
    fn fields_lie_where_the_specification_puts_them() {
        let mut bytes = [0u8; 56];
        bytes[..10].copy_from_slice(&[0, 0, 7, 1, 128, 0, 127, 0, 9, 2]);
        let parsed = ConnectRequest::parse(&bytes, LIMITS).unwrap();
        assert_eq!((parsed.qid.get(), parsed.hrqsize.get(), parsed.hsqsize.get()), (263, 128, 127));
        assert_eq!((parsed.cntlid.get(), parsed.entries()), (521, 128));
        assert_eq!(ConnectAccept::new(0x1234).as_bytes()[..5], [0, 0, 0x34, 0x12, 0]);
        assert_eq!(RejectReason::NoResources.private_data().as_bytes(), [0, 0, 6, 0]);
    }

    #[test]
    fn invalid_queues_are_refused_with_reason() {
        let check = |request: ConnectRequest| ConnectRequest::parse(request.as_bytes(), LIMITS);
        assert_eq!(check(request(0, 32, 31)).map(|one| one.entries()), Ok(32));
        assert_eq!(check(request(0, 64, 32)), Err(RejectReason::SendQueueSize));
        assert_eq!(check(request(1, 128, 127)).map(|one| one.entries()), Ok(128));
        assert_eq!(check(request(1, 129, 128)), Err(RejectReason::SendQueueSize));
        assert_eq!(check(request(1, 2, 0)), Err(RejectReason::SendQueueSize));
        assert_eq!(check(request(1, 127, 127)), Err(RejectReason::ReceiveQueueSize));
        let other = ConnectRequest { recfmt: U16::new(1), ..request(1, 128, 127) };
        assert_eq!(check(other), Err(RejectReason::RecordFormat));
        let short = ConnectRequest::parse(&request(1, 128, 127).as_bytes()[..31], LIMITS);
        assert_eq!(short, Err(RejectReason::Length));
    }

    #[test]
    fn a_host_hears_how_many_commands_the_target_takes() {
        let said = |accept: ConnectAccept| [accept.as_bytes(), &[0; 164]].concat();
        assert_eq!(ConnectAccept::parse(&said(ConnectAccept::new(129))), Ok(129));
        assert_eq!(ConnectAccept::parse(ConnectAccept::new(1).as_bytes()), Ok(1));
        let none = ConnectAccept::parse(&said(ConnectAccept::new(0))).unwrap_err();
        assert!(none.to_string().contains("CRQSIZE is 0"), "{none}");
        let other = ConnectAccept { recfmt: U16::new(1), ..ConnectAccept::new(129) };
        assert!(ConnectAccept::parse(&said(other)).is_err());
        assert!(ConnectAccept::parse(&ConnectAccept::new(129).as_bytes()[..31]).is_err());
    }

    #[test]
    fn reasons_are_read_as_they_were_said() {
        for reason in RejectReason::ALL {
            let said = [reason.private_data().as_bytes(), &[0; 100]].concat();
            assert_eq!(RejectReason::parse(&said), Some(reason));
            assert!(reason.to_string().contains(&format!("({:02x}h)", reason as u16)));
        }
        assert_eq!(RejectReason::parse(&[0, 0, 10, 0]), None);
        assert_eq!(RejectReason::parse(&[1, 0, 6, 0]), None);
        assert_eq!(RejectReason::parse(&[0, 0, 6]), None);
    }

    proptest! {
        #[test]
        fn any_private_data_is_read_or_refused(data in prop::collection::vec(any::<u8>(), 0..80)) {
            match ConnectRequest::parse(&data, LIMITS) {
                Ok(request) => {
                    prop_assert!(data.len() >= 32 && (2..=128).contains(&request.entries()));
                    prop_assert!(request.hrqsize.get() >= request.entries());
                }
                Err(reason) => {
                    prop_assert_eq!(reason == RejectReason::Length, data.len() < 32);
                }
            }
            let _ = RejectReason::parse(&data);
        }
    }
}
