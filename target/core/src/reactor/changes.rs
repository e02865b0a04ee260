//! Changes beside the connections: sessions, and devices that are gone. A turn takes a bounded part
//! of them, so that no change, however large, holds up hosts that send commands.

use std::collections::VecDeque;
use std::sync::Arc;

use arbitration::arbiter::DeviceId;
use arbitration::session::Session;
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::queue::SlotId;

use super::device_table::DeviceTable;
use super::stages::Stages;
use crate::machine::device::device_id;
use crate::machine::key::Key;

/// Number of sessions that one turn hands to the arbiter.
const TOUCHED: usize = 128;
/// Number of sessions and flows that the arbiter looks at in one turn.
const STEPS: usize = 32;
/// Number of removed devices that one turn looks at.
const DEVICES: usize = 8;
/// Number of commands and flows that one turn takes back from removed devices, all together.
const TAKEN_BACK: usize = 16;

/// The objects of a change that reactors must look at again.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Sessions whose limits or credits have changed.
    pub sessions: Vec<Arc<Session>>,
    /// Devices with other reservations.
    pub devices: Vec<BackendId>,
    /// Whether the settings as a whole were replaced.
    pub snapshot: bool,
}

impl Touched {
    /// Returns whether there is nothing to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.devices.is_empty() && !self.snapshot
    }
}

/// Changes that one reactor was notified of and has not carried out.
#[derive(Debug)]
pub(crate) struct Changes<V> {
    /// Sessions and devices to look at again: from the first that was not handed to the arbiter.
    touched: VecDeque<(Arc<Touched>, usize)>,
    /// Devices that are gone: from the first that was not looked at.
    gone: VecDeque<(Arc<[BackendId]>, usize)>,
    /// Removed devices of which the reactor has something: the devices keep their places in tables
    /// until it has nothing.
    leaving: VecDeque<(DeviceId, Arc<V>)>,
    /// Removed devices that only wait for the last of their commands to complete.
    emptying: VecDeque<(DeviceId, Arc<V>)>,
}

impl<V> Default for Changes<V> {
    fn default() -> Self {
        Self {
            touched: VecDeque::new(),
            gone: VecDeque::new(),
            leaving: VecDeque::new(),
            emptying: VecDeque::new(),
        }
    }
}

impl<V> Changes<V> {
    /// Adds sessions and devices to look at again.
    pub(crate) fn touch(&mut self, touched: Arc<Touched>) {
        self.touched.push_back((touched, 0));
    }

    /// Adds devices that are gone.
    pub(crate) fn lose(&mut self, devices: Arc<[BackendId]>) {
        self.gone.push_back((devices, 0));
    }

    /// Returns whether there is work left. Devices that wait for their last commands are handled when these
    /// complete.
    pub(crate) fn is_changing(&self) -> bool {
        !self.touched.is_empty() || !self.gone.is_empty() || !self.leaving.is_empty()
    }

    /// Returns whether removed devices keep their places.
    pub(crate) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty() || !self.emptying.is_empty()
    }

    /// Takes this turn's part of the sessions and devices.
    pub(crate) fn go_on(&mut self, now: Nanos, stages: &mut Stages, devices: &mut DeviceTable<V>) {
        for _ in 0..TOUCHED {
            let Some((touched, next)) = self.touched.front_mut() else { break };
            let at = *next;
            *next += 1;
            let device = at.checked_sub(touched.sessions.len());
            if let Some(session) = touched.sessions.get(at) {
                stages.touch_session(session);
            } else if let Some(&id) = device.and_then(|at| touched.devices.get(at)) {
                if devices.get(id).is_some() {
                    stages.arbiter.touch_device(device_id(id));
                }
            } else {
                self.touched.pop_front();
            }
        }
        stages.arbiter.settle(now, STEPS);
        for _ in 0..DEVICES {
            let Some((gone, next)) = self.gone.front_mut() else { break };
            let id = gone.get(*next).copied();
            *next += 1;
            match id {
                Some(id) => {
                    let lost = devices.remove(id).map(|device| (device_id(id), device));
                    self.leaving.extend(lost);
                }
                None => {
                    self.gone.pop_front();
                }
            }
        }
    }

    /// Forgets devices that are gone once nothing is in them. Adds to `waited` the commands that
    /// waited for them. Returns whether anything was done.
    pub(crate) fn leave(
        &mut self,
        now: Nanos,
        stages: &mut Stages,
        waited: &mut Vec<(Key, SlotId)>,
    ) -> bool {
        let (mut any, mut steps) = (false, TAKEN_BACK);
        for _ in 0..DEVICES.min(self.leaving.len() + self.emptying.len()) {
            let next = self.leaving.pop_front().or_else(|| self.emptying.pop_front());
            let Some((id, device)) = next else { break };
            let before = waited.len();
            let gone = stages.arbiter.retire_device(now, id, steps.max(1), waited);
            let taken = waited.len() - before;
            steps = steps.saturating_sub(taken);
            any |= gone || taken > 0;
            if gone {
                continue;
            }
            let retiring = stages.arbiter.is_retiring(id);
            (if retiring { &mut self.leaving } else { &mut self.emptying }).push_back((id, device));
        }
        any
    }
}
