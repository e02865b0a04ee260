//! The places of interfaces, drives, interrupts and reactors: NUMA nodes and CPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::device;
use crate::finding::Finding;
use crate::interface;
use crate::view::{Unreadable, View, join_names};

/// Folder of the NUMA nodes.
const NODES: &str = "sys/devices/system/node";

/// Devices by the node to which they are attached. Devices of an unknown node are left out.
fn group_by_node(view: &View, folder: &str, names: &[String]) -> BTreeMap<usize, BTreeSet<String>> {
    let mut nodes: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for name in names {
        // Without a node the file has -1, which is no `usize`.
        if let Some(node) = view.number(&format!("{folder}/{name}/device/numa_node")) {
            nodes.entry(node).or_default().insert(name.clone());
        }
    }
    nodes
}

/// Reads the CPUs of a running daemon's reactors.
fn read_reactors(view: &View) -> BTreeSet<usize> {
    let Some(id) = view.find_process("sluiced") else { return BTreeSet::new() };
    let tasks = view.list(&format!("proc/{id}/task")).into_iter();
    let cpus = tasks.filter_map(|task| {
        let at = format!("proc/{id}/task/{task}");
        view.text(&format!("{at}/comm")).filter(|name| name.starts_with("reactor-"))?;
        let status = view.text(&format!("{at}/status"))?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(sluice_config::parse_cpu_list(list))
    });
    cpus.flatten().collect()
}

/// Checks that interfaces, drives and reactors are on one NUMA node, and that the kernel moves no memory between nodes.
pub(crate) fn check_nodes(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "NUMA";
    let Some(online) = view.read(&format!("{NODES}/online"))? else { return Ok(Vec::new()) };
    let count = sluice_config::parse_cpu_list(&online).len();
    if count < 2 {
        return Ok(vec![Finding::good(subject, "one node")]);
    }
    let mut findings = Vec::new();
    if view.number::<u8>("proc/sys/kernel/numa_balancing").is_some_and(|on| on != 0) {
        findings.push(Finding::improvable(
            "NUMA balancing",
            "the kernel unmaps pages to find out which node uses them, which delays reactors",
            "sysctl -w kernel.numa_balancing=0",
        ));
    }
    let interfaces = group_by_node(view, "sys/class/net", &interface::list_interfaces(view));
    let drives = group_by_node(view, "sys/class/nvme", &device::list_drives(view));
    let home = join_names(interfaces.keys());
    let names = join_names(interfaces.values().flatten());
    let cpus = |node| view.cpu_list(&format!("{NODES}/node{node}/cpulist"));
    let near: BTreeSet<usize> = interfaces.keys().flat_map(cpus).collect();
    let far_reactors: Vec<usize> = read_reactors(view).difference(&near).copied().collect();
    let far_drives = drives.iter().filter(|(node, _)| !interfaces.contains_key(node));
    let far_drives: Vec<&String> = far_drives.flat_map(|(_, names)| names).collect();
    findings.push(if interfaces.is_empty() {
        Finding::unknown(subject, format!("{count} nodes; no interface in use names its node"))
    } else if !far_reactors.is_empty() {
        Finding::improvable(
            subject,
            format!(
                "reactors run on CPU {}, and {names} on node {home}: data crosses nodes",
                join_names(far_reactors)
            ),
            format!(
                "set cores in [target] to CPUs of node {home} (lscpu -e=CPU,NODE), then systemctl restart sluiced"
            ),
        )
    } else if !far_drives.is_empty() {
        Finding::improvable(
            subject,
            format!("{} are not on node {home} of {names}: data crosses nodes", join_names(far_drives)),
            format!("move the drives to slots of node {home}, or use an interface of their node"),
        )
    } else {
        Finding::good(subject, format!("{count} nodes; {names} and the drives are on node {home}"))
    });
    Ok(findings)
}

