//! Tests of connections over TLS: whose key lets whom in, and what discovery tells.

use super::*;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.add_tls_listeners();
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
        bench.secure_next(host, subsystem, false);
    }
    bench.admit(&Connect { listener, ..Connect::admin(subsystem).host(host) }).err()
}

#[test]
fn key_admits_its_host_to_its_subsystem_only() {
    let mut bench = bench();
    for listener in [TLS_ALLOWED, TLS_REQUIRED, LISTENER] {
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
fn keyed_hosts_are_refused_without_tls() {
    let mut bench = bench();
    bench.service.set_tls_key(HOST, true);
    let no = Some(Refusal::NoTls);
    for (listener, host, subsystem, answer) in [
        (LISTENER, HOST, OTHER, None),
        (TLS_ALLOWED, STRANGER, OTHER, None),
        (TLS_ALLOWED, HOST, OTHER, no),
        (TLS_ALLOWED, HOST, DISCOVERY_NQN, None),
        (TLS_REQUIRED, STRANGER, OTHER, no),
        (TLS_REQUIRED, STRANGER, DISCOVERY_NQN, no),
    ] {
        let refused = connect(&mut bench, listener, None, (host, subsystem));
        assert_eq!(refused, answer, "{listener:?} {host} {subsystem}");
    }
    bench.service.set_tls_key(HOST, false);
    assert_eq!(connect(&mut bench, TLS_ALLOWED, None, (HOST, OTHER)), None);
}

#[test]
fn an_ended_connection_leaves_its_key_to_none() {
    let mut bench = bench();
    bench.secure_next(STRANGER, OTHER, false);
    bench.disconnect(ConnectionId(bench.connections + 1));
    assert_eq!(connect(&mut bench, TLS_ALLOWED, None, (HOST, OTHER)), None);
}

#[test]
fn discovery_reports_tls_requirement_per_host() {
    let mut bench = bench();
    bench.service.set_tls_key(HOST, true);
    let seen = |bench: &mut Bench, host| -> Vec<(u16, u8, u8)> {
        let admin = bench.discovery(0, host);
        let (_, entries) = discovery::read(bench, admin, 4096);
        let of_other = entries.iter().filter(|entry| discovery::text(&entry.subnqn) == OTHER);
        of_other.map(|entry| (entry.portid.get(), entry.treq & 3, entry.tsas[0])).collect()
    };
    let (plain, allowed, required) = (1, 11, 12);
    assert_eq!(seen(&mut bench, HOST), [(plain, 0, 0), (allowed, 1, 2), (required, 1, 2)]);
    assert_eq!(seen(&mut bench, STRANGER), [(plain, 0, 0), (allowed, 0, 2), (required, 1, 2)]);
}
