//! What a write has done, in words.

use fabric::rdma::placement::Placement;

/// What made the bytes of a write survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushedBy {
    /// RDMA FLUSHes to this place, by the RDMA device of the data node.
    Flush(Placement),
    /// The data node, which was asked.
    DataNode,
}

impl FlushedBy {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Flush(Placement::Global) => "RDMA FLUSH (global)",
            Self::Flush(Placement::Persistent) => "RDMA FLUSH (persistent)",
            Self::DataNode => "the data node",
        }
    }
}

/// A write that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// What made them survive, as far as the region's kind lets them; `None` where there were none.
    pub(crate) flushed_by: Option<FlushedBy>,
}
