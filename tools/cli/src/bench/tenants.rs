//! The controllers and namespaces of all jobs. Jobs of different hosts, subsystems,
//! transports, addresses or ToS have controllers of their own.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use fabric::tcp::HostParams;
use sluice_config::client;
use sluice_credits::Pool;

use super::args::Load;
use super::io_queue::Extent;
use super::job::Job;
use super::units::show_bytes;
use super::users::{self, Users};
use super::worker::Plan;
use crate::agent::pools::find_pool;
use crate::host::access::{Access, Transport};
use crate::host::controller::{Association, Controller, Namespace};

/// The bytes that each connection uses with data verification by default.
const VERIFIED_SPAN: u64 = 64 << 20;

/// The controllers of all jobs.
#[derive(Debug)]
pub(crate) struct Tenants {
    controllers: Vec<(Access, Controller)>,
    /// The controller's index and the namespace of each job.
    pub(crate) jobs: Vec<(usize, Namespace)>,
    /// The pool of credits of each job; `None` where there is none.
    pub(crate) pools: Vec<Option<Arc<Pool>>>,
}

impl Tenants {
    /// Connects a controller for each host, subsystem, transport, address and ToS that jobs name.
    pub(crate) fn connect(load: &Load, jobs: &[Job]) -> anyhow::Result<Self> {
        let params =
            HostParams { hpda: 0, header_digest: load.hdgst, data_digest: load.ddgst, maxr2t: 0 };
        ensure!(
            !(load.hdgst || load.ddgst)
                || jobs.iter().all(|job| job.access.transport == Transport::Tcp),
            "digests are of NVMe/TCP: leave out --hdgst and --ddgst with RDMA"
        );
        let mut tenants = Self { controllers: Vec::new(), jobs: Vec::new(), pools: Vec::new() };
        for job in jobs {
            let index = match tenants.position(&job.access) {
                Some(index) => index,
                None => tenants.add(job, jobs, params)?,
            };
            let (_, controller) = tenants.controllers.get_mut(index).context("no controller")?;
            let namespace = controller.namespace(job.nsid)?;
            check(job, &namespace)?;
            let pool = match &load.credits {
                Some(folder) => find_pool(controller, folder, &job.access, job.nsid)?,
                None => None,
            };
            tenants.pools.push(pool);
            tenants.jobs.push((index, namespace));
        }
        Ok(tenants)
    }

    fn position(&self, access: &Access) -> Option<usize> {
        self.controllers.iter().position(|(known, _)| known == access)
    }

    fn add(&mut self, job: &Job, jobs: &[Job], params: HostParams) -> anyhow::Result<usize> {
        let own = || jobs.iter().filter(|other| other.access == job.access);
        let queues = own().try_fold(0u16, |sum, job| sum.checked_add(job.connections));
        let queues = queues.context("at most 65535 connections in all")?;
        let wrr = own().any(|job| job.prioclass.is_some());
        let controller = Controller::connect(job.access.clone(), params, queues, wrr)?;
        self.controllers.push((job.access.clone(), controller));
        Ok(self.controllers.len() - 1)
    }

    /// Returns what I/O queues need to connect, by controller.
    pub(crate) fn associations(&self) -> Vec<Association> {
        self.controllers.iter().map(|(_, controller)| controller.association.clone()).collect()
    }

    /// Returns the model number of a job's controller.
    pub(crate) fn model(&self, job: usize) -> &str {
        let controller = self.jobs.get(job).and_then(|(index, _)| self.controllers.get(*index));
        controller.map_or("", |(_, controller)| controller.model())
    }

    /// Finds the others that use a job's namespace; `socket` is the control socket that was named.
    pub(crate) fn other_users(
        &mut self,
        job: usize,
        socket: Option<&Path>,
    ) -> anyhow::Result<Users> {
        let (index, namespace) = *self.jobs.get(job).context("no such job")?;
        let (access, _) = self.controllers.get(index).context("no controller")?;
        let access = access.clone();
        let of_subsystem = self.controllers.iter().filter(|(other, _)| other.nqn == access.nqn);
        let own: Vec<u16> = of_subsystem.map(|(_, controller)| controller.id()).collect();
        let (_, controller) = self.controllers.get_mut(index).context("no controller")?;
        users::others(controller, (&access, namespace.nsid), &own, &client::socket(socket))
    }

    /// Sends the Keep Alives that are due.
    pub(crate) fn keep_alive(&mut self) -> anyhow::Result<()> {
        self.controllers.iter_mut().try_for_each(|(_, controller)| controller.keep_alive())
    }

