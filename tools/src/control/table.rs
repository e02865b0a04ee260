//! Aligned tables, and sizes, rates and times as people read them.

/// Rows of cells under a heading.
#[derive(Debug)]
pub(super) struct Table {
    heading: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    pub(super) fn new(heading: &[(&'static str, Align)]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text; `empty` where it has no rows.
    pub(super) fn text(&self, empty: &str) -> String {
        if self.rows.is_empty() {
            return format!("{empty}\n");
        }
        let heading: Vec<String> = self.heading.iter().map(|(name, _)| (*name).into()).collect();
        let all = || std::iter::once(&heading).chain(&self.rows);
        let width = |column: usize| {
            all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> =
            (0..heading.len()).map(|column| width(column).unwrap_or(0)).collect();
        all().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).zip(&self.heading);
        let padded: Vec<String> = cells
            .map(|((cell, width), (_, align))| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    }
}

/// A size with its unit and at most two decimals: "4 GiB", "1.46 TiB".
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = UNITS.iter().zip(1u32..).filter(|(_, power)| bytes >= 1u64 << (10 * power)).last();
    let Some((unit, power)) = unit else { return format!("{bytes} B") };
    let hundredths = u128::from(bytes) * 100 / (1u128 << (10 * power));
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    let fraction = match rest {
        0 => String::new(),
        rest => format!(".{rest:02}").trim_end_matches('0').to_owned(),
    };
    format!("{whole}{fraction} {unit}")
}

/// A rate in bits per second with its unit and three digits: "4.75 Gbit/s".
pub(crate) fn rate(bits: f64) -> String {
    const UNITS: [(&str, f64); 4] =
        [("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    // What three digits would make a thousand of the smaller unit belongs to the greater one.
    let unit = UNITS.iter().find(|(_, unit)| bits >= 0.9995 * unit);
    let Some((name, unit)) = unit else { return format!("{bits:.0} bit/s") };
    let value = bits / unit;
    let places = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let digits = format!("{value:.places$}");
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => &digits,
    };
    format!("{digits} {name}")
}

/// A time in words: "3 d 4 h", "12 s".
pub(crate) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right)]);
        assert_eq!(table.text("nothing here"), "nothing here\n");
        table.row(vec!["ä".into(), "1".into()]);
        table.row(vec!["longer".into(), "12345".into()]);
        assert_eq!(table.text(""), "NAME     SIZE\nä           1\nlonger  12345\n");
    }

    #[test]
    fn sizes_and_times_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (4096, "4 KiB"),
            (1536 << 20, "1.5 GiB"),
            (1_600_321_314_816, "1.45 TiB"),
            (u64::MAX, "15.99 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        for (bits, text) in [
            (0.0, "0 bit/s"),
            (999.0, "999 bit/s"),
            (999_600.0, "1 Mbit/s"),
            (62.5e6, "62.5 Mbit/s"),
            (200e6, "200 Mbit/s"),
            (4.752e9, "4.75 Gbit/s"),
            (25e12, "25 Tbit/s"),
        ] {
            assert_eq!(rate(bits), text);
        }
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(3 * 86_400 + 4 * 3600), "3 d 4 h");
    }
}
