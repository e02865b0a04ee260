//! Why the control plane does not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// The control plane does not start.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The control socket cannot be made.
    #[error("cannot listen on the control socket {}: {detail}; {remedy}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        detail: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// Another daemon answers on the control socket.
    #[error(
        "another sluiced is running: it answers on {}; stop it (`sluice shutdown`), or set \
         another `control` in the configuration",
        path.display()
    )]
    Running {
        /// The socket's path.
        path: PathBuf,
    },
    /// A program that is no daemon of ours listens on the control socket.
    #[error(
        "another program listens on {}, and does not answer as a sluiced does; `ss -lxp` says \
         which it is: end it, or set another `control` in the configuration",
        path.display()
    )]
    Foreign {
        /// The socket's path.
        path: PathBuf,
    },
    /// The metrics endpoint cannot be opened.
    #[error("cannot serve metrics: {detail}; or leave `metrics` out")]
    Metrics {
        /// Its address.
        address: SocketAddr,
        /// What the operating system says, and what to do.
        detail: String,
    },
    /// There is no thread or ring for it.
    #[error("cannot start the control thread: {0}")]
    Thread(String),
}
