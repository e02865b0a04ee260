//! A provider that is done at once.

use std::collections::VecDeque;

use super::memory::Memory;
use crate::one_sided::{Completion, NotPosted, OneSided, Operation, Ticket};

/// Synchronous access to a memory: each operation is carried out as it is posted.
#[derive(Debug)]
pub(crate) struct Immediate<'a> {
    memory: &'a mut Memory,
    done: VecDeque<Completion>,
}

impl<'a> Immediate<'a> {
    /// Makes an access to a memory.
    pub(crate) const fn new(memory: &'a mut Memory) -> Self {
        Self { memory, done: VecDeque::new() }
    }
}

impl OneSided for Immediate<'_> {
    fn post(&mut self, ticket: Ticket, operation: Operation) -> Result<(), NotPosted> {
        let result = self.memory.carry_out(operation);
        self.done.push_back(Completion { ticket, result });
        Ok(())
    }

    fn completed(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posted_operations_are_complete_at_once() {
        let mut memory = Memory::new(2);
        let at = Memory::address(1);
        let mut access = Immediate::new(&mut memory);
        access.write(Ticket(1), at, 5).unwrap();
        access.fetch_add(Ticket(2), at, -7).unwrap();
        access.read(Ticket(3), at).unwrap();
        let swap = |expected, new| Operation::CompareSwap { at, expected, new };
        access.post(Ticket(4), swap(0, 1)).unwrap();
        access.post(Ticket(5), swap(u64::MAX - 1, 9)).unwrap();
        let done = core::iter::from_fn(|| access.completed());
        let done: Vec<_> = done.map(|done| (done.ticket.0, done.result)).collect();
        let sum = u64::MAX - 1;
        assert_eq!(done, [(1, Ok(5)), (2, Ok(5)), (3, Ok(sum)), (4, Ok(sum)), (5, Ok(sum))]);
        assert_eq!(memory.get(at), Some(9));
    }
}
