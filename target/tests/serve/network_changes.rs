//! Changes of the network's settings under connections.

use std::collections::VecDeque;
use std::time::Duration;

use arbitration::{Class, PerClass};
use sluice_config::{Endpoint, Goal, LinkConfig, Network, QosConfig};
use sluiced::serve::engine::{ConnectionNetwork, Engine};
use sluiced::start::runtime::Runtime;

use crate::client::{connected, pattern};
use crate::qos_memory::{iops, limited, slow_device, start, with_window};
use crate::{buffers_in_use, eventually, memory, target};

/// Returns the network statistics of the only I/O queue.
fn of_queue(runtime: &Runtime) -> Option<ConnectionNetwork> {
    runtime.connections().into_iter().find(|one| one.queue == Some(1))?.network
}

fn is_on(runtime: &Runtime, link: &str) -> bool {
    of_queue(runtime).is_some_and(|network| network.link == link)
}

#[test]
fn e8_a_listeners_connections_move_to_the_link_that_it_is_given() {
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, [mut queue]) = connected(address);
    queue.read(1, 0, 1);
    eventually("a state of the network", || is_on(&runtime, "default"));
    let east = LinkConfig { name: "east".to_owned(), ..LinkConfig::default() };
    let network = Network { links: vec![east], ..Network::default() };
    runtime.set_network(&network).unwrap();
    runtime.set_listener_link(Endpoint::tcp(address), Some("east")).unwrap();
    assert_eq!(runtime.listeners()[0].listener.link.as_deref(), Some("east"));
    eventually("the move to another link", || is_on(&runtime, "east"));
    runtime.set_listener_link(Endpoint::tcp(address), None).unwrap();
    eventually("the move back", || is_on(&runtime, "default"));
    // Switched off, connections have no state of the network; switched on, they have one again.
    runtime.set_network(&Network { enabled: false, ..network.clone() }).unwrap();
    eventually("nothing is known", || of_queue(&runtime).is_none());
    assert!(!runtime.network().enabled);
    runtime.set_network(&network).unwrap();
    eventually("a state again", || is_on(&runtime, "default"));
    assert!(runtime.set_listener_link("127.0.0.1:1".parse().unwrap(), None).is_err());
}

#[test]
fn e6_a_connection_has_its_listeners_class_before_any_command() {
    let (runtime, address) = target(vec![memory()], 1);
    let set = |class| runtime.set_listener_class(Endpoint::tcp(address), class).unwrap();
    set(Some(Class::Urgent));
    let (_admin, [_queue]) = connected(address);
    let is = |class: &str| of_queue(&runtime).is_some_and(|network| network.class == class);
    eventually("a state of the network", || of_queue(&runtime).is_some());
    assert!(is("urgent"));
    set(Some(Class::High));
    eventually("another class", || is("high"));
    set(None);
    eventually("the class of those that name none", || is("low"));
}

/// Returns a link on which hosts' data is held to a few megabytes per second.
fn narrow() -> Network {
    let goal = Goal::Rate(16_000_000);
    let goals = PerClass { urgent: goal, high: goal, medium: goal, low: goal };
    let link = LinkConfig { capacity: Some(20_000_000), goals, ..LinkConfig::default() };
    Network { link, ..Network::default() }
}

#[test]
fn e8_writes_that_wait_to_be_asked_for_survive_changes_of_settings() {
    let device = slow_device(Duration::from_micros(100));
    let (runtime, address) = start(vec![with_window(device, 1)], 1, QosConfig::default());
    runtime.set_network(&narrow()).unwrap();
    let (_admin, [mut queue]) = connected(address);
    eventually("a limit", || {
        queue.write(1, 0, pattern(0, 64, 7));
        of_queue(&runtime).is_some_and(|network| network.into.limit.is_some())
    });
    let host = std::thread::spawn(move || {
        let mut waiting: VecDeque<u16> = (0..32).map(|i| queue.submit_write(1, i * 4, 4)).collect();
        for i in 0..400 {
            queue.complete(waiting.pop_front());
            waiting.push_back(queue.submit_write(1, i % 100 * 4, 4));
        }
        queue.complete(waiting);
        queue
    });
    let settings = [limited(1, iops(100_000)), QosConfig::default()];
    for change in settings.iter().cycle() {
        if host.is_finished() {
            break;
        }
        runtime.set_qos(change).unwrap();
        std::thread::sleep(Duration::from_millis(7));
    }
    let _queue = host.join().unwrap();
    eventually("all memory is back", || buffers_in_use(&runtime) == 0);
    let in_use = || runtime.qos().devices.iter().map(|device| device.in_use).sum::<f64>();
    eventually("the device's window is free", || in_use() == 0.0);
}
