//! The queues of hosts that do not honour Command Retry Delays (Host Behavior Support, ACRE): as small
//! as their sessions' limits need.

use arbitration::overload::HOST_WAIT_MAX;
use fabric::controller::{Connected, ControllerShared};

use crate::machine::driver::Driver;
use crate::machine::origin::Origin;
use crate::machine::policies::Policies as _;
use crate::reactor::context::Context;

/// Bounds the I/O queues of a controller whose admin queue has just been connected, where its host did
/// not honour the delays before: the limits of its sessions must let all pass that the queues hold
/// before the host's timeout.
#[cold]
pub(crate) fn bound_queues<D: Driver>(io: &mut Context<D>, origin: &Origin, connected: &Connected) {
    let Some(queues) = connected.without_acre else { return };
    if !io.policies.enabled() {
        return;
    }
    let ControllerShared { host_nqn, subsystem_nqn, .. } = &*connected.shared;
    let largest = u64::from(io.settings.max_transfer);
    let within = connected.namespaces.iter().filter_map(|namespace| {
        let nsid = Some(namespace.nsid);
        let tenancy = io.driver.resolve(&io.policies, origin, host_nqn, subsystem_nqn, nsid);
        tenancy.tenant.session.commands_within(HOST_WAIT_MAX, largest)
    });
    let Some(commands) = within.min() else { return };
    let entries = u16::try_from(commands / u64::from(queues.max(1))).unwrap_or(u16::MAX);
    io.driver.service(|service| service.bound_queues(connected.controller, entries));
}
