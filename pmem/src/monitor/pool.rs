//! The pool of global tokens, as its keeper sees it.
//!
//! Clients take tokens by fetch-and-add at any time. So the monitor reads the word by
//! compare-and-swap (step S1 of Fig. 5), and changes it in the same way: tokens that were fetched in
//! between are not handed out again. Only at a period's start is it written, since the tokens of the
//! period before are worth nothing any more.

use crate::one_sided::{Address, Completion, Operation, Ticket};
use crate::period::Period;
use crate::token::Tokens;
use crate::word::PoolWord;

/// The most attempts at one change. After them the next check tries again.
const ATTEMPTS: u32 = 3;

/// A compare-and-swap under way.
#[derive(Clone, Copy, Debug)]
struct Swap {
    ticket: Ticket,
    new: PoolWord,
    /// The tokens that the pool should have, where it is not only read.
    target: Option<Tokens>,
    attempts: u32,
}

/// The news of a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// The found word and the expected one.
    pub(super) found: Option<(PoolWord, PoolWord)>,
    /// The next operation.
    pub(super) post: Option<(Ticket, Operation)>,
}

/// The keeper of the pool's word.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    at: Address,
    /// Number of operations that were begun.
    begun: u64,
    /// The word as it was last.
    known: PoolWord,
    /// The write of the period's start under way.
    write: Option<Ticket>,
    /// Whether the period's start was written.
    written: bool,
    swap: Option<Swap>,
}

impl Pool {
    pub(super) const fn new(at: Address, period: Period) -> Self {
        let known = PoolWord { period, tokens: 0 };
        Self { at, begun: 0, known, write: None, written: false, swap: None }
    }

    /// Begins a period with so many tokens.
    pub(super) fn begin(&mut self, period: Period, tokens: Tokens) -> (Ticket, Operation) {
        self.known = PoolWord::new(period, tokens);
        self.swap = None;
        self.rewrite()
    }

    /// Reads the word, and makes it `target` where there is one. `None` while something is under
    /// way.
    pub(super) fn check(&mut self, target: Option<Tokens>) -> Option<(Ticket, Operation)> {
        match (&mut self.swap, self.write) {
            (_, Some(_)) => None,
            (_, None) if !self.written => Some(self.rewrite()),
            (Some(swap), None) => {
                swap.target = target.or(swap.target);
                None
            }
            (None, None) => Some(self.begin_swap(target, 1)),
        }
    }

    pub(super) fn completed(&mut self, completion: Completion) -> News {
        let Completion { ticket, result } = completion;
        if self.write == Some(ticket) {
            self.write = None;
            self.written = result.is_ok();
            return News::default();
        }
        let Some(swap) = self.swap.take_if(|swap| swap.ticket == ticket) else {
            return News::default();
        };
        let Ok(word) = result else { return News::default() };
        let (found, expected) = (PoolWord::unpack(word), self.known);
        if found == expected {
            self.known = swap.new;
            return News { found: Some((found, expected)), post: None };
        }
        let post = if found.period == expected.period {
            self.known = found;
            let again = swap.target.is_some() && swap.attempts < ATTEMPTS;
            again.then(|| self.begin_swap(swap.target, swap.attempts + 1))
        } else {
            // The word has a value that no fetch-and-add of tokens leads to.
            Some(self.rewrite())
        };
        News { found: Some((found, expected)), post }
    }

    /// Writes the word that is known.
    fn rewrite(&mut self) -> (Ticket, Operation) {
        let ticket = self.ticket();
        (self.write, self.written) = (Some(ticket), false);
        (ticket, Operation::Write { at: self.at, word: self.known.pack() })
    }

    fn begin_swap(&mut self, target: Option<Tokens>, attempts: u32) -> (Ticket, Operation) {
        let ticket = self.ticket();
        let new = target.map_or(self.known, |tokens| PoolWord::new(self.known.period, tokens));
        self.swap = Some(Swap { ticket, new, target, attempts });
        let (expected, new) = (self.known.pack(), new.pack());
        (ticket, Operation::CompareSwap { at: self.at, expected, new })
    }

