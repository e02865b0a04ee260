//! Hosts that must prove themselves, on real sockets.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use fabric::dhchap::{Group, Hash, HostSecrets, Secret, SecretPair};
use fabric::fabrics::AuthFailure;
use fabric::host::authentication::{AuthError, Credentials};
use fabric::host::commands;
use fabric::key_file::KeyFile;
use fabric::nvme::identify::cns;
use fabric::nvme::property::offset;
use fabric::nvme::{Status, opcode};
use hostile::{Failed, Identity, Queue};
use sluice_config::{QosConfig, TargetConfig};
use sluiced::serve::engine::Engine;
use sluiced::start::runtime::Runtime;

use super::client::{HOST, NQN, identity, io, pattern};
use super::{Running, memory, serve};

fn secret(tag: u8) -> Secret {
    Secret::generate(&[tag; 64], Some(Hash::Sha256))
}

fn key_file(own: u8) -> KeyFile {
    let pairs = vec![SecretPair { host: secret(own), controller: Some(secret(99)) }];
    let (hashes, groups) = (vec![Hash::Sha384], vec![Group::Ffdhe2048]);
    KeyFile { secrets: Some(HostSecrets { pairs, hashes, groups }), ..KeyFile::new(HOST) }
}

/// Returns a target in which the host of these tests has a secret, in a file.
fn target(folder: &Path) -> (Running, SocketAddr) {
    let mut options = fs::OpenOptions::new();
    let to = options.write(true).create_new(true).mode(0o600).open(folder.join("host.key"));
    to.unwrap().write_all(key_file(1).text().as_bytes()).unwrap();
    let host_keys = Some(folder.to_owned());
    let settings = TargetConfig { io_memory: 4 << 20, host_keys, ..TargetConfig::default() };
    serve(settings, QosConfig::default(), vec![memory()])
}

/// Connects an I/O queue of the host of these tests.
fn queue(address: SocketAddr, id: u16) -> Queue {
    Queue::connect(address, &identity(), 1, id).unwrap().0
}

fn both_ways(own: u8) -> Credentials {
    Credentials::new(secret(own), Some(secret(99)))
}

/// Returns an enabled controller that was proved with a secret: its admin queue and its identifier.
fn controller(address: SocketAddr, own: u8) -> (Queue, u16) {
    let (mut admin, id) = Queue::connect(address, &identity(), 0, 0xffff).unwrap();
    assert_eq!(admin.authenticate(&both_ways(own), &identity()).unwrap(), Ok(()));
    let enable = commands::property_set(offset::CC, commands::CC_ENABLE);
    assert_eq!(admin.call(enable, None, 0).unwrap().status, Status::SUCCESS);
    let status = commands::property_get(offset::CSTS, false);
    while admin.call(status, None, 0).unwrap().result & 1 == 0 {}
    let queues = commands::set_number_of_queues(4);
    assert!(admin.call(queues, None, 0).unwrap().status.is_success());
    (admin, id)
}

/// Returns the queues, by number, and whether the target shows that their host has proved itself.
fn proved(runtime: &Runtime) -> Vec<(u16, bool)> {
    let queues = runtime.connections().into_iter().map(|c| (c.queue.unwrap(), c.authenticated));
    let mut all: Vec<_> = queues.collect();
    all.sort_unstable();
    all
}

