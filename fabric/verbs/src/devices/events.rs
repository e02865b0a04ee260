//! Events of listeners and connections, as the connection manager reports them.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::{
    rdma_ack_cm_event, rdma_cm_event, rdma_cm_event_type, rdma_get_cm_event, rdma_reject,
};

use super::connection::{EventChannel, Id};
use crate::error::Error;
use crate::event::{ConnectRequest, Event};
use crate::params::Token;

impl EventChannel {
    /// Returns the next event; `None` if there is none.
    ///
    /// # Errors
    /// The kernel has failed.
    pub fn next(&self) -> Result<Option<Event>, Error> {
        loop {
            let mut event: *mut rdma_cm_event = null_mut();
            // SAFETY: the channel is open.
            let answer = unsafe { rdma_get_cm_event(self.0.0.as_ptr(), &raw mut event) };
            if answer != 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() == std::io::ErrorKind::WouldBlock {
                    return Ok(None);
                }
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(Error::Call { call: "rdma_get_cm_event", source: error });
            }
            let Some(event) = NonNull::new(event) else { return Ok(None) };
            // SAFETY: the event is there until it is acknowledged, which happens once.
            let taken = unsafe { self.take(event.as_ref()) };
            // SAFETY: as above.
            unsafe { rdma_ack_cm_event(event.as_ptr()) };
            if taken.is_some() {
                return Ok(taken);
            }
        }
    }

    /// Copies an event.
    ///
    /// # Safety
    /// The event was not acknowledged.
    unsafe fn take(&self, event: &rdma_cm_event) -> Option<Event> {
        use rdma_cm_event_type::*;
        // SAFETY: the event's identifier lives: it is destroyed only after all of its events were
        // acknowledged.
        let token = Token(unsafe { (*event.id).context } as u64);
        // SAFETY: events of this kind of connection have these parameters; bytes that are not there
        // are null, or of length 0.
        let said = || unsafe {
            let conn = &event.param.conn;
            match NonNull::new(conn.private_data.cast_mut().cast::<u8>()) {
                Some(data) => {
                    std::slice::from_raw_parts(data.as_ptr(), conn.private_data_len.into()).to_vec()
                }
                None => Vec::new(),
            }
        };
        let failed = |what: &str| {
            let error = match event.status {
                0 => String::new(),
                status => {
                    let source = std::io::Error::from_raw_os_error(status.saturating_abs());
                    format!(": {source}")
                }
            };
            Event::Failed(token, format!("{what}{error}"))
        };
        Some(match event.event {
            RDMA_CM_EVENT_CONNECT_REQUEST => {
                let channel = Arc::clone(&self.0);
                let id = Id { raw: NonNull::new(event.id)?, _channel: channel };
                // SAFETY: a request's listener lives, and its parameters belong to a connection.
                let (listener, depth, answers) = unsafe {
                    let conn = &event.param.conn;
                    let listener = (*event.listen_id).context as u64;
                    (listener, conn.initiator_depth, conn.responder_resources)
                };
                Event::Request(ConnectRequest {
                    listener: Token(listener),
                    id,
                    private_data: said(),
                    initiator_depth: depth,
                    responder_resources: answers,
                })
            }
            RDMA_CM_EVENT_ADDR_RESOLVED => Event::AddressResolved(token),
            RDMA_CM_EVENT_ROUTE_RESOLVED => Event::RouteResolved(token),
            RDMA_CM_EVENT_ESTABLISHED => Event::Established(token, said()),
            RDMA_CM_EVENT_REJECTED => Event::Rejected(token, event.status, said()),
            RDMA_CM_EVENT_DISCONNECTED => Event::Disconnected(token),
            RDMA_CM_EVENT_DEVICE_REMOVAL => Event::DeviceRemoved(token),
            RDMA_CM_EVENT_ADDR_CHANGE => Event::AddressChanged(token),
            RDMA_CM_EVENT_TIMEWAIT_EXIT => Event::Over(token),
            RDMA_CM_EVENT_ADDR_ERROR => failed("the address cannot be resolved"),
            RDMA_CM_EVENT_ROUTE_ERROR => failed("there is no route"),
            RDMA_CM_EVENT_CONNECT_ERROR => failed("the connection cannot be made"),
            RDMA_CM_EVENT_UNREACHABLE => failed("the peer does not answer"),
            _ => return None,
        })
    }
}

impl ConnectRequest {
    /// Refuses the connection, for a reason in the protocol's own words.
    pub fn reject(self, private_data: &[u8]) {
        let length = u8::try_from(private_data.len()).unwrap_or(u8::MAX);
        // SAFETY: identifier and private data live during the call. A peer that has gone needs no answer.
        unsafe { rdma_reject(self.id.raw(), private_data.as_ptr().cast(), length) };
    }
}
