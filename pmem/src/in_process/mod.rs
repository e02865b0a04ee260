//! Providers within the process: shared words, at once ([`Immediate`]) or under simulated time with
//! a model of the NICs' capacities ([`Node`]).

mod immediate;
mod memory;
mod node;

pub use immediate::Immediate;
pub use memory::Memory;
pub use node::{Nics, Node, Port, PortId};
