//! Stage S2: the tree of QoS sessions (seed rows D1 to D3, D5).
//!
//! A session has a share of its parent's operation and payload credits, limits on its rates, and
//! a bound on its queue. [`Sessions`] is the control side: it makes a [`Plan`] of what the
//! configuration says, which the reactors take as a whole. What is counted lives in the
//! [`Session`]s, which all plans share that name them, so that a change loses nothing.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use thiserror::Error;

use crate::credit::{Caps, Credits};
use crate::limit::{Limiter, Rate};
use crate::overload::Backlog;
use crate::reservation::Reserved;
use crate::settings::OrderSettings;
use crate::sharing::Sharing;
use crate::time::Nanos;

/// A session's place in a plan. The root is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

impl SessionId {
    /// The session above all others.
    pub const ROOT: Self = Self(0);
}

/// What a session is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSpec {
    /// Its name, unique.
    pub name: String,
    /// Its parent's name; none: the root.
    pub parent: Option<String>,
    /// Operation credits, in per cent of the parent's; none: no bound but the parent's.
    pub operations: Option<u8>,
    /// Payload credits, in per cent of the parent's.
    pub payload: Option<u8>,
    /// Commands per second.
    pub iops: Option<Rate>,
    /// Bytes per second.
    pub bandwidth: Option<Rate>,
    /// Commands that may wait before hosts are held back; none: the root's.
    pub queue: Option<u32>,
}

/// What the root has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSpec {
    /// Operation and payload credits of the whole target: what shares are of.
    pub caps: Caps,
    /// Whether they bound the target itself. Without, commands of sessions without a share are
    /// not counted, which costs time for each.
    pub bounded: bool,
    /// Commands that may wait in the whole target.
    pub queue: u32,
}

impl RootSpec {
    fn own_caps(&self) -> Caps {
        if self.bounded { self.caps } else { Caps::NONE }
    }
}

/// Why a tree of sessions cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The parent is not there, or is below the session itself.
    #[error("session {name} has the parent {parent}, which {why}")]
    Parent {
        /// The session.
        name: String,
        /// Its parent.
        parent: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two sessions have one name.
    #[error("there are two sessions named {0}")]
    Twice(String),
    /// The children of one parent are given more than it has.
    #[error("the {what} credits of the sessions below {parent} sum to {sum} %; at most 100 % fit")]
    Shares {
        /// The parent.
        parent: String,
        /// `operation` or `payload`.
        what: &'static str,
        /// In per cent.
        sum: u32,
    },
}

/// A session, as all reactors share it.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    name: String,
    parent: Option<Arc<Self>>,
    /// Its credits.
    pub credits: Arc<Credits>,
    /// Commands per second.
    pub iops: Limiter,
    /// Bytes per second.
    pub bandwidth: Limiter,
    /// Its queue.
    pub backlog: Backlog,
    /// Reactors with commands that wait for its credits, one bit each.
    waiters: AtomicU64,
}

impl Session {
    fn new(id: SessionId, name: String, parent: Option<Arc<Self>>, sharing: Sharing) -> Self {
        Self {
            id,
            name,
            parent,
            credits: Arc::new(Credits::new(Caps::NONE)),
            iops: Limiter::new(None),
            bandwidth: Limiter::new(None),
            backlog: Backlog::shared(u32::MAX, sharing),
            waiters: AtomicU64::new(0),
        }
    }

