//! Reactors that wait for a session's credits, and how they learn that it has some again.

use crate::credit::Cost;
use crate::reactors::Reactors;
use crate::session::{Session, SessionId};
use crate::sync::{AtomicU64, Ordering::SeqCst};

/// Number of sessions with separate bits: sessions with equal numbers modulo this are announced
/// together.
pub(super) const ANNOUNCED_SESSIONS: u32 = 4096;

/// The sessions announced to one reactor: a bit for each, by its number modulo
/// [`ANNOUNCED_SESSIONS`].
#[derive(Debug)]
struct Announcements {
    /// One bit for each word that is not 0.
    summary: AtomicU64,
    words: [AtomicU64; 64],
}

impl Announcements {
    /// Finds the word of this number, of which there are 64.
    #[expect(clippy::indexing_slicing, reason = "a number modulo the words is that of a word")]
    #[inline]
    fn word(&self, number: u32) -> &AtomicU64 {
        &self.words[number as usize % 64]
    }
}

/// Tells the reactors that wait for credits which sessions have some again. All reactors share it.
#[derive(Debug)]
pub struct Waiters {
    told: Vec<Announcements>,
}

impl Waiters {
    /// Makes the waiters of this many reactors.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        let told = || Announcements {
            summary: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; 64],
        };
        Self { told: (0..reactors.max(1)).map(|_| told()).collect() }
    }

    /// Notes that a reactor waits for a session's credits, of which it has found too few for
    /// `cost`.
    pub(crate) fn wait(&self, reactor: u32, session: &Session, cost: Cost) {
        session.wait(reactor);
        // A credit that came back before `wait` woke no one: look again, or the wake-up is lost.
        if session.credits.fits(cost) {
            self.tell(reactor, session.id());
        }
    }

    /// Gives credits back to a session, and tells the reactors that wait for them. Returns these
    /// reactors.
    #[inline]
    pub(crate) fn give(&self, session: &Session, cost: Cost) -> Reactors {
        session.credits.give(cost);
        // The waiters are taken after the credits are back: a reactor that waits from now on finds
        // them.
        let wake = session.take_waiters();
        for reactor in wake {
            self.tell(reactor, session.id());
        }
        wake
    }

    #[inline]
    fn told(&self, reactor: u32) -> Option<&Announcements> {
        let told = self.told.get(reactor as usize);
        debug_assert!(told.is_some(), "there is a place for each reactor that has an arbiter");
        told
    }

    /// Tells a reactor that a session has credits.
    pub(crate) fn tell(&self, reactor: u32, session: SessionId) {
        let Some(told) = self.told(reactor) else { return };
        let SessionId(session) = session;
        let word = session / 64 % 64;
        told.word(word).fetch_or(1 << (session % 64), SeqCst);
        // The summary is set after the word: a reactor that takes it finds the word set.
        told.summary.fetch_or(1 << word, SeqCst);
    }

    /// Returns whether a reactor has no announcements.
    #[inline]
    pub(crate) fn is_empty(&self, reactor: u32) -> bool {
        self.told(reactor).is_none_or(|told| told.summary.load(SeqCst) == 0)
    }

    /// Takes the announcements to a reactor: numbers of sessions modulo [`ANNOUNCED_SESSIONS`].
    pub(crate) fn take(&self, reactor: u32, mut each: impl FnMut(u32)) {
        let Some(told) = self.told(reactor) else { return };
        if told.summary.load(SeqCst) == 0 {
            return;
        }
        // The summary is taken before the words: a later announcement sets it again.
        let mut summary = told.summary.swap(0, SeqCst);
        while summary != 0 {
            let word = summary.trailing_zeros();
            summary &= summary - 1;
            let mut bits = told.word(word).swap(0, SeqCst);
            while bits != 0 {
                each(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}
