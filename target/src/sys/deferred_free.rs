//! Deferred frees of values that reactors use for a while. Freeing a large value takes longer than
//! a reactor may stand still, so the thread that shares a value frees it.

use std::sync::{Arc, Mutex};

use super::sync::lock;

/// Shared values that a reactor may still use.
#[derive(Debug)]
pub(crate) struct DeferredFree<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for DeferredFree<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> DeferredFree<T> {
    /// Keeps a value until no reactor has it any more, and frees values that no reactor has.
    pub(crate) fn keep(&self, value: Arc<T>) {
        let mut all = lock(&self.0);
        all.push(value);
        let (unused, used): (Vec<_>, Vec<_>) =
            all.drain(..).partition(|value| Arc::strong_count(value) == 1);
        *all = used;
        drop(all);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_freed_by_the_thread_that_shares_it_and_not_before_it_is_unused() {
        let (shared, one) = (DeferredFree::default(), Arc::new(1));
        let seen = Arc::downgrade(&one);
        shared.keep(Arc::clone(&one));
        drop(one);
        assert_eq!(seen.strong_count(), 1, "the last user did not free it");
        let two = Arc::new(2);
        shared.keep(Arc::clone(&two));
        assert_eq!(seen.strong_count(), 0);
        shared.keep(Arc::new(3));
        assert_eq!(Arc::strong_count(&two), 2, "it is still used");
    }
}
