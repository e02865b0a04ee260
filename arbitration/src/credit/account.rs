//! Credits of a session and of all sessions above it at once, and tasks of unknown size.

use std::sync::Arc;

use super::{Cost, Credits};

/// Takes `cost` of every session, or of none and says no.
///
/// The session itself comes first and the root last. While this fails others may for a moment see
/// the lower sessions fuller than they are, and be refused for it. Whoever is so refused needs the
/// session that was full as well, and asks again when something there completes.
#[inline]
pub fn take_all(sessions: &[Arc<Credits>], cost: Cost) -> bool {
    for (taken, session) in sessions.iter().enumerate() {
        if !session.take(cost) {
            sessions.iter().take(taken).for_each(|session| session.give(cost));
            return false;
        }
    }
    true
}

/// Gives back to every session what [`take_all`] took.
#[inline]
pub fn give_all(sessions: &[Arc<Credits>], cost: Cost) {
    sessions.iter().for_each(|session| session.give(cost));
}

/// A session and those above it, as what runs in it pays them. Cloning does not allocate.
#[derive(Clone, Debug)]
pub struct Account {
    sessions: Arc<[Arc<Credits>]>,
}

impl Account {
    /// The session itself first, then its parent and so on, the root last.
    #[must_use]
    pub fn new(sessions: impl IntoIterator<Item = Arc<Credits>>) -> Self {
        Self { sessions: sessions.into_iter().collect() }
    }

    /// The sessions, the root last.
    #[must_use]
    pub fn sessions(&self) -> &[Arc<Credits>] {
        &self.sessions
    }

    /// Takes `cost` of every session, or of none and says no. See [`take_all`].
    #[inline]
    pub fn take(&self, cost: Cost) -> bool {
        take_all(&self.sessions, cost)
    }

    /// Gives back what was taken.
    #[inline]
    pub fn give(&self, cost: Cost) {
        give_all(&self.sessions, cost);
    }

    /// Whether `cost` could be taken now.
    #[inline]
    #[must_use]
    pub fn fits(&self, cost: Cost) -> bool {
        self.sessions.iter().all(|session| session.fits(cost))
    }

    /// Takes what a task of unknown size may need, and more than it will use if need be; none where
    /// that much is not free. See docs/sources.md, D2: credits bound what runs.
    #[must_use]
    pub fn reserve(&self, most: Cost) -> Option<Advance> {
        self.take(most).then(|| Advance { account: self.clone(), held: most })
    }
}

/// Credits that a task holds before it knows what it needs (docs/sources.md, D2: credits bound what
/// runs). What it still holds when this goes away is given back.
#[derive(Debug)]
#[must_use = "the credits are given back at once"]
pub struct Advance {
    account: Account,
    held: Cost,
}

impl Advance {
    /// What is held.
    #[must_use]
    pub const fn held(&self) -> Cost {
        self.held
    }

    /// The size is known: gives back what `needed` leaves, and takes what it lacks. Where that is
    /// not free, says no, and all is as before.
    pub fn settle(&mut self, needed: Cost) -> bool {
        let lacking = needed.beyond(self.held);
        if lacking != Cost::default() && !self.account.take(lacking) {
            return false;
        }
        self.account.give(self.held.beyond(needed));
        self.held = needed;
        true
    }

    /// Takes a part out, for one of several pieces of the task that end at their own times; none
    /// where less is held.
    #[must_use]
    pub fn split(&mut self, part: Cost) -> Option<Self> {
        if part.beyond(self.held) != Cost::default() {
            return None;
        }
        self.held = self.held.beyond(part);
        Some(Self { account: self.account.clone(), held: part })
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        self.account.give(self.held);
    }
}
