//! The grammar of amounts, for the configuration, the command line and scenarios: "4 GiB", "50 us",
//! "200 MiB/s", "10 Gbit/s", "50 %", 20000 and "20k".
//!
//! A number without a unit is refused where it has two readings, and the error names both. Counts
//! have no unit, and 0 needs none.

use std::time::Duration;

/// Units of size and their bytes.
const SIZES: [(&str, u64); 13] = [
    ("EiB", 1 << 60),
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("KB", 1000),
    ("B", 1),
];

/// Units of time and their nanoseconds.
const TIMES: [(&str, u64); 7] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("µs", 1000),
    ("ns", 1),
];

/// Units of rates and their bits per second.
const RATES: [(&str, u64); 5] = [
    ("Tbit/s", 1_000_000_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1000),
    ("bit/s", 1),
];

/// Units of fio's sizes and their bytes.
const FIO_SIZES: [(&str, u64); 4] =
    [("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

/// One per cent, as [`parse_share`] counts.
pub const PERCENT: u64 = 10_000_000;

/// Parses a size in bytes.
///
/// # Errors
/// The text is not a size. The error is a remedy.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if is_bare(number, unit) {
        return zero(number, 1 << 20, |bytes| {
            let bytes = bytes.map(format_size);
            either(number, "MiB", bytes)
        });
    }
    if let Some(letter) = ["K", "k", "M", "G", "T"].iter().find(|l| unit == **l) {
        let upper = letter.to_uppercase();
        return Err(format!(
            "write {upper}iB for powers of 1024 or {upper}B for powers of 1000: \"{number} \
             {upper}iB\""
        ));
    }
    let bytes = SIZES.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
    scaled(number, bytes.ok_or("write a number and B, KiB, MiB, GiB or TiB: \"4 GiB\"")?)
}

/// Parses a size in bytes, where fio's letters are units as well: "4k" is 4 KiB.
///
/// # Errors
/// The text is not a size. The error is a remedy.
pub fn parse_fio_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    match FIO_SIZES.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)) {
        Some((_, bytes)) => scaled(number, *bytes),
        None => parse_size(text),
    }
}

/// Parses bytes per second: "200 MiB", or "200 MiB/s".
///
/// # Errors
/// The text is not a number of bytes per second. The error is a remedy.
pub fn parse_bandwidth(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if is_bare(number, unit) {
        return zero(number, 1 << 20, |bytes| {
            let bytes = bytes.map(|bytes| format!("{}/s", format_size(bytes)));
            either(number, "MiB/s", bytes)
        });
    }
    if let Some((_, bits)) = RATES.iter().find(|(name, _)| *name == unit) {
        let bytes = scaled(number, *bits)?.div_ceil(8);
        return Err(format!(
            "write bytes, not bits: the same rate is \"{}/s\"",
            format_size(bytes)
        ));
    }
    parse_size(text.trim_end().strip_suffix("/s").unwrap_or(text))
}

/// Parses a duration.
///
/// # Errors
/// The text is not a duration. The error is a remedy.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    if is_bare(number, unit) {
        let readings = |_| either(number, "s", Some(format!("{number} ms")));
        return zero(number, 1_000_000_000, readings).map(Duration::from_nanos);
    }
    let ns = TIMES.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns);
    let ns = ns.ok_or("write a number and ns, us, ms, s, min or h: \"10 s\"")?;
    Ok(Duration::from_nanos(scaled(number, ns)?))
}

/// Parses a duration, where fio's "m" is a unit as well: "2m" is 2 minutes.
///
/// # Errors
/// The text is not a duration. The error is a remedy.
pub fn parse_fio_duration(text: &str) -> Result<Duration, String> {
    match split(text) {
        (number, "m") => Ok(Duration::from_nanos(scaled(number, 60_000_000_000)?)),
        _ => parse_duration(text),
    }
}

/// Parses a rate in bits per second: data on networks is counted in bits.
///
/// # Errors
/// The text is not a rate. The error is a remedy.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if is_bare(number, unit) {
        let readings = |bits: Option<u64>| {
            let other = match bits.filter(|bits| *bits >= LARGE) {
                Some(bits) => format_rate(bits),
                None => format!("{number} Mbit/s"),
            };
            either(number, "Gbit/s", Some(other))
        };
        return zero(number, 1_000_000_000, readings);
    }
    match RATES.iter().find(|(name, _)| *name == unit) {
        Some((_, bits)) => scaled(number, *bits),
        None => Err(rate_remedy(number, unit)),
    }
}

