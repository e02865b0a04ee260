//! The messages that a data node sends to a client's engine, as the bytes of a SEND.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | kind: 1 for [`Push`], 2 for [`Ask`] |
//! | 1 | 0 |
//! | 3:2 | number of the period |
//! | 7:4 | 0 |
//! | 15:8 | of a push: the reservation in tokens; else 0 |
//!
//! Numbers are little-endian. A client ignores kinds that it does not know.

use pmem::message::{Ask, Push};
use pmem::period::Period;
use pmem::token::Tokens;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The number of bytes of a message.
pub const LENGTH: usize = 16;

const PUSH: u8 = 1;
const ASK: u8 = 2;

/// A message to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A period begins.
    Push(Push),
    /// Reports are wanted.
    Ask(Ask),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    kind: u8,
    reserved1: u8,
    period: U16,
    reserved4: [u8; 4],
    reservation: U64,
}

const _: () = assert!(size_of::<Raw>() == LENGTH);

impl Message {
    /// Makes the bytes.
    #[must_use]
    pub fn emit(self) -> [u8; LENGTH] {
        let (kind, period, reservation) = match self {
            Self::Push(push) => (PUSH, push.period, push.reservation),
            Self::Ask(ask) => (ASK, ask.period, Tokens::ZERO),
        };
        zerocopy::transmute!(Raw {
            kind,
            reserved1: 0,
            period: U16::new(period.0),
            reserved4: [0; 4],
            reservation: U64::new(reservation.0),
        })
    }

    /// Reads the bytes; `None` for what is too short, or of a kind that is not known.
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
            _ => None,
        }
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
        assert_eq!(Message::parse(&[3; 16]), None);
        assert_eq!(Message::parse(&ask.emit()[..15]), None);
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(period: u16, reservation: u64, pad in 0_usize..50) {
            let period = Period(period);
            let push = Message::Push(Push { period, reservation: Tokens(reservation) });
            for message in [push, Message::Ask(Ask { period })] {
                let bytes = [&message.emit()[..], &vec![7; pad]].concat();
                prop_assert_eq!(Message::parse(&bytes), Some(message));
            }
        }

        #[test]
        fn any_bytes_are_read_or_ignored(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let known = bytes.len() >= LENGTH && (bytes[0] == PUSH || bytes[0] == ASK);
            prop_assert_eq!(Message::parse(&bytes).is_some(), known);
        }
    }
}
