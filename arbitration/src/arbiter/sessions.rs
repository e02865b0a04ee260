//! What an arbiter knows of sessions: those that its flows and commands are of, and those above
//! them. One comes with its first flow and goes with the last that is of it or below it.

use std::sync::Arc;

use units::Nanos;

use super::{Arbiter, CreditSet};
use crate::order::NONE;
use crate::session::Session;

/// What an arbiter needs to know of a session for each command.
#[derive(Debug)]
pub(super) struct LocalSession {
    pub(super) session: Option<Arc<Session>>,
    /// It and those above it whose rates are limited.
    pub(super) limits: Vec<Arc<Session>>,
    /// The set of credits that its commands take now; none where none are bounded.
    pub(super) set: u32,
    /// Neither limits nor bounded credits concern its commands.
    pub(super) free: bool,
    /// Commands here, waiting or dispatched, flows, and sessions below it.
    pub(super) here: u32,
}

/// Where a session is among the others.
#[derive(Debug)]
pub(super) struct Kin {
    /// The session above.
    pub(super) parent: u32,
    /// The first of those below it.
    pub(super) child: u32,
    /// Neighbours below the same session.
    pub(super) prev: u32,
    pub(super) next: u32,
    /// The first of its flows.
    pub(super) flows: u32,
    /// Devices at which it was blocked, until it is released everywhere.
    pub(super) blocked_at: Vec<u32>,
}

impl Default for LocalSession {
    fn default() -> Self {
        Self { session: None, limits: Vec::new(), set: NONE, free: true, here: 0 }
    }
}

impl Default for Kin {
    fn default() -> Self {
        Self {
            parent: NONE,
            child: NONE,
            prev: NONE,
            next: NONE,
            flows: NONE,
            blocked_at: Vec::new(),
        }
    }
}

impl<T: Copy> Arbiter<T> {
    /// Makes what is known of a session, where nothing is.
    pub(super) fn keep_session(&mut self, session: &Arc<Session>) {
        let id = session.id().0;
        if self.local(id).is_some_and(|local| local.session.is_some()) {
            return;
        }
        self.visit();
        let places = self.sessions.len().max(id as usize + 1);
        self.sessions.resize_with(places, LocalSession::default);
        self.kin.resize_with(places, Kin::default);
        if let Some(parent) = session.parent() {
            self.keep_session(parent);
            let above = parent.id().0;
            if let Some(local) = self.sessions.get_mut(above as usize) {
                local.here += 1;
            }
            let first =
                self.kin.get_mut(above as usize).map(|kin| std::mem::replace(&mut kin.child, id));
            let next = first.unwrap_or(NONE);
            if let Some(kin) = self.kin.get_mut(next as usize) {
                kin.prev = id;
            }
            if let Some(kin) = self.kin.get_mut(id as usize) {
                (kin.parent, kin.prev, kin.next) = (above, NONE, next);
            }
        }
        if let Some(local) = self.sessions.get_mut(id as usize) {
            local.session = Some(Arc::clone(session));
        }
        self.derive(id);
    }

    /// A session has one command, flow or session below it less; it goes with the last of them.
    #[inline]
    pub(super) fn leave_session(&mut self, session: u32) {
        let Some(local) = self.sessions.get_mut(session as usize) else { return };
        local.here = local.here.saturating_sub(1);
        if local.here == 0 {
            self.forget_session(session);
        }
    }

    #[cold]
    fn forget_session(&mut self, mut session: u32) {
        loop {
            self.visit();
            self.step_over_session(session);
            let Some(local) = self.sessions.get_mut(session as usize) else { return };
            let local = std::mem::take(local);
            self.retire_set(local.set);
            let Some(kin) = self.kin.get_mut(session as usize).map(std::mem::take) else { return };
            if let Some(next) = self.kin.get_mut(kin.next as usize) {
                next.prev = kin.prev;
            }
            match self.kin.get_mut(kin.prev as usize) {
                Some(prev) => prev.next = kin.next,
                None => {
                    if let Some(parent) = self.kin.get_mut(kin.parent as usize) {
                        parent.child = kin.next;
                    }
                }
            }
            session = kin.parent;
            let Some(above) = self.sessions.get_mut(session as usize) else { return };
            above.here = above.here.saturating_sub(1);
            if above.here > 0 {
                return;
            }
        }
    }

    /// Finds out what limits a session's commands, and which credits they take.
    pub(super) fn derive(&mut self, place: u32) {
        let local = self.local(place);
        let Some(session) = local.and_then(|local| local.session.clone()) else { return };
        let limits: Vec<_> = session.line().filter(|s| s.is_limited()).cloned().collect();
        let chain: Vec<_> = session.line().filter(|s| s.is_capped()).cloned().collect();
        let old = local.map_or(NONE, |local| local.set);
        let free = limits.is_empty() && chain.is_empty();
        let same = |a: &[Arc<Session>], b: &[Arc<Session>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let set = if same(self.chain(old), &chain) {
            old
        } else {
            self.retire_set(old);
            self.new_set(chain)
        };
        if let Some(local) = self.sessions.get_mut(place as usize) {
            (local.limits, local.set, local.free) = (limits, set, free);
        }
    }

    /// A set to take credits from; none where there is nothing to take.
    fn new_set(&mut self, chain: Vec<Arc<Session>>) -> u32 {
        if chain.is_empty() {
            return NONE;
        }
        let set = Some(CreditSet { chain, held: 0, current: true });
        if let Some(index) = self.free_sets.pop()
            && let Some(place) = self.sets.get_mut(index as usize)
        {
            *place = set;
            return index;
        }
        self.sets.push(set);
        u32::try_from(self.sets.len() - 1).unwrap_or(NONE)
    }

    /// A set that no new command takes from; it goes with the last that holds some of it.
    fn retire_set(&mut self, set: u32) {
        if let Some(Some(entry)) = self.sets.get_mut(set as usize) {
            entry.current = false;
            self.drop_set(set);
        }
    }

    pub(super) fn drop_set(&mut self, set: u32) {
        let Some(place) = self.sets.get_mut(set as usize) else { return };
        if place.as_ref().is_some_and(|entry| !entry.current && entry.held == 0) {
            *place = None;
            self.free_sets.push(set);
        }
    }

    pub(super) fn chain(&self, set: u32) -> &[Arc<Session>] {
        let set = self.sets.get(set as usize).and_then(Option::as_ref);
        set.map(|set| set.chain.as_slice()).unwrap_or_default()
    }

    /// Blocks a session at a device.
    pub(super) fn block(&mut self, device: u32, session: u32) {
        let note = self.queue_mut(device).is_some_and(|queue| queue.block(session));
        if note && let Some(kin) = self.kin.get_mut(session as usize) {
            kin.blocked_at.push(device);
        }
    }

    /// Releases a session at all devices at which it is blocked.
    pub(super) fn unblock_everywhere(&mut self, now: Nanos, session: u32) {
        let Some(kin) = self.kin.get_mut(session as usize) else { return };
        for device in std::mem::take(&mut kin.blocked_at) {
            if let Some(queue) = self.queue_mut(device) {
                queue.forget_note(session);
                queue.unblock(now, session);
            }
        }
    }
}
