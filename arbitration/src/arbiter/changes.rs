//! Changes while commands are under way: which sessions, flows and devices to look at again, in
//! steps of bounded work.

use std::collections::VecDeque;
use std::sync::Arc;

use super::flows::Flows;
use super::ids::{DeviceId, HostFlowIndex};
use super::sessions::LocalSessions;
use crate::session::{Session, SessionId};

/// The changes that the arbiter has not carried out yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    waiting: VecDeque<Change>,
    walk: Walk,
}

/// A change that was made outside the arbiter.
#[derive(Debug)]
enum Change {
    /// The limits or credits of a session and those below it.
    Session(Arc<Session>),
    /// A device's reservations.
    Device(DeviceId),
}

/// The change that the arbiter carries out now, and how far it has come.
#[derive(Debug, Default)]
enum Walk {
    #[default]
    Nothing,
    /// The next session is `at`: `top`, or one below it.
    ToSession { top: SessionId, at: SessionId },
    /// The present session is `at`; its flows from `flow` on, and devices at which it is blocked,
    /// are left.
    AtSession {
        top: SessionId,
        at: SessionId,
        flow: Option<HostFlowIndex>,
        blocked_at: Vec<DeviceId>,
    },
    /// The flows at a device are left, from `flow` on.
    AtDevice { flow: Option<HostFlowIndex> },
}

/// The request of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: the step completed a change, or found one that does not concern this arbiter.
    Pass,
    /// Find out again what limits a session's commands.
    Derive(SessionId),
    /// Classify a flow again.
    Classify(HostFlowIndex),
    /// Unblock a session at a device.
    Unblock(SessionId, DeviceId),
    /// Adopt a device's reservations, then [go on with its flows](Changes::go_through_flows).
    Adopt(DeviceId),
}

impl Changes {
    /// Notes that the limits or credits of a session, or of one above it, are others than before.
    pub(super) fn touch_session(&mut self, session: &Arc<Session>) {
        self.waiting.push_back(Change::Session(Arc::clone(session)));
    }

    /// Notes that other reservations are in force at a device.
    pub(super) fn touch_device(&mut self, device: DeviceId) {
        self.waiting.push_back(Change::Device(device));
    }

    /// Returns whether there are changes to carry out.
    pub(super) fn is_changing(&self) -> bool {
        !self.waiting.is_empty() || !matches!(self.walk, Walk::Nothing)
    }

    /// Finds the session that a change has come to.
    #[cfg(test)]
    pub(super) fn looking_at(&self) -> Option<SessionId> {
        match self.walk {
            Walk::ToSession { at, .. } | Walk::AtSession { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Advances one step and returns its request; `None` once all changes are carried out.
    pub(super) fn step(&mut self, sessions: &mut LocalSessions, flows: &Flows) -> Option<Step> {
        let (walk, step) = match std::mem::take(&mut self.walk) {
            Walk::Nothing => match self.waiting.pop_front()? {
                Change::Device(device) => (Walk::Nothing, Step::Adopt(device)),
                Change::Session(session) => {
                    let id = session.id();
                    let here = sessions.get(id);
                    let walk = match here.is_some_and(|here| Arc::ptr_eq(&here.session, &session)) {
                        true => Walk::ToSession { top: id, at: id },
                        false => Walk::Nothing,
                    };
                    (walk, Step::Pass)
                }
            },
            Walk::AtDevice { flow: None } => (Walk::Nothing, Step::Pass),
            Walk::AtDevice { flow: Some(flow) } => {
                (Walk::AtDevice { flow: flows.next_at_device(flow) }, Step::Classify(flow))
            }
            Walk::ToSession { top, at } => {
                let links = sessions.links_mut(at);
                let blocked_at = std::mem::take(&mut links.blocked_at);
                (Walk::AtSession { top, at, flow: links.flows, blocked_at }, Step::Derive(at))
            }
            Walk::AtSession { top, at, flow: Some(flow), blocked_at } => {
                let next = flows.next_of_session(flow);
                (Walk::AtSession { top, at, flow: next, blocked_at }, Step::Classify(flow))
            }
            Walk::AtSession { top, at, flow: None, mut blocked_at } => match blocked_at.pop() {
                Some(device) => {
                    (Walk::AtSession { top, at, flow: None, blocked_at }, Step::Unblock(at, device))
                }
                None => (walk_on(top, sessions.after(top, at, true)), Step::Pass),
            },
        };
        self.walk = walk;
        Some(step)
    }

    /// Goes on with a device's flows, whose first is this one.
    pub(super) fn go_through_flows(&mut self, first: Option<HostFlowIndex>) {
        self.walk = Walk::AtDevice { flow: first };
    }

    /// Steps over a session that goes: the way through the sessions goes on behind it.
    pub(super) fn step_over_session(&mut self, sessions: &LocalSessions, session: SessionId) {
        if let Walk::ToSession { top, at } | Walk::AtSession { top, at, .. } = self.walk
            && at == session
        {
            self.walk = walk_on(top, sessions.after(top, session, false));
        }
    }

    /// Steps over a flow that goes: the way through the flows goes on behind it.
    pub(super) fn step_over_flow(&mut self, flows: &Flows, gone: HostFlowIndex) {
        match &mut self.walk {
            Walk::AtDevice { flow } if *flow == Some(gone) => *flow = flows.next_at_device(gone),
            Walk::AtSession { flow, .. } if *flow == Some(gone) => {
                *flow = flows.next_of_session(gone);
            }
            _ => {}
        }
    }
}

/// Goes on to a session below `top`, or ends behind the last of them.
fn walk_on(top: SessionId, next: Option<SessionId>) -> Walk {
    next.map_or(Walk::Nothing, |at| Walk::ToSession { top, at })
}
