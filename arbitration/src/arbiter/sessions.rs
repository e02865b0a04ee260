//! The sessions that an arbiter knows: the sessions of its flows and commands, and their ancestors.
//! A session is added with its first flow, and removed with the last flow or command of itself and
//! its descendants.

use std::sync::Arc;

use super::credit_sets::CreditSets;
use super::ids::{CreditSetId, DeviceId, HostFlowIndex};
use crate::index::grown;
use crate::session::{Session, SessionId};

/// The part of a session that an arbiter needs for each command.
#[derive(Debug)]
pub(super) struct LocalSession {
    pub(super) session: Arc<Session>,
    /// The session and those above it whose rates are limited, the highest first. While the limit above
    /// holds all of them back, none leaves its turn because of a limit of its own.
    pub(super) limits: Vec<Arc<Session>>,
    /// The credit set that the session's commands take from now; `None`: none are bounded.
    pub(super) set: Option<CreditSetId>,
    /// Whether neither limits nor bounded credits concern the session's commands.
    pub(super) free: bool,
    /// Commands here, waiting or dispatched, flows, and sessions below this one.
    pub(super) here: u32,
}

/// The links of a session to others, which are not needed for each command.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The session above; `None`: this is the root.
    parent: Option<SessionId>,
    /// The first of the sessions below it.
    child: Option<SessionId>,
    /// Neighbours below the same session.
    prev: Option<SessionId>,
    next: Option<SessionId>,
    /// The first of its flows.
    pub(super) flows: Option<HostFlowIndex>,
    /// Devices at which it was blocked, until it is unblocked everywhere.
    pub(super) blocked_at: Vec<DeviceId>,
}

static NO_LINKS: Links = Links {
    parent: None,
    child: None,
    prev: None,
    next: None,
    flows: None,
    blocked_at: Vec::new(),
};

/// The sessions of an arbiter, and the credit sets that their commands take from.
#[derive(Debug)]
pub(super) struct LocalSessions {
    /// The sessions, by their numbers.
    places: Vec<Option<LocalSession>>,
    /// Their links, by the same numbers.
    links: Vec<Links>,
    pub(super) sets: CreditSets,
}

const fn place(session: SessionId) -> usize {
    session.0 as usize
}

impl LocalSessions {
    pub(super) fn with_capacity(places: usize) -> Self {
        Self {
            places: Vec::with_capacity(places),
            links: Vec::with_capacity(places),
            sets: CreditSets::default(),
        }
    }

    /// Returns the local state of a session, if it is known.
    #[inline]
    pub(super) fn get(&self, session: SessionId) -> Option<&LocalSession> {
        self.places.get(place(session))?.as_ref()
    }

    /// Returns the local state of a session that has flows, commands or child sessions here.
    #[inline]
    pub(super) fn kept(&self, session: SessionId) -> Option<&LocalSession> {
        let found = self.get(session);
        debug_assert!(found.is_some(), "flows, commands and sessions below it keep a session");
        found
    }

    /// Returns the local state of a session that has flows, commands or child sessions here.
    #[inline]
    pub(super) fn kept_mut(&mut self, session: SessionId) -> Option<&mut LocalSession> {
        let found = self.places.get_mut(place(session)).and_then(Option::as_mut);
        debug_assert!(found.is_some(), "flows, commands and sessions below it keep a session");
        found
    }

    /// Finds where a session is among the others.
    pub(super) fn links(&self, session: SessionId) -> &Links {
        self.links.get(place(session)).unwrap_or(&NO_LINKS)
    }

    /// Finds where a session is among the others.
    pub(super) fn links_mut(&mut self, session: SessionId) -> &mut Links {
        grown(&mut self.links, place(session), Links::default)
    }

    /// Counts the places there are for sessions.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    /// Counts one flow or command of a session more.
    #[inline]
    pub(super) fn count(&mut self, session: SessionId) {
        if let Some(local) = self.kept_mut(session) {
            local.here += 1;
        }
    }

