//! The grants of regions: who has which, and whether one more fits. Pure.

use std::net::IpAddr;
use std::time::Duration;

use fabric::controller::ControllerId;
use fabric::nvme::region::{RegionName, RegionRights};
use pmem::admission::{Admission, Refusal};
use pmem::token::{Iops, Tokens};

/// The name of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GrantId(pub(crate) u64);

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) id: GrantId,
    pub(crate) region: RegionName,
    /// The host's NQN.
    pub(crate) host: String,
    /// The address that the grant was asked for from.
    pub(crate) address: Option<IpAddr>,
    /// The controller with which the grant ends.
    pub(crate) controller: ControllerId,
    pub(crate) rights: RegionRights,
    /// The secret by which the client's connection is known.
    pub(crate) secret: u128,
    /// I/Os per second that are reserved.
    pub(crate) reservation: u64,
    /// Most I/Os per second.
    pub(crate) limit: Option<u64>,
    /// Whether the RDMA connection stands.
    pub(crate) connected: bool,
    /// I/Os that the client has reported.
    pub(crate) completed: u64,
    /// I/Os that the client has reported in the last whole period.
    pub(crate) last_period: u64,
    /// Periods in which the client did not get its reservation.
    pub(crate) missed: u64,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Grant({}, {} for {})", self.id.0, self.region, self.host)
    }
}

/// A wish for a grant, with the region's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) region: RegionName,
    pub(super) host: &'a str,
    pub(super) address: Option<IpAddr>,
    pub(super) controller: ControllerId,
    pub(super) rights: RegionRights,
    /// I/Os per second that the host wants to be reserved.
    pub(super) reservation: u64,
    /// The most I/Os per second that one host may reserve of the region.
    pub(super) most_reserved: u64,
    pub(super) limit: Option<u64>,
    pub(super) secret: u128,
}

/// A wish that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There are as many grants as there may be, in all or of this host.
    NoRoom,
    /// The reservation does not fit; so many I/Os per second do.
    Reservation {
        /// The largest reservation that would be admitted.
        fits: u64,
    },
}

#[derive(Debug)]
pub(super) struct Grants {
    all: Vec<Grant>,
    /// The most grants at one time.
    most: usize,
    /// The number of grants that were given.
    given: u64,
}

impl Grants {
    /// Makes a table without grants, for `most` of them. One host may have a quarter.
    pub(super) const fn new(most: u32) -> Self {
        Self { all: Vec::new(), most: most as usize, given: 0 }
    }

    /// Gives a grant, if there is room for it, and its reservation fits beside all others.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn give(&mut self, wish: Wish<'_>, admission: Admission) -> Result<&Grant, Refused> {
        let of_host = self.all.iter().filter(|grant| grant.host == wish.host);
        if self.all.len() >= self.most || of_host.count() >= (self.most / 4).max(1) {
            return Err(Refused::NoRoom);
        }
        let theirs = self.all.iter();
        let theirs = theirs.filter(|one| one.host == wish.host && one.region == wish.region);
        let theirs: u64 = theirs.map(|grant| grant.reservation).sum();
        let most = wish.most_reserved.saturating_sub(theirs);
        let fits = match admission
            .check(self.reserved(admission.period), tokens(wish.reservation, admission.period))
        {
            Ok(()) => wish.reservation,
            Err(Refusal::Aggregate { fits, .. } | Refusal::Local { fits, .. }) => {
                per_second(fits, admission.period)
            }
        };
        if wish.reservation > fits.min(most) {
            return Err(Refused::Reservation { fits: fits.min(most) });
        }
        self.given += 1;
        let Wish { region, host, address, controller, rights, reservation, limit, secret, .. } =
            wish;
        self.all.push(Grant {
            id: GrantId(self.given),
            region,
            host: host.to_owned(),
            address,
            controller,
            rights,
            secret,
            reservation,
            limit,
            connected: false,
            completed: 0,
            last_period: 0,
            missed: 0,
        });
        self.all.last().ok_or(Refused::NoRoom)
    }

    /// Returns the tokens of a period that are reserved.
    fn reserved(&self, period: Duration) -> Tokens {
        self.all.iter().map(|grant| tokens(grant.reservation, period)).sum()
    }

    /// Returns the I/Os per second that are reserved.
    pub(super) fn reserved_per_second(&self) -> u64 {
        self.all.iter().map(|grant| grant.reservation).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.all.iter()
    }

    /// Returns all grants, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Grant> {
        self.all.iter_mut()
    }

    pub(super) fn get_mut(&mut self, id: GrantId) -> Option<&mut Grant> {
        self.all.iter_mut().find(|grant| grant.id == id)
    }

    /// Takes the grants back for which `over` holds. Returns which these were.
    pub(super) fn take_back(&mut self, over: impl Fn(&Grant) -> bool) -> Vec<GrantId> {
        self.all.extract_if(.., |grant| over(grant)).map(|grant| grant.id).collect()
    }
}

