//! The private data of the connection manager's messages, by which a client asks for a region.
//!
//! A listener may serve NVMe/RDMA on the same port. Its hosts begin with a record format of 0, two
//! bytes; ours begin with [`MAGIC`], whose first two bytes are no record format of NVMe. So the
//! first bytes of a request identify its kind. A target without support for ours refuses it with a
//! reason of NVMe's (record format), for which [`Reject::parse`] returns `None`.
//!
//! All numbers are little-endian. There is room for 56 bytes in a request, for 196 in an
//! acceptance, and for 148 in a refusal; the connection manager pads with zeroes. A later version
//! may append fields; a version must send unknown fields as 0 and ignore them.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use fabric::rdma::placement::Placement;
use pmem::engine::{Settings, Words};
use pmem::one_sided::Address;
use pmem::token::Tokens;
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first eight bytes of all private data.
pub const MAGIC: [u8; 8] = *b"SLUICEPM";
/// The version of the format.
pub const VERSION: u16 = 1;

/// The name of a region, which the data node gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u128);

/// The secret of a grant: any client that knows it may connect with the grant's rights. It is sent
/// unencrypted, as all of NVMe/RDMA is.
#[derive(Clone, Copy)]
pub struct Secret(pub u128);

impl PartialEq for Secret {
    /// Compares in a time that does not tell how much of the secrets is equal.
    fn eq(&self, other: &Self) -> bool {
        let differs = core::hint::black_box(self.0 ^ other.0);
        differs == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The rights of a client on a region's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

impl Rights {
    /// Returns the bits of the format: 0 reads, 1 writes.
    const fn bits(self) -> u16 {
        match self {
            Self::Read => 1,
            Self::ReadWrite => 3,
        }
    }

    const fn from_bits(bits: u16) -> Option<Self> {
        match bits {
            1 => Some(Self::Read),
            3 => Some(Self::ReadWrite),
            _ => None,
        }
    }
}

/// A fault in private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadPrivateData {
    /// It is of another protocol.
    #[error(
        "the private data is not that of a region's connection: is this a data node's address?"
    )]
    Other,
    /// It ends too early.
    #[error("the private data has {has} bytes: {needs} are needed")]
    Short {
        /// The number of bytes.
        has: usize,
        /// The number that is needed.
        needs: usize,
    },
    /// It is of a version that is not known.
    #[error("the private data is of version {0}: version {VERSION} is known")]
    Version(u16),
    /// A field has a value that it cannot have.
    #[error("the private data has an impossible {0}")]
    Field(&'static str),
}

