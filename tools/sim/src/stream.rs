//! The bytes of one direction of a connection that were written and not read yet. Runs of zeroes,
//! which is what all data of a simulation is, are kept as their length.

use std::collections::VecDeque;

use sluice_core::{ZEROES, zeroes};

/// The least number of zeroes in one piece that are kept as their length.
const LEAST: usize = 512;

/// A part of a stream.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// This many bytes, which are kept.
    Bytes(usize),
    /// This many zeroes.
    Zeroes(usize),
}

/// Bytes in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    runs: VecDeque<Run>,
    bytes: VecDeque<u8>,
    length: usize,
}

impl Stream {
    /// Returns how many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.length += bytes.len();
        let are_zeroes =
            bytes.len() >= LEAST && bytes.chunks(ZEROES).all(|part| part == zeroes(part.len()));
        match (self.runs.back_mut(), are_zeroes) {
            (Some(Run::Zeroes(length)), true) => *length += bytes.len(),
            (_, true) => self.runs.push_back(Run::Zeroes(bytes.len())),
            (Some(Run::Bytes(length)), false) => *length += bytes.len(),
            (_, false) => self.runs.push_back(Run::Bytes(bytes.len())),
        }
        if !are_zeroes {
            self.bytes.extend(bytes);
        }
    }

    /// Returns the first bytes, at most as many; all of them may need several calls.
    pub(crate) fn front(&self, most: usize) -> &[u8] {
        match self.runs.front() {
            None => &[],
            Some(Run::Zeroes(length)) => zeroes((*length).min(most)),
            Some(Run::Bytes(length)) => {
                let bytes = self.bytes.as_slices().0;
                bytes.get(..(*length).min(most)).unwrap_or(bytes)
            }
        }
    }

    /// Drops the first bytes, at most as many as there are.
    pub(crate) fn consume(&mut self, bytes: usize) {
        let mut left = bytes.min(self.length);
        self.length -= left;
        while left > 0 {
            let Some(run) = self.runs.front_mut() else { return };
            let (length, kept) = match run {
                Run::Bytes(length) => (length, true),
                Run::Zeroes(length) => (length, false),
            };
            let part = left.min(*length);
            *length -= part;
            left -= part;
            let is_over = *length == 0;
            if kept {
                self.bytes.drain(..part);
            }
            if is_over {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A piece of bytes: zeroes or others.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            (0_usize..300_000).prop_map(|length| vec![0; length]),
            proptest::collection::vec(any::<u8>(), 0..2000),
            (500_usize..3000).prop_map(|length| {
                let mut bytes = vec![0; length];
                bytes[length - 1] = 7;
                bytes
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read(
            pieces in proptest::collection::vec((piece(), 0_usize..400_000), 1..20),
        ) {
            let (mut stream, mut written, mut read) = (Stream::default(), Vec::new(), Vec::new());
            for (piece, most) in pieces {
                stream.push(&piece);
                written.extend_from_slice(&piece);
                let front = stream.front(most).to_vec();
                prop_assert!(front.len() <= most);
                stream.consume(front.len());
                read.extend_from_slice(&front);
                prop_assert_eq!(stream.len(), written.len() - read.len());
            }
            while stream.len() > 0 {
                let front = stream.front(usize::MAX).to_vec();
                prop_assert!(!front.is_empty());
                stream.consume(front.len());
                read.extend_from_slice(&front);
            }
            prop_assert!(read == written);
        }
    }
}
