//! Wire types of NVMe over Fabrics: Connect, Property Get and Set, Disconnect, discovery log page.

mod connect;
mod discovery;
mod property;

pub use connect::{
    CONNECT_DATA_BYTES, ConnectAttributes, ConnectCommand, ConnectData, ConnectField, nqn_field,
};
pub use discovery::{DiscoveryEntry, DiscoveryHeader, EntryFlags, subtype, trtype};
pub use property::{PropertyGet, PropertySet, PropertySize};

/// NQN of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Longest NQN in bytes, without the NUL that ends it on the wire (base 2.0, section 4.5).
pub const NQN_MAX: usize = 223;
