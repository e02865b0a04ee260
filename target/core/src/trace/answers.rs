//! Traced commands that were answered, on their way to the host: found again by their ends in the stream of bytes that
//! the connection sends.

use std::collections::VecDeque;

use fabric::Nanos;
use fabric::queue::SlotId;

use super::command::TracedCommand;
use super::part::Part;

/// A command whose answer is not sent yet.
#[derive(Debug)]
struct Answer {
    command: TracedCommand,
    /// The time since which the answer is where it is.
    since: Nanos,
    /// The end of the answer among the bytes that the connection has sent since it is traced.
    end: u64,
}

/// The traced commands of a connection whose answers are not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Answers in the transport, then in batches: in the order in which they leave.
    queued: VecDeque<Answer>,
    /// The first answers of `queued` that are in batches.
    in_batches: usize,
    /// Answers that wait for their turn on the connection.
    held: Vec<(SlotId, Answer)>,
    /// Ends of the batches that the driver has.
    batches: VecDeque<u64>,
    /// Bytes in all batches.
    taken: u64,
}

impl Answers {
    /// Adds an answer that is in the transport, which has `unsent` bytes with it.
    pub(crate) fn queue(&mut self, now: Nanos, command: TracedCommand, unsent: usize) {
        let end = self.taken.saturating_add(unsent as u64);
        self.queued.push_back(Answer { command, since: now, end });
    }

    /// Adds the answer of the command in a slot, which waits for its turn on the connection.
    pub(crate) fn hold(&mut self, now: Nanos, slot: SlotId, command: TracedCommand) {
        self.held.push((slot, Answer { command, since: now, end: 0 }));
    }

    /// Notes that the last part of a held answer is in the transport, which has `unsent` bytes with it.
    pub(crate) fn release(&mut self, slot: SlotId, unsent: usize) {
        let Some(at) = self.held.iter().position(|(held, _)| *held == slot) else { return };
        let (_, answer) = self.held.remove(at);
        let end = self.taken.saturating_add(unsent as u64);
        self.queued.push_back(Answer { end, ..answer });
    }

    /// Forgets a held answer, which is not sent.
    pub(crate) fn forget(&mut self, slot: SlotId) {
        self.held.retain(|(held, _)| *held != slot);
    }

    /// Notes that the driver gets a batch of `bytes` bytes.
    pub(crate) fn batch_taken(&mut self, now: Nanos, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes as u64);
        self.batches.push_back(self.taken);
        for answer in self.queued.iter_mut().skip(self.in_batches) {
            if answer.end > self.taken {
                break;
            }
            answer.command.times.add(Part::Reply, now.ns_since(answer.since));
            answer.since = now;
            self.in_batches += 1;
        }
    }

    /// Notes that the oldest of the `out` batches that the driver has is sent. Calls `traced` with each command whose
    /// answer is sent with it.
    pub(crate) fn batch_sent(
        &mut self,
        now: Nanos,
        out: usize,
        mut traced: impl FnMut(TracedCommand),
    ) {
        if out > self.batches.len() {
            // The batch was taken before the connection was traced.
            return;
        }
        let Some(sent) = self.batches.pop_front() else { return };
        while self.in_batches > 0
            && let Some(answer) = self.queued.pop_front_if(|answer| answer.end <= sent)
        {
            self.in_batches -= 1;
            let Answer { mut command, since, .. } = answer;
            command.times.add(Part::Socket, now.ns_since(since));
            traced(command);
        }
    }
}
