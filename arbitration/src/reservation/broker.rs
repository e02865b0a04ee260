//! The broker translates a tenant's terms into a share of the device, and says whether it can be
//! had (docs/research/sources.md, F1 and F2, and F4's part of admission).

use units::Nanos;

use super::ceiling::QueueBound;
use super::profile::{Profile, padded};
use super::refusal::{Refusal, Shortage};
use super::shape::shapes;
use super::terms::{Budget, LONGEST_PERIOD, SHORTEST_PERIOD, Terms};
use super::utilisation::Utilisation;

/// A second in ns.
const SECOND: u64 = 1_000_000_000;
/// The greatest depth that floors are given for, as a power of two.
const DEEPEST: u32 = 10;

/// Translates and admits reservations, from its arguments alone.
#[derive(Clone, Copy, Debug)]
pub struct Broker;

/// A reservation as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// p: the period that the device keeps. A latency makes it shorter than the tenant's, buffers
    /// make it longer.
    pub period: Nanos,
    /// The budget of such a period.
    pub budget: Budget,
    /// n: commands in each period, of the usual size.
    pub operations: u64,
    /// b: the device time that is set aside for the tenant in each period, the seeks to its
    /// stream and away from it included.
    pub device_time: Nanos,
    /// u'' = b/p, rounded up.
    pub utilisation: Utilisation,
    /// The least buffer space, in bytes: the space that the tenant's commands must hold at once to
    /// use the budget, and at least the space of a burst (docs/research/sources.md, F4: buffers count in
    /// admission).
    pub buffer_bytes: u64,
}

/// A reservation that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Terms that were asked for.
    pub terms: Terms,
    /// Translation of the terms for the device.
    pub translation: Translation,
    /// The device as it was when the reservation was admitted.
    pub profile: Profile,
}

impl Admitted {
    /// Returns the reservation's demands on the device's window, for a tenant that does not think
    /// between its commands.
    #[must_use]
    pub fn queue_bound(&self) -> QueueBound {
        let Self { terms, translation, profile } = self;
        let times = (interval(profile, terms), in_device(profile, terms));
        QueueBound::new(profile, times, translation.period.0, 0)
    }

    /// Computes how many commands a second a tenant gets at least that has `depth` of them
    /// outstanding at any time, beside commands of 4 KiB, while other reservations use `reserved` of the device. A
    /// fixed `window` holds as many of these commands; `None`: the window follows the reservation.
    #[must_use]
    pub fn floor(&self, depth: u64, window: Option<u32>, reserved: Utilisation) -> u64 {
        let (bound, own) = (self.queue_bound(), in_device(&self.profile, &self.terms));
        let others = window.map_or(bound.depth(), u64::from).max(bound.at_once.into());
        let each = own.saturating_add(bound.share.saturating_mul(others)).max(1);
        let left = Utilisation::WHOLE.less(reserved).within(SECOND);
        let achieved = u128::from(depth) * u128::from(left) / u128::from(each);
        u64::try_from(achieved).unwrap_or(u64::MAX).min(self.rate())
    }

    /// Returns the reserved rate, in the tenant's usual commands a second.
    fn rate(&self) -> u64 {
        SECOND / interval(&self.profile, &self.terms)
    }

    /// Describes the guaranteed minimum of a tenant by its number of outstanding commands, as [`floor`](Self::floor)
    /// computes it.
    #[must_use]
    pub fn floors(&self, window: Option<u32>, reserved: Utilisation) -> String {
        let floor = |depth| self.floor(depth, window, reserved);
        let (one, rate) = (floor(1), self.rate());
        if one >= rate {
            return format!("{rate} commands a second at any depth");
        }
        let from = (0..=DEEPEST).map(|shift| 1_u64 << shift).find(|depth| floor(*depth) >= rate);
        match from {
            Some(depth) => {
                format!("{one} commands a second one at a time, {rate} from {depth} at a time")
            }
            None => format!("{one} commands a second one at a time"),
        }
    }
}

