//! The data of the command's answer.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::RegionRights;

/// Length of the answer's data in bytes.
pub const REGION_GRANT_SIZE: usize = 128;

/// The version of the format.
const VERSION: u16 = 1;
/// Address family: IPv4, with the number that ADRFAM has for it.
const IPV4: u16 = 1;
/// Address family: IPv6, with the number that ADRFAM has for it.
const IPV6: u16 = 2;

/// The worst event that data written to a region survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Survives {
    /// 0: none; the data is gone with the daemon.
    Nothing,
    /// 1: the end of the daemon.
    Exit,
    /// 2: a power cut, for flushed data.
    PowerCut,
}

impl Survives {
    const fn number(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Exit => 1,
            Self::PowerCut => 2,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Nothing),
            1 => Some(Self::Exit),
            2 => Some(Self::PowerCut),
            _ => None,
        }
    }
}

/// A region that a host has got: the answer to Get Region.
#[derive(Clone, PartialEq, Eq)]
pub struct RegionGrant {
    /// The rights that were asked for.
    pub rights: RegionRights,
    /// The address and port of the data node, to which the host connects by RDMA. An IPv6 address
    /// has neither a flow label nor a scope.
    pub address: SocketAddr,
    /// The secret by which the data node knows the host's connection.
    pub secret: u128,
    /// The length of the region in bytes.
    pub length: u64,
    /// The reservation that was admitted, I/Os per second; 0: none.
    pub reservation: u32,
    /// The most that the host may do, I/Os per second; 0: no limit.
    pub limit: u32,
    /// The worst event that the data survives.
    pub survives: Survives,
}

/// The fault of data that is no answer to Get Region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadRegionGrant {
    /// The data ends too early.
    #[error("the answer to Get Region has {has} bytes: {REGION_GRANT_SIZE} are needed")]
    Short {
        /// The number of bytes.
        has: usize,
    },
    /// The data is of a version that is not known.
    #[error(
        "the answer to Get Region is of version {0}: only version {VERSION} is known; use a client \
         of the target's version"
    )]
    Version(u16),
    /// A field has a value that it cannot have.
    #[error("the answer to Get Region has an impossible {0}: is the target a Sluicegate?")]
    Field(&'static str),
}

/// The data, 128 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    /// Bytes 1:0: [`VERSION`].
    version: U16,
    /// Bytes 3:2: see [`RegionRights::bits`].
    rights: U16,
    /// Bytes 5:4: [`IPV4`] or [`IPV6`].
    family: U16,
    /// Bytes 7:6.
    port: U16,
    /// Bytes 23:8, in the order of the address's text; an IPv4 address is bytes 11:8, and the others
    /// are 0.
    address: [u8; 16],
    /// Bytes 39:24.
    secret: U128,
    /// Bytes 47:40.
    length: U64,
    /// Bytes 51:48.
    reservation: U32,
    /// Bytes 55:52.
    limit: U32,
    /// Byte 56: see [`Survives`].
    survives: u8,
    /// Bytes 127:57: 0; hosts do not look at them.
    reserved57: [u8; 71],
}

const _: () = assert!(size_of::<Wire>() == REGION_GRANT_SIZE);

impl RegionGrant {
    /// Makes the data.
    #[must_use]
    pub fn emit(&self) -> [u8; REGION_GRANT_SIZE] {
        let (family, address) = match self.address.ip() {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                (IPV4, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            IpAddr::V6(address) => (IPV6, address.octets()),
        };
        zerocopy::transmute!(Wire {
            version: U16::new(VERSION),
            rights: U16::new(self.rights.bits()),
            family: U16::new(family),
            port: U16::new(self.address.port()),
            address,
            secret: U128::new(self.secret),
            length: U64::new(self.length),
            reservation: U32::new(self.reservation),
            limit: U32::new(self.limit),
            survives: self.survives.number(),
            reserved57: [0; 71],
        })
    }

    /// Reads the data. Bytes behind the 128 are not looked at.
    ///
    /// # Errors
    /// The data is too short, of another version, or has a field that cannot be.
    pub fn parse(data: &[u8]) -> Result<Self, BadRegionGrant> {
        let (wire, _) =
            Wire::ref_from_prefix(data).map_err(|_| BadRegionGrant::Short { has: data.len() })?;
        if wire.version.get() != VERSION {
            return Err(BadRegionGrant::Version(wire.version.get()));
        }
        let [a, b, c, d, ..] = wire.address;
        let address: IpAddr = match wire.family.get() {
            IPV4 => Ipv4Addr::new(a, b, c, d).into(),
            IPV6 => Ipv6Addr::from(wire.address).into(),
            _ => return Err(BadRegionGrant::Field("address family")),
        };
        Ok(Self {
            rights: RegionRights::from_bits(wire.rights.get())
                .ok_or(BadRegionGrant::Field("value of its rights"))?,
            address: SocketAddr::new(address, wire.port.get()),
            secret: wire.secret.get(),
            length: wire.length.get(),
            reservation: wire.reservation.get(),
            limit: wire.limit.get(),
            survives: Survives::from_number(wire.survives)
                .ok_or(BadRegionGrant::Field("value of the event that data survives"))?,
        })
    }
}

impl fmt::Debug for RegionGrant {
    /// Prints all but the secret, which is nobody's but the host's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionGrant")
            .field("rights", &self.rights)
            .field("address", &self.address)
            .field("length", &self.length)
            .field("reservation", &self.reservation)
            .field("limit", &self.limit)
            .field("survives", &self.survives)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grant() -> impl Strategy<Value = RegionGrant> {
        let rights = prop_oneof![Just(RegionRights::Read), Just(RegionRights::ReadWrite)];
        let survives =
            prop_oneof![Just(Survives::Nothing), Just(Survives::Exit), Just(Survives::PowerCut)];
        let address = (any::<IpAddr>(), any::<u16>());
        let numbers = (any::<u128>(), any::<u64>(), any::<u32>(), any::<u32>());
        (rights, address, numbers, survives).prop_map(
            |(rights, address, (secret, length, reservation, limit), survives)| RegionGrant {
                rights,
                address: address.into(),
                secret,
                length,
                reservation,
                limit,
                survives,
            },
        )
    }

