//! A model of a CPU's cache over persistent memory, which loses as much as the rules of
//! [`medium`](super) allow. No emulator loses cache lines, so this is what code is tested on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::{LINE, Medium, WORD};

/// The values of a word that may survive a cut, beside the settled one.
#[derive(Clone, Debug, Default)]
struct Unsettled {
    /// Values in the order in which they were stored.
    values: Vec<u64>,
    /// For each thread that has flushed the word's line since its last fence: the number of values
    /// that were stored before.
    flushed: Vec<(ThreadId, usize)>,
}

impl Unsettled {
    /// Notes that a thread flushes the word's line.
    fn flush(&mut self, thread: ThreadId) {
        self.flushed.retain(|(other, _)| *other != thread);
        self.flushed.push((thread, self.values.len()));
    }

    /// Removes the values that a thread's fence settles, and returns the last of them.
    fn fence(&mut self, thread: ThreadId) -> Option<u64> {
        let place = self.flushed.iter().position(|(flusher, _)| *flusher == thread)?;
        let (_, settled) = self.flushed.swap_remove(place);
        for (_, others) in &mut self.flushed {
            *others = others.saturating_sub(settled);
        }
        self.values.drain(..settled).next_back()
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Words on the medium by their place; missing words are zero.
    settled: BTreeMap<u64, u64>,
    /// Words in the cache, or on their way from there.
    unsettled: BTreeMap<u64, Unsettled>,
    /// The number of stores, flushes and fences until now.
    steps: u64,
    /// The number of steps after which the power fails.
    cut: Option<u64>,
    /// Whether flushes and fences do nothing.
    unordered: bool,
}

impl State {
    /// Counts a step. Returns whether the machine still runs.
    fn step(&mut self) -> bool {
        let runs = self.runs();
        self.steps += u64::from(runs);
        runs
    }

    fn runs(&self) -> bool {
        self.cut.is_none_or(|cut| self.steps < cut)
    }

    fn load(&self, at: u64) -> u64 {
        let unsettled = self.unsettled.get(&at).and_then(|word| word.values.last());
        *unsettled.or_else(|| self.settled.get(&at)).unwrap_or(&0)
    }

    fn store(&mut self, at: u64, word: u64) {
        if self.step() {
            self.unsettled.entry(at).or_default().values.push(word);
        }
    }
}

/// A medium whose power can fail at any store, flush or fence.
#[derive(Debug)]
pub(crate) struct Model {
    bytes: u64,
    state: Mutex<State>,
}

impl Model {
    /// Makes a medium of zeroes; `bytes` is rounded down to whole words.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes: bytes / WORD * WORD, state: Mutex::default() }
    }

    /// Schedules a power failure after `steps` more stores, flushes and fences. Later calls have no
    /// effect.
    pub(crate) fn cut_after(&self, steps: u64) {
        let mut state = self.state();
        state.cut = Some(state.steps.saturating_add(steps));
    }

    /// Sets whether flushes and fences do nothing, as in the page cache of a file.
    pub(crate) fn set_unordered(&self, unordered: bool) {
        self.state().unordered = unordered;
    }

    /// Returns whether the power has failed.
    pub(crate) fn is_cut(&self) -> bool {
        !self.state().runs()
    }

