//! An association with a controller: `fabric::host` over one blocking connection.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use fabric::Nanos;
use fabric::host::authentication::{AuthError, MESSAGE_ROOM};
use fabric::host::{
    self, Action, AdminCommand, Facts, HostError, IoConnector, NamespaceFacts, Settings, commands,
};
use fabric::nvme::identify::{IDENTIFY_SIZE, cns};
use fabric::nvme::{Cqe, Sqe, Status};
use fabric::tcp::HostParams;

use super::access::{Access, HostStyle, QueueKind};
use super::authentication;
use super::connection::{Connection, Reply};
use super::identity::host_id;
use super::queue_room::QueueRoom;

/// The keep alive timeout in Connect.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Commands that may be outstanding on the admin queue.
const ADMIN_DEPTH: u16 = 31;

/// What the threads need to connect I/O queues.
#[derive(Clone, Debug)]
pub(crate) struct Association {
    access: Access,
    params: HostParams,
    connector: IoConnector,
}

/// The namespace under load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Namespace {
    pub(crate) nsid: u32,
    /// The number of logical blocks.
    pub(crate) blocks: u64,
    /// Bytes in a logical block.
    pub(crate) block_size: u32,
    /// The most bytes in one command; 0 for no limit.
    pub(crate) max_transfer: u64,
}

/// An association with a controller: its admin queue, and what the controller says about itself.
#[derive(Debug)]
pub(crate) struct Controller {
    admin: Connection,
    host: host::Association,
    pub(crate) association: Association,
    /// The start of the association's clock.
    begin: Instant,
}

impl Controller {
    /// Connects the admin queue, enables the controller and asks for `queues` I/O queues. With
    /// `wrr` the queues' priority classes count.
    pub(crate) fn connect(
        access: Access,
        params: HostParams,
        queues: u16,
        wrr: bool,
    ) -> anyhow::Result<Self> {
        let admin = Connection::connect(
            &access,
            params,
            QueueRoom {
                qid: 0,
                cntlid: 0,
                depth: ADMIN_DEPTH,
                transfer: u32::try_from(IDENTIFY_SIZE)?,
                in_capsule_data: 0,
            },
        )?;
        let host = host::Association::new(Settings {
            subsystem: access.nqn.clone(),
            host: access.hostnqn.clone(),
            host_id: host_id(&access.hostnqn),
            credentials: access.credentials.clone(),
            keep_alive: KEEP_ALIVE,
            queues,
            weighted_round_robin: wrr,
            honours_retry_delays: queues > 0,
            event_requests: 0,
            events: 0,
        });
        let connector = host.io_connector();
        let association = Association { access, params, connector };
        let mut new = Self { admin, host, association, begin: Instant::now() };
        new.host.connect(new.now());
        match new.next_action()? {
            Action::Ready => {}
            other => bail!("the controller is not ready: {other:?}"),
        }
        new.association.connector = new.host.io_connector();
        Ok(new)
    }

    fn now(&self) -> Nanos {
        Nanos::default() + self.begin.elapsed()
    }

    /// Sends the commands that the association asks for. Returns the next other action.
    fn exchange(&mut self) -> anyhow::Result<Option<Action>> {
        while let Some(action) = self.host.poll_action() {
            match action {
                Action::Submit(AdminCommand { sqe, data, read_length }) => {
                    let reply = self.admin.execute(sqe, data, read_length)?;
                    self.host.answered(self.now(), &reply.cqe, reply.data);
                }
                Action::Work(work) => {
                    let worked = authentication::carry_out(work)?;
                    self.host.worked(self.now(), worked);
                }
                Action::Ended(Some(error)) => return Err(self.association.explain(error)),
                other => return Ok(Some(other)),
            }
        }
        Ok(None)
    }

    /// Waits for an action of the association other than a command to send.
    fn next_action(&mut self) -> anyhow::Result<Action> {
        loop {
            if let Some(action) = self.exchange()? {
                return Ok(action);
            }
            let due = self.host.next_timeout().context("the association waits for nothing")?;
            std::thread::sleep(due.since(self.now()));
            self.host.tick(self.now());
        }
    }

    /// Returns the controller's identifier.
    pub(crate) fn id(&self) -> u16 {
        self.host.facts().cntlid
    }

    pub(crate) fn model(&self) -> &str {
        &self.host.facts().model
    }

    /// Asks the controller for a namespace's facts.
    pub(crate) fn namespace(&mut self, nsid: u32) -> anyhow::Result<Namespace> {
        let command = commands::identify(cns::NAMESPACE, nsid);
        let Reply { cqe, data } = self.command(command, u32::try_from(IDENTIFY_SIZE)?)?;
        check(&cqe).with_context(|| format!("Identify Namespace {nsid}; try another --nsid"))?;
        let NamespaceFacts { blocks, format, .. } =
            NamespaceFacts::parse(nsid, &data).map_err(|error| self.association.explain(error))?;
        let max_transfer = self.host.facts().max_transfer;
        Ok(Namespace { nsid, blocks, block_size: format.data_bytes(), max_transfer })
    }

    /// Sends an admin command that reads up to `read_length` bytes, at most [`IDENTIFY_SIZE`], and waits
    /// for its completion.
    pub(crate) fn command(&mut self, sqe: Sqe, read_length: u32) -> anyhow::Result<Reply> {
        self.execute(sqe, None, read_length)
    }

    /// Sends an admin command with data, and waits for its completion.
    pub(crate) fn send(&mut self, sqe: Sqe, data: Vec<u8>) -> anyhow::Result<Reply> {
        self.execute(sqe, Some(data), 0)
    }

