//! The kernel's release, and its io_uring.

use crate::finding::Finding;
use crate::ring::Trial;
use crate::view::{Unreadable, View};

/// The first release with the features of io_uring that the daemon needs.
const OLDEST: (u32, u32) = (6, 1);
/// The group of the daemon's user.
const GROUP: &str = "sluicegate";

/// Checks the kernel's release. An older kernel with a usable io_uring is good, since distributions
/// backport features.
pub(crate) fn check_release(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "kernel";
    let release = view.require("proc/sys/kernel/osrelease")?;
    let found = format!("Linux {release}");
    let remedy = "install and boot Linux 6.1 or later";
    let older = || format!("{found} is older than 6.1, which sluiced needs");
    Ok(vec![match (parse_release(&release), &view.ring) {
        (None, _) => Finding::unknown(subject, format!("the release \"{release}\" has no number")),
        (Some(version), _) if version >= OLDEST => Finding::good(subject, found),
        (_, Some(Trial::Usable { .. })) => {
            Finding::good(subject, format!("{found}, with the io_uring of 6.1"))
        }
        (_, Some(Trial::Refused { .. })) => Finding::wrong(subject, older(), remedy),
        (_, None) => Finding::improvable(subject, older(), remedy),
    }])
}

/// Reads major and minor number of a release such as "6.12.48+deb13-amd64".
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Checks whether a ring could be set up, and whether the daemon's user may do so too.
pub(crate) fn check_ring(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "io_uring";
    let limited = view.number::<u8>("proc/sys/kernel/io_uring_disabled") == Some(1);
    let passthrough = match &view.ring {
        None => return Ok(Vec::new()),
        Some(Trial::Refused { why, remedy }) => {
            let remedy = remedy.unwrap_or("journalctl -u sluiced");
            return Ok(vec![Finding::wrong(subject, why, remedy)]);
        }
        Some(Trial::Usable { passthrough }) => *passthrough,
    };
    Ok(vec![if limited && !is_in_group(view) {
        Finding::improvable(
            subject,
            "kernel.io_uring_disabled is 1: a daemon without CAP_SYS_ADMIN cannot use it unless its group is \
             kernel.io_uring_group",
            format!("sysctl -w kernel.io_uring_group=$(getent group {GROUP} | cut -d: -f3)"),
        )
    } else if passthrough {
        Finding::good(subject, "usable, with NVMe passthrough")
    } else {
        Finding::improvable(
            subject,
            "usable, without NVMe passthrough: backend = \"nvme\" is not available",
            "use backend = \"block\" for NVMe drives",
        )
    }])
}

/// Returns whether the group that may use io_uring is the daemon's.
fn is_in_group(view: &View) -> bool {
    let allowed = view.text("proc/sys/kernel/io_uring_group");
    let groups = view.text("etc/group").unwrap_or_default();
    let daemons = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut ids = daemons.filter_map(|fields| match fields[..] {
        [GROUP, _, id, ..] => Some(id.to_owned()),
        _ => None,
    });
    ids.any(|id| allowed.as_ref() == Some(&id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Unknown, Wrong};
    use crate::testing::Tree;

    const USABLE: Trial = Trial::Usable { passthrough: true };

    #[test]
    fn old_kernel_is_wrong_unless_its_io_uring_suffices() {
        let refused = Trial::Refused { why: "no CLOSE".to_owned(), remedy: None };
        for (release, ring, verdict, remedy) in [
            ("6.1.0-40-amd64", None, Good, ""),
            ("7.0", Some(&refused), Good, ""),
            ("5.14.0-570.el9", Some(&USABLE), Good, ""),
            ("5.10.0", Some(&refused), Wrong, "6.1"),
            ("5.10.0", None, Improvable, "6.1"),
            ("next", None, Unknown, ""),
            ("6", None, Unknown, ""),
        ] {
            let tree = Tree::new(&[("proc/sys/kernel/osrelease", release)]);
            let findings = tree.with_ring(ring.cloned()).check(check_release);
            findings.has(verdict, "kernel", release, remedy);
        }
    }

    #[test]
    fn refused_ring_is_wrong_with_its_command() {
        let remedy = "sysctl -w kernel.io_uring_disabled=0";
        let ring = Trial::Refused { why: "switched off".to_owned(), remedy: Some(remedy) };
        let tree = Tree::new(&[]).with_ring(Some(ring));
        tree.check(check_ring).has(Wrong, "io_uring", "switched off", remedy);
        assert!(tree.with_ring(None).check(check_ring).0.is_empty());
    }

    #[test]
    fn ring_for_a_group_needs_daemons_group() {
        let tree = Tree::new(&[
            ("proc/sys/kernel/io_uring_disabled", "1"),
            ("proc/sys/kernel/io_uring_group", "-1"),
            ("etc/group", "root:x:0:\nsluicegate:x:997:admin\n"),
        ]);
        let remedy = "kernel.io_uring_group=";
        tree.check(check_ring).has(Improvable, "io_uring", "disabled is 1", remedy);
        let tree = tree.with("proc/sys/kernel/io_uring_group", "997");
        tree.check(check_ring).has(Good, "io_uring", "usable", "");
        let tree = tree.with_ring(Some(Trial::Usable { passthrough: false }));
        tree.check(check_ring).has(Improvable, "io_uring", "without NVMe", "\"block\"");
    }
}
