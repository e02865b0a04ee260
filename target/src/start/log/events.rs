//! The layer of the log that keeps its lines for `sluice events`.

use std::fmt::Debug;
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::layer::Context;

use crate::control::events::{EventRing, Record};

/// A layer that keeps events of level info and above in a ring.
#[derive(Debug)]
pub(super) struct Events(pub(super) Arc<EventRing>);

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        // Lines of lower levels are for developers, and there may be one for each command.
        if *event.metadata().level() <= Level::INFO {
            self.0.push(record(event));
        }
    }
}

/// Makes the record of an event, with the journal's line and the journal's fields.
fn record(event: &Event<'_>) -> Record {
    let meta = event.metadata();
    let mut record = Record::now(*meta.level(), meta.target());
    // Writing to a bounded text cannot fail.
    let _ = DefaultFields::new().format_fields(Writer::new(&mut record.line), event);
    event.record(&mut Fields(&mut record));
    record
}

/// A visitor that adds an event's fields to a record.
struct Fields<'a>(&'a mut Record);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != "message" {
            self.0.add_field(field.name(), format_args!("{value}"));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() != "message" {
            self.0.add_field(field.name(), format_args!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Returns the records of the lines that `act` logs.
    fn records(act: impl FnOnce()) -> Vec<Arc<Record>> {
        let ring: Arc<EventRing> = Arc::default();
        let registry = tracing_subscriber::registry().with(Events(Arc::clone(&ring)));
        tracing::subscriber::with_default(registry, act);
        ring.after(0).records
    }

    #[test]
    fn records_have_line_and_fields() {
        let seen = records(|| {
            tracing::warn!(host = "nqn.h", nsid = 7, why = %"gone", at_once = true, "a host has left");
        });
        let [record] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(record.level, Level::WARN);
        assert_eq!(record.module, module_path!());
        assert_eq!(
            record.line.as_str(),
            "a host has left host=\"nqn.h\" nsid=7 why=gone at_once=true"
        );
        let fields: Vec<_> = record.fields().collect();
        assert_eq!(
            fields,
            [("host", "nqn.h"), ("nsid", "7"), ("why", "gone"), ("at_once", "true")]
        );
        assert!(record.time_ms > 1_700_000_000_000, "milliseconds since 1970");
    }

    #[test]
    fn lines_for_developers_are_not_kept() {
        let seen = records(|| {
            tracing::error!("e");
            tracing::warn!("w");
            tracing::info!("i");
            tracing::debug!("d");
            tracing::trace!("t");
        });
        let lines: Vec<&str> = seen.iter().map(|record| record.line.as_str()).collect();
        assert_eq!(lines, ["e", "w", "i"]);
    }
}
