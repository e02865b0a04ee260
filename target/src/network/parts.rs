//! The classes that one connection carries, each a flow on its link: what moved is divided among
//! them, and what they may have is put together.

use arbitration::{Class, PerClass};
use qtcp::link::{FlowId, Link, Standing};
use qtcp::pacing::Traffic;
use qtcp::{Nanos, Observation, Rate};

use super::links::{Direction, Links};
use super::tracked::REST;

/// One direction of one class of one connection.
#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) flow: Option<FlowId>,
    /// What had moved at the last look.
    pub(super) moved: u64,
    /// The part of the connection's bytes that were of this class when any were.
    part: f64,
    /// When it last had something to move.
    busy: Nanos,
    pub(super) standing: Standing,
    pub(super) delivered: u64,
    pub(super) marked: u64,
}

impl Half {
    pub(super) fn leave(&mut self, link: Option<&mut Link>) {
        if let (Some(flow), Some(link)) = (self.flow.take(), link) {
            link.remove(flow);
        }
        self.standing = Standing::default();
    }
}

/// One direction of a connection, to be divided among the classes that it carries.
pub(super) struct Split<'a> {
    pub(super) all: &'a Observation,
    /// Nothing is held up below the target: a class has more only if some of it waits here.
    pub(super) idle: bool,
    pub(super) direction: Direction,
}

impl Split<'_> {
    /// Lets each class that the connection carries see its part; what they may have together, if
    /// any of them is limited. A class that is not, or wants less than its limit, adds what it has
    /// and [some room](Self::room): or the others would have what it leaves.
    pub(super) fn observe(
        &self,
        now: Nanos,
        links: &mut Links,
        index: usize,
        traffic: &PerClass<Traffic>,
        halves: &mut PerClass<Half>,
    ) -> Option<Rate> {
        let moved =
            PerClass::from_fn(|class| traffic[class].read().0.saturating_sub(halves[class].moved));
        let all: u64 = moved.iter().map(|(_, moved)| moved).sum();
        let (mut together, mut limited) = (Rate::ZERO, false);
        for class in Class::ALL {
            let half = &mut halves[class];
            let waiting = traffic[class].read().1;
            half.moved += moved[class];
            if moved[class] > 0 || waiting > 0 {
                half.busy = now;
            } else if half.flow.is_none() || now.since(half.busy) > REST {
                half.leave(links.link(index, self.direction));
                continue;
            }
            if all > 0 {
                half.part = part(moved[class], all);
            }
            let part = half.part;
            let idle = waiting == 0 && (self.idle || moved[class] == 0);
            let seen = self.seen(part, idle);
            half.delivered += u64::from(seen.delivered);
            half.marked += u64::from(seen.marked);
            links.count(index, self.direction, class, &seen);
            let Some(link) = links.link(index, self.direction) else { continue };
            let number = Links::class_number(class);
            let flow = *half.flow.get_or_insert_with(|| link.add(number));
            half.standing = link.observe(flow, now, &seen);
            let room = self.room(half.standing.rate);
            limited |= half.standing.limit.is_some();
            together = together
                + match half.standing.limit {
                    Some(limit) if !idle || limit < room => limit,
                    _ => room,
                };
        }
        limited.then_some(together)
    }

    /// What a class that has `rate` may come to have until the next look: a quarter more, and ten
    /// packets in a round trip.
    fn room(&self, rate: Rate) -> Rate {
        const PACKETS: f64 = 10.0;
        rate.times(1.25) + Rate::over(PACKETS * f64::from(self.all.mss), self.all.rtt)
    }

    fn seen(&self, part: f64, idle: bool) -> Observation {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a number of 32 bits"
        )]
        let of = |count: u32| (f64::from(count) * part).ceil() as u32;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of the bytes of one interval"
        )]
        let bytes = (self.all.bytes as f64 * part) as u64;
        Observation {
            delivered: of(self.all.delivered),
            marked: of(self.all.marked),
            bytes,
            app_limited: idle,
            ..*self.all
        }
    }
}

/// A class's part of what moved.
fn part(moved: u64, all: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let part = moved as f64 / all as f64;
    part
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Network;

    /// A connection of which High and Low move `high` and `low` bytes in each of 200 looks, beside
    /// one of Medium that moves as much: the limits of both.
    fn together(high: u64, low: u64) -> (Option<Rate>, Option<Rate>, PerClass<Half>) {
        let mut links = Links::default();
        links.configure(&Network::default());
        let (mixed, other) = (PerClass::<Traffic>::default(), PerClass::<Traffic>::default());
        let (mut halves, mut others) = (PerClass::default(), PerClass::default());
        let mut limits = (None, None);
        for look in 1..=200 {
            mixed.high.publish(look * high, 0);
            mixed.low.publish(look * low, 0);
            other.medium.publish(look * (high + low), 0);
            let all = Observation {
                interval: Duration::from_millis(5),
                delivered: 40,
                marked: 10,
                bytes: high + low,
                rtt: Duration::from_millis(2),
                mss: 1448,
                app_limited: false,
            };
            let now = Nanos(look * 5_000_000);
            let split = Split { all: &all, idle: false, direction: Direction::Out };
            limits.0 = split.observe(now, &mut links, 0, &mixed, &mut halves);
            limits.1 = split.observe(now, &mut links, 0, &other, &mut others);
        }
        (limits.0, limits.1, halves)
    }

    #[test]
    fn e7_a_connection_may_have_what_its_classes_may_have_together() {
        let (limit, other, halves) = together(30_000, 30_000);
        let rates = (halves.high.standing.rate.bytes(), halves.low.standing.rate.bytes());
        assert!((rates.0 - 6e6).abs() < 1e5 && (rates.1 - 6e6).abs() < 1e5, "{rates:?}");
        // Of 24 MB/s Low's part is 4, Medium's 8; High has 6 of its 12 and fills the link.
        assert!(halves.high.standing.limit.is_none() && halves.low.standing.limit.is_some());
        let limit = limit.unwrap().bytes();
        assert!((11e6..20e6).contains(&limit), "Low's part, and room for High: {limit}");
        assert!(other.unwrap().bytes() < 9e6, "{other:?}");
        assert!(halves.urgent.flow.is_none() && halves.medium.flow.is_none());
    }

    #[test]
    fn e7_a_connection_of_a_class_that_fills_the_link_is_not_limited() {
        let (limit, ..) = together(60_000, 0);
        assert_eq!(limit, None);
    }
}
