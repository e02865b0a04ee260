//! The interface to the server of regions of persistent memory.
//!
//! The service has the command and its rules; regions, rights and reservations are somebody else's.

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::ids::ControllerId;
use crate::nvme::region::{RegionGrant, RegionName, RegionRights};

/// Decides on Get Region. Both methods are called while the service is locked: they must be quick,
/// and must not use the service.
pub trait RegionGrants: fmt::Debug + Send + Sync {
    /// Grants a region to a host, until its controller ends.
    ///
    /// A controller may ask any number of times, for one region or several: the number of grants is
    /// for the implementation to bound.
    ///
    /// # Errors
    /// The host learns no more than the refusal.
    fn grant(&self, asked: &RegionRequest<'_>) -> Result<RegionGrant, RegionRefusal>;

    /// Notes that a controller that was granted regions has ended, or was reset or shut down by its
    /// host: all of its grants end. Called once for all of them, for any reason, also when the
    /// service itself ends. The controller may ask again once its host has enabled it again, and
    /// its identifier may become another controller's.
    fn controller_ended(&self, controller: ControllerId);
}

/// A host's request for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRequest<'a> {
    /// The host's NQN; empty for a host without a name.
    pub host: &'a str,
    /// The address that the controller's admin queue came from, where the daemon told it.
    pub address: Option<IpAddr>,
    /// The controller.
    pub controller: ControllerId,
    /// The region.
    pub name: RegionName,
    /// The rights that are asked for.
    pub rights: RegionRights,
    /// The reservation that is asked for, I/Os per second; 0: none.
    pub reservation: u32,
}

/// The reason for which a region is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionRefusal {
    /// There is no such region, the host may not have it, or the region gives no such rights.
    NotGranted,
    /// The reservation does not fit.
    Reservation {
        /// The largest reservation that would fit now, I/Os per second.
        fits: u32,
    },
    /// There are as many grants as there can be. The same request may succeed later.
    NoRoom,
}

/// The regions of one controller: they end where this is dropped, so that no end of a controller can
/// leave them behind.
#[derive(Debug)]
pub(super) struct HeldRegions {
    grants: Arc<dyn RegionGrants>,
    controller: ControllerId,
}

impl HeldRegions {
    pub(super) fn new(grants: &Arc<dyn RegionGrants>, controller: ControllerId) -> Self {
        Self { grants: Arc::clone(grants), controller }
    }
}

impl Drop for HeldRegions {
    fn drop(&mut self) {
        self.grants.controller_ended(self.controller);
    }
}
