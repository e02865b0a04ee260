//! Network interfaces: MTU, receive queues and PCIe links.

use crate::device;
use crate::finding::Finding;
use crate::view::{Unreadable, View};

/// Folder of the interfaces.
const INTERFACES: &str = "sys/class/net";
/// The MTU of jumbo frames in bytes.
const JUMBO: u32 = 9000;
/// The rate in Mbit/s from which on packets of 1500 bytes cost a noticeable part of a CPU.
const FAST: u32 = 10_000;
/// Receive queues that a remedy requests at most.
const QUEUES_MAX: usize = 16;

/// Lists the interfaces with a device, physical or virtual, that are up.
pub(crate) fn list_interfaces(view: &View) -> Vec<String> {
    let mut names = view.list(INTERFACES);
    names.retain(|name| {
        let state = view.text(&format!("{INTERFACES}/{name}/operstate"));
        view.has(&format!("{INTERFACES}/{name}/device")) && state.as_deref() == Some("up")
    });
    names
}

/// Checks each interface that is up.
pub(crate) fn check_interfaces(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let names = list_interfaces(view);
    if names.is_empty() {
        let why = format!("no interface with a device is up in /{INTERFACES}");
        return Ok(vec![Finding::unknown("interfaces", why)]);
    }
    Ok(names.iter().flat_map(|name| check_interface(view, name)).collect())
}

fn check_interface(view: &View, name: &str) -> Vec<Finding> {
    let at = format!("{INTERFACES}/{name}");
    // Drivers of virtual devices report no speed, or -1.
    let speed = view.number::<u32>(&format!("{at}/speed"));
    let mtu = view.number::<u32>(&format!("{at}/mtu"));
    let mut findings = Vec::new();
    if let Some(found) = device::find_slow_link(view, &format!("{at}/device")) {
        let remedy = format!("ethtool -i {name} && lspci -vv | grep -E '^[0-9a-f]|LnkCap|LnkSta'");
        findings.push(Finding::improvable(name, found, remedy));
    }
    let is_fast = speed.is_some_and(|speed| speed >= FAST);
    let has_rdma = view.has(&format!("{at}/device/infiniband"));
    if let Some(mtu) = mtu.filter(|mtu| *mtu < JUMBO && (is_fast || has_rdma)) {
        findings.push(Finding::improvable(
            name,
            format!("its MTU is {mtu}: jumbo frames take fewer packets and less CPU time"),
            format!("ip link set dev {name} mtu {JUMBO}  # first on switches, and also on hosts"),
        ));
    }
    let queues = view.list(&format!("{at}/queues"));
    let queues: Vec<&String> = queues.iter().filter(|queue| queue.starts_with("rx-")).collect();
    let cpus = view.online_cpus().len();
    if let [queue] = queues[..]
        && cpus > 1
        && !is_steered(view, &format!("{at}/queues/{queue}"))
    {
        let mask = u32::MAX >> 32_usize.saturating_sub(cpus);
        findings.push(Finding::improvable(
            name,
            format!("one queue, and so one of {cpus} CPUs, receives its packets"),
            format!(
                "ethtool -L {name} combined {} || echo {mask:x} > /{at}/queues/{queue}/rps_cpus",
                cpus.min(QUEUES_MAX)
            ),
        ));
    }
    if findings.is_empty() {
        let speed = match speed {
            None => "unknown speed".to_owned(),
            Some(speed) if speed < 1000 => format!("{speed} Mbit/s"),
            Some(speed) => format!("{} Gbit/s", f64::from(speed) / 1000.0),
        };
        let mtu = mtu.map_or("unknown MTU".to_owned(), |mtu| format!("MTU {mtu}"));
        let queues = match queues.len() {
            1 => "1 receive queue".to_owned(),
            count => format!("{count} receive queues"),
        };
        findings.push(Finding::good(name, format!("{speed}, {mtu}, {queues}")));
    }
    findings
}

/// Returns whether the kernel distributes the packets of a receive queue to CPUs (RPS).
fn is_steered(view: &View, queue: &str) -> bool {
    let mask = view.text(&format!("{queue}/rps_cpus")).unwrap_or_default();
    mask.contains(|digit: char| digit.is_ascii_hexdigit() && digit != '0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Unknown};
    use crate::testing::Tree;

    fn interface(speed: &str, mtu: &str) -> Tree {
        Tree::new(&[
            ("sys/devices/system/cpu/online", "0-2"),
            ("sys/class/net/lo/operstate", "up"),
            ("sys/class/net/eth1/operstate", "down"),
            ("sys/class/net/eth1/device/vendor", "0x1"),
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/device/vendor", "0x1"),
            ("sys/class/net/eth0/speed", speed),
            ("sys/class/net/eth0/mtu", mtu),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "7"),
            ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0"),
        ])
    }

    #[test]
    fn small_packets_of_fast_interfaces_are_improvable() {
        let jumbo = "ip link set dev eth0 mtu 9000";
        for (speed, mtu, verdict, found, remedy) in [
            ("100000", "9000", Good, "100 Gbit/s, MTU 9000, 1 receive queue", ""),
            ("1000", "1500", Good, "1 Gbit/s, MTU 1500", ""),
            ("2500", "1500", Good, "2.5 Gbit/s", ""),
            ("-1", "1500", Good, "unknown speed", ""),
            ("25000", "1500", Improvable, "MTU is 1500", jumbo),
        ] {
            interface(speed, mtu).check(check_interfaces).has(verdict, "eth0", found, remedy);
        }
        let rdma =
            interface("1000", "1500").with("sys/class/net/eth0/device/infiniband/x/node", "");
        rdma.check(check_interfaces).has(Improvable, "eth0", "MTU", jumbo);
    }

    #[test]
    fn one_receive_queue_for_many_cpus_is_improvable() {
        let queue = "sys/class/net/eth0/queues/rx-0/rps_cpus";
        let tree = interface("1000", "1500").with(queue, "00,00000000");
        let remedy =
            "ethtool -L eth0 combined 3 || echo 7 > /sys/class/net/eth0/queues/rx-0/rps_cpus";
        tree.check(check_interfaces).has(Improvable, "eth0", "so one of 3 CPUs", remedy);
        let many = tree.with("sys/devices/system/cpu/online", "0-63");
        let remedy = "combined 16 || echo ffffffff >";
        many.check(check_interfaces).has(Improvable, "eth0", "64", remedy);
        let two = many.with("sys/class/net/eth0/queues/rx-1/rps_cpus", "0");
        two.check(check_interfaces).has(Good, "eth0", "2 receive queues", "");
    }

    #[test]
    fn machine_without_interface_is_unknown() {
        let down = interface("100", "1500").with("sys/class/net/eth0/operstate", "down");
        down.check(check_interfaces).has(Unknown, "interfaces", "is up", "");
    }
}
