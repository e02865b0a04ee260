//! Aligned tables, and sizes, rates and times as people read them.

use std::collections::BTreeSet;

/// The most characters of a line; `None` means no limit.
pub(crate) type Room = Option<usize>;

/// Returns the width of the terminal that standard output goes to; `None` where that is a pipe or a
/// file.
pub(super) fn terminal_width() -> Room {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The number of characters between columns.
const GAP: usize = 2;
/// The length to which names are shortened before columns are left out.
const SHORT: usize = 20;
/// The least length to which names are shortened.
const SHORTEST: usize = 10;

/// The line below a table with marked rows.
const LEGEND: &str = "* differs from the configuration file: sluice config diff\n";

/// Rows of cells under a heading.
#[derive(Debug)]
pub(super) struct Table {
    heading: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    /// The indices of the rows that are marked as different from the configuration file.
    live: BTreeSet<usize>,
    /// The headings of columns that are left out where there is no room, in that order.
    least: &'static [&'static str],
}

/// The side of its column on which a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Text, which is shortened where there is no room.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    pub(super) fn new(heading: &[(&'static str, Align)]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new(), live: BTreeSet::new(), least: &[] }
    }

    /// Names the columns that can be left out where there is no room, the least important first.
    pub(super) fn least(mut self, least: &'static [&'static str]) -> Self {
        self.least = least;
        self
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a row. It is marked where it differs from the configuration file.
    pub(super) fn row_of(&mut self, is_live: bool, cells: Vec<String>) {
        if is_live {
            self.live.insert(self.rows.len());
        }
        self.row(cells);
    }

    /// Returns the table as text, with a column and a line below for marked rows if there are any.
    /// The rest is as of [`Table::plain`].
    pub(super) fn text(&self, empty: &str, room: Room) -> String {
        if self.live.is_empty() {
            return self.plain(empty, room);
        }
        let mark = |row| if self.live.contains(&row) { "*" } else { "" }.to_owned();
        let rows = self.rows.iter().enumerate();
        let marked = Self {
            heading: [&self.heading[..], &[("LIVE", Align::Left)]].concat(),
            rows: rows.map(|(row, cells)| [&cells[..], &[mark(row)]].concat()).collect(),
            live: BTreeSet::new(),
            least: self.least,
        };
        marked.plain(empty, room) + LEGEND
    }

    /// Returns the table as text, or `empty` where it has no rows. Where there is not room for all,
    /// names are shortened in the middle, then columns are left out, which a last line lists.
    fn plain(&self, empty: &str, room: Room) -> String {
        if self.rows.is_empty() {
            return format!("{empty}\n");
        }
        let heading: Vec<String> = self.heading.iter().map(|(name, _)| (*name).into()).collect();
        let all = || std::iter::once(&heading).chain(&self.rows);
        let width = |column: usize| {
            all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths = (0..heading.len()).map(|column| width(column).unwrap_or(0));
        let (widths, left_out) = self.fit(widths.enumerate().collect(), room);
        let mut text: String = all().map(|row| self.line(row, &widths)).collect();
        if !left_out.is_empty() {
            text += &format!("(not shown: {}; --wide shows all)\n", left_out.join(", "));
        }
        text
    }

    /// Chooses the columns that are shown and their widths; `widths` are those with unlimited room.
    /// Returns also the headings of the columns that are not shown.
    fn fit(
        &self,
        mut widths: Vec<(usize, usize)>,
        room: Room,
    ) -> (Vec<(usize, usize)>, Vec<&'static str>) {
        let Some(room) = room else { return (widths, Vec::new()) };
        let whole = widths.clone();
        let mut left_out = Vec::new();
        let mut least = self.least.iter();
        loop {
            self.shorten(&mut widths, room, SHORT);
            if total(&widths) <= room {
                return (widths, left_out);
            }
            let Some(name) = least.next() else { break };
            let is =
                |column: usize| self.heading.get(column).is_some_and(|(title, _)| title == name);
            if widths.iter().any(|(column, _)| is(*column)) {
                left_out.push(*name);
            }
            // Columns that were shortened may have room again.
            let hidden =
                |column| self.heading.get(column).is_none_or(|(t, _)| left_out.contains(t));
            widths = whole.iter().filter(|(column, _)| !hidden(*column)).copied().collect();
        }
        self.shorten(&mut widths, room, SHORTEST);
        (widths, left_out)
    }

    /// Makes the widest names narrower until all columns fit or none is longer than `shortest`.
    fn shorten(&self, widths: &mut [(usize, usize)], room: usize, shortest: usize) {
        let is_name = |column: usize| {
            self.heading.get(column).is_some_and(|(_, align)| *align == Align::Left)
        };
        for _ in room..total(widths) {
            let names = widths.iter_mut().filter(|(column, _)| is_name(*column));
            match names.map(|(_, width)| width).max_by_key(|width| **width) {
                Some(width) if *width > shortest => *width -= 1,
                _ => return,
            }
        }
    }

    fn line(&self, row: &[String], widths: &[(usize, usize)]) -> String {
        let padded: Vec<String> = widths
            .iter()
            .filter_map(|(column, width)| {
                let (_, align) = self.heading.get(*column)?;
                let cell = middle_cut(row.get(*column)?, *width);
                Some(match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                })
            })
            .collect();
        padded.join(&" ".repeat(GAP)).trim_end().to_owned() + "\n"
    }
}

