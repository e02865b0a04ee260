//! Threads for work that may not end: a path may lead to a device or a file system that does not answer. Such work is left
//! alone after a while, so that it holds up nothing else.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::Builder;
use std::time::Duration;

use crate::disks::backend::WakeUp;
use crate::sys::sync::lock;
use crate::sys::threads::AbortOnPanic;

/// The most work at a time, with that which was left alone.
const WORK_MAX: usize = 128;

type Work = Box<dyn FnOnce() + Send>;

/// The threads. Work has a key, and no two of one key are done at a time.
#[derive(Debug)]
pub(super) struct Helpers<K> {
    running: Arc<Running<K>>,
    /// A thread that waits for work, so that a thread is started only where the last one was left alone.
    idle: Mutex<Option<Helper>>,
    /// The longest wait for work, less where other work has not ended.
    patience: Duration,
    /// Wakes the keeper when work that was left alone has ended.
    wake_up: Arc<WakeUp>,
}

/// The keys of the work that has not ended, and whether it was left alone.
#[derive(Debug)]
struct Running<K> {
    keys: Mutex<BTreeMap<K, bool>>,
    ended: Condvar,
}

/// A thread. It ends when its channels do.
#[derive(Debug)]
struct Helper {
    work: Sender<Work>,
    done: Receiver<()>,
}

impl<K: Clone + Debug + Ord + Send + 'static> Helpers<K> {
    /// Makes helpers that leave work alone after `patience`.
    pub(super) fn new(patience: Duration, wake_up: Arc<WakeUp>) -> Self {
        let running = Running { keys: Mutex::default(), ended: Condvar::new() };
        Self { running: Arc::new(running), idle: Mutex::default(), patience, wake_up }
    }

    /// Does work, and returns whether it has ended. It was left alone otherwise, or not begun: work of the same key is left
    /// alone, or as much as there may be.
    pub(super) fn run(&self, key: &K, work: impl FnOnce() + Send + 'static) -> bool {
        self.run_within(key, None, work)
    }

    /// Does the same and returns the result, `None` where it did not end. `within` is another time to wait for it.
    pub(super) fn ask<R: Send + 'static>(
        &self,
        key: &K,
        within: Option<Duration>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (tell, told) = channel();
        // Nobody may be there any more to take the result: it is dropped on the helper's thread then.
        let is_done = self.run_within(key, within, move || drop(tell.send(work())));
        told.try_recv().ok().filter(|_| is_done)
    }

    /// Returns the time to wait for the last of so many pieces of work that have not ended: many paths may lead to one
    /// file system that does not answer.
    fn share_of(&self, pieces: usize) -> Duration {
        self.patience / u32::try_from(pieces).unwrap_or(u32::MAX)
    }

    /// Does work within a time. With `None`, the time is shared among all work that has not ended.
    fn run_within(
        &self,
        key: &K,
        within: Option<Duration>,
        work: impl FnOnce() + Send + 'static,
    ) -> bool {
        let patience = {
            let mut keys = lock(&self.running.keys);
            if keys.len() >= WORK_MAX || keys.contains_key(key) {
                return false;
            }
            keys.insert(key.clone(), false);
            within.unwrap_or_else(|| self.share_of(keys.len()))
        };
        let (running, own) = (Arc::clone(&self.running), key.clone());
        let work = Box::new(move || {
            work();
            running.end(&own);
        });
        let idle = lock(&self.idle).take();
        let helper = idle.map_or_else(|| Helper::start(&self.wake_up), Ok);
        let given = helper.and_then(|helper| match helper.work.send(work) {
            Ok(()) => Ok(helper),
            Err(_) => Err(std::io::ErrorKind::BrokenPipe.into()),
        });
        let helper = match given {
            Ok(helper) => helper,
            Err(error) => {
                tracing::warn!(%error, "no thread can be started to look at a device");
                self.running.end(key);
                return false;
            }
        };
        let is_done = helper.done.recv_timeout(patience).is_ok();
        if is_done {
            *lock(&self.idle) = Some(helper);
        } else if let Some(is_left_alone) = lock(&self.running.keys).get_mut(key) {
            *is_left_alone = true;
        }
        is_done
    }

    /// Does the same once earlier work of the same key has ended, if it does so in time.
    pub(super) fn run_after(&self, key: &K, work: impl FnOnce() + Send + 'static) -> bool {
        let keys = lock(&self.running.keys);
        let waited = self
            .running
            .ended
            .wait_timeout_while(keys, self.patience, |keys| keys.contains_key(key));
        drop(waited);
        self.run(key, work)
    }

    /// Returns whether work of a key was left alone and has not ended.
    pub(super) fn has_left_alone(&self, key: &K) -> bool {
        lock(&self.running.keys).get(key) == Some(&true)
    }

    /// Returns whether work of a key has not ended.
    #[cfg(test)]
    pub(super) fn is_running(&self, key: &K) -> bool {
        lock(&self.running.keys).contains_key(key)
    }

    /// Returns whether work has not ended.
    pub(super) fn are_busy(&self) -> bool {
        !lock(&self.running.keys).is_empty()
    }
}