    /// Its place.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The session above.
    #[must_use]
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Whether its rates are limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.iops.is_limited() || self.bandwidth.is_limited()
    }

    /// Whether its credits are bounded.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.credits.caps() != Caps::NONE
    }

    /// A reactor has commands that wait for this session's credits.
    pub(crate) fn wait(&self, reactor: u32) {
        self.waiters.fetch_or(1 << (reactor & 63), SeqCst);
    }

    /// The reactors that waited, one bit each; they wait no more.
    pub(crate) fn take_waiters(&self) -> u64 {
        if self.waiters.load(SeqCst) == 0 { 0 } else { self.waiters.swap(0, SeqCst) }
    }

    fn set(&self, now: Nanos, spec: &SessionSpec, parent: Caps, queue: u32) -> Caps {
        let caps = Caps {
            operations: spec.operations.map_or(u32::MAX, |percent| {
                share(u64::from(parent.operations), percent).try_into().unwrap_or(u32::MAX)
            }),
            payload: spec.payload.map_or(u64::MAX, |percent| share(parent.payload, percent)),
        };
        self.credits.set(caps);
        self.iops.set(now, spec.iops);
        self.bandwidth.set(now, spec.bandwidth);
        self.backlog.set(spec.queue.unwrap_or(queue));
        // What its children's shares are of: without a share of its own, its parent's.
        Caps {
            operations: caps.operations.min(parent.operations),
            payload: caps.payload.min(parent.payload),
        }
    }
}

/// A share, at least 1; of what has no bound there is none.
fn share(of: u64, percent: u8) -> u64 {
    (u128::from(of) * u128::from(percent) / 100).try_into().unwrap_or(u64::MAX).max(1)
}

/// A reservation in force: the session's on one device.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The session.
    pub session: SessionId,
    /// The device's number.
    pub device: u32,
    /// Its budget.
    pub reserved: Arc<Reserved>,
}

/// Everything that reactors need to know of sessions, as a whole.
#[derive(Clone, Debug)]
pub struct Plan {
    /// S4.
    pub order: OrderSettings,
    /// By [`SessionId`].
    pub sessions: Vec<Option<Arc<Session>>>,
    /// S3.
    pub reservations: Vec<Reservation>,
}

impl Plan {
    /// A session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.sessions.get(id.0 as usize)?.as_ref()
    }

    /// A session by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Session>> {
        self.sessions.iter().flatten().find(|session| session.name == name)
    }
}

/// The sessions there are, for whoever changes them.
#[derive(Debug)]
pub struct Sessions {
    sharing: Sharing,
    present: Vec<Option<Arc<Session>>>,
    /// Sessions that are gone, until no reactor holds them: their places are not given away
    /// before.
    leaving: Vec<(SessionId, Weak<Session>)>,
}

impl Sessions {
    /// Only the root.
    #[must_use]
    pub fn new(root: &RootSpec) -> Self {
        Self::shared(root, Sharing::Several)
    }

    /// Only the root, for as many reactors as `sharing` says.
    #[must_use]
    pub fn shared(root: &RootSpec, sharing: Sharing) -> Self {
        let session = Session::new(SessionId::ROOT, "root".to_owned(), None, sharing);
        session.credits.set(root.own_caps());
        session.backlog.set(root.queue);
        Self { sharing, present: vec![Some(Arc::new(session))], leaving: Vec::new() }
    }