/// A client's request for a region, 48 bytes on the wire.
///
/// | bytes | what |
/// |---|---|
/// | 7:0 | [`MAGIC`] |
/// | 9:8 | version |
/// | 11:10 | [`Rights`] that are asked for |
/// | 15:12 | 0 |
/// | 31:16 | region |
/// | 47:32 | secret of the grant |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The region.
    pub region: RegionId,
    /// The secret of the grant.
    pub secret: Secret,
    /// The rights that the client asks for.
    pub rights: Rights,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    version: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    head: RawHead,
    rights: U16,
    reserved12: [u8; 4],
    region: [u8; 16],
    secret: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAccept {
    head: RawHead,
    rights: U16,
    client: U32,
    data_key: U32,
    pool_key: U32,
    data: U64,
    length: U64,
    pool: U64,
    grant: U64,
    report: U64,
    grant_key: U32,
    report_key: U32,
    period: U64,
    interval: U64,
    batch: U32,
    limit: U32,
    placement: U16,
    io_bytes: U32,
    reserved102: [u8; 2],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReject {
    head: RawHead,
    reason: U16,
}

const _: () = assert!(size_of::<RawRequest>() == 48);
const _: () = assert!(size_of::<RawAccept>() == 104);
const _: () = assert!(size_of::<RawReject>() == 12);

const HEAD: RawHead = RawHead { magic: MAGIC, version: U16::new(VERSION) };

/// Reads what begins with a head of ours.
fn read<T: FromBytes>(bytes: &[u8]) -> Result<T, BadPrivateData> {
    let Ok((head, _)) = RawHead::read_from_prefix(bytes) else {
        return Err(BadPrivateData::Other);
    };
    if head.magic != MAGIC {
        return Err(BadPrivateData::Other);
    }
    if head.version.get() != VERSION {
        return Err(BadPrivateData::Version(head.version.get()));
    }
    let short = |_| BadPrivateData::Short { has: bytes.len(), needs: size_of::<T>() };
    T::read_from_prefix(bytes).map(|(raw, _)| raw).map_err(short)
}

/// Returns whether a request for a connection is for a region, of any version: a request of
/// NVMe/RDMA is not.
#[must_use]
pub fn is_ours(private_data: &[u8]) -> bool {
    private_data.starts_with(&MAGIC)
}

impl Request {
    /// Makes the bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; 48] {
        let raw = RawRequest {
            head: HEAD,
            rights: U16::new(self.rights.bits()),
            reserved12: [0; 4],
            region: self.region.0.to_le_bytes(),
            secret: self.secret.0.to_le_bytes(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads the bytes.
    ///
    /// # Errors
    ///
    /// [`BadPrivateData`] if the bytes are no request.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadPrivateData> {
        let raw: RawRequest = read(bytes)?;
        let rights =
            Rights::from_bits(raw.rights.get()).ok_or(BadPrivateData::Field("set of rights"))?;
        let region = RegionId(u128::from_le_bytes(raw.region));
        Ok(Self { region, secret: Secret(u128::from_le_bytes(raw.secret)), rights })
    }
}

/// A place in the data node's memory with the key that it is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// Address of the first byte.
    pub at: Address,
    /// The key.
    pub key: u32,
}

/// A data node's grant, 104 bytes on the wire: the places of the data and the words, each with a
/// key of its own, and the engine's settings.
///
/// | bytes | what |
/// |---|---|
/// | 7:0 | [`MAGIC`] |
/// | 9:8 | version |
/// | 11:10 | [`Rights`] |
/// | 15:12 | the client's number |
/// | 19:16, 23:20 | keys of the data and of the pool |
/// | 31:24, 39:32 | address and length of the data, in bytes |
/// | 47:40, 55:48, 63:56 | addresses of pool, grant and report |
/// | 67:64, 71:68 | keys of grant and report |
/// | 79:72 | T, in ns |
/// | 87:80 | interval, in ns |
/// | 91:88 | B, in tokens |
/// | 95:92 | L_i, in I/Os of a period; 0 for none |
/// | 97:96 | where FLUSHes may have written data placed: 0 nowhere, 1 global, 3 persistent |
/// | 101:98 | the most bytes of an I/O; 0 for any number, of earlier data nodes |
/// | 103:102 | 0 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The number by which the data node knows the client.
    pub client: u32,
    /// The client's rights on the data.
    pub rights: Rights,
    /// The data.
    pub data: Keyed,
    /// The length of the data in bytes.
    pub length: u64,
    /// The pool of global tokens: for reads and atomics.
    pub pool: Keyed,
    /// The client's grant: for reads.
    pub grant: Keyed,
    /// The client's report: for writes.
    pub report: Keyed,
    /// T: length of a period.
    pub period: Duration,
    /// Time between two reports.
    pub interval: Duration,
    /// B: tokens of a batch.
    pub batch: Tokens,
    /// L_i: the most I/Os in a period.
    pub limit: Option<Tokens>,
    /// The most bytes of an I/O, which takes one token; `None` if the data node does not bound it.
    pub io_bytes: Option<NonZeroU32>,
    /// The placement that FLUSHes can request; `None` if the data node's device does not support
    /// them.
    pub flushes: Option<Placement>,
}

