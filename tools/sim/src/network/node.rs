//! The names of a network's parts.

/// A host or a switch: the number of nodes of its topology that were added before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A flow: the number of its slot, which another flow may have once this one is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// One direction of a link: the number by which it is counted ([`super::Network::counters`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Returns an entry by its number.
#[inline]
pub(super) fn of<T>(table: &[T], number: u32) -> Option<&T> {
    table.get(number as usize)
}

/// Returns an entry by its number, mutably.
#[inline]
pub(super) fn of_mut<T>(table: &mut [T], number: u32) -> Option<&mut T> {
    table.get_mut(number as usize)
}
