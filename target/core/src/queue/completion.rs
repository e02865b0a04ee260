//! The end of an I/O command: resources go back, an error is logged, and the command is counted.

use std::sync::Arc;

use fabric::Nanos;
use fabric::controller::{ConnectionId, ControllerShared, FailedCommand};
use fabric::nvm::{IoCommand, Transfer};
use fabric::nvme::{Sqe, Status};

use crate::machine::device::BlockDevice as _;
use crate::machine::driver::{Driver, Ended, Job};
use crate::reactor::context::Context;
use crate::stats::charge::Charge;
use crate::stats::counters::{IoStats, Time};
use crate::stats::tally::Tally;
use crate::stats::workloads::Workloads;

/// Number of failed commands of one queue that are put into the error log in one second.
const LOGGED_MAX: u32 = 64;
const SECOND_NS: u64 = 1_000_000_000;

/// The room of an I/O queue in which its commands end.
#[derive(Debug)]
pub(crate) struct Completion {
    controller: Arc<ControllerShared>,
    qid: u16,
    connection: ConnectionId,
    /// The connection's statistics.
    stats: Arc<IoStats>,
    /// A second's begin, and the number of failed commands put into the error log since.
    logged: (Nanos, u32),
}

impl Completion {
    /// Makes the completion of commands of queue `qid` of a controller.
    pub(crate) fn new(
        controller: Arc<ControllerShared>,
        qid: u16,
        connection: ConnectionId,
        stats: Arc<IoStats>,
        now: Nanos,
    ) -> Self {
        Self { controller, qid, connection, stats, logged: (now, 0) }
    }

    /// Returns the connection's statistics.
    pub(crate) fn stats(&self) -> Arc<IoStats> {
        Arc::clone(&self.stats)
    }

    /// Completes a command that has left its device: releases its resources, and counts it, among the queue's
    /// workloads too. Returns the status for its host.
    pub(crate) fn end<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        workloads: &Workloads,
        ended: &mut Ended<D>,
    ) -> Status {
        io.stages.give_back(&mut ended.job, io.now, true);
        let mut status = ended.status;
        if !status.is_success() {
            if status == Status::NAMESPACE_NOT_READY {
                // The command's device is gone: the status has the time after which the host may
                // retry.
                status = self.controller.namespace_not_ready();
            }
            status = self.log_failure(io, &ended.job.sqe, status);
        }
        self.record(io, workloads, &ended.job, status);
        status
    }

    /// Records a command in all the statistics that it belongs to.
    fn record<D: Driver>(
        &self,
        io: &Context<D>,
        workloads: &Workloads,
        job: &Job<D>,
        status: Status,
    ) {
        let waited = Time::new(job.started.ns_since(job.arrived));
        let in_device = Time::new(io.now.ns_since(job.started));
        let all_time = Time::new(io.now.ns_since(job.arrived));
        let bytes = match job.command.transfer(job.device.format()) {
            Transfer::ToController(bytes) | Transfer::ToHost(bytes) => u64::from(bytes),
            Transfer::None => 0,
        };
        let Charge { class, account, workload, .. } = job.charge;
        let own = (&*self.stats, workloads.stats(workload, io.settings.reactor));
        let all = io.stats_of(Some(&job.device), class, account, own);
        for stats in all.into_iter().flatten() {
            stats.queueing.record_time(waited, 1);
            stats.service.record_time(in_device, 1);
            let (kind, bytes) = match job.command {
                IoCommand::Read { .. } => (&stats.read, bytes),
                IoCommand::Write { .. } => (&stats.write, bytes),
                _ => (&stats.other, 0),
            };
            kind.record_time(1, bytes, all_time);
            if !status.is_success() {
                kind.errors(1);
            }
        }
    }

    /// Records the commands that were carried out on the spot until now.
    pub(crate) fn record_tally<D: Driver>(
        &self,
        io: &Context<D>,
        workloads: &Workloads,
        tally: &mut Tally,
        now: Nanos,
    ) {
        tally.record(now, |of| {
            let device = io.devices.get(of.device).map(|device| &**device);
            let own = (&*self.stats, workloads.stats(of.workload, io.settings.reactor));
            io.stats_of(device, of.class, of.account, own)
        });
    }

    /// Puts a failed command into its controller's error log. Returns the status that says so.
    #[cold]
    pub(crate) fn log_failure<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        sqe: &Sqe,
        status: Status,
    ) -> Status {
        // The log has a lock, and a host may send bad commands as fast as it likes.
        if io.now.ns_since(self.logged.0) > SECOND_NS {
            self.logged = (io.now, 0);
        }
        self.logged.1 += 1;
        if self.logged.1 > LOGGED_MAX {
            return status;
        }
        let failed = FailedCommand {
            qid: self.qid,
            cid: sqe.cid.get(),
            opcode: sqe.opcode,
            nsid: sqe.nsid.get(),
            lba: sqe.slba(),
            status,
        };
        io.driver.service(|service| service.log_error(self.connection, failed));
        status.more()
    }
}
