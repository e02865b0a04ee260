//! A solid-state drive: flash behind a controller with a write buffer (docs/research/sources.md, E5).
//!
//! - [`settings`]: its properties, with their sources.
//! - `buffer`: written pages that are not programmed; `flash`: the work of dies and channels; `queues`: the order in
//!   which a die works; `plane`: where each page is, and garbage.
//!
//! A read goes to the pages that it touches: from the write buffer at once, else the die reads the
//! page into its register, and the bytes go over the channel, then to the host. A write ends when it
//! is in the buffer. Consecutive pages are on consecutive channels, then chips, dies and planes
//! (MQSim: `Plane_Allocation_Scheme` `CWDP`). A page that the host has written in part is read
//! before it is programmed. Garbage is collected plane by plane: the block with the fewest valid
//! pages is read and programmed elsewhere page by page, then erased.
//!
//! Left out: the suspension of programs and erases by reads, levelling of wear, errors, and the
//! cache of the mapping table.
//!
//! The drive is full at the start. Memory grows with the pages that were written since.

mod buffer;
mod flash;
mod plane;
mod queues;
pub mod settings;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use slab::Slab;
use units::{Calendar, Nanos, nanos};

use self::buffer::{Buffer, Oldest};
use self::plane::Plane;
use self::queues::{Purpose, Queues, Task, Turn, Work};
use super::error::SettingsError;
use super::interface::{Device, Kind, Request};

pub use self::plane::Pages;
pub use self::settings::{Order, Settings};

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// A future event.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The controller begins a request.
    Begins(usize),
    /// A write's data is here.
    Arrived(usize),
    /// A die's array is done.
    Array(u32),
    /// A die's data has moved over the channel.
    Moved(u32),
    /// A request ends.
    Ends(usize),
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: Request,
    /// Pages that are still to be read.
    left: u32,
}

#[derive(Debug)]
struct Die {
    queues: Queues,
    /// Whether it does something, or is about to begin.
    busy: bool,
    /// Its current tasks, at most one for each plane, all of one kind.
    running: Vec<Task>,
    /// When it began that.
    since: Nanos,
}

#[derive(Debug, Default)]
struct Channel {
    busy: bool,
    /// Dies that wait for it.
    waiting: VecDeque<u32>,
}

/// The collection of a block.
#[derive(Clone, Copy, Debug)]
struct Collection {
    block: u32,
    /// Pages that are still to be moved.
    left: u32,
}

/// The work of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read for requests.
    pub reads: u64,
    /// Pages that requests found in the write buffer.
    pub hits: u64,
    /// Pages read because they were written in part.
    pub merges: u64,
    /// Pages programmed for the host.
    pub programs: u64,
    /// Pages moved to collect garbage.
    pub moved: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// A solid-state drive.
#[derive(Debug)]
pub struct Ssd {
    settings: Settings,
    calendar: Calendar<Step>,
    requests: Slab<Pending>,
    /// Writes whose data is here and for which the buffer has no room.
    waiting: VecDeque<usize>,
    buffer: Buffer,
    planes: Vec<Plane>,
    collections: Vec<Option<Collection>>,
    dies: Vec<Die>,
    turns: Vec<Turn>,
    channels: Vec<Channel>,
    /// The times at which the interface is free, from the host and to it.
    from_host: Nanos,
    to_host: Nanos,
    ended: Vec<(Nanos, u64)>,
    counters: Counters,
    /// Time that dies have spent on work that is finished, all together, in ns.
    worked: u64,
    spare: Vec<Task>,
}