/// Parses a share: "50 %" is half. Returns it in units of [`PERCENT`].
///
/// # Errors
/// The text is not a number of per cent. The error is a remedy.
pub fn parse_share(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let parts = scaled(number, PERCENT);
    match unit {
        "%" => parts,
        "" if parts == Ok(0) => parts,
        "" if !number.is_empty() => {
            let as_fraction = scaled(number, 100).ok().filter(|percent| *percent <= 100);
            Err(match as_fraction {
                Some(percent) => format!("write \"{percent} %\" or \"{number} %\""),
                None => format!("write \"{number} %\""),
            })
        }
        _ => Err("write a number and %: \"50 %\"".into()),
    }
}

const COUNT: &str = "write for example 50000, 50k or 1.5M";

/// Parses a whole count, such as a number of I/Os per second: "50000", "50k", "1.5M".
///
/// # Errors
/// The text is not a whole count. The error is a remedy.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    match number {
        "" => Err(COUNT.into()),
        _ => scaled(number, count_factor(unit)?.into()).map_err(|_| COUNT.into()),
    }
}

/// Parses a count that may have a fraction: "0.5", "1.5k". It is more than 0.
///
/// # Errors
/// The text is not a count. The error is a remedy.
pub fn parse_frequency(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let factor = count_factor(unit)?;
    let number: f64 = number.replace('_', "").parse().map_err(|_| COUNT.to_owned())?;
    let count = number * f64::from(factor);
    if count > 0.0 && count.is_finite() { Ok(count) } else { Err("write more than 0".into()) }
}

/// Returns the factor of a count's unit.
fn count_factor(unit: &str) -> Result<u32, String> {
    match unit {
        "" => Ok(1),
        "k" | "K" => Ok(1000),
        "m" | "M" => Ok(1_000_000),
        _ => Err(format!("`{unit}` is not a unit of counts: {COUNT}")),
    }
}

/// Returns whether a text is a number without a unit.
#[must_use]
pub fn lacks_unit(text: &str) -> bool {
    let (number, unit) = split(text);
    is_bare(number, unit)
}

/// Returns whether a number has no unit.
fn is_bare(number: &str, unit: &str) -> bool {
    unit.is_empty() && !number.is_empty()
}

/// Reads 0, which needs no unit. Any other number is refused with its `readings`; they are given
/// `None` for a number that is whole in `unit` alone.
fn zero(
    number: &str,
    unit: u64,
    readings: impl FnOnce(Option<u64>) -> String,
) -> Result<u64, String> {
    match scaled(number, 1) {
        Ok(0) => Ok(0),
        Ok(value) => Err(readings(Some(value))),
        Err(_) if scaled(number, unit).is_ok() => Err(readings(None)),
        Err(error) => Err(error),
    }
}

/// Numbers from here on are not meant in a larger unit.
const LARGE: u64 = 1 << 20;

/// Offers a number in `unit`, and its other reading. The first is left out where it is larger than
/// anybody could mean.
fn either(number: &str, unit: &str, other: Option<String>) -> String {
    let first = !scaled(number, 1).is_ok_and(|value| value >= LARGE);
    match other {
        Some(other) if first => format!("write \"{number} {unit}\" or \"{other}\""),
        Some(other) => format!("write \"{other}\""),
        None => format!("write \"{number} {unit}\""),
    }
}

/// Guesses the rate that the writer of another unit meant, as a remedy.
fn rate_remedy(number: &str, unit: &str) -> String {
    let amount = unit.trim_end_matches("/s").trim_end_matches("ps");
    let bytes = SIZES.iter().find(|(name, _)| amount.ends_with('B') && *name == amount);
    if let Some((_, bytes)) = bytes {
        let bits = scaled(number, *bytes).ok().and_then(|bytes| bytes.checked_mul(8));
        return match bits {
            Some(bits) => {
                format!("write bits, not bytes: the same rate is \"{}\"", format_rate(bits))
            }
            None => "write bits per second, not bytes: \"10 Gbit/s\"".into(),
        };
    }
    let prefix = amount.chars().next().map(|letter| letter.to_ascii_uppercase());
    let meant = RATES.iter().find(|(name, _)| {
        prefix.is_some() && name.chars().next().map(|letter| letter.to_ascii_uppercase()) == prefix
    });
    match meant {
        Some((name, bits)) if scaled(number, *bits).is_ok() => {
            format!("write \"{number} {name}\"")
        }
        _ => "write a number and kbit/s, Mbit/s, Gbit/s or Tbit/s: \"10 Gbit/s\"".into(),
    }
}

