//! Tests of the hosts that use subsystems: connected, lost, back, and forgotten.

use proptest::prelude::*;

use super::*;

pub(super) const LIMIT: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

pub(super) fn bench() -> Bench {
    Bench::with(ServiceConfig { reconnect_time: LIMIT, ..ServiceConfig::default() })
}

/// Connects a host's controller with an I/O queue. Returns the connections.
fn come(bench: &mut Bench, host: &str) -> [ConnectionId; 2] {
    let (admin, connected) = Connect::admin(OTHER).host(host).enabled(bench);
    let (io, _) = Connect::new(OTHER, 1, connected.controller.0).host(host).accepted(bench);
    [admin, io]
}

/// Ends connections, admin queue first.
pub(super) fn go(bench: &mut Bench, connections: impl IntoIterator<Item = ConnectionId>) {
    for connection in connections {
        bench.disconnect(connection);
    }
    bench.actions();
}

fn lost(bench: &Bench) -> Vec<String> {
    bench.service.lost_hosts(bench.now).into_iter().map(|lost| lost.path.host).collect()
}

/// Keeps the changes, as a store does.
pub(super) fn save(bench: &mut Bench) -> Vec<HostChange> {
    let changes = bench.service.unsaved_hosts();
    bench.service.hosts_saved(changes.clone());
    assert!(!bench.service.has_unsaved_hosts());
    changes
}

#[test]
fn unclean_host_counts_until_timeout() {
    let mut bench = bench();
    let connections = come(&mut bench, HOST);
    go(&mut bench, connections);
    bench.pass(40 * SECOND);
    let seen = &bench.service.lost_hosts(bench.now)[0];
    assert_eq!((seen.path.host.as_str(), seen.path.subsystem.as_str()), (HOST, OTHER));
    assert_eq!((seen.path.listener.as_str(), seen.restored), ("192.0.2.1:4420", false));
    let (before, left) = (bench.now.since(seen.since), seen.until.since(bench.now));
    assert_eq!((before, left), (40 * SECOND, 560 * SECOND));
    bench.pass(LIMIT - 41 * SECOND);
    bench.tick();
    assert_eq!(lost(&bench), [HOST]);
    bench.pass(SECOND);
    assert!(lost(&bench).is_empty(), "before the timer looks, too");
    bench.tick();
    assert_eq!(save(&mut bench), [], "nothing was stored in between");
}

#[test]
fn shutdown_counts_and_reset_does_not() {
    let mut bench = bench();
    // The target itself ends the controller after the shutdown: the connection did not end by then.
    let connections = come(&mut bench, HOST);
    bench.set_cc(connections[0], SHUT_DOWN);
    bench.service.remove_listener(bench.now, LISTENER).unwrap();
    go(&mut bench, connections);
    bench.service.add_listener(bench.now, listener(LISTENER, false)).unwrap();
    assert!(lost(&bench).is_empty());
    // A reset is no shutdown.
    let connections = come(&mut bench, HOST);
    bench.set_cc(connections[0], ENABLE & !1);
    go(&mut bench, connections);
    assert_eq!(lost(&bench), [HOST]);
}

#[test]
fn peer_without_use_does_not_count() {
    let mut bench = bench();
    let (admin, _) = Connect::admin(OTHER).accepted(&mut bench);
    bench.disconnect(admin);
    let discovery = bench.discovery(0, HOST);
    bench.disconnect(discovery);
    assert!(lost(&bench).is_empty() && !bench.service.has_unsaved_hosts());
}

#[test]
fn without_a_reconnect_time_nothing_is_remembered() {
    let mut bench = Bench::new();
    let connections = come(&mut bench, HOST);
    go(&mut bench, connections);
    assert!(lost(&bench).is_empty() && !bench.service.has_unsaved_hosts());
    let subsystem = OTHER.to_owned();
    let path = HostPath { subsystem, host: HOST.to_owned(), listener: "x".to_owned() };
    bench.service.restore_hosts(bench.now, vec![(path.clone(), KeptHost::default())]);
    assert!(lost(&bench).is_empty());
    assert_eq!(save(&mut bench), [(path, None)], "and what was stored is deleted");
}