    /// Writes back the whole cache, as `fsync` does for a file's pages.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if !state.step() {
            return;
        }
        let State { settled, unsettled, .. } = &mut *state;
        for (at, word) in std::mem::take(unsettled) {
            settled.extend(word.values.last().map(|value| (at, *value)));
        }
    }

    /// Returns the medium as it may be after a cut. For each word that may have several values,
    /// `choose` is called with the values after the settled one in the order of their stores, the
    /// number of them, and returns how many of them reached the medium.
    pub(crate) fn survivor(&self, mut choose: impl FnMut(u64, usize) -> usize) -> Self {
        let state = self.state();
        let mut settled = state.settled.clone();
        for (at, word) in &state.unsettled {
            let reached = choose(*at, word.values.len());
            let value = reached.checked_sub(1).and_then(|last| word.values.get(last));
            settled.extend(value.map(|value| (*at, *value)));
        }
        Self { bytes: self.bytes, state: Mutex::new(State { settled, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the places of the words in a range, without those beyond the end.
    fn places(&self, at: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let Range { start, end } = at..at.saturating_add(bytes).min(self.bytes);
        (start..end).step_by(8)
    }
}

impl Medium for Model {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn load(&self, at: u64) -> u64 {
        self.state().load(at)
    }

    fn store(&self, at: u64, word: u64) {
        if at < self.bytes {
            self.state().store(at, word);
        }
    }

    fn exchange(&self, at: u64, old: u64, new: u64) -> Result<(), u64> {
        let mut state = self.state();
        match state.load(at) {
            // A machine without power goes on, as far as its code can tell.
            _ if !state.runs() => Ok(()),
            now if now == old => {
                state.store(at, new);
                Ok(())
            }
            now => Err(now),
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        for (at, word) in self.places(at, into.len() as u64).zip(into.chunks_exact_mut(8)) {
            word.copy_from_slice(&self.load(at).to_le_bytes());
        }
    }

    fn write(&self, at: u64, from: &[u8]) {
        for (at, word) in self.places(at, from.len() as u64).zip(from.as_chunks().0) {
            self.store(at, u64::from_le_bytes(*word));
        }
    }

    fn flush(&self, at: u64, bytes: u64) {
        let mut state = self.state();
        if state.unordered || !state.step() {
            return;
        }
        let lines = at / LINE * LINE..at.saturating_add(bytes).div_ceil(LINE) * LINE;
        for (_, word) in state.unsettled.range_mut(lines) {
            word.flush(thread::current().id());
        }
    }

    fn fence(&self) {
        let mut state = self.state();
        if state.unordered || !state.step() {
            return;
        }
        let State { settled, unsettled, .. } = &mut *state;
        unsettled.retain(|at, word| {
            settled.extend(word.fence(thread::current().id()).map(|value| (*at, value)));
            !word.values.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the values that a word may have after a cut.
    fn may_be(model: &Model, at: u64) -> Vec<u64> {
        let mut count = 0;
        let _ = model.survivor(|place, values| {
            count = if place == at { values } else { count };
            0
        });
        (0..=count)
            .map(|reached| {
                let chosen = |place, _| if place == at { reached } else { 0 };
                model.survivor(chosen).load(at)
            })
            .collect()
    }

    #[test]
    fn only_flushed_and_fenced_stores_survive() {
        let model = Model::new(256);
        model.store(0, 1);
        model.store(64, 2);
        model.flush(0, 8);
        assert_eq!(may_be(&model, 0), [0, 1], "without a fence a flush promises nothing");
        thread::scope(|scope| scope.spawn(|| model.fence()).join().unwrap());
        assert_eq!(may_be(&model, 0), [0, 1], "a fence is of the thread that flushed");
        model.store(0, 3);
        model.fence();
        assert_eq!(may_be(&model, 0), [1, 3], "what came after the flush is not settled");
        assert_eq!(may_be(&model, 64), [0, 2], "another line was not flushed");
        model.flush(8, 8);
        model.fence();
        assert_eq!(may_be(&model, 0), [3], "a flush takes the whole line");
        model.settle();
        assert_eq!(may_be(&model, 64), [2]);
    }

    #[test]
    fn a_cut_ends_a_write_between_any_two_words() {
        let model = Model::new(64);
        model.cut_after(2);
        model.write(0, &[7; 32]);
        model.fence();
        assert!(model.is_cut());
        let after = model.survivor(|_, values| values);
        let mut seen = [1; 32];
        after.read(0, &mut seen);
        assert_eq!(seen, [[7; 16], [0; 16]].as_flattened());
    }

    #[test]
    fn a_word_stored_twice_may_have_either_value() {
        let model = Model::new(64);
        model.store(8, 1);
        assert_eq!(model.exchange(8, 1, 2), Ok(()));
        assert_eq!(model.exchange(8, 1, 3), Err(2));
        assert_eq!(may_be(&model, 8), [0, 1, 2]);
    }
}