    /// Makes the tree what `specs` say, all or nothing. A session that keeps its name and its
    /// parent stays what it is and goes on counting; a new setting holds at once.
    ///
    /// # Errors
    /// The tree cannot be; nothing has changed.
    pub fn apply(
        &mut self,
        now: Nanos,
        root: &RootSpec,
        specs: &[SessionSpec],
    ) -> Result<Vec<Option<Arc<Session>>>, SessionError> {
        let order = in_order(specs)?;
        check_shares(specs)?;
        let Some(top) = self.present.first().cloned().flatten() else {
            return Ok(Vec::new());
        };
        top.credits.set(root.own_caps());
        top.backlog.set(root.queue);
        let old = std::mem::replace(&mut self.present, vec![Some(Arc::clone(&top))]);
        let mut caps = vec![root.caps];
        let mut kept = Vec::new();
        for spec in order {
            let parent = match &spec.parent {
                Some(name) => self.find(name).unwrap_or_else(|| Arc::clone(&top)),
                None => Arc::clone(&top),
            };
            let same = old.iter().skip(1).flatten().find(|session| {
                session.name == spec.name
                    && session.parent.as_ref().is_some_and(|p| Arc::ptr_eq(p, &parent))
            });
            let session = if let Some(session) = same {
                kept.push(session.id);
                Arc::clone(session)
            } else {
                let id = self.free_place(&old);
                Arc::new(Session::new(
                    id,
                    spec.name.clone(),
                    Some(Arc::clone(&parent)),
                    self.sharing,
                ))
            };
            let above = caps.get(parent.id.0 as usize).copied().unwrap_or(root.caps);
            let own = session.set(now, spec, above, root.queue);
            let place = session.id.0 as usize;
            if place >= self.present.len() {
                self.present.resize(place + 1, None);
            }
            if place >= caps.len() {
                caps.resize(place + 1, root.caps);
            }
            if let (Some(present), Some(caps)) = (self.present.get_mut(place), caps.get_mut(place))
            {
                (*present, *caps) = (Some(session), own);
            }
        }
        for session in old.into_iter().skip(1).flatten() {
            if !kept.contains(&session.id) {
                self.leaving.push((session.id, Arc::downgrade(&session)));
            }
        }
        self.leaving.retain(|(_, session)| session.strong_count() > 0);
        Ok(self.present.clone())
    }

    fn find(&self, name: &str) -> Option<Arc<Session>> {
        self.present.iter().flatten().find(|session| session.name == name).cloned()
    }

    /// The lowest place that nobody has, had in the plan before, or still holds.
    fn free_place(&self, old: &[Option<Arc<Session>>]) -> SessionId {
        let taken = |place: usize| {
            self.present.get(place).is_some_and(Option::is_some)
                || old.get(place).is_some_and(Option::is_some)
                || self
                    .leaving
                    .iter()
                    .any(|(id, held)| id.0 as usize == place && held.strong_count() > 0)
        };
        let place = (1..).find(|place| !taken(*place)).unwrap_or(usize::MAX);
        SessionId(u32::try_from(place).unwrap_or(u32::MAX))
    }
}

/// The specs with parents before children.
fn in_order(specs: &[SessionSpec]) -> Result<Vec<&SessionSpec>, SessionError> {
    let mut names = std::collections::HashMap::new();
    for spec in specs {
        if spec.name == "root" || names.insert(spec.name.as_str(), spec).is_some() {
            return Err(SessionError::Twice(spec.name.clone()));
        }
    }
    let mut placed = std::collections::HashSet::new();
    let mut order: Vec<&SessionSpec> = Vec::with_capacity(specs.len());
    for spec in specs {
        let mut line = Vec::new();
        let mut at = spec;
        loop {
            if placed.contains(at.name.as_str()) {
                break;
            }
            if line.iter().any(|other: &&SessionSpec| other.name == at.name) {
                let parent = at.parent.clone().unwrap_or_default();
                let why = "is below the session itself";
                return Err(SessionError::Parent { name: at.name.clone(), parent, why });
            }
            line.push(at);
            match at.parent.as_deref() {
                None | Some("root") => break,
                Some(parent) => {
                    at = names.get(parent).copied().ok_or_else(|| SessionError::Parent {
                        name: at.name.clone(),
                        parent: parent.to_owned(),
                        why: "is not there",
                    })?;
                }
            }
        }
        for spec in line.into_iter().rev() {
            placed.insert(spec.name.as_str());
            order.push(spec);
        }
    }
    Ok(order)
}

