//! Records other than data on a connection over TLS: the kernel takes data out of records, and leaves others to the
//! program, by a receive that fails.

use std::os::fd::OwnedFd;
use std::time::Duration;

use fabric::Nanos;
use sluice_tls::TrafficSecrets;
use sluice_tls::record::{self, Record};

use super::came::{Came, End};
use crate::sys::line_bound::{Bucket, Rate};

/// The KeyUpdates that a peer may send at once, and the time for one more. A key of AES-GCM is good
/// for some 24 million records (RFC 8446, section 5.5): no host needs one each second.
const UPDATES: Rate = Rate { burst: 16, each: Duration::from_secs(1) };

/// The state of a connection over TLS, beside its socket.
#[derive(Debug)]
pub(crate) struct Session {
    secrets: TrafficSecrets,
    updates: Bucket,
}

impl Session {
    pub(crate) fn new(secrets: TrafficSecrets) -> Self {
        Self { secrets, updates: Bucket::default() }
    }

    /// Returns the event after a receive that failed with the error number `errno`: a new key, or why the
    /// connection is over.
    ///
    /// Beside data, only a new key of the peer is accepted. Any other record ends the connection.
    pub(crate) fn came(&mut self, now: Nanos, socket: &OwnedFd, errno: i32) -> Came {
        Came::Over(match errno {
            libc::EIO => match record::take(socket) {
                Ok(Record::KeyUpdate { requested }) => match self.update_receiving(now, socket) {
                    Ok(()) => return Came::KeyUpdate { requested },
                    Err(why) => End::Fault(why.into()),
                },
                Ok(Record::Alert(0)) => End::Closed,
                Ok(Record::Alert(alert)) => {
                    End::Fault(format!("it ended TLS with alert {alert}").into())
                }
                Ok(Record::Other(kind)) => End::Fault(
                    format!("it sent a record of TLS of type {kind}, which no host sends").into(),
                ),
                Err(_) => End::Lost,
            },
            libc::EBADMSG => End::Fault("a record of TLS was changed on its way".into()),
            libc::EMSGSIZE => End::Fault("a record of TLS has an impossible length".into()),
            libc::EINVAL => End::Fault("what came is no record of TLS".into()),
            _ => End::Lost,
        })
    }

    /// Receives with the peer's next key, unless it changes its key too often.
    fn update_receiving(&mut self, now: Nanos, socket: &OwnedFd) -> Result<(), String> {
        if !self.updates.has_one(now, UPDATES) {
            return Err("it changes its key without end".to_owned());
        }
        self.updates.take_one(now, UPDATES);
        self.secrets.update_receiving(socket).map_err(|error| {
            format!(
                "it changed its key, which the kernel does not follow before Linux 6.14: {error}"
            )
        })
    }

    /// Sends with the next key.
    pub(crate) fn update_sending(&mut self, socket: &OwnedFd) -> Result<(), String> {
        self.secrets.update_sending(socket).map_err(|error| {
            format!(
                "it wanted a new key, which the kernel does not take before Linux 6.14: {error}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn session() -> (Session, OwnedFd) {
        let (one, _other) = UnixStream::pair().unwrap();
        (Session::new(TrafficSecrets::for_tests()), one.into())
    }

    #[test]
    fn what_a_receive_fails_with_beside_a_record_ends_the_connection() {
        let (mut session, socket) = session();
        for errno in [libc::EBADMSG, libc::EMSGSIZE, libc::EINVAL] {
            let came = session.came(Nanos(1), &socket, errno);
            assert!(matches!(came, Came::Over(End::Fault(_))), "{errno}");
        }
        // The last one has no record behind it.
        for errno in [libc::ECONNRESET, libc::EIO] {
            assert_eq!(session.came(Nanos(1), &socket, errno), Came::Over(End::Lost));
        }
    }

    #[test]
    fn who_changes_its_key_without_end_is_told_from_a_kernel_that_does_not_follow() {
        let (mut session, socket) = session();
        // This socket is not over TLS: each try fails in the kernel, and is counted.
        let mut why = |now| session.update_receiving(Nanos(now), &socket).unwrap_err();
        for _ in 0..UPDATES.burst {
            let why = why(1);
            assert!(why.contains("before Linux 6.14"), "{why}");
        }
        assert_eq!(why(1), "it changes its key without end");
        let later = 1 + 1_000_000_000;
        assert!(why(later).contains("before Linux 6.14"), "one more each second");
        assert_eq!(why(later), "it changes its key without end");
    }
}
