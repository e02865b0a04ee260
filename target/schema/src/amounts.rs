//! Sizes, times and rates as people write them: "4 GiB", "128 KiB", "50 us", "10 s", "10 Gbit/s".

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

/// Parses a size in bytes. A number alone is bytes. The error is a remedy.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if unit.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return scaled(number, 1);
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

/// Parses a duration. A unit is needed. The error is a remedy.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let ns = TIMES.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns);
    let ns = ns.ok_or("write a number and ns, us, ms, s, min or h: \"10 s\"")?;
    Ok(Duration::from_nanos(scaled(number, ns)?))
}

/// Parses a rate in bits per second. A unit is needed: data on networks is counted in bits, and a
/// number alone would be taken for bytes. The error is a remedy.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    match RATES.iter().find(|(name, _)| *name == unit) {
        Some((_, bits)) => scaled(number, *bits),
        None => Err(rate_remedy(number, unit)),
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

/// Multiplies `number` (which may have a fraction) by `unit`, where the product is a whole number.
fn scaled(number: &str, unit: u64) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.ends_with('.') || whole.is_empty() {
        return Err("begin with a number: \"4 GiB\", \"10 s\"".into());
    }
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
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
            ("4_096", 4096),
            ("0", 0),
            ("512 B", 512),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "GiB", "4 Gib", "4G", "-1", "1.", ".5 GiB", "0.3 B", "1e9", "16 EiB", "4.5"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("4 G").unwrap_err().contains("GiB"));
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(parse_duration("50 us"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("10").unwrap_err().contains("10 s"));
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
            ("10", "Gbit/s or Tbit/s"),
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
        }
    }
}
