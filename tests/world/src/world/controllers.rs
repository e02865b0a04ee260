//! The commands of hosts to their controllers: [`Association`] names them, and here they are
//! carried out.

use fabric::Nanos;
use fabric::controller::ConnectionId;
use fabric::dhchap::{RANDOM_BYTES, Random};
#[cfg(doc)]
use fabric::host::Association;
use fabric::host::{Action, AdminCommand, commands};
use fabric::nvme::feature::fid;
use fabric::nvme::log::lid;
use fabric::nvme::{Cqe, Sqe, opcode};
use units::Class;
use zerocopy::little_endian::U32;

use super::{ENTRIES, Event, World};
use crate::host::{Host, Phase, Purpose};
use crate::scenario::Scenario;

/// Length of the log of changed namespaces, in bytes.
const CHANGED_BYTES: u32 = 4096;
/// The one entry of that log where more namespaces have changed than it holds.
const TOO_MANY: u32 = u32::MAX;
/// Number of unanswered admin commands of a host from which on it sends no Abort.
const BUSY: usize = 16;

/// Returns what takes the place of random bytes: the same in each run.
fn unrandom() -> Random {
    Random::new([0x5a; RANDOM_BYTES])
}

impl World {
    /// Carries out the work of an authentication at the target, on the spot.
    pub(super) fn authenticate(&self, connection: ConnectionId) {
        self.shared.with_service(|service| {
            let work = service.authentication_work(connection);
            service.authentication_worked(connection, work.map(|work| work.run(&unrandom())));
        });
    }

    /// Executes the actions of a host's association.
    pub(super) fn associate(&mut self, host: usize) {
        loop {
            match self.hosts[host].association.poll_action() {
                None => break,
                Some(Action::Submit(AdminCommand { sqe, data, read_length })) => {
                    let event = sqe.opcode == opcode::admin::ASYNC_EVENT_REQUEST;
                    let purpose = if event { Purpose::Event } else { Purpose::Admin };
                    self.submit(host, 0, sqe, data, read_length, purpose);
                }
                Some(Action::Work(work)) => {
                    self.hosts[host].association.worked(self.now, work.run(&unrandom()));
                }
                Some(Action::Ready) => self.is_ready(host),
                Some(Action::Event(event)) if event.log == lid::CHANGED_NAMESPACES => {
                    self.read_changes(host);
                }
                Some(Action::Event(event)) => {
                    self.breaks(format!(
                        "host {host} received {event:?}, which it did not request"
                    ));
                }
                Some(Action::Answered { cid, cqe, data }) => self.is_told(host, cid, &cqe, &data),
                Some(Action::Ended(error)) => {
                    let calm =
                        !self.scenario.faults && !self.scenario.bound && self.drain.is_none();
                    if let Some(error) = error.filter(|_| calm) {
                        self.breaks(format!("the association of host {host} has ended: {error}"));
                    }
                    return self.leave(host);
                }
            }
        }
        self.plan_timer(host);
    }

    /// Plans a look at a host's association at the time that it asks for.
    fn plan_timer(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let next = host.association.next_timeout().filter(|_| !host.mute);
        if let Some(at) = next.filter(|at| host.timer.is_none_or(|timer| *at < timer)) {
            host.timer = Some(at);
            self.at(at, Event::Timer(index));
        }
    }

    /// Advances the clock of a host's association.
    pub(super) fn time(&mut self, index: usize) {
        let now = self.now;
        let host = &mut self.hosts[index];
        if host.timer != Some(now) {
            return;
        }
        host.timer = None;
        if !host.mute && !matches!(host.phase, Phase::Away(_)) {
            host.association.tick(now);
            self.associate(index);
        }
    }

    /// Connects I/O queues for a host whose controller is ready.
    fn is_ready(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.phase = Phase::Up;
        host.untold.clear();
        if host.weighted {
            let weights = self.scenario.own_weights_of(index);
            self.command_controller(index, commands::set_feature(fid::ARBITRATION, weights));
        }
        for qid in 1..=self.scenario.queues_of(index) {
            if let Some(old) = self.hosts[index].queue(qid).map(|queue| queue.connection) {
                self.cut(old);
            }
            self.connect(index, qid);
        }
        self.flood_admin(index);
    }

