//! A network, packet by packet: senders with windows and with rates, acknowledgements that queue,
//! switches that share a buffer, mark, pause and lose.
//!
//! - [`topology`]: hosts, switches and links; [`Dumbbell`] and [`FatTree`] build usual ones.
//! - [`Network`]: the engine on a topology. Flows are opened on it; it returns the time of its next event, and the
//!   events for the ends of flows.
//! - `window`, `rate`, `receiver`: the ends of a flow; `port`, `switch`: the hops of packets.
//!
//! The content of streams stays with the caller: the network counts bytes.
//!
//! # The cost of a packet
//!
//! Each port has one event in the calendar for the next arrival at its far end, and one for the end of the transmission
//! in progress if something waits. A host's port requests packets from its flows, in turn, when it is free: flows wait
//! there, as under the kernel's limit on the packets of one socket below it (TCP small queues) with a fair queue. So
//! the calendar has as many events as there are ports and timers at the most, and a packet is kept once, where it is.
//! Nothing is allocated for one: queues keep their room.

mod engine;
mod flow;
mod node;
mod packet;
mod port;
mod rate;
mod receiver;
mod route;
mod stream;
mod switch;
mod time;
pub mod topology;
mod window;

#[cfg(test)]
mod tests;

pub use engine::{Network, Totals};
pub use flow::{Event, FlowInfo, FlowSpec, Sender, URGENT};
pub use node::{FlowId, NodeId, PortId};
pub use port::PortCounters;
pub use rate::RateControl;
pub use topology::{
    Dumbbell, FatTree, Link, Marking, Packets, Pause, Switch, Topology, TopologyError,
};
pub use window::Control;