impl Accept {
    /// Makes the bytes. Times beyond 584 years become that long, tokens beyond 2^32 - 1 that many.
    #[must_use]
    pub fn emit(&self) -> [u8; 104] {
        let nanos = |time: Duration| U64::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let tokens = |tokens: Tokens| U32::new(u32::try_from(tokens.0).unwrap_or(u32::MAX));
        let raw = RawAccept {
            head: HEAD,
            rights: U16::new(self.rights.bits()),
            client: U32::new(self.client),
            data_key: U32::new(self.data.key),
            pool_key: U32::new(self.pool.key),
            data: U64::new(self.data.at.0),
            length: U64::new(self.length),
            pool: U64::new(self.pool.at.0),
            grant: U64::new(self.grant.at.0),
            report: U64::new(self.report.at.0),
            grant_key: U32::new(self.grant.key),
            report_key: U32::new(self.report.key),
            period: nanos(self.period),
            interval: nanos(self.interval),
            batch: tokens(self.batch),
            limit: tokens(self.limit.unwrap_or(Tokens::ZERO)),
            placement: U16::new(match self.flushes {
                None => 0,
                Some(Placement::Global) => 1,
                Some(Placement::Persistent) => 3,
            }),
            io_bytes: U32::new(self.io_bytes.map_or(0, NonZeroU32::get)),
            reserved102: [0; 2],
        };
        zerocopy::transmute!(raw)
    }

    /// Reads the bytes.
    ///
    /// # Errors
    ///
    /// [`BadPrivateData`] if the bytes grant nothing usable.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadPrivateData> {
        let raw: RawAccept = read(bytes)?;
        let rights =
            Rights::from_bits(raw.rights.get()).ok_or(BadPrivateData::Field("set of rights"))?;
        let keyed = |at: U64, key: U32| Keyed { at: Address(at.get()), key: key.get() };
        let limit = Some(raw.limit.get()).filter(|limit| *limit != 0);
        let accept = Self {
            client: raw.client.get(),
            rights,
            data: keyed(raw.data, raw.data_key),
            length: raw.length.get(),
            pool: keyed(raw.pool, raw.pool_key),
            grant: keyed(raw.grant, raw.grant_key),
            report: keyed(raw.report, raw.report_key),
            period: Duration::from_nanos(raw.period.get()),
            interval: Duration::from_nanos(raw.interval.get()),
            batch: Tokens(raw.batch.get().into()),
            limit: limit.map(|limit| Tokens(limit.into())),
            io_bytes: NonZeroU32::new(raw.io_bytes.get()),
            flushes: match raw.placement.get() {
                1 => Some(Placement::Global),
                3 => Some(Placement::Persistent),
                // Fields of a later version have no meaning here.
                _ => None,
            },
        };
        let words = [accept.pool, accept.grant, accept.report];
        if words.iter().any(|word| !word.at.0.is_multiple_of(8)) {
            return Err(BadPrivateData::Field("address of a word"));
        }
        if accept.data.at.0.checked_add(accept.length).is_none() {
            return Err(BadPrivateData::Field("length of the data"));
        }
        match accept.settings().check() {
            Ok(()) => Ok(accept),
            Err(_) => Err(BadPrivateData::Field("period, interval or batch")),
        }
    }

    /// Returns the settings of an engine with this grant; its windows are for its user to choose.
    #[must_use]
    pub const fn settings(&self) -> Settings {
        let words = Words { pool: self.pool.at, grant: self.grant.at, report: self.report.at };
        let (period, interval, batch, limit) = (self.period, self.interval, self.batch, self.limit);
        Settings { period, interval, batch, limit, ..Settings::new(words) }
    }
}

/// The refusal of a connection, 12 bytes on the wire: [`MAGIC`], the version, and the reason in two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reject {
    /// The data node does not know the version, or the request makes no sense.
    #[error("the data node does not understand the request")]
    NotUnderstood = 1,
    /// There is no such grant: region, secret or rights are wrong, or it was revoked. Which of these is
    /// not told.
    #[error("there is no such grant: ask for one, or check region, secret and rights")]
    NoGrant = 2,
    /// The grant is in use by another connection.
    #[error("the grant is in use: end the other connection first")]
    InUse = 3,
    /// The data node has no room for one more connection.
    #[error("the data node has no room for one more connection: try again later")]
    NoRoom = 4,
}

