//! The places to which RDMA FLUSH brings bytes.

/// A place to which a FLUSH brings what WRITEs have written (InfiniBand specification, annex A19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// The place where all readers see the bytes, by any path.
    Global,
    /// Memory that keeps the bytes when the power is cut, and where all readers see them.
    Persistent,
}
