//! The choice of completions that a device's profile is made of.

use units::Nanos;

/// The choice of completions for the device's profile: all while there are few, else one in four.
/// Of the others only the worst time counts.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// The present span of time, and the completions in it.
    span: u64,
    seen: u32,
}

impl Samples {
    /// A span is 2^24 ns, about 17 ms; with fewer completions than this in it all are taken.
    const FEW: u32 = 64;
    const SPAN_DIGITS: u32 = 24;
    /// 2^32 over the golden ratio: its multiples go in step with no pattern of commands.
    const STEP: u32 = 0x9e37_79b1;

    #[inline]
    pub(super) fn takes(&mut self, now: Nanos) -> bool {
        let span = now.0 >> Self::SPAN_DIGITS;
        if span != self.span {
            (self.span, self.seen) = (span, 0);
        }
        self.seen = self.seen.wrapping_add(1);
        self.seen <= Self::FEW || self.seen.wrapping_mul(Self::STEP) >> 30 == 0
    }
}
