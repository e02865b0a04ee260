//! All settings of quality of service together, and how a file is read and written.

use super::super::fields::Fields;
use super::super::lines::Lines;
use super::super::table;
use super::general::{Qos, general};
use super::policy::{ParsedPolicy, Policy, policy};
use super::profile::{Profile, profile};
use super::session::{ParsedSession, Session, session};

/// Everything of the configuration that concerns quality of service and may change while the
/// daemon runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QosConfig {
    /// `[qos]`.
    pub general: Qos,
    /// `[[session]]`.
    pub sessions: Vec<Session>,
    /// `[[profile]]`.
    pub profiles: Vec<Profile>,
    /// `[[policy]]`.
    pub policies: Vec<Policy>,
}

impl QosConfig {
    /// Returns the titles of the tables in which another one differs. The order of sessions, profiles and policies
    /// means nothing.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let name = |session: &Session| session.name.clone();
        let tables = [
            ("[qos]", self.general != other.general),
            ("[[session]]", differ(&self.sessions, &other.sessions, name)),
            ("[[profile]]", differ(&self.profiles, &other.profiles, |p| p.name.clone())),
            ("[[policy]]", differ(&self.policies, &other.policies, Policy::scope)),
        ];
        tables.iter().filter(|(_, differs)| *differs).map(|(title, _)| *title).collect()
    }
}

/// Returns whether two lists differ in more than their order.
fn differ<T: PartialEq, K: Ord>(one: &[T], other: &[T], key: impl Fn(&T) -> K) -> bool {
    let (mut one, mut other): (Vec<&T>, Vec<&T>) = (one.iter().collect(), other.iter().collect());
    one.sort_by_key(|entry| key(entry));
    other.sort_by_key(|entry| key(entry));
    one != other
}

/// The tables as they are read, before the subsystems are known.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(super) general: Qos,
    pub(super) sessions: Vec<ParsedSession>,
    pub(super) profiles: Vec<Profile>,
    pub(super) policies: Vec<ParsedPolicy>,
}

/// Reads the tables of a file.
pub(crate) fn parse(fields: &mut Fields<'_>) -> Parsed {
    let standard = Qos::default();
    let general = match fields.table("qos", "[qos]") {
        Some(table) => general(table, standard),
        None => standard,
    };
    let sessions = fields.tables("session", "[[session]]");
    let profiles = fields.tables("profile", "[[profile]]");
    let standard = Profile::default();
    let policies = fields.tables("policy", "[[policy]]");
    Parsed {
        general,
        sessions: sessions.into_iter().filter_map(|f| session(f, None)).collect(),
        profiles: profiles.into_iter().filter_map(|f| profile(f, &standard)).collect(),
        policies: policies.into_iter().filter_map(policy).collect(),
    }
}

/// Writes `[qos]`, `[[session]]`, `[[profile]]` and `[[policy]]` with their titles.
pub(crate) fn lines(lines: &mut Lines, qos: &QosConfig) {
    lines.title("[qos]");
    table::lines(lines, &qos.general);
    for session in &qos.sessions {
        lines.title("[[session]]");
        table::lines(lines, session);
    }
    for profile in &qos.profiles {
        lines.title("[[profile]]");
        table::lines(lines, profile);
    }
    for policy in &qos.policies {
        lines.title("[[policy]]");
        table::lines(lines, policy);
    }
}
