//! The result of a write, in words.

use fabric::rdma::placement::Placement;

/// The flush method of a write.
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
    /// The flush method, as far as the region's kind permits; `None` if there were no bytes.
    pub(crate) flushed_by: Option<FlushedBy>,
}
