//! The work of dies and channels: tasks of pages, and the collection of garbage.

use core::time::Duration;

use units::{Class, Nanos, nanos};

use super::plane::{Plane, Writer};
use super::queues::{Line, Purpose, Task, Work};
use super::{Collection, Ssd, Step};

impl Ssd {
    /// Adds a task to its die's queues.
    pub(super) fn add(&mut self, now: Nanos, task: Task) {
        let die = self.die(task.plane);
        if let Some(slot) = self.dies.get_mut(die as usize) {
            slot.queues.add(task);
            self.work(now, die);
        }
    }

    /// Starts the next task of an idle die.
    pub(super) fn work(&mut self, now: Nanos, number: u32) {
        let Some(die) = self.dies.get_mut(number as usize).filter(|die| !die.busy) else { return };
        // To begin a task may add others, of this die, too.
        die.busy = true;
        let mut running = core::mem::take(&mut die.running);
        while running.is_empty()
            && let Some((task, line)) = self.next_of(number)
        {
            if self.begins(now, &task) {
                running.push(task);
            }
            self.fill(now, number, line, &mut running);
        }
        let work = running.first().map(|task| task.work);
        if let Some(die) = self.dies.get_mut(number as usize) {
            die.busy = work.is_some();
            die.running = running;
            die.since = now;
        }
        match work {
            Some(Work::Read) => self.after(now, self.settings.read, Step::Array(number)),
            Some(Work::Erase) => self.after(now, self.settings.erase, Step::Array(number)),
            Some(Work::Program) => self.ask_channel(now, number),
            None => {}
        }
    }

    /// Removes the next task of a die.
    pub(super) fn next_of(&mut self, number: u32) -> Option<(Task, Line)> {
        let chips = self.settings.channels * self.settings.chips;
        let die = self.dies.get_mut(number as usize)?;
        let turn = self.turns.get_mut((number % chips) as usize)?;
        let planes = &self.planes;
        let pressing = self.settings.pressing();
        let first = self
            .settings
            .planes_of(number)
            .any(|plane| planes.get(plane as usize).is_some_and(|plane| plane.free() <= pressing));
        die.queues.next(turn, first, |task| may_program(planes, task))
    }

    /// Adds tasks for other planes to a die's running tasks.
    pub(super) fn fill(&mut self, now: Nanos, number: u32, line: Line, running: &mut Vec<Task>) {
        loop {
            let planes = &self.planes;
            let Some(die) = self.dies.get_mut(number as usize) else { return };
            let may = |task: &Task| may_program(planes, task);
            let Some(task) = die.queues.beside(line, running, may) else { return };
            if self.begins(now, &task) {
                running.push(task);
            }
        }
    }

    /// Begins a task: finds the page that it programs. Returns whether there is something to do: garbage that has
    /// become stale need not be moved.
    pub(super) fn begins(&mut self, now: Nanos, task: &Task) -> bool {
        let Some(plane) = self.planes.get_mut(task.plane as usize) else { return false };
        match (task.work, task.purpose) {
            (Work::Erase, _) | (Work::Read, Purpose::Request(_) | Purpose::Buffer(_)) => true,
            (Work::Read, Purpose::Garbage(from)) => {
                let still = plane.find(task.number) == Some(from);
                if !still {
                    self.collected(now, task.plane);
                }
                still
            }
            (Work::Program, Purpose::Garbage(from)) => {
                let moved = plane.relocate(task.number, from).is_some();
                if moved {
                    self.counters.moved += 1;
                } else {
                    self.collected(now, task.plane);
                }
                moved
            }
            (Work::Program, _) => {
                plane.write(task.number, Writer::Host);
                self.counters.programs += 1;
                self.collect(now, task.plane);
                true
            }
        }
    }

    pub(super) fn after(&mut self, now: Nanos, time: Duration, step: Step) {
        self.at(now.after(nanos(time)), step);
    }

    /// Moves a die's data over its channel, as soon as that is free.
    pub(super) fn ask_channel(&mut self, now: Nanos, die: u32) {
        let channel = die % self.settings.channels;
        let Some(channel) = self.channels.get_mut(channel as usize) else { return };
        if channel.busy {
            channel.waiting.push_back(die);
        } else {
            channel.busy = true;
            self.begin_move(now, die);
        }
    }

    pub(super) fn begin_move(&mut self, now: Nanos, number: u32) {
        let Some(die) = self.dies.get(number as usize) else { return };
        let bytes = die.running.iter().map(|task| u64::from(task.bytes)).sum();
        let time = Self::time_of(bytes, self.settings.channel_rate);
        self.at(now.after(time), Step::Moved(number));
    }