    /// Connects an I/O queue, on a connection that takes commands now.
    pub(super) fn connect_queue(&mut self, index: usize, qid: u16) {
        let class = match self.scenario.own_weights {
            true => Some(Scenario::priority_of(qid)),
            false => Class::ALL.get(self.rng.usize(0..5)).copied(),
        };
        let host = &mut self.hosts[index];
        // The limits of a host without ACRE may need smaller queues.
        let depth = host.association.facts().max_outstanding.min(ENTRIES - 1);
        match host.association.io_connector().connect(qid, depth, class) {
            Ok((sqe, data)) => self.submit(index, qid, sqe, Some(data), 0, Purpose::Connect),
            Err(error) => self.breaks(format!("host {index}: {error}")),
        }
    }

    /// Sends an admin command of a host that its association does not need.
    fn command_controller(&mut self, index: usize, sqe: Sqe) {
        let _ = self.hosts[index].association.submit(sqe, None, 0);
        self.associate(index);
    }

    /// Reads the log of changed namespaces, for a host that was notified.
    fn read_changes(&mut self, index: usize) {
        let dwords = CHANGED_BYTES / 4 - 1;
        let sqe = Sqe {
            opcode: opcode::admin::GET_LOG_PAGE,
            nsid: U32::new(u32::MAX),
            cdw10: U32::new(dwords << 16 | u32::from(lid::CHANGED_NAMESPACES)),
            ..Sqe::default()
        };
        let host = &mut self.hosts[index];
        if let Ok(cid) = host.association.submit(sqe, None, CHANGED_BYTES) {
            host.log_reads.push(cid);
        }
    }

    /// Takes the answer to an admin command that the association does not need.
    fn is_told(&mut self, index: usize, cid: u16, cqe: &Cqe, data: &[u8]) {
        let host = &mut self.hosts[index];
        let Some(at) = host.log_reads.iter().position(|read| *read == cid) else { return };
        host.log_reads.swap_remove(at);
        if !cqe.status().is_success() {
            return;
        }
        let entries = data.as_chunks::<4>().0.iter().map(|entry| u32::from_le_bytes(*entry));
        for nsid in entries.take_while(|nsid| *nsid != 0) {
            host.untold.remove(&nsid);
            if nsid == TOO_MANY {
                host.untold.clear();
            }
        }
    }

    /// Notes for the hosts that see a namespace that they must be notified: it was added, changed or removed.
    pub(super) fn namespace_changed(&mut self, nsid: u32) {
        for index in 0..self.hosts.len() {
            let shown = self.rights[index].rights.show(nsid);
            let host = &mut self.hosts[index];
            if shown && host.phase == Phase::Up {
                host.untold.insert(nsid);
            }
        }
    }

    /// Aborts one of a host's commands.
    pub(super) fn abort(&mut self) {
        let index = self.rng.usize(0..self.hosts.len());
        let qid = self.rng.u16(1..=self.scenario.queues);
        let host = &mut self.hosts[index];
        if host.queue(0).is_none_or(|admin| admin.in_flight >= BUSY) {
            return;
        }
        let Some(queue) = host.queue(qid) else { return };
        let outstanding = (0..).zip(&queue.outstanding).filter(|(_, one)| one.is_some());
        let cids: Vec<u32> = outstanding.map(|(cid, _)| cid).collect();
        if cids.is_empty() {
            return;
        }
        let cid = cids[self.rng.usize(0..cids.len())];
        self.trace(|| format!("host {index} aborts command {cid} of queue {qid}"));
        let sqe = Sqe {
            opcode: opcode::admin::ABORT,
            cdw10: U32::new(cid << 16 | u32::from(qid)),
            ..Sqe::default()
        };
        self.command_controller(index, sqe);
    }

    /// Resets a host's controller, after its I/O queues have gone or with them.
    pub(super) fn reset(&mut self) {
        self.end("resets", |host, now| host.association.reset(now).is_ok());
    }

    /// Shuts a host's controller down, after its I/O queues have gone or with them.
    pub(super) fn shut_down(&mut self) {
        self.end("shuts down", |host, now| host.association.shut_down(now).is_ok());
    }

    fn end(&mut self, what: &str, ends: fn(&mut Host, Nanos) -> bool) {
        let index = self.rng.usize(0..self.hosts.len());
        let before = self.rng.bool();
        let host = &mut self.hosts[index];
        if !ends(host, self.now) {
            return;
        }
        host.phase = Phase::Connecting;
        self.trace(|| format!("host {index} {what} its controller"));
        if before {
            self.lose_io_queues(index);
        }
        self.associate(index);
    }

    fn lose_io_queues(&mut self, index: usize) {
        for qid in 1..=self.scenario.queues_of(index) {
            let queue = self.hosts[index].queues.get_mut(usize::from(qid));
            if let Some(queue) = queue.and_then(Option::take) {
                self.cut(queue.connection);
            }
        }
    }
}
