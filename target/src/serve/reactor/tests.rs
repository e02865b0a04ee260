//! Tests of a reactor without its thread: the time is the test's.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;

use fabric::controller::{KeyNames, Service, ServiceConfig};
use sluice_config::Config;
use sluice_tls::TrafficSecrets;

use super::*;
use crate::serve::tls::Session;

fn over_tls() -> Channel {
    let names =
        KeyNames { host: "nqn.h".to_owned(), subsystem: "nqn.s".to_owned(), generated: false };
    let session = Box::new(Session::new(TrafficSecrets::for_tests()));
    Channel::Tls { names, cipher: "TLS_AES_128_GCM_SHA256", session }
}

/// Lets a connection wait. Returns its peer's end.
fn comes(reactor: &mut Reactor, channel: Channel) -> UnixStream {
    let (socket, peer) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    let address = SocketAddr::from(([192, 0, 2, 1], 1000));
    let incoming = Incoming { socket: socket.into(), listener: ListenerId(1), peer: address };
    reactor.deliver(Message::Arrived { incoming, channel });
    peer
}

/// The turns in which even a busy kernel has closed a socket.
const LATE: u32 = 500;

/// Takes up to `turns` turns at a time after the start, and says whether a peer's connection is closed.
fn closed(reactor: &mut Reactor, (at, turns): (Duration, u32), mut peer: &UnixStream) -> bool {
    reactor.core.set_time(Nanos(0) + at);
    for _ in 0..turns {
        reactor.core.driver().ring.turn(Some(Duration::from_millis(20))).unwrap();
        reactor.turn().unwrap();
        match peer.read(&mut [0]) {
            Ok(0) => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => panic!("{other:?}"),
        }
    }
    false
}

#[test]
fn who_is_over_tls_waits_for_room_for_a_bounded_time() {
    let config = Config::embedded().unwrap();
    let service = Service::new(ServiceConfig::default()).unwrap();
    let shared = Arc::new(Shared::new(&config, service).unwrap());
    let mut reactor = Reactor::new(Arc::clone(&shared), 0, &[]).unwrap();
    // Others have all room.
    shared.gauges(0).unwrap().connections.store(1 << 32, Ordering::Relaxed);
    reactor.core.set_time(Nanos(0) + Duration::from_secs(5));
    let (plain, first) = (comes(&mut reactor, Channel::Plain), comes(&mut reactor, over_tls()));
    reactor.core.set_time(Nanos(0) + Duration::from_secs(9));
    let second = comes(&mut reactor, over_tls());
    assert!(!closed(&mut reactor, (Duration::from_millis(14_900), 4), &first));
    assert!(closed(&mut reactor, (Duration::from_millis(15_100), LATE), &first));
    assert_eq!(shared.events.tls_refused.load(Ordering::Relaxed), 1);
    assert!(!closed(&mut reactor, (Duration::from_millis(18_900), 4), &second));
    assert!(closed(&mut reactor, (Duration::from_millis(19_100), LATE), &second));
    let late = (Duration::from_secs(100), 4);
    assert!(!closed(&mut reactor, late, &plain), "it has no key that may go");
}
