//! The contents that reads may return: the last acknowledged write, or something that was written
//! meanwhile.

use std::collections::HashMap;

use fabric::Nanos;

/// A promise that the target did not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Simulated time at which the promise was broken.
    pub at: Nanos,
    /// The promise, and what happened instead.
    pub what: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {} ns: {}", self.at.0, self.what)
    }
}

/// One write of a block, or of zeroes to it. Times are counts of steps.
#[derive(Clone, Copy, Debug)]
struct Written {
    content: u64,
    write: u64,
    begun: u64,
    /// Step at which the write was acknowledged; `None`: not acknowledged, or failed, so that it
    /// may reach the device at any time.
    done: Option<u64>,
}

/// A block's contents that a read may see.
#[derive(Debug)]
struct Block(Vec<Written>);

impl Block {
    fn new() -> Self {
        Self(vec![Written { content: 0, write: 0, begun: 0, done: Some(0) }])
    }

    /// Returns a function that says whether a read which began at `since` may see a write. It may not if another
    /// write began after that one was done, and was done before the read began.
    fn seen(&self, since: u64) -> impl Fn(&Written) -> bool + use<> {
        let before = |written: &&Written| written.done.is_some_and(|done| done < since);
        let last = self.0.iter().filter(before).map(|written| written.begun).max().unwrap_or(0);
        move |written| written.done.is_none_or(|done| done >= last)
    }
}

/// The contents of all blocks of all namespaces that a host may see.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    blocks: HashMap<(u32, u64), Block>,
    step: u64,
    writes: u64,
}

impl Oracle {
    /// Returns the present step, and begins the next one.
    pub(crate) fn step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    /// Begins a write of `content` to blocks of a namespace. Returns its name.
    pub(crate) fn begin(&mut self, nsid: u32, lba: u64, blocks: u32, content: u64) -> u64 {
        self.writes += 1;
        let (write, begun) = (self.writes, self.step());
        for lba in lba..lba + u64::from(blocks) {
            let block = self.blocks.entry((nsid, lba)).or_insert_with(Block::new);
            block.0.push(Written { content, write, begun, done: None });
        }
        write
    }

    /// Acknowledges a write; `oldest` returns the step at which the oldest command began that is not
    /// answered yet.
    pub(crate) fn acknowledge(
        &mut self,
        nsid: u32,
        lba: u64,
        blocks: u32,
        write: u64,
        oldest: impl Fn() -> u64,
    ) {
        let done = self.step();
        for lba in lba..lba + u64::from(blocks) {
            let Some(block) = self.blocks.get_mut(&(nsid, lba)) else { continue };
            if let Some(written) = block.0.iter_mut().find(|written| written.write == write) {
                written.done = Some(done);
            }
            if block.0.len() > 16 {
                let seen = block.seen(oldest());
                block.0.retain(seen);
            }
        }
    }

    /// Takes back a write that was refused, and of which no block may ever be seen.
    pub(crate) fn refuse(&mut self, nsid: u32, lba: u64, blocks: u32, write: u64) {
        for lba in lba..lba + u64::from(blocks) {
            if let Some(block) = self.blocks.get_mut(&(nsid, lba)) {
                block.0.retain(|written| written.write != write);
            }
        }
    }

    /// Checks the content that a read which began at `since` found in a block.
    pub(crate) fn check(
        &self,
        nsid: u32,
        lba: u64,
        since: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let content = words.next().unwrap_or(0);
        if words.any(|word| word != content) {
            return Err(format!("block {lba} of namespace {nsid} is of two writes at once"));
        }
        let seen = match self.blocks.get(&(nsid, lba)) {
            Some(block) => {
                let seen = block.seen(since);
                block.0.iter().any(|written| written.content == content && seen(written))
            }
            None => content == 0,
        };
        let what = || format!("block {lba} of namespace {nsid} holds {content:#x}, too old or new");
        seen.then_some(()).ok_or_else(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(content: u64) -> Vec<u8> {
        content.to_le_bytes().repeat(64)
    }

    #[test]
    fn a_read_may_see_what_was_written_meanwhile_and_nothing_older() {
        let mut oracle = Oracle::default();
        let seen = |oracle: &Oracle, since| {
            [0, 7, 8, 9].map(|content| oracle.check(1, 0, since, &holds(content)).is_ok())
        };
        let first = oracle.begin(1, 0, 1, 7);
        oracle.acknowledge(1, 0, 1, first, || 0);
        let early = oracle.step();
        let second = oracle.begin(1, 0, 1, 8);
        assert_eq!(seen(&oracle, early), [false, true, true, false]);
        oracle.acknowledge(1, 0, 1, second, || 0);
        let late = oracle.step();
        assert_eq!(seen(&oracle, early), [false, true, true, false], "it began before");
        assert_eq!(seen(&oracle, late), [false, false, true, false]);
        let refused = oracle.begin(1, 0, 1, 9);
        oracle.refuse(1, 0, 1, refused);
        assert_eq!(seen(&oracle, late), [false, false, true, false]);
        let mut torn = holds(8);
        torn[8] = 9;
        assert!(oracle.check(1, 0, late, &torn).is_err());
        assert!(oracle.check(1, 5, late, &holds(0)).is_ok());
    }
}
