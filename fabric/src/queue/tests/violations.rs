//! Violations end the connection, and the peer learns of it.

use core::fmt::Debug;

use zerocopy::little_endian::{U16, U32};

use super::joined::{Joined, Rdma, Tcp};
use crate::nvme::{Sqe, Status};
use crate::queue::{CapsuleData, HostReceived, HostTransport, Received, SlotId, Transport};

/// A queue of 2 entries with at most 512 bytes of in-capsule data, after its set-up.
struct Pair<J: Joined> {
    target: J::Target,
    host: J::Host,
}

/// A command, its status, and the bytes that it read.
type Answer = (u16, Status, u32);

/// The target's events, without borrowed input.
#[derive(Debug, PartialEq)]
enum Told {
    Command(SlotId),
    Bytes(usize),
    End(bool),
    GrantEnd,
    Terminated,
}

impl<J: Joined> Pair<J> {
    fn new() -> Self {
        let settings = J::plain();
        let mut pair = Self { target: J::target(&settings), host: J::host(&settings) };
        pair.host_sends().unwrap();
        pair.target.set_queue(2, false);
        pair.target.set_in_capsule_data(512);
        pair.target_sends().unwrap();
        pair.host.set_in_capsule_data(512);
        pair
    }

    fn submit(&mut self, cid: u16, written: usize, read: u32) {
        let sqe = Sqe { cid: U16::new(cid), cdw10: U32::new(7), ..Sqe::default() };
        let data = (written > 0).then(|| vec![3; written]);
        self.host.submit(sqe, data, read).unwrap();
    }

    fn feed(&mut self, mut units: &[J::ToTarget]) -> Result<Vec<Told>, String> {
        let mut told = Vec::new();
        loop {
            match J::next(&mut self.target, &mut units) {
                Ok(Some(Received::Initialized)) => {}
                Ok(Some(Received::Command { slot, data, .. })) => {
                    told.push(Told::Command(slot));
                    if let CapsuleData::Whole(bytes) = data {
                        told.push(Told::Bytes(bytes.len()));
                    }
                }
                Ok(Some(Received::Data { bytes, .. })) => told.push(Told::Bytes(bytes.len())),
                Ok(Some(Received::DataEnd { digest_ok, .. })) => told.push(Told::End(digest_ok)),
                Ok(Some(Received::GrantEnd { .. })) => told.push(Told::GrantEnd),
                Ok(Some(Received::Terminated(_))) => told.push(Told::Terminated),
                Ok(None) => {
                    assert!(units.is_empty(), "all of the input was used up");
                    return Ok(told);
                }
                Err(violation) => return Err(violation.to_string()),
            }
        }
    }

    fn host_sends(&mut self) -> Result<Vec<Told>, String> {
        let units = J::from_host(&mut self.host, usize::MAX);
        self.feed(&units)
    }

    /// Commands that were answered, with their status and bytes; `None` at the end.
    fn target_sends(&mut self) -> Result<Vec<Option<Answer>>, String> {
        let units = J::from_target(&mut self.target, usize::MAX);
        let (mut input, mut told) = (&units[..], Vec::new());
        loop {
            match J::host_next(&mut self.host, &mut input) {
                Ok(Some(HostReceived::Response { cid, cqe, received })) => {
                    told.push(Some((cid, cqe.status(), received)));
                }
                Ok(Some(HostReceived::Terminated(_))) => told.push(None),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(told),
                Err(violation) => return Err(violation.to_string()),
            }
        }
    }

    fn take_command(&mut self, cid: u16, written: usize, read: u32) -> SlotId {
        self.submit(cid, written, read);
        match self.host_sends().unwrap()[..] {
            [Told::Command(slot)] => slot,
            ref other => panic!("{other:?}"),
        }
    }

    /// Checks that the target ends when the host's next units break the protocol: later units are
    /// ignored, and the host is notified.
    fn assert_target_ends(&mut self, units: &[J::ToTarget]) {
        self.feed(units).expect_err("a violation");
        assert_eq!(self.feed(units), Ok(vec![]), "input is ignored from then on");
        assert_eq!(self.target_sends().unwrap().last(), Some(&None), "the host is told");
        let again = self.host.submit(Sqe { cid: U16::new(99), ..Sqe::default() }, None, 0);
        assert!(again.is_err(), "nothing is submitted on a connection that has ended");
    }

    fn assert_host_ends(&mut self) {
        self.target_sends().expect_err("a violation");
        assert_eq!(self.host_sends().unwrap(), [Told::Terminated], "the target is told");
        assert_eq!(self.host_sends().unwrap(), []);
    }
}

/// Tries each violation in turn.
fn all<J: Joined + Debug>() {
    too_many_commands::<J>();
    too_much_in_a_capsule::<J>();
    data_twice::<J>();
    too_much_returned::<J>();
    returned_out_of_order::<J>();
    completions_wait_for_data_and_withdrawals_too::<J>();
    slots_without_a_command_do_nothing::<J>();
}