/// Checks that the interrupts of interfaces go to several CPUs, and not to CPUs of reactors by chance.
pub(crate) fn check_interrupts(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "interrupts";
    let online = view.online_cpus();
    if online.len() < 2 {
        return Ok(Vec::new());
    }
    let reactors = read_reactors(view);
    if view.find_process("irqbalance").is_some() {
        let settings = view.text("etc/default/irqbalance").unwrap_or_default();
        let banned = settings.lines().any(|line| line.trim().starts_with("IRQBALANCE_BANNED_CPU"));
        let is_good = banned || reactors.is_empty() || reactors.len() >= online.len();
        let list = reactors.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        return Ok(vec![match is_good {
            true => Finding::good(subject, "irqbalance distributes them"),
            false => Finding::improvable(
                subject,
                format!("irqbalance may move them to CPU {list}, which reactors use"),
                format!(
                    "echo IRQBALANCE_BANNED_CPULIST={list} >> /etc/default/irqbalance && systemctl restart irqbalance"
                ),
            ),
        }]);
    }
    let mut findings = Vec::new();
    for name in interface::list_interfaces(view) {
        let vectors = list_vectors(view, &name);
        let place = |vector| view.cpu_list(&format!("proc/irq/{vector}/effective_affinity_list"));
        let cpus: BTreeSet<usize> = vectors.iter().flat_map(place).collect();
        match cpus.len() {
            0 => {}
            1 if vectors.len() > 1 => findings.push(Finding::improvable(
                subject,
                format!("all {} of {name} go to CPU {}", vectors.len(), join_names(cpus)),
                "systemctl enable --now irqbalance",
            )),
            count => {
                findings.push(Finding::good(
                    subject,
                    format!("{count} CPUs receive the interrupts of {name}"),
                ));
            }
        }
    }
    Ok(findings)
}

/// Lists the interrupts of an interface. An interface of virtio has them one folder higher.
fn list_vectors(view: &View, interface: &str) -> Vec<String> {
    let device = format!("sys/class/net/{interface}/device");
    let mut places = [device.clone(), format!("{device}/..")].into_iter();
    let lists = places.find_map(|at| {
        let vectors = view.list(&format!("{at}/msi_irqs"));
        (!vectors.is_empty()).then_some(vectors)
    });
    lists.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Unknown};
    use crate::testing::Tree;

    /// Makes a machine of two nodes with four CPUs, an interface on node 0 and a drive on another.
    fn two_nodes(node_of_drive: &str) -> Tree {
        Tree::new(&[
            ("sys/devices/system/node/online", "0-1"),
            ("sys/devices/system/node/node0/cpulist", "0-1"),
            ("sys/devices/system/node/node1/cpulist", "2-3"),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/device/numa_node", "0"),
            ("sys/class/nvme/nvme0/transport", "pcie"),
            ("sys/class/nvme/nvme0/device/numa_node", node_of_drive),
        ])
    }

    fn with_reactor(tree: Tree, cpu: &str) -> Tree {
        tree.with("proc/9/comm", "sluiced")
            .with("proc/9/task/9/comm", "sluiced")
            .with("proc/9/task/9/status", "Cpus_allowed_list:\t0-3\n")
            .with("proc/9/task/10/comm", "reactor-0\n")
            .with("proc/9/task/10/status", &format!("Name:\tx\nCpus_allowed_list:\t{cpu}\n"))
    }

    #[test]
    fn drives_and_reactors_belong_on_node_of_interface() {
        let far_reactor = with_reactor(two_nodes("0"), "3");
        for (tree, verdict, found, remedy) in [
            (two_nodes("0"), Good, "eth0 and the drives are on node 0", ""),
            (two_nodes("1"), Improvable, "nvme0 are not on node 0", "slots of node 0"),
            (far_reactor, Improvable, "reactors run on CPU 3", "set cores in [target]"),
            (with_reactor(two_nodes("0"), "1"), Good, "2 nodes", ""),
        ] {
            tree.check(check_nodes).has(verdict, "NUMA", found, remedy);
        }
        let unknown = two_nodes("-1").with("sys/class/net/eth0/device/numa_node", "-1");
        let unknown = unknown.with("proc/sys/kernel/numa_balancing", "1");
        let findings = unknown.check(check_nodes);
        findings.has(Unknown, "NUMA", "names its node", "");
        findings.has(Improvable, "NUMA balancing", "unmaps pages", "kernel.numa_balancing=0");
    }

    #[test]
    fn interrupts_on_one_cpu_are_improvable() {
        let found = "2 CPUs receive the interrupts of eth0";
        Tree::whole().check(check_interrupts).has(Good, "interrupts", found, "");
        let tree = Tree::whole().with("proc/irq/41/effective_affinity_list", "0");
        let (found, remedy) = ("all 2 of eth0 go to CPU 0", "systemctl enable --now irqbalance");
        tree.check(check_interrupts).has(Improvable, "interrupts", found, remedy);
    }

    #[test]
    fn irqbalance_must_spare_reactors() {
        let tree = with_reactor(two_nodes("0"), "1").with("proc/8/comm", "irqbalance");
        let found = "to CPU 1, which reactors use";
        let remedy = "echo IRQBALANCE_BANNED_CPULIST=1 >>";
        tree.check(check_interrupts).has(Improvable, "interrupts", found, remedy);
        let tree = tree.with("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n");
        tree.check(check_interrupts).has(Good, "interrupts", "irqbalance", "");
    }
}
