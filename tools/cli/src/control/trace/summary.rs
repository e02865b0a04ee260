//! The time of traced commands by its parts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_config::answer::TracedCommand;

use crate::control::cells::time;
use crate::control::table::{Align, Room, Table};

/// The most of the slowest commands that are kept.
const KEPT: usize = 20;

/// The meanings of the parts, and whether they are waits that the target causes.
const PARTS: [(&str, bool, &str); 14] = [
    ("input", true, "received, but not read: a backlog was full, or other hosts had their turns"),
    ("r2t", true, "the network's stage delayed the request for the host's data"),
    ("memory", true, "waited for a share of the memory for data"),
    ("buffer", true, "waited for a free buffer"),
    ("data", false, "the host sent its data"),
    ("iops", true, "the limit on commands per second"),
    ("bandwidth", true, "the limit on bytes per second"),
    ("credits", true, "the operation or payload credits"),
    ("reservation", true, "the device was left to reservations of others"),
    ("order", true, "the device was left to commands of others by class, weight or turn"),
    ("window", true, "the device held as much as its window allows"),
    ("device", false, "the device executed the command"),
    ("reply", true, "the answer waited for its turn on the connection"),
    ("socket", false, "the answer was with the kernel or the RDMA device until it was sent"),
];

/// Returns whether a part belongs to a session.
pub(super) fn is_of_session(part: &str) -> bool {
    matches!(part, "iops" | "bandwidth" | "credits")
}

/// A part, and the session that it belongs to.
type Cause = (String, Option<String>);

/// The time of commands by its parts.
#[derive(Debug, Default)]
pub(super) struct Summary {
    commands: u64,
    lost: u64,
    skipped: u64,
    total_ns: u64,
    causes: BTreeMap<Cause, u64>,
    slowest: Vec<TracedCommand>,
}

impl Summary {
    /// Adds a command.
    pub(super) fn add(&mut self, command: TracedCommand) {
        self.commands += 1;
        self.total_ns = self.total_ns.saturating_add(command.total_ns);
        for (part, ns) in &command.parts_ns {
            let session = command.session.clone().filter(|_| is_of_session(part));
            let sum = self.causes.entry((part.clone(), session)).or_default();
            *sum = sum.saturating_add(*ns);
        }
        let at = self.slowest.partition_point(|other| other.total_ns >= command.total_ns);
        if at < KEPT {
            self.slowest.insert(at, command);
            self.slowest.truncate(KEPT);
        }
    }

    /// Counts commands that the trace does not have.
    pub(super) fn note_missing(&mut self, lost: u64, skipped: u64) {
        self.lost = self.lost.saturating_add(lost);
        self.skipped = self.skipped.saturating_add(skipped);
    }

    /// Returns the slowest commands, the slowest first.
    pub(super) fn slowest(&self) -> &[TracedCommand] {
        &self.slowest
    }

    /// Lists the causes, the longest first, each with its time and whether it is a wait.
    fn causes(&self) -> Vec<(&Cause, u64, bool)> {
        let is_wait = |part: &str| PARTS.iter().any(|(name, waits, _)| *name == part && *waits);
        let mut causes: Vec<_> =
            self.causes.iter().map(|(cause, ns)| (cause, *ns, is_wait(&cause.0))).collect();
        causes.sort_by_key(|(_, ns, _)| std::cmp::Reverse(*ns));
        causes
    }

    fn waited_ns(&self) -> u64 {
        let waits = self.causes().into_iter().filter(|(.., is_wait)| *is_wait);
        waits.fold(0, |sum, (_, ns, _)| sum.saturating_add(ns))
    }

    /// Writes the summary for people, of a trace of this time.
    pub(super) fn text(&self, of: Duration, room: Room) -> String {
        let missing = match (self.skipped, self.lost) {
            (0, 0) => String::new(),
            (skipped, lost) => {
                format!(" ({} more were not traced)", skipped.saturating_add(lost))
            }
        };
        let seconds = of.as_secs_f64();
        let Some(mean) = self.total_ns.checked_div(self.commands) else {
            return format!("No command in {seconds:.1} s{missing}.\n");
        };
        let waited = self.waited_ns();
        let mut table = Table::new(&[
            ("PART", Align::Left),
            ("SESSION", Align::Left),
            ("MEAN", Align::Right),
            ("OF TIME", Align::Right),
            ("OF WAIT", Align::Right),
            ("MEANING", Align::Left),
        ])
        .least(&["MEANING"]);
        for ((part, session), ns, is_wait) in self.causes() {
            let meaning = PARTS.iter().find(|(name, ..)| name == part);
            table.row(vec![
                part.clone(),
                session.clone().unwrap_or_default(),
                time(ns / self.commands.max(1)),
                percent(ns, self.total_ns),
                if is_wait { percent(ns, waited) } else { String::new() },
                meaning.map_or_else(String::new, |(.., words)| (*words).to_owned()),
            ]);
        }
        format!(
            "{} commands in {seconds:.1} s{missing}, {} each.\n{}\n{}",
            self.commands,
            time(mean),
            self.verdict(),
            table.text("", room)
        )
    }

