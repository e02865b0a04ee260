//! The controller as the host sees it: connecting, enabling, identifying, keeping alive.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use arbitration::Class;
use fabric::nvme::{Cqe, Status};
use fabric::queue::HostTransport as _;
use fabric::tcp::HostParams;

use super::commands;
use super::job::Access;
use super::link::{Link, Reply};

/// Keep alive timeout that is asked for, and how often a Keep Alive is sent.
const KATO_MS: u32 = 15_000;
pub(crate) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);

/// Everything an I/O queue needs to know to connect; goes to the threads.
#[derive(Clone, Debug)]
pub(crate) struct Association {
    access: Access,
    params: HostParams,
    cntlid: u16,
    /// In-capsule data on I/O queues, bytes.
    in_capsule_data: u32,
    /// CAP.MQES, 0's based.
    mqes: u16,
}

/// The namespace under load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Namespace {
    pub(crate) nsid: u32,
    /// Logical blocks.
    pub(crate) blocks: u64,
    /// Bytes in a logical block.
    pub(crate) block_size: u32,
    /// The most bytes in one command; 0 without limit.
    pub(crate) max_transfer: u64,
}

/// An association: its admin queue, and what the controller said about itself.
#[derive(Debug)]
pub(crate) struct Controller {
    admin: Link,
    pub(crate) association: Association,
    /// Model number, for the report.
    pub(crate) model: String,
    /// The most bytes in one command (MDTS); 0 without limit.
    max_transfer: u64,
    /// CC without SHN, as it was enabled.
    configuration: u32,
    last_keep_alive: Instant,
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
        let mut admin = Link::connect(&access.address, params, access.tos)?;
        let mut association =
            Association { access, params, cntlid: u16::MAX, in_capsule_data: 0, mqes: 0 };
        let connected = association.fabrics_connect(&mut admin, (0, 31), KATO_MS, None)?;
        // CNTLID is in DW0 15:0 of the Connect completion.
        association.cntlid = u16::try_from(connected.result.get() & 0xffff).unwrap_or(0);
        let configuration = commands::CC_ENABLE | if wrr { commands::CC_WRR } else { 0 };
        let cap = enable(&mut admin, configuration).context("enabling the controller")?;
        association.mqes = u16::try_from(cap & 0xffff).unwrap_or(0);
        let reply = admin.execute(commands::identify(commands::CNS_CONTROLLER, 0), None, 4096)?;
        check(&reply.cqe).context("Identify Controller")?;
        association.in_capsule_data =
            u32_at(&reply.data, 1792).saturating_mul(16).saturating_sub(64);
        // MDTS (byte 77): 2^n pages of 4096 bytes.
        let mdts = u32::from(reply.data.get(77).copied().unwrap_or(0));
        let max_transfer = if mdts == 0 { 0 } else { 4096u64.checked_shl(mdts).unwrap_or(0) };
        let model = reply.data.get(24..64).unwrap_or_default();
        let model = String::from_utf8_lossy(model).trim().to_owned();
        set_queues(&mut admin, queues)?;
        let last_keep_alive = Instant::now();
        Ok(Self { admin, association, model, max_transfer, configuration, last_keep_alive })
    }

    /// What the controller says of a namespace.
    pub(crate) fn namespace(&mut self, nsid: u32) -> anyhow::Result<Namespace> {
        let command = commands::identify(commands::CNS_NAMESPACE, nsid);
        let reply = self.admin.execute(command, None, 4096)?;
        check(&reply.cqe)
            .with_context(|| format!("Identify Namespace {nsid}; try another --nsid"))?;
        let (blocks, block_size) = geometry(nsid, &reply.data)?;
        Ok(Namespace { nsid, blocks, block_size, max_transfer: self.max_transfer })
    }

    /// Sends a Keep Alive if one is due.
    pub(crate) fn keep_alive(&mut self) -> anyhow::Result<()> {
        if self.last_keep_alive.elapsed() < KEEP_ALIVE_EVERY {
            return Ok(());
        }
        self.last_keep_alive = Instant::now();
        let reply = self.admin.execute(commands::keep_alive(), None, 0)?;
        check(&reply.cqe).context("Keep Alive")
    }

    /// Shuts the controller down, after the I/O queues are gone.
    pub(crate) fn shutdown(mut self) -> anyhow::Result<()> {
        let value = self.configuration | commands::CC_SHUTDOWN;
        let reply = self.admin.execute(commands::property_set(commands::CC, value), None, 0)?;
        check(&reply.cqe).context("shutting the controller down")
    }
}

impl Association {
    /// Connects I/O queue `qid` of a priority class so that `depth` commands may be outstanding.
    pub(crate) fn io_queue(
        &self,
        qid: u16,
        depth: u16,
        class: Option<Class>,
    ) -> anyhow::Result<Link> {
        ensure!(
            depth <= self.mqes,
            "the controller's queues hold {} commands (CAP.MQES): use --depth {0} and more \
             --connections",
            self.mqes
        );
        let mut link = Link::connect(&self.access.address, self.params, self.access.tos)?;
        self.fabrics_connect(&mut link, (qid, depth), 0, class)?;
        link.connection.set_in_capsule_data(self.in_capsule_data);
        link.set_nonblocking()?;
        Ok(link)
    }

