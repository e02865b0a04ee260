//! One subsystem's part of the agent: it reports the node's backlog there, and keeps the node within its credits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitration::Nanos;
use arbitration::credit::Caps;
use fabric::nvme::node::{Amount, CreditPage, NamespaceBacklog, NodeRates};
use sluice_credits::Segment;

use super::division::{Division, Done, Limits, User};
use super::link::{Link, NoCredits};
use super::notes::note;
use super::pools::pool_path;
use super::shared::{Shared, lock};
use super::sysfs::{self, Disk, DiskCounts, Names, Subsystem};

/// Mode of the pools: their owner and group may take credits.
const MODE: u32 = 0o660;
/// Time between two attempts to reach a target, at first and at most, and to one without credits.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);
/// Time after which subsystem and disks are looked up again.
const LOOK: Duration = Duration::from_secs(2);
/// The shortest and the longest time between two reports.
const REPORTS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// KiB that a command counts as while nothing is known of its size.
const USUAL_KIB: u64 = 4;

/// One session at the subsystem.
#[derive(Debug, Default)]
struct NodeSession {
    /// Its pool; `None` where it could not be made.
    pool: Option<Segment>,
    /// Whether the failure to make the pool was reported.
    is_reported: bool,
    division: Division,
    nsids: BTreeSet<u32>,
    /// In flight at its disks at the last report.
    in_flight: Done,
}

/// A subsystem that this node is connected to.
#[derive(Debug)]
pub(super) struct NodeSubsystem {
    shared: Arc<Shared>,
    names: Names,
    sessions: BTreeMap<String, NodeSession>,
    /// Counts of disks at the last report.
    counts: BTreeMap<String, DiskCounts>,
    begin: Instant,
    /// The time of the last report.
    reported: Instant,
    /// The message of the last failure: it is printed once.
    failure: String,
}

impl NodeSubsystem {
    pub(super) fn new(shared: Arc<Shared>, names: Names) -> Self {
        Self {
            shared,
            names,
            sessions: BTreeMap::new(),
            counts: BTreeMap::new(),
            begin: Instant::now(),
            reported: Instant::now(),
            failure: String::new(),
        }
    }

    /// Serves the subsystem until the host has left it, or the agent ends.
    pub(super) fn run(mut self) {
        let mut link: Option<Link> = None;
        let mut wait = RETRY;
        let mut disks = BTreeSet::new();
        let mut looked: Option<(Instant, Subsystem)> = None;
        let mut valid_until = Instant::now();
        while !self.shared.is_stopping() {
            if looked.as_ref().is_none_or(|(at, _)| at.elapsed() >= LOOK) {
                let Some(found) = self.look() else { break };
                disks.extend(found.disks.iter().map(|disk| disk.number.clone()));
                looked = Some((Instant::now(), found));
            }
            let Some((_, subsystem)) = &looked else { break };
            match self.exchange(&mut link, subsystem) {
                Ok(page) => {
                    (wait, self.failure) = (RETRY, String::new());
                    let valid = Duration::from_millis(page.valid_ms.into());
                    valid_until = Instant::now() + valid;
                    self.apply(&page, subsystem, valid);
                    let [least, most] = REPORTS;
                    self.shared
                        .sleep(Duration::from_millis(page.report_ms.into()).clamp(least, most));
                }
                Err(error) => {
                    link = None;
                    let text = format!("{}: {error:#}", self.names.nqn);
                    if text != self.failure {
                        note(&text);
                        self.failure = text;
                    }
                    if error.is::<NoCredits>() {
                        wait = RETRY_MOST;
                    }
                    if Instant::now() >= valid_until {
                        self.release(&disks);
                    }
                    self.shared.sleep(wait);
                    wait = (wait * 2).min(RETRY_MOST);
                }
            }
        }
        self.release(&disks);
        self.sessions.clear();
        if let Some(link) = link {
            // The target notices the end of the connection as well.
            let _ = link.close();
        }
    }

    /// Looks the subsystem up; `None` where the host has left it.
    fn look(&self) -> Option<Subsystem> {
        let found = sysfs::subsystems(&self.shared.sysfs).ok()?;
        found.into_iter().find(|subsystem| subsystem.names == self.names)
    }