    fn execute(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read_length: u32,
    ) -> anyhow::Result<Reply> {
        self.host.submit(sqe, data, read_length)?;
        match self.next_action()? {
            Action::Answered { cqe, data, .. } => Ok(Reply { cqe, data }),
            _ => bail!("the controller went away"),
        }
    }

    /// Sends a Keep Alive if one is due.
    pub(crate) fn keep_alive(&mut self) -> anyhow::Result<()> {
        self.host.tick(self.now());
        self.exchange().map(|_| ())
    }

    /// Shuts the controller down, after the I/O queues are gone.
    pub(crate) fn shutdown(mut self) -> anyhow::Result<()> {
        self.host.shut_down(self.now())?;
        self.next_action().context("shutting the controller down").map(|_| ())
    }
}

impl Association {
    /// Connects an I/O queue as [`Self::io_queue`] does, and makes its calls nonblocking. With `keeps_data`
    /// the data of reads is kept for the caller.
    pub(crate) fn loaded_queue(
        &self,
        qid: u16,
        room: (u16, u32),
        kind: QueueKind,
        keeps_data: bool,
    ) -> anyhow::Result<Connection> {
        let mut connection = self.io_queue(qid, room, kind)?;
        connection.begin_load(self.connector.facts.in_capsule_data, keeps_data)?;
        Ok(connection)
    }

    /// Returns the controller's facts.
    pub(crate) fn facts(&self) -> &Facts {
        &self.connector.facts
    }

    /// Connects an I/O queue of this kind so that `depth` commands of up to `transfer` bytes
    /// may be outstanding.
    pub(crate) fn io_queue(
        &self,
        qid: u16,
        (depth, transfer): (u16, u32),
        QueueKind { class, style }: QueueKind,
    ) -> anyhow::Result<Connection> {
        let connect = self.connector.connect(qid, depth, class);
        let (mut command, data) = connect.map_err(|error| self.explain(error))?;
        if style == HostStyle::Plain {
            commands::use_sq_flow_control(&mut command);
        }
        let facts = &self.connector.facts;
        let (cntlid, in_capsule_data) = (facts.cntlid, facts.in_capsule_data);
        let messages = self.access.credentials.is_some().then_some(MESSAGE_ROOM);
        let transfer = messages.map_or(transfer, |room| transfer.max(room));
        let room = QueueRoom { qid, cntlid, depth, transfer, in_capsule_data };
        let mut connection = Connection::connect(&self.access, self.params, room)?;
        let cqe = connection.execute(command, Some(data), 0)?.cqe;
        let status = cqe.status();
        if !status.is_success() {
            return Err(self.explain(HostError::Refused { qid, status }));
        }
        let begun = self.connector.authentication(qid, cqe.result.get());
        if let Some(begun) = begun.map_err(|error| self.explain(error))? {
            let proved = authentication::authenticate(&mut connection, begun)?;
            proved.map_err(|why| self.explain(HostError::NotAuthenticated { qid, why }))?;
        }
        Ok(connection)
    }

    /// Explains what went wrong, and what to try.
    fn explain(&self, error: HostError) -> anyhow::Error {
        let (address, nqn) = (self.access.endpoint(), &self.access.nqn);
        match error {
            HostError::Refused { qid, status } => {
                let queue = match qid {
                    0 => "the admin queue".to_owned(),
                    qid => format!("I/O queue {qid}"),
                };
                let remedy = remedy(status, qid);
                anyhow::anyhow!(
                    "{address} refused Connect for {queue} of {nqn}: {status}. {remedy}"
                )
            }
            HostError::NoWeightedRoundRobin => {
                anyhow::anyhow!("{error}: let the target offer it, or leave out --prioclass")
            }
            HostError::TooFewQueues { granted, wanted } => anyhow::anyhow!(
                "{error}: use at most --connections {granted}, or set max_queues = {wanted} in \
                 [target] of the target's configuration and restart it"
            ),
            HostError::QueueTooLong { most, .. } => {
                anyhow::anyhow!("{error}: use --depth {most} and more --connections")
            }
            HostError::NotAuthenticated { why: AuthError::NoSecret, .. } => anyhow::anyhow!(
                "{address}, {nqn}: {error}: give the host's secret, --dhchap-secret FILE"
            ),
            HostError::Inactive { .. } => anyhow::anyhow!("{error}: try another --nsid"),
            _ => anyhow::Error::new(error).context(format!("{address}, {nqn}")),
        }
    }
}

/// Says what to try when Connect is refused with that status.
fn remedy(status: Status, qid: u16) -> &'static str {
    match Status::from_bits(status.bits() & 0x7ff) {
        Status::CONNECT_INVALID_PARAMETERS if qid == 0 => {
            "Check the subsystem's NQN (-n) and that the subsystem is offered at this address."
        }
        Status::CONNECT_INVALID_PARAMETERS => {
            "The queue may be too long, or one too many: use a smaller --depth or fewer \
             --connections."
        }
        Status::CONNECT_INVALID_HOST => {
            "The subsystem does not allow this host: allow it there, or give another --hostnqn."
        }
        Status::CONNECT_CONTROLLER_BUSY => {
            "The controller has no room: use fewer --connections, or try again later."
        }
        _ => "The target's log has the reason.",
    }
}

/// Checks that a completion is a success.
///
/// # Errors
/// The completion's status, with its name.
pub(crate) fn check(cqe: &Cqe) -> anyhow::Result<()> {
    ensure!(cqe.status().is_success(), "the target answered: {}", cqe.status());
    Ok(())
}
