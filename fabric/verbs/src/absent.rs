//! Replacements for `devices` in builds without the feature `rdma`: types that have no value. The calls that would
//! create the first values fail, so that the code above these types compiles, and never runs.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;

use crate::error::Error;
use crate::event::{ConnectRequest, Event};
use crate::facts::{Arrivals, DeviceEvent, DeviceLimits, RateRange};
use crate::memory::{Access, Memory, Stable, StableMut};
use crate::operation::{OneSidedEvent, OneSidedSize, OneSidedWork, Ticket, Unposted};
use crate::params::{ConnectionParams, Token};
use crate::work::{Done, QueuePairSize, Work};

/// Defines types without a value.
macro_rules! types {
    ($($name:ident)*) => {$(
        /// The type of builds with RDMA has values and a description.
        #[derive(Clone, Debug)]
        pub struct $name(Infallible);

        // Its users drop a handle to end it.
        impl Drop for $name {
            fn drop(&mut self) {
                match self.0 {}
            }
        }
    )*};
}

/// Defines methods of a value that does not exist.
macro_rules! methods {
    ($($name:ident($self:ident: $receiver:ty $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        /// The method of builds with RDMA has a description.
        pub fn $name($self: $receiver $(, $argument: $type)*) $(-> $result)? {
            $(let _ = $argument;)*
            match $self.0 {}
        }
    )*};
}

/// Defines functions with a first argument that does not exist.
macro_rules! functions {
    ($($name:ident($first:ident: $absent:ty $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {$(
        /// The function of builds with RDMA has a description.
        pub fn $name($first: $absent $(, $argument: $type)*) -> $result {
            $(let _ = $argument;)*
            match $first.0 {}
        }
    )*};
}

/// Implements access to the file descriptor.
macro_rules! descriptors {
    ($($name:ident)*) => {$(
        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                match self.0 {}
            }
        }
    )*};
}

types! {
    Arena Part Completion CompletionQueue EventChannel Id Listener Device Domain DeviceEvents OneSided
    QueuePair RateLimit ReceiveBuffer Region Regions SharedMemory
}

/// The type of builds with RDMA has values and a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(Infallible);

descriptors! { CompletionQueue EventChannel DeviceEvents OneSided }

impl Arena {
    functions! { new(regions: &Regions, length: usize, access: Access) -> Result<Self, Error>; }
    methods! {
        remote(self: &Self) -> Remote;
        length(self: &Self) -> usize;
        write(self: &mut Self, offset: usize, bytes: &[u8]) -> bool;
        read(self: &Self, offset: usize, into: &mut [u8]) -> bool;
    }
}

impl Part {
    functions! { several(regions: &Regions, count: u16, length: usize) -> Result<Vec<Self>, Error>; }
    methods! {
        bytes(self: &Self) -> &[u8];
        bytes_mut(self: &mut Self) -> &mut [u8];
    }
}

// SAFETY: there is no value.
unsafe impl Stable for Part {
    fn stable_bytes(&self) -> &[u8] {
        match self.0 {}
    }
}

// SAFETY: there is no value.
unsafe impl StableMut for Part {
    fn stable_bytes_mut(&mut self) -> &mut [u8] {
        match self.0 {}
    }
}

impl Outcome {
    methods! {
        is_success(self: Self) -> bool;
        is_flushed(self: Self) -> bool;
        is_remote_access(self: Self) -> bool;
        is_unanswered(self: Self) -> bool;
        text(self: Self) -> &'static str;
    }
}

impl Completion {
    methods! {
        queue_pair(self: &Self) -> u32;
        outcome(self: &Self) -> Outcome;
    }
}

impl CompletionQueue {
    functions! { new(device: &Device, capacity: u32) -> Result<Self, Error>; }
    methods! {
        capacity(self: &Self) -> u32;
        share(self: &Self) -> Self;
        poll(self: &mut Self, into: &mut Vec<Completion>) -> Result<bool, Error>;
        arm(self: &mut Self) -> Result<(), Error>;
        take_events(self: &mut Self);
    }
}

impl EventChannel {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    methods! { next(self: &Self) -> Result<Option<Event>, Error>; }
}

impl AsRawFd for EventChannel {
    fn as_raw_fd(&self) -> i32 {
        match self.0 {}
    }
}

impl Id {
    functions! {
        resolve(channel: &EventChannel, peer: SocketAddr, time: Duration, token: Token) -> Result<Self, Error>;
    }
    methods! {
        resolve_route(self: &Self, time: Duration) -> Result<(), Error>;
        connect(self: &Self, params: ConnectionParams, private_data: &[u8]) -> Result<(), Error>;
        disconnect(self: &Self) -> Result<(), Error>;
        set_token(self: &mut Self, token: Token);
        set_tos(self: &Self, tos: u8) -> Result<(), Error>;
        device(self: &Self) -> Result<Device, Error>;
        port(self: &Self) -> u8;
        traffic_class(self: &Self) -> Option<u8>;
        local_address(self: &Self) -> SocketAddr;
        peer_address(self: &Self) -> SocketAddr;
    }
}

impl ConnectRequest {
    /// The method of builds with RDMA has a description.
    pub fn reject(self, _: &[u8]) {
        match self.id.0 {}
    }
}

impl Listener {
    functions! {
        new(channel: &EventChannel, address: SocketAddr, backlog: u32, token: Token) -> Result<Self, Error>;
    }
    methods! {
        device(self: &Self) -> Result<Device, Error>;
        is_on(self: &Self, device: &Device) -> bool;
        local_address(self: &Self) -> SocketAddr;
    }
}

impl Device {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn all() -> Result<Vec<Self>, Error> {
        Err(Error::NotBuilt)
    }

    methods! {
        name(self: &Self) -> &str;
        limits(self: &Self) -> DeviceLimits;
    }
}

impl PartialEq for Device {
    fn eq(&self, _: &Self) -> bool {
        match self.0 {}
    }
}

impl Domain {
    functions! { new(device: &Device) -> Result<Self, Error>; }
    methods! { device(self: &Self) -> &Device; }
}

impl DeviceEvents {
    functions! { new(device: &Device) -> Result<Self, Error>; }
    methods! {
        device(self: &Self) -> &Device;
        next(self: &Self) -> Result<Option<DeviceEvent>, Error>;
    }
}

impl OneSided {
    functions! { new(id: Id, regions: &Regions, size: OneSidedSize) -> Result<Self, Error>; }
    methods! {
        id(self: &Self) -> &Id;
        pair(self: &Self) -> &QueuePair;
        under_way(self: &Self) -> usize;
        flushes(self: &Self) -> bool;
        post(self: &mut Self, ticket: Ticket, work: OneSidedWork) -> Result<(), Unposted>;
        poll(self: &mut Self, event: impl FnMut(OneSidedEvent)) -> Result<(), Error>;
        arm(self: &mut Self) -> Result<(), Error>;
        take_events(self: &mut Self);
    }
}

impl QueuePair {
    functions! {
        new(id: Id, regions: &Regions, completions: &CompletionQueue, size: QueuePairSize) -> Result<Self, Error>;
    }
    methods! {
        with_copied_payloads(self: Self, sends: u32, most: usize) -> Result<Self, Error>;
        id(self: &Self) -> &Id;
        rate_limit(self: &Self) -> Option<RateLimit>;
        accept(self: &Self, params: ConnectionParams, private_data: &[u8], tos: Option<u8>) -> Result<u32, Error>;
        number(self: &Self) -> u32;
        arrivals(self: &Self) -> Result<Arrivals, Error>;
    }

    /// The method of builds with RDMA has a description.
    pub fn activate<P: Stable, B: StableMut>(self) -> ActivePair<P, B> {
        match self.0 {}
    }
}

/// The type of builds with RDMA has values and a description.
#[derive(Debug)]
pub struct ActivePair<P, B>(Infallible, PhantomData<(P, B)>);

impl<P: Stable, B: StableMut> ActivePair<P, B> {
    methods! {
        pair(self: &Self) -> &QueuePair;
        reaches(self: &Self, bytes: &[u8]) -> bool;
        repost(self: &mut Self) -> Result<(), Error>;
        is_short(self: &Self) -> bool;
        post(self: &mut Self, works: impl IntoIterator<Item = Work<P, B>>) -> Result<(), (Error, Vec<Work<P, B>>)>;
        flushes(self: &Self) -> bool;
        flush(self: &mut Self, remote: Remote, length: u32, placement: Placement) -> Result<(), Error>;
        complete(self: &mut Self, completion: Completion, done: impl FnMut(Done<P, B>));
        posted(self: &Self) -> usize;
        set_error(self: &mut Self) -> Result<(), Error>;
        give_up(self: &mut Self) -> Vec<Completion>;
        retire(self: Self) -> Result<QueuePair, Self>;
        destroy(self: Self) -> Vec<Work<P, B>>;
    }
}

impl RateLimit {
    methods! {
        range(self: &Self) -> RateRange;
        set(self: &Self, rate: Option<NonZeroU32>) -> Result<(), Error>;
    }
}

impl Deref for ReceiveBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self.0 {}
    }
}

