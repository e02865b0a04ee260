//! The target's end of a queue, over TCP or over RDMA, both in one reactor.

use fabric::queue::{Either, Transport};
use fabric::rdma::wire::TargetQueue;
use fabric::tcp::TargetConnection;
use sluice_core::TxData;
use sluice_core::heap::HeapBuffer;

/// Data that the target returns.
pub(crate) type Returned = TxData<HeapBuffer>;
/// The target's end of a queue.
pub(crate) type TargetEnd = Either<TargetConnection<Returned>, TargetQueue<Returned, Vec<u8>>>;
/// The batch that is sent at a time.
pub(crate) type Batch = <TargetEnd as Transport>::Batch;
