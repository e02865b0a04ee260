//! Sizes, times and numbers as a person writes and reads them: the grammar of
//! [`sluice_config::amounts`], with the letters of fio.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

pub(crate) use sluice_config::amounts::{
    parse_fio_duration as time, parse_fio_size as bytes, parse_frequency as rate,
};

/// Parses an unsigned number, decimal or with 0x.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number: write for example 512 or 0x200"))
}

/// Parses a number from 0 to 255, decimal or with 0x.
pub(crate) fn byte(text: &str) -> Result<u8, String> {
    u8::try_from(number(text)?).map_err(|_| format!("`{text}` is more than 255"))
}

/// Parses a whole number within bounds.
pub(crate) fn within<T>(text: &str, bounds: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| {
        format!("`{text}` is not a whole number from {} to {}", bounds.start(), bounds.end())
    })
}

/// Parses a job's share in proportion to others: `3`, `0.5`, `30%`, `30 %`.
pub(crate) fn weight(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let weight = number.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
    weight.ok_or_else(|| format!("`{text}` is not a weight: write for example 3 or 50%"))
}

/// Parses the share of reads in per cent: `70`, `70%`.
pub(crate) fn read_share(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let share = number.parse().ok().filter(|share: &u8| *share <= 100);
    share.ok_or_else(|| "write a whole share from 0 % to 100 %".to_owned())
}

/// Parses a number of I/Os per second that is reserved: as [`rate`], rounded.
pub(crate) fn reservation(text: &str) -> Result<u32, String> {
    whole(rate(text)?)
}

/// Rounds a rate to whole operations per second, of which a reservation has at least 1.
pub(crate) fn whole(rate: f64) -> Result<u32, String> {
    let rounded = rate.round();
    if !(1.0..=f64::from(u32::MAX)).contains(&rounded) {
        return Err(format!("a reservation has 1 to {} I/Os per second", u32::MAX));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number within bounds"
    )]
    Ok(rounded as u32)
}

/// Shows a count with three digits: `987`, `12.3 k`, `1.05 M`.
pub(crate) fn show_count(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 999.5e6 => (v / 1e9, " G"),
        v if v >= 999.5e3 => (v / 1e6, " M"),
        v if v >= 999.5 => (v / 1e3, " k"),
        v => (v, ""),
    };
    let digits = match (unit, value) {
        ("", _) => 0,
        (_, v) if v < 9.995 => 2,
        (_, v) if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}

/// Shows a latency: `12.3 us`, `4.56 ms`.
pub(crate) fn show_latency(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        v if v >= 999.5e6 => (v / 1e9, "s"),
        v if v >= 999.5e3 => (v / 1e6, "ms"),
        v => (v / 1e3, "us"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Shows a size in the largest unit that keeps it whole: `4 KiB`, `512 B`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fit = units.iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    fit.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_times_and_rates_read_as_written() {
        assert_eq!((bytes("4k"), bytes("128KiB")), (Ok(4096), Ok(131_072)));
        assert_eq!((read_share("70"), read_share("70 %")), (Ok(70), Ok(70)));
        assert!(read_share("101").is_err() && read_share("0.7").is_err());
        assert_eq!(number("0x200"), Ok(512));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        assert!(rate("0").is_err());
        assert_eq!(reservation("1.5k"), Ok(1500));
        assert!(reservation("0.2").is_err() && reservation("5000M").is_err());
        assert_eq!((weight("50 %"), weight("2.5")), (Ok(50.0), Ok(2.5)));
        assert!(weight("0").is_err() && weight("inf").is_err() && weight("much").is_err());
        assert_eq!(byte("0xb8"), Ok(184));
        assert!(byte("256").is_err());
        assert_eq!(within("7", 1..=7), Ok(7));
        assert!(within("8", 1..=7).is_err() && within::<u8>("-1", 0..=7).is_err());
    }

    #[test]
    fn numbers_show_three_digits() {
        assert_eq!(show_count(987.0), "987");
        assert_eq!(show_count(12_345.0), "12.3 k");
        assert_eq!(show_count(1_049_000.0), "1.05 M");
        assert_eq!(show_latency(8_612.0), "8.61 us");
        assert_eq!(show_latency(4_560_000.0), "4.56 ms");
        assert_eq!(show_bytes(4096), "4 KiB");
        assert_eq!(show_bytes(1000), "1000 B");
    }
}
