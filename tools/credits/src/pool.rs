//! A process's side of a segment.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use arbitration::credit::{Caps, Cost};
use units::{Nanos, nanos};

use crate::error::Error;
use crate::file::{Opened, leads_to, unusable};
use crate::layout::{PROCESSES, Seat};
use crate::queue::Number;
use crate::sys::clock;
use crate::sys::lock::{Byte, try_lock};
use crate::sys::mapping::Mapping;

/// The longest sleep in ns. After it a waiter dispatches itself, in case the process that should have
/// done so was killed.
const LONGEST_SLEEP: u64 = 100_000_000;
/// The sleep in ns while all spots of the process are in use.
const NAP: u64 = 1_000_000;

/// The process's slot in a segment. It is emptied when nothing uses it any more.
#[derive(Debug)]
struct Attached {
    shared: Mapping,
    seat: Seat,
    /// Spots in use, as bits.
    spots: AtomicU32,
    /// The file, whose lock shows that the process lives.
    file: File,
}

impl Attached {
    /// Reserves a spot of the process. `None`: all are in use.
    fn reserve(&self) -> Option<Number> {
        let free = |used: u32| Number::new(used.trailing_ones());
        let with = |used| free(used).map(|number| used | number.bit());
        self.spots.try_update(SeqCst, SeqCst, with).ok().and_then(free)
    }

    fn release(&self, number: Number) {
        self.spots.fetch_and(!number.bit(), SeqCst);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.shared.clear(self.seat);
    }
}

/// A process's part of a segment, which its threads share. It is attached once for each session.
///
/// After `fork`, the child must not use or drop the parent's `Pool` and its credits before it calls
/// `exec`.
#[derive(Debug)]
pub struct Pool {
    attached: Arc<Attached>,
    session: String,
    path: PathBuf,
}

impl Pool {
    /// Attaches to the segment at a path.
    ///
    /// # Errors
    /// There is no such file, or no right to read and write it; it is not a segment of this version; or
    /// it has no room for another process.
    pub fn attach(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_path_buf();
        let opened = Opened::new(&path)?;
        let (shared, file) = (opened.map(&path)?, opened.file);
        for seat in Seat::all() {
            if try_lock(&file, Byte::Process(seat)).map_err(unusable(&path))? {
                shared.occupy(seat, std::process::id());
                let session = shared.header.name();
                let attached = Attached { shared, seat, spots: AtomicU32::new(0), file };
                return Ok(Self { attached: Arc::new(attached), session, path });
            }
        }
        Err(Error::Full { path, limit: PROCESSES })
    }

    /// Returns the name of the session.
    #[must_use]
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the allowance of the node.
    #[must_use]
    pub fn allowance(&self) -> Caps {
        self.attached.shared.header.caps()
    }

    /// Returns whether the allowance is enforced: the segment is not closed, and the allowance has not
    /// expired. Otherwise every take succeeds at once.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.attached.shared.header.is_enforced(clock::now())
    }

    /// Returns whether the segment's path leads to another file or to none: an agent that was started
    /// again makes a new segment, to which the process should attach. Makes two system calls. To be
    /// called once per second at most, while [`Self::is_enforced`] is false.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        !leads_to(&self.path, &self.attached.file)
    }

    /// Takes credits, without a system call. `None` if too few are free, if anybody waits, or if
    /// another process asked at the same moment. A command without operations counts as one.
    #[inline]
    #[must_use]
    pub fn take(&self, cost: Cost) -> Option<Held> {
        let cost = counted(cost);
        let is_taken = self.attached.shared.take(self.attached.seat, cost, clock::now());
        is_taken.then(|| Held { attached: self.attached.clone(), cost })
    }

    /// Takes credits, in the order of arrival. `None` if they are not available within `timeout`.
    #[must_use]
    pub fn wait(&self, cost: Cost, timeout: Duration) -> Option<Held> {
        if let Some(held) = self.take(cost) {
            return Some(held);
        }
        let end = clock::now().after(nanos(timeout));
        let mut spot = self.enqueue(cost);
        loop {
            if let Some(held) = spot.poll() {
                return Some(held);
            }
            let now = clock::now();
            if now >= end {
                return None;
            }
            spot.sleep(now, end.ns_since(now));
        }
    }

    /// Enters the wait queue. The spot is to be polled; dropping it leaves the queue.
    pub fn enqueue(&self, cost: Cost) -> Spot {
        let mut spot =
            Spot { attached: self.attached.clone(), cost: counted(cost), place: Place::Outside };
        spot.enter();
        spot
    }

    /// Returns the credits of a spot once they are available, or once the allowance is not enforced.
    /// Until then it reads memory and the clock, and makes no system call. Always `None` after it has
    /// returned the credits.
    #[inline]
    pub fn poll(&self, spot: &mut Spot) -> Option<Held> {
        spot.poll()
    }
}

