//! Providers within the process: shared words, under simulated time with a model of the NICs'
//! capacities ([`Node`]).

#[cfg(test)]
mod immediate;
mod memory;
mod node;

#[cfg(test)]
pub(crate) use immediate::Immediate;
pub use memory::Memory;
pub use node::{Nics, Node, Port, PortId};
