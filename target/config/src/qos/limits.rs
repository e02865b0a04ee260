//! The limits of `[[session]]` and `[[profile]]`.

use std::time::Duration;

use crate::amounts::format_size;
use crate::keys::RATE_MAX;
use arbitration::limit::{Rate, Rates};

use super::lowest::LowestRates;

/// The limits that a session or a profile sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `iops`, `bandwidth`: the most commands and bytes per second.
    pub total: Rates,
    /// `iops_per_gib`, `bandwidth_per_gib`: the most commands and bytes per second for each GiB of
    /// the namespaces whose session it is.
    pub per_gib: Rates,
    /// `read_iops`, `read_bandwidth`: the most commands and bytes per second of commands that do not change blocks.
    pub reads: Rates,
    /// `write_iops`, `write_bandwidth`: the same of commands that change blocks.
    pub writes: Rates,
    /// `burst`: time for which each limit saves credit; `None` means 1 ms.
    pub burst: Option<Duration>,
}

/// Binds the keys of a table; `..limits` stands for the keys of its field `limits`.
macro_rules! table_with_limits {
    ($type:ty, $keys:expr; $($before:literal => $kind:ident $how:tt,)* ..limits, $($($after:tt)+)?) => {
        $crate::table::table! { $type, $keys, nulls = true;
            $($before => $kind $how,)*
            "iops" => field(limits.total.iops),
            "bandwidth" => field(limits.total.bandwidth),
            "iops_per_gib" => field(limits.per_gib.iops),
            "bandwidth_per_gib" => field(limits.per_gib.bandwidth),
            "read_iops" => field(limits.reads.iops),
            "read_bandwidth" => field(limits.reads.bandwidth),
            "write_iops" => field(limits.writes.iops),
            "write_bandwidth" => field(limits.writes.bandwidth),
            "burst" => field(limits.burst),
            $($($after)+)?
        }
    };
}
pub(super) use table_with_limits;

/// A limit that a session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The key that sets the limit.
    pub key: &'static str,
    /// Whether the limit counts bytes; if not, commands.
    pub is_bytes: bool,
    /// The commands or bytes per second.
    pub rate: u64,
    /// The key's value and the size in bytes that it was multiplied by; `None`: the value is the
    /// rate.
    pub per_gib: Option<(u64, u64)>,
}

impl RateLimit {
    /// Writes an amount in the unit of the limit.
    pub fn show(&self, amount: u64) -> String {
        if self.is_bytes { format_size(amount) } else { amount.to_string() }
    }

    /// Writes the key with its value.
    pub fn written(&self) -> String {
        let (key, rate) = (self.key, self.show(self.rate));
        match self.per_gib {
            Some((value, _)) => format!("{key} = {} ({rate} a second)", self.show(value)),
            None => format!("{key} = {rate}"),
        }
    }

    /// Returns the lowest value of the key with which the limit is at least `rate` per second.
    pub fn value_for(&self, rate: u64) -> u64 {
        let Some((_, bytes)) = self.per_gib else { return rate };
        // Products are rounded up.
        let value = u128::from(rate.saturating_sub(1)) * GIB / u128::from(bytes.max(1)) + 1;
        u64::try_from(value).map_or(RATE_MAX, |value| value.min(RATE_MAX))
    }
}

/// Bytes in a GiB.
const GIB: u128 = 1 << 30;

/// The size of a session's namespaces, by which its limits per GiB are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedSize {
    /// In bytes.
    pub bytes: u64,
    /// The lowest rates that a limit may have.
    pub lowest: LowestRates,
}

impl LimitedSize {
    /// Returns the rates of limits per GiB, each from the lowest limit to the highest one.
    fn rates(self, per_gib: Rates) -> Rates {
        let rate = |per_gib: Option<Rate>, lowest: u64| {
            let rate = (u128::from(per_gib?.get()) * u128::from(self.bytes)).div_ceil(GIB);
            let rate = u64::try_from(rate).unwrap_or(RATE_MAX).max(lowest);
            Rate::per_second(rate.clamp(1, RATE_MAX))
        };
        Rates {
            iops: rate(per_gib.iops, self.lowest.commands),
            bandwidth: rate(per_gib.bandwidth, self.lowest.bytes),
        }
    }
}

impl Limits {
    /// Returns these limits, with `other`'s in place of unset ones.
    pub(super) fn or(self, other: Self) -> Self {
        let or = |own: Rates, other: Rates| Rates {
            iops: own.iops.or(other.iops),
            bandwidth: own.bandwidth.or(other.bandwidth),
        };
        Self {
            total: or(self.total, other.total),
            per_gib: or(self.per_gib, other.per_gib),
            reads: or(self.reads, other.reads),
            writes: or(self.writes, other.writes),
            burst: self.burst.or(other.burst),
        }
    }

    /// Returns these limits, each at least one with which a host can work. Limits per GiB are raised where they
    /// are used.
    #[must_use]
    pub fn raised(self, lowest: LowestRates) -> Self {
        let raise = |rate: Option<Rate>, least: u64| {
            rate.and_then(|rate| Rate::per_second(rate.get().max(least).min(RATE_MAX)))
        };
        let of = |rates: Rates| Rates {
            iops: raise(rates.iops, lowest.commands),
            bandwidth: raise(rates.bandwidth, lowest.bytes),
        };
        Self { total: of(self.total), reads: of(self.reads), writes: of(self.writes), ..self }
    }

    /// Returns the first key that sets a limit per GiB.
    pub(crate) fn key_per_gib(&self) -> Option<&'static str> {
        let iops = self.per_gib.iops.map(|_| "iops_per_gib");
        iops.or(self.per_gib.bandwidth.map(|_| "bandwidth_per_gib"))
    }

    /// Returns the limits on all commands. `size` is the size of the session's namespaces; without it, limits per
    /// GiB do not count.
    pub fn total(&self, size: Option<LimitedSize>) -> Rates {
        let sized = size.map_or_else(Rates::default, |size| size.rates(self.per_gib));
        let lower = |one: Option<Rate>, other: Option<Rate>| one.into_iter().chain(other).min();
        Rates {
            iops: lower(self.total.iops, sized.iops),
            bandwidth: lower(self.total.bandwidth, sized.bandwidth),
        }
    }

    /// Lists the limits on rates; `size` as in [`Self::total()`].
    pub fn rate_limits(&self, size: Option<LimitedSize>) -> impl Iterator<Item = RateLimit> {
        let sized = size.map_or_else(Rates::default, |size| size.rates(self.per_gib));
        let value = |value: Option<Rate>| Some((value?.get(), size?.bytes));
        let limit = |key, is_bytes, rate: Option<Rate>, per_gib| {
            Some(RateLimit { key, is_bytes, rate: rate?.get(), per_gib })
        };
        let limits = [
            limit("iops", false, self.total.iops, None),
            limit("bandwidth", true, self.total.bandwidth, None),
            limit("iops_per_gib", false, sized.iops, value(self.per_gib.iops)),
            limit("bandwidth_per_gib", true, sized.bandwidth, value(self.per_gib.bandwidth)),
            limit("read_iops", false, self.reads.iops, None),
            limit("read_bandwidth", true, self.reads.bandwidth, None),
            limit("write_iops", false, self.writes.iops, None),
            limit("write_bandwidth", true, self.writes.bandwidth, None),
        ];
        limits.into_iter().flatten()
    }
}