impl Reject {
    const ALL: [Self; 4] = [Self::NotUnderstood, Self::NoGrant, Self::InUse, Self::NoRoom];

    /// Makes the bytes.
    #[must_use]
    pub fn emit(self) -> [u8; 12] {
        zerocopy::transmute!(RawReject { head: HEAD, reason: U16::new(self as u16) })
    }

    /// Reads the bytes; `None` if they are no refusal of a data node.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let raw: RawReject = read(bytes).ok()?;
        Self::ALL.into_iter().find(|reason| *reason as u16 == raw.reason.get())
    }
}

#[cfg(test)]
mod tests {
    use fabric::rdma::wire::private_data::{ConnectRequest, QueueLimits, RejectReason};
    use proptest::prelude::*;

    use super::*;

    const REQUEST: Request = Request {
        region: RegionId(1 << 120 | 2),
        secret: Secret(3 << 120 | 4),
        rights: Rights::Read,
    };

    fn accept() -> Accept {
        let keyed = |at, key| Keyed { at: Address(at), key };
        Accept {
            client: 7,
            rights: Rights::ReadWrite,
            data: keyed(0x1000, 11),
            length: 0x2000,
            pool: keyed(0x8000, 12),
            grant: keyed(0x8008, 13),
            report: keyed(0x8010, 14),
            period: Duration::from_secs(1),
            interval: Duration::from_millis(1),
            batch: Tokens(1000),
            limit: None,
            io_bytes: NonZeroU32::new(5 << 16),
            flushes: Some(Placement::Persistent),
        }
    }

    #[test]
    fn fields_lie_where_the_tables_put_them() {
        let request = REQUEST.emit();
        assert_eq!(request[..16], *b"SLUICEPM\x01\x00\x01\x00\x00\x00\x00\x00");
        assert_eq!((request[16], request[31], request[32], request[47]), (2, 1, 4, 3));
        let accept = accept().emit();
        assert_eq!(accept[8..16], [1, 0, 3, 0, 7, 0, 0, 0]);
        let words: Vec<u32> = accept[16..]
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let places = [11, 12, 0x1000, 0, 0x2000, 0, 0x8000, 0, 0x8008, 0, 0x8010, 0, 13, 14];
        assert_eq!(words[..14], places);
        assert_eq!(words[14..], [1_000_000_000, 0, 1_000_000, 0, 1000, 0, 3, 5]);
        assert_eq!(Reject::NoGrant.emit(), *b"SLUICEPM\x01\x00\x02\x00");
    }

    #[test]
    fn requests_differ_from_nvme_rdma() {
        let limits = QueueLimits { admin_entries: u16::MAX, io_entries: u16::MAX };
        let read = ConnectRequest::parse(&[&REQUEST.emit()[..], &[0; 8]].concat(), limits);
        assert_eq!(read, Err(RejectReason::RecordFormat));
        let nvme =
            ConnectRequest { qid: 1.into(), hrqsize: 32.into(), ..ConnectRequest::default() };
        assert!(!is_ours(nvme.as_bytes()) && is_ours(&REQUEST.emit()));
        assert_eq!(Request::parse(nvme.as_bytes()), Err(BadPrivateData::Other));
        assert_eq!(Reject::parse(RejectReason::RecordFormat.private_data().as_bytes()), None);
    }