#[test]
fn hosts_outlive_the_target_and_count_from_its_start() {
    let mut bench = bench();
    let (here, gone) = (come(&mut bench, HOST), come(&mut bench, STRANGER));
    let changes = save(&mut bench);
    assert_eq!(changes.len(), 2, "when they connect, not when they are lost");
    go(&mut bench, gone);
    assert_eq!(save(&mut bench), []);
    bench.set_cc(here[0], SHUT_DOWN);
    let orderly = save(&mut bench);
    assert!(orderly.len() == 1 && orderly[0].0.host == HOST && orderly[0].1.is_none());

    let mut bench = self::bench();
    bench.pass(SECOND);
    let kept = changes.into_iter().filter_map(|(path, kept)| Some((path, kept?))).collect();
    bench.service.restore_hosts(bench.now, kept);
    assert_eq!(lost(&bench), [HOST, STRANGER]);
    assert!(bench.service.lost_hosts(bench.now).iter().all(|lost| lost.restored));
    let (admin, connected) = Connect::admin(OTHER).accepted(&mut bench);
    assert_eq!(connected.without_acre, Some(1), "it had one queue, and did not set ACRE");
    bench.disconnect(admin);
    come(&mut bench, HOST);
    assert_eq!(lost(&bench), [STRANGER]);
    bench.pass(LIMIT);
    bench.tick();
    let expired = save(&mut bench);
    assert!(expired.len() == 1 && expired[0].0.host == STRANGER && expired[0].1.is_none());
}

#[test]
fn failed_store_is_retried_later() {
    let mut bench = bench();
    let connections = come(&mut bench, HOST);
    let first = bench.service.unsaved_hosts();
    assert_eq!(bench.service.unsaved_hosts(), first);
    assert!(bench.service.has_unsaved_hosts());
    // Shut down while the first write was under way: it must be deleted again.
    bench.set_cc(connections[0], SHUT_DOWN);
    bench.service.hosts_saved(first);
    let second = save(&mut bench);
    assert!(second.len() == 1 && second[0].1.is_none(), "{second:?}");
}

#[test]
fn only_returning_hosts_and_their_view_count() {
    let mut bench = bench();
    let nsid = bench.service.add_namespace(bench.now, OTHER, namespace(1)).unwrap();
    let connections = come(&mut bench, STRANGER);
    go(&mut bench, connections);
    let one = bench.service.lost_hosts(bench.now).remove(0);
    assert!(bench.service.lost_host_sees(&one, nsid));
    assert!(!bench.service.lost_host_sees(&one, nsid + 1));
    let listed = |rights| AllowedHost { rights, ..STRANGER.into() };
    let some = HostRights { namespaces: Some([nsid + 1].into()), ..HostRights::default() };
    let reader = HostRights { read_only: true, ..HostRights::default() };
    for (any, hosts, hurt) in [
        (true, vec![], false),
        (false, vec![], true),
        (false, vec![listed(HostRights::default())], false),
        (true, vec![listed(some.clone())], true),
        (true, vec![listed(reader)], true),
    ] {
        assert_eq!(bench.service.lost_host_hurt_by(&one, any, &hosts), hurt, "{any} {hosts:?}");
    }
    bench.service.add_host(bench.now, OTHER, listed(some)).unwrap();
    assert!(!bench.service.lost_host_sees(&one, nsid), "by its rights");
    bench.service.remove_host(bench.now, OTHER, STRANGER).unwrap();
    bench.service.set_allow_any_host(bench.now, OTHER, false).unwrap();
    assert!(lost(&bench).is_empty(), "it may not come back");
    bench.service.set_allow_any_host(bench.now, OTHER, true).unwrap();
    assert_eq!(lost(&bench), [STRANGER]);
    bench.service.remove_subsystem(bench.now, OTHER).unwrap();
    assert!(lost(&bench).is_empty(), "there is nothing to come back to");
}