/// Returns the tokens of a period that a rate in I/Os per second has.
pub(super) fn tokens(rate: u64, period: Duration) -> Tokens {
    Iops(rate).in_time(period)
}

/// Returns the largest rate in I/Os per second for which a period's tokens are enough.
pub(super) fn per_second(tokens: Tokens, period: Duration) -> u64 {
    tokens.for_part(Duration::from_secs(1), period).0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(250);

    fn admission(capacity: u64, local: u64) -> Admission {
        Admission { period: PERIOD, capacity: tokens(capacity, PERIOD), local: Iops(local) }
    }

    fn wish(host: &str, reservation: u64) -> Wish<'_> {
        Wish {
            region: RegionName::from_text("log").unwrap(),
            host,
            address: None,
            controller: ControllerId(1),
            rights: RegionRights::Read,
            reservation,
            most_reserved: 600,
            limit: None,
            secret: 5,
        }
    }

    #[test]
    fn h3_a_reservation_that_does_not_fit_is_refused_with_what_would() {
        let mut grants = Grants::new(64);
        let admission = admission(1000, 800);
        for (host, reservation, fits) in [
            // The region allows no more.
            ("a", 601, Some(600)),
            ("a", 500, None),
            // The host has 500 of its 600 already.
            ("a", 200, Some(100)),
            // The data node has 500 left.
            ("b", 600, Some(500)),
            ("b", 500, None),
        ] {
            let refused = grants.give(wish(host, reservation), admission).err();
            let expected = fits.map(|fits| Refused::Reservation { fits });
            assert_eq!(refused, expected, "{host}: {reservation}");
        }
        assert_eq!(grants.reserved_per_second(), 1000);
        grants.give(wish("c", 0), admission).unwrap();
        let gone = grants.take_back(|grant| grant.host == "a");
        assert_eq!(gone, [GrantId(1)]);
        grants.give(wish("c", 500), admission).unwrap();
    }

    #[test]
    fn one_host_leaves_room_for_others() {
        let mut grants = Grants::new(8);
        let admission = admission(1000, 1000);
        for _ in 0..2 {
            grants.give(wish("a", 1), admission).unwrap();
        }
        assert_eq!(grants.give(wish("a", 1), admission).err(), Some(Refused::NoRoom));
        for host in ["b", "b", "c", "c", "d", "d"] {
            grants.give(wish(host, 1), admission).unwrap();
        }
        assert_eq!(grants.give(wish("e", 0), admission).err(), Some(Refused::NoRoom));
        let mut only = Grants::new(1);
        only.give(wish("a", 0), admission).unwrap();
    }

    #[test]
    fn nothing_that_is_printed_has_the_secret() {
        let mut grants = Grants::new(8);
        let secret = 0x1234_5678_9abc;
        grants.give(Wish { secret, ..wish("a", 1) }, admission(10, 10)).unwrap();
        assert!(!format!("{grants:?}").contains(&secret.to_string()));
    }

    proptest! {
        #[test]
        fn h3_what_is_said_to_fit_is_admitted_and_no_more_than_the_capacity_ever_is(
            wishes in prop::collection::vec((0_usize..6, 0_u64..900), 1..40),
            capacity in 0_u64..3000, local in 0_u64..1500, ms in 10_u64..3000,
        ) {
            let period = Duration::from_millis(ms);
            let admission =
                Admission { period, capacity: tokens(capacity, period), local: Iops(local) };
            let mut grants = Grants::new(400);
            let hosts = ["a", "b", "c", "d", "e", "f"];
            for (host, reservation) in wishes {
                if let Err(Refused::Reservation { fits }) =
                    grants.give(wish(hosts[host], reservation), admission)
                {
                    prop_assert!(fits < reservation);
                    prop_assert!(grants.give(wish(hosts[host], fits), admission).is_ok());
                }
                prop_assert!(grants.reserved(period) <= admission.capacity);
            }
        }
    }
}
