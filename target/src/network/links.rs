//! The links of the configuration, each in both directions.

use arbitration::{Class, PerClass};
use qtcp::link::{self, ClassGoal, Rules};
use qtcp::{Observation, Rate};

use crate::config::{self, DEFAULT_LINK, Network};

/// A direction of a link, seen from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the target to hosts.
    Out,
    /// From hosts to the target.
    Into,
}

/// Counts of a class's packets in one direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) delivered: u64,
    /// Packets with an ECN mark, or lost, or late where nothing is marked.
    pub(crate) marked: u64,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    pub(crate) link: link::Link,
    pub(crate) packets: PerClass<Packets>,
}

/// A link of the configuration.
#[derive(Debug)]
pub(crate) struct ConfiguredLink {
    pub(crate) config: config::LinkConfig,
    out: LinkDirection,
    into: LinkDirection,
    /// Whether hosts' data is paced.
    writes: bool,
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
            known.writes = config.writes;
            for direction in [&mut known.out, &mut known.into] {
                direction.link.configure(goals(link), capacity(link));
            }
            self.0.push(known);
        }
    }

    /// Returns the index of the link of a name; the default one's where no link has it.
    pub(crate) fn find(&self, name: Option<&str>) -> usize {
        let name = name.unwrap_or(DEFAULT_LINK);
        self.0.iter().position(|link| link.config.name == name).unwrap_or(0)
    }

    /// Returns the name of a link.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.0.get(index).map_or(DEFAULT_LINK, |link| &link.config.name)
    }

    /// Returns one direction of a link; `None` where that is not paced.
    pub(crate) fn link(&mut self, index: usize, direction: Direction) -> Option<&mut link::Link> {
        let link = self.0.get_mut(index)?;
        let paced = direction == Direction::Out || link.writes;
        paced.then_some(&mut link.direction_mut(direction).link)
    }

    /// Counts the packets of a class in an observation.
    pub(crate) fn count(
        &mut self,
        index: usize,
        direction: Direction,
        class: Class,
        seen: &Observation,
    ) {
        let Some(link) = self.0.get_mut(index) else {
            debug_assert!(false, "connections go by the links that are there");
            return;
        };
        let packets = &mut link.direction_mut(direction).packets[class];
        packets.delivered += u64::from(seen.delivered);
        packets.marked += u64::from(seen.marked);
    }

    /// Returns all links, the default one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ConfiguredLink> {
        self.0.iter()
    }
}

impl ConfiguredLink {
    fn new(config: &config::LinkConfig) -> Self {
        let direction = || LinkDirection {
            link: link::Link::new(goals(config), capacity(config), Rules::default()),
            packets: PerClass::default(),
        };
        Self { config: config.clone(), out: direction(), into: direction(), writes: true }
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
