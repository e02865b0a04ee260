//! Peers that take all the connections that they can get, or connect and leave without end: hosts
//! find room beside them, and the log stays small.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use fabric::fabrics::DISCOVERY_NQN;
use fabric::host::commands;
use fabric::nvme::Status;
use hostile::{Raw, Way};
use nix::sys::socket::{SockaddrIn, getpeername, getsockopt, sockopt};
use sluice_config::TargetConfig;
use sluiced::serve::engine::Engine;
use sluiced::start::descriptors;
use sluiced::start::runtime::Runtime;
use sluiced::sys::socket::{KEEP_ALIVE_COUNT, KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, USER_TIMEOUT};

use super::client::{HOST, Queue};
use super::host_log;
use super::{eventually, memory, target};

/// Returns an address of the loopback network.
fn local(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

/// Connects from an address of this machine.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let stream = Way { from: Some(source), to }.connect().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Connects to the discovery controller from an address.
fn discover(source: Ipv4Addr, address: SocketAddr, keep_alive_ms: u32) -> Result<Raw, u16> {
    let data = commands::connect_data([9; 16], 0xffff, DISCOVERY_NQN, HOST);
    let command = commands::connect(0, 31, keep_alive_ms, None);
    let way = Way { from: Some(source), to: address };
    Raw::connect_with(way, &command, &data).unwrap().map(|(raw, _)| raw)
}

/// Checks that a host connects, and that its queues read.
fn a_host_connects(address: SocketAddr, queues: u16) {
    let (_admin, id) = Queue::controller(address);
    let mut all: Vec<Queue> = (1..=queues).map(|qid| Queue::connect(address, qid, id).0).collect();
    all.iter_mut().for_each(|queue| drop(queue.read(1, 0, 1)));
}

#[test]
fn a_thousand_discovery_controllers_leave_room_for_a_host() {
    descriptors::allow(4096).unwrap();
    let (_runtime, address) = target(vec![memory()], 1);
    let (admin, id) = Queue::controller(address);
    let crowd: Vec<Result<Raw, u16>> =
        (0..1000).map(|_| discover(local(1), address, 300_000)).collect();
    let controllers = crowd.iter().filter(|one| one.is_ok()).count();
    let part = TargetConfig::default().max_discovery as usize / 4;
    assert_eq!(controllers, part, "a quarter of max_discovery for one address");
    let busy = Status::CONNECT_CONTROLLER_BUSY.bits();
    assert!(crowd.iter().all(|one| one.as_ref().err().is_none_or(|status| *status == busy)));
    a_host_connects(address, 8);
    assert!(discover(local(2), address, 0).is_ok(), "another address finds its part");
    let (mut queue, _) = Queue::connect(address, 64, id);
    queue.read(1, 0, 1);
    let forever = discover(local(2), address, u32::MAX).err();
    assert_eq!(forever, Some(Status::KEEP_ALIVE_INVALID.dnr().bits()), "49 days are too long");
    drop((crowd, admin));
}

#[test]
fn silent_connections_make_room_for_hosts() {
    descriptors::allow(4096).unwrap();
    let (runtime, address) = target(vec![memory()], 2);
    let patient = connect_from(local(3), address);
    let crowd: Vec<TcpStream> = (0..1000).map(|_| connect_from(local(4), address)).collect();
    let most = TargetConfig::default().max_waiting as usize;
    eventually("all but those that may wait are closed", || {
        runtime.statistics().waiting_closed >= 1000 - most as u64
    });
    eventually("no more wait than may", || runtime.connections().len() <= most);
    a_host_connects(address, 4);
    // The connections that waited longest were closed, of the address with the most.
    let mut first = &crowd[0];
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    let (command, data) = (hostile::commands::connect(0), super::client::connect_data(0xffff));
    let patient = Raw::initialize(patient).unwrap().begin(&command, &data).unwrap();
    assert!(patient.is_ok(), "another address loses nothing");
    drop(crowd);
}

#[test]
fn connections_that_break_rules_make_few_lines_and_a_count() {
    let (runtime, address) = target(vec![memory()], 1);
    let source = local(5);
    assert!(host_log::lines("peer=127.0.0.5").is_empty());
    let start = Instant::now();
    for _ in 0..300 {
        let mut stream = connect_from(source, address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").unwrap();
        while stream.read(&mut [0; 512]).is_ok_and(|read| read > 0) {}
    }
    let statistics = runtime.statistics();
    assert_eq!(statistics.protocol_errors, 300);
    let lines = host_log::lines("peer=127.0.0.5:").len() as u64;
    assert!((1..=11 + start.elapsed().as_secs()).contains(&lines), "{lines} lines");
    assert_eq!(statistics.lines_left_out + lines, 300);
    eventually("the count is told", || {
        host_log::lines("were left out").iter().any(|line| line.contains("peer=127.0.0.5"))
    });
}

/// Finds this process's end of a connection from `peer`.
fn accepted_from(peer: SocketAddr) -> Option<OwnedFd> {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_peer = |number: &i32| {
        getpeername::<SockaddrIn>(*number).is_ok_and(|seen| SocketAddr::V4(seen.into()) == peer)
    };
    let number = numbers.collect::<Vec<i32>>().into_iter().find(is_peer)?;
    // SAFETY: the target keeps the descriptor open for as long as the connection, which its other end, held by the
    // caller, outlives.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().ok()
}

/// Returns this process's end of a connection from `peer`, once the target knows the connection.
fn known_from(peer: SocketAddr, runtime: &Runtime) -> OwnedFd {
    let mut socket = None;
    eventually("the connection is accepted", || {
        socket = accepted_from(peer).filter(|_| !runtime.connections().is_empty());
        socket.is_some()
    });
    socket.unwrap()
}

/// Returns whether this process has a socket open, by the link of its descriptor.
fn has_open(socket: &Path) -> bool {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.any(|link| link == socket)
}

#[test]
fn the_socket_of_a_connection_that_has_ended_is_closed() {
    let (runtime, address) = target(vec![memory()], 1);
    let stream = connect_from(local(7), address);
    let fd = known_from(stream.local_addr().unwrap(), &runtime);
    let socket = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    drop(fd);
    assert!(has_open(&socket));
    drop(stream);
    eventually("the socket is closed", || !has_open(&socket));
}

#[test]
fn a_peer_that_vanishes_is_noticed_by_the_kernel() {
    let (runtime, address) = target(vec![memory()], 1);
    let stream = connect_from(local(6), address);
    let socket = known_from(stream.local_addr().unwrap(), &runtime);
    eventually("keep-alive is on", || getsockopt(&socket, sockopt::KeepAlive).unwrap());
    let idle = getsockopt(&socket, sockopt::TcpKeepIdle).unwrap();
    let interval = getsockopt(&socket, sockopt::TcpKeepInterval).unwrap();
    let seconds = [idle, interval].map(|seconds| Duration::from_secs(seconds.into()));
    assert_eq!(seconds, [KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL]);
    assert_eq!(getsockopt(&socket, sockopt::TcpKeepCount).unwrap(), KEEP_ALIVE_COUNT);
    let timeout = getsockopt(&socket, sockopt::TcpUserTimeout).unwrap();
    assert_eq!(Duration::from_millis(timeout.into()), USER_TIMEOUT);
    drop(stream);
}
