//! The target's end: the units that it accepts, its posts, and their bounds.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::fabrics::{ConnectCommand, ConnectField};
use crate::nvm::Transfer;
use crate::nvme::{SglDescriptor, Sqe, Status};
use crate::queue::{CapsuleData, Fetch, Received, Remote, SlotId, Transport};
use crate::rdma::wire::{Batch, Post, QueueParams, TargetQueue};

type Queue = TargetQueue<Vec<u8>, Vec<u8>>;

const PARAMS: QueueParams =
    QueueParams { qid: 3, entries: 4, in_capsule_data: 100, reads: 2, max_read: 1000, posts: 3 };

/// Makes a queue of 4 entries that has been connected.
fn queue() -> Queue {
    connected(PARAMS, true)
}

fn connected(params: QueueParams, flow_control: bool) -> Queue {
    let mut queue = Queue::new(params);
    assert!(matches!(queue.next(&mut &[][..]), Ok(Some(Received::Initialized))));
    queue.set_queue(4, flow_control);
    queue
}

fn sqe(cid: u16, sgl: SglDescriptor) -> Sqe {
    Sqe { cid: U16::new(cid), flags: 0b01 << 6, sgl, ..Sqe::default() }
}

fn keyed(cid: u16, length: u32, invalidate: bool) -> Sqe {
    sqe(cid, SglDescriptor::keyed(0x1_0000, length, 77, invalidate))
}

/// Delivers a capsule. Returns the command's slot and its in-capsule data.
fn arrive(queue: &mut Queue, sqe: &Sqe, data: &[u8]) -> Result<(SlotId, Vec<u8>), String> {
    let capsule = [[sqe.as_bytes(), data].concat()];
    match queue.next(&mut &capsule[..]) {
        Ok(Some(Received::Command { slot, data: CapsuleData::Whole(data) })) => {
            Ok((slot, data.to_vec()))
        }
        Ok(Some(Received::Command { slot, data: CapsuleData::None })) => Ok((slot, vec![])),
        Ok(other) => panic!("{other:?}"),
        Err(violation) => Err(violation.to_string()),
    }
}

/// Delivers a command with data in the host's memory.
fn take(queue: &mut Queue, cid: u16, length: u32) -> SlotId {
    arrive(queue, &keyed(cid, length, false), &[]).unwrap().0
}

fn fetches(queue: &mut Queue) -> Vec<Fetch> {
    std::iter::from_fn(|| queue.take_fetch()).collect()
}

/// Returns the work requests of a batch, data by length and address, responses by command and key.
fn posted(batch: &Batch<Vec<u8>>) -> Vec<(u64, u64, Option<u32>)> {
    let post = |post: &Post<Vec<u8>>| match post {
        Post::Data { payload, remote } => {
            assert_eq!(remote.key, 77);
            (payload.len() as u64, remote.address, None)
        }
        Post::Response { cqe, invalidate } => (0, cqe.cid.get().into(), *invalidate),
    };
    batch.posts.iter().map(post).collect()
}

#[test]
fn data_goes_by_write_ahead_of_its_response() {
    let mut queue = queue();
    let slot = take(&mut queue, 9, 600);
    queue.send_data(slot, vec![1; 400], 0, false);
    queue.send_data(slot, vec![2; 200], 400, true);
    assert_eq!(queue.unsent(), 616);
    let batch = queue.take_batch().unwrap();
    assert_eq!(posted(&batch), [(400, 0x1_0000, None), (200, 0x1_0190, None), (0, 9, None)]);
    assert_eq!((queue.unsent(), queue.in_flight()), (0, 0));
    queue.give_back(batch);
    // A command that reads nothing has no WRITE.
    let slot = take(&mut queue, 9, 600);
    queue.complete_with_data(slot, vec![], 0);
    assert_eq!(posted(&queue.take_batch().unwrap()), [(0, 9, None)]);
}

