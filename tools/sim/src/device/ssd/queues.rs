//! The tasks that wait for a die, and their order.

use std::collections::VecDeque;

use units::{Class, PerClass};

use super::settings::Order;

/// An operation of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Reads a page, then moves bytes of it over the channel.
    Read,
    /// Moves a page over the channel, then programs it.
    Program,
    /// Erases a block.
    Erase,
}

/// The reason for reading or programming a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A request reads it.
    Request(usize),
    /// A page of the write buffer: the sectors that the host did not write are read, then the page is programmed.
    Buffer(u64),
    /// Garbage is collected; the page was at this place.
    Garbage(u32),
}

/// A task of a die: a page, or the block that is erased.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) plane: u32,
    /// The logical page within the plane; of [`Work::Erase`], the block.
    pub(super) number: u32,
    /// Bytes on the channel.
    pub(super) bytes: u32,
    pub(super) class: Class,
    pub(super) purpose: Purpose,
}

/// Weighted round robin between the classes in a chip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    weights: [u32; 3],
    /// Tasks that High, Medium and Low may still start in this round.
    left: [u32; 3],
}

impl Turn {
    pub(super) const fn new(order: Order) -> Self {
        let weights = match order {
            Order::Arrival => [1; 3],
            Order::Classes { weights } => weights,
        };
        Self { weights, left: weights }
    }

    /// Picks the class whose turn it is, of those for which something waits.
    fn pick(&mut self, waits: impl Fn(Class) -> bool) -> Option<Class> {
        if waits(Class::Urgent) {
            return Some(Class::Urgent);
        }
        for _ in 0..2 {
            for (left, class) in self.left.iter_mut().zip([Class::High, Class::Medium, Class::Low])
            {
                if *left > 0 && waits(class) {
                    *left -= 1;
                    return Some(class);
                }
            }
            self.left = self.weights;
        }
        None
    }
}

/// A line of a die: tasks of one kind in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Reads(Class),
    Programs(Class),
    Garbage,
}

/// The tasks that wait for a die.
#[derive(Debug)]
pub(super) struct Queues {
    reads: PerClass<VecDeque<Task>>,
    programs: PerClass<VecDeque<Task>>,
    garbage: VecDeque<Task>,
    classes: bool,
}

impl Queues {
    pub(super) fn new(order: Order) -> Self {
        Self {
            reads: PerClass::default(),
            programs: PerClass::default(),
            garbage: VecDeque::new(),
            classes: order != Order::Arrival,
        }
    }

    /// Adds a task at the end of its line.
    pub(super) fn add(&mut self, task: Task) {
        let class = if self.classes { task.class } else { Class::Low };
        let line = match (task.purpose, task.work) {
            (Purpose::Garbage(_), _) | (_, Work::Erase) => Line::Garbage,
            (_, Work::Read) => Line::Reads(class),
            (_, Work::Program) => Line::Programs(class),
        };
        self.line(line).push_back(task);
    }

    fn line(&mut self, line: Line) -> &mut VecDeque<Task> {
        match line {
            Line::Reads(class) => &mut self.reads[class],
            Line::Programs(class) => &mut self.programs[class],
            Line::Garbage => &mut self.garbage,
        }
    }

    /// Removes the next task. `may` is whether a page may be programmed now.
    pub(super) fn next(
        &mut self,
        turn: &mut Turn,
        garbage_first: bool,
        may: impl Fn(&Task) -> bool,
    ) -> Option<(Task, Line)> {
        if garbage_first && let Some(task) = self.garbage.pop_front() {
            return Some((task, Line::Garbage));
        }
        let programs = |class| self.programs[class].front().is_some_and(&may);
        if let Some(class) = turn.pick(|class| !self.reads[class].is_empty() || programs(class)) {
            let line = if self.reads[class].is_empty() {
                Line::Programs(class)
            } else {
                Line::Reads(class)
            };
            let task = self.line(line).pop_front()?;
            return Some((task, line));
        }
        self.garbage.pop_front().map(|task| (task, Line::Garbage))
    }

    /// Removes the first task of a line, if it is of this kind and for a plane that has none yet: the planes of a die
    /// do the same thing at once.
    pub(super) fn beside(
        &mut self,
        line: Line,
        running: &[Task],
        may: impl Fn(&Task) -> bool,
    ) -> Option<Task> {
        let work = running.first()?.work;
        self.line(line).pop_front_if(|task| {
            task.work == work
                && running.iter().all(|other| other.plane != task.plane)
                && (work != Work::Program || may(task))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(work: Work, class: Class, number: u32) -> Task {
        Task { work, plane: 0, number, bytes: 0, class, purpose: Purpose::Request(0) }
    }

    fn taken(order: Order, count: usize) -> Vec<Class> {
        let (mut queues, mut turn) = (Queues::new(order), Turn::new(order));
        for number in 0..20 {
            for class in [Class::Low, Class::Medium, Class::High] {
                queues.add(task(Work::Read, class, number));
            }
        }
        queues.add(task(Work::Read, Class::Urgent, 0));
        let next = || queues.next(&mut turn, false, |_| true).map(|(task, _)| task.class);
        core::iter::from_fn(next).take(count).collect()
    }

    #[test]
    fn e5_urgent_goes_first_then_3_2_and_1_of_the_others() {
        use Class::{High, Low, Medium, Urgent};
        let order = Order::Classes { weights: [3, 2, 1] };
        let round = [High, High, High, Medium, Medium, Low];
        assert_eq!(taken(order, 13), [&[Urgent][..], &round, &round].concat());
        assert_eq!(taken(Order::Arrival, 4), [Low, Medium, High, Low]);
    }

    #[test]
    fn reads_go_before_programs_and_both_before_garbage_that_does_not_press() {
        let order = Order::Arrival;
        let (mut queues, mut turn) = (Queues::new(order), Turn::new(order));
        let garbage = Task { purpose: Purpose::Garbage(0), ..task(Work::Read, Class::Low, 0) };
        queues.add(garbage);
        queues.add(task(Work::Program, Class::Low, 1));
        queues.add(task(Work::Read, Class::Low, 2));
        queues.add(garbage);
        let mut next =
            |first, may| queues.next(&mut turn, first, |_| may).map(|(task, _)| task.number);
        assert_eq!(next(true, true), Some(0));
        assert_eq!(next(false, true), Some(2));
        assert_eq!(next(false, false), Some(0), "no page to program");
        assert_eq!(next(false, true), Some(1));
        assert_eq!(next(false, true), None);
    }
}
