//! Tests of connections over TLS: whose key lets whom in, and what discovery tells.

use super::*;

/// The listener on which hosts may choose, and the one on which they may not.
const ALLOWED: ListenerId = ListenerId(11);
const REQUIRED: ListenerId = ListenerId(12);

fn bench() -> Bench {
    let mut bench = Bench::new();
    for (id, secure_channel) in
        [(ALLOWED, SecureChannel::Allowed), (REQUIRED, SecureChannel::Required)]
    {
        let spec = ListenerSpec { secure_channel, ..listener(id, false) };
        bench.service.add_listener(bench.now, spec).unwrap();
    }
    bench
}

/// Connects through a listener, by a key for the names where there are some.
fn connect(
    bench: &mut Bench,
    listener: ListenerId,
    key: Option<(&str, &str)>,
    (host, subsystem): (&str, &str),
) -> Option<Refusal> {
    if let Some((host, subsystem)) = key {
        let (host, subsystem) = (host.to_owned(), subsystem.to_owned());
        let names = KeyNames { host, subsystem, generated: false };
        bench.service.secured(ConnectionId(bench.connections + 1), names);
    }
    let mut connect = Connect::new(subsystem, 0, 0xffff).host(host);
    connect.listener = listener;
    let (_, answer) = connect.send(bench);
    let rejected = answer.err()?;
    assert_eq!(status_code(rejected.status), status_code(Status::CONNECT_INVALID_HOST));
    assert!(rejected.status.is_dnr());
    Some(rejected.reason)
}

#[test]
fn a_key_lets_its_host_into_its_subsystem_and_nothing_else() {
    let mut bench = bench();
    for listener in [ALLOWED, REQUIRED, LISTENER] {
        let own = Some((HOST, OTHER));
        assert_eq!(connect(&mut bench, listener, own, (HOST, OTHER)), None);
        let other = connect(&mut bench, listener, own, (STRANGER, OTHER));
        assert_eq!(other, Some(Refusal::OtherTlsHost));
        for subsystem in [SUBSYSTEM, DISCOVERY_NQN] {
            let other = connect(&mut bench, listener, own, (HOST, subsystem));
            assert_eq!(other, Some(Refusal::OtherTlsSubsystem));
        }
    }
}

#[test]
fn without_tls_only_hosts_without_a_key_get_in_and_only_where_they_may() {
    let mut bench = bench();
    bench.service.set_tls_key(HOST, true);
    let no = Some(Refusal::NoTls);
    for (listener, host, subsystem, answer) in [
        (LISTENER, HOST, OTHER, None),
        (ALLOWED, STRANGER, OTHER, None),
        (ALLOWED, HOST, OTHER, no),
        (ALLOWED, HOST, DISCOVERY_NQN, None),
        (REQUIRED, STRANGER, OTHER, no),
        (REQUIRED, STRANGER, DISCOVERY_NQN, no),
    ] {
        let refused = connect(&mut bench, listener, None, (host, subsystem));
        assert_eq!(refused, answer, "{listener:?} {host} {subsystem}");
    }
    bench.service.set_tls_key(HOST, false);
    assert_eq!(connect(&mut bench, ALLOWED, None, (HOST, OTHER)), None);
}

#[test]
fn an_ended_connection_leaves_its_key_to_none() {
    let mut bench = bench();
    let (host, subsystem) = (STRANGER.to_owned(), OTHER.to_owned());
    let names = KeyNames { host, subsystem, generated: false };
    let next = ConnectionId(bench.connections + 1);
    bench.service.secured(next, names);
    bench.service.disconnected(bench.now, next);
    assert_eq!(connect(&mut bench, ALLOWED, None, (HOST, OTHER)), None);
}

#[test]
fn discovery_tells_each_host_whether_it_has_to_use_tls() {
    let mut bench = bench();
    bench.service.set_tls_key(HOST, true);
    let seen = |bench: &mut Bench, host| -> Vec<(u16, u8, u8)> {
        let admin = bench.discovery(0, host);
        let (_, entries) = super::discovery::read(bench, admin, 4096);
        let of_other =
            entries.iter().filter(|entry| super::discovery::text(&entry.subnqn) == OTHER);
        of_other.map(|entry| (entry.portid.get(), entry.treq & 3, entry.tsas[0])).collect()
    };
    let (plain, allowed, required) = (1, 11, 12);
    let with = seen(&mut bench, HOST);
    assert_eq!(with, [(plain, 0, 0), (allowed, 1, 2), (required, 1, 2)]);
    let without = seen(&mut bench, STRANGER);
    assert_eq!(without, [(plain, 0, 0), (allowed, 0, 2), (required, 1, 2)]);
}
