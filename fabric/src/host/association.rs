//! The state machine of a host's admin queue.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use units::Nanos;
use zerocopy::little_endian::U16;

use super::authentication::{Authentication, Credentials};
use super::commands::{self, CC_ENABLE, CC_ENTRY_SIZES, CC_SHUTDOWN, CC_WEIGHTED_ROUND_ROBIN};
use super::facts::{Facts, HostError, IoConnector};
use crate::dhchap::Work;
use crate::nvme::feature::fid;
use crate::nvme::identify::{IDENTIFY_SIZE, cns};
use crate::nvme::property::{ControllerStatus, offset};
use crate::nvme::{Cqe, Sqe};

/// Keep Alives that are sent within one keep alive timeout.
pub const KEEP_ALIVES: u32 = 3;

/// Time between two looks at CSTS.
const POLL: Duration = Duration::from_millis(2);
/// The time without an answer to a command after which the association ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// The SQSIZE of the admin queue: the most commands that may be outstanding.
const OUTSTANDING: u16 = 31;
/// The identifier of the command of the step under way.
const STEP: u16 = 0;
/// The identifier of Keep Alive.
const KEEP_ALIVE: u16 = 1;
/// The identifier of the first Asynchronous Event Request.
const EVENTS: u16 = 2;
/// The first identifier of the caller's own commands.
const OWN: u16 = 6;

/// The settings of a host's association with a controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// NQN of the host.
    pub host: String,
    /// Host identifier.
    pub host_id: [u8; 16],
    /// The host's means of authentication, used if the controller demands it.
    pub credentials: Option<Arc<Credentials>>,
    /// Keep alive timeout (KATO), in milliseconds; zero for none.
    pub keep_alive: Duration,
    /// The number of I/O queues to ask for; 0 asks for none.
    pub queues: u16,
    /// Whether the host submits I/O commands again after the delay of their status
    /// ([`Facts::retry_delay`]); the controller learns it where it has retry delays (ACRE).
    pub honours_retry_delays: bool,
    /// Whether the queues' priority classes are to count (CC.AMS).
    pub weighted_round_robin: bool,
    /// Asynchronous Event Requests to keep at the controller, up to 4.
    pub event_requests: u16,
    /// The events that the controller should tell of (Asynchronous Event Configuration), where
    /// there are requests.
    pub events: u32,
}

/// A command for the admin queue.
#[derive(Clone, Debug)]
pub struct AdminCommand {
    /// The command, with its identifier.
    pub sqe: Sqe,
    /// The data that the command writes.
    pub data: Option<Vec<u8>>,
    /// The bytes that the command reads.
    pub read_length: u32,
}

/// The event that a completed Asynchronous Event Request told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Event type, DW0 2:0.
    pub kind: u8,
    /// Event information, DW0 15:8.
    pub information: u8,
    /// The log page to read, DW0 23:16: reading it lets the next event of the type come.
    pub log: u8,
}

/// An action for the caller, or an event of which it learns.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a command on the admin queue; [`Association::answered`] takes the answer.
    Submit(AdminCommand),
    /// Carry out the work of an authentication; [`Association::worked`] takes the result.
    Work(Work),
    /// The controller is enabled and identified: connect I/O queues, with
    /// [`Association::io_connector`]. This action is repeated after a reset.
    Ready,
    /// Something has happened at the controller.
    Event(AsyncEvent),
    /// A command of [`Association::submit`] is complete.
    Answered {
        /// The command's identifier.
        cid: u16,
        /// The completion.
        cqe: Cqe,
        /// The data that was read.
        data: Vec<u8>,
    },
    /// The association is over: close the connections. Without an error it was shut down.
    Ended(Option<HostError>),
}

/// The step of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Idle,
    Connect,
    Authenticate,
    Capabilities,
    /// CC with EN clear is on its way, or the host waits for CSTS.RDY to become 0.
    Disable,
    AwaitDisabled,
    Enable,
    AwaitReady,
    Identify,
    Behavior,
    Queues,
    Events,
    Ready,
    ShutDown,
    AwaitShutDown,
    Over,
}

impl Step {
    /// Returns the command of the step, in words.
    fn command_name(self) -> &'static str {
        match self {
            Self::Connect => "Connect",
            Self::Authenticate => "Authentication Send or Receive",
            Self::Capabilities => "Property Get of CAP",
            Self::Disable | Self::Enable | Self::ShutDown => "Property Set of CC",
            Self::AwaitDisabled | Self::AwaitReady | Self::AwaitShutDown => "Property Get of CSTS",
            Self::Identify => "Identify Controller",
            Self::Behavior => "Set Features, Host Behavior Support",
            Self::Queues => "Set Features, Number of Queues",
            Self::Events => "Set Features, Asynchronous Event Configuration",
            Self::Idle | Self::Ready | Self::Over => "a command",
        }
    }

    /// Returns the goal of the step that CSTS tells, in words.
    fn goal(self) -> &'static str {
        match self {
            Self::AwaitDisabled => "reset",
            Self::AwaitShutDown => "shut down",
            _ => "become ready",
        }
    }
}

