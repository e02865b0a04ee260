//! The connection manager: its channel, connections and listeners.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use rdma_sys::{
    rdma_accept, rdma_bind_addr, rdma_cm_id, rdma_conn_param, rdma_connect,
    rdma_create_event_channel, rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id,
    rdma_disconnect, rdma_event_channel, rdma_get_local_addr, rdma_get_peer_addr, rdma_listen,
    rdma_port_space, rdma_resolve_addr, rdma_resolve_route, rdma_set_option,
};

use super::device::Device;
use crate::error::Error;
use crate::params::{ConnectionParams, Token};

/// Makes calls on a descriptor return instead of blocking.
pub(super) fn set_non_blocking(fd: BorrowedFd<'_>) -> Result<(), Error> {
    let call = |source: nix::Error| Error::Call { call: "fcntl", source: source.into() };
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).map_err(call)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map_err(call)?;
    Ok(())
}

#[derive(Debug)]
pub(super) struct RawChannel(pub(super) NonNull<rdma_event_channel>);

// SAFETY: the connection manager's functions may be called by all threads.
unsafe impl Send for RawChannel {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawChannel {}

impl Drop for RawChannel {
    fn drop(&mut self) {
        // SAFETY: identifiers hold their channel, so none is left.
        unsafe { rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

/// The channel of the events of listeners and connections.
#[derive(Debug)]
pub struct EventChannel(pub(super) Arc<RawChannel>);

impl EventChannel {
    /// Opens a channel.
    ///
    /// # Errors
    /// The machine has no RDMA.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: the call has no arguments.
        let raw = NonNull::new(unsafe { rdma_create_event_channel() });
        let raw = raw.ok_or_else(|| Error::NoRdma(std::io::Error::last_os_error()))?;
        let channel = Self(Arc::new(RawChannel(raw)));
        set_non_blocking(channel.as_fd())?;
        Ok(channel)
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is open as long as it lives.
        unsafe { BorrowedFd::borrow_raw((*self.0.0.as_ptr()).fd) }
    }
}

impl AsRawFd for EventChannel {
    fn as_raw_fd(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}

/// A connection of the connection manager, or the beginning of one.
#[derive(Debug)]
pub struct Id {
    pub(super) raw: NonNull<rdma_cm_id>,
    pub(super) _channel: Arc<RawChannel>,
}

// SAFETY: the connection manager's functions may be called by all threads.
unsafe impl Send for Id {}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: its queue pair is gone (`QueuePair` drops it before), and its events are
        // acknowledged as they are taken.
        unsafe { rdma_destroy_id(self.raw.as_ptr()) };
    }
}

impl ConnectionParams {
    /// Makes the C structure, which points to the private data.
    fn raw(self, private_data: &[u8]) -> rdma_conn_param {
        // SAFETY: all zeroes are parameters.
        let mut raw: rdma_conn_param = unsafe { std::mem::zeroed() };
        raw.private_data = private_data.as_ptr().cast();
        raw.private_data_len = u8::try_from(private_data.len()).unwrap_or(u8::MAX);
        raw.responder_resources = self.responder_resources;
        raw.initiator_depth = self.initiator_depth;
        raw.retry_count = self.retries.min(7);
        raw.rnr_retry_count = self.not_ready_retries.min(7);
        raw
    }
}

impl Id {
    fn create(channel: &EventChannel, token: Token) -> Result<Self, Error> {
        let mut raw = null_mut();
        let (of, context) = (channel.0.0.as_ptr(), token.0 as *mut _);
        // SAFETY: the channel is open; the context is a number that nobody follows.
        let answer =
            unsafe { rdma_create_id(of, &raw mut raw, context, rdma_port_space::RDMA_PS_TCP) };
        Error::check("rdma_create_id", answer)?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("rdma_create_id"))?;
        Ok(Self { raw, _channel: Arc::clone(&channel.0) })
    }

