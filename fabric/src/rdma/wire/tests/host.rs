//! The host's end: the places of commands' data, and the units that it accepts from a target.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use crate::nvme::{Cqe, SglKind, Sqe, Status};
use crate::queue::{HostReceived, HostTransport, Remote, SubmitError};
use crate::rdma::wire::{HostInput, HostPost, HostQueue, HostQueueParams};

type Queue = HostQueue<Vec<u8>, Vec<u8>>;

const MEMORY: Remote = Remote { address: 0x5000, key: 0x1234_5678 };

/// Makes a queue whose memory has 3 parts of 64 bytes.
fn queue() -> Queue {
    let params = HostQueueParams { memory: MEMORY, length: 200, part: 64, invalidate: true };
    let mut queue = Queue::new(params);
    let mut nothing = HostInput { capsules: &[], memory: &[] };
    assert!(matches!(queue.next(&mut nothing), Ok(Some(HostReceived::Ready { .. }))));
    queue
}

fn sqe(cid: u16) -> Sqe {
    Sqe { cid: U16::new(cid), ..Sqe::default() }
}

fn response(cid: u16, status: Status) -> Vec<u8> {
    Cqe::new(cid, 0, 0, status).as_bytes().to_vec()
}

#[test]
fn a_command_has_its_own_part_of_the_memory() {
    let mut queue = queue();
    queue.submit(sqe(2), Some(vec![9; 64]), 0).unwrap();
    assert!(matches!(queue.take_post(), Some(HostPost::Place { cid: 2, data }) if data == [9; 64]));
    let Some(HostPost::Capsule { sqe: sent, data: None }) = queue.take_post() else { panic!() };
    let (address, key) = (0x5000 + 128, MEMORY.key);
    assert_eq!(sent.sgl.decode(), SglKind::Keyed { address, length: 64, key, invalidate: true });
    assert_eq!(sent.psdt(), Sqe::SGL);
    assert_eq!(queue.submit(sqe(2), None, 0), Err(SubmitError::CidInUse(2)));
    assert_eq!(queue.submit(sqe(3), None, 1), Err(SubmitError::NoMemory), "no fourth part");
    assert_eq!(queue.submit(sqe(1), None, 65), Err(SubmitError::NoMemory), "more than a part");
    assert!(!queue.has_posts());
    queue.submit(Sqe { flags: 0b1000_0010, ..sqe(3) }, None, 0).unwrap();
    let Some(HostPost::Capsule { sqe: sent, .. }) = queue.take_post() else { panic!() };
    assert_eq!(sent.flags, 0b0100_0010, "an SGL, and the second of two fused commands");
    let none = SglKind::Keyed { address: 0, length: 0, key: 0, invalidate: false };
    assert_eq!((sent.sgl.decode(), queue.in_flight()), (none, 2));
}

#[test]
fn outstanding_capsules_are_bounded_by_target() {
    let mut queue = queue();
    queue.limit_capsules(2);
    for cid in 0..4 {
        queue.submit(sqe(cid), None, 0).unwrap();
    }
    assert_eq!(std::iter::from_fn(|| queue.take_post()).count(), 2);
    assert!(queue.has_posts());
    let capsules = [response(1, Status::SUCCESS)];
    let mut input = HostInput { capsules: &capsules, memory: &[] };
    assert!(matches!(queue.next(&mut input), Ok(Some(HostReceived::Response { cid: 1, .. }))));
    assert!(matches!(queue.take_post(), Some(HostPost::Capsule { sqe, .. }) if sqe.cid.get() == 2));
    assert!(queue.take_post().is_none() && queue.has_posts());
}

#[test]
fn small_writes_go_in_their_capsules() {
    let mut queue = queue();
    queue.set_in_capsule_data(100);
    queue.submit(sqe(70), Some(vec![1; 100]), 0).unwrap();
    let Some(HostPost::Capsule { sqe: sent, data: Some(data) }) = queue.take_post() else {
        panic!()
    };
    assert_eq!(sent.sgl.decode(), SglKind::InCapsule { offset: 0 });
    assert_eq!((sent.sgl.data_length(), data), (100, vec![1; 100]));
}

#[test]
fn successful_read_fills_host_memory() {
    let mut queue = queue();
    queue.submit(sqe(1), None, 10).unwrap();
    queue.submit(sqe(2), None, 10).unwrap();
    let memory: Vec<u8> = (0..200).collect();
    let capsules = [response(1, Status::SUCCESS), response(2, Status::INVALID_FIELD)];
    let mut input = HostInput { capsules: &capsules, memory: &memory };
    let read = queue.next(&mut input);
    let Ok(Some(HostReceived::ReadData { cid: 1, offset: 0, bytes })) = read else { panic!() };
    assert_eq!(bytes, &memory[64..74]);
    let one = queue.next(&mut input);
    assert!(matches!(one, Ok(Some(HostReceived::Response { cid: 1, received: 10, .. }))));
    let two = queue.next(&mut input);
    assert!(matches!(two, Ok(Some(HostReceived::Response { cid: 2, received: 0, .. }))));
    assert!(matches!(queue.next(&mut input), Ok(None)));
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn capsules_that_break_the_protocol_end_the_queue() {
    let success = response(1, Status::SUCCESS);
    for capsule in
        [response(2, Status::SUCCESS), success[..15].to_vec(), [&success[..], &[0]].concat()]
    {
        let mut queue = queue();
        queue.submit(sqe(1), None, 0).unwrap();
        let capsules = [capsule, success.clone()];
        let mut input = HostInput { capsules: &capsules, memory: &[] };
        queue.next(&mut input).expect_err("a violation");
        assert!(matches!(queue.next(&mut input), Ok(None)), "nothing is heard any more");
        assert_eq!(queue.submit(sqe(5), None, 0), Err(SubmitError::NotReady));
    }
}
