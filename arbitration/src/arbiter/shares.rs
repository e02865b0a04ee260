//! The shares of hosts in one reactor's part of a device: a host that waits in several reactors has
//! a share of its part in each.

use std::sync::Arc;

use units::{Class, PerClass};

use crate::index::grown;
use crate::order::{NodeId, Spread, SpreadKey, Spreads, WHOLE};

/// The share of a host.
#[derive(Debug)]
struct Share {
    key: SpreadKey,
    spread: Arc<Spread>,
    /// Reactors in which the host waited when that was last looked at, by class; 0: nothing of the
    /// class waits here.
    reactors: PerClass<u32>,
}

/// The shares of the hosts that have flows to a device in one of several reactors.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The shares by the numbers of the hosts' leaves.
    by_leaf: Vec<Option<Share>>,
    /// The sums of the shares of the hosts that wait, in parts of [`WHOLE`].
    sums: PerClass<u64>,
}

/// Computes the share of a host that waits in this many reactors.
fn share(reactors: u32) -> u64 {
    WHOLE.checked_div(u64::from(reactors)).unwrap_or(0)
}

impl Shares {
    #[inline]
    fn share(&mut self, leaf: NodeId) -> Option<&mut Share> {
        self.by_leaf.get_mut(leaf.number() as usize)?.as_mut()
    }

    /// Adds a host.
    pub(super) fn add(&mut self, spreads: &Spreads, leaf: NodeId, key: SpreadKey) {
        let (spread, reactors) = (spreads.join(key), PerClass::default());
        let place = grown(&mut self.by_leaf, leaf.number() as usize, || None);
        *place = Some(Share { key, spread, reactors });
    }

    /// Removes a host.
    pub(super) fn remove(&mut self, spreads: &Spreads, leaf: NodeId) {
        for class in Class::ALL {
            self.ends(class, leaf);
        }
        let place = self.by_leaf.get_mut(leaf.number() as usize);
        if let Some(share) = place.and_then(Option::take) {
            spreads.leave(share.key);
        }
    }

    /// Removes all hosts.
    pub(super) fn clear(&mut self, spreads: &Spreads) {
        for share in self.by_leaf.drain(..).flatten() {
            for (class, reactors) in share.reactors.iter() {
                if *reactors > 0 {
                    share.spread.ends(class);
                }
            }
            spreads.leave(share.key);
        }
        self.sums = PerClass::default();
    }

    /// Notes that a host of which nothing of a class waited here has something now.
    #[inline]
    pub(super) fn begins(&mut self, class: Class, leaf: NodeId) {
        let Some(one) = self.share(leaf) else { return };
        if one.reactors[class] == 0 {
            let reactors = one.spread.begins(class);
            one.reactors[class] = reactors;
            self.sums[class] += share(reactors);
        }
    }

    /// Notes that nothing of a class of a host waits here any more.
    #[inline]
    pub(super) fn ends(&mut self, class: Class, leaf: NodeId) {
        let Some(one) = self.share(leaf) else { return };
        let reactors = std::mem::take(&mut one.reactors[class]);
        if reactors > 0 {
            one.spread.ends(class);
            self.sums[class] = self.sums[class].saturating_sub(share(reactors));
        }
    }

    /// Returns the number of reactors in which a host waits that goes next, at least 1.
    #[inline]
    pub(super) fn reactors(&mut self, class: Class, leaf: NodeId) -> u32 {
        let Some(one) = self.share(leaf) else { return 1 };
        let (seen, now) = (one.reactors[class], one.spread.reactors(class));
        if seen != now && seen > 0 && now > 0 {
            one.reactors[class] = now;
            let sum = &mut self.sums[class];
            *sum = sum.saturating_sub(share(seen)).saturating_add(share(now));
        }
        now.max(1)
    }

    /// Returns in how many reactors a host waits, and whether this is one of them.
    #[cfg(test)]
    pub(super) fn reactors_of(&self, class: Class, leaf: NodeId) -> Option<(u32, bool)> {
        let one = self.by_leaf.get(leaf.number() as usize)?.as_ref()?;
        let waiting = self.by_leaf.iter().flatten().filter(|one| one.reactors[class] > 0);
        assert_eq!(self.sums[class], waiting.count() as u64 * WHOLE);
        Some((one.spread.reactors(class), one.reactors[class] > 0))
    }

    /// Returns the sum of the shares of the hosts that wait here, in parts of [`WHOLE`].
    #[inline]
    pub(super) fn sum(&self, class: Class) -> u64 {
        self.sums[class]
    }
}
