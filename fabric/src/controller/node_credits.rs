//! The log page of a client node's credits, and Report Backlog (docs/reference/conformance.md).

use std::sync::Arc;

use super::instance::{Controller, ControllerKind};
use super::{ControllerId, Node, NodeCredits, Reply, Service};
use crate::Nanos;
use crate::nvme::node::parse_report;
use crate::nvme::{Sqe, Status};

impl Service {
    /// Divides credits among client nodes from now on: I/O controllers have the log page and Report
    /// Backlog. Called at most once, before hosts connect. Without it, both are unknown.
    pub fn set_node_credits(&mut self, credits: Arc<dyn NodeCredits>) {
        self.node_credits = Some(credits);
    }

    pub(super) fn has_node_credits(&self, id: ControllerId) -> bool {
        let io = self.controllers.get(&id).is_some_and(|c| c.kind == ControllerKind::Io);
        io && self.node_credits.is_some()
    }

    /// Makes the log page of a controller's node.
    pub(super) fn node_credit_page(
        &self,
        now: Nanos,
        controller: &Controller,
    ) -> Result<Vec<u8>, Status> {
        let credits = self.node_credits.as_ref().ok_or(Status::INVALID_LOG_PAGE)?;
        let mut nsids = controller.table.iter().map(|namespace| namespace.nsid);
        Ok(credits.credits(now, &node_of(controller), &mut nsids).emit())
    }

    /// Answers Report Backlog, on a controller that [has it](Self::has_node_credits).
    pub(super) fn report_backlog(
        &self,
        now: Nanos,
        id: ControllerId,
        sqe: &Sqe,
        data: &[u8],
    ) -> Reply {
        let (Some(credits), Some(controller)) = (&self.node_credits, self.controllers.get(&id))
        else {
            return Reply::failed(Status::INTERNAL_ERROR);
        };
        if sqe.nsid.get() != 0 {
            return Reply::failed(Status::INVALID_FIELD.dnr());
        }
        let Ok(mut backlog) = parse_report(data) else {
            return Reply::failed(Status::INVALID_FIELD.dnr());
        };
        // A namespace may have gone since the node last asked.
        backlog.retain(|namespace| controller.table.get(namespace.nsid).is_some());
        credits.report(now, &node_of(controller), &backlog);
        Reply::OK
    }
}

fn node_of(controller: &Controller) -> Node<'_> {
    let (host, subsystem) = (controller.host(), controller.subsystem());
    Node { host, subsystem, address: controller.address }
}
