//! `[[session]]` and its reservation.

use std::time::Duration;

use arbitration::reservation::{Budget, Locality, Terms};
use arbitration::{Nanos, nanos};

use crate::amounts::{format_duration, format_size};
use crate::keys::ConfigKey;
use crate::keys::{RATE_MAX, RESERVE, SESSION};
use serde_json::{Value as Json, json};

use super::super::fields::{At, Fields};
use super::super::table::{self, Seen, Written, read_already, table, words};
use super::super::values::{count, duration_within, size_within};
use super::limits::{Limits, table_with_limits};
use super::names::{ROOT, split_namespace};
use super::values::{self, LOCALITIES};

/// The shortest period of a reservation.
const PERIOD_MIN: Duration = Duration::from_millis(1);
const PERIOD_MAX: Duration = Duration::from_secs(60);
/// The shortest allowed latency of a reservation.
const LATENCY_MIN: Duration = Duration::from_millis(2);
/// The period where none is given.
const PERIOD: Duration = Duration::from_secs(1);

/// `[[session]]`: a QoS session (docs/research/sources.md, D1: sessions form a tree). Each subsystem has an
/// automatic session below the root, named by its NQN, and each namespace has one below its
/// subsystem's, named NQN/NSID. An entry with such a name sets that session; an entry with any
/// other name is a session that groups others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// `name`: the session's name.
    pub name: String,
    /// `parent`: name of another session; `None` means the root (of a namespace: its subsystem's).
    pub parent: Option<String>,
    /// `credit_share`: credits, in per cent of the parent's; `None` means as many as the parent
    /// has.
    pub operations: Option<u8>,
    /// `payload_share`: payload credits, in per cent of the parent's.
    pub payload: Option<u8>,
    /// The session's own limits, without its profile's; per GiB only of automatic sessions.
    pub limits: Limits,
    /// `profile`: name of the profile whose limits the session has where it sets none of its own.
    pub profile: Option<String>,
    /// `queue`: commands that may wait before hosts are held back; `None` means as many as the
    /// root's.
    pub queue: Option<u32>,
    /// `weight`: share beside the other sessions of the parent; `None` means 100.
    pub weight: Option<u16>,
    /// `reserve`: the session's reservation.
    pub reserve: Option<Reserve>,
}

table_with_limits! { Session, SESSION;
    "name" => with(read_already, |session, _| Written::same(session.name.as_str())),
    "parent" => read(parent, |node| values::session_reference(node).map(Some), write_name),
    "credit_share" => field(operations),
    "payload_share" => field(payload),
    ..limits,
    "profile" => read(profile, |node| values::profile_name(node).map(Some), write_name),
    "queue" => field(queue),
    "weight" => field(weight),
    "reserve" => with(read_reserve, write_reserve),
}

/// `reserve`: a reservation of a session on one namespace's device (docs/research/sources.md, F1:
/// reservations in the tenant's terms).
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// `budget`, `period`, `request_size`, `writes`, `locality`, `latency`, `burst`, `buffers`.
    pub terms: Terms,
    /// `namespace`: NQN/NSID; `None` means that the session is a namespace's own.
    pub namespace: Option<String>,
}

table! { Reserve, RESERVE;
    "commands" => with(read_commands, |reserve, _| match reserve.terms.budget {
        Budget::Operations(number) => Written::same(number),
        _ => Written::nothing(),
    }),
    "bytes" => with(read_bytes, |reserve, _| match reserve.terms.budget {
        Budget::Bytes(bytes) => Written::text(&format_size(bytes), bytes),
        _ => Written::nothing(),
    }),
    "time" => with(read_time, |reserve, _| match reserve.terms.budget {
        Budget::DeviceTime(time) => write_time(time),
        _ => Written::nothing(),
    }),
    "period" => with(read_period, |reserve, _| write_time(reserve.terms.period)),
    "request_size" => field(terms.request_bytes),
    "writes" => field(terms.write_percent),
    "locality" => field(terms.locality),
    "latency" => with(read_latency, |reserve, _| match reserve.terms.latency {
        Some(latency) => write_time(latency),
        None => Written::nothing(),
    }),
    "burst" => field(terms.burst),
    "buffers" => field(terms.buffers),
    "namespace" => read(namespace, |node| values::namespace_name(node).map(Some), write_name),
}

words! {
    Locality: LOCALITIES;
}

fn write_time(time: Nanos) -> Written {
    Written::same(format_duration(Duration::from_nanos(time.0)))
}

/// Reads `commands`.
fn read_commands(
    reserve: &mut Reserve,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    if let Some(number) = table::take(fields, key, false, seen, count(1, RATE_MAX)) {
        reserve.terms.budget = Budget::Operations(number);
    }
}

/// Reads `bytes`.
fn read_bytes(
    reserve: &mut Reserve,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    if let Some(bytes) = table::take(fields, key, false, seen, size_within(512, RATE_MAX)) {
        reserve.terms.budget = Budget::Bytes(bytes);
    }
}