    const fn ticket(&mut self) -> Ticket {
        self.begun = self.begun.wrapping_add(1);
        Ticket(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::Memory;
    use crate::one_sided::Failed;

    const AT: Address = Address(0);

    fn done(
        pool: &mut Pool,
        memory: &mut Memory,
        (ticket, operation): (Ticket, Operation),
    ) -> News {
        let result = memory.carry_out(operation);
        pool.completed(Completion { ticket, result })
    }

    fn fetch(memory: &mut Memory, tokens: i64) {
        memory.carry_out(Operation::FetchAdd { at: AT, add: -tokens }).unwrap();
    }

    fn tokens(memory: &Memory) -> i64 {
        PoolWord::unpack(memory.get(AT).unwrap()).tokens
    }

    fn begun() -> (Pool, Memory) {
        let (mut pool, mut memory) = (Pool::new(AT, Period(0)), Memory::new(1));
        let write = pool.begin(Period(1), Tokens(5000));
        assert_eq!(pool.check(None), None, "it is being written");
        done(&mut pool, &mut memory, write);
        assert_eq!(tokens(&memory), 5000);
        (pool, memory)
    }

    #[test]
    fn h2_check_reads_pool_without_change() {
        let (mut pool, mut memory) = begun();
        fetch(&mut memory, 1000);
        let check = pool.check(None).unwrap();
        let news = done(&mut pool, &mut memory, check);
        let (found, expected) = news.found.unwrap();
        assert_eq!((found.tokens, expected.tokens, news.post), (4000, 5000, None));
        assert_eq!(tokens(&memory), 4000);
    }

    #[test]
    fn h2_tokens_fetched_in_between_are_not_handed_out_again() {
        let (mut pool, mut memory) = begun();
        let swap = pool.check(Some(Tokens(7000))).unwrap();
        fetch(&mut memory, 1000);
        let news = done(&mut pool, &mut memory, swap);
        assert_eq!(tokens(&memory), 4000, "not as it was expected, so not changed yet");
        done(&mut pool, &mut memory, news.post.unwrap());
        assert_eq!(tokens(&memory), 7000);
    }

    #[test]
    fn h2_a_busy_pool_is_left_to_the_next_check() {
        let (mut pool, mut memory) = begun();
        let mut next = pool.check(Some(Tokens(7000)));
        for _ in 0..ATTEMPTS {
            fetch(&mut memory, 1000);
            next = done(&mut pool, &mut memory, next.unwrap()).post;
        }
        assert_eq!(next, None);
        let swap = pool.check(Some(Tokens(6000))).unwrap();
        done(&mut pool, &mut memory, swap);
        assert_eq!(tokens(&memory), 6000);
    }

    #[test]
    fn h2_late_check_spares_next_period() {
        let (mut pool, mut memory) = begun();
        let late = pool.check(Some(Tokens(9000))).unwrap();
        let write = pool.begin(Period(2), Tokens(5000));
        done(&mut pool, &mut memory, write);
        assert_eq!(done(&mut pool, &mut memory, late), News::default());
        assert_eq!(
            PoolWord::unpack(memory.get(AT).unwrap()),
            PoolWord::new(Period(2), Tokens(5000))
        );
    }

    #[test]
    fn h2_failed_write_is_retried() {
        let (mut pool, mut memory) = (Pool::new(AT, Period(0)), Memory::new(1));
        let (ticket, _) = pool.begin(Period(1), Tokens(5000));
        pool.completed(Completion { ticket, result: Err(Failed::Disconnected) });
        let again = pool.check(None).unwrap();
        done(&mut pool, &mut memory, again);
        assert_eq!(tokens(&memory), 5000);
    }
}
