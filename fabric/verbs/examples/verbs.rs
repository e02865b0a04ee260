//! Tries the layer over RDMA verbs on a real device: both ends of connections in one process.
//!
//! usage: verbs ADDRESS (of an interface with an RDMA device)
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test: it ends at the first thing that is wrong"
)]

mod waiting;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabric::queue::Remote;
use fabric_verbs::{
    Access, ActivePair, Completion, CompletionQueue, ConnectionParams, Device, Domain, Done, Event,
    EventChannel, Id, Listener, Outcome, QueuePair, QueuePairSize, ReceiveBuffer, Regions,
    SharedMemory, Token, Work,
};

use waiting::{next_event, wait};

type Pair = ActivePair<Vec<u8>, Vec<u8>>;
type Over = Done<Vec<u8>, Vec<u8>>;

const PARAMS: ConnectionParams = ConnectionParams {
    responder_resources: 4,
    initiator_depth: 4,
    retries: 7,
    not_ready_retries: 1,
};
const SIZE: QueuePairSize = QueuePairSize {
    sends: 64,
    receives: 4,
    receive_bytes: 4160,
    send_payloads: true,
    flushes: false,
};

/// Returns the bytes of memory.
fn bytes(memory: &SharedMemory) -> Vec<u8> {
    let words = (0..memory.length()).step_by(8).map(|at| memory.load(at).unwrap());
    words.flat_map(u64::to_ne_bytes).collect()
}

/// One end: its queue pair and its completions.
struct End {
    pair: Pair,
    completions: CompletionQueue,
    /// Completions that were not looked at.
    over: VecDeque<Over>,
}

impl End {
    /// Returns all completed work, and sleeps until some completes if there is none.
    fn next(&mut self) -> Vec<Over> {
        if !self.over.is_empty() {
            return self.over.drain(..).collect();
        }
        let mut taken: Vec<Completion> = Vec::new();
        loop {
            self.completions.poll(&mut taken).unwrap();
            if taken.is_empty() {
                self.completions.arm().unwrap();
                self.completions.poll(&mut taken).unwrap();
            }
            if !taken.is_empty() {
                break;
            }
            wait(&self.completions);
            self.completions.take_events();
        }
        let mut over = Vec::new();
        for completion in taken {
            assert_eq!(completion.queue_pair(), self.pair.pair().number());
            self.pair.complete(completion, |done| over.push(done));
        }
        over
    }

    fn one(&mut self) -> Over {
        let over = self.next();
        self.over.extend(over);
        self.over.pop_front().unwrap()
    }

