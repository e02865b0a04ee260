//! Aligned tables, and sizes, rates and times as people read them.

use std::collections::BTreeSet;

/// The room for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// As much as the table takes.
    Unlimited,
    /// The width of a terminal, in characters.
    Terminal(usize),
    /// A pipe or a file: [`PIPE`] characters, unless names are too long for that. Names are not shortened, so that
    /// users can search or copy them.
    Pipe,
}

impl Room {
    /// Returns the room of standard output; with `wide` there is no limit.
    pub(crate) fn of_output(wide: bool) -> Self {
        if wide {
            return Self::Unlimited;
        }
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        match size.map_or(0, |size| usize::from(size.ws_col)) {
            0 => Self::Pipe,
            columns => Self::Terminal(columns),
        }
    }
}

/// The width of a table in a pipe or a file.
const PIPE: usize = 120;

/// The number of characters between columns.
const GAP: usize = 2;
/// The length to which names are shortened before columns are left out.
const SHORT: usize = 20;
/// The least length to which names are shortened.
const SHORTEST: usize = 10;
/// The least length to which values are shortened: their numbers stay.
const SHORTEST_VALUE: usize = 28;

/// Cells that say nothing where all cells of their column say the same.
const DEFAULTS: [&str; 5] = ["", "-", "any", "all", "any address"];

/// The line below a table with marked rows.
const LEGEND: &str = "* differs from the configuration file: sluice config diff\n";

/// Rows of cells under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    /// The names of the columns, all of them different.
    heading: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    /// The indices of the rows that are marked as different from the configuration file.
    live: BTreeSet<usize>,
    /// The headings of columns that are left out where there is no room, in that order.
    least: &'static [&'static str],
}

/// A column of a table whose rows show an `R`: its heading, the side of its cells, and the cell of a row.
pub(crate) type Column<R> = (&'static str, Align, fn(&R) -> String);

/// The side of its column on which a cell is, and the part of it that stays where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Names, which are shortened.
    Left,
    /// Text that begins with a number, or is short, which is shortened at its end and keeps its
    /// number.
    Value,
    /// Numbers, which are never shortened.
    Right,
}

impl Align {
    /// Returns the least length to which cells are shortened, where names have `names`; `None`: they are not shortened.
    pub(crate) fn shortest(self, names: Option<usize>) -> Option<usize> {
        match self {
            Self::Left => names,
            Self::Value => Some(SHORTEST_VALUE),
            Self::Right => None,
        }
    }
}

