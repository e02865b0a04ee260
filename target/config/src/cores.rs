//! `cores = "auto"`: the CPUs of reactors, chosen by the machine's layout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The most reactors that are chosen. More are for an operator to name.
const CHOSEN_MAX: usize = 16;

/// The layout of a machine, as far as the choice of CPUs depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The CPUs that are online, and that this process may use.
    usable: BTreeSet<usize>,
    /// The CPUs of each NUMA node.
    nodes: BTreeMap<usize, BTreeSet<usize>>,
    /// The NUMA node of each network interface that is up and names one.
    interfaces: BTreeMap<String, usize>,
    /// The CPUs of each physical core, by each of these CPUs.
    siblings: BTreeMap<usize, BTreeSet<usize>>,
}

/// The CPUs that were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenCores {
    /// The CPU numbers in ascending order: at least one.
    pub cores: Vec<usize>,
    /// Why these, for people.
    pub reason: String,
}

/// Reads the kernel's form of a set of CPUs or NUMA nodes: "0-3,6". Malformed parts are left out.
#[must_use]
pub fn parse_cpu_list(list: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?.min(65_535))
    };
    list.split(',').filter_map(range).flatten().collect()
}

impl Layout {
    /// Reads the layout below `root`, which is `/` for this machine. `usable` has the CPUs that this process may use.
    pub(crate) fn read(root: &Path, usable: BTreeSet<usize>) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let names = |path: &str| {
            let entries = std::fs::read_dir(root.join(path)).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let node_numbers = parse_cpu_list(&text("sys/devices/system/node/online"));
        let cpus =
            |node| parse_cpu_list(&text(&format!("sys/devices/system/node/node{node}/cpulist")));
        let node_of = |name: String| {
            let of = |leaf: &str| text(&format!("sys/class/net/{name}/{leaf}"));
            let is_up = of("operstate").trim() == "up";
            // Without a node the file has -1.
            let node = of("device/numa_node").trim().parse().ok().filter(|_| is_up)?;
            Some((name, node))
        };
        let siblings = |cpu: &usize| {
            let list =
                text(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
            (*cpu, parse_cpu_list(&list))
        };
        Self {
            nodes: node_numbers.into_iter().map(|node| (node, cpus(node))).collect(),
            interfaces: names("sys/class/net").into_iter().filter_map(node_of).collect(),
            siblings: usable.iter().map(siblings).collect(),
            usable,
        }
    }

    /// Chooses CPUs: of the NUMA node that has the interfaces, one of each physical core; of these half, at least one and
    /// at most 16, the last ones, since the kernel does most of its own work on the first CPU.
    pub(crate) fn choose(&self) -> ChosenCores {
        let (cpus, place) = match self.home() {
            Some((node, names)) => {
                let cpus = self.nodes.get(&node).into_iter().flatten();
                let cpus = cpus.copied().filter(|cpu| self.usable.contains(cpu)).collect();
                (cpus, format!("NUMA node {node}, which has {names}"))
            }
            None => (self.usable.clone(), "this machine".to_owned()),
        };
        let is_first = |cpu: &usize| {
            let core = self.siblings.get(cpu).into_iter().flatten();
            core.filter(|sibling| cpus.contains(sibling)).min().is_none_or(|first| first == cpu)
        };
        let physical: Vec<usize> = cpus.iter().copied().filter(is_first).collect();
        let half = (physical.len() / 2).clamp(1, CHOSEN_MAX);
        let cores =
            physical.get(physical.len().saturating_sub(half)..).unwrap_or_default().to_vec();
        let reason = match (physical.len(), half) {
            (0 | 1, _) => format!("the only usable core of {place}"),
            (all, CHOSEN_MAX) if all > 2 * CHOSEN_MAX => {
                format!("{CHOSEN_MAX} of the {all} usable cores of {place}: no more are chosen")
            }
            (all, _) => format!("half of the {all} usable cores of {place}"),
        };
        let cores = if cores.is_empty() { vec![0] } else { cores };
        ChosenCores { cores, reason }
    }

    /// Returns the NUMA node with usable CPUs that has the most interfaces, and their names; `None` if there is one
    /// node, or no interface names its node, or several nodes have as many.
    fn home(&self) -> Option<(usize, String)> {
        if self.nodes.len() < 2 {
            return None;
        }
        let mut by_node: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (name, node) in &self.interfaces {
            by_node.entry(*node).or_default().push(name);
        }
        by_node.retain(|node, _| {
            self.nodes.get(node).is_some_and(|cpus| !cpus.is_disjoint(&self.usable))
        });
        let most = by_node.values().map(Vec::len).max()?;
        by_node.retain(|_, names| names.len() == most);
        let (node, names) = by_node.first_key_value().filter(|_| by_node.len() == 1)?;
        Some((*node, names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a machine of nodes with so many CPUs each, two threads to a core if `smt`: CPU n and n + half.
    fn layout(nodes: usize, cpus: usize, smt: bool) -> Layout {
        let all = nodes * cpus;
        let cores = if smt { all / 2 } else { all };
        let core = |cpu: usize| (0..all).filter(|other| other % cores == cpu % cores).collect();
        let of_node = |node| (0..all).filter(|cpu| cpu % cores * nodes / cores == node).collect();
        Layout {
            usable: (0..all).collect(),
            nodes: (0..nodes).map(|node| (node, of_node(node))).collect(),
            interfaces: BTreeMap::new(),
            siblings: (0..all).map(|cpu| (cpu, core(cpu))).collect(),
        }
    }

    fn with(layout: Layout, interfaces: &[(&str, usize)]) -> Layout {
        let interfaces = interfaces.iter().map(|(name, node)| ((*name).to_owned(), *node));
        Layout { interfaces: interfaces.collect(), ..layout }
    }

    fn chosen(layout: &Layout) -> (Vec<usize>, String) {
        let ChosenCores { cores, reason } = layout.choose();
        (cores, reason)
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(parse_cpu_list("7"), BTreeSet::from([7]));
        assert!(parse_cpu_list("").is_empty());
    }

    #[test]
    fn half_of_the_physical_cores_are_chosen() {
        for (layout, cores, reason) in [
            (layout(1, 1, false), vec![0], "the only usable core of this machine"),
            (layout(1, 2, false), vec![1], "half of the 2 usable cores of this machine"),
            (layout(1, 2, true), vec![0], "the only usable core of this machine"),
            (layout(1, 8, true), vec![2, 3], "half of the 4 usable cores of this machine"),
            (layout(1, 5, false), vec![3, 4], "half of the 5 usable cores of this machine"),
            (Layout::default(), vec![0], "the only usable core of this machine"),
        ] {
            assert_eq!(chosen(&layout), (cores, reason.to_owned()));
        }
        let (cores, reason) = chosen(&layout(1, 128, true));
        assert_eq!(cores, (48..64).collect::<Vec<_>>());
        assert_eq!(reason, "16 of the 64 usable cores of this machine: no more are chosen");
    }

    #[test]
    fn cores_are_of_the_node_that_has_the_interfaces() {
        let two = || layout(2, 8, true);
        let near = "half of the 4 usable cores of NUMA node 1, which has eth1";
        assert_eq!(chosen(&with(two(), &[("eth1", 1)])), (vec![6, 7], near.to_owned()));
        let most = with(two(), &[("a", 0), ("b", 0), ("c", 1)]);
        assert!(chosen(&most).1.ends_with("NUMA node 0, which has a, b"), "{:?}", chosen(&most));
        let anywhere = "half of the 8 usable cores of this machine";
        for interfaces in [&[][..], &[("a", 0), ("b", 1)], &[("a", 7)]] {
            let (cores, reason) = chosen(&with(two(), interfaces));
            assert_eq!((cores, reason.as_str()), (vec![4, 5, 6, 7], anywhere), "{interfaces:?}");
        }
    }

    #[test]
    fn only_usable_cpus_are_chosen() {
        let mut layout = with(layout(2, 8, true), &[("eth1", 1)]);
        layout.usable = BTreeSet::from([0, 1, 13, 14]);
        // The first threads of cores 5 and 6 are not usable.
        assert_eq!(chosen(&layout).0, [14]);
        layout.usable = BTreeSet::from([0, 1, 2]);
        assert_eq!(chosen(&layout).0, [2], "the node of the interface has no usable CPU");
    }

    #[test]
    fn layout_is_read_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/devices/system/node/online", "0-1\n");
        put("sys/devices/system/node/node0/cpulist", "0-1\n");
        put("sys/devices/system/node/node1/cpulist", "2-3\n");
        for (name, state, node) in [("up", "up", "1"), ("down", "down", "0"), ("virt", "up", "-1")]
        {
            put(&format!("sys/class/net/{name}/operstate"), &format!("{state}\n"));
            put(&format!("sys/class/net/{name}/device/numa_node"), &format!("{node}\n"));
        }
        put("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3\n");
        put("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3\n");
        let layout = Layout::read(root.path(), (0..4).collect());
        assert_eq!(layout.interfaces, BTreeMap::from([("up".to_owned(), 1)]));
        assert_eq!(layout.siblings[&3], BTreeSet::from([2, 3]));
        assert_eq!(chosen(&layout).0, [2]);
    }
}