    /// Counts one flow or command of a session less. Returns whether it was the last, and nothing
    /// is below the session: then the caller [removes](Self::remove) it.
    #[inline]
    pub(super) fn uncount(&mut self, session: SessionId) -> bool {
        let Some(local) = self.kept_mut(session) else { return false };
        debug_assert!(local.here > 0, "what is here is counted once");
        local.here = local.here.saturating_sub(1);
        local.here == 0
    }

    /// Adds a session, and those above it, that are not known yet. Returns how many were added.
    pub(super) fn keep(&mut self, session: &Arc<Session>) -> usize {
        let id = session.id();
        if self.get(id).is_some() {
            return 0;
        }
        let mut made = 1;
        if let Some(parent) = session.parent() {
            made += self.keep(parent);
            let above = parent.id();
            self.count(above);
            let next = self.links_mut(above).child.replace(id);
            if let Some(next) = next {
                self.links_mut(next).prev = Some(id);
            }
            let links = self.links_mut(id);
            (links.parent, links.prev, links.next) = (Some(above), None, next);
        }
        let session = Arc::clone(session);
        let local = LocalSession { session, limits: Vec::new(), set: None, free: true, here: 0 };
        *grown(&mut self.places, place(id), || None) = Some(local);
        self.derive(id);
        made
    }

    /// Forgets a session that has no flow, no command and no session below it. Returns the session
    /// above where the same is true of that now.
    pub(super) fn remove(&mut self, session: SessionId) -> Option<SessionId> {
        let local = self.places.get_mut(place(session)).and_then(Option::take);
        debug_assert!(local.is_some(), "no session goes twice");
        if let Some(set) = local.and_then(|local| local.set) {
            self.sets.retire(set);
        }
        let links = std::mem::take(self.links_mut(session));
        if let Some(next) = links.next {
            self.links_mut(next).prev = links.prev;
        }
        match (links.prev, links.parent) {
            (Some(prev), _) => self.links_mut(prev).next = links.next,
            (None, Some(parent)) => self.links_mut(parent).child = links.next,
            (None, None) => {}
        }
        links.parent.filter(|parent| self.uncount(*parent))
    }

    /// Finds out what limits a session's commands, and which credits they take.
    pub(super) fn derive(&mut self, session: SessionId) {
        let Some(local) = self.kept(session) else { return };
        let line = || local.session.line();
        let mut limits: Vec<_> = line().filter(|session| session.is_limited()).cloned().collect();
        limits.reverse();
        let chain: Vec<_> = line().filter(|session| session.is_capped()).cloned().collect();
        let old = local.set;
        let free = limits.is_empty() && chain.is_empty();
        let same = |a: &[Arc<Session>], b: &[Arc<Session>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let set = if same(self.sets.chain(old), &chain) {
            old
        } else {
            if let Some(old) = old {
                self.sets.retire(old);
            }
            self.sets.add(chain)
        };
        if let Some(local) = self.kept_mut(session) {
            (local.limits, local.set, local.free) = (limits, set, free);
        }
    }

    /// Returns the session after `at` in the subtree of `top`, parents before children. If `below`
    /// is false, the sessions below `at` are skipped.
    pub(super) fn after(
        &self,
        top: SessionId,
        mut at: SessionId,
        below: bool,
    ) -> Option<SessionId> {
        if below && let Some(child) = self.links(at).child {
            return Some(child);
        }
        while at != top {
            let here = self.links(at);
            if here.next.is_some() {
                return here.next;
            }
            at = here.parent?;
        }
        None
    }

    /// Notes that a session is no longer blocked at a device.
    pub(super) fn forget_blocked_at(&mut self, session: SessionId, device: DeviceId) {
        let blocked_at = &mut self.links_mut(session).blocked_at;
        if let Some(at) = blocked_at.iter().position(|other| *other == device) {
            blocked_at.swap_remove(at);
        }
    }

    /// Lists the known sessions.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &LocalSession)> {
        (0..).map(SessionId).zip(&self.places).filter_map(|(id, local)| Some((id, local.as_ref()?)))
    }
}