#[test]
fn key_is_invalidated_on_request_only() {
    let mut queue = queue();
    let (invalidate, keep) = (keyed(1, 8, true), keyed(2, 8, false));
    let no_sgl = Sqe { flags: 0, ..keyed(3, 8, true) };
    let inline = sqe(4, SglDescriptor::in_capsule(8));
    for (sqe, key) in [(invalidate, Some(77)), (keep, None), (no_sgl, None), (inline, None)] {
        let (slot, _) = arrive(&mut queue, &sqe, &[]).unwrap();
        queue.complete(slot, 0, Status::INVALID_FIELD);
        let batch = queue.take_batch().unwrap();
        assert_eq!(posted(&batch), [(0, sqe.cid.get().into(), key)]);
        queue.give_back(batch);
    }
    // So it is where the answer has waited for data.
    let (slot, _) = arrive(&mut queue, &invalidate, &[]).unwrap();
    queue.fetch(slot, 8);
    let fetch = queue.take_fetch().unwrap();
    queue.complete(slot, 0, Status::ABORT_REQUESTED);
    assert!(queue.take_batch().is_none(), "the memory is being read");
    assert!(queue.fetched(&fetch).is_none());
    assert_eq!(posted(&queue.take_batch().unwrap()), [(0, 1, Some(77))]);
}

#[test]
fn posted_work_fits_send_queue() {
    let mut queue = queue();
    for cid in 0..4 {
        let slot = take(&mut queue, cid, 8);
        queue.complete_with_data(slot, vec![0; 8], 0);
    }
    let first = queue.take_batch().unwrap();
    assert_eq!(first.posts.len(), 3);
    assert!(queue.take_batch().is_none() && queue.is_sending());
    queue.give_back(first);
    let mut second = queue.take_batch().unwrap();
    assert_eq!(posted(&second)[0], (0, 1, None), "what is next in order");
    let slot = take(&mut queue, 9, 8);
    queue.complete(slot, 0, Status::SUCCESS);
    assert!(queue.take_batch().is_none());
    // The shell may have taken the work requests out of the batch.
    second.posts.clear();
    queue.give_back(second);
    let third = queue.take_batch().unwrap();
    assert_eq!((third.posts.len(), queue.is_sending()), (3, true));
    queue.give_back(third);
    assert!(!queue.is_sending() && queue.take_batch().is_none());
}

#[test]
fn outstanding_fetches_are_bounded() {
    let mut queue = queue();
    let mut slots = Vec::new();
    for cid in 0..3 {
        let slot = take(&mut queue, cid, 2500);
        queue.fetch(slot, 2500);
        slots.push(slot);
    }
    let out = fetches(&mut queue);
    assert_eq!(out.iter().map(|fetch| fetch.slot).collect::<Vec<_>>(), slots[..2]);
    let part = |slot, offset, length| {
        let remote = Remote { address: 0x1_0000 + u64::from(offset), key: 77 };
        Fetch { slot, offset, length, remote }
    };
    assert_eq!(out[0], part(slots[0], 0, 1000));
    assert!(queue.fetched(&out[0]).is_none(), "a part is not all of the data");
    assert_eq!(fetches(&mut queue), [part(slots[2], 0, 1000)], "those that wait come first");
    assert!(queue.fetched(&out[1]).is_none());
    let next = fetches(&mut queue);
    assert_eq!(next, [part(slots[0], 1000, 1000)]);
    queue.fetched(&next[0]);
    let ends = fetches(&mut queue);
    queue.fetched(&ends[0]);
    let ends = fetches(&mut queue);
    assert_eq!(ends, [part(slots[0], 2000, 500)]);
    let end = queue.fetched(&ends[0]);
    assert!(matches!(end, Some(Received::DataEnd { digest_ok: true, .. })), "{end:?}");
}

