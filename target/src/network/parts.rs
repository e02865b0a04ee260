//! The classes that one connection carries, each a flow on its link: what moved is divided among
//! them, and what they may have is put together.

use arbitration::{Class, PerClass};
use qtcp::link::{FlowId, Link, Standing};
use qtcp::{Nanos, Observation, Rate};

use super::flow::Traffic;
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
    /// Lets each class that the connection carries see its part; what they may have together.
    /// None: one of them is not limited, or there are none.
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
        let mut limit = Some(Rate::ZERO);
        let mut any = false;
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
            any = true;
            limit = limit.zip(half.standing.limit).map(|(sum, one)| sum + one);
        }
        limit.filter(|_| any)
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
