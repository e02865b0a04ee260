//! Commands on their way through a queued backend: each is split into units, and each unit is an entry in the ring.
//! A job owns its buffers until its last unit has come back, even if the connection ends meanwhile.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::Nanos;
use fabric::nvm::IoCommand;
use fabric::nvme::Status;
use slab::Slab;
use sluice_core::{Key, Memory as _, Use};

use super::busy::{Busy, Tries};
use super::pool::{Buffer, Pool};
use super::ring::Ring;
use super::tag::Tag;
use crate::disks::backend::{
    self, Answer, Data, DeviceError, Memory, Outcome, Place, Queued, Style, Unit,
};
use crate::disks::devices::OpenDevice;

pub(super) type Job = sluice_core::job::Job<OpenDevice, Buffer>;
pub(super) type Ended = sluice_core::job::Ended<OpenDevice, Buffer>;
pub(super) type Started = sluice_core::job::Started<OpenDevice, Buffer>;

/// The progress of a job.
#[derive(Debug)]
struct Running {
    job: Job,
    memory: Memory,
    scratch: Option<Buffer>,
    /// Number of units in the ring.
    pending: u32,
    replan: bool,
    result: u64,
    /// The first failure by position.
    status: Status,
    /// Position of that failure.
    failed_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    /// Place of the job that the unit belongs to.
    job: usize,
    unit: Unit,
    /// The times at which the device was too busy for it.
    tries: Tries,
    /// Whether its memory went to the ring as part of a registered buffer.
    registered: bool,
    /// Replaces the next completion, which is of an entry that does nothing.
    instead: Option<Instead>,
}

/// The meaning of the completion of an entry that does nothing.
#[derive(Clone, Copy, Debug)]
enum Instead {
    /// An earlier completion, which is classified once more: its result and first extra quadword.
    Doubted(i32, u64),
    /// The end of a unit that is not submitted again, since its connection ends.
    Abandoned,
}

/// The jobs of one reactor.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    running: Slab<Running>,
    flying: Slab<Flying>,
    /// Units that wait for their device, to be submitted again.
    busy: Busy,
    units: Vec<Unit>,
    /// The connections that end and have not ended.
    ending: HashSet<Key>,
}

impl Jobs {
    /// Notes that a connection ends. Its units that wait for their devices are not submitted any more: the host may
    /// have resent their commands on another connection, and have overwritten the blocks since.
    pub(super) fn end_connection(&mut self, key: Key) {
        self.ending.insert(key);
    }

    /// Notes that a connection has ended.
    pub(super) fn connection_ended(&mut self, key: Key) {
        self.ending.remove(&key);
    }

    pub(super) fn start(&mut self, mut job: Job, ring: &mut Ring, pool: &Pool) -> Started {
        let device = Arc::clone(&job.device);
        let Style::Queued(queued) = device.backend.style() else {
            return Started::Ended(Ended { job, result: 0, status: Status::INTERNAL_ERROR });
        };
        let data = match (&job.command, &mut job.buffer) {
            (IoCommand::Read { .. }, Some(buffer)) => Data::Read(buffer),
            (_, Some(buffer)) => Data::Write(buffer),
            (_, None) => Data::None,
        };
        if let Some(status) = queued.at_once(&job.command, data) {
            return Started::Ended(Ended { job, result: 0, status });
        }
        self.units.clear();
        let memory = match queued.plan(&view(&job), &mut self.units) {
            Ok(memory) => memory,
            Err(status) => return Started::Ended(Ended { job, result: 0, status }),
        };
        if self.units.is_empty() {
            return Started::Ended(Ended { job, result: 0, status: Status::SUCCESS });
        }
        let scratch = match memory {
            Memory::Scratch(bytes) => match pool.take(bytes as usize, Use::Any) {
                Some(mut buffer) => {
                    queued.fill(&view(&job), &mut buffer);
                    Some(buffer)
                }
                None => return Started::NoMemory(job),
            },
            _ => None,
        };
        let pending = u32::try_from(self.units.len()).unwrap_or(u32::MAX);
        let running = Running {
            job,
            memory,
            scratch,
            pending,
            replan: false,
            result: 0,
            status: Status::SUCCESS,
            failed_at: u64::MAX,
        };
        let index = self.running.insert(running);
        // The vector is taken and put back, so that its capacity stays.
        let units = std::mem::take(&mut self.units);
        for &unit in &units {
            let (tries, registered, instead) = (Tries::default(), false, None);
            let unit = self.flying.insert(Flying { job: index, unit, tries, registered, instead });
            self.submit(u32::try_from(unit).unwrap_or(u32::MAX), ring);
        }
        self.units = units;
        Started::Running
    }

