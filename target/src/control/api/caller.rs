//! The callers on the control socket, and their permissions.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, Group, Pid, geteuid};
use sluice_config::TargetConfig;

use super::ControlError;
use super::protocol::{ErrorKind, Failure};
use crate::sys::socket;

/// The groups that may use the control socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    /// The group of the socket, whose members may use it; `None`: the daemon's own.
    pub(super) users: Option<Gid>,
    /// The group whose members may change the target, and its name; `None`: all who may use the socket.
    admins: Option<(String, Gid)>,
}

impl Groups {
    /// Looks up the groups that the configuration names.
    ///
    /// # Errors
    /// This machine has no such group.
    pub(super) fn find(config: &TargetConfig) -> Result<Self, ControlError> {
        let users = config.control_group.as_deref().map(|name| find("control_group", name));
        let admins = config
            .control_admins
            .as_deref()
            .map(|name| find("control_admins", name).map(|group| (name.to_owned(), group)));
        Ok(Self { users: users.transpose()?, admins: admins.transpose()? })
    }
}

fn find(key: &'static str, name: &str) -> Result<Gid, ControlError> {
    let group = Group::from_name(name).map_err(|error| error.to_string());
    let why = match group {
        Ok(Some(group)) => return Ok(group.gid),
        Ok(None) => "this machine has no such group".to_owned(),
        Err(error) => error,
    };
    Err(ControlError::Group { key, name: name.to_owned(), why })
}

/// The process at the other end of a connection, as it was when it connected.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) pid: i32,
    /// The name of the group that it had to be a member of to change anything; `None`: it may.
    lacks: Option<String>,
}

impl Caller {
    /// Asks the kernel who is at the other end of a socket.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub(super) fn of(stream: &impl AsFd, groups: &Groups) -> io::Result<Self> {
        let peer = getsockopt(stream, sockopt::PeerCredentials)?;
        let (uid, pid) = (peer.uid(), peer.pid());
        let lacks = match &groups.admins {
            None => None,
            Some(_) if uid == 0 || uid == geteuid().as_raw() => None,
            Some((name, admins)) => {
                let admins = admins.as_raw();
                let is_one = peer.gid() == admins || socket::peer_groups(stream)?.contains(&admins);
                (!is_one).then(|| name.clone())
            }
        };
        Ok(Self { uid, pid, lacks })
    }

    /// Returns this process, which may do all.
    pub(super) fn own() -> Self {
        Self { uid: geteuid().as_raw(), pid: Pid::this().as_raw(), lacks: None }
    }

    /// Returns a caller that may only look.
    #[cfg(test)]
    pub(super) fn looker() -> Self {
        Self { uid: 1001, pid: 5, lacks: Some("storage".into()) }
    }

    /// Checks that the caller may change the target.
    ///
    /// # Errors
    /// The caller may not; the message lists the users that may.
    pub(super) fn may_change(&self) -> Result<(), Failure> {
        let Some(group) = &self.lacks else { return Ok(()) };
        let message = format!(
            "user {} may look, and change nothing: that may root, the daemon's own user, and the \
             members of the group {group} (`control_admins`); a group that was joined since counts \
             after the next login",
            self.uid
        );
        Err(Failure::new(ErrorKind::Denied, message))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use nix::unistd::{getegid, getgroups};

    use super::*;

    /// Looks at this process through a socket, where members of a group may change the target.
    fn seen(admins: Option<u32>) -> Caller {
        let (one, _other) = UnixStream::pair().unwrap();
        let admins = admins.map(|gid| ("admins".to_owned(), Gid::from_raw(gid)));
        Caller::of(&one, &Groups { users: None, admins }).unwrap()
    }

    #[test]
    fn the_kernel_says_who_calls() {
        let caller = seen(None);
        assert_eq!((caller.uid, caller.pid), (Caller::own().uid, Caller::own().pid));
        assert!(caller.may_change().is_ok());
        assert!(seen(Some(4_000_000_000)).may_change().is_ok(), "the daemon's own user");
    }

    #[test]
    fn all_groups_of_a_caller_are_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut known = socket::peer_groups(&one).unwrap();
        known.push(getegid().as_raw());
        for group in getgroups().unwrap() {
            assert!(known.contains(&group.as_raw()), "{group}: {known:?}");
        }
    }

    #[test]
    fn who_may_not_change_is_told_who_may() {
        let said = Caller::looker().may_change().unwrap_err();
        assert_eq!(said.kind, ErrorKind::Denied);
        for part in ["1001", "storage", "control_admins"] {
            assert!(said.message.contains(part), "{}", said.message);
        }
    }

    #[test]
    fn a_group_that_is_not_there_is_named_with_its_key() {
        let config = TargetConfig {
            control_admins: Some("no-such-group".into()),
            ..TargetConfig::default()
        };
        let said = Groups::find(&config).unwrap_err().to_string();
        assert!(said.contains("control_admins") && said.contains("no-such-group"), "{said}");
    }
}
