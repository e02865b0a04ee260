//! Common parts of the scenarios of parts of the system: a seed, names, and values in their range.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::ensure;
use sluice_sim::scenario::value::Time;

/// Returns the seed of a scenario that names none.
pub(super) const fn first_seed() -> u64 {
    1
}

/// Checks that a value is in its range, and returns it.
///
/// # Errors
///
/// It is not; the error tells the key and the range.
pub(super) fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> anyhow::Result<T> {
    let (least, most) = (range.start(), range.end());
    ensure!(range.contains(&value), "`{key}` is {value}{unit}: write {least} to {most}{unit}");
    Ok(value)
}

/// Checks that a time is in its range.
///
/// # Errors
///
/// As [`within`], in seconds.
pub(super) fn time_within(
    key: &str,
    Time(time): Time,
    range: RangeInclusive<Duration>,
) -> anyhow::Result<()> {
    let (least, most) = range.into_inner();
    within(key, time.as_secs_f64(), least.as_secs_f64()..=most.as_secs_f64(), " s")?;
    Ok(())
}

/// Checks the names of a scenario's streams or classes, as `of` calls one of them.
///
/// # Errors
///
/// One has no name, or two have the same.
pub(super) fn names<'a>(of: &str, names: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for (name, number) in names.zip(1..) {
        ensure!(
            !name.is_empty() && seen.insert(name),
            "`{of} {number}.name` is \"{name}\": give each {of} a name of its own"
        );
    }
    Ok(())
}

/// Changes a scenario that has each of the first texts.
#[cfg(test)]
pub(super) fn changed(scenario: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(scenario.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// Checks that a scenario is refused with each change of the first text to the second, in words that have
/// the other two.
#[cfg(test)]
pub(super) fn refused<T: std::fmt::Debug>(
    scenario: &str,
    parse: impl Fn(&str) -> anyhow::Result<T>,
    cases: &[(&str, &str, &str, &str)],
) {
    parse(scenario).unwrap();
    for (from, to, key, says) in cases {
        let error = parse(&changed(scenario, &[(from, to)])).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(key) && error.contains(says), "{to}: {error}");
    }
}