    fn example() -> RegionGrant {
        RegionGrant {
            rights: RegionRights::ReadWrite,
            address: "10.11.12.13:4430".parse().unwrap(),
            secret: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100,
            length: 0x1716_1514_1312_1110,
            reservation: 0x2322_2120,
            limit: 0x3332_3130,
            survives: Survives::PowerCut,
        }
    }

    #[test]
    fn fields_are_where_the_documentation_says() {
        let bytes = example().emit();
        assert_eq!(bytes[0..2], [1, 0], "version");
        assert_eq!(bytes[2..4], [3, 0], "rights");
        assert_eq!(bytes[4..6], [1, 0], "family");
        assert_eq!(bytes[6..8], 4430_u16.to_le_bytes(), "port");
        assert_eq!(bytes[8..24], [10, 11, 12, 13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "address");
        assert_eq!(bytes[24..40], Vec::from_iter(0..0x10), "secret");
        assert_eq!(bytes[40..48], Vec::from_iter(0x10..0x18), "length");
        assert_eq!(bytes[48..52], [0x20, 0x21, 0x22, 0x23], "reservation");
        assert_eq!(bytes[52..56], [0x30, 0x31, 0x32, 0x33], "limit");
        assert_eq!(bytes[56], 2, "survives");
        assert_eq!(bytes[57..], [0; 71]);

        let six = RegionGrant { address: "[2001:db8::1]:1".parse().unwrap(), ..example() }.emit();
        assert_eq!(six[4..6], [2, 0]);
        assert_eq!(six[8..24], [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_fault_names_its_field() {
        let refused = |at: usize, byte: u8| {
            let mut bytes = example().emit();
            bytes[at] = byte;
            RegionGrant::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(0, 2), BadRegionGrant::Version(2));
        assert_eq!(refused(2, 2), BadRegionGrant::Field("value of its rights"));
        assert_eq!(refused(4, 3), BadRegionGrant::Field("address family"));
        assert_eq!(refused(56, 3), BadRegionGrant::Field("value of the event that data survives"));
        let short = &example().emit()[..127];
        assert_eq!(RegionGrant::parse(short), Err(BadRegionGrant::Short { has: 127 }));
    }

    #[test]
    fn the_secret_is_not_shown() {
        let [one, other] = [7, 8].map(|secret| RegionGrant { secret, ..example() });
        assert_ne!(one, other);
        assert_eq!(format!("{one:?} {one:#?}"), format!("{other:?} {other:#?}"));
    }

    proptest! {
        #[test]
        fn encoded_value_round_trips(grant in grant(), more in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut bytes = grant.emit().to_vec();
            bytes.extend(more);
            prop_assert_eq!(RegionGrant::parse(&bytes), Ok(grant));
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            grant in grant(),
            changes in prop::collection::vec((0..128_usize, any::<u8>()), 0..4),
            length in 0..=128_usize,
        ) {
            let mut bytes = grant.emit();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            let read = RegionGrant::parse(&bytes[..length]);
            prop_assert_eq!(read.is_err_and(|e| e == BadRegionGrant::Short { has: length }), length < 128);
            if let Ok(read) = RegionGrant::parse(&bytes) {
                prop_assert_eq!(RegionGrant::parse(&read.emit()), Ok(read));
            }
        }
    }
}
