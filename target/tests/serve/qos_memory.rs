//! Memory, windows and queues together: nobody starves, and nobody waits for a tenant that
//! is slow by its own limits.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use arbitration::limit::{Rate, Rates};
use arbitration::settings::WindowRule;
use sluice_config::{
    Backend, DeviceModel, DeviceQos, Limits, Namespace, QosConfig, Session, TargetConfig,
};
use sluiced::serve::engine::Engine;

use crate::client::{NQN, Queue, connected};
use crate::{Running, buffers_in_use, end, eventually, in_flight, memory, serve, settings};

pub(crate) fn session(name: &str) -> Session {
    Session { name: name.to_owned(), ..Session::default() }
}

pub(crate) fn of_namespace(nsid: u32) -> Session {
    session(&format!("{NQN}/{nsid}"))
}

/// Limits commands per second.
pub(crate) fn iops(rate: u64) -> Limits {
    let total = Rates { iops: Rate::per_second(rate), bandwidth: None };
    Limits { total, ..Limits::default() }
}

pub(crate) fn limited(nsid: u32, limits: Limits) -> QosConfig {
    with_sessions(vec![Session { limits, ..of_namespace(nsid) }])
}

pub(crate) fn with_sessions(sessions: Vec<Session>) -> QosConfig {
    QosConfig { sessions, ..QosConfig::default() }
}

pub(crate) fn slow_device(service_time: Duration) -> Namespace {
    let model = Some(DeviceModel { service_time, bandwidth: None, channels: 1, errors: None });
    Namespace::new(Backend::Null { size: 64 << 20, block_size: 4096, model })
}

pub(crate) fn with_window(namespace: Namespace, window: u32) -> Namespace {
    let device = DeviceQos { window: Some(WindowRule::Fixed(window)), ..DeviceQos::default() };
    Namespace { device, ..namespace }
}

pub(crate) fn start(
    namespaces: Vec<Namespace>,
    reactors: usize,
    qos: QosConfig,
) -> (Running, SocketAddr) {
    serve(TargetConfig { cores: vec![0; reactors], ..settings() }, qos, namespaces)
}

/// Returns settings with which a tenant's first command goes at once, and its second one only when the bytes of
/// the first are paid for: after half a minute, for 4 KiB.
fn slow_tenant() -> QosConfig {
    let total = Rates { iops: None, bandwidth: Rate::per_second(128) };
    limited(1, Limits { total, ..Limits::default() })
}

/// Small writes of a tenant with a limit lie in the buffers for in-capsule data while they wait.
/// One tenant does not get all of those buffers: else nobody else would be read from.
#[test]
fn a_limited_tenant_does_not_take_the_buffers_for_in_capsule_data() {
    let (runtime, address) = start(vec![memory(), memory()], 1, slow_tenant());
    let (_admin, [mut limited, mut free]) = connected(address);
    for lba in 0..50 {
        limited.submit_write(1, lba * 2, 2);
    }
    eventually("the limited writes wait", || in_flight(&runtime) > 4);
    free.read(2, 0, 1);
    assert!(in_flight(&runtime) > 0, "the read waited until all limited writes were done");
}

/// Large writes of a tenant with a limit lie in I/O buffers while they wait.
#[test]
fn a_limited_tenant_does_not_take_all_buffers() {
    let (runtime, address) = start(vec![memory(), memory()], 1, slow_tenant());
    let (_admin, id) = Queue::controller(address);
    let host = std::thread::spawn(move || {
        let (mut limited, _) = Queue::connect(address, 1, id);
        let writes: Vec<u16> = (0..12).map(|i| limited.submit_write(1, i * 64, 64)).collect();
        // Sends the data that the target asks for, until the target ends.
        for cid in writes {
            limited.wait(cid);
        }
    });
    let (mut free, _) = Queue::connect(address, 2, id);
    eventually("the limited writes wait", || in_flight(&runtime) > 4);
    eventually("they hold memory", || buffers_in_use(&runtime) > 256 << 10);
    free.read(2, 0, 64);
    assert!(in_flight(&runtime) > 0, "the read waited until all limited writes were done");
    end(&runtime);
    assert!(host.join().is_err(), "the target answered all limited writes");
}

/// Reads have a place in the window and wait for buffers; writes have the buffers and wait for a
/// place in the window.
#[test]
fn reads_and_writes_do_not_wait_for_each_other() {
    mix(1, 64, Duration::from_millis(2), 1);
    mix(8, 16, Duration::from_micros(300), 2);
}

