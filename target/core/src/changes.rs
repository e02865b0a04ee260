//! What changes beside the connections: settings, sessions, devices that are gone. A turn takes a
//! bounded part of it, so that no change, however large, holds up those who send commands.

use std::sync::Arc;

use arbitration::session::Session;
use fabric::controller::BackendId;

use crate::context::Context;
use crate::core::{Core, find};
use crate::driver::Driver;

/// Sessions that one turn hears of, and sessions and flows that it looks at.
const TOUCHED: usize = 128;
const STEPS: usize = 32;
/// Devices that are gone that one turn looks at, and what it takes back of all of them.
const DEVICES: usize = 8;
const TAKEN_BACK: usize = 16;
/// Connections that one turn marks.
const MARKED: usize = 16;

/// What reactors are to look at again.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Sessions whose limits or credits have changed.
    pub sessions: Vec<Arc<Session>>,
    /// Devices with other reservations.
    pub devices: Vec<BackendId>,
    /// The settings as a whole are others.
    pub snapshot: bool,
}

impl Touched {
    /// Whether there is nothing to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.devices.is_empty() && !self.snapshot
    }
}

impl<D: Driver> Core<D> {
    /// Looks again at what a change has touched, part by part.
    pub fn touch(&mut self, touched: Arc<Touched>) {
        self.io.touched.push_back((touched, 0));
    }

    /// Gives up devices that are gone, part by part.
    pub fn lose(&mut self, devices: Arc<[BackendId]>) {
        self.io.gone.push_back((devices, 0));
    }

    /// Whether there is a change to carry on with. What waits for a device's last commands is
    /// looked at when they complete.
    pub(crate) fn is_changing(&self) -> bool {
        self.io.arbiter.is_changing()
            || self.marking.is_some()
            || !self.io.touched.is_empty()
            || !self.io.gone.is_empty()
            || !self.io.leaving.is_empty()
    }

    /// Whether [`Self::change`] has something to do.
    #[inline]
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.io.has_new_qos() || self.is_changing() || !self.io.emptying.is_empty()
    }

    /// Takes this turn's part of what is changing. Whether there was some.
    pub fn change(&mut self) -> bool {
        let remark = self.io.refresh_qos();
        let mut any = remark || self.is_changing();
        let now = self.io.now;
        self.io.touch(TOUCHED);
        self.io.arbiter.settle(now, STEPS);
        self.hear_of_devices();
        if !self.io.leaving.is_empty() || !self.io.emptying.is_empty() {
            any |= self.leave_devices();
        }
        if remark {
            // Those that were marked already are looked at again.
            self.marking = Some(0);
        }
        if let Some(from) = self.marking {
            self.mark_from(from);
        }
        any
    }

    /// Marks connections, by what holds now.
    fn mark_from(&mut self, from: usize) {
        let until = from.saturating_add(MARKED);
        let places = self.places.iter_mut().skip(from).take(MARKED);
        for connection in places.filter_map(|place| place.connection.as_mut()) {
            connection.mark_answers(&mut self.io);
        }
        self.marking = (until < self.places.len()).then_some(until);
    }

    /// Takes devices that are gone out of the table.
    fn hear_of_devices(&mut self) {
        for _ in 0..DEVICES {
            let Some((devices, next)) = self.io.gone.front_mut() else { return };
            let id = devices.get(*next).copied();
            *next += 1;
            match id {
                Some(id) => {
                    let lost = self.io.lose_device(id);
                    self.io.leaving.extend(lost);
                }
                None => {
                    self.io.gone.pop_front();
                }
            }
        }
    }

    /// Answers what waits for devices that are gone, and forgets the devices once nothing is in
    /// them. Whether anything was done.
    fn leave_devices(&mut self) -> bool {
        let (mut any, mut steps) = (false, TAKEN_BACK);
        let few = DEVICES.min(self.io.leaving.len() + self.io.emptying.len());
        for _ in 0..few {
            let next = self.io.leaving.pop_front().or_else(|| self.io.emptying.pop_front());
            let Some((id, device)) = next else { break };
            let mut back = Vec::new();
            let gone = self.io.arbiter.retire_device(id, steps.max(1), &mut back);
            steps = steps.saturating_sub(back.len());
            any |= gone || !back.is_empty();
            for (key, slot) in back {
                if let Some(connection) = find(&mut self.places, key) {
                    connection.device_gone(&mut self.io, slot);
                }
            }
            if !gone {
                let retiring = self.io.arbiter.is_retiring(id);
                let Context { leaving, emptying, .. } = &mut self.io;
                (if retiring { leaving } else { emptying }).push_back((id, device));
            }
        }
        if any {
            self.flush();
        }
        any
    }
}