    /// Names the longest wait in a line.
    fn verdict(&self) -> String {
        let (waited, causes) = (self.waited_ns(), self.causes());
        let Some(((part, session), ns, _)) = causes.into_iter().find(|(.., is_wait)| *is_wait)
        else {
            return "No command waited.\n".to_owned();
        };
        let of = session.as_ref().map_or_else(String::new, |name| format!(" of session {name}"));
        let cause = match part.as_str() {
            "iops" => format!("the limit on commands per second{of}"),
            "bandwidth" => format!("the limit on bandwidth{of}"),
            "credits" => format!("the credits{of}"),
            other => {
                let meaning = PARTS.iter().find(|(name, ..)| *name == other);
                meaning.map_or(other, |(.., words)| *words).to_owned()
            }
        };
        format!(
            "{} of the time is wait. {} of the wait: {cause}.\n",
            percent(waited, self.total_ns),
            percent(ns, waited)
        )
    }

    /// Returns the summary for programs.
    pub(super) fn json(&self) -> Value {
        let parts = self.causes().into_iter().map(|((part, session), ns, is_wait)| {
            json!({"part": part, "session": session, "ns": ns, "wait": is_wait})
        });
        json!({
            "commands": self.commands,
            "lost": self.lost,
            "skipped": self.skipped,
            "total_ns": self.total_ns,
            "waited_ns": self.waited_ns(),
            "parts": parts.collect::<Vec<_>>(),
            "slowest": self.slowest,
        })
    }
}

/// Writes a share in per cent.
fn percent(part: u64, whole: u64) -> String {
    let share = (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(whole.into());
    match share.unwrap_or(0) {
        0 if part > 0 => "<1 %".to_owned(),
        share => format!("{share} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(total_ns: u64, parts: &[(&str, u64)], session: Option<&str>) -> TracedCommand {
        TracedCommand {
            total_ns,
            parts_ns: parts.iter().map(|(part, ns)| ((*part).to_owned(), *ns)).collect(),
            session: session.map(str::to_owned),
            ..TracedCommand::default()
        }
    }

    fn summary() -> Summary {
        let mut summary = Summary::default();
        summary.add(command(
            10_000,
            &[("bandwidth", 6200), ("order", 1800), ("device", 2000)],
            Some("backup"),
        ));
        summary.add(command(2000, &[("order", 2000)], None));
        summary
    }

    #[test]
    fn longest_wait_is_named_with_its_share() {
        let text = summary().text(Duration::from_secs(2), Room::Unlimited);
        assert!(text.starts_with("2 commands in 2.0 s, 6.0 us each.\n"), "{text}");
        let verdict = "83 % of the time is wait. 62 % of the wait: the limit on bandwidth of session backup.\n";
        assert!(text.contains(verdict), "{text}");
        for (part, figures) in [
            ("bandwidth", "bandwidth backup 3.1 us 52 % 62 % the"),
            ("order", "order 1.9 us 32 % 38 % the"),
            ("device", "device 1.0 us 17 % the"),
        ] {
            let row = text.lines().find(|line| line.starts_with(part)).unwrap_or_default();
            let words: Vec<&str> = row.split_whitespace().collect();
            assert!(words.join(" ").starts_with(figures), "{text}");
        }
    }

    #[test]
    fn summary_counts_commands_that_were_not_traced() {
        let mut none = Summary::default();
        assert_eq!(none.text(Duration::from_secs(1), Room::Unlimited), "No command in 1.0 s.\n");
        none.note_missing(2, 5);
        let text = none.text(Duration::from_secs(1), Room::Unlimited);
        assert_eq!(text, "No command in 1.0 s (7 more were not traced).\n");
        none.add(command(5, &[("device", 5)], None));
        assert!(none.text(Duration::from_secs(1), Room::Unlimited).contains("No command waited."));
    }

    #[test]
    fn slowest_commands_are_kept_in_order() {
        let mut summary = Summary::default();
        (0..100).for_each(|n| summary.add(command(n * 37 % 101, &[], None)));
        let slowest: Vec<u64> = summary.slowest().iter().map(|command| command.total_ns).collect();
        assert_eq!((slowest.len(), slowest[0]), (KEPT, 100));
        assert!(slowest.is_sorted_by(|a, b| a >= b), "{slowest:?}");
    }

    #[test]
    fn programs_get_sums() {
        let json = summary().json();
        assert_eq!((&json["commands"], &json["waited_ns"]), (&json!(2), &json!(10_000)));
        let first = json!({"part": "bandwidth", "session": "backup", "ns": 6200, "wait": true});
        assert_eq!(json["parts"][0], first);
    }
}
