//! Refusals of changes that would hurt connected hosts, with the hosts' names, unless the changes
//! are forced.

use super::Control;
use super::protocol::{ErrorKind, Failure};
use crate::config::RegionConfig;
use crate::engine::Loss;
use crate::words::list;

impl Control {
    /// Refuses a change by which connected hosts would lose something, unless it is forced.
    pub(super) fn unless_hurt(&self, force: bool, loss: &Loss<'_>) -> Result<(), Failure> {
        let hosts = if force { Vec::new() } else { self.engine().hosts_hurt(loss) };
        if hosts.is_empty() {
            return Ok(());
        }
        Err(Failure::new(ErrorKind::Refused, refusal(loss, &hosts)))
    }
}

/// Says what a refused change would do, to which hosts, and how to force the change.
pub(crate) fn refusal(loss: &Loss<'_>, hosts: &[String]) -> String {
    let (what, consequence) = match loss {
        Loss::Subsystem(nqn) => (format!("subsystem {nqn}"), "they would lose all its disks"),
        Loss::Namespace(nqn, nsid) => {
            (format!("namespace {nsid} of {nqn}"), "they would lose the disk")
        }
        Loss::Size(nqn, nsid, _) => {
            let consequence = "the disk would shrink while they use it, and data beyond its new \
                               end could not be read any more";
            (format!("namespace {nsid} of {nqn}"), consequence)
        }
        Loss::Listener(address) => {
            (format!("the listener on {address}"), "the controllers that came through it would end")
        }
        Loss::Region(region, to) => {
            let shrinks = |to: &&RegionConfig| region.is_same_memory(to) && region.size != to.size;
            let consequence = match to.filter(shrinks) {
                Some(_) => {
                    "it would shrink while they use it, and what is beyond its new end could not \
                     be reached any more"
                }
                None => "they would lose it",
            };
            (format!("region {}", region.name), consequence)
        }
        Loss::Access { nqn, .. } => {
            let consequence =
                "they would lose its disks, some of them, or the right to write to them";
            (format!("subsystem {nqn}"), consequence)
        }
    };
    let (number, noun) = (hosts.len(), if hosts.len() == 1 { "host" } else { "hosts" });
    format!(
        "{what} is in use by {number} connected {noun}: {}; {consequence}; disconnect them first, \
         or use --force (\"force\": true) to make the change anyway",
        list(hosts)
    )
}
