//! The measurements of a run.

use std::ops::Range;

use super::time::{Time, seconds};

/// A transfer that is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The time at which the sender got the transfer.
    pub(crate) given: Time,
    /// The time at which the last byte was acknowledged.
    pub(crate) time: Time,
    pub(crate) flow: u32,
}

/// The completed transfers and the bytes of a run.
#[derive(Debug)]
pub(crate) struct Record {
    /// The length of a bin, in which bytes are counted together.
    bin: Time,
    /// The bytes of payload that were acknowledged, for each flow and bin.
    bytes: Vec<Vec<u64>>,
    bins: usize,
    pub(crate) completions: Vec<Completion>,
}

impl Record {
    /// Makes the record of a run until `end`, with bins of `bin`.
    pub(crate) fn new(end: Time, bin: Time) -> Self {
        let bin = bin.max(1);
        let bins = usize::try_from(end / bin + 1).unwrap_or(1);
        Self { bin, bytes: Vec::new(), bins, completions: Vec::new() }
    }

    pub(super) fn flow(&mut self) {
        self.bytes.push(vec![0; self.bins]);
    }

    #[inline]
    pub(super) fn delivered(&mut self, now: Time, flow: usize, bytes: u32) {
        let bin = usize::try_from(now / self.bin).unwrap_or(usize::MAX);
        if let Some(bin) = self.bytes.get_mut(flow).and_then(|bins| bins.get_mut(bin)) {
            *bin += u64::from(bytes);
        }
    }

    /// Computes the rate of a flow in bits of payload per second, over the bins that begin between
    /// two times.
    pub(crate) fn rate(&self, flow: usize, from: Time, until: Time) -> f64 {
        let Some(bins) = self.bytes.get(flow) else { return 0.0 };
        let first = usize::try_from(from.div_ceil(self.bin)).unwrap_or(usize::MAX);
        let last = usize::try_from(until.div_ceil(self.bin)).unwrap_or(usize::MAX);
        let counted = last.min(bins.len()).saturating_sub(first);
        let bytes: u64 = bins.iter().skip(first).take(counted).sum();
        let time = seconds(self.bin) * counted as f64;
        if time > 0.0 { bytes as f64 * 8.0 / time } else { 0.0 }
    }

    /// Computes the rate of these flows together.
    pub(crate) fn rates(&self, flows: Range<u32>, from: Time, until: Time) -> f64 {
        flows.map(|flow| self.rate(flow as usize, from, until)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::MILLI;
    use super::*;

    #[test]
    fn rates_are_those_of_the_bins_within() {
        let mut record = Record::new(10 * MILLI, MILLI);
        record.flow();
        (0..10u32)
            .for_each(|milli| record.delivered(u64::from(milli) * MILLI + 1, 0, 1000 * milli));
        assert_eq!(record.rate(0, 2 * MILLI, 4 * MILLI), 2500.0 * 8e3);
        assert_eq!(record.rate(0, 4 * MILLI, 4 * MILLI), 0.0);
        record.delivered(99 * MILLI, 0, 1);
        record.delivered(0, 7, 1);
    }
}
