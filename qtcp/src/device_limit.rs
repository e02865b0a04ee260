//! The limit on a queue pair's sending rate in its device, if supported (docs/research/sources.md, E2): a
//! bound behind the tokens of the target.
//!
//! Tokens decide which class sends next, and how much. Data that they release is posted in one
//! piece, and leaves at the speed of the port. A device with a limit spreads it over time. But its
//! limit counts bytes of the wire, takes a system call to change, and would hold everything back
//! behind the first posted data. So it exceeds the rate of the tokens by more than the headers do,
//! and is changed only if it is clearly off.

use core::num::NonZeroU32;

use crate::Rate;

/// The rates that a device can hold a queue pair to, in kbit/s on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRates {
    /// The least of them.
    pub least: NonZeroU32,
    /// The greatest of them.
    pub most: NonZeroU32,
}

/// The most bytes on the wire for each packet beside its data: Ethernet with a tag (22), IPv6 (40),
/// UDP (8), and of RoCE the header (12), the header of a WRITE (16) and the checksum (4).
const HEADERS: f64 = 102.0;
/// The device's limit where it is set, in times of what tokens let through on the wire.
const ROOM: f64 = 1.5;

/// The limit that a device keeps of one queue pair.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLimit {
    rates: DeviceRates,
    /// Bytes on the wire for each byte of data.
    wire: f64,
    /// The device's present limit, in kbit/s; `None`: no limit.
    set: Option<NonZeroU32>,
}

impl DeviceLimit {
    /// Makes the state of a queue pair without a limit, whose packets have up to `mtu` bytes of data.
    #[must_use]
    pub fn new(rates: DeviceRates, mtu: u32) -> Self {
        Self { rates, wire: 1.0 + HEADERS / f64::from(mtu.max(1)), set: None }
    }

    /// Sets the rate of data at which tokens are spent; `None`: there is no limit. Returns the new setting for the
    /// device if it differs enough from the last one: a limit in kbit/s, or none.
    pub fn change(&mut self, tokens: Option<Rate>) -> Option<Option<NonZeroU32>> {
        let wanted = tokens.and_then(|rate| self.wanted(rate));
        if let (Some(wanted), Some(set)) = (wanted, self.set)
            && is_near(wanted.get().into(), set.get().into())
        {
            return None;
        }
        (wanted != self.set).then(|| {
            self.set = wanted;
            wanted
        })
    }

    /// Computes the limit for a rate of data, in kbit/s, rounded up. A device whose least is more has its
    /// least, for tokens hold the queue pair back further; one whose greatest is less has no limit, for it
    /// would hold back what tokens let through.
    fn wanted(&self, tokens: Rate) -> Option<NonZeroU32> {
        let kbits = (tokens.bits() * self.wire * ROOM / 1000.0).ceil();
        if kbits > f64::from(self.rates.most.get()) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within `most`"
        )]
        let kbits = kbits as u32;
        Some(self.rates.least.max(NonZeroU32::new(kbits).unwrap_or(NonZeroU32::MIN)))
    }

    /// Returns the rate of data at which the device sends now; `None`: as fast as it can.
    #[must_use]
    pub fn data_rate(&self) -> Option<Rate> {
        let kbits = f64::from(self.set?.get());
        Some(Rate::from_bits(kbits * 1000.0 / self.wire))
    }
}

/// Returns whether the present limit is close enough to the wanted one, which has [`ROOM`]: it
/// leaves a quarter more than the tokens' rate, and no more than two and a half times as much.
const fn is_near(wanted: u64, set: u64) -> bool {
    6 * set >= 5 * wanted && 3 * set <= 5 * wanted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rates(least: u32, most: u32) -> DeviceRates {
        DeviceRates { least: NonZeroU32::new(least).unwrap(), most: NonZeroU32::new(most).unwrap() }
    }

    /// Sets a rate of data in bit/s. Returns the device's new limit: 0 for no limit.
    fn told(limit: &mut DeviceLimit, bits: f64) -> Option<u32> {
        let change = limit.change(Some(Rate::from_bits(bits)))?;
        Some(change.map_or(0, NonZeroU32::get))
    }

    #[test]
    fn e2_device_limit_is_wire_kbits_rounded_up() {
        let fresh = || DeviceLimit::new(rates(1000, 100_000_000), 408);
        // A quarter of headers, and half as much again.
        for (bits, kbits) in [
            (1e9, 1_875_000),
            (1e9 + 1.0, 1_875_001),
            (1e6, 1875),
            (1e6 - 1.0, 1875),
            (500_000.0, 1000),
            (1.0, 1000),
            (53e9, 99_375_000),
        ] {
            assert_eq!(told(&mut fresh(), bits), Some(kbits), "{bits} bit/s");
        }
        assert_eq!(told(&mut fresh(), 54e9), None, "more than the device can hold back: no limit");
        let mut limit = fresh();
        assert_eq!((limit.change(None), limit.data_rate()), (None, None), "none at first");
        told(&mut limit, 1e9);
        assert_eq!(limit.data_rate(), Some(Rate::from_bits(1.5e9)));
        assert_eq!(told(&mut limit, 54e9), Some(0));
        told(&mut limit, 1e9);
        assert_eq!(limit.change(None), Some(None), "lifted");
        assert_eq!((limit.change(None), limit.data_rate()), (None, None));
    }

    proptest! {
        /// The device never holds back data released by tokens, and each limit is valid for the
        /// device.
        #[test]
        fn e2_device_limit_exceeds_token_rate(
            (least, most) in (1u32..1_000_000).prop_flat_map(|least| (Just(least), least..=u32::MAX)),
            mtu in prop::sample::select(vec![256u32, 512, 1024, 2048, 4096]),
            bits in prop::collection::vec(prop::option::weighted(0.9, 0.0..1e12), 1..50),
        ) {
            let mut limit = DeviceLimit::new(rates(least, most), mtu);
            let mut device = None;
            for bits in bits {
                let rate = bits.map(Rate::from_bits);
                if let Some(change) = limit.change(rate) {
                    prop_assert_ne!(change, device, "a call that changes nothing");
                    device = change;
                }
                let Some(set) = device else { continue };
                prop_assert!((least..=most).contains(&set.get()));
                let rate = rate.expect("no limit is wanted");
                let data = limit.data_rate().expect("the device has a limit");
                prop_assert!(data.bits() >= 1.24 * rate.bits(), "{data:?} for {rate:?}");
                let wire = rate.bits() / 1000.0 * (1.0 + 102.0 / f64::from(mtu));
                let near = set.get() == least || f64::from(set.get()) <= 2.5 * wire + 2.0;
                prop_assert!(near, "{set} kbit/s for {wire}");
            }
        }

        /// A rate that moves about in a range makes one system call, however often it changes; beyond the range it
        /// makes another.
        #[test]
        fn e2_fluctuating_rate_is_set_once(
            middle in 1e7..1e10,
            moves in prop::collection::vec(0.61..1.19, 1..100),
        ) {
            let mut limit = DeviceLimit::new(rates(1, u32::MAX), 1024);
            prop_assert!(told(&mut limit, middle).is_some());
            for part in moves {
                prop_assert_eq!(told(&mut limit, middle * part), None);
            }
            prop_assert!(told(&mut limit, middle * 1.21).is_some(), "too near to the tokens' rate");
            prop_assert!(told(&mut limit, middle * 0.7).is_some(), "far above");
        }
    }
}
