//! The devices at both ends of a queue pair, for tests: posted work at one end becomes messages to
//! the other, which move data from and to the host's memory.

use core::ops::{Deref, DerefMut};

use super::host_nic::{HostNic, Incoming};
use super::{Batch, TargetQueue, Violation};
use crate::queue::{Fetch, HostReceived, HostTransport, Received, Transport};

/// A message to the target's device.
#[derive(Clone, Debug)]
pub(crate) enum ToTarget {
    /// A command capsule was sent.
    Capsule(Vec<u8>),
    /// The answer to a READ.
    Fetched(Fetch, Vec<u8>),
}

/// A message to the host's device.
#[derive(Clone, Debug)]
pub(crate) enum ToHost {
    /// WRITE or SEND.
    Moved(Incoming),
    /// READ.
    Read(Fetch),
}

/// The target's end with its device.
#[derive(Debug)]
pub(crate) struct NicTarget {
    queue: TargetQueue<Vec<u8>, Vec<u8>>,
    out: Vec<Batch<Vec<u8>>>,
    ending: Option<Fetch>,
}

impl NicTarget {
    pub(crate) fn new(queue: TargetQueue<Vec<u8>, Vec<u8>>) -> Self {
        Self { queue, out: Vec::new(), ending: None }
    }

    /// Removes the work that the end wants to post; earlier work has been sent.
    pub(crate) fn transmit(&mut self) -> Vec<ToHost> {
        for batch in self.out.drain(..) {
            self.queue.give_back(batch);
        }
        let mut messages = Vec::new();
        while let Some(mut batch) = self.queue.take_batch() {
            messages.extend(batch.posts.drain(..).map(|post| ToHost::Moved(Incoming::from(&post))));
            self.out.push(batch);
        }
        while let Some(fetch) = self.queue.take_fetch() {
            messages.push(ToHost::Read(fetch));
        }
        messages
    }

    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [ToTarget],
    ) -> Result<Option<Received<'a>>, Violation> {
        if let Some(event) = self.queue.next(&mut &[][..])? {
            return Ok(Some(event));
        }
        loop {
            if let Some(fetch) = self.ending.take()
                && let Some(event) = self.queue.fetched(&fetch)
            {
                return Ok(Some(event));
            }
            let Some((message, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            match message {
                ToTarget::Capsule(bytes) => {
                    let event = self.queue.next(&mut std::slice::from_ref(bytes))?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                ToTarget::Fetched(fetch, bytes) => {
                    self.ending = Some(*fetch);
                    let Fetch { slot, offset, .. } = *fetch;
                    if self.queue.wants_data(slot) {
                        return Ok(Some(Received::Data { slot, offset, bytes }));
                    }
                }
            }
        }
    }
}

impl Deref for NicTarget {
    type Target = TargetQueue<Vec<u8>, Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl DerefMut for NicTarget {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.queue
    }
}

/// The host's end with its device, which answers READs.
#[derive(Debug)]
pub(crate) struct NicHost {
    end: HostNic<Vec<u8>>,
    answers: Vec<ToTarget>,
}

impl NicHost {
    /// Makes the end of a host with this many parts of its memory.
    pub(crate) fn new(parts: usize, part: u32, invalidate: bool) -> Self {
        Self { end: HostNic::new(parts, part, invalidate), answers: Vec::new() }
    }

    /// Removes the messages of the end and its device.
    pub(crate) fn transmit(&mut self) -> Vec<ToTarget> {
        let mut capsules = Vec::new();
        self.end.take_capsules(&mut capsules);
        let mut messages = std::mem::take(&mut self.answers);
        messages.extend(capsules.into_iter().map(ToTarget::Capsule));
        messages
    }

    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [ToHost],
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        if let Some(event) = self.end.next(&mut &[][..])? {
            return Ok(Some(event));
        }
        while let Some((message, rest)) = input.split_first() {
            *input = rest;
            match message {
                ToHost::Moved(incoming) => {
                    let event = self.end.next(&mut std::slice::from_ref(incoming))?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                ToHost::Read(fetch) => {
                    let bytes = self.end.read(fetch.remote, fetch.length)?;
                    self.answers.push(ToTarget::Fetched(*fetch, bytes));
                }
            }
        }
        Ok(None)
    }
}

impl Deref for NicHost {
    type Target = HostNic<Vec<u8>>;

    fn deref(&self) -> &Self::Target {
        &self.end
    }
}

impl DerefMut for NicHost {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.end
    }
}
