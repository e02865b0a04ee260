//! The answers of methods.
//!
//! A field that an older daemon does not send has its default value, so that the command line can
//! show the other fields.

mod changes;
mod events;
mod measured;
mod network;
mod pmem;
mod qos;
mod target;
mod traces;

pub use changes::{
    AnyHost, Changed, ConfigDiff, ConfigMerged, Configuration, Difference, HostName, KeyDifference,
    ListenerClass, ListenerLink, ListenerName, LiveChange, Name, NamespaceAdded, NamespaceClass,
    NamespaceName, NamespaceResized, Nothing, Policy, Reloaded, Reverted, SubsystemAdded,
    SubsystemName,
};
pub use events::{Event, Events};
pub use measured::{
    HostIo, Io, Latency, NamespaceIo, Operations, QueueIo, ReactorChanges, Statistics, WorkloadIo,
};
pub use network::{
    ConnectionNetwork, DirectionState, FlowState, LinkClassState, LinkRow, LinkSettings, Network,
    NetworkSettings,
};
pub use pmem::{
    CapacityProfile, EvictedHost, Pmem, PmemSettings, RegionClient, RegionRow, RegionSettings,
};
pub use qos::{
    ByClass, ClassTraffic, ContainerPromise, CreditUse, DeviceProfile, DeviceRow, DeviceTimes,
    Limits, MeanTimes, ProfileSettings, Qos, QosSettings, Reservation, Session, SessionSettings,
    Traffic, WindowBound,
};
pub use target::{
    Authentication, Availability, Connection, FileSystem, HostKey, HostKeys, HostRights, Hosts,
    Listener, LostHost, Namespace, NamespaceRow, Reactor, Status, Subsystem,
};
pub use traces::{LogLevel, Trace, TraceStarted, TracedCommand};
