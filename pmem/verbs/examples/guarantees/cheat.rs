//! Clients that break rules.

use std::net::SocketAddr;
use std::time::Duration;

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;
use fabric_verbs::{Fault, OneSided, OneSidedEvent, OneSidedWork, Ticket};
use pmem_verbs::connection::ConnectError;
use pmem_verbs::private_data::{Keyed, Reject, Request, Rights, Secret};

use crate::common::{BLOCK, LENGTH, connect, request};

/// Breaks a rule. Fails where nothing stops it.
pub(crate) fn run(address: SocketAddr, number: u32, kind: &str, stolen: &[u64]) {
    let own = request(number);
    match kind {
        "secret" => refused(address, Request { secret: Secret(7), ..own }, Reject::NoGrant),
        "rights" => refused(address, Request { rights: Rights::ReadWrite, ..own }, Reject::NoGrant),
        "twice" => {
            let _first = connect(address, own, 4).unwrap();
            refused(address, own, Reject::InUse);
        }
        _ => access(address, own, kind, stolen),
    }
    println!("{kind}: refused");
}

/// Asks for a connection that the data node must refuse.
fn refused(address: SocketAddr, request: Request, expected: Reject) {
    match connect(address, request, 4) {
        Err(ConnectError::Rejected(reason)) => assert_eq!(reason, expected),
        other => panic!("{other:?}"),
    }
}

/// Tries an access that the data node's device must refuse.
fn access(address: SocketAddr, own: Request, kind: &str, stolen: &[u64]) {
    let mut connection = connect(address, own, 4).unwrap();
    if kind == "old-key" {
        // Keys of an earlier connection are invalid now.
        let before = connection.provider.accept().data;
        drop(connection);
        connection = connect_again(address, own);
        assert_ne!(connection.provider.accept().data.key, before.key);
        return expect_refused(connection.provider.into_pair(), read(before, 0));
    }
    let accept = *connection.provider.accept();
    let buffer = |length| connection.buffers(1, length).unwrap().pop().unwrap();
    let work = match (kind, stolen) {
        ("key", _) => read(Keyed { key: accept.data.key ^ 0x5500, ..accept.data }, 0),
        ("beyond", _) => {
            OneSidedWork::Read { at: remote(accept.data, LENGTH - BLOCK + 64), into: buffer(BLOCK) }
        }
        ("write", _) => OneSidedWork::Write { at: remote(accept.data, 0), from: buffer(64) },
        ("pool", _) => OneSidedWork::WriteWord { at: remote(accept.pool, 0), word: 1 << 40 },
        ("grant", _) => OneSidedWork::WriteWord { at: remote(accept.grant, 0), word: 1 << 20 },
        ("flush", _) => OneSidedWork::Flush {
            at: remote(accept.data, 0),
            length: 64,
            placement: Placement::Global,
        },
        // The words of the next client lie behind its own.
        ("report", _) => OneSidedWork::WriteWord { at: remote(accept.report, 16), word: 1 },
        ("stolen", [at, key]) => {
            let key = u32::try_from(*key).unwrap();
            OneSidedWork::ReadWord { at: Remote { address: *at, key } }
        }
        other => panic!("{other:?}"),
    };
    expect_refused(connection.provider.into_pair(), work);
}

/// Connects as soon as the data node has seen the end of the connection before.
fn connect_again(address: SocketAddr, own: Request) -> pmem_verbs::connection::Connection {
    loop {
        match connect(address, own, 4) {
            Ok(connection) => return connection,
            Err(ConnectError::Rejected(Reject::InUse)) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
}

fn remote(at: Keyed, offset: usize) -> Remote {
    Remote { address: at.at.0 + offset as u64, key: at.key }
}

fn read(at: Keyed, offset: usize) -> OneSidedWork {
    OneSidedWork::ReadWord { at: remote(at, offset) }
}

/// Posts an operation that the peer's device must refuse, and one behind it, which must come back flushed.
fn expect_refused(mut pair: OneSided, work: OneSidedWork) {
    let behind = OneSidedWork::ReadWord { at: Remote { address: 0, key: 0 } };
    pair.post(Ticket(1), work).unwrap();
    pair.post(Ticket(2), behind).unwrap();
    let mut over = Vec::new();
    while over.len() < 2 {
        pair.poll(|event| {
            if let OneSidedEvent::Done { ticket, result, .. } = event {
                over.push((ticket, result));
            }
        })
        .unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let expected = [(Ticket(1), Err(Fault::Refused)), (Ticket(2), Err(Fault::Flushed))];
    assert_eq!(over, expected);
}