impl<K: Ord> Running<K> {
    fn end(&self, key: &K) {
        lock(&self.keys).remove(key);
        self.ended.notify_all();
    }
}

impl Helper {
    fn start(wake_up: &Arc<WakeUp>) -> std::io::Result<Self> {
        let (work, works) = channel::<Work>();
        let (ended, done) = channel();
        let wake_up = Arc::clone(wake_up);
        Builder::new().name("namespace".to_owned()).spawn(move || {
            let _abort = AbortOnPanic;
            for work in works {
                work();
                if ended.send(()).is_err() {
                    // The work was left alone.
                    wake_up.wake();
                }
            }
        })?;
        Ok(Self { work, done })
    }
}

#[cfg(test)]
mod tests {
    use std::thread::current;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    fn helpers(patience: Duration) -> Helpers<u8> {
        Helpers::new(patience, WakeUp::new().unwrap())
    }

    /// Begins work that ends when the sender is dropped, and that nobody waits for any longer.
    fn hang(helpers: &Helpers<u8>, key: u8) -> Sender<()> {
        let (end, ended) = channel::<()>();
        assert!(!helpers.run(&key, move || ended.recv().unwrap_or_default()));
        end
    }

    #[test]
    fn work_that_ends_is_done_by_one_thread() {
        let helpers = helpers(LONG);
        let (tell, told) = channel();
        for _ in 0..2 {
            let tell = tell.clone();
            assert!(helpers.run(&1, move || tell.send(current().id()).unwrap()));
        }
        let threads = [told.recv().unwrap(), told.recv().unwrap()];
        assert!(threads[0] == threads[1] && threads[0] != current().id());
        assert!(!helpers.are_busy());
    }

    #[test]
    fn work_that_does_not_end_holds_up_its_own_key_alone() {
        let helpers = helpers(SHORT);
        let end = hang(&helpers, 1);
        assert!(!helpers.run(&1, || ()), "the same device does not answer");
        assert!(helpers.has_left_alone(&1) && !helpers.has_left_alone(&2));
        let patient = Helpers { patience: LONG, ..helpers };
        assert!(patient.run(&2, || ()));
        assert!(patient.are_busy());
        drop(end);
        assert!(patient.run_after(&1, || ()), "it has ended");
        let start = std::time::Instant::now();
        while patient.wake_up.descriptor().read().is_err() {
            assert!(start.elapsed() < LONG, "the keeper looks again");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!patient.are_busy());
    }

    #[test]
    fn result_that_comes_too_late_is_dropped() {
        let helpers = helpers(LONG);
        assert_eq!(helpers.ask(&1, Some(LONG), || 7), Some(7));
        let (end, ended) = channel::<()>();
        let result = std::sync::Arc::new(());
        let late = Arc::clone(&result);
        let work = move || {
            let _ = ended.recv();
            late
        };
        assert_eq!(helpers.ask(&1, Some(SHORT), work), None);
        end.send(()).unwrap();
        assert!(helpers.run_after(&1, || ()));
        let start = std::time::Instant::now();
        while Arc::strong_count(&result) > 1 {
            assert!(start.elapsed() < LONG, "it is dropped");
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_that_does_not_end_makes_the_waits_for_further_work_shorter() {
        let helpers = helpers(SHORT);
        let ends: Vec<_> = (0..16).map(|key| hang(&helpers, key)).collect();
        let running = lock(&helpers.running.keys).len();
        assert_eq!((running, helpers.share_of(running)), (16, SHORT / 16));
        let all: Duration = (1..=running).map(|pieces| helpers.share_of(pieces)).sum();
        assert!(all < 4 * SHORT, "{all:?}, not 16 times {SHORT:?}");
        drop(ends);
    }

    #[test]
    fn threads_that_were_left_alone_are_bounded() {
        let helpers = helpers(Duration::ZERO);
        let keys = 0..u8::try_from(WORK_MAX).unwrap();
        let ends: Vec<_> = keys.clone().map(|key| hang(&helpers, key)).collect();
        let patient = Helpers { patience: LONG, ..helpers };
        assert!(!patient.run(&200, || panic!("there is no thread for it")));
        drop(ends);
        for key in keys {
            assert!(patient.run_after(&key, || ()));
        }
        assert!(!patient.are_busy());
    }
}