impl Table {
    pub(crate) fn new(heading: &[(&'static str, Align)]) -> Self {
        let is_repeated = |(at, name): (usize, &str)| {
            heading.iter().skip(at + 1).any(|(other, _)| *other == name)
        };
        let mut names = heading.iter().map(|(name, _)| *name).enumerate();
        debug_assert!(!names.any(is_repeated), "two columns have one name: {heading:?}");
        Self { heading: heading.to_vec(), rows: Vec::new(), live: BTreeSet::new(), least: &[] }
    }

    /// Makes a table with a row for each of `rows`.
    pub(crate) fn from_rows<'r, R: 'r>(
        rows: impl IntoIterator<Item = &'r R>,
        columns: &[Column<R>],
    ) -> Self {
        let heading: Vec<_> = columns.iter().map(|(name, align, _)| (*name, *align)).collect();
        let mut table = Self::new(&heading);
        for row in rows {
            table.row(columns.iter().map(|(.., cell)| cell(row)).collect());
        }
        table
    }

    /// Adds the columns of another table of the same rows.
    pub(super) fn beside(mut self, other: Self) -> Self {
        self.heading.extend(other.heading);
        self.rows.iter_mut().zip(other.rows).for_each(|(row, more)| row.extend(more));
        self
    }

    /// Marks the rows that differ from the configuration file.
    pub(super) fn live(mut self, is_live: impl Iterator<Item = bool>) -> Self {
        self.live = is_live.enumerate().filter(|(_, live)| *live).map(|(row, _)| row).collect();
        self
    }

    /// Names the columns that can be left out where there is no room, the least important first.
    pub(crate) fn least(mut self, least: &'static [&'static str]) -> Self {
        self.least = least;
        self
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
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
    pub(crate) fn text(&self, empty: &str, room: Room) -> String {
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

    /// Returns the table as text, or `empty` if it has no rows. If the table is too wide, names are shortened in the
    /// middle, then columns are left out, which a last line lists: first the columns with default values only.
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
        let (room, short, shortest) = match room {
            Room::Unlimited => return (widths, Vec::new()),
            Room::Terminal(columns) => (columns, Some(SHORT), Some(SHORTEST)),
            Room::Pipe => (PIPE, None, None),
        };
        let whole = widths.clone();
        let mut left_out: Vec<&'static str> = Vec::new();
        let (empty, rest): (Vec<&&'static str>, Vec<_>) =
            self.least.iter().partition(|name| self.says_nothing(name));
        let mut least = empty.into_iter().chain(rest);
        loop {
            self.shorten(&mut widths, room, short);
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
        self.shorten(&mut widths, room, shortest);
        (widths, left_out)
    }

    /// Returns whether all cells of a column have the same default value.
    fn says_nothing(&self, name: &str) -> bool {
        let column = self.heading.iter().position(|(title, _)| *title == name);
        column.is_some_and(|column| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            let first = cells.next().map_or("", String::as_str);
            DEFAULTS.contains(&first) && cells.all(|cell| cell == first)
        })
    }

    /// Makes the widest cells narrower until all columns fit or none can be shortened: names to no
    /// less than `shortest`, and not at all without it.
    fn shorten(&self, widths: &mut [(usize, usize)], room: usize, shortest: Option<usize>) {
        let is_wide = |column: usize, width: usize| {
            let least = self.heading.get(column).and_then(|(_, align)| align.shortest(shortest));
            least.is_some_and(|least| width > least)
        };
        for _ in room..total(widths) {
            let wide = widths.iter_mut().filter(|(column, width)| is_wide(*column, *width));
            match wide.map(|(_, width)| width).max_by_key(|width| **width) {
                Some(width) => *width -= 1,
                None => return,
            }
        }
    }

    fn line(&self, row: &[String], widths: &[(usize, usize)]) -> String {
        let padded: Vec<String> = widths
            .iter()
            .filter_map(|(column, width)| {
                let (_, align) = self.heading.get(*column)?;
                let cell = row.get(*column)?;
                Some(match align {
                    Align::Left => format!("{:<width$}", middle_cut(cell, *width)),
                    Align::Value => format!("{:<width$}", value_cut(cell, *width)),
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

/// Cuts a list of values between two values, to at most `width` characters with a mark: a part of a value would be
/// another value.
fn value_cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let ends = text.match_indices(", ").map(|(at, _)| at);
    let fits = |at: &usize| text.get(..*at).is_some_and(|head| head.chars().count() + 3 <= width);
    match ends.filter(fits).last().and_then(|at| text.get(..at)) {
        Some(head) => format!("{head}, …"),
        None => end_cut(text, width),
    }
}

/// Cuts `text` to at most `width` characters, of which the last one is a mark.
pub(crate) fn end_cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(std::iter::once('…')).take(width).collect()
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
        assert_eq!(table.text("nothing here", Room::Unlimited), "nothing here\n");
        table.row(vec!["ä".into(), "1".into()]);
        table.row(vec!["longer".into(), "12345".into()]);
        assert_eq!(
            table.text("", Room::Unlimited),
            "NAME     SIZE\nä           1\nlonger  12345\n"
        );
    }

    #[test]
    fn list_of_values_is_cut_between_values() {
        let limits = "100000/s, 200 MiB/s, r 80000/s, w 100 MiB/s";
        assert_eq!(value_cut(limits, 43), limits);
        assert_eq!(value_cut(limits, 42), "100000/s, 200 MiB/s, r 80000/s, …");
        assert_eq!(value_cut(limits, 28), "100000/s, 200 MiB/s, …");
        assert_eq!(value_cut(limits, 10), "100000/s,…");
        assert_eq!(value_cut("a reservation that is not in force", 10), "a reserva…");
    }

    #[test]
    fn rows_that_differ_from_the_file_are_marked_and_the_mark_is_explained() {
        let mut table = Table::new(&[("NAME", Align::Left)]);
        table.row_of(false, vec!["a".into()]);
        assert_eq!(table.text("", Room::Unlimited), "NAME\na\n");
        table.row_of(true, vec!["b".into()]);
        assert_eq!(table.text("", Room::Unlimited), format!("NAME  LIVE\na\nb     *\n{LEGEND}"));
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
        let text = names().text("", Room::Terminal(70));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(70), "{text}");
        assert!(text.contains("nqn.2026-0…xample:storage:disk1  "), "{text}");
        assert!(text.contains("storage:disk2  ") && text.contains("UUID"), "{text}");
        assert!(!text.contains("not shown"), "{text}");
    }

    #[test]
    fn the_least_important_columns_are_left_out_and_named() {
        let text = names().text("", Room::Terminal(45));
        assert!(text.ends_with("(not shown: UUID; --wide shows all)\n"), "{text}");
        assert!(
            text.contains("nqn.2026-01.com.example:storage:disk1     7"),
            "as long as can be: {text}"
        );
        let text = names().text("", Room::Terminal(18));
        assert_eq!(text.lines().nth(1), Some("nqn…ge:disk1     7"), "{text}");
        let all = names().text("", Room::Unlimited);
        assert!(all.contains("00a0c91e6bf6") && !all.contains('…'), "{all}");
    }

    #[test]
    fn names_are_whole_in_a_pipe_and_columns_are_left_out() {
        let heading = [("NQN", Align::Left), ("UUID", Align::Left), ("SIZE", Align::Right)];
        let mut table = Table::new(&heading).least(&["UUID", "SIZE"]);
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        table.row(vec![nqn.into(), nqn.into(), "7".into()]);
        let text = table.text("", Room::Pipe);
        let named = "(not shown: UUID; --wide shows all)\n";
        assert_eq!(text, format!("{:<68}  SIZE\n{nqn}     7\n{named}", "NQN"));
        assert!(table.text("", Room::Unlimited).lines().all(|line| line.chars().count() > 120));
    }

    #[test]
    fn columns_that_say_nothing_are_left_out_first() {
        let heading = [("A", Align::Left), ("B", Align::Left), ("C", Align::Right)];
        let mut table = Table::new(&heading).least(&["A", "B", "C"]);
        for number in 1..=2 {
            table.row(vec!["a name".into(), "any".into(), number.to_string()]);
        }
        let text = table.text("", Room::Terminal(9));
        assert!(text.starts_with("A       C\na name  1\n"), "{text}");
    }

    #[test]
    fn a_value_keeps_its_number() {
        let heading = [("NAME", Align::Left), ("RESERVED", Align::Value)];
        let mut table = Table::new(&heading);
        let terms = "20000 operations every 1s in commands of 4 KiB, each within 2ms";
        table.row(vec!["a-name-of-some-length".into(), terms.into()]);
        for room in [Room::Terminal(10), Room::Terminal(38)] {
            let text = table.text("", room);
            assert!(text.ends_with("  20000 operations every 1s i…\n"), "{text}");
        }
        let text = table.text("", Room::Unlimited);
        assert!(text.contains(terms), "{text}");
        assert_eq!((end_cut("abc", 0), end_cut("abc", 2)), (String::new(), "a…".into()));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "two columns have one name")]
    fn two_columns_of_one_name_are_refused() {
        Table::new(&[("P99", Align::Right), ("NAME", Align::Left), ("P99", Align::Right)]);
    }

    #[test]
    fn no_width_is_too_small() {
        for width in 0..100 {
            assert!(names().text("", Room::Terminal(width)).lines().count() >= 3);
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
