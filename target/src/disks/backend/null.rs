//! `null`: reads zeroes and forgets writes, to measure everything but a device. With a service time
//! it models a device, to try out quality of service.

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::Nanos;
use fabric::nvm::{BlockFormat, IoCommand, Transfer};
use fabric::nvme::Status;
use sluice_config::DeviceModel;
use sluice_core::device::{Data, Immediate, Timed};

use super::{Abilities, Answer, Backend, BackendError, Description, DeviceError, Health, Style};

/// A device without blocks.
#[derive(Debug)]
pub(super) struct Null {
    description: Description,
    health: Health,
    model: Option<Model>,
}

/// The model of a device with a service time.
#[derive(Debug)]
struct Model {
    of: DeviceModel,
    /// The time at which each channel is free again, in ns.
    channels: Box<[AtomicU64]>,
    /// The number of commands so far, from which their service times are spread.
    count: AtomicU64,
    /// The number of commands so far, from which errors are chosen.
    tried: AtomicU64,
}

impl Model {
    /// Returns how long a command takes, in ns: the service time, give or take an eighth. Without
    /// the difference all channels would be free at the same moment, as in no drive.
    fn time(&self, bytes: u64) -> u64 {
        let fixed = u64::try_from(self.of.service_time.as_nanos()).unwrap_or(u64::MAX);
        // Multiplied by the golden ratio, successive numbers are spread evenly.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let spread = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let fixed = fixed - fixed / 8 + fixed / 1024 * spread;
        let moving = self.of.bandwidth.map_or(0, |rate| {
            let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            u64::try_from(ns).unwrap_or(u64::MAX)
        });
        fixed.saturating_add(moving)
    }

    /// Returns whether the next command fails. Of any hundred in a row, `errors` fail.
    fn fails(&self) -> bool {
        let Some(percent) = self.of.errors else { return false };
        let before = self.tried.fetch_add(1, Ordering::Relaxed) % 100;
        let failed = |commands: u64| commands * u64::from(percent) / 100;
        failed(before + 1) > failed(before)
    }

    /// Takes the channel that is free first. Returns the time at which the command is complete, in
    /// ns.
    fn occupy(&self, now: u64, bytes: u64) -> u64 {
        let time = self.time(bytes);
        loop {
            let free = |channel: &&AtomicU64| channel.load(Ordering::Relaxed);
            debug_assert!(!self.channels.is_empty(), "a device has a channel");
            let Some(channel) = self.channels.iter().min_by_key(free) else { return now };
            let seen = channel.load(Ordering::Relaxed);
            let done = seen.max(now).saturating_add(time);
            if channel.compare_exchange(seen, done, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return done;
            }
        }
    }
}

impl Null {
    /// Makes a null device of `blocks` blocks of a format; `model` gives it service times.
    #[must_use]
    pub(super) fn new(format: BlockFormat, blocks: u64, model: Option<DeviceModel>) -> Self {
        let abilities = Abilities {
            deallocate: true,
            zeroes_after_deallocate: true,
            write_zeroes_deallocates: true,
            write_zeroes: true,
            verify: true,
            ..Abilities::default()
        };
        let description = Description::new("null", format, abilities);
        let model = model.map(|of| Model {
            of,
            channels: (0..of.channels.max(1)).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU64::new(0),
            tried: AtomicU64::new(0),
        });
        Self { description, health: Health::new(blocks), model }
    }
}

impl Null {
    /// Returns the status of a device whose medium has a flaw.
    #[cold]
    fn failure(&self, command: &IoCommand) -> Status {
        let (lba, status) = match command {
            IoCommand::Read { range, .. } | IoCommand::Verify { range } => {
                (range.lba, Status::UNRECOVERED_READ_ERROR)
            }
            IoCommand::Write { range, .. } | IoCommand::WriteZeroes { range, .. } => {
                (range.lba, Status::WRITE_FAULT)
            }
            _ => (0, Status::WRITE_FAULT),
        };
        self.health.note(DeviceError::new(command, lba, Answer::Status(status)));
        status
    }
}

impl Backend for Null {
    fn description(&self) -> &Description {
        &self.description
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn style(&self) -> Style<'_> {
        if self.model.is_some() { Style::Timed(self) } else { Style::Immediate(self) }
    }

    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError> {
        if let Some(blocks) = blocks {
            self.health.set_blocks(blocks);
        }
        Ok(self.health.blocks())
    }
}

impl Timed for Null {
    fn done_at(&self, now: Nanos, command: &IoCommand) -> Nanos {
        let bytes = match command.transfer(self.description.format) {
            Transfer::None => 0,
            Transfer::ToController(bytes) | Transfer::ToHost(bytes) => u64::from(bytes),
        };
        self.model.as_ref().map_or(now, |model| Nanos(model.occupy(now.0, bytes)))
    }
}

impl Immediate for Null {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        if let Data::Read(into) = data {
            into.fill(0);
        }
        match command {
            IoCommand::Compare { .. } => Status::INVALID_OPCODE.dnr(),
            _ if self.model.as_ref().is_some_and(Model::fails) => self.failure(command),
            _ => Status::SUCCESS,
        }
    }

    fn reads_zeroes(&self) -> bool {
        true
    }
}