/// The host's side of a controller: the state machine of its admin queue.
#[derive(Debug)]
pub struct Association {
    pub(super) settings: Settings,
    pub(super) step: Step,
    pub(super) authentication: Option<Authentication>,
    facts: Facts,
    /// CAP.TO: the time within which CSTS follows.
    timeout: Duration,
    /// The time at which the answer to the step's command is too late; `None`: it was answered.
    unanswered: Option<Nanos>,
    /// The time of the next look at CSTS.
    poll: Option<Nanos>,
    /// The time by which CSTS must be as the step wants.
    poll_end: Nanos,
    /// The time at which the next Keep Alive is due; `None`: there is no timer.
    keep_alive: Option<Nanos>,
    /// The time at which the answer to a Keep Alive is too late; `None`: none is under way.
    keep_alive_end: Option<Nanos>,
    /// The identifiers of the caller's own commands that are in use, a bit each.
    own: u32,
    pub(super) actions: VecDeque<Action>,
}

impl Association {
    /// Makes an association that is not connected yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Settings { event_requests: settings.event_requests.min(4), ..settings },
            step: Step::Idle,
            authentication: None,
            facts: Facts { cntlid: 0xffff, ..Facts::default() },
            timeout: Duration::ZERO,
            unanswered: None,
            poll: None,
            poll_end: Nanos(0),
            keep_alive: None,
            keep_alive_end: None,
            own: 0,
            actions: VecDeque::new(),
        }
    }

    /// Connects, on an admin queue that takes commands from now on.
    pub fn connect(&mut self, now: Nanos) {
        if self.step != Step::Idle {
            return;
        }
        let kato = u32::try_from(self.settings.keep_alive.as_millis()).unwrap_or(u32::MAX);
        let sqe = commands::connect(0, OUTSTANDING, kato, None);
        let data = self.connect_data();
        self.enter(now, Step::Connect, sqe, Some(data), 0);
    }

    /// Returns the next action, if there is one.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns when [`Self::tick`] is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Nanos> {
        if self.step == Step::Over {
            return None;
        }
        // The next Keep Alive waits for the answer to the one before.
        let keep_alive = self.keep_alive_end.or(self.keep_alive);
        [self.unanswered, self.poll, keep_alive].into_iter().flatten().min()
    }

    /// Advances the timers to `now`.
    pub fn tick(&mut self, now: Nanos) {
        if self.step == Step::Over {
            return;
        }
        if self.unanswered.is_some_and(|end| now >= end) {
            return self.fail(HostError::Silent { what: self.step.command_name() });
        }
        if self.keep_alive_end.is_some_and(|end| now >= end) {
            return self.fail(HostError::Silent { what: "Keep Alive" });
        }
        if self.poll.is_some_and(|at| now >= at) {
            self.poll = None;
            self.send_step(now, commands::property_get(offset::CSTS, false), None, 0);
        }
        if self.keep_alive.is_some_and(|at| now >= at) && self.keep_alive_end.is_none() {
            self.keep_alive = Some(now + self.settings.keep_alive / KEEP_ALIVES);
            self.keep_alive_end = Some(now + self.settings.keep_alive);
            self.send(KEEP_ALIVE, commands::keep_alive(), None, 0);
        }
    }

    /// Handles the answer to a command of [`Action::Submit`]; `data` is the data that the command
    /// read.
    pub fn answered(&mut self, now: Nanos, cqe: &Cqe, data: Vec<u8>) {
        let cid = cqe.cid.get();
        match cid {
            _ if self.step == Step::Over => {}
            STEP => self.step_answered(now, cqe, &data),
            KEEP_ALIVE => {
                self.keep_alive_end = None;
                if !cqe.status().is_success() {
                    self.fail(HostError::Command { what: "Keep Alive", status: cqe.status() });
                }
            }
            EVENTS..OWN => self.event(cqe),
            _ => {
                self.own &= !own_bit(cid);
                self.actions.push_back(Action::Answered { cid, cqe: *cqe, data });
            }
        }
    }

    /// Sends a command of the caller. Returns the command's identifier.
    ///
    /// # Errors
    /// The controller is not ready, or the queue is full.
    pub fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read_length: u32,
    ) -> Result<u16, HostError> {
        if self.step != Step::Ready {
            return Err(HostError::NotReady);
        }
        let free = (OWN..=OUTSTANDING).find(|&cid| self.own & own_bit(cid) == 0);
        let cid = free.ok_or(HostError::QueueFull)?;
        self.own |= own_bit(cid);
        self.send(cid, sqe, data, read_length);
        Ok(cid)
    }

    /// Resets the controller (CC.EN = 0, then 1). Its I/O queues end; [`Action::Ready`] comes
    /// again.
    ///
    /// # Errors
    /// The controller is not ready.
    pub fn reset(&mut self, now: Nanos) -> Result<(), HostError> {
        let configuration = self.configuration() & !1;
        self.leave(now, Step::Disable, configuration)
    }

    /// Shuts the controller down; best after the I/O queues are gone. [`Action::Ended`] follows.
    ///
    /// # Errors
    /// The controller is not ready.
    pub fn shut_down(&mut self, now: Nanos) -> Result<(), HostError> {
        let configuration = self.configuration() | CC_SHUTDOWN;
        self.leave(now, Step::ShutDown, configuration)
    }

    /// Returns the controller's facts, as far as they are known.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the data that connections need in order to become I/O queues.
    #[must_use]
    pub fn io_connector(&self) -> IoConnector {
        IoConnector {
            connect_data: self.connect_data(),
            names: (self.settings.host.clone(), self.settings.subsystem.clone()),
            credentials: self.settings.credentials.clone(),
            facts: self.facts.clone(),
        }
    }

    fn connect_data(&self) -> Vec<u8> {
        let Settings { host_id, subsystem, host, .. } = &self.settings;
        commands::connect_data(*host_id, self.facts.cntlid, subsystem, host)
    }

    /// Returns CC with EN set.
    fn configuration(&self) -> u32 {
        let classes = if self.settings.weighted_round_robin { CC_WEIGHTED_ROUND_ROBIN } else { 0 };
        CC_ENABLE | classes
    }

    fn leave(&mut self, now: Nanos, step: Step, configuration: u32) -> Result<(), HostError> {
        if self.step != Step::Ready {
            return Err(HostError::NotReady);
        }
        let sqe = commands::property_set(offset::CC, configuration);
        self.enter(now, step, sqe, None, 0);
        Ok(())
    }

    pub(super) fn enter(
        &mut self,
        now: Nanos,
        step: Step,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read_length: u32,
    ) {
        self.step = step;
        self.send_step(now, sqe, data, read_length);
    }

    fn send_step(&mut self, now: Nanos, sqe: Sqe, data: Option<Vec<u8>>, read_length: u32) {
        self.unanswered = Some(now + PATIENCE);
        self.send(STEP, sqe, data, read_length);
    }

    fn send(&mut self, cid: u16, sqe: Sqe, data: Option<Vec<u8>>, read_length: u32) {
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        self.actions.push_back(Action::Submit(AdminCommand { sqe, data, read_length }));
    }

    /// Waits for CSTS to become as the step wants.
    fn await_status(&mut self, now: Nanos, step: Step) {
        self.step = step;
        self.poll_end = now + self.timeout;
        self.send_step(now, commands::property_get(offset::CSTS, false), None, 0);
    }

    pub(super) fn fail(&mut self, error: HostError) {
        self.step = Step::Over;
        self.actions.push_back(Action::Ended(Some(error)));
    }

    fn event(&mut self, cqe: &Cqe) {
        // A reset aborts requests, and so does a shutdown of some targets.
        if !cqe.status().is_success() || self.step != Step::Ready {
            return;
        }
        let [first, information, log, ..] = cqe.result.get().to_le_bytes();
        let event = AsyncEvent { kind: first & 0b111, information, log };
        self.actions.push_back(Action::Event(event));
        self.send(cqe.cid.get(), commands::event_request(), None, 0);
    }

    fn step_answered(&mut self, now: Nanos, cqe: &Cqe, data: &[u8]) {
        self.unanswered = None;
        let (status, result) = (cqe.status(), cqe.result.get());
        if !status.is_success() {
            let what = self.step.command_name();
            return self.fail(match self.step {
                Step::Connect => HostError::Refused { qid: 0, status },
                _ => HostError::Command { what, status },
            });
        }
        match self.step {
            Step::Connect => {
                // CNTLID is DW0 15:0.
                self.facts.cntlid = u16::try_from(result & 0xffff).unwrap_or(0);
                if !self.settings.keep_alive.is_zero() {
                    self.keep_alive = Some(now + self.settings.keep_alive / KEEP_ALIVES);
                }
                self.authenticate(now, result);
            }
            Step::Authenticate => self.authentication_answered(now, data),
            Step::Capabilities => self.capabilities(now, result),
            Step::Disable => self.await_status(now, Step::AwaitDisabled),
            Step::Enable => self.await_status(now, Step::AwaitReady),
            Step::ShutDown => self.await_status(now, Step::AwaitShutDown),
            Step::AwaitDisabled | Step::AwaitReady | Step::AwaitShutDown => {
                self.status(now, result);
            }
            Step::Identify => match self.facts.identified(data) {
                Ok(()) => self.tell_behavior(now),
                Err(error) => self.fail(error),
            },
            Step::Behavior => {
                self.facts.honours_retry_delays = true;
                self.count_queues(now);
            }
            Step::Queues => {
                // DW0 15:0: submission queues allocated, 0's based.
                self.facts.queues = u32::try_from(result & 0xffff).unwrap_or(0) + 1;
                let (granted, wanted) = (self.facts.queues, self.settings.queues);
                if granted < u32::from(wanted) {
                    return self.fail(HostError::TooFewQueues { granted, wanted });
                }
                self.ask_for_events(now);
            }
            Step::Events => self.ready(),
            Step::Idle | Step::Ready | Step::Over => {}
        }
    }

    pub(super) fn ask_for_capabilities(&mut self, now: Nanos) {
        let sqe = commands::property_get(offset::CAP, true);
        self.enter(now, Step::Capabilities, sqe, None, 0);
    }

    fn capabilities(&mut self, now: Nanos, cap: u64) {
        self.facts.max_outstanding = u16::try_from(cap & 0xffff).unwrap_or(0);
        self.facts.weighted_round_robin = cap >> 17 & 1 == 1;
        // CAP.TO, bits 31:24, in 500 ms.
        let [_, _, _, timeout, ..] = cap.to_le_bytes();
        self.timeout = Duration::from_millis(500) * u32::from(timeout.max(1));
        if self.settings.weighted_round_robin && !self.facts.weighted_round_robin {
            return self.fail(HostError::NoWeightedRoundRobin);
        }
        self.enable(now);
    }

    fn enable(&mut self, now: Nanos) {
        let sqe = commands::property_set(offset::CC, self.configuration());
        self.enter(now, Step::Enable, sqe, None, 0);
    }

    fn status(&mut self, now: Nanos, csts: u64) {
        let csts = ControllerStatus::from_bits_retain(u32::try_from(csts).unwrap_or(0));
        if csts.contains(ControllerStatus::FATAL) {
            return self.fail(HostError::Fatal);
        }
        let ready = csts.contains(ControllerStatus::READY);
        match self.step {
            Step::AwaitDisabled if !ready => self.enable(now),
            Step::AwaitReady if ready => {
                let sqe = commands::identify(cns::CONTROLLER, 0);
                let length = u32::try_from(IDENTIFY_SIZE).unwrap_or(0);
                self.enter(now, Step::Identify, sqe, None, length);
            }
            Step::AwaitShutDown if csts.contains(ControllerStatus::SHUTDOWN_COMPLETE) => {
                self.step = Step::Over;
                self.actions.push_back(Action::Ended(None));
            }
            step if now >= self.poll_end => self.fail(HostError::TooSlow { what: step.goal() }),
            _ => self.poll = Some(now + POLL),
        }
    }

    fn tell_behavior(&mut self, now: Nanos) {
        // A controller without CRDT1 has no retry delays; Linux does not set ACRE there either.
        if !self.settings.honours_retry_delays || self.facts.retry_delays[0].is_zero() {
            return self.count_queues(now);
        }
        let (sqe, data) = commands::honour_retry_delays();
        self.enter(now, Step::Behavior, sqe, Some(data), 0);
    }

    fn count_queues(&mut self, now: Nanos) {
        match self.settings.queues {
            0 => self.ask_for_events(now),
            queues => {
                self.enter(now, Step::Queues, commands::set_number_of_queues(queues), None, 0);
            }
        }
    }

    fn ask_for_events(&mut self, now: Nanos) {
        if self.settings.event_requests == 0 {
            return self.ready();
        }
        let sqe = commands::set_feature(fid::ASYNC_EVENTS, self.settings.events);
        self.enter(now, Step::Events, sqe, None, 0);
    }

    fn ready(&mut self) {
        self.step = Step::Ready;
        self.actions.push_back(Action::Ready);
        for request in 0..self.settings.event_requests {
            self.send(EVENTS + request, commands::event_request(), None, 0);
        }
    }
}

/// Returns the bit of one of the caller's own identifiers.
fn own_bit(cid: u16) -> u32 {
    1u32.checked_shl(u32::from(cid)).unwrap_or(0)
}

const _: () = assert!(CC_ENABLE & !1 == CC_ENTRY_SIZES);
