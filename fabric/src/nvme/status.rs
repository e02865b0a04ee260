//! Completion status (NVMe base specification 2.0, section 3.3.3.2.1).

use core::fmt;

/// A completion's status without the phase tag, 15 bits: SC 7:0, SCT 10:8, CRD 12:11, M 13,
/// DNR 14. This is how Linux and libnvme write it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $bits:expr, $text:expr;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($bits);)*

            /// Returns the status in words, without its DNR and CRD fields.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self.0 & 0x7ff {
                    $($bits => $text,)*
                    _ => "unknown status",
                }
            }
        }
    };
}

statuses! {
    /// 0/00h.
    SUCCESS = 0x000, "successful completion";
    /// 0/01h.
    INVALID_OPCODE = 0x001, "invalid command opcode";
    /// 0/02h.
    INVALID_FIELD = 0x002, "invalid field in command";
    /// 0/03h.
    CID_CONFLICT = 0x003, "command ID conflict";
    /// 0/04h.
    DATA_TRANSFER_ERROR = 0x004, "data transfer error";
    /// 0/06h.
    INTERNAL_ERROR = 0x006, "internal error";
    /// 0/07h.
    ABORT_REQUESTED = 0x007, "command abort requested";
    /// 0/08h.
    ABORTED_SQ_DELETION = 0x008, "command aborted due to queue deletion";
    /// 0/0Bh.
    INVALID_NAMESPACE = 0x00b, "invalid namespace or format";
    /// 0/0Ch.
    COMMAND_SEQUENCE_ERROR = 0x00c, "command sequence error";
    /// 0/0Dh.
    INVALID_SGL_SEGMENT = 0x00d, "invalid SGL segment descriptor";
    /// 0/0Fh.
    DATA_SGL_LENGTH_INVALID = 0x00f, "data SGL length invalid";
    /// 0/11h.
    SGL_TYPE_INVALID = 0x011, "SGL descriptor type invalid";
    /// 0/16h.
    SGL_OFFSET_INVALID = 0x016, "SGL offset invalid";
    /// 0/18h.
    HOST_ID_INCONSISTENT = 0x018, "host identifier inconsistent format";
    /// 0/19h.
    KEEP_ALIVE_EXPIRED = 0x019, "keep alive timer expired";
    /// 0/1Ah.
    KEEP_ALIVE_INVALID = 0x01a, "keep alive timeout invalid";
    /// 0/20h.
    WRITE_PROTECTED = 0x020, "namespace is write protected";
    /// 0/21h.
    COMMAND_INTERRUPTED = 0x021, "command interrupted";
    /// 0/22h.
    TRANSIENT_TRANSPORT_ERROR = 0x022, "transient transport error";
    /// 0/80h.
    LBA_OUT_OF_RANGE = 0x080, "LBA out of range";
    /// 0/81h.
    CAPACITY_EXCEEDED = 0x081, "capacity exceeded";
    /// 0/82h.
    NAMESPACE_NOT_READY = 0x082, "namespace not ready";
    /// 1/03h.
    ABORT_LIMIT_EXCEEDED = 0x103, "abort command limit exceeded";
    /// 1/05h.
    AER_LIMIT_EXCEEDED = 0x105, "asynchronous event request limit exceeded";
    /// 1/09h.
    INVALID_LOG_PAGE = 0x109, "invalid log page";
    /// 1/0Dh.
    FEATURE_NOT_SAVEABLE = 0x10d, "feature identifier not saveable";
    /// 1/0Eh.
    FEATURE_NOT_CHANGEABLE = 0x10e, "feature not changeable";
    /// 1/80h (Connect).
    CONNECT_INCOMPATIBLE_FORMAT = 0x180, "connect: incompatible format";
    /// 1/81h (Connect).
    CONNECT_CONTROLLER_BUSY = 0x181, "connect: controller busy";
    /// 1/82h (Connect).
    CONNECT_INVALID_PARAMETERS = 0x182, "connect: invalid parameters";
    /// 1/83h (Connect).
    CONNECT_RESTART_DISCOVERY = 0x183, "connect: restart discovery";
    /// 1/84h (Connect).
    CONNECT_INVALID_HOST = 0x184, "connect: invalid host";
    /// 1/85h (Disconnect).
    DISCONNECT_INVALID_QUEUE_TYPE = 0x185, "disconnect: invalid queue type";
    /// 1/91h (Fabrics): the host has not authenticated the queue.
    AUTHENTICATION_REQUIRED = 0x191, "authentication required";
    /// 1/C0h (Get Region): no such region, or not for this host, or not with these rights, which is
    /// not told.
    REGION_NOT_GRANTED = 0x1c0, "region not granted";
    /// 1/C1h (Get Region): the reservation does not fit; DW0 has the largest that would, I/Os per
    /// second.
    RESERVATION_REFUSED = 0x1c1, "reservation refused";
    /// 1/C2h (Get Region): there are as many grants as there can be now.
    NO_ROOM_FOR_REGION = 0x1c2, "no room for more region grants";
    /// 2/80h.
    WRITE_FAULT = 0x280, "write fault";
    /// 2/81h.
    UNRECOVERED_READ_ERROR = 0x281, "unrecovered read error";
    /// 2/85h.
    COMPARE_FAILURE = 0x285, "compare failure";
    /// 2/87h.
    DEALLOCATED_OR_UNWRITTEN = 0x287, "deallocated or unwritten logical block";
    /// 3/02h.
    ANA_INACCESSIBLE = 0x302, "asymmetric access inaccessible";
    /// 3/70h.
    HOST_PATHING_ERROR = 0x370, "host pathing error";
}

