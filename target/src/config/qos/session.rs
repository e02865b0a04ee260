//! `[[session]]` and its reservation.

use std::time::Duration;

use arbitration::reservation::{Budget, Locality, Terms};
use arbitration::{Nanos, nanos};

use super::super::fields::{At, Fields};
use super::super::model::{Reserve, Session};
use super::super::units::format_duration;
use super::super::values::{choice, duration_within, integer, nullable, size_within};
use super::{ROOT, values};

/// Shortest and longest period of a reservation.
const PERIOD_MIN: Duration = Duration::from_millis(1);
const PERIOD_MAX: Duration = Duration::from_secs(60);
/// The period where none is said.
const PERIOD: Duration = Duration::from_secs(1);
/// The size of a command where none is said.
const REQUEST_BYTES: u64 = 4096;

/// A session and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedSession {
    pub(crate) session: Session,
    pub(crate) name: At<()>,
    pub(crate) parent: Option<At<()>>,
    pub(crate) operations: Option<At<()>>,
    pub(crate) payload: Option<At<()>>,
    pub(crate) reserve: Option<At<()>>,
}

impl ParsedSession {
    /// A session that did not come from a text.
    pub(super) fn bare(session: Session) -> Self {
        let name = At { value: (), span: 0..0, path: String::new() };
        let (parent, operations, payload, reserve) = (None, None, None, None);
        Self { session, name, parent, operations, payload, reserve }
    }
}

/// `[[session]]`; what is left out is as in `base`. `null` takes a setting back.
pub(crate) fn session(mut fields: Fields<'_>, base: Option<Session>) -> Option<ParsedSession> {
    let name = fields.require("name", "\"gold\"", values::session_name);
    let base = base.unwrap_or_default();
    let parent = fields.get("parent", nullable(values::session_reference));
    let share = values::percent(1, 100);
    let operations = fields.get("operations", nullable(&share));
    let payload = fields.get("payload", nullable(&share));
    let iops = fields.get("iops", nullable(values::iops));
    let bandwidth = fields.get("bandwidth", nullable(values::bandwidth));
    let queue = fields.get("queue", nullable(integer(1, values::COMMANDS_MAX)));
    let reserve_at = fields.get("reserve", nullable(|_| Ok(())));
    let reserve = match &reserve_at {
        Some(At { value: Some(()), .. }) => fields.table("reserve", "`reserve`").map(reserve),
        _ => None,
    };
    fields.finish();
    let name = name?;
    let place = |at: &Option<At<Option<_>>>| at.as_ref().map(At::place);
    let parsed = ParsedSession {
        operations: place(&operations),
        payload: place(&payload),
        parent: parent.as_ref().map(At::place),
        reserve: reserve_at.as_ref().map(At::place),
        name: name.place(),
        session: Session {
            parent: normal_parent(&name.value, said(parent, base.parent)),
            operations: said(operations, base.operations),
            payload: said(payload, base.payload),
            iops: said(iops, base.iops),
            bandwidth: said(bandwidth, base.bandwidth),
            queue: said(queue, base.queue),
            reserve: match (reserve_at.map(|at| at.value), reserve) {
                (None, _) => base.reserve,
                (Some(_), reserve) => reserve.flatten(),
            },
            name: name.value,
        },
    };
    Some(parsed)
}

/// What is said now, or else what was.
fn said<T>(now: Option<At<Option<T>>>, before: Option<T>) -> Option<T> {
    now.map_or(before, |at| at.value)
}

/// The root is above every session that says nothing, but for those of namespaces.
fn normal_parent(name: &str, parent: Option<String>) -> Option<String> {
    parent.filter(|parent| parent != ROOT || super::split_namespace(name).is_some())
}

/// `reserve`.
pub(crate) fn reserve(mut fields: Fields<'_>) -> Option<Reserve> {
    let place = fields.place();
    let operations = fields.get("operations", integer::<u64>(1, values::RATE_MAX.into()));
    let bytes = fields.get("bytes", size_within(512, values::RATE_MAX));
    let time = fields.get("time", duration_within(Duration::from_micros(1), PERIOD_MAX));
    let period = fields.get("period", duration_within(PERIOD_MIN, PERIOD_MAX)).map(|at| at.value);
    let request = fields.value_or("request_size", REQUEST_BYTES, size_within(512, 16 << 20));
    let writes = fields.value_or("writes", 0, values::percent(0, 100));
    let locality = fields.value_or("locality", Locality::Random, choice(&values::LOCALITIES));
    let namespace = fields.get("namespace", values::namespace_name).map(|at| at.value);
    let given = ["operations", "bytes", "time"].iter().filter(|key| fields.has(key)).count();
    let problems = fields.problems();
    let unread =
        fields.unread("namespace", namespace.as_ref()) || fields.unread("period", period.as_ref());
    let period = period.unwrap_or(PERIOD);
    fields.finish();
    if given != 1 {
        let remedy = "write one of operations = 5000, bytes = \"200 MiB\" and time = \"100 ms\"";
        let message = match given {
            0 => "`reserve` does not say how much",
            _ => "`reserve` says how much more than once",
        };
        problems.at(&place, message, remedy);
        return None;
    }
    if unread {
        return None;
    }
    if let Some(time) = time.as_ref().filter(|time| time.value > period) {
        let message = format!("`time` is {}, longer than its period", format_duration(time.value));
        let remedy = format!("write at most \"{}\"", format_duration(period));
        problems.at(time, message, remedy);
    }
    let budget = match (operations, bytes, time) {
        (Some(n), ..) => Budget::Operations(n.value),
        (_, Some(n), _) => Budget::Bytes(n.value),
        (_, _, Some(time)) => Budget::DeviceTime(Nanos(nanos(time.value))),
        _ => return None,
    };
    Some(Reserve {
        terms: Terms {
            budget,
            period: Nanos(nanos(period)),
            request_bytes: u32::try_from(request).unwrap_or(u32::MAX),
            write_percent: writes,
            locality,
        },
        namespace,
    })
}
