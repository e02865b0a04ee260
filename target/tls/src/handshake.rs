//! One handshake.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::outcome::{Established, TlsError};
use crate::s2n::{Connection, Context, Step};

/// The event that a handshake waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The peer's bytes.
    Read,
    /// Room in the socket.
    Write,
    /// Nothing: it is done.
    Done,
}

/// A handshake under way on a socket that does not block.
#[derive(Debug)]
pub struct Handshake {
    // Before the socket, which it uses.
    connection: Connection,
    socket: OwnedFd,
}

impl Handshake {
    /// Begins a handshake on a socket that does not block.
    ///
    /// # Errors
    /// There is no memory.
    pub fn begin(context: &Context, socket: OwnedFd) -> Result<Self, TlsError> {
        let connection = Connection::new(context, &socket)?;
        Ok(Self { connection, socket })
    }

    #[cfg(test)]
    pub(crate) fn connection_for_tests(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns the socket.
    #[must_use]
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Continues as far as possible without waiting.
    ///
    /// # Errors
    /// The handshake has failed: [`Self::refuse`] tells the peer.
    pub fn go_on(&mut self) -> Result<Progress, TlsError> {
        match self.connection.negotiate()? {
            Step::Blocked { on_write: true } => Ok(Progress::Write),
            Step::Blocked { on_write: false } => Ok(Progress::Read),
            Step::Done => Ok(Progress::Done),
        }
    }

    /// Transfers the records of a handshake that is done to the kernel. Returns the socket, which carries plain
    /// bytes from now on.
    ///
    /// # Errors
    /// The kernel does not take over, no key was used, or the peer is gone.
    pub fn finish(mut self) -> Result<(OwnedFd, Established), TlsError> {
        let established = self.connection.established()?;
        // The kernel takes over no connection that its peer has closed, and does not say why.
        let gone = |error| if hung_up(&self.socket) { TlsError::Closed } else { error };
        self.connection.hand_over().map_err(gone)?;
        drop(self.connection);
        Ok((self.socket, established))
    }

    /// Notifies the peer that the handshake has failed, if it is early enough for an alert in the clear, and closes
    /// the connection. An unknown identity and a wrong key get the same alert, which reveals no identity.
    pub fn refuse(self, error: &TlsError) {
        const HANDSHAKE_FAILURE: u8 = 40;
        const DECRYPT_ERROR: u8 = 51;
        let alert = match error {
            TlsError::Closed | TlsError::Alert(_) => return,
            TlsError::Unknown(_) | TlsError::WrongKey(_) => DECRYPT_ERROR,
            _ => HANDSHAKE_FAILURE,
        };
        if self.connection.has_sent_nothing() {
            // The peer may be gone.
            let _: io::Result<()> = crate::record::alert_in_the_clear(&self.socket, alert);
        }
    }
}

/// Returns whether the peer has closed the connection, or its sending direction.
fn hung_up(socket: &OwnedFd) -> bool {
    let end = PollFlags::from_bits_retain(libc::POLLRDHUP);
    let found = poll(&mut [PollFd::new(socket.as_fd(), end)], PollTimeout::ZERO);
    matches!(found, Ok(1..))
}
