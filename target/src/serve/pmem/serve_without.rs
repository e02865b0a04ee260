//! Stands in for the data node in builds without RDMA.

use crate::serve::shared::Shared;

/// Says that clients cannot connect: the body of the thread.
pub(crate) fn run(shared: &Shared, _: impl Fn() -> bool) {
    if shared.pmem.set_open(Err(crate::serve::rdma::WITHOUT.to_owned())) {
        tracing::error!("regions are not served: {}", crate::serve::rdma::WITHOUT);
    }
}
