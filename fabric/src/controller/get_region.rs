//! Get Region, the vendor-specific admin command (docs/reference/conformance.md).

use std::sync::Arc;

use super::instance::ControllerKind;
use super::regions::HeldRegions;
use super::{ControllerId, RegionGrants, RegionRefusal, RegionRequest, Reply, Service};
use crate::nvme::region::{GetRegion, REGION_GRANT_SIZE};
use crate::nvme::{Sqe, Status};

impl Service {
    /// Serves regions from now on: I/O controllers have Get Region, which `grants` decides on. Called
    /// at most once, before hosts connect. Without it the command is an Invalid Opcode.
    pub fn set_region_grants(&mut self, grants: Arc<dyn RegionGrants>) {
        self.region_grants = Some(grants);
    }

    pub(super) fn serves_regions(&self, id: ControllerId) -> bool {
        let io = self.controllers.get(&id).is_some_and(|c| c.kind == ControllerKind::Io);
        io && self.region_grants.is_some()
    }

    /// Answers Get Region, on a controller that [has it](Self::serves_regions).
    pub(super) fn get_region(&mut self, id: ControllerId, sqe: &Sqe, out: &mut Vec<u8>) -> Reply {
        let (Some(grants), Some(controller)) = (&self.region_grants, self.controllers.get_mut(&id))
        else {
            return Reply::failed(Status::INTERNAL_ERROR);
        };
        let Ok(GetRegion { name, rights, reservation }) = GetRegion::parse(sqe) else {
            return Reply::failed(Status::INVALID_FIELD.dnr());
        };
        // Nothing is granted that the host would not learn of.
        if usize::try_from(sqe.sgl.data_length()).is_ok_and(|room| room < REGION_GRANT_SIZE) {
            return Reply::failed(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        let (host, address) = (controller.host(), controller.address);
        let asked = RegionRequest { host, address, controller: id, name, rights, reservation };
        match grants.grant(&asked) {
            Ok(grant) => {
                controller.regions.get_or_insert_with(|| HeldRegions::new(grants, id));
                out.extend_from_slice(&grant.emit());
                Reply::OK
            }
            Err(refusal) => refused(refusal),
        }
    }
}

/// Makes the answer to a request that is refused.
fn refused(refusal: RegionRefusal) -> Reply {
    match refusal {
        RegionRefusal::NotGranted => Reply::failed(Status::REGION_NOT_GRANTED.dnr()),
        RegionRefusal::Reservation { fits } => {
            Reply::Done { result: u64::from(fits), status: Status::RESERVATION_REFUSED.dnr() }
        }
        // Another host's controller may end.
        RegionRefusal::NoRoom => Reply::failed(Status::NO_ROOM_FOR_REGION),
    }
}
