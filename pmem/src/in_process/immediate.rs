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
    fn completions_are_there_as_soon_as_operations_are_posted() {
        let mut memory = Memory::new(1);
        let at = Memory::address(0);
        let mut access = Immediate::new(&mut memory);
        access.write(Ticket(1), at, 7).unwrap();
        access.fetch_add(Ticket(2), at, 1).unwrap();
        access.post(Ticket(3), Operation::CompareSwap { at, expected: 8, new: 9 }).unwrap();
        access.read(Ticket(4), at).unwrap();
        let done = core::iter::from_fn(|| access.completed());
        let done: Vec<_> = done.map(|done| (done.ticket.0, done.result)).collect();
        assert_eq!(done, [(1, Ok(7)), (2, Ok(7)), (3, Ok(8)), (4, Ok(9))]);
    }
}
