//! Controllers of targets to which this machine is connected.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::view::{Unreadable, View};

/// Folder of the NVMe controllers.
const CONTROLLERS: &str = "sys/class/nvme";
/// Transports of NVMe over Fabrics.
const TRANSPORTS: [&str; 4] = ["tcp", "rdma", "fc", "loop"];
/// Default of `ctrl_loss_tmo` in seconds: a restart of the target takes less.
const LOSS: i64 = 600;
/// Seconds of `ctrl_loss_tmo` within which a target may not even drain and restart.
const LOSS_MIN: i64 = 30;
/// Default of `reconnect_delay` in seconds.
const DELAY: u32 = 10;
/// CPUs that can share an I/O queue without much waiting.
const CPUS_PER_QUEUE: usize = 4;

/// Lists the controllers of targets.
pub(crate) fn list_controllers(view: &View) -> Vec<String> {
    let mut names = view.list(CONTROLLERS);
    names.retain(|name| {
        let transport = view.text(&format!("{CONTROLLERS}/{name}/transport"));
        transport.is_some_and(|transport| TRANSPORTS.contains(&&*transport))
    });
    names
}

/// Checks that one host NQN and one host identifier belong together. Targets take two identifiers for two hosts.
pub(crate) fn check_identities(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let mut pairs = BTreeSet::new();
    for name in list_controllers(view) {
        let at = format!("{CONTROLLERS}/{name}");
        let text = |file: &str| view.text(&format!("{at}/{file}"));
        pairs.extend(text("hostnqn").zip(text("hostid")));
    }
    let shared = |(nqn, id): &&(String, String)| {
        pairs.iter().any(|(other_nqn, other_id)| (nqn == other_nqn) != (id == other_id))
    };
    let shared: Vec<String> =
        pairs.iter().filter(shared).map(|(nqn, id)| format!("{nqn} with {id}")).collect();
    Ok(match shared.is_empty() {
        true => Vec::new(),
        false => vec![Finding::wrong(
            "host identity",
            format!(
                "controllers pair NQNs and identifiers in different ways: {}",
                shared.join(", ")
            ),
            "nvme list-subsys  # disconnect the odd one, and connect it with the files of /etc/nvme",
        )],
    })
}

/// A controller and its files.
struct Controller<'a> {
    view: &'a View,
    name: &'a str,
}

impl Controller<'_> {
    fn text(&self, file: &str) -> Option<String> {
        self.view.text(&format!("{CONTROLLERS}/{}/{file}", self.name))
    }

    /// Returns a part of the address, such as `traddr`.
    fn address(&self, part: &str) -> Option<String> {
        let address = self.text("address")?;
        let mut parts = address.split(',').filter_map(|one| one.trim().split_once('='));
        parts.find(|(key, _)| *key == part).map(|(_, value)| value.to_owned())
    }

    /// Makes the command that sets a number of the controller.
    fn command(&self, value: impl std::fmt::Display, file: &str) -> String {
        format!("echo {value} > /{CONTROLLERS}/{}/{file}", self.name)
    }

    /// Makes the command that connects the controller again with a queue for each CPU.
    fn connect(&self, queues: usize) -> String {
        let or_word = |value: Option<String>, word: &str| value.unwrap_or_else(|| word.to_owned());
        format!(
            "nvme connect -t {} -a {} -s {} -n {} -i {queues}  # first unmount its disks, and nvme disconnect -d {}",
            or_word(self.text("transport"), "tcp"),
            or_word(self.address("traddr"), "ADDRESS"),
            or_word(self.address("trsvcid"), "4420"),
            or_word(self.text("subsysnqn"), "NQN"),
            self.name,
        )
    }

    fn check(&self) -> Vec<Finding> {
        let name = self.name;
        let state = self.text("state").unwrap_or_else(|| "in an unknown state".to_owned());
        let mut findings = Vec::new();
        if matches!(&*state, "connecting" | "resetting" | "dead") {
            let found = format!("it is {state}: the host has lost its target");
            findings.push(Finding::wrong(name, found, format!("journalctl -k -g {name}")));
        }
        // A controller that tries for ever has "off".
        let loss = self.text("ctrl_loss_tmo");
        let loss_seconds = loss.as_ref().and_then(|text| text.parse::<i64>().ok());
        if let Some(seconds) = loss_seconds.filter(|seconds| (0..LOSS).contains(seconds)) {
            let found = format!("the host gives its disks up after {seconds} s without the target");
            let remedy = self.command(LOSS, "ctrl_loss_tmo");
            findings.push(match seconds < LOSS_MIN {
                true => Finding::wrong(name, found, remedy),
                false => Finding::improvable(name, found, remedy),
            });
        }
        let delay = self.text("reconnect_delay").and_then(|text| text.parse::<u32>().ok());
        if let Some(seconds) = delay.filter(|seconds| *seconds > DELAY) {
            let found = format!("the host waits {seconds} s before each attempt to reconnect");
            findings.push(Finding::improvable(name, found, self.command(DELAY, "reconnect_delay")));
        }
        // The admin queue counts, too.
        let queues = self.text("queue_count").and_then(|text| text.parse::<usize>().ok());
        let queues = queues.map(|count| count.saturating_sub(1));
        let cpus = self.view.online_cpus().len();
        let is_discovery = self.text("cntrltype").as_deref() == Some("discovery");
        if let Some(count) = queues.filter(|count| {
            !is_discovery
                && (count.saturating_mul(CPUS_PER_QUEUE) < cpus || (*count < 2 && cpus > 1))
        }) {
            let found = format!("{cpus} CPUs share its I/O queues, {count} in number");
            findings.push(Finding::improvable(name, found, self.connect(cpus)));
        }
        if findings.is_empty() {
            let loss = match loss.as_deref() {
                None => String::new(),
                Some("off") => ", no limit to reconnects".to_owned(),
                Some(seconds) => format!(", reconnects for {seconds} s"),
            };
            let queues = queues.map_or(String::new(), |count| format!(", {count} I/O queues"));
            let place = self.address("traddr").map_or(String::new(), |at| format!(", target {at}"));
            findings.push(Finding::good(name, format!("{state}{place}{queues}{loss}")));
        }
        findings
    }
}

