//! Turns of the reactors: their input, and the operations that they want done.

use std::mem::take;
use std::sync::Arc;

use fabric::Nanos;
use fabric::controller::Action;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Status;
use sluice_core::device::BlockDevice as _;
use sluice_core::testing::wire::{self, Carrier};
use sluice_core::testing::{self, Op, Receive, end_job};
use sluice_core::{Accepted, Entrance, Job, Key};

use super::{ADMIN_ENTRIES, ENTRIES, Event, Input, LISTENER, MAX_WAITING, Machine, TURN_NS, World};
use crate::connection::Connection;
use crate::scenario::Hostility;

/// The finding of a turn in which the arbiter gives a command.
const MAY_GO_ON: &str = "a command may go on";
/// The finding of a turn that receives again.
const MAY_RECEIVE: &str = "it may receive";

impl World {
    pub(super) fn turn(&mut self, index: usize) {
        let now = self.now;
        let reactor = &mut self.reactors[index];
        if reactor.next == Some(now) {
            self.take_turn(index);
        }
    }

    /// Looks at a reactor that is idle: without an event before the end of its idle time, it must find nothing to
    /// do. Any work found would be late.
    pub(super) fn look(&mut self, index: usize) {
        let rates_changed = self.rates_changed;
        let reactor = &mut self.reactors[index];
        let Some((until, rates)) = reactor.idle_until else { return };
        let undisturbed = reactor.inbox.is_empty() && rates == rates_changed && until > self.now;
        if !undisturbed || reactor.next != Some(until) || reactor.core.driver().is_short {
            return;
        }
        let (before, states) = (reactor.core.inventory(), reactor.core.states());
        let Some(what) = self.take_turn(index) else { return };
        let after = self.reactors[index].core.inventory();
        // Promises ahead of buffers follow from the present rate at which buffers come back: a
        // promise may become possible at any time, and a command that waits for one waits for a
        // buffer that another has.
        let promised = after.promised_bytes > before.promised_bytes;
        // A host that is held back because its session's queue is full is read from again when a
        // command of this reactor leaves that queue, not when one of another does.
        let resumed = what == MAY_RECEIVE || after.unread_bytes < before.unread_bytes;
        let waits = before.ordered > 0
            || states.iter().any(|(state, count)| state == "memory_turn" && count > 0);
        // A reservation is due bit by bit, and completions in other reactors may give device time
        // back to it: this reactor looks again when its next bit is due.
        let reserved = what == MAY_GO_ON && self.is_reserved_and_busy();
        let waits_for_others = promised || (resumed && waits) || reserved;
        if !waits_for_others {
            self.breaks(format!(
                "reactor {index} would idle until {}, but {what}: it had {before:?}, {states:?}",
                until.0
            ));
        }
    }

