//! `null`: reads zeroes, forgets writes. For measuring everything but a device.

use fabric::io::IoCommand;
use fabric::nvme::Status;

use super::{Abilities, Backend, BackendError, Data, Description, Health, Immediate, Style};

/// A device without blocks.
#[derive(Debug)]
pub(super) struct Null {
    description: Description,
    health: Health,
}

impl Null {
    /// A null device of `blocks` blocks of `1 << block_shift` bytes.
    #[must_use]
    pub(super) fn new(block_shift: u8, blocks: u64) -> Self {
        let abilities = Abilities {
            deallocate: true,
            zeroes_after_deallocate: true,
            write_zeroes: true,
            verify: true,
            ..Abilities::default()
        };
        let description = Description {
            kind: "null",
            path: None,
            block_shift,
            abilities,
            identify: None,
            controller: None,
        };
        Self { description, health: Health::new(blocks) }
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
        Style::Immediate(self)
    }

    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError> {
        if let Some(blocks) = blocks {
            self.health.set_blocks(blocks);
        }
        Ok(self.health.blocks())
    }
}

impl Immediate for Null {
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        if let Data::Read(into) = data {
            into.fill(0);
        }
        match command {
            IoCommand::Compare { .. } => Status::INVALID_OPCODE.dnr(),
            _ => Status::SUCCESS,
        }
    }

    fn reads_zeroes(&self) -> bool {
        true
    }
}
