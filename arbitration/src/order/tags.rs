//! Tags of sessions and hosts for the order by weight (start-time fair queueing, Goyal et al., 1996),
//! as all reactors share them.
//!
//! In each class a session or host has a finish tag in the virtual time of the session above it. The
//! tag grows by cost / weight with each command, in whichever reactor. A session also has a virtual time
//! for the nodes below it. In each reactor it is the least start tag of the nodes that wait there, or the start
//! tag of the latest command where none waits. A node that begins to wait starts at the virtual time if its finish
//! tag is behind it, so that neither debt nor savings are left from an idle time.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;
use units::PerClass;

use super::fairness::OfClass;
use crate::session::{HostId, SessionId};
use crate::sharing::Sharing;
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The tags of one node in one class.
#[derive(Debug)]
pub(super) struct ClassTags {
    /// Finish tag, in the virtual time of the node above.
    pub(super) finish: AtomicU64,
    /// Reactors in which the node waits.
    pub(super) waiting: AtomicU32,
    /// Virtual time of the nodes below, by reactor.
    pub(super) below: OfClass,
}

/// The tags of one node.
#[derive(Debug)]
pub(super) struct Tags(pub(super) PerClass<ClassTags>);

/// The part of a session that a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// The session with all below it.
    Whole,
    /// The hosts that are directly in the session.
    Hosts,
    /// One of these hosts.
    Host(HostId),
}

/// The name of a node, which all reactors have in common: a session's number and serial number, and
/// the part of the session.
pub(super) type TagsKey = (SessionId, u32, Part);

/// The tags of all sessions and hosts at a device, as far as reactors use them.
#[derive(Debug)]
pub(crate) struct DeviceTags {
    reactors: usize,
    pub(super) sharing: Sharing,
    /// Reactors in which a session with a weight has flows to the device.
    weighted: AtomicU32,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    tags: FxHashMap<TagsKey, Weak<Tags>>,
    /// Number of tags at which unused ones are removed.
    sift_at: usize,
}

impl DeviceTags {
    /// Makes the tags of a device that this many reactors feed.
    pub(crate) fn new(reactors: usize, sharing: Sharing) -> Self {
        Self { reactors, sharing, weighted: AtomicU32::new(0), known: Mutex::default() }
    }

    /// Returns whether commands go by weight: a session with a weight has flows to the device.
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        self.weighted.load(Relaxed) != 0
    }

    /// Notes that sessions with a weight have flows in one more reactor.
    pub(crate) fn begin(&self) {
        self.weighted.fetch_add(1, Relaxed);
    }

    /// Notes that sessions with a weight have flows in one reactor less.
    pub(crate) fn end(&self) {
        let before = self.weighted.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "each end follows a begin");
    }

    /// Finds the tags of a node, or makes them.
    pub(super) fn find_or_create(&self, key: TagsKey) -> Arc<Tags> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tags) = known.tags.get(&key).and_then(Weak::upgrade) {
            return tags;
        }
        if known.tags.len() >= known.sift_at {
            known.tags.retain(|_, tags| tags.strong_count() > 0);
            known.sift_at = 2 * known.tags.len() + 64;
        }
        // A host has nothing below it.
        let reactors = if matches!(key.2, Part::Host(_)) { 0 } else { self.reactors };
        let tags = |_| ClassTags {
            finish: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            below: OfClass::new(reactors),
        };
        let tags = Arc::new(Tags(PerClass::from_fn(tags)));
        known.tags.insert(key, Arc::downgrade(&tags));
        tags
    }
}
