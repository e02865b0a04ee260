//! A host that breaks NVMe/RDMA's rules on a real device: it sends private data of another format, and names memory
//! that it never granted once its controller is enabled. The target must refuse or end such a connection, and do
//! nothing else. The example `crowd` breaks the rules before that.
//!
//! usage: wrong_key ADDRESS SUBSYSTEM
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test: it ends at the first thing that is wrong"
)]

mod rogue;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;

use fabric::host::commands;
use fabric::queue::Remote;
use fabric_verbs::{
    Access, ActivePair, Completion, CompletionQueue, Domain, Done, Event, EventChannel, Id,
    QueuePair, Regions, SharedMemory, Token, Work,
};
use rogue::{NOWHERE, PARAMS, SIZE, TIME, admin_queue, capsule};
use waiting::{next_event, wait};
use zerocopy::IntoBytes;

/// The fate of a connection.
#[derive(Debug, PartialEq)]
enum Met {
    Refused,
    /// Ended by the target, after that many answers.
    Ended(usize),
}

/// Connects with that private data; sends capsules once the connection stands, which are made of the
/// place of `shown`, each behind the answer to the one before. Returns when the target has refused or
/// ended the connection.
fn meet(
    address: SocketAddr,
    private_data: &[u8],
    shown: &[u8],
    capsules: impl FnOnce(Remote) -> Vec<Vec<u8>>,
) -> Met {
    let channel = EventChannel::new().unwrap();
    let id = Id::resolve(&channel, address, TIME, Token(1)).unwrap();
    assert!(matches!(next_event(&channel), Event::AddressResolved(_)));
    id.resolve_route(TIME).unwrap();
    assert!(matches!(next_event(&channel), Event::RouteResolved(_)));
    let device = id.device().unwrap();
    let regions = Regions::new(&Domain::new(&device).unwrap());
    let memory = SharedMemory::new(shown.len()).unwrap();
    for (at, word) in (0..).step_by(8).zip(shown.as_chunks().0) {
        assert!(memory.store(at, u64::from_ne_bytes(*word)));
    }
    let region = regions.add(Arc::new(memory), Access::REMOTE_READ).unwrap();
    let mut completions = CompletionQueue::new(&device, 200).unwrap();
    let pair = QueuePair::new(id, &regions, &completions, SIZE).unwrap();
    pair.id().connect(PARAMS, private_data).unwrap();
    match next_event(&channel) {
        Event::Established(..) => {}
        Event::Rejected(..) => return Met::Refused,
        other => panic!("{other:?}"),
    }
    let mut pair = pair.activate::<Vec<u8>, Vec<u8>>();
    let mut answers = 0;
    for (before, capsule) in capsules(region.remote()).iter().enumerate() {
        while answers < before {
            completions.arm().unwrap();
            let came = take(&mut completions, &mut pair);
            answers += came;
            if came == 0 {
                wait(&completions);
                completions.take_events();
            }
        }
        pair.post([Work::send(capsule, None)]).unwrap();
    }
    let ended = next_event(&channel);
    assert!(ended.ends_connection(), "{ended:?}");
    let _ = pair.pair().id().disconnect();
    answers += take(&mut completions, &mut pair);
    drop(pair.destroy());
    Met::Ended(answers)
}

/// Polls completions. Returns the number of answers among them.
fn take(completions: &mut CompletionQueue, pair: &mut ActivePair<Vec<u8>, Vec<u8>>) -> usize {
    let mut taken: Vec<Completion> = Vec::new();
    completions.poll(&mut taken).unwrap();
    let mut answers = 0;
    for completion in taken {
        pair.complete(completion, |done| answers += usize::from(matches!(done, Done::Received(_))));
    }
    answers
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().expect("an address").parse().unwrap();
    let subsystem = arguments.next().expect("a subsystem's NQN");
    let private = admin_queue(0);
    let private = private.as_bytes();
    let data = commands::connect_data([7; 16], 0xffff, &subsystem, "nqn.2026-01.io.example:wrong");

    let met = meet(address, admin_queue(1).as_bytes(), &data, |_| Vec::new());
    assert_eq!(met, Met::Refused, "private data of another format");
    println!("private data ok");

    let right = |remote| {
        let identify = capsule(commands::identify(1, 0), 2, 4096, NOWHERE);
        // CC with EN, and entries of 64 and 16 bytes.
        let enable = capsule(commands::property_set(0x14, 0x46_0001), 3, 0, NOWHERE);
        vec![capsule(commands::connect(0, 31, 0, None), 1, 1024, remote), enable, identify]
    };
    assert_eq!(meet(address, private, &data, right), Met::Ended(2), "a key of nobody, to write");
    println!("a wrong key of data to return ok");
}
