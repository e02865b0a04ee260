//! A client of a data node.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::sync::Arc;

use fabric::rdma::placement::Placement;
use fabric_verbs::{
    ActivePair, Completion, CompletionQueue, ConnectRequest, ConnectionParams, Device, Done, Error,
    Memory, QueuePair, QueuePairSize, Token, Work,
};
use pmem::admission::Refusal;
use pmem::message::ClientId;
use pmem::monitor::{self, Monitor};
use pmem::token::Tokens;

use crate::grant::{ControlWords, Grant, Terms};
use crate::message::{Message, Sync};
use crate::private_data::{Reject, Request, Rights};

/// READs and atomics of a client that are answered at once.
const READS: u8 = 16;
/// Messages that may be on their way to a client; those beyond are dropped.
const MESSAGES: u16 = 16;
/// Messages of a client that may come at once; a client that sends more waits.
const SYNCS: u16 = 16;

/// The name of a grant, chosen by its granter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantKey(pub u64);

/// The access of a client.
#[derive(Clone)]
pub struct Claim {
    /// The memory, and the part of it that is granted.
    pub data: (Arc<dyn Memory>, Range<usize>),
    /// The client's rights on the data.
    pub rights: Rights,
    /// R_i, in tokens of a period.
    pub reservation: Tokens,
    /// L_i, in tokens of a period.
    pub limit: Option<Tokens>,
    /// The placement by which a FLUSH promises as much as the answer to a sync; `None` where none does.
    pub flushes: Option<Placement>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data: (_, part), rights, reservation, limit, flushes } = self;
        write!(f, "Claim({part:?}, {rights:?}, {reservation} of {limit:?}, {flushes:?})")
    }
}

/// Looks up grants.
pub trait Grants {
    /// Finds the grant of a request.
    ///
    /// # Errors
    ///
    /// The reason for which the client is refused.
    fn claim(&mut self, wanted: &Request) -> Result<(GrantKey, Claim), Reject>;
}

/// A queue pair of the node.
pub(super) type Pair = ActivePair<Vec<u8>, Vec<u8>>;

/// The reason why a client has no connection.
#[derive(Debug)]
pub(super) enum Unaccepted {
    /// The memory, or a word, cannot be registered.
    Memory(Error),
    /// The connection cannot be made: the peer has gone, or the device has no room.
    Connection,
}

#[derive(Debug)]
pub(super) struct Client {
    // The queue pair ends before the rights that it is of.
    pair: Pair,
    /// Its rights, until they are revoked.
    grant: Option<Grant>,
    pub(super) key: GrantKey,
    reservation: Tokens,
    /// Whether the connection stands.
    pub(super) is_here: bool,
}

impl Client {
    /// Accepts a connection with the rights of a grant, as the client with that number.
    pub(super) fn accept(
        (device, words, number): (&Device, &ControlWords, u32),
        (key, claim): (GrantKey, Claim),
        asked: ConnectRequest,
        completions: &CompletionQueue,
        terms: Terms,
    ) -> Result<Self, Unaccepted> {
        let Claim { data, rights, reservation, limit, flushes } = claim;
        let grant = Grant::new(device, words, number, data, (rights, flushes));
        let grant = grant.map_err(Unaccepted::Memory)?;
        let token = Token(number.into());
        let pair = accept(asked, token, &grant, completions, Terms { limit, ..terms });
        let pair = pair.map_err(|_| Unaccepted::Connection)?;
        Ok(Self { pair, grant: Some(grant), key, reservation, is_here: false })
    }

    /// Returns the number of the client's queue pair.
    pub(super) fn queue_pair(&self) -> u32 {
        self.pair.pair().number()
    }

    /// Admits the client with its reservation. If the capacity has become too small for it since it
    /// was promised, admits the client without one and returns the refusal.
    pub(super) fn admit(&self, monitor: &mut Monitor, id: ClientId) -> Option<Refusal> {
        let refusal = monitor.admit(id, self.reservation).err()?;
        // Nothing always fits.
        let _ = monitor.admit(id, Tokens::ZERO);
        Some(refusal)
    }

