//! A small number for each thread, from which it begins its search for something free, so that
//! threads rarely meet.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: usize = COUNT.fetch_add(1, Relaxed);
}

/// Returns this thread's number. Threads that are over keep theirs.
pub(super) fn number() -> usize {
    NUMBER.with(|number| *number)
}
