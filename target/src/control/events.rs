//! The latest lines of the log, in memory, for `sluice events`: the same records as the journal's, within bounds.
//!
//! A peer causes lines with text of its own, such as its NQN. So each record is bounded, and all records together are:
//! a new record evicts the oldest ones. Lines that peers cause have a bounded rate, too (`sys/line_bound.rs`).

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::Level;

use crate::sys::sync::lock;

/// The most records that are kept.
pub const RECORDS_MAX: usize = 4096;
/// The most bytes of all records that are kept.
pub const BYTES_MAX: usize = 4 << 20;
/// The most records that one [`EventRing::after`] returns.
pub const LIST_MAX: usize = 500;
/// The most bytes of a line.
const LINE_MAX: usize = 2048;
/// The most bytes of a field's value.
const VALUE_MAX: usize = 1024;
/// The most fields of a record.
const FIELDS_MAX: usize = 16;
/// The mark at the end of a text that was cut.
const CUT: char = '…';

/// A line of the log with its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// The level: error, warn or info.
    pub level: Level,
    /// The part of the program that wrote the line.
    pub module: &'static str,
    /// The line, as the journal has it, with its fields.
    pub line: Text<LINE_MAX>,
    /// The fields by their names, without the message.
    fields: Vec<(&'static str, Text<VALUE_MAX>)>,
}

impl Record {
    /// Makes a record of the present time, without text and fields.
    #[must_use]
    pub fn now(level: Level, module: &'static str) -> Self {
        Self { time_ms: milliseconds(), level, module, line: Text::default(), fields: Vec::new() }
    }

    /// Adds a field. Fields beyond the 16th are only part of the line.
    pub fn add_field(&mut self, name: &'static str, value: fmt::Arguments<'_>) {
        if self.fields.len() < FIELDS_MAX {
            let mut text = Text::default();
            // A text that is full is no error.
            let _ = text.write_fmt(value);
            self.fields.push((name, text));
        }
    }

    /// Iterates over the fields and their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Returns the memory of the record in bytes.
    fn bytes(&self) -> usize {
        let fields = self.fields.iter();
        let fields: usize = fields.map(|(_, value)| size_of::<&str>() + value.bytes()).sum();
        size_of::<Self>() + self.line.bytes() + fields
    }
}