    /// Connects if need be, reports the backlog and reads the credits.
    fn exchange(
        &mut self,
        link: &mut Option<Link>,
        subsystem: &Subsystem,
    ) -> anyhow::Result<CreditPage> {
        let backlog = self.backlog(&subsystem.disks);
        if let Some(link) = link {
            return link.exchange(&backlog);
        }
        let mut error = anyhow::anyhow!("the host has no path to it");
        for path in &subsystem.paths {
            match Link::connect(&self.names, path) {
                Ok(new) => return link.insert(new).exchange(&backlog),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Removes the limits of all disks of the subsystem.
    fn release(&mut self, disks: &BTreeSet<String>) {
        if let Some(groups) = &self.shared.groups
            && let Err(error) = lock(groups).apply(disks, &BTreeMap::new())
        {
            note(&format_args!("{error:#}"));
        }
    }

    /// Returns the node's backlog at each namespace.
    fn backlog(&mut self, disks: &[Disk]) -> Vec<NamespaceBacklog> {
        let elapsed = u64::try_from(self.reported.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.reported = Instant::now();
        let mut backlog: BTreeMap<u32, NamespaceBacklog> = BTreeMap::new();
        for Disk { name, nsid, .. } in disks {
            let Some(counts) = sysfs::disk_counts(&self.shared.sysfs, name) else { continue };
            let before = self.counts.insert(name.clone(), counts).unwrap_or(counts);
            let done = counts.operations.saturating_sub(before.operations);
            let kib = counts.kib.saturating_sub(before.kib).checked_div(done).unwrap_or(USUAL_KIB);
            let entry = backlog.entry(*nsid).or_default();
            entry.nsid = *nsid;
            // The mean since the last report: commands are sent in bursts.
            let waited = counts.in_flight_ms.saturating_sub(before.in_flight_ms);
            let in_flight = match waited.checked_div(elapsed) {
                Some(mean) if waited > 0 => u32::try_from(mean).unwrap_or(u32::MAX).max(1),
                _ => counts.in_flight,
            };
            let in_flight = Amount {
                operations: in_flight,
                kib: u64::from(in_flight).saturating_mul(kib.max(1)),
            };
            add(&mut entry.in_flight, in_flight);
            add(
                &mut entry.completed,
                Amount { operations: low(counts.operations), kib: counts.kib },
            );
        }
        for session in self.sessions.values_mut() {
            let at_disks = session.nsids.iter().filter_map(|nsid| backlog.get(nsid));
            session.in_flight = at_disks.fold(Done::default(), |sum, at| Done {
                bytes: sum.bytes.saturating_add(at.in_flight.kib.saturating_mul(1024)),
                operations: sum.operations.saturating_add(at.in_flight.operations.into()),
            });
            // The pool of a session counts at its first namespace.
            let Some(&nsid) = session.nsids.first() else { continue };
            let entry = backlog.entry(nsid).or_default();
            entry.nsid = nsid;
            if session.division.is_limiting() {
                add(&mut entry.waiting, Amount { operations: 1, kib: USUAL_KIB });
            }
            let Some(pool) = &session.pool else { continue };
            let (now, statistics) = (pool.backlog(), pool.statistics());
            let amount = |of: sluice_credits::Amount| Amount {
                operations: u32::try_from(of.operations).unwrap_or(u32::MAX),
                kib: of.payload,
            };
            add(&mut entry.in_flight, amount(now.held));
            add(&mut entry.waiting, amount(now.waiting));
            add(&mut entry.completed, Amount { operations: low(statistics.taken), kib: 0 });
        }
        backlog.into_values().collect()
    }

    /// Brings pools and control groups up to date with the target's page.
    fn apply(&mut self, page: &CreditPage, subsystem: &Subsystem, valid: Duration) {
        let mut rates: BTreeMap<String, [NodeRates; 3]> = BTreeMap::new();
        self.sessions.values_mut().for_each(|session| session.nsids.clear());
        for namespace in &page.namespaces {
            let name = &namespace.session;
            let session = self.sessions.entry(name.clone()).or_default();
            session.nsids.insert(namespace.nsid);
            if rates.insert(name.clone(), namespace.rates).is_some() {
                continue;
            }
            let allowance = Caps {
                operations: namespace.operations.unwrap_or(u32::MAX),
                payload: namespace.payload.unwrap_or(u64::MAX),
            };
            match &mut session.pool {
                Some(pool) => {
                    pool.set_allowance(allowance);
                    pool.extend(valid);
                    if let Err(error) = pool.reclaim() {
                        note(&error);
                    }
                }
                none => {
                    let path = pool_path(&self.shared.credits, &self.names, name);
                    match Segment::create(path, &cut(name), MODE, allowance, valid) {
                        Ok(pool) => *none = Some(pool),
                        Err(error) if !session.is_reported => {
                            session.is_reported = true;
                            note(&error);
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        self.sessions.retain(|_, session| !session.nsids.is_empty());
        let Some(groups) = &self.shared.groups else { return };
        let mut groups = lock(groups);
        let now = Nanos::default() + self.begin.elapsed();
        let number_of = |nsids: &BTreeSet<u32>| -> BTreeSet<String> {
            let disks = subsystem.disks.iter().filter(|disk| nsids.contains(&disk.nsid));
            disks.map(|disk| disk.number.clone()).collect()
        };
        let mut limits: BTreeMap<User, Limits> = BTreeMap::new();
        for (name, session) in &mut self.sessions {
            let rates = rates.get(name).copied().unwrap_or_default();
            let done = groups.done(&number_of(&session.nsids));
            limits.extend(session.division.divide(now, rates, session.in_flight, &done));
        }
        let disks = subsystem.disks.iter().map(|disk| disk.number.clone()).collect();
        if let Err(error) = groups.apply(&disks, &limits) {
            note(&format_args!("{error:#}"));
        }
    }
}

fn add(to: &mut Amount, more: Amount) {
    to.operations = to.operations.saturating_add(more.operations);
    to.kib = to.kib.saturating_add(more.kib);
}

/// Returns the low 32 bits of a count: the target computes with differences.
fn low(count: u64) -> u32 {
    u32::try_from(count & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Cuts a session's name to the length that a pool's name can have.
fn cut(name: &str) -> String {
    let name = if name.is_empty() { "-" } else { name };
    name.get(..name.floor_char_boundary(255)).unwrap_or(name).to_owned()
}
