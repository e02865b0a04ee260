//! The Diffie-Hellman groups of DH-HMAC-CHAP: none, and the finite field groups of RFC 7919.

use core::fmt;
use std::sync::LazyLock;

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{U512, U2048, U3072, U4096, U6144, U8192, Uint};
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
pub struct Exponent(U512);

impl Exponent {
    /// Makes an exponent of random bytes.
    #[must_use]
    pub fn new(random: &[u8; EXPONENT_BYTES]) -> Self {
        Self(U512::from_be_slice(random))
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

/// A Diffie-Hellman group (DHgID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// 00h: none. The challenges are used as they are.
    Null,
    /// 01h: ffdhe2048.
    Ffdhe2048,
    /// 02h: ffdhe3072.
    Ffdhe3072,
    /// 03h: ffdhe4096.
    Ffdhe4096,
    /// 04h: ffdhe6144.
    Ffdhe6144,
    /// 05h: ffdhe8192.
    Ffdhe8192,
}

impl Group {
    /// All of them, by their identifiers.
    pub const ALL: [Self; 6] = [
        Self::Null,
        Self::Ffdhe2048,
        Self::Ffdhe3072,
        Self::Ffdhe4096,
        Self::Ffdhe6144,
        Self::Ffdhe8192,
    ];
    /// The length of the longest value, in bytes.
    pub const LONGEST: usize = 1024;

    /// Returns DHgID.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Ffdhe2048 => 1,
            Self::Ffdhe3072 => 2,
            Self::Ffdhe4096 => 3,
            Self::Ffdhe6144 => 4,
            Self::Ffdhe8192 => 5,
        }
    }

    /// Returns the group with that DHgID.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.id() == id)
    }

    /// Returns the name, as the configuration has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Ffdhe2048 => "ffdhe2048",
            Self::Ffdhe3072 => "ffdhe3072",
            Self::Ffdhe4096 => "ffdhe4096",
            Self::Ffdhe6144 => "ffdhe6144",
            Self::Ffdhe8192 => "ffdhe8192",
        }
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
        match self {
            Self::Null => Vec::new(),
            Self::Ffdhe2048 => public(&FFDHE2048, exponent),
            Self::Ffdhe3072 => public(&FFDHE3072, exponent),
            Self::Ffdhe4096 => public(&FFDHE4096, exponent),
            Self::Ffdhe6144 => public(&FFDHE6144, exponent),
            Self::Ffdhe8192 => public(&FFDHE8192, exponent),
        }
    }

    /// Computes the value that an exponent and a peer's public value have in common, big-endian, as
    /// long as [`Self::length`]; empty for no group. `None` where the peer's value y is not as long,
    /// or not 1 < y < p - 1. This takes milliseconds.
    #[must_use]
    pub fn shared(self, exponent: &Exponent, peer: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if peer.len() != self.length() {
            return None;
        }
        match self {
            Self::Null => Some(Zeroizing::default()),
            Self::Ffdhe2048 => shared(&FFDHE2048, exponent, peer),
            Self::Ffdhe3072 => shared(&FFDHE3072, exponent, peer),
            Self::Ffdhe4096 => shared(&FFDHE4096, exponent, peer),
            Self::Ffdhe6144 => shared(&FFDHE6144, exponent, peer),
            Self::Ffdhe8192 => shared(&FFDHE8192, exponent, peer),
        }
    }
}

/// A group's prime, prepared for exponentiations.
type Field<const LIMBS: usize> = LazyLock<FixedMontyParams<LIMBS>>;

static FFDHE2048: Field<{ U2048::LIMBS }> = LazyLock::new(|| FixedMontyParams::new_vartime(P2048));
static FFDHE3072: Field<{ U3072::LIMBS }> = LazyLock::new(|| FixedMontyParams::new_vartime(P3072));
static FFDHE4096: Field<{ U4096::LIMBS }> = LazyLock::new(|| FixedMontyParams::new_vartime(P4096));
static FFDHE6144: Field<{ U6144::LIMBS }> = LazyLock::new(|| FixedMontyParams::new_vartime(P6144));
static FFDHE8192: Field<{ U8192::LIMBS }> = LazyLock::new(|| FixedMontyParams::new_vartime(P8192));

fn public<const LIMBS: usize>(field: &FixedMontyParams<LIMBS>, exponent: &Exponent) -> Vec<u8> {
    power(field, &Uint::from(GENERATOR), exponent).to_vec()
}

fn shared<const LIMBS: usize>(
    field: &FixedMontyParams<LIMBS>,
    exponent: &Exponent,
    peer: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let peer = Uint::<LIMBS>::from_be_slice(peer);
    let last = field.modulus().as_ref().wrapping_sub(&Uint::ONE);
    // The peer's value is public: how long the comparison takes tells nothing.
    (peer > Uint::ONE && peer < last).then(|| power(field, &peer, exponent))
}

/// Computes a power, in a time that depends on the field alone.
fn power<const LIMBS: usize>(
    field: &FixedMontyParams<LIMBS>,
    base: &Uint<LIMBS>,
    exponent: &Exponent,
) -> Zeroizing<Vec<u8>> {
    let base = FixedMontyForm::new(base, field);
    let mut power = base.pow_bounded_exp(&exponent.0, EXPONENT_BITS);
    let mut value = power.retrieve();
    let bytes = Zeroizing::new(value.to_be_bytes().as_ref().to_vec());
    power.zeroize();
    value.zeroize();
    bytes
}