/// Returns the time in milliseconds since 1970.
fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A text of at most `MAX` bytes. The end of a longer one is replaced by `…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<const MAX: usize> {
    text: String,
    is_cut: bool,
}

impl<const MAX: usize> Text<MAX> {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the memory of the text in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.capacity()
    }

    /// Shortens the text to the longest whole characters within `length` bytes.
    fn truncate(&mut self, length: usize) {
        let end =
            (0..=length.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at));
        self.text.truncate(end.unwrap_or_default());
    }
}

impl<const MAX: usize> fmt::Write for Text<MAX> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.is_cut {
            return Ok(());
        }
        if self.text.len() + more.len() <= MAX {
            self.text.push_str(more);
            return Ok(());
        }
        // Only as much as fits is copied.
        let room = MAX - self.text.len();
        let fits = (0..=room).rev().find(|at| more.is_char_boundary(*at)).unwrap_or_default();
        self.text.push_str(more.get(..fits).unwrap_or_default());
        self.truncate(MAX - CUT.len_utf8());
        self.text.push(CUT);
        self.is_cut = true;
        Ok(())
    }
}

/// The latest records. Each has a number; the first record since the daemon's start has 1.
#[derive(Debug)]
pub struct EventRing {
    /// The time at which the ring was made, in milliseconds since 1970.
    started_ms: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: VecDeque<Arc<Record>>,
    /// The memory of the records in bytes.
    bytes: usize,
    /// The number of the last record; 0 before the first one.
    last: u64,
}

/// Records of the ring that follow a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The number of the first of the records.
    pub first: u64,
    /// The records, the oldest first.
    pub records: Vec<Arc<Record>>,
    /// How many records between that number and the first of these were evicted.
    pub lost: u64,
    /// Whether there are later records.
    pub more: bool,
}

impl Default for EventRing {
    fn default() -> Self {
        Self { started_ms: milliseconds(), kept: Mutex::default() }
    }
}

impl EventRing {
    /// Returns the time at which the ring was made, in milliseconds since 1970. It tells two runs of the daemon apart.
    #[must_use]
    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// Adds a record, and evicts the oldest ones beyond the bounds.
    pub fn push(&self, record: Record) {
        let bytes = record.bytes();
        let record = Arc::new(record);
        let mut evicted = Vec::new();
        let mut kept = lock(&self.kept);
        kept.records.push_back(record);
        kept.bytes += bytes;
        kept.last += 1;
        while kept.records.len() > RECORDS_MAX || kept.bytes > BYTES_MAX {
            let Some(oldest) = kept.records.pop_front() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.bytes());
            evicted.push(oldest);
        }
        // Memory is freed without the lock.
        drop(kept);
        drop(evicted);
    }

    /// Returns the records that follow the record with the number `after`, [`LIST_MAX`] at most; after 0 follow all.
    #[must_use]
    pub fn after(&self, after: u64) -> Listing {
        let kept = lock(&self.kept);
        let evicted = kept.last.saturating_sub(kept.records.len() as u64);
        let skipped = usize::try_from(after.saturating_sub(evicted)).unwrap_or(usize::MAX);
        let records: Vec<Arc<Record>> =
            kept.records.iter().skip(skipped).take(LIST_MAX).cloned().collect();
        Listing {
            first: after.max(evicted).saturating_add(1),
            lost: evicted.saturating_sub(after),
            more: skipped.saturating_add(records.len()) < kept.records.len(),
            records,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(line: &str) -> Record {
        let mut record = Record::now(Level::INFO, "sluiced");
        record.line.write_str(line).unwrap();
        record
    }

    fn lines(listing: &Listing) -> Vec<&str> {
        listing.records.iter().map(|record| record.line.as_str()).collect()
    }

    #[test]
    fn records_follow_number_in_order() {
        let ring = EventRing::default();
        assert_eq!(ring.after(0), Listing { first: 1, ..Listing::default() });
        for line in ["a", "b", "c"] {
            ring.push(record(line));
        }
        let all = ring.after(0);
        assert_eq!(
            (lines(&all), all.first, all.lost, all.more),
            (vec!["a", "b", "c"], 1, 0, false)
        );
        let rest = ring.after(2);
        assert_eq!((lines(&rest), rest.first, rest.lost), (vec!["c"], 3, 0));
        for number in [3, 4, u64::MAX] {
            assert!(ring.after(number).records.is_empty(), "{number}");
        }
    }

    #[test]
    fn oldest_records_are_evicted_and_counted_as_lost() {
        let ring = EventRing::default();
        let beyond = 100;
        for number in 1..=RECORDS_MAX + beyond {
            ring.push(record(&number.to_string()));
        }
        let first = ring.after(0);
        assert_eq!((first.lost, first.first, first.more), (100, 101, true));
        assert_eq!(first.records.len(), LIST_MAX);
        assert_eq!(lines(&first)[0], "101");
        assert_eq!(ring.after(40).lost, 60, "the reader has seen the first 40");
        assert_eq!(ring.after(100).lost, 0);
        // All pages together are the ring.
        let (mut after, mut seen) = (0, 0);
        loop {
            let page = ring.after(after);
            seen += page.records.len();
            after = page.first + page.records.len() as u64 - 1;
            if !page.more {
                break;
            }
        }
        assert_eq!((seen, after), (RECORDS_MAX, 4196));
    }

    #[test]
    fn hostile_texts_do_not_grow_ring_beyond_bytes() {
        let ring = EventRing::default();
        let long = "é".repeat(1 << 20);
        for _ in 0..RECORDS_MAX {
            let mut hostile = record(&long);
            for _ in 0..100 {
                hostile.add_field("host", format_args!("{long}"));
            }
            assert!(
                hostile.line.as_str().len() <= LINE_MAX && hostile.line.as_str().ends_with('…')
            );
            assert_eq!(hostile.fields().count(), FIELDS_MAX);
            assert!(hostile.fields().all(|(_, value)| value.len() <= VALUE_MAX));
            ring.push(hostile);
        }
        let kept = lock(&ring.kept);
        assert!(kept.bytes <= BYTES_MAX && kept.records.len() > 100, "{}", kept.records.len());
        let counted: usize = kept.records.iter().map(|record| record.bytes()).sum();
        assert_eq!(counted, kept.bytes);
    }

    proptest! {
        #[test]
        fn text_keeps_whole_characters(parts in prop::collection::vec(".*", 0..20)) {
            let mut text = Text::<64>::default();
            for part in &parts {
                text.write_str(part).unwrap();
            }
            let whole = parts.concat();
            prop_assert!(text.as_str().len() <= 64);
            match text.as_str().strip_suffix(CUT).filter(|_| whole.len() > 64) {
                Some(head) => prop_assert!(whole.starts_with(head)),
                None => prop_assert_eq!(text.as_str(), whole.as_str()),
            }
        }
    }
}