    fn fabrics_connect(
        &self,
        link: &mut Link,
        (qid, sqsize): (u16, u16),
        kato_ms: u32,
        class: Option<Class>,
    ) -> anyhow::Result<Cqe> {
        let Access { address, nqn, hostnqn, .. } = &self.access;
        let data = commands::connect_data(host_id(hostnqn), self.cntlid, nqn, hostnqn);
        let command = commands::connect(qid, sqsize, kato_ms, class);
        let Reply { cqe, .. } = link.execute(command, Some(data), 0)?;
        if cqe.status().is_success() {
            return Ok(cqe);
        }
        let queue =
            if qid == 0 { "the admin queue".to_owned() } else { format!("I/O queue {qid}") };
        bail!(
            "{address} refused Connect for {queue} of {nqn}: {}. {}",
            cqe.status(),
            remedy(cqe.status(), qid)
        )
    }
}

/// The host identifier that goes with a host's NQN: hosts of different names are different hosts.
fn host_id(hostnqn: &str) -> [u8; 16] {
    // FNV-1a, 128 bits.
    let hash = hostnqn.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    hash.to_be_bytes()
}

/// What to try when Connect is refused with that status.
fn remedy(status: Status, qid: u16) -> &'static str {
    match Status::from_bits(status.bits() & 0x7ff) {
        Status::CONNECT_INVALID_PARAMETERS if qid == 0 => {
            "Check the subsystem's NQN (-n) and that the subsystem is offered at this address."
        }
        Status::CONNECT_INVALID_PARAMETERS => {
            "The queue may be too large or too many: use a smaller --depth or fewer --connections."
        }
        Status::CONNECT_INVALID_HOST => {
            "The subsystem does not allow this host: allow it there, or say --hostnqn."
        }
        Status::CONNECT_CONTROLLER_BUSY => {
            "The controller has no room: use fewer --connections, or try again later."
        }
        _ => "Look into the target's log for the reason.",
    }
}

/// Success, or the status in words.
pub(crate) fn check(cqe: &Cqe) -> anyhow::Result<()> {
    ensure!(cqe.status().is_success(), "the target answered: {}", cqe.status());
    Ok(())
}

/// Sets CC, with EN, and waits for CSTS.RDY as long as CAP.TO (bits 31:24, in 500 ms) allows; CAP.
fn enable(admin: &mut Link, configuration: u32) -> anyhow::Result<u64> {
    let reply = admin.execute(commands::property_get(commands::CAP, true), None, 0)?;
    check(&reply.cqe).context("Property Get of CAP")?;
    let cap = reply.cqe.result.get();
    ensure!(
        configuration & commands::CC_WRR == 0 || cap & commands::CAP_WRR != 0,
        "the controller has no weighted round robin (CAP.AMS), so that its queues have no classes: \
         let the target offer it, or leave out --prioclass"
    );
    let reply = admin.execute(commands::property_set(commands::CC, configuration), None, 0)?;
    check(&reply.cqe).context("Property Set of CC")?;
    let deadline =
        Instant::now() + Duration::from_millis(500) * u8::max(1, cap.to_le_bytes()[3]).into();
    loop {
        let reply = admin.execute(commands::property_get(commands::CSTS, false), None, 0)?;
        check(&reply.cqe).context("Property Get of CSTS")?;
        let csts = reply.cqe.result.get();
        ensure!(csts & 0b10 == 0, "the controller reports a fatal status (CSTS.CFS)");
        if csts & 1 != 0 {
            return Ok(cap);
        }
        ensure!(Instant::now() < deadline, "the controller did not become ready in time (CAP.TO)");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Number and size of a namespace's blocks, from its Identify data.
fn geometry(nsid: u32, data: &[u8]) -> anyhow::Result<(u64, u32)> {
    let blocks = u64::from(u32_at(data, 0)) | u64::from(u32_at(data, 4)) << 32;
    ensure!(blocks > 0, "namespace {nsid} is not active: try another --nsid");
    // FLBAS (byte 26) 3:0 selects the format; its byte 2 is LBADS, a power of two.
    let byte = |offset: usize| data.get(offset).copied().unwrap_or(0);
    let format = 128 + 4 * usize::from(byte(26) & 0xf);
    let shift = u32::from(byte(format + 2));
    ensure!((9..=16).contains(&shift), "namespace {nsid} has blocks of 2^{shift} bytes");
    Ok((blocks, 1 << shift))
}

fn set_queues(admin: &mut Link, queues: u16) -> anyhow::Result<()> {
    let reply = admin.execute(commands::set_number_of_queues(queues), None, 0)?;
    check(&reply.cqe).context("Set Features, Number of Queues")?;
    // DW0 15:0: submission queues allocated, 0's based.
    let granted = (reply.cqe.result.get() & 0xffff) + 1;
    ensure!(
        granted >= u64::from(queues),
        "the target allows {granted} I/O queues, {queues} are wanted: use fewer --connections"
    );
    Ok(())
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let field = bytes.get(offset..offset + 4).and_then(|field| field.try_into().ok());
    field.map_or(0, u32::from_le_bytes)
}
