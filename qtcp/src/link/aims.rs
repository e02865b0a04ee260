//! What each class is to have, and what that makes for each of its flows.
//!
//! Targets are of classes (seed row E8): the flows of a class share its target, so that a flow
//! that comes takes from its own class only. A class none of whose flows wants its part leaves the
//! rest to the others, in the ratio of their shares.

use core::time::Duration;

use crate::Rate;

/// What a class is to have of a link when that is congested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// So many parts of what the other aims leave: positive.
    Share(f64),
    /// So much throughput.
    Rate(Rate),
    /// Round trips no longer than this, queues included.
    Latency(Duration),
    /// Whatever it asks for.
    Free,
}

/// The aims of all classes.
#[derive(Clone, Debug)]
pub struct Aims(Vec<Aim>);

impl Aims {
    /// In the order of the classes; at least one.
    #[must_use]
    pub fn new(mut aims: Vec<Aim>) -> Self {
        if aims.is_empty() {
            aims.push(Aim::Free);
        }
        Self(aims)
    }

    /// How many classes there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Of a class.
    #[must_use]
    #[inline]
    pub fn of(&self, class: usize) -> Aim {
        self.0.get(class).copied().unwrap_or(Aim::Free)
    }
}

/// What flows want: of one flow, or of all flows of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// What they get.
    pub(super) rate: Rate,
    /// How many would take more.
    pub(super) backlogged: u32,
    /// What the others get, who have all they want.
    content: Rate,
}

impl Demand {
    /// Of one flow, of which `fair` is the part of its class.
    #[inline]
    pub(super) fn of(rate: Rate, app_limited: bool, fair: Rate) -> Self {
        // A flow that has its part is held to it, whether it pauses now and then or not.
        if app_limited && (rate < fair.times(0.95) || rate == Rate::ZERO) {
            Self { rate, backlogged: 0, content: rate }
        } else {
            Self { rate, backlogged: 1, content: Rate::ZERO }
        }
    }

    #[inline]
    pub(super) fn put(&mut self, flow: &Self) {
        self.rate = self.rate + flow.rate;
        self.content = self.content + flow.content;
        self.backlogged += flow.backlogged;
    }

    #[inline]
    pub(super) fn take(&mut self, flow: &Self) {
        self.rate = self.rate - flow.rate;
        self.content = self.content - flow.content;
        self.backlogged = self.backlogged.saturating_sub(flow.backlogged);
    }
}

/// The targets that follow.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    /// For each class: its target, and that of each of its flows which would take more.
    classes: Vec<Option<(Rate, Rate)>>,
    /// The class with the greatest target for a flow, of those with flows that would take more.
    filler: usize,
}

impl Shares {
    pub(super) fn new(classes: usize) -> Self {
        Self { classes: vec![None; classes], filler: usize::MAX }
    }

    /// The target of each flow of a class.
    #[inline]
    pub(super) fn of(&self, class: usize) -> Option<Rate> {
        self.classes.get(class).copied().flatten().map(|(_, flow)| flow)
    }

    /// The target of a class.
    pub(super) fn of_class(&self, class: usize) -> Option<Rate> {
        self.classes.get(class).copied().flatten().map(|(class, _)| class)
    }

    /// Whether a class is the one that takes what others leave.
    #[inline]
    pub(super) fn fills(&self, class: usize) -> bool {
        self.filler == class
    }

    /// Divides `lambda` among the classes: what is free or has a latency to keep takes what it
    /// gets; then rates; what is left goes by shares to those who want it.
    pub(super) fn share(&mut self, lambda: Rate, aims: &Aims, demands: &[Demand]) {
        let mut left = lambda;
        let (mut all, mut parts) = (0.0, 0.0);
        for (class, demand) in demands.iter().enumerate() {
            match aims.of(class) {
                Aim::Free | Aim::Latency(_) => left = left - demand.rate,
                Aim::Rate(rate) if demand.backlogged > 0 => left = left - rate,
                Aim::Rate(rate) => left = left - smaller(rate, demand.content),
                Aim::Share(share) if demand.backlogged > 0 => {
                    (all, parts) = (all + share, parts + share);
                }
                Aim::Share(share) if demand.content > Rate::ZERO => all += share,
                Aim::Share(_) => {}
            }
        }
        // What content classes have, up to their parts, is not for the others to share.
        let mut taken = Rate::ZERO;
        for (class, demand) in demands.iter().enumerate() {
            if let (Aim::Share(share), 0) = (aims.of(class), demand.backlogged)
                && all > 0.0
            {
                taken = taken + smaller(left.times(share / all), demand.content);
            }
        }
        self.assign(left - taken, parts, aims, demands);
    }

