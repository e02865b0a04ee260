//! The Diffie-Hellman groups of DH-HMAC-CHAP: none, and the finite field groups of RFC 7919.

use core::fmt;
use std::sync::LazyLock;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::{Zeroize, Zeroizing};

use super::primes::{P2048, P3072, P4096, P6144, P8192};

/// The length of a secret exponent in bytes: 512 bits. RFC 7919, section 5.2, asks for 225 bits
/// (ffdhe2048) to 400 (ffdhe8192). The time of an exponentiation grows with this bound and tells no
/// more of the exponent.
pub const EXPONENT_BYTES: usize = 64;
/// The same, in bits.
const EXPONENT_BITS: u32 = 512;
/// The generator of all groups.
const GENERATOR: u8 = 2;

/// A secret exponent. Its memory is cleared when it is dropped.
#[derive(Clone)]
pub struct Exponent(BoxedUint);

impl Exponent {
    /// Makes an exponent of random bytes.
    #[must_use]
    pub fn new(random: &[u8; EXPONENT_BYTES]) -> Self {
        Self(BoxedUint::from_be_slice_truncated(random, EXPONENT_BITS))
    }
}

impl Drop for Exponent {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Exponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exponent(..)")
    }
}

units::named! {
    /// A Diffie-Hellman group (DHgID).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Group {
        /// 00h: none. The challenges are used as they are.
        Null = 0 => "null",
        /// 01h: ffdhe2048.
        Ffdhe2048 = 1 => "ffdhe2048",
        /// 02h: ffdhe3072.
        Ffdhe3072 = 2 => "ffdhe3072",
        /// 03h: ffdhe4096.
        Ffdhe4096 = 3 => "ffdhe4096",
        /// 04h: ffdhe6144.
        Ffdhe6144 = 4 => "ffdhe6144",
        /// 05h: ffdhe8192.
        Ffdhe8192 = 5 => "ffdhe8192",
    }
}

impl Group {
    /// The length of the longest value, in bytes.
    pub const LONGEST: usize = 1024;

    /// Returns DHgID.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the group with that DHgID.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.id() == id)
    }

    /// Returns the length of a value (DHVLEN), in bytes.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 256,
            Self::Ffdhe3072 => 384,
            Self::Ffdhe4096 => 512,
            Self::Ffdhe6144 => 768,
            Self::Ffdhe8192 => 1024,
        }
    }

    /// Computes the public value of an exponent, big-endian, as long as [`Self::length`]; empty for
    /// no group. This takes milliseconds.
    #[must_use]
    pub fn public(self, exponent: &Exponent) -> Vec<u8> {
        let Some(field) = self.field() else { return Vec::new() };
        let base = BoxedUint::from_be_slice_truncated(&[GENERATOR], field.bits_precision());
        power(field, base, exponent).to_vec()
    }

    /// Computes the value that an exponent and a peer's public value have in common, big-endian, as
    /// long as [`Self::length`]; empty for no group. `None` where the peer's value y is not as long,
    /// or not 1 < y < p - 1. This takes milliseconds.
    #[must_use]
    pub fn shared(self, exponent: &Exponent, peer: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if peer.len() != self.length() {
            return None;
        }
        let Some(field) = self.field() else { return Some(Zeroizing::default()) };
        let bits = field.bits_precision();
        let peer = BoxedUint::from_be_slice_truncated(peer, bits);
        let one = BoxedUint::one_with_precision(bits);
        let last = field.modulus().as_ref().wrapping_sub(&one);
        // The peer's value is public: how long the comparison takes tells nothing.
        (peer > one && peer < last).then(|| power(field, peer, exponent))
    }

    /// Returns the prime field, prepared for exponentiations.
    fn field(self) -> Option<&'static BoxedMontyParams> {
        static FFDHE2048: LazyLock<BoxedMontyParams> = LazyLock::new(|| prepare(&P2048));
        static FFDHE3072: LazyLock<BoxedMontyParams> = LazyLock::new(|| prepare(&P3072));
        static FFDHE4096: LazyLock<BoxedMontyParams> = LazyLock::new(|| prepare(&P4096));
        static FFDHE6144: LazyLock<BoxedMontyParams> = LazyLock::new(|| prepare(&P6144));
        static FFDHE8192: LazyLock<BoxedMontyParams> = LazyLock::new(|| prepare(&P8192));
        match self {
            Self::Null => None,
            Self::Ffdhe2048 => Some(&FFDHE2048),
            Self::Ffdhe3072 => Some(&FFDHE3072),
            Self::Ffdhe4096 => Some(&FFDHE4096),
            Self::Ffdhe6144 => Some(&FFDHE6144),
            Self::Ffdhe8192 => Some(&FFDHE8192),
        }
    }
}

/// Prepares a field whose prime has a length of its own. Numbers are on the heap, so that one
/// exponentiation is compiled for all groups.
fn prepare<'p, P>(prime: &'p P) -> BoxedMontyParams
where
    Odd<BoxedUint>: From<&'p P>,
{
    BoxedMontyParams::new_vartime(prime.into())
}

/// Computes a power, in a time that depends on the field alone.
fn power(field: &BoxedMontyParams, base: BoxedUint, exponent: &Exponent) -> Zeroizing<Vec<u8>> {
    let mut power = BoxedMontyForm::new(base, field).pow_bounded_exp(&exponent.0, EXPONENT_BITS);
    let mut value = power.retrieve();
    let bytes = Zeroizing::new(value.to_be_bytes().into_vec());
    power.zeroize();
    value.zeroize();
    bytes
}
