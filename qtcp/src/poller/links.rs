//! The links of a target, each in both directions.

use core::time::Duration;

use units::PerClass;

use super::look::{Both, Direction};
use crate::class_split::LinkDirection;
use crate::completions::{LEAST_WINDOW, LinkLoad};
use crate::link::{self, ClassGoal, Rules};
use crate::{Nanos, Rate};

/// The settings of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// Name. No two links have the same.
    pub name: String,
    /// Capacity in bits per second; `None`: it is not known, and marks tell when the link is full.
    pub capacity: Option<u64>,
    /// The goal of each class. Rates are of [`payload`].
    pub goals: PerClass<ClassGoal>,
}

/// A link, as it is configured.
#[derive(Debug)]
pub struct ConfiguredLink {
    /// The settings.
    pub settings: LinkSettings,
    directions: Both<LinkDirection>,
}

/// All links, the default one first.
#[derive(Debug, Default)]
pub struct Links(Vec<ConfiguredLink>);

/// The part of a link's capacity that is payload: full Ethernet frames of IPv4 and TCP with time
/// stamps (1448 of 1514 bytes), less what small packets take.
const PAYLOAD: f64 = 0.95;

/// The time in which a link without marks should carry a queue pair's initial data.
const START: Duration = Duration::from_millis(10);
/// The range of these bytes.
const LEAST_START: u64 = 256 << 10;
const MOST_START: u64 = 4 << 20;

/// Returns the rate of data that goes through a link that carries `bits` per second.
#[must_use]
pub fn payload(bits: u64) -> Rate {
    #[expect(clippy::cast_precision_loss, reason = "bits per second of a link")]
    Rate::from_bits(bits as f64).times(PAYLOAD)
}

impl Links {
    /// Applies new settings, the default link's first; `writes` enables pacing of hosts' data. A
    /// link that stays keeps its flows, and its measurements.
    pub fn configure(&mut self, links: &[LinkSettings], writes: bool) {
        let mut before = std::mem::take(&mut self.0);
        for link in links {
            let kept = before.iter().position(|known| known.settings.name == link.name);
            let mut known = match kept {
                Some(index) => before.swap_remove(index),
                None => ConfiguredLink::new(link),
            };
            known.settings = link.clone();
            let Both { out, into } = &mut known.directions;
            into.paced = writes;
            for direction in [out, into] {
                direction.link.configure(link.goals, link.capacity.map(payload));
            }
            self.0.push(known);
        }
    }

    /// Returns the index of the link of a name; where no link has the name, the default link's.
    #[must_use]
    pub fn find(&self, name: Option<&str>) -> usize {
        let named = |name| self.0.iter().position(|link| link.settings.name == name);
        name.and_then(named).unwrap_or(0)
    }

    /// Returns the name of a link; `None` where the index is none's.
    #[must_use]
    pub fn name(&self, index: usize) -> Option<&str> {
        Some(&self.0.get(index)?.settings.name)
    }

    /// Returns one direction of a link.
    pub fn direction(&mut self, index: usize, direction: Direction) -> Option<&mut LinkDirection> {
        debug_assert!(index < self.0.len(), "each connection has the index of a present link");
        Some(self.0.get_mut(index)?.directions.get_mut(direction))
    }

    /// Returns a link's load, in both directions.
    #[must_use]
    pub fn load(&self, index: usize) -> Both<LinkLoad> {
        let Some(link) = self.0.get(index) else { return Both::default() };
        let Both { out, into } = &link.directions;
        let load = |this: &LinkDirection, that: &LinkDirection| LinkLoad {
            fastest: this.link.fastest(),
            total: this.link.total(),
            other: that.link.total(),
        };
        Both { out: load(out, into), into: load(into, out) }
    }

    /// Returns how many bytes of a queue pair without measurements may be in flight: on a link
    /// without marks, its unused known capacity over 10 ms.
    #[must_use]
    pub fn start(&self, now: Nanos, index: usize) -> Both<u64> {
        let of = |this: &LinkDirection| match this.link.is_calm(now) {
            true => {
                let free = this.link.fastest() - this.link.total();
                free.bytes_in(START).clamp(LEAST_START, MOST_START)
            }
            false => LEAST_WINDOW,
        };
        let directions = self.0.get(index).map(|link| &link.directions);
        let least = Both { out: LEAST_WINDOW, into: LEAST_WINDOW };
        directions.map_or(least, |both| Both { out: of(&both.out), into: of(&both.into) })
    }

    /// Returns all links, the default one first.
    pub fn iter(&self) -> impl Iterator<Item = &ConfiguredLink> {
        self.0.iter()
    }
}

impl ConfiguredLink {
    fn new(settings: &LinkSettings) -> Self {
        let capacity = settings.capacity.map(payload);
        let link = || link::Link::new(settings.goals, capacity, Rules::default());
        let direction = || LinkDirection::new(link());
        let directions = Both { out: direction(), into: direction() };
        Self { settings: settings.clone(), directions }
    }

    /// Returns one direction.
    #[must_use]
    pub const fn direction(&self, direction: Direction) -> &LinkDirection {
        self.directions.get(direction)
    }
}

#[cfg(test)]
mod tests {
    use units::{Class, PerClass};

    use super::*;
    use crate::Observation;

    const MS: u64 = 1_000_000;

    /// Lets a flow move this many bytes in each of 200 looks of 5 ms. Returns the time of the last one.
    fn move_bytes(links: &mut Links, from: Nanos, bytes: u64, marked: u32) -> Nanos {
        let link = &mut links.direction(0, Direction::Out).unwrap().link;
        let (flow, interval) = (link.add(Class::High), Duration::from_millis(5));
        let end = (1..=200).fold(from, |at, _| {
            let now = at + interval;
            link.observe(flow, now, &Observation { interval, bytes, marked, ..Observation::SEEN });
            now
        });
        link.remove(flow);
        end
    }

    #[test]
    fn e2_queue_pair_starts_with_free_capacity() {
        let (name, goals) = (String::new(), PerClass::default());
        let mut links = Links::default();
        links.configure(&[LinkSettings { name, capacity: None, goals }], true);
        let start = |links: &Links, now| links.start(now, 0).out;
        assert_eq!(start(&links, Nanos(0)), 256 << 10, "nothing is known");
        // 200 MB/s: 2 MB in 10 ms.
        let now = move_bytes(&mut links, Nanos(0), 1_000_000, 0);
        assert!((start(&links, now) as f64 / 2e6 - 1.0).abs() < 0.01, "{}", start(&links, now));
        let now = move_bytes(&mut links, now, 50_000_000, 0);
        assert_eq!(start(&links, now), 4 << 20);
        let now = move_bytes(&mut links, now, 1_000_000, 5);
        assert_eq!(start(&links, now), LEAST_WINDOW, "the link is full");
        assert_eq!(links.start(now, 0).into, 256 << 10, "of the other direction nothing is known");
        assert_eq!(start(&links, Nanos(now.0 + 301 * MS)), 4 << 20, "it was");
    }
}
