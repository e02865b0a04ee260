//! The authentication of an association's admin queue.

use units::Nanos;

use super::association::{Action, Association, Settings, Step};
use super::authentication::{MESSAGE_ROOM, Next};
use super::commands;
use super::facts::{HostError, demanded};
use crate::dhchap::WorkResult;
use crate::dhchap::proof::Names;

impl Association {
    /// Authenticates the admin queue, if the result of Connect demands it.
    pub(super) fn authenticate(&mut self, now: Nanos, result: u64) {
        let Settings { host, subsystem, credentials, .. } = &self.settings;
        match demanded(result, credentials.as_ref(), Names { host, subsystem }, 0) {
            Ok(None) => self.ask_for_capabilities(now),
            Ok(Some((authentication, message))) => {
                self.authentication = Some(authentication);
                self.follow(now, Next::Send(message));
            }
            Err(why) => self.fail(HostError::NotAuthenticated { qid: 0, why }),
        }
    }

    /// Carries out the next step of an authentication.
    fn follow(&mut self, now: Nanos, next: Next) {
        match next {
            Next::Send(message) => {
                let length = u32::try_from(message.len()).unwrap_or(0);
                let sqe = commands::authentication_send(length);
                self.enter(now, Step::Authenticate, sqe, Some(message), 0);
            }
            Next::Receive => {
                let sqe = commands::authentication_receive(MESSAGE_ROOM);
                self.enter(now, Step::Authenticate, sqe, None, MESSAGE_ROOM);
            }
            Next::Work(work) => self.actions.push_back(Action::Work(work)),
            Next::Over(Ok(())) => {
                self.authentication = None;
                self.ask_for_capabilities(now);
            }
            Next::Over(Err(why)) => self.fail(HostError::NotAuthenticated { qid: 0, why }),
        }
    }

    /// Handles the result of [`Action::Work`].
    pub fn worked(&mut self, now: Nanos, worked: WorkResult) {
        if self.step != Step::Authenticate {
            return;
        }
        if let Some(authentication) = &mut self.authentication {
            let next = authentication.worked(worked);
            self.follow(now, next);
        }
    }

    /// Handles the answer to a command of the authentication; the answer to a sent message has no
    /// data.
    pub(super) fn authentication_answered(&mut self, now: Nanos, data: &[u8]) {
        let Some(authentication) = &mut self.authentication else { return };
        let next = match data.is_empty() {
            true => authentication.sent(),
            false => authentication.received(data),
        };
        self.follow(now, next);
    }
}