    /// Begins a connection to an address: [`Event::AddressResolved`](crate::Event::AddressResolved) follows.
    ///
    /// # Errors
    /// The address is of no RDMA device.
    pub fn resolve(
        channel: &EventChannel,
        peer: SocketAddr,
        time: Duration,
        token: Token,
    ) -> Result<Self, Error> {
        let id = Self::create(channel, token)?;
        let mut address = RawAddress::new(peer);
        let time = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: identifier and address live during the call.
        let answer = unsafe { rdma_resolve_addr(id.raw(), null_mut(), address.as_mut_ptr(), time) };
        id.of_address(peer, answer)?;
        Ok(id)
    }

    /// Resolves the route to the address: [`Event::RouteResolved`](crate::Event::RouteResolved) follows.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resolve_route(&self, time: Duration) -> Result<(), Error> {
        let time = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the identifier lives.
        Error::check("rdma_resolve_route", unsafe { rdma_resolve_route(self.raw(), time) })
    }

    /// Asks the peer for the connection: [`Event::Established`](crate::Event::Established) or [`Event::Rejected`](crate::Event::Rejected) follows.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn connect(&self, params: ConnectionParams, private_data: &[u8]) -> Result<(), Error> {
        let mut params = params.raw(private_data);
        // SAFETY: identifier and private data live during the call.
        Error::check("rdma_connect", unsafe { rdma_connect(self.raw(), &raw mut params) })
    }

    /// Accepts a connection that a peer asked for, with its queue pair's number where the identifier
    /// does not know the queue pair.
    pub(super) fn accept(
        &self,
        params: ConnectionParams,
        private_data: &[u8],
        number: u32,
    ) -> Result<(), Error> {
        let mut params = params.raw(private_data);
        params.qp_num = number;
        // SAFETY: identifier and private data live during the call.
        Error::check("rdma_accept", unsafe { rdma_accept(self.raw(), &raw mut params) })
    }

    /// Ends the connection: the queue pair's works come back flushed, and the peer is notified.
    ///
    /// # Errors
    /// It has ended already.
    pub fn disconnect(&self) -> Result<(), Error> {
        // SAFETY: the identifier lives.
        Error::check("rdma_disconnect", unsafe { rdma_disconnect(self.raw()) })
    }

    /// Names the connection for its events.
    pub fn set_token(&mut self, token: Token) {
        // SAFETY: the identifier lives; only this module reads the context, as a number.
        unsafe { (*self.raw()).context = token.0 as *mut _ };
    }

    /// Sets the traffic class byte (ToS) of the connection's packets, before the peer is asked for
    /// it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_tos(&self, tos: u8) -> Result<(), Error> {
        const RDMA_OPTION_ID: i32 = 0;
        const RDMA_OPTION_ID_TOS: i32 = 0;
        let mut tos = tos;
        // SAFETY: the option is a byte, which lives during the call.
        let answer = unsafe {
            rdma_set_option(
                self.raw(),
                RDMA_OPTION_ID,
                RDMA_OPTION_ID_TOS,
                (&raw mut tos).cast(),
                size_of::<u8>(),
            )
        };
        Error::check("rdma_set_option", answer)
    }

    /// Returns the device of the connection.
    ///
    /// # Errors
    /// The address was not resolved, or the device is gone.
    pub fn device(&self) -> Result<Device, Error> {
        // SAFETY: the identifier lives.
        Device::find(unsafe { (*self.raw()).verbs })
    }

    /// Returns the number of the device's port that the connection uses, from 1 on; 0 while the address
    /// is not resolved.
    #[must_use]
    pub fn port(&self) -> u8 {
        // SAFETY: the identifier lives.
        unsafe { (*self.raw()).port_num }
    }

    /// Returns the traffic class byte of the connection's route.
    #[must_use]
    pub fn traffic_class(&self) -> Option<u8> {
        // SAFETY: the identifier lives, and its route has as many paths as it says.
        unsafe {
            let route = &(*self.raw()).route;
            let path = NonNull::new(route.path_rec).filter(|_| route.num_paths > 0)?;
            Some((*path.as_ptr()).traffic_class)
        }
    }

    /// Returns this machine's address of the connection or listener.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        // SAFETY: the identifier lives, and has room for an address of any family.
        unsafe { address_of(rdma_get_local_addr(self.raw.as_ref())) }
    }

    /// Returns the peer's address.
    #[must_use]
    pub fn peer_address(&self) -> SocketAddr {
        // SAFETY: as above.
        unsafe { address_of(rdma_get_peer_addr(self.raw.as_ref())) }
    }

    fn of_address(&self, address: SocketAddr, answer: i32) -> Result<(), Error> {
        if answer == 0 {
            return Ok(());
        }
        Err(Error::Address { address, source: std::io::Error::last_os_error() })
    }

    pub(super) fn raw(&self) -> *mut rdma_cm_id {
        self.raw.as_ptr()
    }
}

