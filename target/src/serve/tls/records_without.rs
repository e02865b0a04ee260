//! What stands in for sessions of TLS in builds without it: there are none.

use std::os::fd::OwnedFd;

use fabric::Nanos;

use super::came::Came;

/// What a connection over TLS has beside its socket; none is over TLS here.
#[derive(Debug)]
pub(crate) enum Session {}

impl Session {
    pub(crate) fn came(&mut self, _: Nanos, _: &OwnedFd, _: i32) -> Came {
        match *self {}
    }

    pub(crate) fn update_sending(&mut self, _: &OwnedFd) -> Result<(), String> {
        match *self {}
    }
}
