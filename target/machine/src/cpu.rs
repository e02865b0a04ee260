//! CPU frequency and huge pages.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::view::{Unreadable, View, join_names};

/// Folder of the CPUs.
const CPUS: &str = "sys/devices/system/cpu";

/// Checks that CPUs run at full speed. Machines without frequency control, such as most virtual ones, have no finding.
pub(crate) fn check_governor(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for cpu in view.online_cpus() {
        let path = format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor");
        if let Some(governor) = view.read(&path)? {
            *governors.entry(governor).or_default() += 1;
        }
    }
    let found = join_names(governors.iter().map(|(name, count)| format!("{name} on {count} CPUs")));
    Ok(match governors.keys().all(|name| name == "performance") {
        _ if governors.is_empty() => Vec::new(),
        true => vec![Finding::good("governor", found)],
        false => vec![Finding::improvable(
            "governor",
            format!("{found}: CPUs need time to reach their full frequency"),
            format!("echo performance | tee /{CPUS}/cpu*/cpufreq/scaling_governor"),
        )],
    })
}

/// Checks that no memory is reserved as huge pages in vain, such as for an earlier target in user space.
pub(crate) fn check_huge_pages(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let Some(text) = view.read("proc/meminfo")? else { return Ok(Vec::new()) };
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (free, size) = (value("HugePages_Free:"), value("Hugepagesize:"));
    Ok(match (value("HugePages_Total:"), free, size) {
        (Some(0), ..) => {
            vec![Finding::good("huge pages", "none are reserved, and none are needed")]
        }
        (Some(_), Some(free), Some(kib)) if free > 0 => vec![Finding::improvable(
            "huge pages",
            format!(
                "{free} of {} are reserved and unused; sluiced uses none",
                sluice_config::format_size(kib.saturating_mul(1024))
            ),
            "sysctl -w vm.nr_hugepages=0",
        )],
        (Some(total), ..) => {
            vec![Finding::good(
                "huge pages",
                format!("{total} are reserved, and other programs use them"),
            )]
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable};
    use crate::testing::Tree;

    #[test]
    fn one_slow_governor_is_improvable() {
        let tree = Tree::whole().with("sys/devices/system/cpu/online", "0-2");
        tree.check(check_governor).has(Good, "governor", "performance on 2 CPUs", "");
        let tree = tree.with("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave");
        let found = "performance on 2 CPUs, powersave on 1 CPUs";
        let remedy = "echo performance | tee /sys/";
        tree.check(check_governor).has(Improvable, "governor", found, remedy);
    }

    #[test]
    fn unused_huge_pages_are_improvable() {
        for (total, free, verdict, found, remedy) in [
            (0, 0, Good, "none are reserved", ""),
            (512, 512, Improvable, "512 of 2 MiB", "vm.nr_hugepages=0"),
            (512, 0, Good, "other programs", ""),
        ] {
            let text = format!(
                "MemTotal: 16 kB\nHugePages_Total: {total}\nHugePages_Free: {free}\nHugepagesize: 2048 kB\n"
            );
            let tree = Tree::new(&[("proc/meminfo", &text)]);
            tree.check(check_huge_pages).has(verdict, "huge pages", found, remedy);
        }
    }
}
