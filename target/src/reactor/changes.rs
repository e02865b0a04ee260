//! What changes beside the connections: settings, sessions, devices that are gone. A turn takes a
//! bounded part of it, so that no change, however large, holds up those who send commands.

use super::ordered::stage_time;
use super::{Reactor, find};
use crate::threads;

/// Sessions that one turn hears of, and sessions and flows that it looks at.
const TOUCHED: usize = 128;
const STEPS: usize = 32;
/// Devices that are gone that one turn looks at, and what it takes back of all of them.
const DEVICES: usize = 8;
const TAKEN_BACK: usize = 16;
/// Connections that one turn marks anew.
const MARKED: usize = 16;

impl Reactor {
    /// Whether there is a change to carry on with. What waits for a device's last commands is
    /// looked at when they complete.
    pub(super) fn is_changing(&self) -> bool {
        self.io.arbiter.is_changing()
            || self.remark
            || self.marking.is_some()
            || !self.io.touched.is_empty()
            || !self.io.gone.is_empty()
    }

    /// Takes this turn's part of what is changing. Whether there was some.
    pub(super) fn change(&mut self) -> bool {
        let new = self.io.has_new_qos() || self.io.remark;
        if !new && !self.is_changing() && self.io.leaving.is_empty() {
            return false;
        }
        let start = threads::cpu_time();
        let any = self.take_part();
        if let Some(gauges) = self.io.shared.gauges.get(self.io.reactor) {
            gauges.changes.record(threads::cpu_time().saturating_sub(start), 1);
        }
        any
    }

    fn take_part(&mut self) -> bool {
        self.remark |= self.io.refresh_qos() | std::mem::take(&mut self.io.remark);
        let mut any = self.is_changing();
        let now = stage_time(&self.io);
        self.io.touch(TOUCHED);
        self.io.arbiter.settle(now, STEPS);
        self.hear_of_devices();
        if !self.io.leaving.is_empty() {
            any |= self.leave_devices();
        }
        if std::mem::take(&mut self.remark) {
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
            connection.mark_answers(&self.io);
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
        for _ in 0..DEVICES.min(self.io.leaving.len()) {
            let Some((id, device)) = self.io.leaving.pop_front() else { break };
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
                self.io.leaving.push_back((id, device));
            }
        }
        if any {
            self.flush();
        }
        any
    }
}
