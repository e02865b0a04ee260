//! The links of the configuration, each in both directions.

use arbitration::{Class, PerClass};
use qtcp::link::{self, Rules};
use qtcp::{Observation, Rate};

use crate::config::{self, DEFAULT_LINK, Network};

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the target to hosts.
    Out,
    /// From hosts to the target.
    Into,
}

/// What was counted of a class in one direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) delivered: u64,
    pub(crate) marked: u64,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) link: link::Link,
    pub(crate) counted: PerClass<Counted>,
}

/// One link.
#[derive(Debug)]
pub(crate) struct Both {
    pub(crate) config: config::Link,
    out: Way,
    into: Way,
    /// Hosts' data is paced.
    writes: bool,
}

/// All links, the default one first.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<Both>);

/// The part of a link's capacity that is payload: full Ethernet frames of IPv4 and TCP with time
/// stamps (1448 of 1514 bytes), less what small packets take.
const PAYLOAD: f64 = 0.95;

impl Links {
    /// Takes the settings: a link that was there keeps what it knows.
    pub(crate) fn configure(&mut self, config: &Network) {
        let mut before = std::mem::take(&mut self.0);
        for link in config.all_links() {
            let kept = before.iter().position(|both| both.config.name == link.name);
            let mut both = match kept {
                Some(index) => before.swap_remove(index),
                None => Both::new(link),
            };
            both.config = link.clone();
            both.writes = config.writes;
            for way in [&mut both.out, &mut both.into] {
                way.link.configure(aims(link), capacity(link));
            }
            self.0.push(both);
        }
    }

    /// The index of a link by its name; of the default one where there is none of that name.
    pub(crate) fn find(&self, name: Option<&str>) -> usize {
        let name = name.unwrap_or(DEFAULT_LINK);
        self.0.iter().position(|both| both.config.name == name).unwrap_or(0)
    }

    /// The name of a link.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.0.get(index).map_or(DEFAULT_LINK, |both| &both.config.name)
    }

    /// One direction of a link; none where that is not paced.
    pub(crate) fn link(&mut self, index: usize, direction: Direction) -> Option<&mut link::Link> {
        let both = self.0.get_mut(index)?;
        let paced = direction == Direction::Out || both.writes;
        paced.then_some(&mut both.way_mut(direction).link)
    }

    /// Counts what was seen of a class.
    pub(crate) fn count(
        &mut self,
        index: usize,
        direction: Direction,
        class: Class,
        seen: &Observation,
    ) {
        let Some(both) = self.0.get_mut(index) else { return };
        let counted = &mut both.way_mut(direction).counted[class];
        counted.delivered += u64::from(seen.delivered);
        counted.marked += u64::from(seen.marked);
    }

    /// All links.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Both> {
        self.0.iter()
    }

    /// A class's number on a link.
    pub(crate) const fn class_number(class: Class) -> usize {
        match class {
            Class::Urgent => 0,
            Class::High => 1,
            Class::Medium => 2,
            Class::Low => 3,
        }
    }
}

impl Both {
    fn new(link: &config::Link) -> Self {
        let way = || Way {
            link: link::Link::new(aims(link), capacity(link), Rules::default()),
            counted: PerClass::default(),
        };
        Self { config: link.clone(), out: way(), into: way(), writes: true }
    }

    /// One direction.
    pub(crate) const fn way(&self, direction: Direction) -> &Way {
        match direction {
            Direction::Out => &self.out,
            Direction::Into => &self.into,
        }
    }

    const fn way_mut(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::Out => &mut self.out,
            Direction::Into => &mut self.into,
        }
    }
}

/// In the order of [`Class::ALL`].
fn aims(link: &config::Link) -> Vec<link::Aim> {
    #[expect(clippy::cast_precision_loss, reason = "bits per second of a link")]
    let aim = |aim: &config::Aim| match *aim {
        config::Aim::Share(share) => link::Aim::Share(f64::from(share)),
        config::Aim::Rate(bits) => link::Aim::Rate(Rate::from_bits(bits as f64).times(PAYLOAD)),
        config::Aim::Latency(time) => link::Aim::Latency(time),
        config::Aim::Free => link::Aim::Free,
    };
    link.aims.iter().map(|(_, one)| aim(one)).collect()
}

fn capacity(link: &config::Link) -> Option<Rate> {
    #[expect(clippy::cast_precision_loss, reason = "bits per second of a link")]
    link.capacity.map(|bits| Rate::from_bits(bits as f64).times(PAYLOAD))
}
