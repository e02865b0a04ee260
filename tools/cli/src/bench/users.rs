//! Protects namespaces that other hosts use from loads that write.
//!
//! The target itself lists the controllers that see a namespace (Identify CNS 12h), over any network. The
//! names of their hosts, and hosts that have lost their connection and may come back, only the daemon's
//! control socket tells: it is asked where it is there, and only where its daemon is the target.

use std::path::Path;
use std::time::{Duration, Instant};

use fabric::host::commands;
use fabric::nvme::identify::{IDENTIFY_SIZE, cns};
use serde::de::DeserializeOwned;
use serde_json::json;
use sluice_config::Method;
use sluice_config::answer::{Connection, Hosts, LostHost};
use sluice_config::client::Connection as Socket;

use crate::host::access::Access;
use crate::host::controller::Controller;

/// The time within which controllers that were shut down just now, by a load before this one, are gone.
const GONE_WITHIN: Duration = Duration::from_secs(1);
/// The time between two looks for that.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest wait for the daemon at the control socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// The other users of a namespace.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// Controllers that see it.
    controllers: Vec<u16>,
    /// The NQNs of their hosts, each once; none where the daemon could not be asked.
    hosts: Vec<String>,
    /// Hosts that are not connected and may come back.
    lost: Vec<LostHost>,
}

/// Finds the other users of a namespace; `own` are the identifiers of the load's own controllers of the
/// subsystem, `socket` is where the daemon may be. Controllers that are about to end have a moment for it.
pub(super) fn others(
    controller: &mut Controller,
    (access, nsid): (&Access, u32),
    own: &[u16],
    socket: &Path,
) -> anyhow::Result<Users> {
    let begin = Instant::now();
    loop {
        let controllers = listed(controller, nsid)?.into_iter().filter(|id| !own.contains(id));
        let mut users = Users { controllers: controllers.collect(), ..Users::default() };
        if let Some(daemon) = Daemon::ask(access, own, socket) {
            daemon.complete(access, &mut users);
        }
        let settled = users.controllers.is_empty() || begin.elapsed() >= GONE_WITHIN;
        if settled {
            return Ok(users);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Asks a controller for the controllers that see a namespace; none where it does not tell.
fn listed(controller: &mut Controller, nsid: u32) -> anyhow::Result<Vec<u16>> {
    let command = commands::identify(cns::NAMESPACE_CONTROLLERS, nsid);
    let reply = controller.command(command, u32::try_from(IDENTIFY_SIZE)?)?;
    Ok(match reply.cqe.status().is_success() {
        true => controller_list(&reply.data),
        false => Vec::new(),
    })
}

/// Reads a controller list: a count, then identifiers.
fn controller_list(data: &[u8]) -> Vec<u16> {
    let (numbers, _) = data.as_chunks::<2>();
    let mut numbers = numbers.iter().map(|bytes| u16::from_le_bytes(*bytes));
    let count = usize::from(numbers.next().unwrap_or(0));
    numbers.take(count).collect()
}

impl Users {
    /// Says in words who they are; `None`: there are none.
    pub(super) fn words(&self) -> Option<String> {
        let count = |number: usize, noun: &str| match number {
            1 => format!("1 {noun}"),
            number => format!("{number} {noun}s"),
        };
        let connected = match (&self.hosts[..], self.controllers.len()) {
            ([], 0) => None,
            ([], number) => Some(count(number, "other controller")),
            (hosts, _) => Some(hosts.join(", ")),
        };
        let lost = self.lost.iter().map(|lost| {
            format!(
                "{}, which disconnected without a shutdown and can reconnect for {} s more",
                lost.host, lost.left_seconds
            )
        });
        let all: Vec<String> = connected.into_iter().chain(lost).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// What the daemon at the control socket says of its hosts.
struct Daemon {
    connections: Vec<Connection>,
    hosts: Vec<Hosts>,
}

impl Daemon {
    /// Asks the daemon; `None` where there is none, it may not be asked, or it is not the target, since it
    /// does not know the load's own controllers.
    fn ask(access: &Access, own: &[u16], socket: &Path) -> Option<Self> {
        let mut socket = Socket::open(socket, PATIENCE).ok()?;
        let daemon = Self {
            connections: call(&mut socket, Method::Connections)?,
            hosts: call(&mut socket, Method::HostList)?,
        };
        let is_own = |one: &Connection| {
            one.host.as_ref() == Some(&access.hostnqn)
                && one.controller.is_some_and(|id| own.contains(&id))
        };
        let is_target = daemon.of_subsystem(access).any(is_own);
        is_target.then_some(daemon)
    }

    fn of_subsystem(&self, access: &Access) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(|one| one.subsystem.as_ref() == Some(&access.nqn))
    }

    /// Adds the names of hosts, and those that are lost.
    fn complete(&self, access: &Access, users: &mut Users) {
        let seen = self.of_subsystem(access).filter(|one| {
            one.controller.is_some_and(|controller| users.controllers.contains(&controller))
        });
        let mut hosts: Vec<String> = seen.filter_map(|one| one.host.clone()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        users.hosts = hosts;
        let of = self.hosts.iter().filter(|row| row.subsystem == access.nqn);
        users.lost = of.flat_map(|row| row.lost.clone()).collect();
    }
}

fn call<T: DeserializeOwned>(socket: &mut Socket, method: Method) -> Option<T> {
    serde_json::from_value(socket.call(method, &json!({})).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_list_is_read_as_far_as_it_goes() {
        assert_eq!(controller_list(&[2, 0, 1, 0, 0, 1, 9, 9]), [1, 256]);
        assert_eq!(controller_list(&[9, 0, 1, 0, 7]), [1]);
        assert!(controller_list(&[]).is_empty() && controller_list(&[0, 0, 1, 0]).is_empty());
    }

    #[test]
    fn users_are_named_as_far_as_they_are_known() {
        let lost = LostHost { host: "nqn.l".into(), left_seconds: 560, ..LostHost::default() };
        let users = |controllers: &[u16], hosts: &[&str], lost: &[LostHost]| Users {
            controllers: controllers.to_vec(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            lost: lost.to_vec(),
        };
        let of_lost =
            "nqn.l, which disconnected without a shutdown and can reconnect for 560 s more";
        assert_eq!(users(&[], &[], &[]).words(), None);
        assert_eq!(users(&[3], &[], &[]).words().unwrap(), "1 other controller");
        assert_eq!(users(&[3, 4], &[], &[]).words().unwrap(), "2 other controllers");
        assert_eq!(users(&[], &[], std::slice::from_ref(&lost)).words().unwrap(), of_lost);
        let all = users(&[3, 4], &["nqn.a", "nqn.b"], &[lost]).words().unwrap();
        assert_eq!(all, format!("nqn.a, nqn.b; {of_lost}"));
    }
}
