//! Actors whose accesses to shared words are interleaved, and cut off, as a test says.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// An actor may access so many words; `None`: it is killed where it is.
type Order = Option<usize>;

thread_local! {
    /// The orders of this thread's actor, and the place for word that it has carried them out.
    static GATE: RefCell<Option<(Receiver<Order>, Sender<()>)>> = const { RefCell::new(None) };
    /// Accesses left of the last order. Threads without orders have no limit.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Killed;

/// Waits for orders if the last one is carried out.
pub(crate) fn step() {
    match LEFT.get() {
        usize::MAX => return,
        0 => GATE.with_borrow(|gate| {
            let (orders, reports) = gate.as_ref().unwrap();
            let _ = reports.send(());
            wait(orders);
        }),
        _ => {}
    }
    LEFT.set(LEFT.get() - 1);
}

fn wait(orders: &Receiver<Order>) {
    match orders.recv() {
        Ok(Some(steps)) => LEFT.set(steps),
        // Unwinds without a message. No value with a destructor that writes to shared words may be
        // alive here: a killed process runs none.
        _ => resume_unwind(Box::new(Killed)),
    }
}

/// Calls `look` without steps.
pub(crate) fn outside<T>(look: impl FnOnce() -> T) -> T {
    let left = LEFT.replace(usize::MAX);
    let seen = look();
    LEFT.set(left);
    seen
}

/// A thread that runs by orders.
pub(crate) struct Actor {
    orders: Sender<Order>,
    reports: Receiver<()>,
    thread: Option<JoinHandle<bool>>,
    pub(crate) was_killed: bool,
}

impl Actor {
    pub(crate) fn new(body: impl FnOnce() + Send + 'static) -> Self {
        let (orders, received) = channel();
        let (sent, reports) = channel();
        let run = move || {
            let run = || {
                wait(&received);
                GATE.set(Some((received, sent)));
                body();
            };
            let end = catch_unwind(AssertUnwindSafe(run));
            LEFT.set(usize::MAX);
            // The controller waits until this is dropped.
            drop(GATE.take());
            match end {
                Ok(()) => false,
                Err(end) if end.is::<Killed>() => true,
                Err(failure) => resume_unwind(failure),
            }
        };
        Self { orders, reports, thread: Some(thread::spawn(run)), was_killed: false }
    }

    /// Lets the actor make so many accesses (1 at least). Returns false if it has ended.
    pub(crate) fn run(&mut self, steps: usize) -> bool {
        self.order(Some(steps.clamp(1, usize::MAX - 1)))
    }

    pub(crate) fn kill(&mut self) {
        self.order(None);
    }

    fn order(&mut self, order: Order) -> bool {
        if self.thread.is_none() {
            return false;
        }
        let _ = self.orders.send(order);
        if self.reports.recv().is_ok() {
            return true;
        }
        match self.thread.take().unwrap().join() {
            Ok(was_killed) => self.was_killed = was_killed,
            Err(failure) => resume_unwind(failure),
        }
        false
    }
}
