//! A client that uses all of its rights.

use std::net::SocketAddr;
use std::time::Duration;

use pmem::one_sided::{Address, Failed, OneSided as _, Operation, Ticket};
use pmem::period::Period;
use pmem::token::Tokens;
use pmem::word::{GrantWord, PoolWord, ReportWord};
use pmem_verbs::connection::Connection;
use pmem_verbs::message::{Message, Sync};
use pmem_verbs::private_data::{Request, Rights};

use crate::common::{BLOCK, LENGTH, connect, request};

/// Tries everything. Fails if an operation is refused, or has a wrong result.
pub(crate) fn run(address: SocketAddr, number: u32) {
    let wanted = Request { rights: Rights::ReadWrite, ..request(number) };
    let mut connection = connect(address, wanted, 8).unwrap();
    let accept = *connection.provider.accept();
    assert_eq!((accept.rights, accept.length), (Rights::ReadWrite, LENGTH as u64));

    // Data: the last block, to its last byte.
    let [first, second] = <[_; 2]>::try_from(connection.buffers(2, BLOCK).unwrap()).unwrap();
    let (mut written, offset) = (first, (LENGTH - BLOCK) as u64);
    let before = read(&mut connection, offset, second);
    for (place, byte) in written.bytes_mut().iter_mut().enumerate() {
        *byte = u8::try_from(place % 251).unwrap();
    }
    // Other clients read this block meanwhile, and look at its beginning.
    written.bytes_mut()[..8].copy_from_slice(&offset.to_ne_bytes());
    connection.provider.write(Ticket(1), offset, written).unwrap();
    let written = transferred(&mut connection, Ticket(1));
    let read_back = read(&mut connection, offset, before);
    assert!(read_back.bytes() == written.bytes(), "what was written is there");
    let mut restored = written;
    restored.bytes_mut().fill(0);
    restored.bytes_mut()[..8].copy_from_slice(&offset.to_ne_bytes());
    connection.provider.write(Ticket(2), offset, restored).unwrap();
    transferred(&mut connection, Ticket(2));

    // The written data is made durable.
    let asked = Sync { ticket: 3, offset, length: BLOCK as u64 };
    connection.provider.sync(asked).unwrap();
    assert!(synced(&mut connection, asked.ticket), "it is made to survive");
    match connection.provider.flushes() {
        Some(placement) => println!("rights: synced by FLUSH ({placement:?})"),
        None => println!("rights: synced by the data node"),
    }

    // Words.
    let grant = word(&mut connection, Operation::Read { at: accept.grant.at }).unwrap();
    let report = ReportWord::new(Period(0), Tokens::ZERO, Tokens::ZERO).pack();
    let reported = Operation::Write { at: accept.report.at, word: report };
    assert_eq!(word(&mut connection, reported), Ok(report));
    let pool = |connection: &mut Connection| {
        word(connection, Operation::FetchAdd { at: accept.pool.at, add: 0 }).unwrap()
    };
    let before = pool(&mut connection);
    // The pool never holds this word; it may well hold 0.
    let never = !before;
    let swap = Operation::CompareSwap { at: accept.pool.at, expected: never, new: never };
    // Other clients take tokens meanwhile, and the monitor puts some in: the period tells.
    let found = PoolWord::unpack(word(&mut connection, swap).unwrap());
    let later = found.period.after(PoolWord::unpack(before).period);
    assert!(found.period == PoolWord::unpack(before).period || later == Some(1), "{found:?}");
    assert_ne!(pool(&mut connection), never, "nothing was exchanged");
    // A word that was not granted is refused without an end of the connection.
    let other = Address(accept.report.at.0 + 8);
    assert_eq!(word(&mut connection, Operation::Read { at: other }), Err(Failed::Refused));
    pool(&mut connection);
    assert!(connection.provider.fault().is_none());
    println!("rights: all there; grant {:?}", GrantWord::unpack(grant));
}

/// Reads into a buffer.
fn read(connection: &mut Connection, offset: u64, into: fabric_verbs::Part) -> fabric_verbs::Part {
    connection.provider.read(Ticket(7), offset, into).unwrap();
    transferred(connection, Ticket(7))
}

/// Waits for the end of a transfer. Returns its buffer.
fn transferred(connection: &mut Connection, ticket: Ticket) -> fabric_verbs::Part {
    loop {
        if let Some(transfer) = connection.provider.transferred() {
            assert_eq!((transfer.ticket, transfer.result), (ticket, Ok(())));
            return transfer.buffer;
        }
        wait(connection);
    }
}

/// Waits for the answer to a sync, and returns whether it was done.
fn synced(connection: &mut Connection, asked: u32) -> bool {
    loop {
        while let Some(message) = connection.provider.message() {
            if let Message::Synced { ticket, done } = message {
                assert_eq!(ticket, asked);
                return done;
            }
        }
        connection.wait(Duration::from_millis(20)).unwrap();
        assert!(!connection.has_ended(), "the data node has ended the connection");
    }
}

/// Carries out an operation on a word.
fn word(connection: &mut Connection, operation: Operation) -> Result<u64, Failed> {
    connection.provider.post(Ticket(9), operation).unwrap();
    loop {
        if let Some(completion) = connection.provider.completed() {
            assert_eq!(completion.ticket, Ticket(9));
            return completion.result;
        }
        wait(connection);
    }
}

fn wait(connection: &mut Connection) {
    // Messages to the engine come, too, and nobody listens here.
    while connection.provider.message().is_some() {}
    connection.wait(Duration::from_millis(20)).unwrap();
    assert!(!connection.has_ended(), "the data node has ended the connection");
}