    #[test]
    fn invalid_private_data_is_refused_with_reason() {
        let mut other = REQUEST.emit();
        other[8] = 2;
        assert_eq!(Request::parse(&other), Err(BadPrivateData::Version(2)));
        let short = BadPrivateData::Short { has: 47, needs: 48 };
        assert_eq!(Request::parse(&REQUEST.emit()[..47]), Err(short));
        for rights in [0, 2, 4, 255] {
            let mut wrong = REQUEST.emit();
            wrong[10] = rights;
            assert_eq!(Request::parse(&wrong), Err(BadPrivateData::Field("set of rights")));
        }
        let refused = |accept: Accept| Accept::parse(&accept.emit()).unwrap_err();
        let word = Keyed { at: Address(12), key: 1 };
        for wrong in [Accept { pool: word, ..accept() }, Accept { report: word, ..accept() }] {
            assert_eq!(refused(wrong), BadPrivateData::Field("address of a word"));
        }
        let beyond = Accept { length: u64::MAX, ..accept() };
        assert_eq!(refused(beyond), BadPrivateData::Field("length of the data"));
        for wrong in [
            Accept { interval: Duration::ZERO, ..accept() },
            Accept { period: Duration::from_micros(1), ..accept() },
            Accept { batch: Tokens::ZERO, ..accept() },
        ] {
            assert_eq!(refused(wrong), BadPrivateData::Field("period, interval or batch"));
        }
    }

    #[test]
    fn a_secret_is_not_written_to_logs() {
        let written = format!("{REQUEST:?} {REQUEST:#?}");
        assert!(!written.contains(&REQUEST.secret.0.to_string()), "{written}");
    }

    fn tokens() -> impl Strategy<Value = Tokens> {
        (1_u64..=i32::MAX as u64).prop_map(Tokens)
    }

    fn word() -> impl Strategy<Value = Keyed> {
        (any::<u64>(), any::<u32>()).prop_map(|(at, key)| Keyed { at: Address(at & !7), key })
    }

    prop_compose! {
        fn any_accept()(
            client: u32, write: bool, data: u64, part in 0.0..1.0_f64, key: u32,
            words in [word(), word(), word()], interval in 1_u64..1 << 40, more in 0_u64..1 << 40,
            batch in tokens(), limit in prop::option::of(tokens()),
            io_bytes: Option<NonZeroU32>,
            flushes in prop::option::of(
                prop_oneof![Just(Placement::Global), Just(Placement::Persistent)],
            ),
        ) -> Accept {
            let [pool, grant, report] = words;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part")]
            let length = ((u64::MAX - data) as f64 * part / 2.0) as u64;
            let rights = if write { Rights::ReadWrite } else { Rights::Read };
            let (interval, period) =
                (Duration::from_nanos(interval), Duration::from_nanos(interval + more));
            let data = Keyed { at: Address(data), key };
            Accept {
                client, rights, data, length, pool, grant, report, period, interval, batch, limit,
                io_bytes, flushes,
            }
        }
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            region: u128, secret: u128, write: bool, accept in any_accept(), pad in 0_usize..100,
        ) {
            let rights = if write { Rights::ReadWrite } else { Rights::Read };
            let request = Request { region: RegionId(region), secret: Secret(secret), rights };
            let padded = |bytes: &[u8]| [bytes, &vec![0; pad]].concat();
            prop_assert_eq!(Request::parse(&padded(&request.emit())), Ok(request));
            prop_assert_eq!(Accept::parse(&padded(&accept.emit())), Ok(accept));
            for reason in Reject::ALL {
                prop_assert_eq!(Reject::parse(&padded(&reason.emit())), Some(reason));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120), ours: bool,
        ) {
            if ours {
                let begin = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
                bytes.splice(..begin.len().min(bytes.len()), begin);
            }
            if let Ok(request) = Request::parse(&bytes) {
                prop_assert_eq!(&request.emit()[..12], &bytes[..12]);
                prop_assert_eq!(&request.emit()[16..], &bytes[16..48]);
            }
            if let Ok(accept) = Accept::parse(&bytes) {
                prop_assert!(accept.settings().check().is_ok());
                prop_assert_eq!(&accept.emit()[..96], &bytes[..96]);
            }
            let _ = Reject::parse(&bytes);
        }
    }
}