/// Reads `time`.
fn read_time(
    reserve: &mut Reserve,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    let read = duration_within(Duration::from_micros(1), PERIOD_MAX);
    if let Some(time) = table::take(fields, key, false, seen, read) {
        reserve.terms.budget = Budget::DeviceTime(Nanos(nanos(time)));
    }
}

/// Reads `period`.
fn read_period(
    reserve: &mut Reserve,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    let read = duration_within(PERIOD_MIN, PERIOD_MAX);
    if let Some(period) = table::take(fields, key, false, seen, read) {
        reserve.terms.period = Nanos(nanos(period));
    }
}

/// Reads `latency`.
fn read_latency(
    reserve: &mut Reserve,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    let read = duration_within(LATENCY_MIN, PERIOD_MAX);
    if let Some(time) = table::take(fields, key, false, seen, read) {
        reserve.terms.latency = Some(Nanos(nanos(time)));
    }
}

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
    /// Makes a session without places in a text.
    pub(super) fn bare(session: Session) -> Self {
        let name = At { value: (), span: 0..0, path: String::new() };
        let (parent, operations, payload, reserve) = (None, None, None, None);
        Self { session, name, parent, operations, payload, reserve }
    }
}

/// Reads `[[session]]`; a setting that is left out is as in `base`. `null` takes a setting back.
pub(crate) fn session(mut fields: Fields<'_>, base: Option<Session>) -> Option<ParsedSession> {
    let name = fields.require("name", "\"gold\"", values::session_name);
    let mut session = base.unwrap_or_default();
    let seen = table::read(&mut fields, &mut session);
    fields.finish();
    let name = name?;
    let place = name.place();
    session.parent = normal_parent(&name.value, session.parent);
    session.name = name.value;
    Some(ParsedSession {
        name: place,
        parent: seen.place("parent"),
        operations: seen.place("credit_share"),
        payload: seen.place("payload_share"),
        reserve: seen.place("reserve"),
        session,
    })
}

/// Reads `reserve`, a table or `null`.
fn read_reserve(
    session: &mut Session,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    let given: Option<Option<bool>> = table::take(fields, key, true, seen, |_| Ok(Some(true)));
    match given {
        None => {}
        Some(None) => session.reserve = None,
        Some(Some(_)) => {
            session.reserve = fields.table(key.name, "`reserve`").and_then(reserve);
        }
    }
}

fn write_reserve(session: &Session, _: &ConfigKey) -> Written {
    let Some(reserve) = &session.reserve else { return Written::same(Json::Null) };
    let json = json!({
        "namespace": reserve.namespace.as_ref().unwrap_or(&session.name),
        "terms": reserve.terms.to_string(),
    });
    Written { toml: Some(inline(reserve)), json }
}

fn write_name(name: &Option<String>) -> Written {
    Written::same(name.clone())
}

/// Returns the parent as it is kept: the root is left out, except for a namespace's session, whose
/// default parent is its subsystem's.
fn normal_parent(name: &str, parent: Option<String>) -> Option<String> {
    parent.filter(|parent| parent != ROOT || split_namespace(name).is_some())
}

/// Reads `reserve`.
pub(crate) fn reserve(mut fields: Fields<'_>) -> Option<Reserve> {
    let place = fields.place();
    let terms = Terms::of(Budget::Operations(0), Nanos(nanos(PERIOD)));
    let mut reserve = Reserve { terms, namespace: None };
    let seen = table::read(&mut fields, &mut reserve);
    let budgets = ["commands", "bytes", "time"];
    let given = budgets.iter().filter(|key| fields.has(key)).count();
    let problems = fields.problems();
    fields.finish();
    if given != 1 {
        let remedy = "write one of commands = 5000, bytes = \"200 MiB\" and time = \"100 ms\"";
        let message = match given {
            0 => "`reserve` has no budget",
            _ => "`reserve` has more than one budget",
        };
        problems.at(&place, message, remedy);
        return None;
    }
    if budgets.iter().chain(&["namespace", "period"]).any(|key| seen.unread(key)) {
        return None;
    }
    let period = reserve.terms.period;
    if let (Budget::DeviceTime(time), Some(place)) = (reserve.terms.budget, seen.place("time"))
        && time > period
    {
        let shown = |time: Nanos| format_duration(Duration::from_nanos(time.0));
        let message = format!("`time` is {}, longer than its period", shown(time));
        problems.at(&place, message, format!("write at most \"{}\"", shown(period)));
    }
    if let (true, Some(place)) = (reserve.terms.buffers > 1, seen.place("buffers")) {
        let message = "`buffers` for several periods are for writes, which may wait";
        if reserve.terms.write_percent < 100 {
            problems.at(&place, message, "add writes = \"100 %\", or leave `buffers` out");
        } else if reserve.terms.latency.is_some() {
            problems.at(&place, message, "leave `latency` or `buffers` out");
        }
    }
    Some(reserve)
}

/// Writes a reservation as one value.
fn inline(reserve: &Reserve) -> String {
    format!("{{ {} }}", table::pairs(reserve).join(", "))
}
