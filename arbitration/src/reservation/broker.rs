//! The broker: from a tenant's terms to a share of the device, and whether it can be had
//! (docs/sources.md, F1 and F2, and F4's part of admission).

use units::Nanos;

use super::profile::{Profile, padded};
use super::refusal::{Refusal, Shortage};
use super::terms::{Budget, Terms};
use super::utilisation::Utilisation;

/// The shortest period.
pub const SHORTEST_PERIOD: Nanos = Nanos(1_000_000);
/// The longest period.
pub const LONGEST_PERIOD: Nanos = Nanos(3_600_000_000_000);

/// Translates and admits reservations. Pure: everything it knows comes as arguments.
#[derive(Clone, Copy, Debug)]
pub struct Broker;

/// A reservation as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// n: commands in each period, of the usual size.
    pub operations: u64,
    /// b: the device time that is set aside for the tenant in each period, the seeks to its
    /// stream and away from it included.
    pub device_time: Nanos,
    /// u'' = b/p, rounded up.
    pub utilisation: Utilisation,
    /// The least buffer space, in bytes: what the tenant's commands must hold at once for the
    /// budget to be used (docs/sources.md, F4: buffers count in admission).
    pub buffer_bytes: u64,
}

/// A reservation that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Terms that were asked for.
    pub terms: Terms,
    /// Translation of the terms for the device.
    pub translation: Translation,
    /// The device it was admitted on, as it was then.
    pub profile: Profile,
}

impl Broker {
    /// Translates `terms` into what they take of a device.
    ///
    /// For a disk that is Eq. (1) (docs/sources.md, F1): u'' = (2*WCET + max(WCET, (n-1)*MET +
    /// WCET)) / p. Without seeks the two extra worst times fall away and MET is padded by one
    /// eighth. Where the budget takes c commands in the device at once, (n-c)*MET + c*WCET stands
    /// for (n-1)*MET + WCET.
    ///
    /// # Errors
    /// Terms that make no sense, whatever the device.
    pub fn translate(profile: &Profile, terms: &Terms) -> Result<Translation, Refusal> {
        check(terms)?;
        let (mean, worst) = (padded_mean(profile, terms), profile.worst_of(terms));
        let operations = operations(profile, terms);
        let at_once = at_once(profile, terms, operations);
        let all = match terms.budget {
            Budget::DeviceTime(time) => time.0.max(mean),
            _ => operations.saturating_mul(mean),
        };
        let extra = worst.saturating_sub(mean).saturating_mul(at_once);
        let seeks = if profile.seeks { worst.saturating_mul(2) } else { 0 };
        let device_time = all.saturating_add(extra).max(worst).saturating_add(seeks);
        Ok(Translation {
            operations,
            device_time: Nanos(device_time),
            utilisation: Utilisation::of(device_time, terms.period.0),
            buffer_bytes: at_once.saturating_mul(u64::from(terms.request_bytes)),
        })
    }

    /// Admits `terms` if they can be kept beside what was admitted `already` on the same device, of
    /// which `urgent_share` per cent are kept for Urgent.
    ///
    /// # Errors
    /// Why not, with what is left and what would fit.
    pub fn admit(
        profile: &Profile,
        already: &[Admitted],
        urgent_share: u8,
        terms: &Terms,
    ) -> Result<Admitted, Refusal> {
        let translation = Self::translate(profile, terms)?;
        let room = Room::new(profile, already, urgent_share, terms);
        room.check_period()?;
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
            fits: largest(profile, terms, room.left),
            fits_longer: longer(profile, already, urgent_share, terms),
        })))
    }

    /// Checks that `admitted` finds the buffer space it needs in the `left` bytes that other
    /// reservations leave (docs/sources.md, F4: buffers count in admission).
    ///
    /// # Errors
    /// How much is needed and how much there is.
    pub const fn check_buffers(admitted: &Admitted, left: u64) -> Result<(), Refusal> {
        let needed = admitted.translation.buffer_bytes;
        if needed > left { Err(Refusal::Buffers { needed, left }) } else { Ok(()) }
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
    fn new(profile: &Profile, already: &[Admitted], urgent_share: u8, terms: &Terms) -> Self {
        let reserved = already.iter().map(|admitted| admitted.translation.utilisation).sum();
        let periods = already.iter().map(|admitted| admitted.terms.period);
        let shortest_period = periods.fold(terms.period, Ord::min);
        let worst = longest_command(profile);
        let blocking = Utilisation::of(worst.0, shortest_period.0);
        let urgent = Utilisation::percent(urgent_share);
        let left = Utilisation::WHOLE.less(urgent).less(reserved).less(blocking);
        Self { reserved, urgent, blocking, left, shortest_period, worst }
    }

    /// Checks that a period is longer than one command may hold the device.
    fn check_period(&self) -> Result<(), Refusal> {
        let longest = Utilisation::WHOLE.less(self.urgent).within(self.shortest_period.0);
        if self.worst.0 < longest {
            return Ok(());
        }
        let (worst, period) = (self.worst, self.shortest_period);
        // Twice what is just too short leaves half of the device to be reserved.
        let twice = worst.0.saturating_mul(2).saturating_mul(100);
        let shortest = Nanos(twice / (100 - self.urgent.whole_percent().min(99)));
        Err(Refusal::TooShort { worst, period, shortest })
    }
}