/// An address on which peers may connect.
#[derive(Debug)]
pub struct Listener(Id);

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// The address is of no RDMA device, or in use.
    pub fn new(
        channel: &EventChannel,
        address: SocketAddr,
        backlog: u32,
        token: Token,
    ) -> Result<Self, Error> {
        const RDMA_OPTION_ID: i32 = 0;
        const RDMA_OPTION_ID_AFONLY: i32 = 2;
        let id = Id::create(channel, token)?;
        if address.is_ipv6() {
            let mut only: i32 = 1;
            // SAFETY: the option is an int, which lives during the call. Without it an address of
            // IPv4 may be taken too, no more.
            unsafe {
                rdma_set_option(
                    id.raw(),
                    RDMA_OPTION_ID,
                    RDMA_OPTION_ID_AFONLY,
                    (&raw mut only).cast(),
                    size_of::<i32>(),
                )
            };
        }
        let mut raw = RawAddress::new(address);
        // SAFETY: identifier and address live during the call.
        let answer = unsafe { rdma_bind_addr(id.raw(), raw.as_mut_ptr()) };
        id.of_address(address, answer)?;
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        // SAFETY: the identifier lives.
        let answer = unsafe { rdma_listen(id.raw(), backlog) };
        id.of_address(address, answer)?;
        Ok(Self(id))
    }

    /// Returns the device of the listener's address.
    ///
    /// # Errors
    /// The address is of all devices, or the device is gone.
    pub fn device(&self) -> Result<Device, Error> {
        self.0.device()
    }

    /// Returns whether the listener's address is of that device.
    #[must_use]
    pub fn is_on(&self, device: &Device) -> bool {
        // SAFETY: the identifier lives.
        std::ptr::eq(unsafe { (*self.0.raw()).verbs }, device.raw())
    }

    /// Returns the address that the listener has.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }
}

/// A socket address in the form of C.
#[repr(C)]
union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    fn new(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self {
                v4: libc::sockaddr_in {
                    sin_family: family(libc::AF_INET),
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(address) => Self {
                v6: libc::sockaddr_in6 {
                    sin6_family: family(libc::AF_INET6),
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                },
            },
        }
    }

    fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut *self).cast()
    }
}

/// Returns a family's number as addresses have it.
fn family(number: i32) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

/// Reads a socket address; an unspecified one where it is of no known family.
///
/// # Safety
/// Behind the address there is room for one of any family.
unsafe fn address_of(address: &libc::sockaddr) -> SocketAddr {
    let raw = &raw const *address;
    match i32::from(address.sa_family) {
        libc::AF_INET => {
            // SAFETY: the family says so, and the caller that there is room.
            let address = unsafe { &*raw.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into()
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { &*raw.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let (port, scope) = (u16::from_be(address.sin6_port), address.sin6_scope_id);
            SocketAddrV6::new(ip, port, 0, scope).into()
        }
        _ => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_their_form_in_c() {
        for address in ["10.0.0.1:4420", "[fe80::1%3]:4421", "[::1]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = address.parse().unwrap();
            let mut raw: [RawAddress; 1] = [RawAddress::new(address)];
            let pointer = raw[0].as_mut_ptr();
            // SAFETY: the union has room for both families.
            assert_eq!(unsafe { address_of(&*pointer) }, address);
        }
    }

    #[test]
    fn missing_rdma_is_reported() {
        if let Err(error) = EventChannel::new() {
            let text = error.to_string();
            assert!(text.contains("no RDMA") && text.contains("rdma link add"), "{text}");
        }
    }
}
