//! Values that are lent to reactors for a while. Freeing a large one takes longer than a reactor
//! may stand still, so the lending thread frees it.

use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Values that a reactor may still use.
#[derive(Debug)]
pub(crate) struct Lent<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for Lent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Lent<T> {
    /// Keeps a value until no reactor has it any more, and frees those that are back.
    pub(crate) fn keep(&self, value: Arc<T>) {
        let mut all = lock(&self.0);
        all.push(value);
        let (back, lent): (Vec<_>, Vec<_>) =
            all.drain(..).partition(|value| Arc::strong_count(value) == 1);
        *all = lent;
        drop(all);
        drop(back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_freed_by_its_lender_and_not_before_it_is_back() {
        let (lent, one) = (Lent::default(), Arc::new(1));
        let seen = Arc::downgrade(&one);
        lent.keep(Arc::clone(&one));
        drop(one);
        assert_eq!(seen.strong_count(), 1, "the last user did not free it");
        let two = Arc::new(2);
        lent.keep(Arc::clone(&two));
        assert_eq!(seen.strong_count(), 0);
        lent.keep(Arc::new(3));
        assert_eq!(Arc::strong_count(&two), 2, "it is still used");
    }
}