#[test]
fn each_queue_carries_nothing_before_its_host_has_proved_itself_there() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, address) = target(folder.path());
    let required = Status::AUTHENTICATION_REQUIRED.dnr();
    let (mut admin, _) = Queue::connect(address, &identity(), 0, 0xffff).unwrap();
    let identify = commands::identify(cns::CONTROLLER, 0);
    assert_eq!(admin.call(identify, None, 4096).unwrap().status, required);
    let enable = commands::property_set(offset::CC, commands::CC_ENABLE);
    assert_eq!(admin.call(enable, None, 0).unwrap().status, required);

    let (_admin, id) = controller(address, 1);
    let mut queue = queue(address, id);
    let read = io(opcode::io::READ, 0, 1);
    let write = |blocks| (io(opcode::io::WRITE, 0, blocks), Some(pattern(0, blocks, 3)));
    assert_eq!(queue.call(read, None, 4096).unwrap().status, required);
    for (sqe, data) in [write(1), write(16)] {
        let refused = queue.call(sqe, data, 0).unwrap();
        assert_eq!(refused.status, required, "with its data in the capsule, or asked for");
    }
    assert_eq!(proved(&runtime), [(0, false), (0, true), (1, false)]);
    assert_eq!(queue.authenticate(&both_ways(1), &identity()).unwrap(), Ok(()));
    assert_eq!(proved(&runtime), [(0, false), (0, true), (1, true)]);
    let first = queue.call(read, None, 4096).unwrap();
    assert!(first.status.is_success() && first.data.iter().all(|byte| *byte == 0));
    let (write, data) = write(1);
    assert!(queue.call(write, data, 0).unwrap().status.is_success());
    // Again, between commands, one way this time.
    let again = Credentials::new(secret(1), None);
    assert_eq!(queue.authenticate(&again, &identity()).unwrap(), Ok(()));
    assert!(queue.call(read, None, 4096).unwrap().data == pattern(0, 1, 3));
}

#[test]
fn a_host_with_another_secret_is_told_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtime, address) = target(folder.path());
    let (mut admin, _) = Queue::connect(address, &identity(), 0, 0xffff).unwrap();
    let refused = admin.authenticate(&both_ways(2), &identity()).unwrap();
    assert_eq!(refused, Err(Failed::Told(AuthError::Refused(AuthFailure::Failed))));
    let get = commands::property_get(offset::CSTS, false);
    let after = admin.call(get, None, 0);
    assert!(after.is_err() || after.is_ok_and(|answer| !answer.status.is_success()));

    let (mut admin, id) = controller(address, 1);
    let mut queue = queue(address, id);
    let trusts = Credentials::new(secret(1), Some(secret(98)));
    let told = queue.authenticate(&trusts, &identity()).unwrap();
    assert_eq!(told, Err(Failed::Told(AuthError::Controller(AuthFailure::Failed))));
    assert!(queue.call(io(opcode::io::READ, 0, 1), None, 4096).is_err(), "the queue has ended");
    assert!(admin.call(get, None, 0).unwrap().status.is_success(), "alone");
}

#[test]
fn secrets_that_are_exchanged_disconnect_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, address) = target(folder.path());
    let (_admin, id) = controller(address, 1);
    let mut queue = queue(address, id);
    assert_eq!(queue.authenticate(&both_ways(1), &identity()).unwrap(), Ok(()));
    let keys = runtime.read_host_keys().unwrap();
    assert!(runtime.set_host_keys(keys).is_empty(), "the same as at the start");
    let told = runtime.set_host_keys([(HOST.to_owned(), key_file(2))].into());
    assert_eq!(told, [format!("host {HOST} has other secrets")]);
    let read = io(opcode::io::READ, 0, 1);
    assert!(queue.call(read, None, 4096).unwrap().status.is_success());
    let (_other, _) = controller(address, 2);
    assert_eq!(queue.authenticate(&both_ways(2), &identity()).unwrap(), Ok(()));
    assert!(queue.call(read, None, 4096).unwrap().status.is_success());
}

#[test]
fn a_host_without_a_secret_is_refused_once_authentication_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, address) = target(folder.path());
    let stranger = Identity { host: "nqn.2026-01.io.x:stranger".to_owned(), ..identity() };
    let (mut connected, _) = Queue::connect(address, &stranger, 0, 0xffff).unwrap();
    runtime.set_require_authentication(NQN, true).unwrap();
    let refused = Queue::connect(address, &stranger, 0, 0xffff).unwrap_err().to_string();
    assert!(refused.starts_with("Connect is refused"), "{refused}");
    let get = commands::property_get(offset::CSTS, false);
    assert!(connected.call(get, None, 0).unwrap().status.is_success(), "it stays");
    controller(address, 1);
}