#[test]
fn e2_outstanding_fetch_bytes_are_bounded() {
    let mut queue = connected(QueueParams { reads: 9, max_read: 1 << 20, ..PARAMS }, true);
    // Two parts of it are no more than the bound.
    queue.bound_fetches(Some(16_384));
    for cid in 0..3 {
        let slot = take(&mut queue, cid, 30_000);
        queue.fetch(slot, 30_000);
    }
    // Half of it in each part, in whole 4 KiB; one part of each command at a time.
    let first = fetches(&mut queue);
    assert_eq!(first.iter().map(|fetch| fetch.length).collect::<Vec<_>>(), [8192, 8192]);
    assert_eq!(queue.fetched(&first[0]).map(drop), None, "there is more");
    let next = fetches(&mut queue);
    assert_eq!(next.iter().map(|fetch| fetch.length).collect::<Vec<_>>(), [8192]);
    assert_ne!((next[0].slot, next[0].offset), (first[0].slot, 8192), "in turn");
    // One is always outstanding, under any bound.
    queue.bound_fetches(Some(1));
    assert_eq!(fetches(&mut queue), []);
    for fetch in [&first[1], &next[0]] {
        queue.fetched(fetch);
    }
    assert_eq!(fetches(&mut queue).len(), 1);
    queue.bound_fetches(None);
    assert_eq!(fetches(&mut queue).len(), 2, "all that there is");
}

#[test]
fn e2_data_in_flight_is_known() {
    let mut queue = queue();
    let slot = take(&mut queue, 9, 600);
    queue.complete_with_data(slot, vec![1; 600], 0);
    assert_eq!(queue.under_way(), Some(0), "not handed out yet");
    let batch = queue.take_batch().unwrap();
    assert_eq!((queue.under_way(), batch.bytes()), (Some(616), 616));
    queue.give_back(batch);
    assert_eq!(queue.under_way(), Some(0));
}

#[test]
fn metered_fetch_stays_within_grants() {
    let mut queue = queue();
    let slot = take(&mut queue, 5, 1500);
    queue.fetch_metered(slot, 1500);
    assert!(queue.take_fetch().is_none());
    assert_eq!(queue.grant(slot, 600), 600);
    assert_eq!(queue.grant(slot, 600), 0, "data is on its way");
    let fetch = queue.take_fetch().unwrap();
    assert!(matches!(queue.fetched(&fetch), Some(Received::GrantEnd { .. })));
    assert_eq!(queue.grant(slot, u32::MAX), 900);
    let fetch = queue.take_fetch().unwrap();
    assert_eq!((fetch.offset, fetch.length), (600, 900));
    assert!(matches!(queue.fetched(&fetch), Some(Received::DataEnd { .. })));
}

