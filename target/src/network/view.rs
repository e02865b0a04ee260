//! What there is to see of stage S6.

use arbitration::Class;
use fabric::controller::ConnectionId;

use super::NetworkShared;
use super::links::{Both, Direction, Links, Way};
use super::poller::Poller;
use crate::engine::{
    ConnectionNetwork, DirectionState, FlowState, LinkClassState, LinkState, NetworkState,
};
use crate::shared::lock;

impl NetworkShared {
    /// The kernel's congestion control under new connections.
    pub(super) fn base_name(&self) -> String {
        let default = self.offer.default.clone();
        self.base.clone().or(default).unwrap_or_else(|| "unknown".to_owned())
    }

    /// What classes get now.
    pub(crate) fn state(&self) -> NetworkState {
        let poller = lock(&self.poller);
        let links = poller.links.iter().enumerate();
        NetworkState {
            enabled: lock(&self.config).enabled,
            base: self.base_name(),
            advice: self.offer.advice(),
            links: links.map(|(index, both)| link(&poller, index, both)).collect(),
        }
    }

    /// What a connection gets now.
    pub(crate) fn connection(&self, id: ConnectionId) -> Option<ConnectionNetwork> {
        lock(&self.poller).connection(id)
    }
}

fn link(poller: &Poller, index: usize, both: &Both) -> LinkState {
    LinkState {
        name: both.config.name.clone(),
        capacity: both.config.capacity,
        out: direction(poller, index, both, Direction::Out),
        into: direction(poller, index, both, Direction::Into),
    }
}

fn direction(poller: &Poller, index: usize, both: &Both, which: Direction) -> DirectionState {
    let Way { link, counted } = both.way(which);
    let class = |class: Class| {
        let (flows, standing) = poller.class_standing(index, class, which);
        let target = link.class_target(Links::class_number(class));
        LinkClassState {
            class: class.name().to_owned(),
            flows,
            total: FlowState {
                rate: standing.rate.bits(),
                target: target.filter(|_| flows > 0).map(qtcp::Rate::bits),
                limit: standing.limit.map(qtcp::Rate::bits),
                alpha: standing.alpha,
                quality: standing.quality,
                delivered: counted[class].delivered,
                marked: counted[class].marked,
            },
        }
    };
    DirectionState {
        estimate: link.estimate().bits(),
        classes: Class::ALL.into_iter().map(class).collect(),
    }
}