impl Status {
    /// Do Not Retry, bit 14.
    const DNR: u16 = 1 << 14;
    /// More, bit 13: the error log has an entry for this completion.
    const MORE: u16 = 1 << 13;
    /// Command Retry Delay, bits 12:11.
    const CRD: u16 = 0b11 << 11;

    /// Makes a status of SC 7:0, SCT 10:8, CRD 12:11, M 13 and DNR 14; bit 15 is dropped.
    #[must_use]
    pub fn from_bits(bits: u16) -> Self {
        Self(bits & 0x7fff)
    }

    /// Returns the 15 bits.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Returns the same status with DNR set: the host must not retry.
    #[must_use]
    pub const fn dnr(self) -> Self {
        Self(self.0 | Self::DNR)
    }

    /// Returns the same status with M set: more in the error log.
    #[must_use]
    pub const fn more(self) -> Self {
        Self(self.0 | Self::MORE)
    }

    /// Returns the same status with Command Retry Delay `crd` (1..=3 select CRDT1..3, 0 none).
    #[must_use]
    pub const fn with_retry_delay(self, crd: u8) -> Self {
        Self((self.0 & !Self::CRD) | ((crd as u16 & 0b11) << 11))
    }

    /// Returns the same status without CRD and M, which refer to the CRDT values and the error log of the controller
    /// that returned it. Another controller relays the status so.
    #[must_use]
    pub const fn relayed(self) -> Self {
        Self(self.0 & !(Self::CRD | Self::MORE))
    }

    /// Returns Command Retry Delay: 1..=3 select CRDT1..3, 0 none.
    #[must_use]
    pub const fn retry_delay(self) -> u8 {
        let [_, high] = self.0.to_le_bytes();
        high >> 3 & 0b11
    }

    /// Returns whether SCT and SC equal those in `other`, ignoring the flags of both.
    #[must_use]
    pub const fn is(self, other: Self) -> bool {
        (self.0 ^ other.0) & 0x7ff == 0
    }

    /// Returns whether DNR is set.
    #[must_use]
    pub const fn is_dnr(self) -> bool {
        self.0 & Self::DNR != 0
    }

    /// Returns whether SCT and SC are both 0.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:#06x} {})", self.0, self.text())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sct, sc) = (self.0 >> 8 & 0x7, self.0 & 0xff);
        write!(f, "{} (SCT {sct:x}h, SC {sc:02x}h)", self.text())?;
        if self.is_dnr() { f.write_str(", do not retry") } else { Ok(()) }
    }
}