#[test]
fn early_answer_cancels_data_fetch() {
    let mut queue = queue();
    let slot = take(&mut queue, 5, 500);
    queue.fetch(slot, 500);
    assert_eq!(queue.in_flight(), 1);
    queue.complete(slot, 0, Status::ABORT_REQUESTED);
    assert!(queue.take_fetch().is_none(), "the host's memory is left alone");
    assert_eq!(posted(&queue.take_batch().unwrap()), [(0, 5, None)]);
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn capsules_that_break_the_protocol_end_the_queue() {
    let command = keyed(1, 8, false);
    let end = |capsule: &[u8], before: usize| {
        let mut queue = queue();
        for cid in 0..before {
            arrive(&mut queue, &keyed(u16::try_from(cid).unwrap(), 8, false), &[]).unwrap();
        }
        let capsules = [capsule.to_vec()];
        let violation = queue.next(&mut &capsules[..]).expect_err("a violation").to_string();
        assert!(matches!(queue.next(&mut &capsules[..]), Ok(None)), "nothing is heard any more");
        violation
    };
    let bytes = command.as_bytes();
    assert!(end(&bytes[..63], 0).contains("less than 64 bytes"));
    assert!(end(&[], 0).contains("less than 64 bytes"));
    assert!(end(&[bytes, &[0; 101]].concat(), 0).contains("in-capsule data"));
    assert!(end(bytes, 4).contains("queue entries"));
    let (_, data) = arrive(&mut queue(), &command, &[7; 100]).unwrap();
    assert_eq!(data, [7; 100], "as much as the queue takes");
    let mut less = queue();
    less.set_in_capsule_data(10);
    assert!(arrive(&mut less, &command, &[7; 11]).is_err());
    less = queue();
    less.set_in_capsule_data(1000);
    assert!(arrive(&mut less, &command, &[7; 101]).is_err(), "buffers have no room for more");
}

#[test]
fn the_place_of_data_is_checked() {
    let queue = queue();
    let (none, data) = (CapsuleData::None, [0; 100]);
    let whole = CapsuleData::Whole(&data);
    let check = |sgl, transfer, data| queue.check_place(&sqe(0, sgl), &transfer, data);
    let (write, read) = (Transfer::ToController(100), Transfer::ToHost(100));
    let bad_length = Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
    for invalidate in [false, true] {
        let memory = |length| SglDescriptor::keyed(u64::MAX, length, u32::MAX, invalidate);
        assert_eq!(check(memory(100), write, &none), Ok(()));
        assert_eq!(check(memory(0xff_ffff), read, &none), Ok(()));
        assert_eq!(check(memory(99), write, &none), bad_length);
        assert_eq!(check(memory(99), read, &none), bad_length);
        assert_eq!(check(memory(100), write, &whole), bad_length, "data in two places");
    }
    assert_eq!(check(SglDescriptor::in_capsule(100), write, &whole), Ok(()));
    assert_eq!(check(SglDescriptor::in_capsule(100), write, &none), bad_length);
    assert_eq!(check(SglDescriptor::in_capsule(100), read, &none), bad_length);
    let of_tcp = check(SglDescriptor::transport(100), read, &none);
    assert_eq!(of_tcp, Err(Status::SGL_TYPE_INVALID.dnr()));
    // PRPs have no meaning between machines; a command without data has neither.
    let pages = Sqe { flags: 0, ..keyed(0, 100, false) };
    assert_eq!(queue.check_place(&pages, &write, &none), Err(Status::INVALID_FIELD.dnr()));
    assert_eq!(queue.check_place(&pages, &Transfer::None, &none), Ok(()));
}

#[test]
fn longer_capsule_carries_data() {
    let queue = queue();
    let brings = |length| queue.brings_data(&&[vec![0; length]][..]);
    assert_eq!([63, 64, 65].map(brings), [false, false, true]);
    assert!(queue.fetches_into_buffers(), "an RDMA READ needs a place");
}

#[test]
fn connect_must_match_its_connection() {
    let queue = queue();
    let check = |qid, sqsize| {
        let mut command = ConnectCommand::from(&Sqe::default());
        (command.qid, command.sqsize) = (U16::new(qid), U16::new(sqsize));
        queue.check_connect(&command)
    };
    assert_eq!((check(3, 3), check(3, 1)), (Ok(()), Ok(())));
    assert_eq!(check(3, 4), Err(ConnectField::SqSize), "more entries than receive buffers");
    assert_eq!(check(0, 3), Err(ConnectField::Qid));
}

#[test]
fn completions_tell_how_far_the_queue_was_read() {
    for (flow_control, heads) in [(true, [1, 2, 3, 0]), (false, [0xffff; 4])] {
        let mut queue = connected(QueueParams { posts: 100, ..PARAMS }, flow_control);
        for (cid, head) in (0..).zip(heads) {
            let command = Sqe { cdw10: U32::new(1), ..keyed(cid, 0, false) };
            let (slot, _) = arrive(&mut queue, &command, &[]).unwrap();
            queue.complete(slot, 5, Status::SUCCESS);
            let batch = queue.take_batch().unwrap();
            let Post::Response { cqe, .. } = &batch.posts[0] else { panic!("{batch:?}") };
            assert_eq!((cqe.cid.get(), cqe.sqhd.get(), cqe.result.get()), (cid, head, 5));
            assert_eq!(batch.posts[0].capsule().map(<[u8]>::len), Some(16));
            queue.give_back(batch);
        }
    }
}
