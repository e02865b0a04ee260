//! Values as a person writes them, with units: the grammar of [`sluice_config::amounts`].

use std::time::Duration;

use serde::Deserialize;
use sluice_config::amounts::{
    PERCENT, lacks_unit, parse_bandwidth, parse_count, parse_duration, parse_frequency, parse_rate,
    parse_share, parse_size,
};

/// A time: `"500 us"`, `"2 s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Time(pub Duration);

/// Bytes: `"64 KiB"`, `"12 MB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Bytes(pub u64);

/// Bytes per second: `"200 MiB/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Bandwidth(pub u64);

/// Bits per second: `"25 Gbit/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Bits(pub u64);

/// A whole number: `20000`, `"20k"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Count(pub u64);

/// A part of a whole, 0.0 to 1.0: `"70 %"`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub struct Part(pub f64);

/// The rate of a load: I/Os per second (`20000`, `"20k"`), or bits per second of data (`"8 Gbit/s"`).
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

impl NumberOrText {
    /// Returns the value as text.
    fn into_text(self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }

    /// Reads the value with `parse`, whose error is a remedy.
    fn read<T>(
        self,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        let text = self.into_text();
        parse(&text).map_err(|remedy| match lacks_unit(&text) {
            true => format!("`{text}` has no unit: {remedy}"),
            false => format!("`{text}` is not {wanted}: {remedy}"),
        })
    }
}

impl TryFrom<NumberOrText> for Time {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        value.read("a time", parse_duration).map(Self)
    }
}

impl TryFrom<NumberOrText> for Bytes {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        value.read("a size", parse_size).map(Self)
    }
}

impl TryFrom<NumberOrText> for Bandwidth {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        value.read("bytes per second", parse_bandwidth).map(Self)
    }
}

impl TryFrom<NumberOrText> for Bits {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        value.read("a rate", parse_rate).map(Self)
    }
}

impl TryFrom<NumberOrText> for Count {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        let text = value.into_text();
        let wrong = |remedy| format!("`{text}` is not a whole number: {remedy}");
        parse_count(&text).map(Self).map_err(wrong)
    }
}

impl TryFrom<NumberOrText> for Part {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        const WHOLE: u64 = 100 * PERCENT;
        value.read("a part", |text| match parse_share(text)? {
            share @ 0..=WHOLE => Ok(Self(share as f64 / WHOLE as f64)),
            _ => Err("write at most \"100 %\"".to_owned()),
        })
    }
}

impl TryFrom<NumberOrText> for LoadRate {
    type Error = String;

    fn try_from(value: NumberOrText) -> Result<Self, String> {
        let text = value.into_text();
        if text.trim_end().ends_with("/s") {
            return match parse_rate(&text) {
                Ok(0) => Err(format!("`{text}` is not a rate: write more than 0")),
                Ok(bits) => Ok(Self::Bits(bits)),
                Err(remedy) => Err(format!("`{text}` is not a rate: {remedy}")),
            };
        }
        match parse_frequency(&text) {
            Ok(rate) if rate <= 1e9 => Ok(Self::Accesses(rate)),
            Ok(_) => Err(format!("`{text}` I/Os per second: write at most 1000000000")),
            Err(_) => Err(format!(
                "`{text}` is not a rate: write more than 0, in I/Os per second (20000 or \"20k\") or bits \
                 (\"8 Gbit/s\")"
            )),
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
        bandwidth: Bandwidth,
        bits: Bits,
        part: Part,
        count: Count,
        rate: LoadRate,
    }

    const FINE: [&str; 7] = ["'1 s'", "'1 B'", "'1 B/s'", "'1 Gbit/s'", "'1 %'", "1", "1"];

    fn read(values: [&str; 7]) -> Result<Values, String> {
        let [time, bytes, bandwidth, bits, part, count, rate] = values;
        let text = format!(
            "time = {time}\nbytes = {bytes}\nbandwidth = {bandwidth}\nbits = {bits}\npart = {part}\n\
             count = {count}\nrate = {rate}"
        );
        toml::from_str(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn values_have_units() {
        let text = ["'50 us'", "'64 KiB'", "'2 MB/s'", "'2.5 Gbit/s'", "'70 %'", "5000", "20000"];
        let values = read(text).unwrap();
        assert_eq!(values.time, Time(Duration::from_micros(50)));
        assert_eq!((values.bytes, values.bits), (Bytes(65_536), Bits(2_500_000_000)));
        assert_eq!((values.bandwidth, values.count), (Bandwidth(2_000_000), Count(5000)));
        assert_eq!((values.part, values.rate), (Part(0.7), LoadRate::Accesses(20_000.0)));
        let (time, bytes, bits) = ("'1_500 us'", "'1_000 MiB'", "'10_000 Mbit/s'");
        let text = [time, bytes, "'1 MiB'", bits, "' 7_0 % '", "'5k'", "'1_0 Gbit/s'"];
        let values = read(text).unwrap();
        assert_eq!(values.time, Time(Duration::from_micros(1500)));
        assert_eq!((values.bytes, values.bits), (Bytes(1000 << 20), Bits(10_000_000_000)));
        assert_eq!((values.bandwidth, values.count), (Bandwidth(1 << 20), Count(5000)));
        assert_eq!((values.part, values.rate), (Part(0.7), LoadRate::Bits(10_000_000_000)));
        let values = read(["0", "0", "0", "0", "0.0", "0", "'0.5k'"]).unwrap();
        assert_eq!((values.time, values.bytes), (Time(Duration::ZERO), Bytes(0)));
        assert_eq!((values.part, values.rate), (Part(0.0), LoadRate::Accesses(500.0)));
    }

    #[test]
    fn what_is_wrong_says_what_would_be_right() {
        for (place, wrong, says) in [
            (0, "'1 moon'", "\"10 s\""),
            (0, "'ten s'", "\"10 s\""),
            (0, "10", "`10` has no unit: write \"10 s\" or \"10 ms\""),
            (1, "'4 sacks'", "\"4 GiB\""),
            (1, "'_ KiB'", "\"4 GiB\""),
            (1, "4096", "\"4 KiB\""),
            (2, "100", "write \"100 MiB/s\" or \"100 B/s\""),
            (3, "'4 GB'", "\"32 Gbit/s\""),
            (4, "'170 %'", "\"100 %\""),
            (4, "0.5", "\"50 %\""),
            (5, "'many'", "50k"),
            (5, "1.5", "50k"),
            (6, "'often'", "I/Os per second"),
            (6, "'8 GB/s'", "\"64 Gbit/s\""),
            (6, "0", "more than 0"),
            (6, "-5", "more than 0"),
        ] {
            let mut values = FINE;
            values[place] = wrong;
            let error = read(values).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
