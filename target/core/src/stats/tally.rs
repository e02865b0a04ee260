//! Commands that were carried out on the spot, recorded together so that the clock is read once
//! for all of them.

use arbitration::Class;
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Status;

use super::accounts::Account;
use super::counters::{IoStats, Time};
use super::workloads::WorkloadId;

/// The statistics that commands are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) device: BackendId,
    pub(crate) class: Class,
    pub(crate) account: Account,
    pub(crate) workload: Option<WorkloadId>,
}

/// Commands of one device, class and session.
#[derive(Debug)]
struct Run {
    of: Counted,
    /// Begin of the turn in which the commands came.
    since: Nanos,
    reads: u64,
    read_bytes: u64,
    read_errors: u64,
    writes: u64,
    write_bytes: u64,
    write_errors: u64,
    others: u64,
    other_errors: u64,
}

/// Commands that were carried out on the spot and not recorded yet, of one connection.
#[derive(Debug, Default)]
pub(crate) struct Tally(Vec<Run>);

impl Tally {
    /// Counts a command. Returns whether it is the first since the last [`Self::record`].
    #[inline]
    pub(crate) fn count(
        &mut self,
        of: Counted,
        now: Nanos,
        command: &IoCommand,
        format: BlockFormat,
        status: Status,
    ) -> bool {
        let first = self.0.is_empty();
        if self.0.last().is_none_or(|run| run.of != of) {
            self.0.push(Run {
                of,
                since: now,
                reads: 0,
                read_bytes: 0,
                read_errors: 0,
                writes: 0,
                write_bytes: 0,
                write_errors: 0,
                others: 0,
                other_errors: 0,
            });
        }
        if let Some(run) = self.0.last_mut() {
            let failed = u64::from(!status.is_success());
            match command {
                IoCommand::Read { range, .. } => {
                    run.reads += 1;
                    run.read_bytes += range.bytes(format);
                    run.read_errors += failed;
                }
                IoCommand::Write { range, .. } => {
                    run.writes += 1;
                    run.write_bytes += range.bytes(format);
                    run.write_errors += failed;
                }
                _ => {
                    run.others += 1;
                    run.other_errors += failed;
                }
            }
        }
        first
    }

    /// Records the commands counted until `now` in the statistics that `of` returns for them: of the connection,
    /// the device, the class, the session and the workload. Their queueing time is zero.
    #[inline]
    pub(crate) fn record<'a>(
        &mut self,
        now: Nanos,
        of: impl Fn(&Counted) -> [Option<&'a IoStats>; 5],
    ) {
        for run in self.0.drain(..) {
            let time = Time::new(now.ns_since(run.since));
            for stats in of(&run.of).into_iter().flatten() {
                let kinds = [
                    (&stats.read, run.reads, run.read_bytes, run.read_errors),
                    (&stats.write, run.writes, run.write_bytes, run.write_errors),
                    (&stats.other, run.others, 0, run.other_errors),
                ];
                for (kind, count, bytes, errors) in kinds {
                    if count > 0 {
                        kind.record_time(count, bytes, time);
                        kind.errors(errors);
                    }
                }
                let count = run.reads + run.writes + run.others;
                stats.queueing.record(0, count);
                stats.service.record_time(time, count);
            }
        }
    }
}
