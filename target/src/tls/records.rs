//! The end of a connection over TLS whose receive has failed: the kernel takes data out of records, and
//! leaves others to the program.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

#[cfg(feature = "tls")]
use sluice_tls::record::{self, Record};

/// Why a connection over TLS is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer has closed it (close_notify).
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "no record says so"))]
    Closed,
    /// The peer has done what no host does, in words.
    Fault(Cow<'static, str>),
    /// The socket has failed.
    Lost,
}

/// Says why a connection over TLS is over, of which a receive has failed with the error number `errno`.
///
/// No record but data is taken: the keys of a connection are not changed in the middle of it, and
/// whoever sends another record has lost its connection, however many it sends.
pub(crate) fn why_over(socket: &OwnedFd, errno: i32) -> End {
    match errno {
        libc::EIO => of_record(socket),
        libc::EBADMSG => End::Fault("a record of TLS was changed on its way".into()),
        libc::EMSGSIZE => End::Fault("a record of TLS has an impossible length".into()),
        libc::EINVAL => End::Fault("what came is no record of TLS".into()),
        _ => End::Lost,
    }
}

/// Takes the record that is not data, and says how it ends the connection.
#[cfg(feature = "tls")]
fn of_record(socket: &OwnedFd) -> End {
    match record::take(socket) {
        Ok(Record::Alert(0)) => End::Closed,
        Ok(Record::Alert(alert)) => End::Fault(format!("it ended TLS with alert {alert}").into()),
        Ok(Record::KeyUpdate) => End::Fault(
            "it changed its key in the middle of the connection, which is not supported".into(),
        ),
        Ok(Record::Other(kind)) => End::Fault(
            format!("it sent a record of TLS of type {kind}, which no host sends").into(),
        ),
        Err(_) => End::Lost,
    }
}

/// Says how a record that is not data ends a connection; none is over TLS here.
#[cfg(not(feature = "tls"))]
fn of_record(_: &OwnedFd) -> End {
    End::Lost
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn whatever_a_receive_fails_with_ends_the_connection() {
        let (one, _other) = UnixStream::pair().unwrap();
        let socket: OwnedFd = one.into();
        for errno in [libc::EBADMSG, libc::EMSGSIZE, libc::EINVAL] {
            assert!(matches!(why_over(&socket, errno), End::Fault(_)), "{errno}");
        }
        // The last one has no record behind it.
        for errno in [libc::ECONNRESET, libc::EIO] {
            assert_eq!(why_over(&socket, errno), End::Lost);
        }
    }
}