impl Broker {
    /// Translates `terms` into a share of a device.
    ///
    /// For a disk that is Eq. (1) (docs/research/sources.md, F1): u'' = (2*WCET + max(WCET, (n-1)*MET +
    /// WCET)) / p. Without seeks the two extra worst times fall away and MET is padded by one
    /// eighth. If the budget takes c commands in the device at once, (n-c)*MET + c*WCET stands for
    /// (n-1)*MET + WCET.
    ///
    /// If several periods can keep terms with a latency, the period with the least share is used.
    ///
    /// # Errors
    /// The terms make no sense on any device.
    pub fn translate(profile: &Profile, terms: &Terms) -> Result<Translation, Refusal> {
        check(terms)?;
        let all = shapes(profile, terms).map(|shape| translate(profile, &shape));
        let least = all.min_by_key(|translation| translation.utilisation);
        least.ok_or(Refusal::Latency(terms.latency.unwrap_or_default()))
    }

    /// Admits `terms` if they can be kept beside the reservations admitted `already` on the same
    /// device, of which `urgent_share` per cent are kept for Urgent.
    ///
    /// # Errors
    /// The reason, with the remaining capacity and terms that would fit.
    pub fn admit(
        profile: &Profile,
        already: &[Admitted],
        urgent_share: u8,
        terms: &Terms,
    ) -> Result<Admitted, Refusal> {
        let beside = LoadedDevice { profile, already, urgent_share };
        let (translation, room) = beside.best(terms)?;
        if translation.utilisation <= room.left {
            return Ok(Admitted { terms: *terms, translation, profile: *profile });
        }
        Err(Refusal::Utilisation(Box::new(Shortage {
            terms: *terms,
            needed: translation.utilisation,
            left: room.left,
            reserved: (room.reserved, already.len()),
            urgent: room.urgent,
            blocking: room.blocking,
            fits: beside.largest(terms),
            fits_longer: beside.longer(terms),
        })))
    }

    /// Translates the reservations of one device again, in their order, once its `profile` differs from their own.
    /// `None`: it does not, or the reservations do not all fit any more. Then all stay as they are, and missed periods
    /// name the device as the cause.
    #[must_use]
    pub fn review(
        profile: &Profile,
        admitted: &[Admitted],
        urgent_share: u8,
    ) -> Option<Vec<Admitted>> {
        if !admitted.iter().any(|one| one.profile.differs(profile)) {
            return None;
        }
        let mut all = Vec::with_capacity(admitted.len());
        for one in admitted {
            all.push(Self::admit(profile, &all, urgent_share, &one.terms).ok()?);
        }
        Some(all)
    }

    /// Checks that a command of the tenant can complete within a period in a device whose window
    /// always holds `window` commands, regardless of reservations.
    ///
    /// # Errors
    /// The time for which commands are in the device, and the windows that would do.
    pub fn check_window(admitted: &Admitted, window: u32) -> Result<(), Refusal> {
        let Admitted { terms, translation, profile } = admitted;
        let bound = admitted.queue_bound();
        let own = in_device(profile, terms);
        let held = bound.share.saturating_mul(window.into()).saturating_add(own);
        let period =
            terms.latency.map_or(translation.period, |latency| latency.min(translation.period));
        if held <= period.0 || u64::from(window) <= bound.at_once.into() {
            return Ok(());
        }
        Err(Refusal::Window {
            terms: Box::new(*terms),
            window,
            held: Nanos(held),
            period,
            most: (period.0.saturating_sub(own) / bound.share).max(bound.at_once.into()),
            in_time: bound.depth(),
        })
    }

    /// Checks that `admitted` finds the buffer space it needs in the `left` bytes that other
    /// reservations leave (docs/research/sources.md, F4: buffers count in admission).
    ///
    /// # Errors
    /// The required and the available bytes.
    pub const fn check_buffers(admitted: &Admitted, left: u64) -> Result<(), Refusal> {
        let needed = admitted.translation.buffer_bytes;
        if needed > left { Err(Refusal::Buffers { needed, left }) } else { Ok(()) }
    }
}

/// Translates terms with the period that the device keeps.
fn translate(profile: &Profile, shape: &Terms) -> Translation {
    let (mean, worst) = (padded_mean(profile, shape), profile.worst_of(shape));
    let operations = operations(profile, shape);
    let at_once = at_once(profile, shape, operations);
    let all = match shape.budget {
        Budget::DeviceTime(time) => time.0.max(mean),
        _ => operations.saturating_mul(mean),
    };
    let extra = worst.saturating_sub(mean).saturating_mul(at_once);
    let seeks = if profile.seeks { worst.saturating_mul(2) } else { 0 };
    let device_time = all.saturating_add(extra).max(worst).saturating_add(seeks);
    Translation {
        period: shape.period,
        budget: shape.budget,
        operations,
        device_time: Nanos(device_time),
        utilisation: Utilisation::ratio(device_time, shape.period.0),
        buffer_bytes: buffered(shape, at_once, operations)
            .saturating_mul(shape.request_bytes.into()),
    }
}

