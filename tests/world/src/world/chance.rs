//! Events at random: changes of the configuration, and faults.

use std::sync::Arc;

use arbitration::container::Scheduler;
use arbitration::device::{ContainerRules, DeviceRules};
use arbitration::reservation::Overrides;
use arbitration::settings::WindowRule;
use fabric::Nanos;
use fabric::controller::{BackendId, Namespace};
use fabric::nvm::BlockFormat;
use qtcp::pacing::Answers;
use sluice_core::testing::{Kind, namespace};

use super::{Event, Input, Known, World};
use crate::disk::{Content, Disk};
use crate::host::NQN;

impl World {
    /// Causes a random event.
    pub(super) fn chance(&mut self) {
        if self.settling || self.scenario.watches_parts() {
            return;
        }
        let wait = self.rng.u64(100_000..20_000_000);
        self.after(wait, Event::Chance);
        if self.scenario.bound && self.rng.u8(0..3) == 0 {
            return self.change_access();
        }
        if self.scenario.ruled && self.rng.u8(0..3) == 0 {
            return self.change_rights();
        }
        let change = self.rng.u8(0..15);
        match change {
            0 => self.change_sessions(),
            1 => self.change_rules(),
            // Nothing else may keep the host that reserves from having enough to do.
            2..5 if self.scenario.reserved => {}
            2 => {
                self.rates_changed += 1;
                for pacing in &self.paced {
                    let rate = self.rng.u64(1_000_000..1_000_000_000);
                    pacing.set_r2t_rate(self.rng.bool().then_some(rate));
                    pacing.set_held(self.rng.bool());
                    let (kept, window) = (self.rng.bool(), self.rng.u64(0..1 << 20));
                    pacing.set_out_rate(kept.then_some(rate));
                    pacing.hand_over(if kept { Answers::Window(window) } else { Answers::All });
                    pacing.set_asked(self.rng.bool().then_some(window));
                }
            }
            3 => {
                let disk = self.rng.usize(0..self.scenario.disks.len());
                self.add_namespace(disk);
            }
            4 => self.resize_namespace(),
            5 => self.abort(),
            6 => self.change_reservation(),
            _ if !self.scenario.faults => {}
            7 if self.namespaces.len() > 1 => self.remove_namespace(),
            8 => {
                if let Some(index) = self.some_connection() {
                    self.cut(index);
                }
            }
            9 => {
                let host = self.rng.usize(0..self.hosts.len());
                self.leave(host);
            }
            10 => {
                if let Some(index) = self.some_connection() {
                    self.connections[index].silent = true;
                    self.trace(|| format!("connection {index} falls silent"));
                }
            }
            11 => {
                let host = self.rng.usize(0..self.hosts.len());
                self.hosts[host].mute = true;
            }
            12 => self.reset(),
            13 => self.shut_down(),
            _ => {}
        }
    }

    pub(super) fn some_connection(&mut self) -> Option<usize> {
        let live: Vec<usize> = (0..self.connections.len())
            .rev()
            .take(20)
            .filter(|index| !self.connections[*index].cut)
            .collect();
        (!live.is_empty()).then(|| live[self.rng.usize(0..live.len())])
    }

    pub(super) fn add_namespace(&mut self, disk: usize) {
        if self.namespaces.len() >= 6 {
            return;
        }
        let (kind, channels, service, window) = self.scenario.disks[disk];
        let window = window.map_or(WindowRule::Off, WindowRule::Fixed);
        let window = if kind == Kind::Immediate { WindowRule::Off } else { window };
        // A queued device takes the time that `launch` sets.
        let profile = Overrides {
            mean: Some(Nanos(service + service / 4)),
            worst: Some(Nanos(2 * service)),
            parallelism: u32::try_from(channels).ok(),
            seeks: self.scenario.seeks,
        };
        let (scheduler, deadline_ns) = (Scheduler::Containers, 4 * service);
        let containers = ContainerRules { scheduler, capacity: 64, deadline_ns };
        let containers = (self.scenario.by_place && kind != Kind::Immediate).then_some(containers);
        let rules = DeviceRules { window, containers, profile };
        let blocks = self.scenario.blocks;
        let content = Content::new(kind, blocks, (channels, service), self.scenario.slice);
        let format = BlockFormat::BYTES_512;
        let made = Disk::new(kind, content, (blocks, format), rules, self.reactors.len());
        let backend = BackendId(self.next_backend);
        let nsid = self.next_nsid;
        (self.next_backend, self.next_nsid) = (self.next_backend + 1, self.next_nsid + 1);
        self.shared.disks.borrow_mut().insert(backend, made);
        let namespace = Namespace { backend, ..namespace(nsid, format, blocks) };
        let now = self.now;
        let added = self.shared.with_service(|service| service.add_namespace(now, NQN, namespace));
        if added.is_ok() {
            self.trace(|| format!("namespace {nsid} comes: {kind:?}, {blocks} blocks"));
            self.namespaces.push(Known { nsid, backend, blocks });
            self.namespace_changed(nsid);
        }
    }

    pub(super) fn remove_namespace(&mut self) {
        let known = self.namespaces.remove(self.rng.usize(0..self.namespaces.len()));
        let now = self.now;
        let fails = self.rng.bool();
        let _ = self.shared.with_service(|service| service.remove_namespace(now, NQN, known.nsid));
        self.namespace_changed(known.nsid);
        let disk = self.shared.disks.borrow_mut().remove(&known.backend);
        if let Some(disk) = disk.filter(|_| fails) {
            disk.content.fail();
        }
        let how = if fails { "fails" } else { "goes" };
        self.trace(|| format!("namespace {} {how}", known.nsid));
        let gone: Arc<[BackendId]> = Arc::new([known.backend]);
        (0..self.reactors.len()).for_each(|at| self.put(at, Input::Lose(Arc::clone(&gone))));
    }

    pub(super) fn resize_namespace(&mut self) {
        if self.namespaces.is_empty() {
            return;
        }
        let at = self.rng.usize(0..self.namespaces.len());
        let grown = self.rng.u64(1..64);
        let known = &mut self.namespaces[at];
        known.blocks += grown;
        let (now, known) = (self.now, *known);
        if let Some(disk) = self.shared.disk(known.backend) {
            disk.set_blocks(known.blocks);
            disk.content.ram.grow(known.blocks);
        }
        let _ = self
            .shared
            .with_service(|service| service.resize_namespace(now, NQN, known.nsid, known.blocks));
        self.namespace_changed(known.nsid);
    }
}
