//! Block devices and their I/O schedulers, NVMe drives, and PCIe links.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::view::{Unreadable, View, join_names};

/// Folder of the NVMe controllers.
const CONTROLLERS: &str = "sys/class/nvme";

/// Lists the NVMe controllers on PCIe.
pub(crate) fn list_drives(view: &View) -> Vec<String> {
    let mut names = view.list(CONTROLLERS);
    names.retain(|name| {
        view.text(&format!("{CONTROLLERS}/{name}/transport")).as_deref() == Some("pcie")
    });
    names
}

/// Checks that no I/O scheduler reorders commands before a device without heads.
pub(crate) fn check_schedulers(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let mut suitable: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut scheduled = Vec::new();
    for name in view.list("sys/block").into_iter().filter(|name| is_disk(view, name)) {
        let Some(text) = view.read(&format!("sys/block/{name}/queue/scheduler"))? else { continue };
        let Some(chosen) = text.split(['[', ']']).nth(1).map(str::to_owned) else { continue };
        let rotates = view.number(&format!("sys/block/{name}/queue/rotational")) == Some(1_u8);
        let is_nvme = name.starts_with("nvme");
        match &*chosen == "none" || rotates || (&*chosen == "mq-deadline" && !is_nvme) {
            true => suitable.entry(chosen).or_default().push(name),
            false => scheduled.push((name, chosen)),
        }
    }
    let mut findings: Vec<Finding> = scheduled
        .into_iter()
        .map(|(name, chosen)| {
            let remedy = format!("echo none > /sys/block/{name}/queue/scheduler");
            let found =
                format!("the I/O scheduler is {chosen}, which costs CPU time for each command");
            Finding::improvable(name, found, remedy)
        })
        .collect();
    let groups: Vec<String> = suitable
        .into_iter()
        .map(|(chosen, names)| format!("{chosen} on {}", join_names(names)))
        .collect();
    if !groups.is_empty() {
        findings.push(Finding::good("schedulers", groups.join("; ")));
    }
    Ok(findings)
}

/// Returns whether a block device is a disk of this machine and not made of others. A namespace of a multipath
/// subsystem has no folder of a device in some kernels.
fn is_disk(view: &View, name: &str) -> bool {
    name.starts_with("nvme") || view.has(&format!("sys/block/{name}/device"))
}

/// Checks that drives on PCIe answer, and that their links have full speed.
pub(crate) fn check_drives(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let (mut findings, mut good) = (Vec::new(), Vec::new());
    for name in list_drives(view) {
        let at = format!("{CONTROLLERS}/{name}");
        let state = view.read(&format!("{at}/state"))?.unwrap_or_else(|| "live".to_owned());
        if state != "live" {
            let found = format!("the drive is {state}");
            findings.push(Finding::wrong(&*name, found, format!("nvme reset /dev/{name}")));
        } else if let Some(found) = find_slow_link(view, &format!("{at}/device")) {
            let address = view.text(&format!("{at}/address")).unwrap_or_default();
            let remedy =
                format!("lspci -vv -s {address} | grep -E 'LnkCap|LnkSta'  # slot and cable");
            findings.push(Finding::improvable(&*name, found, remedy));
        } else {
            good.push(name);
        }
    }
    if !good.is_empty() {
        findings.push(Finding::good("drives", format!("{} are live", join_names(good))));
    }
    Ok(findings)
}

/// Compares the PCIe link of a device with the device's maximum. Returns the difference, if there is one.
pub(crate) fn find_slow_link(view: &View, device: &str) -> Option<String> {
    let text = |name: &str| view.text(&format!("{device}/{name}"));
    let speed = |name: &str| text(name)?.split_whitespace().next()?.parse::<f64>().ok();
    let lanes = |name: &str| text(name)?.parse::<u32>().ok();
    let (speed, fastest) = (speed("current_link_speed")?, speed("max_link_speed")?);
    let (width, widest) = (lanes("current_link_width")?, lanes("max_link_width")?);
    (speed < fastest || width < widest).then(|| {
        format!("its PCIe link runs at {speed} GT/s x{width}; the device supports {fastest} GT/s x{widest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Wrong};
    use crate::testing::Tree;

    #[test]
    fn scheduler_of_a_disk_without_heads_is_improvable() {
        let findings = Tree::new(&[
            ("sys/block/nvme0n1/queue/scheduler", "none [mq-deadline] kyber\n"),
            ("sys/block/nvme1n1/queue/scheduler", "[none] mq-deadline\n"),
            ("sys/block/loop0/queue/scheduler", "none [mq-deadline]\n"),
            ("sys/block/sda/queue/scheduler", "none [bfq]\n"),
            ("sys/block/sda/queue/rotational", "1\n"),
            ("sys/block/sda/device/model", "disk\n"),
            ("sys/block/sdb/queue/scheduler", "none [bfq]\n"),
            ("sys/block/sdb/queue/rotational", "0\n"),
            ("sys/block/sdb/device/model", "flash\n"),
        ])
        .check(check_schedulers);
        assert_eq!(findings.0.len(), 3);
        let remedy = "echo none > /sys/block/nvme0n1/queue/scheduler";
        findings.has(Improvable, "nvme0n1", "mq-deadline", remedy);
        findings.has(Improvable, "sdb", "bfq", "/sys/block/sdb/queue");
        findings.has(Good, "schedulers", "bfq on sda; none on nvme1n1", "");
    }

    #[test]
    fn dead_drive_is_wrong_and_slow_link_is_improvable() {
        let slow = "16 GT/s x2; the device supports 16 GT/s x4";
        for (file, text, verdict, found, remedy) in [
            ("state", "dead", Wrong, "dead", "nvme reset /dev/nvme0"),
            ("device/current_link_width", "2", Improvable, slow, "lspci -vv -s 0000:01:00.0"),
        ] {
            let tree = Tree::whole().with("sys/class/nvme/nvme2/transport", "pcie");
            let tree = tree.with(&format!("sys/class/nvme/nvme0/{file}"), text);
            let findings = tree.check(check_drives);
            findings.has(verdict, "nvme0", found, remedy).has(Good, "drives", "nvme2 are live", "");
            assert_eq!(findings.0.len(), 2, "nvme1 is no drive");
        }
    }
}
