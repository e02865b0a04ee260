//! The links of the configuration, each in both directions.

use arbitration::PerClass;
use qtcp::Rate;
use qtcp::class_split::LinkDirection;
use qtcp::completions::LinkLoad;
use qtcp::link::{self, ClassGoal, Rules};

use super::look::Both;
use crate::config::{self, DEFAULT_LINK, Network};

/// A direction of a link, seen from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the target to hosts.
    Out,
    /// From hosts to the target.
    Into,
}

/// A link of the configuration.
#[derive(Debug)]
pub(crate) struct ConfiguredLink {
    pub(crate) config: config::LinkConfig,
    out: LinkDirection,
    into: LinkDirection,
}

/// All links, the default one first.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<ConfiguredLink>);

/// The part of a link's capacity that is payload: full Ethernet frames of IPv4 and TCP with time
/// stamps (1448 of 1514 bytes), less what small packets take.
const PAYLOAD: f64 = 0.95;

impl Links {
    /// Takes new settings. A link that stays keeps its flows and its estimates.
    pub(crate) fn configure(&mut self, config: &Network) {
        let mut before = std::mem::take(&mut self.0);
        for link in config.all_links() {
            let kept = before.iter().position(|known| known.config.name == link.name);
            let mut known = match kept {
                Some(index) => before.swap_remove(index),
                None => ConfiguredLink::new(link),
            };
            known.config = link.clone();
            known.into.paced = config.writes;
            for direction in [&mut known.out, &mut known.into] {
                direction.link.configure(goals(link), capacity(link));
            }
            self.0.push(known);
        }
    }

    /// Returns the index of the link of a name; where no link has the name, the default link's.
    pub(crate) fn find(&self, name: Option<&str>) -> usize {
        let name = name.unwrap_or(DEFAULT_LINK);
        self.0.iter().position(|link| link.config.name == name).unwrap_or(0)
    }

    /// Returns the name of a link.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.0.get(index).map_or(DEFAULT_LINK, |link| &link.config.name)
    }

    /// Returns one direction of a link.
    pub(crate) fn direction(
        &mut self,
        index: usize,
        direction: Direction,
    ) -> Option<&mut LinkDirection> {
        debug_assert!(index < self.0.len(), "each connection has the index of a present link");
        Some(self.0.get_mut(index)?.direction_mut(direction))
    }

    /// Returns what a link carries, in both directions.
    pub(super) fn load(&self, index: usize) -> Both<LinkLoad> {
        let Some(ConfiguredLink { out, into, .. }) = self.0.get(index) else {
            return Both::default();
        };
        let load = |this: &LinkDirection, that: &LinkDirection| LinkLoad {
            fastest: this.link.fastest(),
            total: this.link.total(),
            other: that.link.total(),
        };
        Both { out: load(out, into), into: load(into, out) }
    }

    /// Returns all links, the default one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ConfiguredLink> {
        self.0.iter()
    }
}

impl ConfiguredLink {
    fn new(config: &config::LinkConfig) -> Self {
        let link = || link::Link::new(goals(config), capacity(config), Rules::default());
        let direction = || LinkDirection::new(link());
        Self { config: config.clone(), out: direction(), into: direction() }
    }

    /// Returns one direction.
    pub(crate) const fn direction(&self, direction: Direction) -> &LinkDirection {
        match direction {
            Direction::Out => &self.out,
            Direction::Into => &self.into,
        }
    }

    const fn direction_mut(&mut self, direction: Direction) -> &mut LinkDirection {
        match direction {
            Direction::Out => &mut self.out,
            Direction::Into => &mut self.into,
        }
    }
}

/// Returns the configured goals of classes, in payload.
fn goals(link: &config::LinkConfig) -> PerClass<ClassGoal> {
    #[expect(clippy::cast_precision_loss, reason = "bits per second of a link")]
    link.goals.map(|goal| match goal {
        config::Goal::Share(share) => ClassGoal::Share(f64::from(share)),
        config::Goal::Rate(bits) => ClassGoal::Rate(Rate::from_bits(bits as f64).times(PAYLOAD)),
        config::Goal::Latency(time) => ClassGoal::Latency(time),
        config::Goal::Free => ClassGoal::Free,
    })
}

/// Returns the configured capacity of a link, in payload.
fn capacity(link: &config::LinkConfig) -> Option<Rate> {
    #[expect(clippy::cast_precision_loss, reason = "bits per second of a link")]
    link.capacity.map(|bits| Rate::from_bits(bits as f64).times(PAYLOAD))
}
