//! Reasons for which the control plane does not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// A reason for which the control plane does not start.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The control socket cannot be made.
    #[error("cannot listen on the control socket {}: {detail}; {remedy}", path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The fault.
        detail: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// Another daemon answers on the control socket.
    #[error(
        "another sluiced is running: it answers on {}; stop it (`sluice shutdown`), or set \
         another `control` in the configuration",
        path.display()
    )]
    Running {
        /// The path of the socket.
        path: PathBuf,
    },
    /// A program that is no Sluicegate daemon listens on the control socket.
    #[error(
        "another program listens on {}, and does not answer as a sluiced does; `ss -lxp` says \
         which it is: end it, or set another `control` in the configuration",
        path.display()
    )]
    Foreign {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The metrics endpoint cannot be opened.
    #[error("cannot serve metrics: {detail}; or leave `metrics` out")]
    Metrics {
        /// The address of the endpoint.
        address: SocketAddr,
        /// The operating system's error, and the remedy.
        detail: String,
    },
    /// A group that the configuration names is not there.
    #[error("`{key} = \"{name}\"`: {why}; `getent group` lists the groups that there are")]
    Group {
        /// The key of the configuration.
        key: &'static str,
        /// The name of the group.
        name: String,
        /// The fault.
        why: String,
    },
    /// The control plane gets no thread or ring.
    #[error("cannot start the control thread: {0}")]
    Thread(String),
}