/// Returns a cost that others can see: with at least one operation.
#[inline]
fn counted(cost: Cost) -> Cost {
    Cost { operations: cost.operations.max(1), ..cost }
}

/// Credits of one command. When it is dropped, they go to the first waiters, or become free.
#[derive(Debug)]
#[must_use = "credits that are dropped are returned"]
pub struct Held {
    attached: Arc<Attached>,
    cost: Cost,
}

impl Held {
    /// Returns the cost that is held.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns the credits beyond `needed`, before the command is sent. A program that does not know the size of a
    /// command takes the credits of the largest first (docs/research/sources.md, D2: a reserve call).
    /// A command keeps an operation, and gets no more credits than it has.
    pub fn keep(&mut self, needed: Cost) {
        let Cost { operations, payload } = counted(needed);
        let unused = Cost {
            operations: self.cost.operations.saturating_sub(operations),
            payload: self.cost.payload.saturating_sub(payload),
        };
        if unused != Cost::default() {
            self.cost.operations -= unused.operations;
            self.cost.payload -= unused.payload;
            self.attached.shared.give(self.attached.seat, unused);
        }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        self.attached.shared.give(self.attached.seat, self.cost);
    }
}

/// Whether a spot is in the queue.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Not yet: all spots of the process were in use.
    Outside,
    /// In the queue, or ready.
    Queue(Number),
    /// No longer: the credits were returned to the caller.
    Spent,
}

/// A place in the wait queue. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "a spot that is dropped leaves the queue"]
pub struct Spot {
    attached: Arc<Attached>,
    cost: Cost,
    place: Place,
}

impl Spot {
    /// Returns the cost that it waits for.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Enters the queue if a spot of the process is free.
    fn enter(&mut self) {
        let Some(number) = self.attached.reserve() else { return };
        self.attached.shared.enqueue(self.attached.seat, number, self.cost);
        self.place = Place::Queue(number);
    }

    /// As [`Pool::poll`].
    #[inline]
    fn poll(&mut self) -> Option<Held> {
        let Attached { shared, seat, .. } = &*self.attached;
        let now = clock::now();
        match self.place {
            Place::Spent => return None,
            Place::Outside if !shared.header.is_enforced(now) => {
                if !shared.take(*seat, self.cost, now) {
                    return None;
                }
            }
            Place::Outside => {
                self.enter();
                return None;
            }
            Place::Queue(number) => {
                if !shared.settle(*seat, number, self.cost, now) {
                    return None;
                }
                self.attached.release(number);
            }
        }
        self.place = Place::Spent;
        Some(Held { attached: self.attached.clone(), cost: self.cost })
    }

    /// Sleeps until the spot is ready or the allowance expires, for at most `ns` nanoseconds.
    fn sleep(&self, now: Nanos, ns: u64) {
        let Attached { shared, seat, .. } = &*self.attached;
        let Place::Queue(number) = self.place else {
            thread::sleep(Duration::from_nanos(ns.min(NAP)));
            return;
        };
        let Some((_, spot)) = shared.spot(*seat, number) else { return };
        spot.bell.arm();
        if !shared.is_due(*seat, number, now) {
            let valid = shared.header.validity_ns(now);
            spot.bell.sleep(ns.min(valid).min(LONGEST_SLEEP));
        }
        if !shared.is_due(*seat, number, clock::now()) {
            shared.dispatch();
        }
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        if let Place::Queue(number) = self.place {
            self.attached.shared.leave(self.attached.seat, number);
            self.attached.release(number);
        }
    }
}
