//! What connections get of the network, while that changes.

use fabric::nvme::opcode;
use sluiced::config::{Link, Network};
use sluiced::engine::{ConnectionNetwork, Engine};
use sluiced::runtime::Runtime;

use crate::client::{Queue, io};
use crate::{end, eventually, memory, target};

/// What the only I/O queue has of the network.
fn of_queue(runtime: &Runtime) -> Option<ConnectionNetwork> {
    runtime.connections().into_iter().find(|one| one.queue == Some(1))?.network
}

fn is_on(runtime: &Runtime, link: &str) -> bool {
    of_queue(runtime).is_some_and(|network| network.link == link)
}

#[test]
fn e8_a_listeners_connections_move_to_the_link_that_it_is_given() {
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, id) = Queue::controller(address);
    let (mut queue, _) = Queue::connect(address, 1, id);
    queue.call(io(opcode::io::READ, 0, 1), None, 4096);
    eventually("a state of the network", || is_on(&runtime, "default"));
    let east = Link { name: "east".to_owned(), ..Link::default() };
    let network = Network { links: vec![east], ..Network::default() };
    runtime.set_network(&network).unwrap();
    runtime.set_listener_link(address, Some("east")).unwrap();
    assert_eq!(runtime.listeners()[0].link.as_deref(), Some("east"));
    eventually("the move to another link", || is_on(&runtime, "east"));
    runtime.set_listener_link(address, None).unwrap();
    eventually("the move back", || is_on(&runtime, "default"));
    // Off, nothing is said of connections, and on again it is.
    runtime.set_network(&Network { enabled: false, ..network.clone() }).unwrap();
    eventually("nothing is known", || of_queue(&runtime).is_none());
    assert!(!runtime.network().enabled);
    runtime.set_network(&network).unwrap();
    eventually("a state again", || is_on(&runtime, "default"));
    assert!(runtime.set_listener_link("127.0.0.1:1".parse().unwrap(), None).is_err());
    end(&runtime);
}
