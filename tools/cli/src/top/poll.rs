//! A thread that asks the daemon at intervals, so that a slow answer does not hold up the screen.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::sample::Sample;

/// A message of the thread: a sample, or the reason why there is none. Only one exists at a time.
pub(super) type Update = Result<Box<Sample>, String>;

/// The other end of the thread.
#[derive(Debug)]
pub(super) struct Poller {
    pub(super) updates: Receiver<Update>,
    interval_ms: Arc<AtomicU64>,
    thread: thread::Thread,
}

impl Poller {
    /// Starts the thread. It ends soon after the poller is dropped.
    pub(super) fn start(socket: &Path, interval: Duration, patience: Duration) -> Self {
        // At most one sample waits to be shown: the thread waits until it is taken.
        let (sender, updates) = sync_channel(1);
        let interval_ms = Arc::new(AtomicU64::new(0));
        let (shared, client) = (Arc::clone(&interval_ms), Client::new(socket, patience));
        interval_ms.store(milliseconds(interval), Relaxed);
        let handle = thread::spawn(move || ask(client, &sender, &shared));
        Self { updates, interval_ms, thread: handle.thread().clone() }
    }

    pub(super) fn set_interval(&self, interval: Duration) {
        self.interval_ms.store(milliseconds(interval), Relaxed);
        self.thread.unpark();
    }
}

fn milliseconds(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)
}

fn ask(mut client: Client, sender: &SyncSender<Update>, interval_ms: &AtomicU64) {
    loop {
        let begun = Instant::now();
        let update = Sample::take(&mut client).map(Box::new).map_err(|error| format!("{error:#}"));
        // The poller was dropped.
        if sender.send(update).is_err() {
            return;
        }
        loop {
            let interval = Duration::from_millis(interval_ms.load(Relaxed));
            let left = interval.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
    }
}
