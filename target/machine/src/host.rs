//! The machine as a host: its name and identifier, ECN, multipath, and timeouts.

use qtcp::linux::Offer;
use sluice_config::program::HOSTNQN;
use uuid::Uuid;

use crate::controller::list_controllers;
use crate::finding::Finding;
use crate::view::{Unreadable, View};

/// The files of nvme-cli.
const NQN: &str = "etc/nvme/hostnqn";
const IDENTIFIER: &str = "etc/nvme/hostid";
/// Folder of the parameters of the kernel's NVMe host.
const PARAMETERS: &str = "sys/module/nvme_core/parameters";
/// The kernel's default timeout of a command in seconds.
const TIMEOUT: u32 = 30;
/// Seconds after which the target sends a waiting command back. The host's timeout must be longer.
const SENT_BACK: u32 = 10;
/// The kernel's default number of retries of a command.
const RETRIES: u32 = 5;
/// Makes a new name and a new identifier of this host.
const NEW_IDENTITY: &str = "u=$(uuidgen) && echo nqn.2014-08.org.nvmexpress:uuid:$u > /etc/nvme/hostnqn && \
                            echo $u > /etc/nvme/hostid  # then allow the new NQN on targets";
/// UUIDs that many machines have, and their origin.
const SHARED: [(&str, &str); 9] = [
    ("00000000-0000-0000-0000-000000000000", "no UUID"),
    ("ffffffff-ffff-ffff-ffff-ffffffffffff", "an unset UUID of firmware"),
    ("03000200-0400-0500-0006-000700080009", "a default UUID of firmware"),
    ("00020003-0004-0005-0006-000700080009", "a default UUID of firmware"),
    ("12345678-1234-5678-90ab-cddeefaabbcc", "a default UUID of firmware"),
    ("4c4c4544-0000-2010-8020-80c04f202020", "the UUID of firmware without a serial number"),
    ("fefefefe-fefe-fefe-fefe-fefefefefefe", "a default UUID of firmware"),
    ("1b4e28ba-2fa1-11d2-883f-0016d3cca427", "an example in documents"),
    ("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "the example in RFC 4122 and in documents"),
];

/// Returns the origin of a name or identifier that several machines share.
fn find_shared(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    if name == HOSTNQN {
        return Some("the name that sluice uses on machines without a name");
    }
    SHARED.iter().find(|(uuid, _)| name.ends_with(uuid)).map(|(_, origin)| *origin)
}

/// Checks a file that nvme-cli keeps; `fault` returns the fault of its text, as the end of a sentence.
fn check_identity(
    view: &View,
    (subject, path): (&str, &str),
    fault: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Finding>, Unreadable> {
    let Some(text) = view.read(path)? else {
        let found = format!(
            "there is no /{path}: the {subject} can differ after each boot, and targets then see another host"
        );
        return Ok(vec![match list_controllers(view).is_empty() {
            true => Finding::improvable(subject, found, NEW_IDENTITY),
            false => Finding::wrong(subject, found, NEW_IDENTITY),
        }]);
    };
    Ok(vec![if let Some(fault) = fault(&text) {
        Finding::wrong(subject, format!("/{path} {fault}"), NEW_IDENTITY)
    } else if let Some(origin) = find_shared(&text) {
        Finding::wrong(
            subject,
            format!("{text} is {origin}: targets take all hosts with it for one"),
            NEW_IDENTITY,
        )
    } else if is_of_image(view, path) {
        Finding::improvable(
            subject,
            format!(
                "/{path} is older than /etc/machine-id: if it is part of the machine's image, other machines have \
                 the same {subject}"
            ),
            NEW_IDENTITY,
        )
    } else {
        Finding::good(subject, text)
    }])
}

/// Returns whether a file is older than the machine's first boot, which makes the machine's identifier.
fn is_of_image(view: &View, path: &str) -> bool {
    let (file, boot) = (view.changed(path), view.changed("etc/machine-id"));
    file.zip(boot).is_some_and(|(file, boot)| file < boot)
}

/// Checks the name of this host.
pub(crate) fn check_nqn(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let fault = |nqn: &str| sluice_config::check_nqn(nqn).err().map(str::to_owned);
    check_identity(view, ("host NQN", NQN), fault)
}

/// Checks the identifier of this host.
pub(crate) fn check_identifier(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let fault = |id: &str| {
        (id.len() != 36 || Uuid::try_parse(id).is_err()).then(|| "holds no UUID".to_owned())
    };
    check_identity(view, ("host identifier", IDENTIFIER), fault)
}

/// Checks that connections of this host request ECN.
pub(crate) fn check_ecn(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "ECN";
    let offer = Offer::read(&view.path("proc/sys/net/ipv4"));
    let remedy = "sysctl -w net.ipv4.tcp_ecn=1";
    Ok(offer
        .ecn
        .map(|ecn| match ecn {
            1 | 3 | 4 => Finding::good(subject, format!("net.ipv4.tcp_ecn is {ecn}: it is requested")),
            0 => Finding::wrong(subject, "net.ipv4.tcp_ecn is 0: no connection has it", remedy),
            _ => Finding::improvable(
                subject,
                format!(
                    "net.ipv4.tcp_ecn is {ecn}: connections do not request it, and targets cannot keep shares of the \
                     network"
                ),
                remedy,
            ),
        })
        .into_iter()
        .collect())
}

/// Checks that several paths to a subsystem are one disk, and that all of them are used.
pub(crate) fn check_multipath(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "multipath";
    let mut findings = Vec::new();
    match view.read(&format!("{PARAMETERS}/multipath"))?.as_deref() {
        Some("Y") => findings.push(Finding::good(subject, "native multipath is on")),
        Some(_) => findings.push(Finding::improvable(
            subject,
            "native multipath is off: an outage of one path reaches applications",
            "echo options nvme_core multipath=Y > /etc/modprobe.d/nvme-multipath.conf  # then update the initramfs and reboot",
        )),
        None => {}
    }
    let fabrics = list_controllers(view);
    for name in view.list("sys/class/nvme-subsystem") {
        let at = format!("sys/class/nvme-subsystem/{name}");
        let paths = view.list(&at).into_iter().filter(|path| fabrics.contains(path)).count();
        let policy = view.text(&format!("{at}/iopolicy"));
        if paths > 1 && policy.as_deref() == Some("numa") {
            let remedy = format!("echo round-robin > /{at}/iopolicy");
            let found = format!("the I/O policy numa uses one of {paths} paths at a time");
            findings.push(Finding::improvable(name, found, remedy));
        }
    }
    Ok(findings)
}

/// Checks that the host waits longer for a command than the target, and sends commands again.
pub(crate) fn check_timeouts(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let mut findings = Vec::new();
    if let Some(seconds) = view.number::<u32>(&format!("{PARAMETERS}/io_timeout")) {
        let found = format!("nvme_core.io_timeout is {seconds} s");
        let remedy = format!("echo {TIMEOUT} > /{PARAMETERS}/io_timeout");
        findings.push(match seconds {
            0..=SENT_BACK => Finding::wrong(
                "timeout",
                format!("{found}: the target sends commands back that wait for {SENT_BACK} s, and the host resets first"),
                remedy,
            ),
            _ if seconds < TIMEOUT => Finding::improvable(
                "timeout",
                format!("{found}: short outages of devices cause resets"),
                remedy,
            ),
            _ => Finding::good("timeout", found),
        });
    }
    if let Some(retries) = view.number::<u32>(&format!("{PARAMETERS}/max_retries")) {
        let found = format!("nvme_core.max_retries is {retries}");
        findings.push(match retries < RETRIES {
            true => Finding::improvable(
                "retries",
                format!("{found}: applications see errors when a target delays commands by limits"),
                format!("echo {RETRIES} > /{PARAMETERS}/max_retries"),
            ),
            false => Finding::good("retries", found),
        });
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Wrong};
    use crate::testing::Tree;

    const OWN: &str = "nqn.2014-08.org.nvmexpress:uuid:73ebaa9e-c59a-43e0-9f85-5aefaae16817";
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn missing_name_is_wrong_with_connections() {
        let tree = Tree::new(&[]);
        tree.check(check_nqn).has(Improvable, "host NQN", "no /etc/nvme/hostnqn", "uuidgen");
        let tree = tree.with("sys/class/nvme/nvme3/transport", "tcp");
        tree.check(check_nqn).has(Wrong, "host NQN", "no /etc/nvme/hostnqn", "/etc/nvme/hostid");
    }

    #[test]
    fn invalid_and_shared_names_are_wrong() {
        let example = "nqn.2014-08.org.nvmexpress:uuid:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6";
        for (nqn, found) in [
            ("", "does not begin with"),
            ("nqn.2014-08.org.nvmexpress:uuid:73ebaa9e", "no whole UUID"),
            (example, "is the example in RFC 4122"),
            (HOSTNQN, "is the name that sluice uses"),
        ] {
            Tree::new(&[(NQN, nqn)]).check(check_nqn).has(Wrong, "host NQN", found, "uuidgen");
        }
        for (id, found) in [
            ("many", "/etc/nvme/hostid holds no UUID"),
            ("00000000-0000-0000-0000-000000000000", "is no UUID"),
            ("03000200-0400-0500-0006-000700080009", "a default UUID of firmware"),
        ] {
            let findings = Tree::new(&[(IDENTIFIER, id)]).check(check_identifier);
            findings.has(Wrong, "host identifier", found, "uuidgen");
        }
    }

    #[test]
    fn name_older_than_the_first_boot_may_be_cloned() {
        let tree = Tree::new(&[(NQN, OWN), ("etc/machine-id", "5b")]).aged("etc/machine-id", DAY);
        tree.check(check_nqn).has(Good, "host NQN", OWN, "");
        let findings = tree.aged(NQN, 2 * DAY).check(check_nqn);
        findings.has(Improvable, "host NQN", "other machines have the same", "uuidgen");
    }

    #[test]
    fn host_must_request_ecn() {
        let remedy = "sysctl -w net.ipv4.tcp_ecn=1";
        for (ecn, verdict, remedy) in [
            ("0", Wrong, remedy),
            ("1", Good, ""),
            ("2", Improvable, remedy),
            ("3", Good, ""),
            ("5", Improvable, remedy),
        ] {
            let tree = Tree::new(&[("proc/sys/net/ipv4/tcp_ecn", ecn)]);
            tree.check(check_ecn).has(verdict, "ECN", ecn, remedy);
        }
    }

    #[test]
    fn paths_are_used_alike() {
        let tree = Tree::new(&[
            ("sys/module/nvme_core/parameters/multipath", "N\n"),
            ("sys/class/nvme/nvme1/transport", "tcp"),
            ("sys/class/nvme/nvme2/transport", "rdma"),
            ("sys/class/nvme-subsystem/nvme-subsys1/nvme1/state", "live"),
            ("sys/class/nvme-subsystem/nvme-subsys1/nvme1c1n1/size", "8"),
            ("sys/class/nvme-subsystem/nvme-subsys1/iopolicy", "numa\n"),
        ]);
        let findings = tree.check(check_multipath);
        findings.has(Improvable, "multipath", "is off", "nvme_core multipath=Y");
        assert_eq!(findings.0.len(), 1, "one path");
        let tree = tree.with("sys/class/nvme-subsystem/nvme-subsys1/nvme2/state", "live");
        let remedy = "echo round-robin > /sys/class/nvme-subsystem/nvme-subsys1/iopolicy";
        tree.check(check_multipath).has(Improvable, "nvme-subsys1", "one of 2 paths", remedy);
    }

    #[test]
    fn host_waits_longer_than_the_target() {
        let (longer, more) = ("echo 30 > /sys/module", "echo 5 > /sys/module");
        for (file, subject, number, verdict, remedy) in [
            ("io_timeout", "timeout", "10", Wrong, longer),
            ("io_timeout", "timeout", "20", Improvable, longer),
            ("io_timeout", "timeout", "30", Good, ""),
            ("io_timeout", "timeout", "4294967295", Good, ""),
            ("max_retries", "retries", "0", Improvable, more),
            ("max_retries", "retries", "5", Good, ""),
        ] {
            let path = format!("sys/module/nvme_core/parameters/{file}");
            let findings = Tree::new(&[(&path, number)]).check(check_timeouts);
            findings.has(verdict, subject, number, remedy);
        }
    }
}