impl Region {
    functions! {
        new(domain: &Domain, memory: Arc<dyn Memory>, access: Access) -> Result<Self, Error>;
        part(domain: &Domain, memory: Arc<dyn Memory>, part: Range<usize>, access: Access) -> Result<Self, Error>;
    }
    methods! {
        remote(self: &Self) -> Remote;
        length(self: &Self) -> usize;
    }
}

impl Regions {
    functions! { new(domain: &Domain) -> Self; }
    methods! {
        domain(self: &Self) -> &Domain;
        add(self: &Self, memory: Arc<dyn Memory>, access: Access) -> Result<Arc<Region>, Error>;
        set_on_demand(self: &Self, memories: &[Arc<dyn Memory>]) -> Result<(), Error>;
        has(self: &Self, bytes: &[u8]) -> bool;
    }
}

// SAFETY: there is no value.
unsafe impl Memory for SharedMemory {
    fn address(&self) -> *mut u8 {
        match self.0 {}
    }

    fn length(&self) -> usize {
        match self.0 {}
    }
}

impl SharedMemory {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: usize) -> Result<Self, Error> {
        Err(Error::NotBuilt)
    }

    methods! {
        length(self: &Self) -> usize;
        share(self: &Self, domain: &Domain, part: Range<usize>, access: Access) -> Result<Region, Error>;
        load(self: &Self, offset: usize) -> Option<u64>;
        store(self: &Self, offset: usize, value: u64) -> bool;
    }
}
