//! `sluice doctor`: examines this machine as a target, its network, and as a host, and prints a remedy for each fault.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use sluice_config::program::{print, print_line};
use sluice_machine::ring::Trial;
use sluice_machine::{Finding, Section, Verdict, View, is_host};

/// Exit status if a finding is wrong.
const WRONG: u8 = 1;

/// Arguments of `sluice doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check this section only
    #[arg(long, value_enum, value_name = "SECTION")]
    section: Option<Part>,
    /// Check the machine as a host, even if it has neither nvme-cli nor a connection to a target
    #[arg(long)]
    host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Kernel, limits, CPUs and devices
    Machine,
    /// TCP, interfaces and RDMA
    Network,
    /// The machine as a host of targets
    Host,
}

impl Args {
    /// Selects the sections to examine.
    fn sections(&self, view: &View) -> Vec<Section> {
        match self.section {
            Some(Part::Machine) => vec![Section::Machine],
            Some(Part::Network) => vec![Section::Network],
            Some(Part::Host) => vec![Section::Host],
            None => {
                let mut sections = Section::ALL.to_vec();
                sections.retain(|one| *one != Section::Host || self.host || is_host(view));
                sections
            }
        }
    }
}

/// Examines this machine. Returns the exit status, which is 1 if a finding is wrong.
///
/// # Errors
/// Standard output takes no text.
pub(crate) fn run(args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let view = View::new("/", Some(Trial::run()));
    let report = Report::new(&args.sections(&view), &view);
    match json {
        true => print_line(serde_json::to_string_pretty(&report)?)?,
        false => print(report.text())?,
    }
    Ok(match report.wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(WRONG),
    })
}

/// The findings with their numbers.
#[derive(Debug, Serialize)]
struct Report {
    wrong: usize,
    improvable: usize,
    good: usize,
    unknown: usize,
    findings: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    section: Section,
    #[serde(flatten)]
    finding: Finding,
}

impl Report {
    fn new(sections: &[Section], view: &View) -> Self {
        let rows = sections.iter().flat_map(|&section| {
            let findings = section.examine(view).into_iter();
            findings.map(move |finding| Row { section, finding })
        });
        let findings: Vec<Row> = rows.collect();
        let count = |verdict| findings.iter().filter(|row| row.finding.verdict == verdict).count();
        Self {
            wrong: count(Verdict::Wrong),
            improvable: count(Verdict::Improvable),
            good: count(Verdict::Good),
            unknown: count(Verdict::Unknown),
            findings,
        }
    }

    /// Writes a line for each finding, and below it the remedy in the same column.
    fn text(&self) -> String {
        let subjects = self.findings.iter().map(|row| row.finding.subject.chars().count());
        let verdict_width = Verdict::Improvable.word().len();
        let subject_width = subjects.max().unwrap_or(0);
        let mut text = String::new();
        let mut last = None;
        for Row { section, finding } in &self.findings {
            if last.replace(*section) != Some(*section) {
                let _ = writeln!(text, "{}", heading(*section));
            }
            let Finding { verdict, subject, found, remedy } = finding;
            let word = verdict.word();
            let _ = writeln!(text, "  {word:verdict_width$}  {subject:subject_width$}  {found}");
            if let Some(remedy) = remedy {
                let _ = writeln!(
                    text,
                    "  {:1$}    remedy: {remedy}",
                    "",
                    verdict_width + subject_width
                );
            }
        }
        let Self { wrong, improvable, good, unknown, .. } = self;
        let _ = write!(text, "{wrong} wrong, {improvable} improvable, {good} good");
        let _ = match unknown {
            0 => writeln!(text),
            _ => writeln!(text, ", {unknown} unknown"),
        };
        text
    }
}

/// Returns the heading of a section.
const fn heading(section: Section) -> &'static str {
    match section {
        Section::Machine => "Machine",
        Section::Network => "Network",
        Section::Host => "Host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, View) {
        let folder = testing::folder(files);
        let view = View::new(folder.path(), Some(Trial::Usable { passthrough: true }));
        (folder, view)
    }

    #[test]
    fn each_finding_has_a_line_and_its_remedy_below() {
        let (_folder, view) = machine(&[
            ("proc/sys/kernel/osrelease", "6.12.0"),
            ("proc/sys/net/ipv4/tcp_ecn", "0"),
            ("sys/class/nvme/nvme0/transport", "pcie"),
            ("sys/class/nvme/nvme0/state", "dead"),
        ]);
        let text = Report::new(&Section::ALL[..1], &view).text();
        let expected = "Machine\n\
            \x20 good        kernel    Linux 6.12.0\n\
            \x20 good        io_uring  usable, with NVMe passthrough\n\
            \x20 wrong       nvme0     the drive is dead\n\
            \x20                       remedy: nvme reset /dev/nvme0\n\
            1 wrong, 0 improvable, 2 good\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn json_names_section_and_verdict_of_each_finding() {
        let (_folder, view) = machine(&[("proc/sys/net/ipv4/tcp_ecn", "0")]);
        let report = Report::new(&[Section::Network], &view);
        let json = serde_json::to_value(&report).unwrap();
        let rows = json["findings"].as_array().unwrap();
        let ecn = rows.iter().find(|row| row["subject"] == "ECN").unwrap();
        assert_eq!((&ecn["section"], &ecn["verdict"]), (&"network".into(), &"wrong".into()));
        assert_eq!(ecn["remedy"], "sysctl -w net.ipv4.tcp_ecn=1");
        assert_eq!((&json["wrong"], &json["improvable"]), (&1.into(), &0.into()));
    }

    #[test]
    fn host_is_examined_if_present_or_requested() {
        let args = |section, host| Args { section, host };
        let (_folder, view) = machine(&[]);
        assert_eq!(args(None, false).sections(&view), [Section::Machine, Section::Network]);
        assert_eq!(args(None, true).sections(&view), Section::ALL);
        assert_eq!(args(Some(Part::Host), false).sections(&view), [Section::Host]);
        let (_folder, view) = machine(&[("etc/nvme/hostnqn", "nqn.2026-01.io.x:h")]);
        assert_eq!(args(None, false).sections(&view), Section::ALL);
        assert_eq!(args(Some(Part::Network), true).sections(&view), [Section::Network]);
    }
}
