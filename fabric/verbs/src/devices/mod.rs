//! Devices, connections, queue pairs and registered memory.

mod arena;
mod completion;
mod connection;
mod device;
mod device_events;
mod events;
mod extended;
mod flush;
mod one_sided;
mod queue_pair;
mod rate_limit;
mod receive;
mod region;
mod shared;

pub use arena::{Arena, Part};
pub use completion::{Completion, CompletionQueue, Outcome};
pub use connection::{EventChannel, Id, Listener};
pub use device::{Device, Domain};
pub use device_events::DeviceEvents;
pub use one_sided::OneSided;
pub use queue_pair::{ActivePair, QueuePair};
pub use rate_limit::RateLimit;
pub use receive::ReceiveBuffer;
pub use region::{Region, Regions};
pub use shared::SharedMemory;