    /// Continues after a die's array is done: data that was read moves over the channel, other tasks are finished.
    pub(super) fn array_done(&mut self, now: Nanos, number: u32) {
        let running = self.dies.get(number as usize).and_then(|die| die.running.first());
        match running.map(|task| task.work) {
            Some(Work::Read) => self.ask_channel(now, number),
            _ => self.finish(now, number),
        }
    }

    /// Continues after a die's data has moved: data to be written is programmed, reads are finished.
    pub(super) fn moved(&mut self, now: Nanos, number: u32) {
        if let Some(channel) = self.channels.get_mut((number % self.settings.channels) as usize) {
            match channel.waiting.pop_front() {
                Some(next) => self.begin_move(now, next),
                None => channel.busy = false,
            }
        }
        let running = self.dies.get(number as usize).and_then(|die| die.running.first());
        match running.map(|task| task.work) {
            Some(Work::Program) => self.after(now, self.settings.program, Step::Array(number)),
            _ => self.finish(now, number),
        }
    }

    /// Finishes a die's running tasks, and starts the next.
    pub(super) fn finish(&mut self, now: Nanos, number: u32) {
        let Some(die) = self.dies.get_mut(number as usize) else { return };
        die.busy = false;
        self.worked = self.worked.saturating_add(now.ns_since(die.since));
        let mut tasks = core::mem::replace(&mut die.running, core::mem::take(&mut self.spare));
        for task in tasks.drain(..) {
            self.finish_task(now, &task);
        }
        self.spare = tasks;
        self.work(now, number);
    }

    pub(super) fn finish_task(&mut self, now: Nanos, task: &Task) {
        match (task.work, task.purpose) {
            (Work::Read, Purpose::Request(slot)) => {
                let Some(pending) = self.requests.get_mut(slot) else { return };
                pending.left -= 1;
                if pending.left == 0 {
                    self.answer(now, slot);
                }
            }
            (Work::Read, Purpose::Buffer(_) | Purpose::Garbage(_)) => {
                self.add(now, Task { work: Work::Program, bytes: self.settings.page, ..*task });
            }
            (Work::Program, Purpose::Buffer(page)) => {
                self.buffer.programmed(page);
                self.drain(now);
            }
            (Work::Program, Purpose::Garbage(_)) => self.collected(now, task.plane),
            (Work::Program, Purpose::Request(_)) => {}
            (Work::Erase, _) => {
                self.counters.erases += 1;
                let at = task.plane as usize;
                if let Some(plane) = self.planes.get_mut(at) {
                    plane.erase(task.number);
                }
                if let Some(collection) = self.collections.get_mut(at) {
                    *collection = None;
                }
                self.collect(now, task.plane);
            }
        }
    }

    /// Begins to collect garbage in a plane that has few free blocks.
    pub(super) fn collect(&mut self, now: Nanos, number: u32) {
        let at = number as usize;
        let (Some(plane), Some(collection)) = (self.planes.get(at), self.collections.get_mut(at))
        else {
            return;
        };
        if collection.is_some() || plane.free() >= self.settings.collecting() {
            return;
        }
        let Some(block) = plane.victim() else { return };
        let pages: Vec<(u32, u32)> = plane.valid(block).collect();
        // One more, so that it does not end before all have begun.
        let left = u32::try_from(pages.len()).unwrap_or(u32::MAX).saturating_add(1);
        *collection = Some(Collection { block, left });
        for (from, logical) in pages {
            self.add(
                now,
                Task {
                    work: Work::Read,
                    plane: number,
                    number: logical,
                    bytes: self.settings.page,
                    class: Class::Low,
                    purpose: Purpose::Garbage(from),
                },
            );
        }
        self.collected(now, number);
    }

    /// Notes that a page of a block that is collected is elsewhere; erases the block after the last.
    pub(super) fn collected(&mut self, now: Nanos, number: u32) {
        let Some(Some(collection)) = self.collections.get_mut(number as usize) else { return };
        collection.left = collection.left.saturating_sub(1);
        if collection.left == 0 {
            let (work, class, purpose) = (Work::Erase, Class::Low, Purpose::Garbage(0));
            let block = collection.block;
            self.add(now, Task { work, plane: number, number: block, bytes: 0, class, purpose });
        }
    }
}

/// Returns whether a task that programs a page of the host has one.
fn may_program(planes: &[Plane], task: &Task) -> bool {
    let writer = match task.purpose {
        Purpose::Garbage(_) => Writer::Collector,
        _ => Writer::Host,
    };
    task.work != Work::Program
        || planes.get(task.plane as usize).is_some_and(|plane| plane.room(writer))
}