#[test]
fn oldest_lost_host_of_subsystem_is_evicted() {
    let mut bench = bench();
    let (admin, connected) = bench.admin_queue(0);
    bench.io_queue(1, connected.controller.0);
    bench.disconnect(admin);
    for number in 0..=LOST_HOSTS_MAX {
        bench.pass(Duration::from_millis(1));
        let connections = come(&mut bench, &format!("{STRANGER}{number:05}"));
        go(&mut bench, connections);
    }
    let all = bench.service.lost_hosts(bench.now);
    assert_eq!(all.iter().filter(|lost| lost.path.subsystem == SUBSYSTEM).count(), 1);
    assert_eq!(all.len(), LOST_HOSTS_MAX + 1);
    let named = |number: usize| all.iter().any(|h| h.path.host == format!("{STRANGER}{number:05}"));
    assert!(!named(0) && named(1) && named(LOST_HOSTS_MAX));
}

/// A controller of the model.
struct Modelled {
    connections: [ConnectionId; 2],
    /// The steps in which it came, and in which something was last heard of it.
    came: usize,
    heard: usize,
    /// Whether it came while another one of its host was absent.
    is_successor: bool,
}

/// A host of the model.
#[derive(Default)]
struct ModelledHost {
    present: Vec<Modelled>,
    /// Of controllers that ended without a shutdown: when, and the step in which they were last heard.
    absent: Vec<(Nanos, usize)>,
    /// The steps in which controllers came that were shut down and may have succeeded a present one.
    shut_down: Vec<usize>,
}

impl ModelledHost {
    /// The step of an unknown number of absent controllers: no connected controller has succeeded them.
    const UNKNOWN: usize = usize::MAX;

    fn come(&mut self, connections: [ConnectionId; 2], step: usize) {
        let is_successor = !self.absent.is_empty();
        if self.absent.first().is_some_and(|(_, heard)| *heard != Self::UNKNOWN) {
            self.absent.remove(0);
        }
        self.present.push(Modelled { connections, came: step, heard: step, is_successor });
    }

    fn end(&mut self, at: usize, in_order: bool, now: Nanos) {
        let ended = self.present.remove(at);
        if in_order {
            let predecessor = self.absent.iter().position(|(_, heard)| *heard < ended.came);
            match predecessor {
                _ if ended.is_successor => {}
                Some(at) => drop(self.absent.remove(at)),
                None => self.shut_down.push(ended.came),
            }
            self.shut_down.sort_unstable();
            let surplus = self.shut_down.len().saturating_sub(self.present.len());
            self.shut_down.drain(..surplus);
            return;
        }
        match self.shut_down.iter().position(|came| *came > ended.heard) {
            Some(at) => drop(self.shut_down.remove(at)),
            None => self.absent.push((now, ended.heard)),
        }
        if self.absent.len() > KEPT_CONTROLLERS_MAX {
            self.absent = vec![(now, Self::UNKNOWN)];
        }
    }
}