    fn work(&mut self) -> (Work<Vec<u8>, Vec<u8>>, Outcome, bool) {
        match self.one() {
            Done::Work { work, outcome, ends } => (work, outcome, ends),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until works have come back. Returns their outcomes.
    fn outcomes(&mut self, count: usize) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while outcomes.len() < count {
            for done in self.next() {
                match done {
                    Done::Work { outcome, .. } => outcomes.push(outcome),
                    Done::Lost(outcome) => assert!(outcome.is_flushed()),
                    other => panic!("{other:?}"),
                }
            }
        }
        outcomes
    }

    fn received(&mut self) -> ReceiveBuffer {
        match self.one() {
            Done::Received(buffer) => buffer,
            other => panic!("{other:?}"),
        }
    }
}

fn end(id: Id, regions: &Regions) -> End {
    let completions = CompletionQueue::new(regions.domain().device(), 200).unwrap();
    let pair = QueuePair::new(id, regions, &completions, SIZE).unwrap().activate();
    End { pair, completions, over: VecDeque::new() }
}

/// Connects to the listener. Returns both ends.
fn connect(channel: &EventChannel, regions: &Regions, address: SocketAddr) -> (End, End) {
    let time = Duration::from_secs(2);
    let id = Id::resolve(channel, address, time, Token(2)).unwrap();
    assert!(matches!(next_event(channel), Event::AddressResolved(Token(2))));
    id.set_tos(0x20).unwrap();
    id.resolve_route(time).unwrap();
    assert!(matches!(next_event(channel), Event::RouteResolved(Token(2))));
    let host = end(id, regions);
    host.pair.pair().id().connect(PARAMS, b"who goes there").unwrap();
    let Event::Request(mut request) = next_event(channel) else { panic!("a request comes") };
    assert_eq!((request.listener, request.initiator_depth), (Token(1), 4));
    assert_eq!(
        (&request.private_data[..14], request.private_data.len()),
        (&b"who goes there"[..], 56)
    );
    assert_eq!(request.id.peer_address().ip(), address.ip());
    assert_eq!(request.id.traffic_class(), Some(0x20), "of the host's route");
    request.id.set_token(Token(3));
    let target = end(request.id, regions);
    target.pair.pair().accept(PARAMS, b"a friend", Some(0x40)).unwrap();
    let mut established = 0;
    while established < 2 {
        match next_event(channel) {
            Event::Established(Token(2), said) => {
                assert_eq!(&said[..8], b"a friend");
                established += 1;
            }
            Event::Established(Token(3), _) => established += 1,
            other => panic!("{other:?}"),
        }
    }
    (host, target)
}

fn main() {
    let address: SocketAddr = std::env::args().nth(1).expect("an address").parse().unwrap();
    let channel = EventChannel::new().unwrap();
    let listener = Listener::new(&channel, address, 16, Token(1)).unwrap();
    println!("listens on {}", listener.local_address());
    let device = Device::all().unwrap().swap_remove(0);
    println!("device {}: {:?}", device.name(), device.limits());
    let domain = Domain::new(&device).unwrap();
    let regions = Regions::new(&domain);
    let all =
        Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let block = SharedMemory::new(8192).unwrap();
    assert!((0..8192).step_by(8).all(|at| block.store(at, !at as u64)));
    let region = regions.add(Arc::new(block.clone()), all).unwrap();
    let memory = region.remote();
    let (mut host, mut target) = connect(&channel, &regions, address);

    // A limit on a queue pair's sending rate, if the device can enforce one. Soft RoCE, the driver
    // with the attribute `parent`, cannot.
    let parent = format!("/sys/class/infiniband/{}/parent", device.name());
    let limit = target.pair.pair().rate_limit();
    assert!(limit.is_none() || !Path::new(&parent).exists(), "{:?}", device.limits());
    if let Some(limit) = limit {
        limit.set(Some(limit.range().most)).unwrap();
        limit.set(None).unwrap();
    }

    // SENDs, with data behind their first bytes and without.
    host.pair.post([Work::send(&[7; 64], None), Work::send_with(&[8; 64], vec![9; 4096])]).unwrap();
    let (first, second) = (target.received(), target.received());
    assert_eq!(&first[..], &[7; 64]);
    assert_eq!((&second[..64], &second[64..]), (&[8; 64][..], &[9; 4096][..]));
    let over = host.next();
    let ends: Vec<bool> =
        over.iter().map(|done| matches!(done, Done::Work { ends: true, .. })).collect();
    assert_eq!(ends, [false, true], "one completion ends both");
    let kept = first.clone();
    drop((first, second));
    target.pair.repost().unwrap();
    println!("sends ok");

    // WRITE, then READ of the written data.
    let mut written = bytes(&block);
    written[100..1100].fill(5);
    let write = Work::Write { payload: vec![5; 1000], remote: memory.after(100) };
    target.pair.post([write, Work::send(b"written", None)]).unwrap();
    assert_eq!(&host.received()[..], b"written");
    assert_eq!(bytes(&block), written);
    assert_eq!(target.next().len(), 2);
    target.pair.post([Work::Read { into: vec![0; 8192], remote: memory }]).unwrap();
    let (work, outcome, ends) = target.work();
    let Work::Read { into, .. } = work else { panic!() };
    assert!(outcome.is_success() && ends && into == written);
    println!("write and read ok");

    // Atomics.
    let word = Remote { address: memory.address + 4096, ..memory };
    target
        .pair
        .post([Work::Write { payload: 40u64.to_ne_bytes().to_vec(), remote: word }])
        .unwrap();
    target.next();
    target.pair.post([Work::FetchAdd { into: vec![0; 8], remote: word, add: 2 }]).unwrap();
    let (Work::FetchAdd { into, .. }, outcome, _) = target.work() else { panic!() };
    assert!(outcome.is_success() && into == 40u64.to_ne_bytes());
    for (expect, before) in [(1, 42u64), (42, 42), (42, 50)] {
        let swap = Work::CompareSwap { into: vec![0; 8], remote: word, expect, swap: 50 };
        target.pair.post([swap]).unwrap();
        let (Work::CompareSwap { into, .. }, outcome, _) = target.work() else { panic!() };
        assert!(outcome.is_success());
        assert_eq!(into, before.to_ne_bytes());
    }
    println!("atomics ok");

    // A region of a part: no byte beside it belongs to it.
    for wrong in [8192..8193, 8000..9000, 100..100] {
        let none = block.share(&domain, wrong, Access::REMOTE_READ);
        assert!(none.is_err(), "{none:?}");
    }
    let part = block.share(&domain, 64..128, Access::REMOTE_READ).unwrap();
    assert_eq!((part.remote().address, part.length()), (memory.address + 64, 64));
    assert_ne!(part.remote().key, memory.key);
    target.pair.post([Work::Read { into: vec![0; 64], remote: part.remote() }]).unwrap();
    let (Work::Read { into, .. }, outcome, _) = target.work() else { panic!() };
    assert!(outcome.is_success() && into == written[64..128]);
    println!("parts ok");

    // A wrong key: the works behind it are flushed, and all come back.
    let wrong = Remote { key: memory.key ^ 0x5500, ..memory };
    let works = [
        Work::Write { payload: vec![1; 8], remote: memory },
        Work::Read { into: vec![0; 64], remote: wrong },
        Work::Write { payload: vec![2; 8], remote: memory },
        Work::send(b"never", None),
    ];
    target.pair.post(works).unwrap();
    let outcomes = target.outcomes(4);
    assert!(outcomes[0].is_success(), "{}", outcomes[0].text());
    assert!(outcomes[1].is_remote_access(), "{}", outcomes[1].text());
    assert!(outcomes[2].is_flushed() && outcomes[3].is_flushed());
    assert_eq!(target.pair.posted(), 0);
    println!("a wrong key ok: {}", outcomes[1].text());
    host.pair.pair().id().disconnect().unwrap();
    loop {
        match next_event(&channel) {
            Event::Disconnected(Token(3)) => target.pair.pair().id().disconnect().unwrap(),
            Event::Disconnected(Token(2)) => break,
            other => panic!("{other:?}"),
        }
    }
    drop(target);
    assert_eq!(&kept[..], &[7; 64], "a receive buffer outlives its queue pair");
    drop((kept, host));

    // No receive buffer at the peer: the works come back.
    let (mut host, target) = connect(&channel, &regions, address);
    for _ in 0..4 {
        host.pair.post([Work::send(&[1], None)]).unwrap();
        assert!(host.work().1.is_success());
    }
    host.pair.post([Work::send(&[1], None), Work::send(&[2], None)]).unwrap();
    let outcomes = host.outcomes(2);
    assert_eq!(outcomes[0].text(), "RNR retry counter exceeded");
    assert!(outcomes[1].is_flushed(), "{}", outcomes[1].text());
    println!("receiver not ready ok: {}", outcomes[0].text());
    drop((host, target));

    // A queue pair that ends returns the buffers that were with the device.
    let (mut host, target) = connect(&channel, &regions, address);
    host.pair.post([Work::Read { into: vec![0; 100], remote: memory }]).unwrap();
    let End { pair, .. } = host;
    assert!(pair.destroy().len() <= 1);
    drop(target);
    println!("destruction ok");

    // A request that is refused.
    let time = Duration::from_secs(2);
    let id = Id::resolve(&channel, address, time, Token(9)).unwrap();
    while !matches!(next_event(&channel), Event::AddressResolved(Token(9))) {}
    id.resolve_route(time).unwrap();
    while !matches!(next_event(&channel), Event::RouteResolved(Token(9))) {}
    let refused = end(id, &regions);
    refused.pair.pair().id().connect(PARAMS, &[]).unwrap();
    loop {
        match next_event(&channel) {
            Event::Request(request) => request.reject(b"no"),
            Event::Rejected(Token(9), _, said) => {
                assert_eq!(&said[..2], b"no");
                break;
            }
            Event::Disconnected(_) | Event::Over(_) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(refused);
    println!("refusal ok");
    let ends: Vec<_> = (0..50).map(|_| connect(&channel, &regions, address)).collect();
    println!("{} queue pairs ok", 2 * ends.len());
}
