//! The state of stage S6, as the control socket and the metrics show it.

use arbitration::Class;
use fabric::controller::ConnectionId;
use qtcp::class_split::LinkDirection;
use qtcp::poller::{ConfiguredLink, Direction};

use super::NetworkShared;
use super::poller::Poller;
use crate::serve::engine::{
    ConnectionNetwork, DirectionState, FlowState, LinkClassState, LinkState, NetworkState,
};
use crate::sys::sync::lock;

impl NetworkShared {
    /// Returns the name of the kernel's congestion control under new connections.
    pub(super) fn base_name(&self) -> String {
        let default = self.offer.default.clone();
        self.base.clone().or(default).unwrap_or_else(|| "unknown".to_owned())
    }

    /// Returns the present state of links and classes.
    pub(crate) fn state(&self) -> NetworkState {
        let poller = lock(&self.poller);
        let links = poller.links().iter().enumerate();
        NetworkState {
            enabled: lock(&self.config).enabled,
            base: self.base_name(),
            advice: self.offer.advice(),
            links: links.map(|(index, configured)| link(&poller, index, configured)).collect(),
        }
    }

    /// Returns the present rates and limits of a connection.
    pub(crate) fn connection(&self, id: ConnectionId) -> Option<ConnectionNetwork> {
        lock(&self.poller).connection(id)
    }
}

fn link(poller: &Poller, index: usize, link: &ConfiguredLink) -> LinkState {
    LinkState {
        name: link.settings.name.clone(),
        capacity: link.settings.capacity,
        out: direction(poller, index, link, Direction::Out),
        into: direction(poller, index, link, Direction::Into),
    }
}

fn direction(
    poller: &Poller,
    index: usize,
    link: &ConfiguredLink,
    which: Direction,
) -> DirectionState {
    let LinkDirection { link, packets, .. } = link.direction(which);
    let class = |class: Class| {
        let (flows, standing) = poller.class_standing(index, class, which);
        let target = link.class_target(class);
        LinkClassState {
            class: class.name().to_owned(),
            flows,
            backlogged: link.is_backlogged(class),
            held_for: link.held_for(class).map(|class| class.name().to_owned()),
            total: FlowState {
                rate: standing.rate.bits(),
                target: target.filter(|_| flows > 0).map(qtcp::Rate::bits),
                limit: standing.limit.map(qtcp::Rate::bits),
                alpha: standing.alpha,
                quality: standing.quality,
                delivered: packets[class].delivered,
                marked: packets[class].marked,
            },
        }
    };
    DirectionState { classes: Class::ALL.into_iter().map(class).collect() }
}
