//! Values as a person writes them, with units.

use std::time::Duration;

use serde::Deserialize;

use crate::rounding::whole;

/// A time: `"500 us"`, `"2 s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub Duration);

/// Bytes: `"64 KiB"`, `"12 MB"`, or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Bytes(pub u64);

/// Bits per second: `"25 Gbit/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bits(pub u64);

/// A part of a whole, 0.0 to 1.0: `"70 %"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Part(pub f64);

/// The rate of a load: I/Os per second (`20000`), or bits per second of data (`"8 Gbit/s"`).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub enum LoadRate {
    /// Accesses per second.
    Accesses(f64),
    /// Bits of data per second.
    Bits(u64),
}

/// A value that is a number or a text.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "write a number, or a text with its unit such as \"64 KiB\"")]
enum NumberOrText {
    Whole(u64),
    Number(f64),
    Text(String),
}

/// Parts a text into a number and its unit. The number may have `_` between digits, as in the daemon's
/// configuration.
fn parted(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let of_number = |c: char| matches!(c, '0'..='9' | '.' | '_');
    let digits = text.find(|c| !of_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number = number.replace('_', "");
    let number = number.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((number, unit.trim()))
}

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a time: write for example \"500 us\" or \"2 s\"");
        let (number, unit) = parted(&text).ok_or_else(wrong)?;
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        Duration::try_from_secs_f64(number * unit).map(Self).map_err(|_| wrong())
    }
}

impl TryFrom<NumberOrText> for Bytes {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        let text = match value {
            NumberOrText::Whole(bytes) => return Ok(Self(bytes)),
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::Text(text) => text,
        };
        let wrong = || format!("`{text}` is not a size: write for example \"64 KiB\" or \"12 MB\"");
        let (number, unit) = parted(&text).ok_or_else(wrong)?;
        let unit = match unit {
            "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1_048_576.0,
            "GiB" => 1_073_741_824.0,
            "TiB" => 1_099_511_627_776.0,
            "PiB" => 1_125_899_906_842_624.0,
            "EiB" => 1_152_921_504_606_846_976.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            "PB" => 1e15,
            _ => return Err(wrong()),
        };
        Ok(Self(whole(number * unit)))
    }
}

/// Reads bits per second.
fn bits(text: &str) -> Option<u64> {
    let (number, unit) = parted(text)?;
    let prefix = unit.strip_suffix("bit/s").or_else(|| unit.strip_suffix("b/s"))?;
    let factor = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    Some(whole(number * factor))
}

impl TryFrom<String> for Bits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate: write for example \"25 Gbit/s\"");
        bits(&text).map(Self).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a part: write for example \"70 %\"");
        match parted(&text) {
            Some((number, "%")) if number <= 100.0 => Ok(Self(number / 100.0)),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<NumberOrText> for LoadRate {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        let number = match value {
            NumberOrText::Whole(rate) => rate as f64,
            NumberOrText::Number(rate) => rate,
            NumberOrText::Text(text) => {
                return bits(&text).filter(|bits| *bits > 0).map(Self::Bits).ok_or_else(|| {
                    format!("`{text}` is not a rate: write I/Os per second (20000) or \"8 Gbit/s\"")
                });
            }
        };
        match number > 0.0 && number <= 1e9 {
            true => Ok(Self::Accesses(number)),
            false => {
                Err(format!("{number} I/Os per second: write more than 0 and at most 1000000000"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Values {
        time: Time,
        bytes: Bytes,
        bits: Bits,
        part: Part,
        rate: LoadRate,
    }

    fn read(time: &str, bytes: &str, bits: &str, part: &str, rate: &str) -> Result<Values, String> {
        let text =
            format!("time = {time}\nbytes = {bytes}\nbits = {bits}\npart = {part}\nrate = {rate}");
        toml::from_str(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn values_have_units() {
        let values = read("'50 us'", "'64 KiB'", "'2.5 Gbit/s'", "'70 %'", "20000").unwrap();
        assert_eq!(values.time, Time(Duration::from_micros(50)));
        assert_eq!((values.bytes, values.bits), (Bytes(65_536), Bits(2_500_000_000)));
        assert_eq!((values.part, values.rate), (Part(0.7), LoadRate::Accesses(20_000.0)));
        let text = ["'1_500 us'", "'1_000 MiB'", "'10_000 Mbit/s'", "' 7_0 % '", "'1_0 Gbit/s'"];
        let [time, bytes, bits, part, rate] = text;
        let values = read(time, bytes, bits, part, rate).unwrap();
        assert_eq!(values.time, Time(Duration::from_micros(1500)));
        assert_eq!((values.bytes, values.bits), (Bytes(1000 << 20), Bits(10_000_000_000)));
        assert_eq!((values.part, values.rate), (Part(0.7), LoadRate::Bits(10_000_000_000)));
        let values = read("'2s'", "4096", "'1Mb/s'", "'0.5 %'", "'8 Gbit/s'").unwrap();
        assert_eq!((values.bytes, values.rate), (Bytes(4096), LoadRate::Bits(8_000_000_000)));
    }

    #[test]
    fn what_is_wrong_says_what_would_be_right() {
        let fine = ["'1 s'", "1", "'1 Gbit/s'", "'1 %'", "1"];
        for (place, wrong, says) in [
            (0, "'1 moon'", "\"500 us\""),
            (0, "'ten s'", "\"500 us\""),
            (1, "'4 sacks'", "\"64 KiB\""),
            (1, "'_ KiB'", "\"64 KiB\""),
            (2, "'4 GB'", "\"25 Gbit/s\""),
            (3, "'170 %'", "\"70 %\""),
            (4, "'often'", "I/Os per second"),
            (4, "0", "more than 0"),
            (4, "-5", "more than 0"),
        ] {
            let mut values = fine;
            values[place] = wrong;
            let [time, bytes, bits, part, rate] = values;
            let error = read(time, bytes, bits, part, rate).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