    /// Takes a unit that has come back. After its last unit the job has ended, or starts again: the
    /// connection's key is returned then.
    pub(super) fn finish(
        &mut self,
        now: Nanos,
        unit: u32,
        (result, extra): (i32, u64),
        ring: &mut Ring,
        pool: &Pool,
    ) -> Option<(Key, Started)> {
        let flying = self.flying.get(unit as usize).copied();
        debug_assert!(flying.is_some(), "a unit is known until it completes");
        let flying = flying?;
        let running = self.running.get_mut(flying.job);
        debug_assert!(running.is_some(), "a job is known until its last unit completes");
        let running = running?;
        let device = Arc::clone(&running.job.device);
        let queued = queued(&device)?;
        let (result, extra) = match flying.instead {
            Some(Instead::Doubted(result, extra)) => (result, extra),
            _ => (result, extra),
        };
        if flying.registered && refuses_registered(result) && queued.may_refuse() {
            // Passthrough before Linux 6.12, for one, takes no part of a larger buffer.
            if queued.registered().is_some_and(|may| may.swap(false, Ordering::Relaxed)) {
                let path = device.backend.description().path.as_deref().map(Path::display);
                let device = path.map(tracing::field::display);
                let error = std::io::Error::from_raw_os_error(-result);
                tracing::debug!(device, %error, "the kernel refuses registered buffers");
            }
            self.submit(unit, ring);
            return None;
        }
        let outcome = match flying.instead {
            Some(Instead::Abandoned) => Outcome::Done(0, Status::ABORT_REQUESTED),
            _ => queued.finish(&view(&running.job), &flying.unit, result, extra),
        };
        let error = |answer| {
            let lba = device.backend.description().format.blocks(flying.unit.offset);
            DeviceError::new(&running.job.command, lba, answer)
        };
        let outcome = match outcome {
            Outcome::Busy | Outcome::NoPath if self.ending.contains(&running.job.connection()) => {
                Outcome::Done(0, Status::ABORT_REQUESTED)
            }
            Outcome::Doubtful(answer, status) if flying.instead.is_some() => {
                device.backend.health().note(error(answer));
                Outcome::Done(0, status)
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Busy | Outcome::NoPath => {
                if let Some(flying) = self.flying.get_mut(unit as usize) {
                    // An error that was classified again came from a device without a path.
                    flying.instead = None;
                    if self.busy.take(unit, &mut flying.tries, now) {
                        return None;
                    }
                }
                let backend = &device.backend;
                let status = if outcome == Outcome::NoPath {
                    let path = backend.description().path.as_deref().unwrap_or(Path::new("?"));
                    let path = path.display();
                    backend
                        .health()
                        .fail(format!("{path}: no path has led to the device for 10 s"));
                    Status::NAMESPACE_NOT_READY
                } else {
                    backend.health().note(error(Answer::Errno(-result)));
                    // The host may send the command again, and its device may have room then.
                    Status::COMMAND_INTERRUPTED
                };
                (running.status, running.failed_at) = (status, 0);
            }
            Outcome::Doubtful(..) => {
                if let Some(flying) = self.flying.get_mut(unit as usize) {
                    flying.instead = Some(Instead::Doubted(result, extra));
                }
                self.busy.doubt(unit, now);
                return None;
            }
            Outcome::Partial(bytes) => {
                if let Some(flying) = self.flying.get_mut(unit as usize) {
                    flying.tries = Tries::default();
                    flying.unit.offset += u64::from(bytes);
                    flying.unit.length = flying.unit.length.saturating_sub(u64::from(bytes));
                    if running.memory != Memory::Zeroes {
                        flying.unit.at = flying.unit.at.saturating_add(bytes);
                    }
                }
                self.submit(unit, ring);
                return None;
            }
            Outcome::Replan => running.replan = true,
            Outcome::Done(result, status) => {
                running.result = result;
                if !status.is_success() && flying.unit.offset < running.failed_at {
                    (running.status, running.failed_at) = (status, flying.unit.offset);
                }
            }
        }
        running.pending -= 1;
        let over = running.pending == 0;
        self.flying.try_remove(unit as usize);
        if !over {
            return None;
        }
        let running = self.running.remove(flying.job);
        let key = running.job.connection();
        if running.replan && running.status.is_success() {
            return Some((key, self.start(running.job, ring, pool)));
        }
        Some((key, Started::Ended(running.end())))
    }

    /// Submits again the units that wait for a device and are due. For an error that is classified once more, this is an
    /// entry that does nothing.
    pub(super) fn retry_busy(&mut self, now: Nanos, ring: &mut Ring) {
        while let Some(unit) = self.busy.pop_due(now) {
            self.submit(unit, ring);
        }
    }

    /// Returns the time of the next [`Self::retry_busy`]; `None`: no device was busy.
    #[must_use]
    pub(super) fn next_try(&self) -> Option<Nanos> {
        self.busy.next()
    }

    /// Returns the number of jobs that have not ended.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    fn submit(&mut self, unit: u32, ring: &mut Ring) {
        let flying = self.flying.get_mut(unit as usize);
        let known = flying.and_then(|flying| Some((self.running.get(flying.job)?, flying)));
        debug_assert!(known.is_some(), "a unit that is submitted, and its job, are known");
        let Some((running, flying)) = known else { return };
        let Some(queued) = queued(&running.job.device) else { return };
        if self.ending.contains(&running.job.connection()) {
            flying.instead = Some(Instead::Abandoned);
        }
        if flying.instead.is_some() {
            ring.complete_nothing(Tag::Unit(unit).encode());
            return;
        }
        let memory = running.place(queued, &flying.unit, ring);
        flying.registered = memory.registered.is_some();
        let entry = queued.entry(&view(&running.job), &flying.unit, memory);
        // SAFETY: the entry refers to the job's own buffers (or to the static zeroes); the job
        // stays in the table until every unit of it has completed.
        unsafe { ring.push(entry.user_data(Tag::Unit(unit).encode())) };
    }
}