/// What is assigned must be there (seed row D1).
fn check_shares(specs: &[SessionSpec]) -> Result<(), SessionError> {
    let mut sums = std::collections::BTreeMap::<&str, (u32, u32)>::new();
    for spec in specs {
        let sum = sums.entry(spec.parent.as_deref().unwrap_or("root")).or_default();
        sum.0 += u32::from(spec.operations.unwrap_or(0));
        sum.1 += u32::from(spec.payload.unwrap_or(0));
    }
    for (parent, (operations, payload)) in sums {
        for (what, sum) in [("operation", operations), ("payload", payload)] {
            if sum > 100 {
                return Err(SessionError::Shares { parent: parent.to_owned(), what, sum });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: RootSpec =
        RootSpec { caps: Caps { operations: 1000, payload: 10_000 }, bounded: true, queue: 5000 };

    fn spec(name: &str, parent: Option<&str>, share: Option<u8>) -> SessionSpec {
        SessionSpec {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            operations: share,
            ..SessionSpec::default()
        }
    }

    fn named<'a>(plan: &'a [Option<Arc<Session>>], name: &str) -> &'a Arc<Session> {
        plan.iter().flatten().find(|session| session.name() == name).unwrap()
    }

    #[test]
    fn d1_shares_are_of_the_parents() {
        let mut sessions = Sessions::new(&ROOT);
        // A child before its parent.
        let specs =
            [spec("b", Some("a"), Some(50)), spec("a", None, Some(20)), spec("c", Some("b"), None)];
        let plan = sessions.apply(Nanos(0), &ROOT, &specs).unwrap();
        assert_eq!(named(&plan, "a").credits.caps().operations, 200);
        assert_eq!(named(&plan, "b").credits.caps().operations, 100);
        assert!(!named(&plan, "c").is_capped(), "no bound but its parents'");
        assert_eq!(named(&plan, "a").credits.caps().payload, u64::MAX);
    }

    #[test]
    fn d1_a_session_may_not_give_more_than_it_has() {
        let mut sessions = Sessions::new(&ROOT);
        let specs = [spec("a", None, Some(60)), spec("b", None, Some(50))];
        let error = sessions.apply(Nanos(0), &ROOT, &specs).unwrap_err();
        assert!(error.to_string().contains("110 %"), "{error}");
        let error = sessions.apply(Nanos(0), &ROOT, &[spec("a", Some("x"), None)]).unwrap_err();
        assert!(error.to_string().contains("x, which is not there"), "{error}");
        let circle = [spec("a", Some("b"), None), spec("b", Some("a"), None)];
        assert!(matches!(
            sessions.apply(Nanos(0), &ROOT, &circle),
            Err(SessionError::Parent { .. })
        ));
        let twice = [spec("a", None, None), spec("a", None, None)];
        assert!(matches!(sessions.apply(Nanos(0), &ROOT, &twice), Err(SessionError::Twice(_))));
    }

    #[test]
    fn a_session_outlives_changes_that_do_not_move_it() {
        let mut sessions = Sessions::new(&ROOT);
        let first = sessions.apply(Nanos(0), &ROOT, &[spec("a", None, Some(20))]).unwrap();
        let a = Arc::clone(named(&first, "a"));
        let next = sessions
            .apply(Nanos(0), &ROOT, &[spec("z", None, None), spec("a", None, Some(40))])
            .unwrap();
        assert!(Arc::ptr_eq(&a, named(&next, "a")));
        assert_eq!(a.credits.caps().operations, 400);
        let moved = sessions
            .apply(Nanos(0), &ROOT, &[spec("z", None, None), spec("a", Some("z"), None)])
            .unwrap();
        assert!(!Arc::ptr_eq(&a, named(&moved, "a")), "what is in flight is the old place's");
        assert_ne!(a.id(), named(&moved, "a").id());
    }

    #[test]
    fn places_are_given_again_once_nobody_holds_them() {
        let mut sessions = Sessions::new(&ROOT);
        let mut held = None;
        for round in 0..100 {
            let name = format!("s{round}");
            let plan = sessions.apply(Nanos(0), &ROOT, &[spec(&name, None, None)]).unwrap();
            let id = named(&plan, &name).id();
            assert!(id.0 <= 4, "{id:?}");
            if round == 50 {
                held = Some(Arc::clone(named(&plan, &name)));
            }
            if round > 50 {
                assert_ne!(Some(id), held.as_ref().map(|session| session.id()));
            }
        }
    }
}
