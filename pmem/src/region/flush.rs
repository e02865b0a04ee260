//! The instructions that write cache lines back to memory.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::medium::{LINE, WORD};

/// An instruction that writes a cache line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// `clwb`: in any order, and the line may stay in the cache.
    Clwb,
    /// `clflushopt`: in any order, and the line leaves the cache.
    ClflushOpt,
    /// `clflush`: one after the other, and the line leaves the cache.
    Clflush,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush => "clflush",
        })
    }
}

/// Words per cache line.
const LINE_WORDS: usize = (LINE / WORD) as usize;

/// Returns the first word of each cache line of some words; `words` begins at a cache line.
fn lines(words: &[AtomicU64], range: Range<usize>) -> impl Iterator<Item = &AtomicU64> {
    let first = range.start / LINE_WORDS * LINE_WORDS;
    let end = range.end.min(words.len());
    words.get(first..end).unwrap_or_default().iter().step_by(LINE_WORDS)
}

#[cfg(target_arch = "x86_64")]
impl Instruction {
    /// Returns the best instruction of this CPU (Intel SDM, CPUID leaf 7: EBX bit 24 CLWB, bit 23
    /// CLFLUSHOPT; leaf 1: EDX bit 19 CLFSH). `None` where it has none.
    #[must_use]
    pub fn best() -> Option<Self> {
        Self::all().next()
    }

    /// Returns the instructions that this CPU has, best first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let leaves = __cpuid(0).eax;
        let first = if leaves >= 1 { __cpuid(1).edx } else { 0 };
        let seventh = if leaves >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        let has = [
            ((seventh >> 24) & 1, Self::Clwb),
            ((seventh >> 23) & 1, Self::ClflushOpt),
            ((first >> 19) & 1, Self::Clflush),
        ];
        has.into_iter().filter(|(has, _)| *has == 1).map(|(_, instruction)| instruction)
    }

    /// Writes the cache lines of some words back; `words` begins at a cache line. They are in memory
    /// after the next [`fence`]. The CPU has the instruction.
    #[inline]
    pub(super) fn flush(self, words: &[AtomicU64], range: Range<usize>) {
        use std::arch::asm;
        for word in lines(words, range) {
            let line = word.as_ptr();
            // SAFETY: the instruction writes back the line of a word that the reference keeps mapped,
            // and changes no value. `best` and `all` return none that the CPU lacks.
            unsafe {
                match self {
                    Self::Clwb => {
                        asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
                    }
                    Self::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                    Self::Clflush => {
                        asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                }
            }
        }
    }
}

/// Waits until the lines that were flushed are in memory.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn fence() {
    // SAFETY: every CPU of this architecture has the instruction, which changes no value.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
impl Instruction {
    /// Returns the best instruction of this CPU: none is used on this architecture.
    #[must_use]
    pub fn best() -> Option<Self> {
        None
    }

    pub(super) fn flush(self, words: &[AtomicU64], range: Range<usize>) {
        debug_assert!(lines(words, range).count() == 0, "`best` never returns an instruction");
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fence() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_range_is_flushed_once() {
        let words: Vec<_> = (0..64).map(AtomicU64::new).collect();
        let flushed = |range| -> Vec<_> {
            lines(&words, range)
                .map(|word| word.load(std::sync::atomic::Ordering::Relaxed))
                .collect()
        };
        assert_eq!(flushed(0..1), [0]);
        assert_eq!(flushed(7..9), [0, 8]);
        assert_eq!(flushed(8..16), [8]);
        assert_eq!(flushed(50..1000), [48, 56]);
        assert_eq!(flushed(100..101), []);
    }
}