/// Writes a rate in the largest unit that gives a whole number.
#[must_use]
pub fn format_rate(bits: u64) -> String {
    let unit = RATES.iter().find(|(_, unit)| bits >= *unit && bits.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{} {name}", bits / unit),
        None => format!("{bits} bit/s"),
    }
}

/// Writes a size in the largest unit that gives a whole number.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    let unit = SIZES.iter().take(6).find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// Writes a duration in the largest unit that gives a whole number.
#[must_use]
pub fn format_duration(time: Duration) -> String {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let unit = TIMES.iter().find(|(_, unit)| ns >= *unit && ns.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{} {name}", ns / unit),
        None => format!("{ns} ns"),
    }
}

/// Splits a number from its unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// The remedy for a text without a number.
const BEGIN: &str = "begin with a number: \"4 GiB\", \"10 s\"";

/// Multiplies `number` (which may have a fraction) by `unit`, where the product is a whole number.
fn scaled(number: &str, unit: u64) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.ends_with('.') || whole.is_empty() {
        return Err(BEGIN.into());
    }
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    if digits.is_empty() {
        return Err(BEGIN.into());
    }
    let digits = digits.parse::<u128>().map_err(|_| too_large())?;
    let places = fraction.chars().filter(|c| *c != '_').count();
    let divisor = u32::try_from(places).ok().and_then(|p| 10u128.checked_pow(p));
    let divisor = divisor.ok_or_else(too_large)?;
    let product = digits.checked_mul(u128::from(unit)).ok_or_else(too_large)?;
    if !product.is_multiple_of(divisor) {
        return Err("use a smaller unit: this is not a whole number of the smallest one".into());
    }
    u64::try_from(product / divisor).map_err(|_| too_large())
}

