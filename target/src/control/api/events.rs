//! The method that shows the latest lines of the log.

use sluice_config::{answer, params};

use super::Control;
use crate::control::events::{Listing, Record};

impl Control {
    /// Answers `event.list`.
    pub(super) fn event_list(&self, asked: &params::EventList) -> answer::Events {
        let Listing { first, records, lost, more } =
            self.log.events.after(asked.after.unwrap_or(0));
        let events = (first..).zip(&records).map(|(number, record)| event(number, record));
        answer::Events {
            started_ms: self.log.events.started_ms(),
            lost,
            more,
            events: events.collect(),
        }
    }
}

fn event(number: u64, record: &Record) -> answer::Event {
    let fields = record.fields().map(|(name, value)| (name.to_owned(), value.to_owned()));
    answer::Event {
        number,
        time_ms: record.time_ms,
        level: record.level.as_str().to_ascii_lowercase(),
        module: record.module.to_owned(),
        message: record.line.as_str().to_owned(),
        fields: fields.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use serde_json::json;
    use tracing::Level;

    use crate::control::api::tests::Rig;
    use crate::control::events::{LIST_MAX, RECORDS_MAX, Record};

    fn add(rig: &Rig, line: &str) {
        let mut record = Record::now(Level::WARN, "sluiced::serve");
        record.line.write_str(line).unwrap();
        record.add_field("host", format_args!("nqn.h"));
        rig.events.push(record);
    }

    #[test]
    fn events_are_listed_after_number() {
        let rig = Rig::new();
        assert_eq!(rig.ask("event.list")["events"], json!([]));
        add(&rig, "a host has left");
        add(&rig, "a host has connected");
        let all = rig.ask("event.list");
        assert_eq!((&all["lost"], &all["more"]), (&json!(0), &json!(false)));
        let first = &all["events"][0];
        assert_eq!((&first["number"], &first["level"]), (&json!(1), &json!("warn")));
        assert_eq!(first["message"], "a host has left");
        assert_eq!(first["module"], "sluiced::serve");
        assert_eq!(first["fields"], json!({"host": "nqn.h"}));
        let rest = rig.call("event.list", json!({"after": 1}));
        assert_eq!(rest["started_ms"], all["started_ms"]);
        assert_eq!(rest["events"].as_array().unwrap().len(), 1);
        assert_eq!(rest["events"][0]["number"], 2);
        rig.refuses("event.list", json!({"after": -1}), "invalid", "`after`");
    }

    #[test]
    fn lost_events_are_counted_and_pages_are_bounded() {
        let rig = Rig::new();
        for _ in 0..RECORDS_MAX + 3 {
            add(&rig, "x");
        }
        let page = rig.ask("event.list");
        assert_eq!((&page["lost"], &page["more"]), (&json!(3), &json!(true)));
        let events = page["events"].as_array().unwrap();
        assert_eq!((events.len(), &events[0]["number"]), (LIST_MAX, &json!(4)));
    }
}