impl Ssd {
    /// Makes a full drive.
    ///
    /// # Errors
    ///
    /// A property cannot be.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let planes = settings.all_planes();
        let chips = settings.channels * settings.chips;
        let plane = |_| Plane::new(settings.blocks, settings.pages, settings.user_blocks());
        let die = |_| Die {
            queues: Queues::new(settings.order),
            busy: false,
            running: Vec::new(),
            since: Nanos::ZERO,
        };
        let room = settings.write_buffer / u64::from(settings.page);
        Ok(Self {
            calendar: Calendar::new(),
            requests: Slab::new(),
            waiting: VecDeque::new(),
            buffer: Buffer::new(usize::try_from(room).unwrap_or(usize::MAX)),
            planes: (0..planes).map(plane).collect(),
            collections: (0..planes).map(|_| None).collect(),
            dies: (0..chips * settings.dies).map(die).collect(),
            turns: (0..chips).map(|_| Turn::new(settings.order)).collect(),
            channels: (0..settings.channels).map(|_| Channel::default()).collect(),
            from_host: Nanos::ZERO,
            to_host: Nanos::ZERO,
            ended: Vec::new(),
            counters: Counters::default(),
            worked: 0,
            spare: Vec::new(),
            settings,
        })
    }

    /// Returns the bytes that the host sees. A request beyond them counts from the beginning.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.settings.capacity()
    }

    /// Returns the counters of the drive's work.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Counts all pages.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.planes.iter().map(Plane::count).fold(Pages::default(), |all, plane| Pages {
            free: all.free + plane.free,
            valid: all.valid + plane.valid,
            invalid: all.invalid + plane.invalid,
        })
    }

    /// Returns the plane and the logical page in it of one of the drive's pages.
    fn place(&self, page: u64) -> (u32, u32) {
        let planes = u64::from(self.settings.all_planes());
        let logical = u64::from(self.settings.user_blocks()) * u64::from(self.settings.pages);
        let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        (short(page % planes), short(page / planes % logical.max(1)))
    }

    const fn die(&self, plane: u32) -> u32 {
        plane % (self.settings.channels * self.settings.chips * self.settings.dies)
    }

    /// Returns the pages that a request touches, and the bytes of each that it touches: from, to.
    fn touched(&self, request: &Request) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let page = u64::from(self.settings.page);
        let pages = (self.capacity() / page).max(1);
        let (from, to) = (request.offset, request.offset.saturating_add(request.length));
        (from / page..to.div_ceil(page)).filter(move |_| from < to).map(move |number| {
            let first = number * page;
            (number % pages, from.saturating_sub(first), (to - first).min(page))
        })
    }

    /// Computes how long bytes take at a rate in bytes per second.
    fn time_of(bytes: u64, rate: u64) -> u64 {
        let time = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    fn at(&mut self, time: Nanos, step: Step) {
        self.calendar.insert(time, step);
    }

    fn handle(&mut self, now: Nanos, step: Step) {
        match step {
            Step::Begins(slot) => self.begin(now, slot),
            Step::Arrived(slot) => {
                self.waiting.push_back(slot);
                self.admit(now);
            }
            Step::Array(die) => self.array_done(now, die),
            Step::Moved(die) => self.moved(now, die),
            Step::Ends(slot) => self.end(now, slot),
        }
    }

    /// Ends a request.
    fn end(&mut self, now: Nanos, slot: usize) {
        if let Some(pending) = self.requests.try_remove(slot) {
            self.ended.push((now, pending.request.id));
        }
    }

    /// Begins a request that brings no data.
    fn begin(&mut self, now: Nanos, slot: usize) {
        let Some(pending) = self.requests.get(slot).copied() else { return };
        match pending.request.kind {
            Kind::Read | Kind::Write => self.read(now, slot, &pending.request),
            Kind::Flush => {
                self.buffer.flush(slot);
                self.drain(now);
            }
            Kind::Deallocate => {
                let page = u64::from(self.settings.page);
                for (number, from, to) in self.touched(&pending.request) {
                    if from == 0 && to == page {
                        self.buffer.discard(number);
                        let (plane, logical) = self.place(number);
                        if let Some(plane) = self.planes.get_mut(plane as usize) {
                            plane.discard(logical);
                        }
                    }
                }
                self.end(now, slot);
                self.drain(now);
            }
        }
    }

    /// Reads the pages of a request.
    fn read(&mut self, now: Nanos, slot: usize, request: &Request) {
        let mut left = 0;
        for (number, from, to) in self.touched(request) {
            let (plane, logical) = self.place(number);
            if self.buffer.has(number) {
                self.counters.hits += 1;
                continue;
            }
            let there = self.planes.get(plane as usize).and_then(|plane| plane.find(logical));
            if there.is_none() {
                continue;
            }
            left += 1;
            self.counters.reads += 1;
            self.add(
                now,
                Task {
                    work: Work::Read,
                    plane,
                    number: logical,
                    bytes: u32::try_from(to - from).unwrap_or(u32::MAX),
                    class: request.class,
                    purpose: Purpose::Request(slot),
                },
            );
        }
        match self.requests.get_mut(slot) {
            Some(pending) if left > 0 => pending.left = left,
            _ => self.answer(now, slot),
        }
    }

    /// Moves the data of a read to the host.
    fn answer(&mut self, now: Nanos, slot: usize) {
        let Some(pending) = self.requests.get(slot) else { return };
        let time = Self::time_of(pending.request.length, self.settings.host_rate);
        self.to_host = self.to_host.max(now).after(time);
        self.at(self.to_host, Step::Ends(slot));
    }

    /// Admits writes to the buffer, in order, while it has room.
    fn admit(&mut self, now: Nanos) {
        while let Some(slot) = self.waiting.front().copied() {
            let Some(request) = self.requests.get(slot).map(|pending| pending.request) else {
                self.waiting.pop_front();
                continue;
            };
            let more = self.touched(&request).filter(|(page, ..)| !self.buffer.has(*page)).count();
            if !self.buffer.fits(more) {
                break;
            }
            for (page, from, to) in self.touched(&request) {
                let sectors = sectors(from / SECTOR, to.div_ceil(SECTOR));
                self.buffer.write(page, sectors, request.class);
            }
            self.waiting.pop_front();
            self.end(now, slot);
        }
        self.program(now);
    }

    /// Ends the flushes that the buffer has completed, and admits writes that fit.
    fn drain(&mut self, now: Nanos) {
        while let Some(slot) = self.buffer.flushed() {
            self.end(now, slot);
        }
        self.admit(now);
    }

    /// Programs the oldest pages of the buffer.
    fn program(&mut self, now: Nanos) {
        while let Some(Oldest { page, sectors, class }) = self.buffer.next() {
            let (plane, number) = self.place(page);
            let whole = sectors == self::sectors(0, u64::from(self.settings.page) / SECTOR);
            let there = self.planes.get(plane as usize).and_then(|plane| plane.find(number));
            let merge = !whole && there.is_some();
            self.counters.merges += u64::from(merge);
            let (work, bytes) =
                (if merge { Work::Read } else { Work::Program }, self.settings.page);
            let purpose = Purpose::Buffer(page);
            self.add(now, Task { work, plane, number, bytes, class, purpose });
        }
    }
}

/// Returns the bits of these sectors of a page.
fn sectors(from: u64, to: u64) -> u64 {
    let below = |bit: u64| if bit >= 64 { u64::MAX } else { (1 << bit) - 1 };
    below(to) & !below(from)
}

impl Device for Ssd {
    fn submit(&mut self, now: Nanos, request: Request) {
        let slot = self.requests.insert(Pending { request, left: 0 });
        let begins = now.after(nanos(self.settings.controller));
        if request.kind == Kind::Write {
            let time = Self::time_of(request.length, self.settings.host_rate);
            self.from_host = self.from_host.max(begins).after(time);
            self.at(self.from_host, Step::Arrived(slot));
        } else {
            self.at(begins, Step::Begins(slot));
        }
    }

    fn next(&self) -> Option<Nanos> {
        self.calendar.next_time()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        while let Some((now, step)) = self.calendar.pop_due(until) {
            self.handle(now, step);
        }
        done.append(&mut self.ended);
    }

    fn busy(&self) -> Option<u64> {
        Some(self.worked / (self.dies.len() as u64).max(1))
    }
}
