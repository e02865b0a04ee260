//! Refusals of changes that would hurt hosts, with the hosts' names, unless the changes are forced.

use std::time::Duration;

use sluice_config::answer::LostHost;
use sluice_config::{RegionConfig, format_duration};

use super::Control;
use super::protocol::{ErrorKind, Failure};
use crate::serve::engine::{HurtHosts, Loss};
use crate::sys::words::list;

impl Control {
    /// Refuses a change by which hosts would lose something, unless it is forced.
    pub(super) fn unless_hurt(&self, force: bool, loss: &Loss<'_>) -> Result<(), Failure> {
        let hosts = if force { HurtHosts::default() } else { self.engine().hosts_hurt(loss) };
        if hosts.is_empty() {
            return Ok(());
        }
        Err(Failure::new(ErrorKind::Refused, refusal(loss, &hosts)))
    }
}

/// Describes the effect of a refused change, the affected hosts, and how to force the change.
pub(crate) fn refusal(loss: &Loss<'_>, hosts: &HurtHosts) -> String {
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
                    "it would shrink while they use it, and they could no longer reach data beyond \
                     its new end"
                }
                None => "they would lose it",
            };
            (format!("region {}", region.name), consequence)
        }
        Loss::Authentication(nqn) => {
            let consequence = "without a secret or a TLS key they could not connect again after the next \
                               interruption (sluice host key set)";
            (format!("subsystem {nqn}"), consequence)
        }
        Loss::Access { nqn, .. } => {
            let consequence =
                "they would lose its disks, some of them, or the right to write to them";
            (format!("subsystem {nqn}"), consequence)
        }
    };
    let (users, remedy) = match (&hosts.connected[..], &hosts.lost[..]) {
        (connected, []) => (names_connected(connected), "disconnect them first"),
        ([], lost) => (names_lost(lost), SHUT_DOWN),
        (connected, lost) => {
            (format!("{}; and by {}", names_connected(connected), names_lost(lost)), SHUT_DOWN)
        }
    };
    format!(
        "{what} is in use by {users}; {consequence}; {remedy}, or use --force (\"force\": true) to make \
         the change anyway"
    )
}

/// The way to end the use of lost hosts.
const SHUT_DOWN: &str =
    "disconnect them in order (`nvme disconnect` while they are connected), or wait";

fn names_connected(hosts: &[String]) -> String {
    let (number, noun) = (hosts.len(), if hosts.len() == 1 { "host" } else { "hosts" });
    format!("{number} connected {noun}: {}", list(hosts))
}

/// Names lost hosts: until when they may come back.
fn names_lost(hosts: &[LostHost]) -> String {
    let seconds = |seconds| match seconds {
        0 => "0 s".to_owned(),
        seconds => format_duration(Duration::from_secs(seconds)),
    };
    let name = |lost: &LostHost| match lost.host.as_str() {
        "" => "without a name".to_owned(),
        name => name.to_owned(),
    };
    let until = |lost: &LostHost| seconds(lost.lost_seconds.saturating_add(lost.left_seconds));
    if let [lost] = hosts {
        let (name, ago, until) = (name(lost), seconds(lost.lost_seconds), until(lost));
        return match lost.restored {
            false => format!(
                "host {name}: it disconnected {ago} ago without a shutdown and can reconnect until {until} \
                 after that"
            ),
            true => format!(
                "host {name}: it was connected before sluiced started {ago} ago, did not shut down, and \
                 can reconnect until {until} after the start"
            ),
        };
    }
    let each: Vec<String> = hosts
        .iter()
        .map(|lost| format!("{} (for {} more)", name(lost), seconds(lost.left_seconds)))
        .collect();
    let number = hosts.len();
    format!(
        "{number} hosts that disconnected without a shutdown and can reconnect: {}",
        list(&each)
    )
}