    /// Shuts the controllers down, after the I/O queues are gone.
    pub(crate) fn shutdown(self) -> anyhow::Result<()> {
        self.controllers.into_iter().try_for_each(|(_, controller)| controller.shutdown())
    }

    /// Divides the namespaces among the connections. Connections with random patterns and without
    /// data verification all use the same range; others get ranges of their own.
    pub(crate) fn plan(&self, load: &Load, jobs: &[Job]) -> anyhow::Result<Vec<Plan>> {
        let mut plans: Vec<Plan> = Vec::new();
        let mut queues = vec![0u16; self.controllers.len()];
        for (index, (job, (controller, namespace))) in jobs.iter().zip(&self.jobs).enumerate() {
            let range = Range::of(load, jobs, job, namespace);
            let before = connections(jobs.get(..index).unwrap_or_default(), job);
            for own in 0..u64::from(job.connections) {
                let qid = queues.get_mut(*controller).context("no such controller")?;
                *qid += 1;
                let extent = range.extent(job, before + own)?;
                let seed = u64::try_from(plans.len())?;
                plans.push(Plan { controller: *controller, qid: *qid, job: index, extent, seed });
            }
        }
        Ok(plans)
    }
}

/// Counts the connections of those jobs that use the same namespace as `job`.
fn connections(jobs: &[Job], job: &Job) -> u64 {
    sharers(jobs, job).map(|other| u64::from(other.connections)).sum()
}

/// Finds the jobs on the same namespace as `job`.
fn sharers<'a>(jobs: &'a [Job], job: &'a Job) -> impl Iterator<Item = &'a Job> {
    let of = |job: &'a Job| (&job.access.address, &job.access.nqn, job.nsid);
    jobs.iter().filter(move |other| of(other) == of(job))
}

/// The parts of a namespace that a job's connections use, in bytes.
struct Range {
    /// Whether each connection has a part of its own.
    apart: bool,
    /// The length of each part.
    share: u64,
    length: u64,
    block: u64,
    verify: bool,
}

impl Range {
    fn of(load: &Load, jobs: &[Job], job: &Job, namespace: &Namespace) -> Self {
        let block = u64::from(namespace.block_size);
        let size = namespace.blocks.saturating_mul(block);
        // Whole commands and whole blocks, so that every part starts where commands are aligned.
        let grain = sharers(jobs, job).map(|job| u64::from(job.bs)).max().unwrap_or(block);
        let share = size / connections(jobs, job).max(1) / grain * grain;
        let whole = if load.verify { VERIFIED_SPAN } else { size };
        let own = load.span.unwrap_or(whole);
        let apart = load.verify || !job.rw.is_random();
        let length = own.min(if apart { share } else { size });
        Self { apart, share, length, block, verify: load.verify }
    }

    /// Computes the part of the namespace's connection `number`.
    fn extent(&self, job: &Job, number: u64) -> anyhow::Result<Extent> {
        let start = if self.apart { number * self.share } else { 0 };
        let units = self.length / u64::from(job.bs);
        ensure!(
            units > 0 && (!self.verify || units >= u64::from(job.depth)),
            "{}: {} for each connection hold fewer blocks of {} than the depth: use a larger \
             --span or namespace, a smaller --depth, or fewer --connections",
            job.name,
            show_bytes(self.length),
            show_bytes(u64::from(job.bs))
        );
        Ok(Extent { slba: start / self.block, units })
    }
}

fn check(job: &Job, namespace: &Namespace) -> anyhow::Result<()> {
    let Namespace { block_size, max_transfer, nsid, .. } = *namespace;
    let bs = u64::from(job.bs);
    ensure!(
        job.bs.is_multiple_of(block_size),
        "{}: --bs {} is not a multiple of the namespace's block size, {block_size} bytes",
        job.name,
        job.bs
    );
    ensure!(
        max_transfer == 0 || bs <= max_transfer,
        "{}: the controller takes at most {} in one command (MDTS): use a smaller --bs",
        job.name,
        show_bytes(max_transfer)
    );
    ensure!(
        job.bs / block_size <= 1 << 16,
        "{}: a command has at most 65536 blocks: use a smaller --bs",
        job.name
    );
    let size = namespace.blocks.saturating_mul(u64::from(block_size));
    ensure!(bs <= size, "{}: namespace {nsid} is smaller than one command", job.name);
    Ok(())
}
