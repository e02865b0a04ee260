//! The target and the name of an association's host, and the transport between them.

use std::sync::Arc;

use arbitration::Class;
use clap::ValueEnum;
use fabric::host::authentication::Credentials;
use serde::Serialize;
use sluice_config::RDMA_BEFORE;

/// The host that the target sees, and the subsystem that it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Access {
    pub(crate) transport: Transport,
    pub(crate) address: String,
    pub(crate) nqn: String,
    pub(crate) hostnqn: String,
    /// The ToS of the connections; `None` stands for the system's default.
    pub(crate) tos: Option<u8>,
    /// What the host proves itself with.
    #[serde(skip)]
    pub(crate) credentials: Option<Arc<Credentials>>,
}

impl Access {
    /// Returns the address with its transport, as the daemon writes a listener's.
    pub(crate) fn endpoint(&self) -> String {
        self.transport.endpoint(&self.address)
    }
}

/// Writes an IP address with its port.
pub(crate) fn join_port(address: &str, port: &str) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// The way in which a host sends commands and takes answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HostStyle {
    /// Sends all due commands in one call, and needs no response capsule for a read.
    #[default]
    Batching,
    /// Sends each command in a call of its own, with submission queue flow control, as other hosts do.
    Plain,
}

/// The kind of an I/O queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueKind {
    /// The priority class in Connect.
    pub(crate) class: Option<Class>,
    pub(crate) style: HostStyle,
}

/// Transports of NVMe over Fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

impl Transport {
    /// Writes an address of this transport.
    pub(crate) fn endpoint(self, address: &str) -> String {
        match self {
            Self::Tcp => address.to_owned(),
            Self::Rdma => format!("{RDMA_BEFORE}{address}"),
        }
    }

    /// Reads an address with its transport: `None` where it names none.
    pub(crate) fn of_endpoint(text: &str) -> (Option<Self>, &str) {
        // A host may be called like a transport: HOST:PORT has no second colon.
        let named = |name: &str| text.strip_prefix(name).filter(|rest| rest.contains(':'));
        match (named("tcp:"), named(RDMA_BEFORE)) {
            (Some(address), _) => (Some(Self::Tcp), address),
            (_, Some(address)) => (Some(Self::Rdma), address),
            _ => (None, text),
        }
    }
}
