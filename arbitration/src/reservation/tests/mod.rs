mod broker;
mod flash;
mod profiler;
mod reserved;
mod verdict;

use units::Nanos;

use super::{Admitted, Broker, Budget, Profile, Terms};
use crate::testing::{MS, SECOND};

/// Makes terms of random commands of 4 KiB.
fn terms(budget: Budget, period: u64) -> Terms {
    Terms::of(budget, Nanos(period))
}

/// Makes the profile of a disk: 8 ms for a command, 20 ms at the worst.
fn disk() -> Profile {
    let times = (Nanos(8 * MS), Nanos(20 * MS));
    Profile { seeks: true, ..Profile::of_device(times.0, times.1, 10_000, 1) }
}

fn admit(profile: &Profile, terms: &Terms) -> Admitted {
    Broker::admit(profile, &[], 0, terms).expect("fits")
}