fn mix(window: u32, blocks: u32, time: Duration, pairs: u16) {
    let (_runtime, address) =
        start(vec![with_window(slow_device(time), window)], 1, QosConfig::default());
    let (_admin, id) = Queue::controller(address);
    // Sends 200 writes (odd queues) or reads, 50 at a time.
    let half = |qid: u16| {
        let (mut queue, _) = Queue::connect(address, qid, id);
        let submit = |queue: &mut Queue, lba: u32| match qid % 2 {
            1 => queue.submit_write(1, lba, blocks),
            _ => queue.submit_read(lba, blocks),
        };
        for _ in 0..4 {
            let cids: Vec<u16> = (0..50).map(|i| submit(&mut queue, i * blocks)).collect();
            queue.complete(cids);
        }
    };
    std::thread::scope(|scope| {
        for qid in 1..=2 * pairs {
            scope.spawn(move || half(qid));
        }
    });
}

#[test]
fn a_cut_connection_gives_everything_back() {
    let device = with_window(slow_device(Duration::from_millis(5)), 2);
    let session = Session { limits: iops(100), operations: Some(50), ..of_namespace(1) };
    let (runtime, address) = start(vec![device], 2, with_sessions(vec![session]));
    let (_admin, id) = Queue::controller(address);
    for _ in 0..3 {
        let mut queues: Vec<Queue> = (1..5).map(|qid| Queue::connect(address, qid, id).0).collect();
        for i in 0..10 {
            for queue in &mut queues {
                queue.submit_read(0, 64);
                queue.submit_write(1, i, 1);
                queue.submit_write(1, i, 64);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        drop(queues);
        eventually("the queues are gone", || runtime.connections().len() == 1);
        let state = runtime.qos();
        let waiting: u64 = state.devices[0].waiting.iter().map(|(_, waiting)| *waiting).sum();
        assert_eq!((waiting, state.devices[0].in_use), (0, 0.0));
        assert!(state.sessions.iter().all(|s| s.operations.0 == 0 && s.payload.0 == 0));
        assert!(state.sessions.iter().all(|s| s.traffic.waiting == 0));
        eventually("all buffers are free", || buffers_in_use(&runtime) == 0);
    }
}

/// Commands behind a limit, which take 39 seconds, do not delay the end: the drain time is 1 second.
#[test]
fn draining_ends_in_time_behind_a_limit() {
    let (runtime, address) = start(vec![memory()], 1, limited(1, iops(1)));
    let (_admin, [mut queue]) = connected(address);
    for lba in 0..20 {
        queue.submit_read(lba, 1);
        queue.submit_write(1, lba, 64);
    }
    eventually("the commands have arrived", || in_flight(&runtime) > 4);
    let begun = Instant::now();
    end(&runtime);
    assert!(begun.elapsed() < Duration::from_secs(20), "after {:?}", begun.elapsed());
}

/// A host is held back because writes of its session wait for memory. Others of its writes have
/// that memory, and their data would not be read because the host is held back.
#[test]
fn a_host_that_is_held_back_can_still_send_the_data_it_was_asked_for() {
    let short = Session { queue: Some(2), ..of_namespace(1) };
    let (_runtime, address) = start(vec![memory()], 1, with_sessions(vec![short]));
    let (_admin, [mut queue]) = connected(address);
    let cids: Vec<u16> = (0..12).map(|i| queue.submit_write(1, i * 64, 64)).collect();
    queue.complete(cids);
}

/// Writes whose data does not come hold their part of the buffers, and not the part that reads
/// need.
#[test]
fn f5_reads_do_not_wait_for_hosts_that_owe_data() {
    let qos = with_sessions((1..=9).map(of_namespace).collect());
    let (runtime, address) = start(vec![memory(); 9], 1, qos);
    let (_admin, id) = Queue::controller(address);
    let mut slow: Vec<Queue> = (1..=8).map(|qid| Queue::connect(address, qid, id).0).collect();
    let (mut reader, _) = Queue::connect(address, 9, id);
    for (nsid, queue) in (1..).zip(&mut slow) {
        for i in 0..12 {
            queue.submit_write(nsid, i * 64, 64);
        }
    }
    eventually("all have arrived", || {
        let all = runtime.connections();
        all.iter().filter(|c| c.in_flight == 12).count() == 8
    });
    reader.read(9, 0, 64);
    assert_eq!(in_flight(&runtime), 8 * 12, "the read waited for hosts that owe data");
}

#[test]
fn the_metrics_say_how_far_commands_have_come() {
    let slow = with_window(slow_device(Duration::from_secs(2)), 1);
    let (runtime, address) = start(vec![slow], 1, QosConfig::default());
    let (_admin, [mut queue]) = connected(address);
    let states = || {
        let reactors = runtime.statistics().reactors;
        let held = reactors.into_iter().flat_map(|reactor| reactor.states);
        held.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
    };
    for lba in 0..3 {
        queue.submit_read(lba, 1);
    }
    eventually("one is in its device, two wait for their turn", || {
        states() == [("device_turn", 2), ("in_device", 1)]
    });
    drop(queue);
    eventually("nothing is left of them", || states().is_empty());
}