/// Returns the longest time in ns for which a command already in the device may keep a due one
/// waiting, of any host: commands are not taken back. The time is set aside once, for the shortest
/// period.
fn longest_command(profile: &Profile) -> Nanos {
    let worst = profile.read.worst.max(profile.write.worst);
    Nanos(worst.0.saturating_mul(u64::from(profile.parallelism.max(1))))
}

fn check(terms: &Terms) -> Result<(), Refusal> {
    if terms.budget.amount() == 0 {
        return Err(Refusal::NoBudget);
    }
    if terms.period < SHORTEST_PERIOD || terms.period > LONGEST_PERIOD {
        return Err(Refusal::Period(terms.period));
    }
    if terms.request_bytes == 0 {
        return Err(Refusal::NoRequestSize);
    }
    if terms.write_percent > 100 {
        return Err(Refusal::WritePercent(terms.write_percent));
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

/// Returns the number of a tenant's commands that must be in the device at once to use the budget
/// in time when each takes its worst time there; no more than are served at once or asked for, at
/// least 1.
///
/// It is what has to be charged at the worst at one time. For one command at a time that is the one
/// extra worst time of Eq. (1).
fn at_once(profile: &Profile, terms: &Terms, operations: u64) -> u64 {
    let served = u64::from(profile.parallelism.max(1));
    let in_device = u128::from(profile.worst_of(terms)) * u128::from(served);
    let needed = (in_device * u128::from(operations)).div_ceil(u128::from(terms.period.0.max(1)));
    u64::try_from(needed).unwrap_or(u64::MAX).clamp(1, served.min(operations.max(1)))
}

/// Returns the largest budget with the same period that `left` has room for.
fn largest(profile: &Profile, terms: &Terms, left: Utilisation) -> Option<Terms> {
    let fits = |amount| {
        let smaller = Terms { budget: terms.budget.with_amount(amount), ..*terms };
        let translation = Broker::translate(profile, &smaller).ok()?;
        (translation.utilisation <= left).then_some(smaller)
    };
    let (mut low, mut high) = (0, terms.budget.amount());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle).is_some() { low = middle } else { high = middle }
    }
    fits(low).map(|fits| in_whole_commands(fits, terms))
}

/// Rounds a budget in bytes down to whole commands, where that is not nothing.
fn in_whole_commands(fits: Terms, terms: &Terms) -> Terms {
    let Budget::Bytes(bytes) = fits.budget else { return fits };
    let whole = bytes - bytes % u64::from(terms.request_bytes.max(1));
    if whole == 0 { fits } else { Terms { budget: Budget::Bytes(whole), ..fits } }
}

/// Returns the same rate with the shortest of the longer periods (2, 3, 5 and 10 times, and so on)
/// with which it would be admitted.
fn longer(
    profile: &Profile,
    already: &[Admitted],
    urgent_share: u8,
    terms: &Terms,
) -> Option<Terms> {
    [2, 3, 5, 10, 20, 50, 100, 1000].into_iter().map(|k| terms.lengthened(k)).find(|longer| {
        let Ok(translation) = Broker::translate(profile, longer) else { return false };
        let room = Room::new(profile, already, urgent_share, longer);
        room.check_period().is_ok() && translation.utilisation <= room.left
    })
}
