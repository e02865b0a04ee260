//! The thread that makes what clients have written survive.
//!
//! A disk may take long over it, and the data node's thread has a monitor to run each millisecond.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use pmem::medium::Medium as _;
use pmem_verbs::message::Sync;

use super::grants::GrantId;
use super::shared::{Found, Order, PmemShared};
use fabric::nvme::region::RegionRights;

/// Wishes of one client that may wait; further ones are answered with failure.
const OF_CLIENT: u32 = 16;
/// The most bytes of one wish.
const LONGEST: u64 = 64 << 20;

/// A client's wish.
#[derive(Debug)]
struct Wish {
    client: GrantId,
    asked: Sync,
    of: Found,
}

/// The thread and the wishes that wait for it.
#[derive(Debug)]
pub(super) struct Syncer {
    sender: Option<SyncSender<Wish>>,
    thread: Option<JoinHandle<()>>,
    waiting: HashMap<GrantId, u32>,
}

impl Syncer {
    /// Starts the thread, which answers by orders for the data node, of `clients` clients at the most.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(pmem: Arc<PmemShared>, clients: u32) -> std::io::Result<Self> {
        let room = clients.saturating_mul(OF_CLIENT);
        let (sender, wishes) = sync_channel(usize::try_from(room).unwrap_or(usize::MAX));
        let body = move || carry_out(&pmem, &wishes);
        let thread = Builder::new().name("pmem-sync".to_owned()).spawn(body)?;
        Ok(Self { sender: Some(sender), thread: Some(thread), waiting: HashMap::new() })
    }

    /// Takes a client's wish. Returns false for a wish that is answered with failure at once: too much at one time,
    /// beyond the region, or from a client that may only read.
    pub(super) fn take(&mut self, client: GrantId, asked: Sync, of: Found) -> bool {
        let waiting = self.waiting.entry(client).or_default();
        let end = asked.offset.checked_add(asked.length);
        let is_good = *waiting < OF_CLIENT
            && asked.length <= LONGEST
            && end.is_some_and(|end| end <= of.region.bytes)
            && of.grant.rights == RegionRights::ReadWrite;
        let sent = is_good
            && self
                .sender
                .as_ref()
                .is_some_and(|sender| sender.try_send(Wish { client, asked, of }).is_ok());
        *waiting += u32::from(sent);
        sent
    }

    /// Notes that a wish was answered.
    pub(super) fn answered(&mut self, client: GrantId) {
        if let Some(waiting) = self.waiting.get_mut(&client) {
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// Forgets a client that has gone. Its wishes are carried out all the same.
    pub(super) fn forget(&mut self, client: GrantId) {
        self.waiting.remove(&client);
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Carries out wishes until there can be no more: the body of the thread.
fn carry_out(pmem: &PmemShared, wishes: &Receiver<Wish>) {
    for Wish { client, asked, of } in wishes {
        let memory = &of.region.memory;
        memory.flush(asked.offset, asked.length);
        memory.fence();
        let done = memory.sync();
        if let Err(error) = &done {
            let (region, host) = (of.grant.region, &of.grant.host);
            tracing::error!(%region, host, %error, "what a client wrote may not survive");
        }
        pmem.order([Order::Synced { client, ticket: asked.ticket, done: done.is_ok() }]);
    }
}