/// The room that a device has left for one more reservation.
struct Room {
    reserved: Utilisation,
    urgent: Utilisation,
    blocking: Utilisation,
    left: Utilisation,
    shortest_period: Nanos,
    worst: Nanos,
}

impl Room {
    fn new(beside: &LoadedDevice<'_>, period: Nanos) -> Self {
        let LoadedDevice { profile, already, urgent_share } = *beside;
        let reserved = already.iter().map(|admitted| admitted.translation.utilisation).sum();
        let periods = already.iter().map(|admitted| admitted.translation.period);
        let shortest_period = periods.fold(period, Ord::min);
        let worst = longest_command(profile);
        let blocking = Utilisation::ratio(worst.0, shortest_period.0);
        let urgent = Utilisation::percent(urgent_share);
        let left = Utilisation::WHOLE.less(urgent).less(reserved).less(blocking);
        Self { reserved, urgent, blocking, left, shortest_period, worst }
    }

    /// Checks that a period is longer than one command may hold the device.
    fn check_period(&self, terms: &Terms) -> Result<(), Refusal> {
        let longest = Utilisation::WHOLE.less(self.urgent).within(self.shortest_period.0);
        if self.worst.0 < longest {
            return Ok(());
        }
        let (worst, period) = (self.worst, self.shortest_period);
        // Twice a period that is just too short leaves half of the device to be reserved.
        let twice = worst.0.saturating_mul(2).saturating_mul(100);
        let shortest = Nanos(twice / (100 - self.urgent.whole_percent().min(99)));
        Err(match terms.latency {
            // Two periods pass within a latency, or more.
            Some(latency) => {
                Refusal::TooSlow { worst, latency, shortest: Nanos(shortest.0.saturating_mul(2)) }
            }
            None => Refusal::TooShort { worst, period, shortest },
        })
    }
}

/// Returns the longest time for which a command of any host that is already in the device may keep
/// a due one waiting: commands are not taken back. The time is set aside once, for the shortest
/// period.
fn longest_command(profile: &Profile) -> Nanos {
    let worst = profile.read.worst.max(profile.write.worst);
    Nanos(worst.0.saturating_mul(u64::from(profile.parallelism.max(1))))
}

fn check(terms: &Terms) -> Result<(), Refusal> {
    if terms.budget.amount() == 0 {
        return Err(Refusal::NoBudget);
    }
    let longest = Nanos(terms.period.0.saturating_mul(terms.buffers.into()));
    if terms.period < SHORTEST_PERIOD || longest > LONGEST_PERIOD {
        return Err(Refusal::Period(terms.period));
    }
    if terms.request_bytes == 0 {
        return Err(Refusal::NoRequestSize);
    }
    if terms.write_percent > 100 {
        return Err(Refusal::WritePercent(terms.write_percent));
    }
    if terms.burst == 0 {
        return Err(Refusal::NoBurst);
    }
    if terms.buffers == 0 || terms.buffers > 1 && terms.write_percent < 100 {
        return Err(Refusal::BuffersOfReads);
    }
    if let Some(latency) = terms.latency {
        if terms.buffers > 1 {
            return Err(Refusal::LatencyAndBuffers);
        }
        if latency.0 < 2 * SHORTEST_PERIOD.0 || latency > LONGEST_PERIOD {
            return Err(Refusal::Latency(latency));
        }
    }
    Ok(())
}

/// Returns the mean execution time (MET) as the budget counts it, in ns.
fn padded_mean(profile: &Profile, terms: &Terms) -> u64 {
    let mean = profile.mean_of(terms);
    if profile.seeks { mean } else { padded(mean) }
}

/// Returns the number of operations in a period (n), at least 1.
fn operations(profile: &Profile, terms: &Terms) -> u64 {
    match terms.budget {
        Budget::Operations(n) => n,
        Budget::Bytes(bytes) => bytes.div_ceil(u64::from(terms.request_bytes.max(1))),
        Budget::DeviceTime(time) => time.0 / profile.mean_of(terms),
    }
    .max(1)
}

