//! The state of a paced connection, as the control socket shows it.

use arbitration::PerClass;
use qtcp::Rate;
use qtcp::class_split::ClassFlow;
use qtcp::poller::{Direction, Links, PacedConnection, WatchedConnection as _};
use sluice_config::DEFAULT_LINK;

use super::path::NewConnection;
use crate::serve::engine::{ConnectionNetwork, FlowState};

/// Makes a connection's state for the control socket.
pub(super) fn shown(
    connection: &PacedConnection<NewConnection>,
    links: &Links,
) -> ConnectionNetwork {
    let (out, into) = (connection.flows(Direction::Out), connection.flows(Direction::Into));
    let pacing = connection.of.pacing();
    ConnectionNetwork {
        link: links.name(connection.link).unwrap_or(DEFAULT_LINK).to_owned(),
        class: pacing.class().name().to_owned(),
        base: connection.of.path.base().to_owned(),
        rtt_us: u64::try_from(pacing.rtt().as_micros()).unwrap_or(u64::MAX),
        out: state(out, connection.limit(Direction::Out)),
        into: state(into, connection.limit(Direction::Into)),
    }
}

/// Adds up a connection's classes in one direction.
fn state(flows: &PerClass<ClassFlow>, limit: Option<Rate>) -> FlowState {
    let mut sum = FlowState::default();
    let (mut active, mut target) = (0.0, Some(0.0));
    for flow in flows.values() {
        (sum.delivered, sum.marked) = (sum.delivered + flow.delivered, sum.marked + flow.marked);
        if flow.id.is_none() {
            continue;
        }
        let standing = flow.standing;
        active += 1.0;
        sum.rate += standing.rate.bits();
        sum.alpha += standing.alpha;
        sum.quality += standing.quality;
        target = target.zip(standing.target).map(|(sum, rate)| sum + rate.bits());
    }
    if active > 0.0 {
        (sum.alpha, sum.quality) = (sum.alpha / active, sum.quality / active);
        (sum.target, sum.limit) = (target, limit.map(Rate::bits));
    } else {
        sum.quality = 1.0;
    }
    sum
}
