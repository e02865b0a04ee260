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

/// An end with the state of its device.
#[derive(Debug)]
pub(crate) struct Nic<E, S> {
    end: E,
    state: S,
}

/// Batches that are sent, and a READ whose end is to be reported.
type Sent = (Vec<Batch<Vec<u8>>>, Option<Fetch>);
pub(crate) type NicTarget = Nic<TargetQueue<Vec<u8>, Vec<u8>>, Sent>;
/// The host's end: the answers to READs.
pub(crate) type NicHost = Nic<HostNic<Vec<u8>>, Vec<ToTarget>>;

impl<E, S: Default> From<E> for Nic<E, S> {
    fn from(end: E) -> Self {
        Self { end, state: S::default() }
    }
}

impl<E, S> Deref for Nic<E, S> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.end
    }
}

impl<E, S> DerefMut for Nic<E, S> {
    fn deref_mut(&mut self) -> &mut E {
        &mut self.end
    }
}

impl NicTarget {
    /// Removes the work that the end wants to post; earlier work has been sent.
    pub(crate) fn transmit(&mut self) -> Vec<ToHost> {
        for batch in self.state.0.drain(..) {
            self.end.give_back(batch);
        }
        let mut messages = Vec::new();
        while let Some(mut batch) = self.end.take_batch() {
            messages.extend(batch.posts.drain(..).map(|post| ToHost::Moved(Incoming::from(&post))));
            self.state.0.push(batch);
        }
        while let Some(fetch) = self.end.take_fetch() {
            messages.push(ToHost::Read(fetch));
        }
        messages
    }

    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [ToTarget],
    ) -> Result<Option<Received<'a>>, Violation> {
        if let Some(event) = self.end.next(&mut &[][..])? {
            return Ok(Some(event));
        }
        loop {
            if let Some(fetch) = self.state.1.take()
                && let Some(event) = self.end.fetched(&fetch)
            {
                return Ok(Some(event));
            }
            let Some((message, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            match message {
                ToTarget::Capsule(bytes) => {
                    let event = self.end.next(&mut std::slice::from_ref(bytes))?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                ToTarget::Fetched(fetch, bytes) => {
                    self.state.1 = Some(*fetch);
                    let Fetch { slot, offset, .. } = *fetch;
                    if self.end.wants_data(slot) {
                        return Ok(Some(Received::Data { slot, offset, bytes }));
                    }
                }
            }
        }
    }
}

impl NicHost {
    /// Removes the messages of the end and its device.
    pub(crate) fn transmit(&mut self) -> Vec<ToTarget> {
        let mut capsules = Vec::new();
        self.end.take_capsules(&mut capsules);
        let mut messages = std::mem::take(&mut self.state);
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
                    self.state.push(ToTarget::Fetched(*fetch, bytes));
                }
            }
        }
        Ok(None)
    }
}
