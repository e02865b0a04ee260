//! `sluice events`: asks the daemon for its latest events, page by page, and with `--follow` again each second.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use serde_json::{Value, json};
use sluice_config::answer::{Event, Events};
use sluice_config::failure::{Failure, NO_DAEMON};
use sluice_config::program::print_to_reader;
use sluice_config::{call, params};

use super::args::EventsArgs;
use super::request::Request;
use super::{events_view, view};

/// The time between two requests of `--follow`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints events. With `as_json` each is an object on a line.
///
/// # Errors
/// The daemon cannot be reached, or refuses. With `--follow`, a daemon that answered before may be started again.
pub(super) fn run(
    args: &EventsArgs,
    as_json: bool,
    ask: impl Fn(&Request) -> Result<Value, Failure>,
) -> Result<ExitCode> {
    let mut reader = Reader::new(args.since.map_or(0, since));
    let mut is_waiting = false;
    loop {
        let pause = match ask(&reader.request()) {
            Ok(answer) => {
                is_waiting = false;
                let answer = view::of::<call::EventList>(&answer)?;
                let (items, next) = reader.take(answer);
                if !print(&items, as_json)? {
                    return Ok(ExitCode::SUCCESS);
                }
                if next == Next::Wait && !args.follow {
                    return Ok(ExitCode::SUCCESS);
                }
                next == Next::Wait
            }
            Err(failure) if failure.kind == NO_DAEMON && reader.has_answer() && args.follow => {
                if !is_waiting {
                    let _ = writeln!(std::io::stderr(), "sluice: {failure}; waiting for it");
                }
                is_waiting = true;
                true
            }
            Err(failure) => return Err(failure.into()),
        };
        if pause {
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Returns the time in ms since 1970 that is `span` ago.
fn since(span: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(span).as_millis()).unwrap_or(u64::MAX)
}

/// A line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// The daemon was started again, at this time in ms since 1970.
    Started(u64),
    /// So many events are no longer in the daemon's memory.
    Lost(u64),
    Event(Event),
}

impl Item {
    fn text(&self) -> String {
        match self {
            Self::Started(started_ms) => events_view::started(*started_ms),
            Self::Lost(count) => events_view::lost(*count),
            Self::Event(event) => events_view::event(event),
        }
    }

    fn json(&self) -> String {
        let value = match self {
            Self::Started(started_ms) => json!({ "started_ms": started_ms }),
            Self::Lost(count) => json!({ "lost": count }),
            Self::Event(event) => json!(event),
        };
        format!("{value}\n")
    }
}

/// Prints items at once. Returns whether somebody still reads.
fn print(items: &[Item], as_json: bool) -> Result<bool> {
    let text: String =
        items.iter().map(|item| if as_json { item.json() } else { item.text() }).collect();
    print_to_reader(text)
}

/// The step after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// There is more to ask for.
    Ask,
    /// All present events are known.
    Wait,
}

/// The events that were read.
#[derive(Debug)]
struct Reader {
    /// The start of the daemon that has answered, in ms since 1970; `None` before its answer.
    started_ms: Option<u64>,
    /// The number of the last event that was read.
    after: u64,
    /// Earlier events are not printed, in ms since 1970.
    since_ms: u64,
}

impl Reader {
    const fn new(since_ms: u64) -> Self {
        Self { started_ms: None, after: 0, since_ms }
    }

    const fn has_answer(&self) -> bool {
        self.started_ms.is_some()
    }

    fn request(&self) -> Request {
        let after = Some(self.after).filter(|after| *after > 0);
        Request::of::<call::EventList>(&params::EventList { after })
    }

    /// Takes an answer to [`Self::request`]. Returns the lines to print, and the next step.
    fn take(&mut self, answer: Events) -> (Vec<Item>, Next) {
        let Events { started_ms, lost, more, events } = answer;
        if self.started_ms.replace(started_ms).is_some_and(|before| before != started_ms) {
            // The numbers begin again, so the answer may lack events.
            self.after = 0;
            return (vec![Item::Started(started_ms)], Next::Ask);
        }
        // Lost events are older than the first event of the answer.
        let is_wanted = events.first().is_none_or(|first| first.time_ms >= self.since_ms);
        let lost = Some(lost).filter(|lost| *lost > 0 && is_wanted).map(Item::Lost);
        let is_stuck = events.is_empty();
        self.after = events.last().map_or(self.after, |last| last.number);
        let since_ms = self.since_ms;
        let wanted = events.into_iter().filter(|event| event.time_ms >= since_ms);
        let items = lost.into_iter().chain(wanted.map(Item::Event)).collect();
        (items, if more && !is_stuck { Next::Ask } else { Next::Wait })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event { number, time_ms: 1000 * number, ..Event::default() }
    }

    fn answer(started_ms: u64, numbers: std::ops::Range<u64>, more: bool) -> Events {
        Events { started_ms, lost: 0, more, events: numbers.map(event).collect() }
    }

    fn items(numbers: std::ops::Range<u64>) -> Vec<Item> {
        numbers.map(|number| Item::Event(event(number))).collect()
    }

    fn after(reader: &Reader) -> Value {
        reader.request().params
    }

    #[test]
    fn pages_are_read_to_the_end_and_then_awaited() {
        let mut reader = Reader::new(0);
        assert_eq!(after(&reader), json!({}));
        assert_eq!(reader.take(answer(7, 1..4, true)), (items(1..4), Next::Ask));
        assert_eq!(after(&reader), json!({"after": 3}));
        assert_eq!(reader.take(answer(7, 4..6, false)), (items(4..6), Next::Wait));
        assert_eq!(reader.take(answer(7, 6..6, false)), (vec![], Next::Wait));
        assert_eq!(after(&reader), json!({"after": 5}));
        // A daemon that announces more and has nothing is not asked without end.
        assert_eq!(reader.take(answer(7, 6..6, true)), (vec![], Next::Wait));
    }

    #[test]
    fn restart_is_reported_and_events_read_again() {
        let mut reader = Reader::new(0);
        reader.take(answer(7, 1..9, false));
        assert_eq!(reader.take(answer(9, 9..11, false)), (vec![Item::Started(9)], Next::Ask));
        assert_eq!(after(&reader), json!({}));
        assert_eq!(reader.take(answer(9, 1..11, false)), (items(1..11), Next::Wait));
    }

    #[test]
    fn lost_events_are_reported_where_they_are_wanted() {
        let lost = |since_ms| {
            let mut reader = Reader::new(since_ms);
            reader.take(Events { lost: 3, ..answer(7, 4..6, false) }).0
        };
        assert_eq!(lost(0), [&[Item::Lost(3)], &items(4..6)[..]].concat());
        assert_eq!(lost(4000), [&[Item::Lost(3)], &items(4..6)[..]].concat());
        assert_eq!(lost(5000), items(5..6), "all lost events are older");
    }

    #[test]
    fn json_has_object_for_each_line() {
        assert_eq!(Item::Lost(2).json(), "{\"lost\":2}\n");
        assert_eq!(Item::Started(5).json(), "{\"started_ms\":5}\n");
        let value: Value = serde_json::from_str(&Item::Event(event(3)).json()).unwrap();
        assert_eq!((&value["number"], &value["time_ms"]), (&json!(3), &json!(3000)));
    }
}