fn too_large() -> String {
    "use a smaller value: this one does not fit into 64 bits".into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("4 GiB", 4 << 30),
            ("4GiB", 4 << 30),
            (" 128  KiB ", 128 << 10),
            ("1.5 MiB", 3 << 19),
            ("10 GB", 10_000_000_000),
            ("4_096 B", 4096),
            ("0", 0),
            ("512 B", 512),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "GiB", "4 Gib", "4G", "-1", "1.", ".5 GiB", "0.3 B", "1e9", "16 EiB", "4.5", "4096",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("4 G").unwrap_err().contains("GiB"));
    }

    #[test]
    fn numbers_without_a_unit_are_refused_with_both_readings() {
        for (remedy, readings) in [
            (parse_size("100").unwrap_err(), "write \"100 MiB\" or \"100 B\""),
            (parse_size("1.5").unwrap_err(), "write \"1.5 MiB\""),
            (parse_size("1073741824").unwrap_err(), "write \"1 GiB\""),
            (parse_fio_size("512").unwrap_err(), "write \"512 MiB\" or \"512 B\""),
            (parse_bandwidth("100").unwrap_err(), "write \"100 MiB/s\" or \"100 B/s\""),
            (parse_duration("10").unwrap_err(), "write \"10 s\" or \"10 ms\""),
            (parse_rate("10").unwrap_err(), "write \"10 Gbit/s\" or \"10 Mbit/s\""),
            (parse_rate("25000000000").unwrap_err(), "write \"25 Gbit/s\""),
            (parse_duration("1.5").unwrap_err(), "write \"1.5 s\" or \"1.5 ms\""),
            (parse_share("50").unwrap_err(), "write \"50 %\""),
            (parse_share("0.5").unwrap_err(), "write \"50 %\" or \"0.5 %\""),
        ] {
            assert_eq!(remedy, readings);
        }
        assert_eq!((parse_size("0"), parse_bandwidth("0"), parse_rate("0")), (Ok(0), Ok(0), Ok(0)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn fio_letters_are_powers_of_1024() {
        assert_eq!((parse_fio_size("4k"), parse_fio_size("1M")), (Ok(4096), Ok(1 << 20)));
        assert_eq!(parse_fio_size("128 KiB"), Ok(128 << 10));
        assert_eq!(parse_fio_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_fio_duration("500ms"), Ok(Duration::from_millis(500)));
        for text in ["4x", "k", "99999999t", "4 Gib"] {
            assert!(parse_fio_size(text).is_err(), "{text}");
        }
        assert!(parse_duration("2m").is_err() && parse_fio_duration("m").is_err());
    }

    #[test]
    fn bandwidths_are_bytes() {
        assert_eq!(parse_bandwidth("200 MiB"), Ok(200 << 20));
        assert_eq!(parse_bandwidth("200 MiB/s "), Ok(200 << 20));
        let remedy = parse_bandwidth("1 Gbit/s").unwrap_err();
        assert!(remedy.ends_with("not bits: the same rate is \"125000000 B/s\""), "{remedy}");
        assert!(parse_bandwidth("/s").is_err() && parse_bandwidth("4 sacks/s").is_err());
    }

    #[test]
    fn shares_are_per_cent_and_counts_are_numbers() {
        assert_eq!(parse_share("50 %"), Ok(50 * PERCENT));
        assert_eq!((parse_share("0.5%"), parse_share("0")), (Ok(PERCENT / 2), Ok(0)));
        assert!(parse_share("half").is_err() && parse_share("%").is_err());
        assert_eq!((parse_count("20_000"), parse_count("1.5M")), (Ok(20_000), Ok(1_500_000)));
        assert_eq!((parse_frequency("0.5"), parse_frequency("1.5k")), (Ok(0.5), Ok(1500.0)));
        for text in ["often", "5 x", "-1", ""] {
            assert!(parse_count(text).is_err() && parse_frequency(text).is_err(), "{text}");
        }
        assert!(parse_count("0.5").is_err() && parse_frequency("0").is_err());
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(parse_duration("50 us"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("999999999999 h").is_err());
    }

    #[test]
    fn rates_are_bits_and_bytes_are_refused_with_what_is_meant() {
        assert_eq!(parse_rate("200 Mbit/s"), Ok(200_000_000));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(1_500_000_000));
        assert_eq!(parse_rate("1 bit/s"), Ok(1));
        assert_eq!(format_rate(2_500_000_000), "2500 Mbit/s");
        for (text, words) in [
            ("10 GB/s", "not bytes: the same rate is \"80 Gbit/s\""),
            ("100 MiB/s", "\"838860800 bit/s\""),
            ("10 GBps", "\"80 Gbit/s\""),
            ("10 Gbps", "write \"10 Gbit/s\""),
            ("10 Gb/s", "write \"10 Gbit/s\""),
            ("10G", "write \"10 Gbit/s\""),
            ("10 Gbit", "write \"10 Gbit/s\""),
            ("100 mbit/s", "write \"100 Mbit/s\""),
            ("5 KBIT/S", "write \"5 kbit/s\""),
            ("fast", "Gbit/s or Tbit/s"),
            (".5 Gbit/s", "begin with a number"),
            ("99999999999 Tbit/s", "does not fit"),
        ] {
            let remedy = parse_rate(text).unwrap_err();
            assert!(remedy.contains(words), "{text}: {remedy}");
        }
    }

    proptest! {
        #[test]
        fn what_is_formatted_is_parsed_back(value: u64) {
            prop_assert_eq!(parse_size(&format_size(value)), Ok(value));
            let time = Duration::from_nanos(value);
            prop_assert_eq!(parse_duration(&format_duration(time)), Ok(time));
            prop_assert_eq!(parse_rate(&format_rate(value)), Ok(value));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC*") {
            let _ = parse_size(&text);
            let _ = parse_duration(&text);
            let _ = parse_rate(&text);
            let _ = parse_fio_size(&text);
            let _ = parse_fio_duration(&text);
            let _ = parse_bandwidth(&text);
            let _ = parse_share(&text);
            let _ = parse_count(&text);
            let _ = parse_frequency(&text);
            let _ = lacks_unit(&text);
        }
    }
}
