//! The messages between a data node and a client, as the bytes of a SEND.
//!
//! Messages of a data node to a client's engine, [`Message`]:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind: 1 for [`Push`], 2 for [`Ask`], 3 for [`Message::Synced`] |
//! | 1 | of kind 3: 1 where it was done, else 0 |
//! | 3:2 | of kinds 1 and 2: number of the period |
//! | 7:4 | of kind 3: the client's ticket |
//! | 15:8 | of a push: the reservation in tokens; else 0 |
//!
//! Messages of a client, [`Sync`]:
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind: 1 |
//! | 3:1 | 0 |
//! | 7:4 | ticket |
//! | 15:8 | offset of the first byte in the region's data |
//! | 23:16 | number of bytes |
//!
//! Numbers are little-endian. Either side ignores kinds that it does not know.

use pmem::message::{Ask, Push};
use pmem::period::Period;
use pmem::token::Tokens;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number of bytes of a message.
pub const LENGTH: usize = 16;

const PUSH: u8 = 1;
const ASK: u8 = 2;
const SYNCED: u8 = 3;
/// The kind of a [`Sync`].
const SYNC: u8 = 1;

/// A message to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A period begins.
    Push(Push),
    /// Reports are wanted.
    Ask(Ask),
    /// The answer to a [`Sync`].
    Synced {
        /// The client's ticket.
        ticket: u32,
        /// Whether the data survives; if not, the medium has failed, or the client may not write there.
        done: bool,
    },
}

/// A client's request to make its earlier writes to a range durable, as far as the region's kind
/// permits. It follows the writes on the same queue pair, so that their data is there when the data
/// node receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The number that the answer has.
    pub ticket: u32,
    /// Offset of the first byte in the region's data.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    kind: u8,
    done: u8,
    period: U16,
    ticket: U32,
    reservation: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSync {
    kind: u8,
    reserved1: [u8; 3],
    ticket: U32,
    offset: U64,
    length: U64,
}

const _: () = assert!(size_of::<Raw>() == LENGTH);
const _: () = assert!(size_of::<RawSync>() == Sync::LENGTH);

impl Message {
    /// Makes the bytes.
    #[must_use]
    pub fn emit(self) -> [u8; LENGTH] {
        let (kind, done, ticket) = match self {
            Self::Push(_) => (PUSH, false, 0),
            Self::Ask(_) => (ASK, false, 0),
            Self::Synced { ticket, done } => (SYNCED, done, ticket),
        };
        let (period, reservation) = match self {
            Self::Push(push) => (push.period, push.reservation),
            Self::Ask(ask) => (ask.period, Tokens::ZERO),
            Self::Synced { .. } => (Period(0), Tokens::ZERO),
        };
        zerocopy::transmute!(Raw {
            kind,
            done: done.into(),
            period: U16::new(period.0),
            ticket: U32::new(ticket),
            reservation: U64::new(reservation.0),
        })
    }

    /// Reads the bytes; `None` if they are too short, or of an unknown kind.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        let period = Period(raw.period.get());
        match raw.kind {
            PUSH => {
                let reservation = Tokens(raw.reservation.get());
                Some(Self::Push(Push { period, reservation }))
            }
            ASK => Some(Self::Ask(Ask { period })),
            SYNCED => Some(Self::Synced { ticket: raw.ticket.get(), done: raw.done == 1 }),
            _ => None,
        }
    }
}

impl Sync {
    /// The number of bytes of the message.
    pub const LENGTH: usize = 24;

    /// Makes the bytes.
    #[must_use]
    pub fn emit(self) -> [u8; Self::LENGTH] {
        zerocopy::transmute!(RawSync {
            kind: SYNC,
            reserved1: [0; 3],
            ticket: U32::new(self.ticket),
            offset: U64::new(self.offset),
            length: U64::new(self.length),
        })
    }

    /// Reads the bytes; `None` if they are too short, or of an unknown kind.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawSync::read_from_prefix(bytes).ok()?;
        let RawSync { ticket, offset, length, .. } = raw;
        let sync = Self { ticket: ticket.get(), offset: offset.get(), length: length.get() };
        (raw.kind == SYNC).then_some(sync)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_lie_where_the_table_puts_them() {
        let push = Message::Push(Push { period: Period(0x0203), reservation: Tokens(0x0405) });
        assert_eq!(push.emit(), [1, 0, 3, 2, 0, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0]);
        let ask = Message::Ask(Ask { period: Period(9) });
        assert_eq!(ask.emit(), [2, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let synced = Message::Synced { ticket: 0x0607, done: true };
        assert_eq!(synced.emit(), [3, 1, 0, 0, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let sync = Sync { ticket: 0x0102, offset: 0x0304, length: 0x0506 }.emit();
        let bytes = [1, 0, 0, 0, 2, 1, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0];
        assert_eq!(sync, bytes);
        assert_eq!(Message::parse(&[4; 16]), None);
        assert_eq!((Sync::parse(&[2; 24]), Sync::parse(&sync[..23])), (None, None));
        assert_eq!(Message::parse(&ask.emit()[..15]), None);
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            period: u16, reservation: u64, ticket: u32, done: bool, offset: u64, length: u64,
            pad in 0_usize..50,
        ) {
            let period = Period(period);
            let push = Message::Push(Push { period, reservation: Tokens(reservation) });
            for message in [push, Message::Ask(Ask { period }), Message::Synced { ticket, done }] {
                let bytes = [&message.emit()[..], &vec![7; pad]].concat();
                prop_assert_eq!(Message::parse(&bytes), Some(message));
            }
            let sync = Sync { ticket, offset, length };
            let bytes = [&sync.emit()[..], &vec![7; pad]].concat();
            prop_assert_eq!(Sync::parse(&bytes), Some(sync));
        }

        #[test]
        fn any_bytes_are_read_or_ignored(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let known = bytes.len() >= LENGTH && (PUSH..=SYNCED).contains(&bytes[0]);
            prop_assert_eq!(Message::parse(&bytes).is_some(), known);
        }
    }
}