/// Returns the backend of the device at which a job was started.
fn queued(device: &OpenDevice) -> Option<&dyn Queued> {
    match device.backend.style() {
        Style::Queued(queued) => Some(queued),
        Style::Immediate(_) | Style::Timed(_) => {
            debug_assert!(false, "jobs are started at queued backends");
            None
        }
    }
}

/// Returns whether a unit may have come back because of its registered buffer.
const fn refuses_registered(result: i32) -> bool {
    matches!(-result, libc::EINVAL | libc::EFAULT | libc::EOPNOTSUPP)
}

/// Returns a backend's view of a job.
fn view(job: &Job) -> backend::Job<'_> {
    let data = match job.command {
        // The kernel writes to a read's buffer meanwhile.
        IoCommand::Read { .. } => None,
        _ => job.buffer.as_deref(),
    };
    let (command, sqe, host) = (&job.command, &job.sqe, job.host());
    backend::Job { command, sqe, host, data: data.unwrap_or_default() }
}

impl Running {
    /// Returns the memory of a unit.
    fn place(&self, queued: &dyn Queued, unit: &Unit, ring: &mut Ring) -> Place {
        let buffer = match self.memory {
            Memory::Data => self.job.buffer.as_ref(),
            Memory::Scratch(_) => self.scratch.as_ref(),
            Memory::None | Memory::Zeroes => None,
        };
        let address = match (buffer, self.memory) {
            (Some(buffer), _) => buffer.address(unit.at as usize),
            // Zeroes are only written from.
            (None, Memory::Zeroes) => backend::zeroes(backend::ZEROES).as_ptr().cast_mut(),
            (None, _) => std::ptr::null_mut(),
        };
        let may = queued.registered().is_some_and(|may| may.load(Ordering::Relaxed));
        let registered = buffer.filter(|_| may).and_then(|buffer| buffer.registered(ring));
        Place { address, registered }
    }

    fn end(self) -> Ended {
        let Self { job, memory, scratch, result, mut status, .. } = self;
        let compares = matches!(job.command, IoCommand::Compare { .. });
        if compares && matches!(memory, Memory::Scratch(_)) && status.is_success() {
            let same = match (&job.buffer, &scratch) {
                (Some(theirs), Some(ours)) => theirs[..] == ours[..],
                _ => false,
            };
            if !same {
                status = Status::COMPARE_FAILURE;
            }
        }
        Ended { job, result, status }
    }
}

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
