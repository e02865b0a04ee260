//! Events as people read them: a line for each, as in the journal.

use sluice_config::answer::{Event, Events};

/// Writes the answer to `event.list`.
pub(super) fn list(events: &Events) -> String {
    let lost = (events.lost > 0).then(|| lost(events.lost));
    lost.into_iter().chain(events.events.iter().map(event)).collect()
}

/// Writes an event: its time, its level and its line.
pub(super) fn event(event: &Event) -> String {
    let Event { time_ms, level, message, .. } = event;
    format!("{}  {:<5}  {}\n", utc(*time_ms), level.to_uppercase(), printable(message))
}

/// Reports how many events before the next one are gone.
pub(super) fn lost(count: u64) -> String {
    let events = if count == 1 { "event is" } else { "events are" };
    format!(
        "({count} earlier {events} no longer in memory; the log has them: journalctl -u sluiced)\n"
    )
}

/// Reports that the daemon was started again.
pub(super) fn started(started_ms: u64) -> String {
    format!(
        "(the daemon was started at {}; the log has earlier events: journalctl -u sluiced)\n",
        utc(started_ms)
    )
}

/// Indents further lines of a message. Other control characters, which a terminal would obey, are escaped.
fn printable(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.trim_end().chars() {
        match c {
            '\n' => text.push_str("\n    "),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text
}

/// Writes a time in ms since 1970 as RFC 3339 does, in UTC.
pub(super) fn utc(time_ms: u64) -> String {
    let (seconds, ms) = (time_ms / 1000, time_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Returns year, month and day of a day since 1970-01-01. Years of this calculation begin in March, so that a leap day
/// is the last day of its year, and cycles of 400 years have 146,097 days each.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        for (time_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_200_001, "2024-03-01T00:00:00.001Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(time_ms), text);
        }
    }

    #[test]
    fn message_cannot_control_terminal() {
        let message = "a\nb\u{1b}[2J\r".to_owned();
        let seen = event(&Event { level: "warn".into(), message, ..Event::default() });
        assert_eq!(seen, "1970-01-01T00:00:00.000Z  WARN   a\n    b\\u{1b}[2J\n");
    }

    #[test]
    fn lost_events_come_first() {
        let one = Event { level: "error".into(), message: "gone".into(), ..Event::default() };
        let seen = list(&Events { lost: 7, events: vec![one], ..Events::default() });
        let lines: Vec<&str> = seen.lines().collect();
        assert!(lines[0].starts_with("(7 earlier events are") && lines[0].contains("journalctl"));
        assert_eq!(lines[1], "1970-01-01T00:00:00.000Z  ERROR  gone");
        assert_eq!(list(&Events::default()), "");
    }
}