    fn assign(&mut self, left: Rate, parts: f64, aims: &Aims, demands: &[Demand]) {
        self.filler = usize::MAX;
        let mut greatest = Rate::ZERO;
        for (class, demand) in demands.iter().enumerate() {
            let Some(place) = self.classes.get_mut(class) else { continue };
            let (whole, shares) = match aims.of(class) {
                Aim::Free | Aim::Latency(_) => {
                    *place = None;
                    continue;
                }
                Aim::Rate(rate) => (rate, false),
                Aim::Share(share) if demand.backlogged > 0 => (left.times(share / parts), true),
                // What it would have if it wanted it.
                Aim::Share(share) => ((left + demand.content).times(share / (parts + share)), true),
            };
            let flow = flow_part(whole, demand);
            *place = Some((whole, flow));
            if shares && demand.backlogged > 0 && flow > greatest {
                (self.filler, greatest) = (class, flow);
            }
        }
    }
}

/// The part of each flow of a class that would take more: what content flows leave, and half of
/// an even part at the least, for those may grow.
fn flow_part(whole: Rate, demand: &Demand) -> Rate {
    if demand.backlogged == 0 {
        return whole;
    }
    let flows = 1.0 / f64::from(demand.backlogged);
    let (even, rest) = (whole.times(flows), (whole - demand.content).times(flows));
    if rest > even.times(0.5) { rest } else { even.times(0.5) }
}

fn smaller(a: Rate, b: Rate) -> Rate {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(rate: f64) -> Rate {
        Rate::from_bits(rate * 1e6)
    }

    fn wants(rate: f64, flows: u32) -> Demand {
        Demand { rate: mbit(rate), backlogged: flows, content: Rate::ZERO }
    }

    fn content(rate: f64) -> Demand {
        Demand { rate: mbit(rate), backlogged: 0, content: mbit(rate) }
    }

    fn targets(lambda: f64, aims: &[Aim], demands: &[Demand]) -> Vec<Option<f64>> {
        let mut shares = Shares::new(aims.len());
        shares.share(mbit(lambda), &Aims::new(aims.to_vec()), demands);
        let round = |rate: Rate| (rate.bits() / 1e4).round() / 100.0;
        (0..aims.len()).map(|class| shares.of(class).map(round)).collect()
    }

    const THREE: [Aim; 3] = [Aim::Share(3.0), Aim::Share(2.0), Aim::Share(1.0)];

    #[test]
    fn e7_classes_have_their_shares_and_flows_their_part() {
        let all = [wants(70.0, 1), wants(60.0, 2), wants(50.0, 1)];
        assert_eq!(targets(180.0, &THREE, &all), [Some(90.0), Some(30.0), Some(30.0)]);
    }

    #[test]
    fn e8_what_a_class_does_not_want_goes_to_the_others_by_their_shares() {
        let idle = [content(0.0), wants(100.0, 1), wants(80.0, 1)];
        assert_eq!(targets(180.0, &THREE, &idle)[1..], [Some(120.0), Some(60.0)]);
        let modest = [content(30.0), wants(100.0, 1), wants(50.0, 1)];
        assert_eq!(targets(180.0, &THREE, &modest)[1..], [Some(100.0), Some(50.0)]);
    }

    #[test]
    fn free_classes_and_rates_come_first() {
        let aims = [Aim::Free, Aim::Rate(mbit(40.0)), Aim::Share(2.0), Aim::Share(1.0)];
        let all = [wants(20.0, 1), wants(50.0, 2), wants(50.0, 1), wants(60.0, 1)];
        assert_eq!(targets(180.0, &aims, &all), [None, Some(20.0), Some(80.0), Some(40.0)]);
    }
}