/// Checks each controller.
pub(crate) fn check_controllers(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let names = list_controllers(view);
    Ok(names.iter().flat_map(|name| Controller { view, name }.check()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Wrong};
    use crate::testing::Tree;

    /// Makes a machine with eight CPUs and these files of a controller.
    fn controller(files: &[(&str, &str)]) -> Tree {
        let tree = Tree::whole().with("sys/devices/system/cpu/online", "0-7");
        let write = |tree: Tree, (file, text): &(&str, &str)| {
            tree.with(&format!("sys/class/nvme/nvme1/{file}"), text)
        };
        files.iter().fold(tree, write)
    }

    #[test]
    fn faults_of_a_controller_have_their_remedies() {
        let good = "live, target 192.0.2.1, 2 I/O queues, reconnects for 600 s";
        let log = "journalctl -k -g nvme1";
        let longer = "echo 600 > /sys/class/nvme/nvme1/ctrl_loss_tmo";
        let sooner = "echo 10 > /sys/class/nvme/nvme1/reconnect_delay";
        let connect = "nvme connect -t tcp -a 192.0.2.1 -s 4421 -n nqn.2026-01.io.x:a -i 8";
        for (file, text, verdict, found, remedy) in [
            ("state", "live\n", Good, good, ""),
            ("state", "connecting", Wrong, "connecting", log),
            ("state", "resetting", Wrong, "resetting", log),
            ("state", "dead", Wrong, "dead", log),
            ("ctrl_loss_tmo", "off", Good, "no limit", ""),
            ("ctrl_loss_tmo", "0", Wrong, "after 0 s", longer),
            ("ctrl_loss_tmo", "60", Improvable, "after 60 s", longer),
            ("reconnect_delay", "30", Improvable, "30 s", sooner),
            ("queue_count", "2", Improvable, "8 CPUs share", connect),
        ] {
            let findings = controller(&[(file, text)]).check(check_controllers);
            assert_eq!(findings.has(verdict, "nvme1", found, remedy).0.len(), 1, "{file} {text}");
        }
        let discovery = controller(&[("queue_count", "1"), ("cntrltype", "discovery")]);
        discovery.check(check_controllers).has(Good, "nvme1", "live", "");
    }

    #[test]
    fn one_identifier_has_one_name() {
        for (nqn, id, is_shared) in [
            ("nqn.2026-01.io.x:h", "id-2", true),
            ("nqn.2026-01.io.x:g", "id-1", true),
            ("nqn.2026-01.io.x:h", "id-1", false),
            ("nqn.2026-01.io.x:g", "id-2", false),
        ] {
            let tree = controller(&[("hostnqn", "nqn.2026-01.io.x:h"), ("hostid", "id-1")])
                .with("sys/class/nvme/nvme2/transport", "tcp")
                .with("sys/class/nvme/nvme2/hostnqn", nqn)
                .with("sys/class/nvme/nvme2/hostid", id);
            let findings = tree.check(check_identities);
            assert_eq!(findings.0.len(), usize::from(is_shared), "{nqn} {id}");
            if is_shared {
                findings.has(Wrong, "host identity", id, "nvme list-subsys");
            }
        }
    }
}