    /// Sends a message, unless too many are on their way: the client does not look.
    pub(super) fn send(&mut self, message: Message) {
        if self.is_here && self.pair.posted() < usize::from(MESSAGES) {
            // The connection manager reports an ended connection.
            let _ = self.pair.post([Work::send(&message.emit(), None)]);
        }
    }

    /// Handles a completion of the client's queue pair.
    pub(super) fn complete(
        &mut self,
        completion: Completion,
        done: impl FnMut(Done<Vec<u8>, Vec<u8>>),
    ) {
        self.pair.complete(completion, done);
        // If the connection has ended, nothing more can arrive.
        let _ = self.pair.repost();
    }

    /// Returns how far the client's packets have come; `None` if the device does not tell.
    pub(super) fn arrivals(&self, io_bytes: NonZeroU32) -> Option<monitor::Arrivals> {
        let fabric_verbs::Arrivals { next, packet } = self.pair.pair().arrivals().ok()?;
        let rights = self.grant.as_ref()?.rights();
        Some(monitor::Arrivals { next, packets_per_io: packets_per_io(io_bytes, packet, rights) })
    }

    /// Ends the client's rights: the device refuses its operations from now on.
    pub(super) fn revoke(&mut self) {
        self.grant = None;
    }

    /// Ends the client's rights, then its connection.
    pub(super) fn end(mut self) {
        self.revoke();
        // It has perhaps ended already.
        let _ = self.pair.pair().id().disconnect();
        drop(self.pair.destroy());
    }
}

/// Returns the packets of an I/O of `io_bytes`, at `packet` bytes each. A client that may write can follow each I/O by a
/// sync, which takes no token: a message or a FLUSH of one packet.
fn packets_per_io(io_bytes: NonZeroU32, packet: u32, rights: Rights) -> NonZeroU64 {
    let data = NonZeroU64::from(io_bytes).get().div_ceil(u64::from(packet.max(1)));
    NonZeroU64::MIN.saturating_add(match rights {
        Rights::Read => data - 1,
        Rights::ReadWrite => data,
    })
}

/// Returns the room that the completions of so many queue pairs need.
pub(super) fn completions(pairs: u32) -> u32 {
    pairs.saturating_mul(u32::from(MESSAGES) + u32::from(SYNCS))
}

/// Accepts a connection with the rights of a grant.
pub(super) fn accept(
    mut asked: ConnectRequest,
    token: Token,
    grant: &Grant,
    completions: &CompletionQueue,
    terms: Terms,
) -> Result<Pair, Error> {
    asked.id.set_token(token);
    let params = ConnectionParams {
        responder_resources: asked.responder_resources.min(READS),
        initiator_depth: 0,
        retries: 7,
        not_ready_retries: 7,
    };
    let size = QueuePairSize {
        sends: MESSAGES.into(),
        receives: SYNCS,
        receive_bytes: Sync::LENGTH,
        send_payloads: false,
        flushes: false,
    };
    let pair = QueuePair::new(asked.id, grant.regions(), completions, size)?;
    pair.accept(params, &grant.accept(terms).emit(), None)?;
    Ok(pair.activate())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2_write_rights_allow_a_sync_packet() {
        let packets = |io_bytes, packet, rights| {
            packets_per_io(NonZeroU32::new(io_bytes).unwrap(), packet, rights).get()
        };
        assert_eq!(packets(4096, 4096, Rights::Read), 1);
        assert_eq!(packets(4096, 1024, Rights::Read), 4);
        assert_eq!(packets(4097, 4096, Rights::Read), 2);
        assert_eq!(packets(64, 4096, Rights::ReadWrite), 2);
        assert_eq!(packets(4096, 1024, Rights::ReadWrite), 5);
        assert_eq!(packets(u32::MAX, 0, Rights::Read), u64::from(u32::MAX));
    }
}