proptest! {
    /// A host counts exactly while it is connected, and for the time after the last end of a controller without a
    /// shutdown of itself or of a successor. The stored hosts are exactly the hosts that count.
    #[test]
    fn a_host_counts_as_a_model_says(
        steps in prop::collection::vec((0usize..3, 0u8..5, any::<bool>(), 0u64..400), 1..60)
    ) {
        let mut bench = bench();
        let mut all: [ModelledHost; 3] = Default::default();
        let mut stored = std::collections::BTreeSet::new();
        let names = [0, 1, 2].map(|number| format!("{STRANGER}{number}"));
        for (number, (host, step, is_first, pause)) in steps.into_iter().enumerate() {
            bench.pass(Duration::from_secs(pause));
            bench.tick();
            for host in &mut all {
                host.absent.retain(|(since, _)| bench.now.since(*since) < LIMIT);
            }
            let model = &mut all[host];
            let at = if is_first { 0 } else { model.present.len().saturating_sub(1) };
            match step {
                0 | 1 => {
                    let connections = come(&mut bench, &names[host]);
                    model.come(connections, number);
                }
                _ if model.present.is_empty() => {}
                2 => {
                    model.present[at].heard = number;
                    bench.ok(model.present[at].connections[0], &identify(1, 0));
                }
                step => {
                    let connections = model.present[at].connections;
                    if step == 3 {
                        bench.set_cc(connections[0], SHUT_DOWN);
                    }
                    model.end(at, step == 3, bench.now);
                    go(&mut bench, connections);
                }
            }
            let named = || names.iter().cloned().zip(&all);
            let lost_since = |(name, host): (String, &ModelledHost)| {
                let since = host.absent.iter().map(|(since, _)| *since).max();
                Some((name, since.filter(|_| host.present.is_empty())?))
            };
            let told = bench.service.lost_hosts(bench.now);
            let told = told.into_iter().map(|lost| (lost.path.host, lost.since));
            prop_assert!(told.eq(named().filter_map(lost_since)), "{:?}", lost(&bench));
            let is_user = |host: &ModelledHost| !host.present.is_empty() || !host.absent.is_empty();
            let users = named().filter_map(|(name, host)| is_user(host).then_some(name));
            let users: std::collections::BTreeSet<String> = users.collect();
            for (path, kept) in save(&mut bench) {
                match kept {
                    // It is stored again where it has another number of controllers.
                    Some(_) => drop(stored.insert(path.host)),
                    None => assert!(stored.remove(&path.host)),
                }
            }
            prop_assert_eq!(&stored, &users);
        }
    }
}

/// Connects a host's controller with two I/O queues. Returns the connections, whether the host may resend
/// commands on each I/O queue, and the answer to the admin queue's Connect.
fn reconnect(bench: &mut Bench, host: &str) -> (Vec<ConnectionId>, Vec<bool>, Connected) {
    let (admin, connected) = Connect::admin(OTHER).host(host).enabled(bench);
    bench.ok(admin, &set_feature(7, 0x0001_0001));
    bench.ok(admin, &identify(1, 0));
    let (mut connections, mut resends) = (vec![admin], Vec::new());
    for qid in [1, 2] {
        let (io, queue) = Connect::new(OTHER, qid, connected.controller.0).host(host).send(bench);
        connections.push(io);
        resends.push(queue.unwrap().resends);
    }
    (connections, resends, connected)
}

#[test]
fn d1_commands_are_resent_until_identify() {
    let mut bench = bench();
    let (first, resends, at) = reconnect(&mut bench, HOST);
    assert_eq!((resends, at.shared.resends_since()), (vec![false; 2], None), "nothing was lost");
    go(&mut bench, first);

    bench.pass(40 * SECOND);
    let (second, resends, at) = reconnect(&mut bench, HOST);
    assert_eq!((resends, at.shared.resends_since()), (vec![true; 2], Some(bench.now)));
    let (_, resends, other) = reconnect(&mut bench, STRANGER);
    assert_eq!((resends, other.shared.resends_since()), (vec![false; 2], None), "another host");
    // A queue that connects a second time has nothing to resend.
    bench.disconnect(second[2]);
    bench.actions();
    let (io, queue) = Connect::new(OTHER, 2, at.controller.0).host(HOST).send(&mut bench);
    assert!(!queue.unwrap().resends);
    bench.ok(second[0], &identify(1, 0));
    assert_eq!(at.shared.resends_since(), None, "it has identified");
    bench.set_cc(second[0], SHUT_DOWN);
    go(&mut bench, [second[0], second[1], io]);

    let (third, resends, _) = reconnect(&mut bench, HOST);
    assert_eq!(resends, [false; 2], "it was shut down");
    go(&mut bench, third);
    bench.pass(LIMIT + SECOND);
    bench.tick();
    let (_, resends, _) = reconnect(&mut bench, HOST);
    assert_eq!(resends, [false; 2], "it has given up since");
}