fn too_many_commands<J: Joined>() {
    let mut pair = Pair::<J>::new();
    pair.take_command(0, 0, 0);
    pair.take_command(1, 0, 0);
    assert_eq!(pair.target.in_flight(), 2);
    pair.submit(2, 0, 0);
    let units = J::from_host(&mut pair.host, usize::MAX);
    pair.assert_target_ends(&units);
}

fn too_much_in_a_capsule<J: Joined>() {
    let mut pair = Pair::<J>::new();
    pair.host.set_in_capsule_data(513);
    pair.submit(0, 512, 0);
    assert_eq!(pair.host_sends().unwrap()[1..], [Told::Bytes(512)], "as much as the queue takes");
    pair.submit(1, 513, 0);
    let units = J::from_host(&mut pair.host, usize::MAX);
    pair.assert_target_ends(&units);
}

fn data_twice<J: Joined>() {
    let mut pair = Pair::<J>::new();
    let slot = pair.take_command(0, 4096, 0);
    pair.target.fetch(slot, 4096);
    pair.target_sends().unwrap();
    let units = J::from_host(&mut pair.host, usize::MAX);
    assert_eq!(pair.feed(&units), Ok(vec![Told::Bytes(4096), Told::End(true)]));
    pair.assert_target_ends(&units);
}

fn too_much_returned<J: Joined>() {
    let mut pair = Pair::<J>::new();
    let slot = pair.take_command(0, 0, 1024);
    pair.target.complete_with_data(slot, vec![0; 1025], 0);
    pair.assert_host_ends();
}

fn returned_out_of_order<J: Joined>() {
    let mut pair = Pair::<J>::new();
    let slot = pair.take_command(0, 0, 1024);
    pair.target.send_data(slot, vec![0; 512], 512, false);
    pair.assert_host_ends();
}

/// Checks that a command is not answered, and its slot not given to another, while the host owes
/// its data.
fn completions_wait_for_data_and_withdrawals_too<J: Joined>() {
    let mut pair = Pair::<J>::new();
    let slot = pair.take_command(0, 4096, 0);
    pair.target.fetch_metered(slot, 4096);
    assert_eq!(pair.target.grant(slot, 1000), 1000);
    assert_eq!(pair.target.grant(slot, 1000), 0, "the host owes data");
    pair.target.withdraw(slot);
    assert_eq!(pair.target.in_flight(), 1, "a command whose data is on its way stays");
    pair.target.complete(slot, 0, Status::ABORT_REQUESTED);
    assert_eq!(pair.target_sends(), Ok(vec![]), "the answer waits");
    assert_eq!(pair.target.in_flight(), 1);
    assert_eq!(pair.host_sends(), Ok(vec![]), "its data is dropped");
    assert_eq!(pair.target_sends(), Ok(vec![Some((0, Status::ABORT_REQUESTED, 0))]));
    assert_eq!(pair.target.in_flight(), 0);
    // Between two grants nothing is on its way.
    let slot = pair.take_command(0, 4096, 0);
    pair.target.fetch_metered(slot, 4096);
    pair.target.grant(slot, 1000);
    pair.target_sends().unwrap();
    assert_eq!(pair.host_sends(), Ok(vec![Told::Bytes(1000), Told::GrantEnd]));
    pair.target.complete(slot, 0, Status::ABORT_REQUESTED);
    assert_eq!(pair.target_sends(), Ok(vec![Some((0, Status::ABORT_REQUESTED, 0))]));
    // A command that is the shell's is forgotten without an answer.
    let slot = pair.take_command(1, 0, 0);
    pair.target.withdraw(slot);
    assert_eq!((pair.target.in_flight(), pair.target_sends()), (0, Ok(vec![])));
}

fn slots_without_a_command_do_nothing<J: Joined>() {
    let mut pair = Pair::<J>::new();
    for slot in [SlotId(0), SlotId(1), SlotId(u16::MAX)] {
        pair.target.fetch(slot, 512);
        pair.target.fetch_metered(slot, 512);
        assert_eq!(pair.target.grant(slot, 512), 0);
        pair.target.complete(slot, 0, Status::SUCCESS);
        pair.target.complete_with_data(slot, vec![1; 512], 0);
        pair.target.send_data(slot, vec![1; 512], 0, true);
        pair.target.withdraw(slot);
        assert_eq!(pair.target.sqe_of(slot).cdw10.get(), 0);
    }
    assert_eq!((pair.target.in_flight(), pair.target.unsent()), (0, 0));
    assert_eq!(pair.target_sends(), Ok(vec![]));
    let slot = pair.take_command(5, 0, 512);
    assert_eq!(pair.target.sqe_of(slot).cdw10.get(), 7);
    assert_eq!((pair.target.find_cid(5), pair.target.find_cid(6)), (Some(slot), None));
    pair.target.complete_with_data(slot, vec![1; 512], 0);
    assert!(pair.target.unsent() >= 512);
    assert_eq!(pair.target_sends(), Ok(vec![Some((5, Status::SUCCESS, 512))]));
    assert_eq!(pair.target.unsent(), 0);
}

#[test]
fn violations_end_a_tcp_connection() {
    all::<Tcp>();
}

#[test]
fn slots_without_a_command_do_nothing_over_rdma() {
    slots_without_a_command_do_nothing::<Rdma>();
}
