//! A host that proves itself, or tries to.

use std::io::Result;
use std::sync::Arc;

use fabric::dhchap::proof::Names;
use fabric::dhchap::{RANDOM_BYTES, Random};
use fabric::host::authentication::{AuthError, Authentication, Credentials, MESSAGE_ROOM, Next};
use fabric::host::commands;
use fabric::nvme::Status;

use crate::{Identity, Queue};

impl Queue {
    /// Authenticates the queue. Returns how it ended for the host: an answer with an error ends it
    /// with that status.
    ///
    /// # Errors
    /// The socket fails, or the target breaks the protocol.
    pub fn authenticate(
        &mut self,
        credentials: &Credentials,
        identity: &Identity,
    ) -> Result<std::result::Result<(), Failed>> {
        let names = Names { host: &identity.host, subsystem: &identity.subsystem };
        let (mut host, first) = Authentication::begin(Arc::new(credentials.clone()), names, 1);
        let mut next = Next::Send(first);
        loop {
            let (answer, message) = match next {
                Next::Send(message) => {
                    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
                    (self.call(commands::authentication_send(length), Some(message), 0)?, false)
                }
                Next::Receive => {
                    let receive = commands::authentication_receive(MESSAGE_ROOM);
                    (self.call(receive, None, MESSAGE_ROOM)?, true)
                }
                Next::Work(work) => {
                    // A test need not be unpredictable.
                    next = host.worked(work.run(&Random::new([0x35; RANDOM_BYTES])));
                    continue;
                }
                Next::Over(end) => return Ok(end.map_err(Failed::Told)),
            };
            if !answer.status.is_success() {
                return Ok(Err(Failed::Answered(answer.status)));
            }
            next = if message { host.received(&answer.data) } else { host.sent() };
        }
    }
}

/// How an authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// A message said so, of either side.
    Told(AuthError),
    /// A command was answered with this status.
    Answered(Status),
}