/// Returns the mean time of the tenant's usual command in the device, in ns.
fn in_device(profile: &Profile, terms: &Terms) -> u64 {
    profile.mean_of(terms).saturating_mul(profile.parallelism.max(1).into())
}

/// Computes the time, in ns, in which one of the tenant's usual commands is reserved.
pub(super) fn interval(profile: &Profile, terms: &Terms) -> u64 {
    (terms.period.0 / operations(profile, terms)).max(1)
}

/// Returns the number of a tenant's commands that must be in the device at once to use the budget
/// in time when each takes its worst time there; no more than are served at once or asked for, at
/// least 1.
///
/// So many worst times are charged at one time, at most. For one command at a time that is the one
/// extra worst time of Eq. (1).
fn at_once(profile: &Profile, terms: &Terms, operations: u64) -> u64 {
    let served = u64::from(profile.parallelism.max(1));
    let in_device = u128::from(profile.worst_of(terms)) * u128::from(served);
    let needed = (in_device * u128::from(operations)).div_ceil(u128::from(terms.period.0.max(1)));
    u64::try_from(needed).unwrap_or(u64::MAX).clamp(1, served.min(operations.max(1)))
}

/// Returns the number of commands that have buffers: as many as are in the device at once, or come at
/// once; of a period that buffers have made longer, all.
fn buffered(shape: &Terms, at_once: u64, operations: u64) -> u64 {
    if shape.buffers > 1 { operations } else { at_once.max(shape.burst.into()) }
}

/// A device with its existing reservations.
#[derive(Clone, Copy, Debug)]
struct LoadedDevice<'a> {
    profile: &'a Profile,
    already: &'a [Admitted],
    urgent_share: u8,
}

impl LoadedDevice<'_> {
    /// Translates terms with the period that leaves most of the device, or is short of least.
    fn best(&self, terms: &Terms) -> Result<(Translation, Room), Refusal> {
        check(terms)?;
        let (mut best, mut refusal) = (None::<(Translation, Room)>, None);
        let short = |(translation, room): &(Translation, Room)| {
            (translation.utilisation.less(room.left), translation.utilisation.plus(room.blocking))
        };
        for shape in shapes(self.profile, terms) {
            let found = (translate(self.profile, &shape), Room::new(self, shape.period));
            match found.1.check_period(terms) {
                Ok(()) if best.as_ref().is_some_and(|best| short(best) <= short(&found)) => {}
                Ok(()) => best = Some(found),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        let latency = terms.latency.unwrap_or_default();
        best.ok_or_else(|| refusal.unwrap_or(Refusal::Latency(latency)))
    }

    /// Returns whether terms would be admitted.
    fn fits(&self, terms: &Terms) -> bool {
        self.best(terms).is_ok_and(|(translation, room)| translation.utilisation <= room.left)
    }

    /// Returns the largest budget, with all else as asked, that there is room for.
    fn largest(&self, terms: &Terms) -> Option<Terms> {
        let with = |amount| Terms { budget: terms.budget.with_amount(amount), ..*terms };
        let (mut low, mut high) = (0, terms.budget.amount());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.fits(&with(middle)) { low = middle } else { high = middle }
        }
        (low > 0).then(|| in_whole_commands(with(low), terms))
    }

    /// Returns the same rate with the shortest of the longer periods (2, 3, 5 and 10 times, and so
    /// on) with which it would be admitted; of terms with a latency, with the shortest of the longer
    /// latencies.
    fn longer(&self, terms: &Terms) -> Option<Terms> {
        let longer = [2, 3, 5, 10, 20, 50, 100, 1000].into_iter().map(|k| match terms.latency {
            None => terms.lengthened(k),
            Some(latency) => {
                let latency = Nanos(latency.0.saturating_mul(k.into()));
                Terms { latency: Some(latency), ..*terms }
            }
        });
        longer.into_iter().find(|longer| self.fits(longer))
    }
}

/// Rounds a budget in bytes down to whole commands, where that is not nothing.
fn in_whole_commands(fits: Terms, terms: &Terms) -> Terms {
    let Budget::Bytes(bytes) = fits.budget else { return fits };
    let whole = bytes - bytes % u64::from(terms.request_bytes.max(1));
    if whole == 0 { fits } else { Terms { budget: Budget::Bytes(whole), ..fits } }
}
