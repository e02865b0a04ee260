//! The words of a data node, in memory of the process.

use crate::one_sided::{Address, Failed, Operation};

/// The size of a word in bytes.
const WORD: u64 = 8;

/// The words from address 0 on, each 0 at first.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Vec<u64>,
}

impl Memory {
    /// Makes a memory of `words` words.
    #[must_use]
    pub fn new(words: usize) -> Self {
        Self { words: vec![0; words] }
    }

    /// Returns the address of the word with this index.
    #[must_use]
    pub fn address(index: usize) -> Address {
        Address(u64::try_from(index).unwrap_or(u64::MAX).saturating_mul(WORD))
    }

    /// Returns a word; `None` where there is none, or the address is no multiple of 8.
    #[must_use]
    pub fn get(&self, at: Address) -> Option<u64> {
        self.words.get(Self::index(at)?).copied()
    }

    /// Writes a word. Does nothing where there is none.
    pub fn set(&mut self, at: Address, word: u64) {
        if let Some(place) = Self::index(at).and_then(|index| self.words.get_mut(index)) {
            *place = word;
        }
    }

    /// Carries out an operation and returns the word that there was before it; for a write, the
    /// word written.
    ///
    /// # Errors
    ///
    /// [`Failed::Refused`] where there is no such word.
    pub fn carry_out(&mut self, operation: Operation) -> Result<u64, Failed> {
        let at = match operation {
            Operation::Read { at }
            | Operation::Write { at, .. }
            | Operation::FetchAdd { at, .. }
            | Operation::CompareSwap { at, .. } => at,
        };
        let index = Self::index(at).ok_or(Failed::Refused)?;
        let place = self.words.get_mut(index).ok_or(Failed::Refused)?;
        let before = *place;
        match operation {
            Operation::Read { .. } => {}
            Operation::Write { word, .. } => {
                *place = word;
                return Ok(word);
            }
            Operation::FetchAdd { add, .. } => *place = before.wrapping_add_signed(add),
            Operation::CompareSwap { expected, new, .. } if before == expected => *place = new,
            Operation::CompareSwap { .. } => {}
        }
        Ok(before)
    }

    fn index(at: Address) -> Option<usize> {
        at.0.is_multiple_of(WORD).then(|| usize::try_from(at.0 / WORD).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_words_are_refused() {
        let mut memory = Memory::new(2);
        for at in [Address(3), Address(16), Address(u64::MAX)] {
            assert_eq!(memory.carry_out(Operation::Read { at }), Err(Failed::Refused));
            assert_eq!(memory.get(at), None);
            memory.set(at, 1);
        }
    }
}
