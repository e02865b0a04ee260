//! Words of messages that several parts write.

use std::time::Duration;

use sluice_config::format_size;

/// Writes a number of bytes with at most five digits, rounded down.
pub(crate) fn coarse_size(bytes: u64) -> String {
    let mut unit = 1;
    while bytes / unit >= 16384 {
        unit *= 1024;
    }
    format_size(bytes / unit * unit)
}

/// Writes a time in the largest unit that keeps it exact enough for a person.
pub(crate) fn coarse_time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Joins names for a message: the first eight, and the number of the others.
pub(crate) fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    match names.len().saturating_sub(8) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_five_digits_at_most() {
        const TIB: u64 = 1 << 40;
        for (bytes, text) in [
            (0, "0 B"),
            (16383, "16383 B"),
            ((67 << 30) + 1, "67 GiB"),
            ((66 << 30) + (700 << 20) + 5, "66 GiB"),
            (10 * TIB, "10 TiB"),
            (10 * TIB - 1, "10239 GiB"),
            (16 * TIB - 4096, "16383 GiB"),
            (u64::MAX, "16383 PiB"),
        ] {
            assert_eq!(coarse_size(bytes), text);
        }
    }
}
