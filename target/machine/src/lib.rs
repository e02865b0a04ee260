//! Checks of a machine: as a target, its network, and as a host of targets. `sluice doctor` prints all of them,
//! `sluiced --check` the faults of the machine.
//!
//! A check is a function of a [`View`]: the file system below a root, and the result of setting up an io_uring. It
//! changes nothing. Files that do not exist are skipped, and files that cannot be read yield [`Verdict::Unknown`].
//!
//! [`ring`] sets up io_uring as the daemon's reactors do, so that the daemon and the checks require the same features.
#![forbid(unsafe_code)]

pub mod container;
mod controller;
mod cpu;
mod device;
mod finding;
mod host;
mod interface;
mod kernel;
pub mod limits;
mod network;
mod placement;
pub mod ring;
pub mod ring_error;
#[cfg(test)]
mod testing;
mod view;

use serde::Serialize;

pub use finding::{Finding, Verdict};
pub use view::View;

use view::Unreadable;

/// A group of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Kernel, limits, CPUs and devices of a target.
    Machine,
    /// TCP, network interfaces and RDMA.
    Network,
    /// The machine as a host that connects to targets.
    Host,
}

/// A check with the subject that is reported if a file cannot be read.
type Check = (&'static str, fn(&View) -> Result<Vec<Finding>, Unreadable>);

const MACHINE: &[Check] = &[
    ("kernel", kernel::check_release),
    ("io_uring", kernel::check_ring),
    ("limits", limits::check_limits),
    ("schedulers", device::check_schedulers),
    ("drives", device::check_drives),
    ("governor", cpu::check_governor),
    ("NUMA", placement::check_nodes),
    ("interrupts", placement::check_interrupts),
    ("huge pages", cpu::check_huge_pages),
];
const NETWORK: &[Check] = &[
    ("congestion control", network::check_congestion_control),
    ("ECN", network::check_ecn),
    ("interfaces", interface::check_interfaces),
    ("RDMA", network::check_rdma),
    ("kTLS", network::check_ktls),
];
const HOST: &[Check] = &[
    ("host NQN", host::check_nqn),
    ("host identifier", host::check_identifier),
    ("ECN", host::check_ecn),
    ("multipath", host::check_multipath),
    ("timeouts", host::check_timeouts),
    ("controllers", controller::check_identities),
    ("controllers", controller::check_controllers),
];

impl Section {
    /// All sections, in the order of a report.
    pub const ALL: [Self; 3] = [Self::Machine, Self::Network, Self::Host];

    /// Runs the checks of the section.
    #[must_use]
    pub fn examine(self, view: &View) -> Vec<Finding> {
        let checks = match self {
            Self::Machine => MACHINE,
            Self::Network => NETWORK,
            Self::Host => HOST,
        };
        let run = |(subject, check): &Check| {
            check(view).unwrap_or_else(|why| vec![Finding::unknown(*subject, why.to_string())])
        };
        checks.iter().flat_map(run).collect()
    }
}

/// Returns whether the machine can be a host: it has nvme-cli's folder, the kernel's NVMe over Fabrics, or a
/// controller of a target.
#[must_use]
pub fn is_host(view: &View) -> bool {
    ["etc/nvme", "sys/module/nvme_fabrics"].iter().any(|path| view.has(path))
        || !controller::list_controllers(view).is_empty()
}

/// Returns the faults of the section [`Section::Machine`], a sentence each.
#[must_use]
pub fn list_faults(view: &View) -> Vec<String> {
    let wrong = |finding: &Finding| finding.verdict == Verdict::Wrong;
    Section::Machine.examine(view).iter().filter(|one| wrong(one)).map(Finding::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::testing::{Findings, Tree};
    use super::*;

    #[test]
    fn empty_machine_has_no_faults() {
        let tree = Tree::new(&[]);
        for section in Section::ALL {
            let findings = section.examine(&tree.view());
            assert_eq!(findings.iter().find(|finding| finding.verdict == Verdict::Wrong), None);
        }
        assert!(!is_host(&tree.view()) && list_faults(&tree.view()).is_empty());
    }

    #[test]
    fn malformed_files_cause_no_panic() {
        let names = Tree::whole().paths();
        for text in ["", "\n", "-1", "99999999999999999999999", "\u{0}\u{ff}", "4294967295-0,x:-"] {
            let tree = Tree::new(&names.iter().map(|path| (&**path, text)).collect::<Vec<_>>());
            for section in Section::ALL {
                assert!(!section.examine(&tree.view()).is_empty(), "{section:?}, {text:?}");
            }
        }
        let tree = Tree::new(&[]);
        names.iter().for_each(|path| tree.make_folder(path));
        Section::ALL.iter().for_each(|section| drop(section.examine(&tree.view())));
    }

    #[test]
    fn unreadable_file_is_unknown_with_its_path() {
        let tree = Tree::new(&[]);
        tree.make_folder("proc/sys/kernel/osrelease");
        let findings = Section::Machine.examine(&tree.view());
        let found = "/proc/sys/kernel/osrelease: Is a directory";
        Findings(findings).has(Verdict::Unknown, "kernel", found, "");
    }

    #[test]
    fn well_configured_machine_is_good() {
        let tree = Tree::whole();
        for section in Section::ALL {
            for finding in section.examine(&tree.view()) {
                assert_eq!((finding.verdict, &finding.remedy), (Verdict::Good, &None), "{finding}");
            }
        }
        assert!(is_host(&tree.view()));
    }

    #[test]
    fn faults_name_subject_and_remedy() {
        let tree = Tree::whole().with("sys/class/nvme/nvme0/state", "dead");
        let faults = list_faults(&tree.view());
        assert_eq!(faults, ["nvme0: the drive is dead: `nvme reset /dev/nvme0`"]);
    }
}