fn total(widths: &[(usize, usize)]) -> usize {
    widths.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Cuts `text` to at most `width` characters. A longer name keeps its beginning and, twice as much,
/// its end, since names differ at their ends.
fn middle_cut(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = kept / 3;
    let tail = text.chars().skip(length - (kept - head));
    text.chars().take(head).chain(std::iter::once('…')).chain(tail).take(width).collect()
}

/// Returns a size with its unit and at most two decimals: "4 GiB", "1.46 TiB".
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

/// Returns a rate in bits per second with its unit and three digits: "4.75 Gbit/s".
pub(crate) fn rate(bits: f64) -> String {
    const UNITS: [(&str, f64); 4] =
        [("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    // A value that three digits would round to a thousand of the smaller unit belongs to the
    // greater one.
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

/// Returns a time in words: "3 d 4 h", "12 s".
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
        assert_eq!(table.text("nothing here", None), "nothing here\n");
        table.row(vec!["ä".into(), "1".into()]);
        table.row(vec!["longer".into(), "12345".into()]);
        assert_eq!(table.text("", None), "NAME     SIZE\nä           1\nlonger  12345\n");
    }

    #[test]
    fn rows_that_differ_from_the_file_are_marked_and_the_mark_is_explained() {
        let mut table = Table::new(&[("NAME", Align::Left)]);
        table.row_of(false, vec!["a".into()]);
        assert_eq!(table.text("", None), "NAME\na\n");
        table.row_of(true, vec!["b".into()]);
        assert_eq!(table.text("", None), format!("NAME  LIVE\na\nb     *\n{LEGEND}"));
    }

    /// Makes a table of two names and a number in each row, of which UUID is the least important.
    fn names() -> Table {
        let heading = [("NQN", Align::Left), ("NSID", Align::Right), ("UUID", Align::Left)];
        let mut table = Table::new(&heading).least(&["MISSING", "UUID"]);
        for disk in 1..=2 {
            let nqn = format!("nqn.2026-01.com.example:storage:disk{disk}");
            table.row(vec![nqn, "7".into(), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6".into()]);
        }
        table
    }

    #[test]
    fn names_are_shortened_in_the_middle_where_there_is_no_room() {
        let text = names().text("", Some(70));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(70), "{text}");
        assert!(text.contains("nqn.2026-0…xample:storage:disk1  "), "{text}");
        assert!(text.contains("storage:disk2  ") && text.contains("UUID"), "{text}");
        assert!(!text.contains("not shown"), "{text}");
    }

    #[test]
    fn the_least_important_columns_are_left_out_and_named() {
        let text = names().text("", Some(45));
        assert!(text.ends_with("(not shown: UUID; --wide shows all)\n"), "{text}");
        assert!(
            text.contains("nqn.2026-01.com.example:storage:disk1     7"),
            "as long as can be: {text}"
        );
        let text = names().text("", Some(18));
        assert_eq!(text.lines().nth(1), Some("nqn…ge:disk1     7"), "{text}");
        let all = names().text("", None);
        assert!(all.contains("00a0c91e6bf6") && !all.contains('…'), "{all}");
    }

    #[test]
    fn no_width_is_too_small() {
        for width in 0..100 {
            assert!(names().text("", Some(width)).lines().count() >= 3);
        }
        assert_eq!(middle_cut("abcdef", 0), "");
        assert_eq!(middle_cut("abcdef", 1), "…");
        assert_eq!(middle_cut("abcdef", 4), "a…ef");
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
