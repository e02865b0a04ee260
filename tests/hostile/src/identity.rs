//! The names by which a host connects.

use fabric::host::commands;

/// A host and the subsystem that it connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// NQN of the subsystem.
    pub subsystem: String,
    /// NQN of the host.
    pub host: String,
    /// Host Identifier (HOSTID).
    pub host_id: [u8; 16],
}

impl Identity {
    /// Returns the `n`-th host of a subsystem.
    #[must_use]
    pub fn numbered(subsystem: &str, n: u32) -> Self {
        let mut host_id = [1; 16];
        for (to, from) in host_id.iter_mut().zip(n.to_le_bytes()) {
            *to = from;
        }
        let host = format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-{n:012x}");
        Self { subsystem: subsystem.to_owned(), host, host_id }
    }

    /// Returns the same host, for the discovery subsystem.
    #[must_use]
    pub fn discovery(n: u32) -> Self {
        Self::numbered(fabric::fabrics::DISCOVERY_NQN, n)
    }

    /// Returns the data of Connect for a queue of controller `cntlid`, 0xffff for a new one.
    #[must_use]
    pub fn connect_data(&self, cntlid: u16) -> Vec<u8> {
        commands::connect_data(self.host_id, cntlid, &self.subsystem, &self.host)
    }
}
