//! Tests of handshakes with a client of the same library, on a pair of sockets.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;

use super::*;
use crate::{Handshake, Progress};

/// Keys: the byte of each secret, and its hash, by identity.
#[derive(Debug)]
struct Table(HashMap<Vec<u8>, (u8, PskHash)>);

impl Keys for Table {
    fn find(&self, offered: Offered<'_>) -> Option<Psk> {
        let hello = offered.hello.expect("the first ClientHello");
        assert_eq!(hello[..2], [3, 3], "it begins with its version");
        assert!(hello[2..34].iter().any(|byte| *byte != 0), "its random bytes are there");
        self.0.get(offered.identity).map(|(byte, hash)| psk(*byte, *hash))
    }
}

fn psk(byte: u8, hash: PskHash) -> Psk {
    let length = if hash == PskHash::Sha256 { 32 } else { 48 };
    Psk { secret: vec![byte; length].into(), hash }
}

/// The client's end.
struct Client {
    connection: *mut sys::s2n_connection,
    config: *mut sys::s2n_config,
    _socket: OwnedFd,
}

impl Client {
    fn new(socket: OwnedFd, key: Option<Key<'_>>) -> Self {
        start().unwrap();
        // SAFETY: the library has been started; both objects are freed by `drop`, before the socket.
        unsafe {
            let config = sys::s2n_config_new();
            check(sys::s2n_config_set_cipher_preferences(config, POLICY.as_ptr())).unwrap();
            check(sys::s2n_config_disable_x509_verification(config)).unwrap();
            let connection = sys::s2n_connection_new(sys::s2n_mode::CLIENT);
            check(sys::s2n_connection_set_config(connection, config)).unwrap();
            let blinding = sys::s2n_blinding::SELF_SERVICE_BLINDING;
            check(sys::s2n_connection_set_blinding(connection, blinding)).unwrap();
            check(sys::s2n_connection_set_fd(connection, socket.as_raw_fd())).unwrap();
            if let Some((identity, byte, hash)) = key {
                check(append(connection, identity.as_bytes(), &psk(byte, hash))).unwrap();
            }
            Self { connection, config, _socket: socket }
        }
    }

    /// Goes on; returns whether it is done.
    fn go_on(&mut self) -> Result<bool, u8> {
        let mut blocked = 0;
        // SAFETY: the connection is valid.
        unsafe {
            if sys::s2n_negotiate(self.connection, &raw mut blocked) == 0 {
                return Ok(true);
            }
            match sys::s2n_error_get_type(*sys::s2n_errno_location()).cast_unsigned() {
                sys::s2n_error_type::BLOCKED => Ok(false),
                _ => Err(u8::try_from(sys::s2n_connection_get_alert(self.connection)).unwrap_or(0)),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: both are valid and used no more.
        unsafe {
            sys::s2n_connection_free(self.connection);
            sys::s2n_config_free(self.config);
        }
    }
}

/// A key: its identity, each byte of its secret, and its hash.
type Key<'a> = (&'a str, u8, PskHash);

const OWN: Key<'_> = ("own", 1, PskHash::Sha256);

/// Runs the handshake of a client and a server. Returns the server's result, or its error and the alert that the
/// client got.
fn shake(known: &[Key<'_>], client: Option<Key<'_>>) -> Result<Established, (TlsError, u8)> {
    let (mut server, _client) = shaken(known, client)?;
    server.connection_for_tests().established().map_err(|error| (error, 0))
}

/// Runs the handshake of a client and a server. Returns both ends, or the server's error and the alert that the
/// client got.
fn shaken(
    known: &[Key<'_>],
    client: Option<Key<'_>>,
) -> Result<(Handshake, Client), (TlsError, u8)> {
    let table = known.iter().map(|(id, byte, hash)| (id.as_bytes().to_vec(), (*byte, *hash)));
    let context = Context::new(Box::new(Table(table.collect()))).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut client = Client::new(theirs.into(), client);
    let mut server = Handshake::begin(&context, ours.into()).unwrap();
    for _ in 0..20 {
        let client_done = client.go_on();
        match server.go_on() {
            Ok(Progress::Done) => {
                assert_eq!(client_done.or_else(|_| client.go_on()), Ok(true));
                return Ok((server, client));
            }
            Ok(_) => {}
            Err(error) => {
                server.refuse(&error);
                let alert = client.go_on().unwrap_err();
                return Err((error, alert));
            }
        }
    }
    panic!("no end");
}

#[test]
fn a_peer_with_a_key_of_either_hash_is_known_by_its_identity() {
    for (hash, cipher) in
        [(PskHash::Sha256, "TLS_AES_128_GCM_SHA256"), (PskHash::Sha384, "TLS_AES_256_GCM_SHA384")]
    {
        let own = ("own", 2, hash);
        let settled = shake(&[("one", 1, PskHash::Sha256), own], Some(own)).unwrap();
        assert_eq!((settled.identity, settled.cipher), (b"own".to_vec(), cipher));
    }
}

#[test]
fn a_peer_without_a_key_with_another_or_an_unknown_one_is_refused_and_told() {
    let refused = |client| shake(&[OWN], client).unwrap_err();
    let (error, alert) = refused(None);
    assert!(matches!(error, TlsError::NoIdentity) && alert == 40, "{error}: {alert}");
    let (error, alert) = refused(Some(("other", 1, PskHash::Sha256)));
    assert!(matches!(&error, TlsError::Unknown(name) if name == "other"), "{error}");
    let (wrong, same_alert) = refused(Some(("own", 2, PskHash::Sha256)));
    assert!(matches!(&wrong, TlsError::WrongKey(name) if name == "own"), "{wrong}");
    assert_eq!([alert, same_alert], [51; 2], "so that nobody learns whose keys are here");
}

#[test]
fn a_peer_that_is_gone_when_the_kernel_would_take_over_is_told_from_a_kernel_that_does_not() {
    let shaken = || shaken(&[OWN], Some(OWN)).unwrap();
    // No kernel takes over from a pair of sockets of this machine.
    let (server, _client) = shaken();
    let error = server.finish().unwrap_err();
    assert!(matches!(error, TlsError::Kernel(_)), "{error}");
    let (server, client) = shaken();
    drop(client);
    let error = server.finish().unwrap_err();
    assert!(matches!(error, TlsError::Closed), "{error}");
}

#[test]
fn an_error_names_no_more_of_an_identity_than_names_have() {
    let long = "x".repeat(20_000);
    let (error, _) = shake(&[], Some((&long, 1, PskHash::Sha256))).unwrap_err();
    assert!(matches!(error, TlsError::Unknown(_)), "{error}");
    assert!(error.to_string().len() < 1000, "a peer fills the log");
}
