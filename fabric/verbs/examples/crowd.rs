//! A crowd of hosts that break the rules of NVMe/RDMA, all at the same time.
//!
//! usage: crowd ADDRESS COUNT silent|short|wrong|vanish
//!
//! All connect. Then the `silent` hosts send nothing, the `short` hosts send an invalid capsule, and each `wrong` host
//! sends a command whose data is in memory that it never registered: the target must end all of these connections, and
//! the program ends when it has. The `vanish` hosts wait until the program is killed.
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

use fabric::host::commands;
use fabric_verbs::{
    ActivePair, CompletionQueue, Domain, Event, EventChannel, Id, QueuePair, Regions, Token, Work,
};
use rogue::{NOWHERE, PARAMS, SIZE, TIME, admin_queue, capsule};
use waiting::next_event;
use zerocopy::IntoBytes;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Begun,
    HasAddress,
    HasRoute,
    Stands,
    Refused,
    /// It was ended by the target.
    Ended,
}

/// The connections.
struct Crowd {
    channel: EventChannel,
    stages: Vec<Stage>,
}

impl Crowd {
    /// Handles the next event.
    fn take(&mut self) {
        let (token, next) = match next_event(&self.channel) {
            Event::AddressResolved(token) => (token, Stage::HasAddress),
            Event::RouteResolved(token) => (token, Stage::HasRoute),
            Event::Established(token, _) => (token, Stage::Stands),
            Event::Rejected(token, ..) => (token, Stage::Refused),
            Event::Disconnected(token) => (token, Stage::Ended),
            Event::Over(_) => return,
            other => panic!("{other:?}"),
        };
        let stage = &mut self.stages[usize::try_from(token.0).unwrap()];
        // A connection that stood is not refused: a target that ends it early rejects it.
        *stage = match (*stage, next) {
            (Stage::Stands, Stage::Refused) => Stage::Ended,
            _ => next,
        };
    }

    /// Waits until a connection has left a stage.
    fn leave(&mut self, index: usize, stage: Stage) {
        while self.stages[index] == stage {
            self.take();
        }
    }

    fn count(&self, stage: Stage) -> usize {
        self.stages.iter().filter(|one| **one == stage).count()
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().expect("an address").parse().unwrap();
    let count: usize = arguments.next().expect("a number").parse().unwrap();
    let mode = arguments.next().expect("silent, short, wrong or vanish");
    let mut crowd = Crowd { channel: EventChannel::new().unwrap(), stages: Vec::new() };
    let mut common: Option<(Regions, CompletionQueue)> = None;
    let mut pairs: Vec<ActivePair<Vec<u8>, Vec<u8>>> = Vec::new();
    for index in 0..count {
        crowd.stages.push(Stage::Begun);
        let id = Id::resolve(&crowd.channel, address, TIME, Token(index as u64)).unwrap();
        crowd.leave(index, Stage::Begun);
        id.resolve_route(TIME).unwrap();
        crowd.leave(index, Stage::HasAddress);
        let (regions, completions) = common.get_or_insert_with(|| {
            let device = id.device().unwrap();
            let entries = u32::try_from(count).unwrap() * (SIZE.sends + u32::from(SIZE.receives));
            let regions = Regions::new(&Domain::new(&device).unwrap());
            (regions, CompletionQueue::new(&device, entries).unwrap())
        });
        let pair = QueuePair::new(id, regions, completions, SIZE).unwrap();
        pair.id().connect(PARAMS, admin_queue(0).as_bytes()).unwrap();
        pairs.push(pair.activate());
    }
    for index in 0..count {
        crowd.leave(index, Stage::HasRoute);
    }
    println!(
        "{} connections stand, {} refused",
        crowd.count(Stage::Stands),
        crowd.count(Stage::Refused)
    );
    let capsules = match mode.as_str() {
        "short" => vec![vec![0x7f; 20]],
        // A queue takes one command before its Connect has succeeded.
        "wrong" => vec![capsule(commands::connect(0, 31, 0, None), 1, 1024, NOWHERE)],
        "silent" => Vec::new(),
        "vanish" => loop {
            std::thread::park();
        },
        other => panic!("{other}?"),
    };
    for pair in &mut pairs {
        for capsule in &capsules {
            // An ended connection takes none.
            let _ = pair.post([Work::send(capsule, None)]);
        }
    }
    for (index, pair) in pairs.iter().enumerate() {
        crowd.leave(index, Stage::Stands);
        let _ = pair.pair().id().disconnect();
    }
    println!("{mode}: all {count} are over, {} ended", crowd.count(Stage::Ended));
}
