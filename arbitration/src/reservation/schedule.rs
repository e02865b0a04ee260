//! The size that the set of commands from which a device chooses may have, for reservations to be
//! kept (docs/research/sources.md, F3: reservations are kept).
//!
//! Fahrrad's rule: a command joins the set if, at its worst time, the whole set completes before
//! the earliest deadline. Then no order of service misses a deadline: by place, by containers, or
//! by the drive's choice. Time beyond the reservations goes to others while the time reserved up to
//! each deadline still fits before it.

use units::Nanos;

use super::profile::Profile;
use super::utilisation::Utilisation;

/// The device time that a reservation may yet ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The end of the present period.
    pub(crate) end: Nanos,
    /// Device time that is left of the present period's budget, in ns.
    pub(crate) left: u64,
    /// Device time of each later period, in ns.
    pub(crate) budget: u64,
    /// Length of a period in ns, at least 1.
    pub(crate) period: u64,
    /// Whether commands wait for which budget is left.
    pub(crate) waits: bool,
}

/// The account on which a command joins the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// A reservation with budget left, whose period ends at this time.
    Reserved(Nanos),
    /// The share of Urgent in the device.
    Urgent,
    /// None of these: what reservations and the share of Urgent leave.
    Rest,
}

/// The device time that all reservations of a device may yet ask for.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// By deadline, the earliest first.
    claims: Vec<Claim>,
    /// Longest time beyond its share, in ns, that a command already in the device takes because the
    /// device serves several at once.
    tail: u64,
}

impl Schedule {
    /// Forgets all claims.
    pub(crate) fn clear(&mut self) {
        self.claims.clear();
        self.tail = 0;
    }

    /// Adds a reservation's claim on a device of this profile.
    pub(crate) fn add(&mut self, claim: Claim, profile: &Profile) {
        self.claims.push(claim);
        let worst = profile.read.worst.max(profile.write.worst).0;
        let beside = u64::from(profile.parallelism.saturating_sub(1));
        self.tail = self.tail.max(worst.saturating_mul(beside));
    }

    /// Returns whether no waiting command has an earlier deadline than this account.
    pub(crate) fn is_first(&self, account: Account) -> bool {
        let mut waiting = self.claims.iter().filter(|claim| claim.waits);
        match account {
            Account::Reserved(own) => waiting.all(|claim| own <= claim.end),
            Account::Urgent | Account::Rest => waiting.next().is_none(),
        }
    }

    /// Computes the worst time, in ns, that all of the set may take together with a command that
    /// joins it now on this account. `urgent` of the device is kept for Urgent.
    pub(crate) fn room(&mut self, now: Nanos, account: Account, urgent: Utilisation) -> u64 {
        self.claims.sort_unstable_by_key(|claim| claim.end);
        let Some(earliest) = self.claims.first() else { return u64::MAX };
        let mut room = earliest.end.ns_since(now);
        if account == Account::Rest {
            room = room.saturating_sub(self.tail);
        }
        // Demand up to a deadline: the rest of the periods that end until then, and the part of the
        // periods that follow them.
        let (mut asked, mut following, mut last) = (0_u64, Utilisation::NONE, now);
        for claim in &self.claims {
            if let Account::Reserved(own) = account
                && claim.end >= own
            {
                break;
            }
            let since_last = claim.end.ns_since(last);
            asked = asked.saturating_add(following.within(since_last)).saturating_add(claim.left);
            let until = claim.end.ns_since(now);
            let kept = if account == Account::Rest { urgent.within(until) } else { 0 };
            room = room.min(until.saturating_sub(asked).saturating_sub(kept));
            following = following.plus(Utilisation::ratio(claim.budget, claim.period));
            last = last.max(claim.end);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MS;

    fn claim(end: u64, left: u64, (budget, period): (u64, u64)) -> Claim {
        let [left, budget, period] = [left, budget, period].map(|ms| ms * MS);
        Claim { end: Nanos(end * MS), left, budget, period, waits: true }
    }

    fn schedule(claims: &[Claim]) -> Schedule {
        let (mut schedule, profile) =
            (Schedule::default(), Profile::of_device(Nanos(1), Nanos(1), 0, 1));
        claims.iter().for_each(|claim| schedule.add(*claim, &profile));
        schedule
    }

    fn ms(schedule: &mut Schedule, now: u64, account: Account, urgent: u8) -> u64 {
        schedule.room(Nanos(now * MS), account, Utilisation::percent(urgent)) / MS
    }

    #[test]
    fn f3_the_set_is_done_before_the_earliest_deadline() {
        let mut two = schedule(&[claim(1000, 500, (500, 1000)), claim(200, 60, (60, 200))]);
        let long = Account::Reserved(Nanos(1000 * MS));
        // 200 ms, of which 60 are the other's.
        assert_eq!(ms(&mut two, 0, long, 20), 140);
        let short = Account::Reserved(Nanos(200 * MS));
        assert_eq!(ms(&mut two, 0, short, 20), 200);
        let mut alone = schedule(&[claim(1000, 500, (500, 1000))]);
        assert_eq!(ms(&mut alone, 900, long, 20), 100);
    }

    #[test]
    fn f3_unreserved_work_fits_before_each_deadline() {
        // Up to 200 ms there is room for 140; up to 1000 ms for 1000 - 500 - 60 - 4 * 60.
        let mut two = schedule(&[claim(1000, 500, (500, 1000)), claim(200, 60, (60, 200))]);
        assert_eq!(ms(&mut two, 0, Account::Urgent, 20), 140);
        let mut two = schedule(&[claim(1000, 650, (650, 1000)), claim(200, 60, (60, 200))]);
        assert_eq!(ms(&mut two, 0, Account::Urgent, 20), 50);
        // Urgent keeps its part from the others alone.
        assert_eq!(ms(&mut two, 0, Account::Rest, 3), 20);
        assert_eq!(ms(&mut two, 0, Account::Rest, 20), 0);
    }

    #[test]
    fn f3_command_runs_alone_unless_earlier_deadline_waits() {
        let [late, early] = [claim(1000, 500, (500, 1000)), claim(200, 60, (60, 200))];
        let [first, second] = [early, late].map(|claim| Account::Reserved(claim.end));
        let both = schedule(&[late, early]);
        assert!(both.is_first(first) && !both.is_first(second) && !both.is_first(Account::Rest));
        let one = schedule(&[late, Claim { waits: false, ..early }]);
        assert!(one.is_first(second) && !one.is_first(Account::Urgent));
        let none = schedule(&[late, early].map(|claim| Claim { waits: false, ..claim }));
        assert!(none.is_first(Account::Rest));
    }

    #[test]
    fn f3_without_reservations_there_is_no_bound() {
        assert_eq!(Schedule::default().room(Nanos(5), Account::Rest, Utilisation::WHOLE), u64::MAX);
    }

    #[test]
    fn f3_rest_leaves_time_for_commands_in_device() {
        let profile = Profile::of_device(Nanos(4 * MS), Nanos(8 * MS), 0, 4);
        let mut schedule = Schedule::default();
        schedule.add(claim(100, 10, (10, 100)), &profile);
        assert_eq!(ms(&mut schedule, 0, Account::Rest, 0), 90);
        assert_eq!(ms(&mut schedule, 4, Account::Rest, 0), 86);
        schedule.add(claim(95, 0, (0, 100)), &profile);
        // 95 less three shares of 2 ms.
        assert_eq!(ms(&mut schedule, 0, Account::Rest, 0), 89);
        assert_eq!(ms(&mut schedule, 0, Account::Urgent, 0), 90);
    }
}