    /// Takes a turn. Returns the work that the turn found without an event.
    fn take_turn(&mut self, index: usize) -> Option<&'static str> {
        let now = self.now;
        let reactor = &mut self.reactors[index];
        reactor.next = None;
        let (mut found, mut told) = (None, None);
        let (mut refused, mut accepted) = (Vec::new(), Vec::new());
        reactor.core.set_time(now);
        let machine = reactor.core.driver();
        (machine.now, machine.served) = (now, 0);
        if reactor.core.has_changes() {
            reactor.core.change();
        }
        if reactor.core.begin() {
            found = Some("a command is complete");
        }
        while let Some(input) = reactor.inbox.pop_front() {
            match input {
                Input::Accept(index) => {
                    let gone = reactor.entrance.come(self.connections[index].address(), index);
                    refused.extend(gone.map(|(_, index)| index));
                }
                Input::Core(input) => drop(input.put(&mut reactor.core)),
                Input::Touch(touched) => reactor.core.touch(touched),
                Input::Lose(devices) => reactor.core.lose(devices),
                Input::Drain(time) => {
                    reactor.core.drain(time);
                    told = Some(reactor.core.inventory().commands);
                }
            }
        }
        reactor.entrance.begin();
        let (mut served_now, most) = (0, u64::from(MAX_WAITING));
        while Entrance::<usize>::has_room(reactor.before_connect(), most)
            && let Some(came) = reactor.entrance.serve_next()
        {
            let connection = &mut self.connections[came];
            let entries = if connection.qid == 0 { ADMIN_ENTRIES } else { ENTRIES };
            let pair = self.scenario.pair(connection.qid, entries);
            let (carrier, max_transfer) = (connection.carrier(), self.scenario.max_transfer);
            let key = reactor.core.accept(Accepted {
                transport: wire::target_end(carrier, max_transfer, pair),
                listener: LISTENER,
                peer: connection.address(),
                tos: None,
                stats: Arc::default(),
                in_flight: Arc::default(),
            });
            served_now += 1;
            reactor.connections.insert(key, came);
            connection.key = Some(key);
            if carrier == Carrier::Rdma {
                accepted.push((connection.down_ns, came));
            }
            let (id, address) = (key.id(index), connection.address());
            self.shared.with_service(|service| service.accepted(id, address));
            reactor.core.start(key);
        }
        if reactor.core.settle() {
            found = Some(MAY_GO_ON);
        }
        if reactor.core.has_tallies() {
            reactor.core.record(now);
        }
        reactor.core.end();
        let idle_until = reactor.core.idle_until().filter(|_| reactor.entrance.is_empty());
        let (held, served) = (reactor.core.inventory(), reactor.core.driver().served);
        let machine = reactor.core.driver();
        let (receives, ops) = (take(&mut machine.receives), take(&mut machine.ops));
        let (jobs, seen) = (take(&mut machine.jobs), take(&mut machine.seen));
        if let Some(commands) = told {
            self.drains(commands);
        }
        for (key, receive) in receives {
            let begins = matches!(receive, Some(Receive::Chunks | Receive::Chunk));
            found = found.or(begins.then_some(MAY_RECEIVE));
            self.change_receive(index, key, receive);
        }
        for job in jobs {
            found = found.or(Some("a command may go to its device"));
            self.launch(index, job);
        }
        for op in ops {
            found = found.or(match op {
                Op::Send(..) | Op::Fetch(..) => Some("there is something to send"),
                // Other reactors are woken with a turn of theirs. Connections that end are looked
                // after at intervals.
                _ => None,
            });
            self.do_op(index, op);
        }
        accepted.into_iter().for_each(|(time, index)| self.after(time, Event::Accepted(index)));
        // The reactor has until then to end its present turn.
        refused.into_iter().for_each(|index| self.cut(index));
        seen.iter().for_each(|(_, seen)| self.check_connect(seen));
        let busy = self.serving_ns(index, served) + self.taking_in_ns(index, served_now);
        let busy = Nanos(now.0 + busy);
        self.reactors[index].busy = busy;
        let back = Nanos(busy.0 + TURN_NS);
        self.plan_turn(index, idle_until.unwrap_or(now).max(back));
        let idle_until = idle_until.filter(|at| *at > back);
        self.reactors[index].idle_until = idle_until.map(|at| (at, self.rates_changed));
        if let Some(at) = idle_until
            && self.rng.u8(0..8) == 0
        {
            // Waits are of all magnitudes.
            let most = (at.0 - back.0).ilog2() + 1;
            let wait = 1 << self.rng.u32(0..most);
            self.at(Nanos(back.0 + wait), Event::Look(index));
        }
        let known = self.reactors[index].connections.len();
        if held.connections != known {
            self.breaks(format!("reactor {index} has {known} connections, and says: {held:?}"));
        }
        if held.wake_ups > 0 {
            self.breaks(format!("reactor {index} ends its turn and wakes nobody: {held:?}"));
        }
        if held.ordered > held.commands {
            self.breaks(format!("reactor {index} orders more commands than it has: {held:?}"));
        }
        found
    }

    pub(super) fn do_op(&mut self, reactor: usize, op: Op) {
        match op {
            Op::Send(key, batch) => {
                let mut twice = false;
                self.with(reactor, key, |connection| {
                    twice = !connection.may_send();
                    connection.sending.push_back(batch);
                });
                if twice {
                    self.breaks("two batches of one connection were sent at once");
                }
            }
            Op::Fetch(key, fetch, place) => {
                let Some(index) = self.index_of(reactor, key) else { return };
                let connection = &mut self.connections[index];
                connection.fetching.push_back((fetch, place));
                let times = connection.up_ns + connection.down_ns;
                self.schedule(index);
                self.after(times, Event::Fetch(index));
            }
            Op::ShutDown(key) => self.with(reactor, key, |connection| connection.cut = true),
            Op::Wake(reactors) => {
                for reactor in reactors {
                    self.reactors[reactor as usize].idle_until = None;
                    self.plan_turn(reactor as usize, Nanos(self.now.0 + TURN_NS));
                }
            }
            Op::Mark(..) => {}
            Op::Join(_, pacing) => {
                let steady = self.settling || self.scenario.reserved;
                if !steady && self.rng.bool() {
                    pacing.set_r2t_rate(Some(self.rng.u64(1_000_000..100_000_000)));
                }
                self.paced.push(pacing);
            }
            Op::Ended(key, _) => {
                let ended = self.reactors[reactor].connections.remove(&key);
                let Some(index) = ended else { return };
                let connection = &mut self.connections[index];
                (connection.key, connection.cut) = (None, true);
                if connection.receiving.is_some()
                    || !connection.fetching.is_empty()
                    || !connection.sending.is_empty()
                {
                    self.breaks("a connection has ended during a receive, a send or a fetch");
                }
                self.schedule(index);
            }
        }
    }

    /// Changes how a reactor receives from a connection.
    fn change_receive(&mut self, reactor: usize, key: Key, receive: Option<Receive>) {
        let (begins, mut twice) = (receive.is_some(), false);
        self.with(reactor, key, |connection| match receive {
            // A receive that has ended already, of which the reactor does not know yet, is not
            // there to be stopped; the next one is another.
            None => {
                connection.stopping =
                    matches!(connection.receiving, Some(Receive::Chunks | Receive::Chunk));
            }
            begun => {
                twice = connection.receiving.is_some();
                connection.receiving = begun;
            }
        });
        if begins
            && self.scenario.any_is(Hostility::Floods)
            && let Some(index) = self.index_of(reactor, key)
        {
            // Waiting input is received in the order in which it is requested.
            self.deliver_up(index);
        }
        if twice {
            self.breaks("one connection is received from twice at once");
        }
    }

    /// Returns the index of a reactor's connection.
    fn index_of(&self, reactor: usize, key: Key) -> Option<usize> {
        self.reactors[reactor].connections.get(&key).copied()
    }

    pub(super) fn with(&mut self, reactor: usize, key: Key, change: impl FnOnce(&mut Connection)) {
        if let Some(index) = self.index_of(reactor, key) {
            change(&mut self.connections[index]);
            self.schedule(index);
        }
    }

    pub(super) fn launch(&mut self, index: usize, job: Job<Machine>) {
        if let Some((session, at)) = job.turn() {
            // Limits on bytes charge commands without data by their time.
            let bytes = u64::from(job.command.transfer(BlockFormat::BYTES_512).bytes());
            let write = job.command.changes_blocks();
            if !self.scenario.seeks {
                self.note_reserved(session, at);
            }
            // Parts of one command are one operation.
            let may_be_part = matches!(
                job.command,
                IoCommand::Deallocate { .. }
                    | IoCommand::WriteZeroes { .. }
                    | IoCommand::Verify { .. }
            );
            let name = (index, job.connection(), job.sqe.cid.get(), job.arrived());
            let operations = u64::from(!may_be_part || self.begun.insert(name));
            let amount = (operations, bytes);
            let exceeded = self.limits.passed(session.0, at, write, amount).map(str::to_owned);
            // Limits count what joins an order by place, not what leaves it.
            if let Some(name) = exceeded.filter(|_| !self.scenario.by_place) {
                self.breaks(format!("{name} has more than its limits let pass"));
            }
        }
        let service = match self.scenario.seeks {
            true => job.device.content.seek_ns(&job.command, job.device.blocks()),
            false => {
                let service = job.device.content.service_ns();
                self.rng.u64(service / 2..=service * 2)
            }
        };
        let until = job.device.content.occupy(self.now, service);
        let reactor = &mut self.reactors[index];
        let place = reactor.jobs.insert(job);
        self.at(until, Event::Job(index, place));
    }

    pub(super) fn end_job(&mut self, index: usize, place: usize) {
        let job = self.reactors[index].jobs.remove(place);
        if let Some((session, _)) = job.turn().filter(|_| self.scenario.seeks) {
            self.note_reserved(session, Nanos(self.now.0 - 1));
        }
        let fails = self.scenario.faults && !self.settling && self.rng.u16(0..2000) == 0;
        let ended = end_job(job, fails.then_some(Status::INTERNAL_ERROR));
        self.put(index, testing::Input::JobEnded(ended));
    }

    /// Routes the service's actions to reactors.
    pub(super) fn route(&mut self) {
        loop {
            let Some(action) = self.shared.take_action() else { return };
            let connection = match action {
                Action::Complete { connection, .. }
                | Action::Close { connection, .. }
                | Action::Abort { connection, .. } => connection,
                Action::Authenticate { connection } => {
                    self.authenticate(connection);
                    continue;
                }
                Action::TableChanged { .. } => continue,
            };
            self.put(Key::of(connection).0, testing::Input::Act(action));
            // Time-outs may have moved.
            self.service_at = self.now;
            self.after(0, Event::Service);
        }
    }

    pub(super) fn tick(&mut self) {
        if self.now < self.service_at {
            return;
        }
        let now = self.now;
        let next = self.shared.with_service(|service| service.tick(now));
        let longest = Nanos(now.0 + 200_000_000);
        self.service_at = next.map_or(longest, |at| at.min(longest)).max(Nanos(now.0 + 1_000_000));
        self.at(self.service_at, Event::Service);
    }
}
