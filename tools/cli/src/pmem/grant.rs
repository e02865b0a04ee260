//! A region that was granted to this host.

use std::convert::Infallible;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use fabric::host::{RegionError, region_granted};
use fabric::nvme::region::{GetRegion, REGION_GRANT_SIZE, RegionGrant, RegionRights, Survives};
use fabric::tcp::HostParams;
use sluice_config::failure::Failure;

use crate::host::access::Access;
use crate::host::connection::Reply;
use crate::host::controller::Controller;

/// The time between two looks whether a Keep Alive is due.
const LOOK: Duration = Duration::from_millis(500);

/// A region that was granted, with the association that the grant ends with.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) grant: RegionGrant,
    /// The association; `None` where another host has it.
    controller: Option<Controller>,
}

impl Granted {
    /// Connects to a target, and asks it for a region.
    ///
    /// # Errors
    ///
    /// The target cannot be reached, or does not grant the region.
    pub(crate) fn ask(
        access: &Access,
        params: HostParams,
        wanted: &GetRegion,
    ) -> anyhow::Result<Self> {
        let mut controller = Controller::connect(access.clone(), params, 0, false)?;
        let Reply { cqe, data } =
            controller.command(wanted.sqe(), u32::try_from(REGION_GRANT_SIZE)?)?;
        match region_granted(cqe.status(), cqe.result.get(), &data) {
            Ok(grant) => Ok(Self { grant, controller: Some(controller) }),
            Err(error) => Err(refusal(error, wanted, &access.hostnqn).into()),
        }
    }

    /// Reads a grant that another host has got.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or holds no grant.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let grant = RegionGrant::parse(&bytes).with_context(|| {
            format!(
                "{name} holds no grant: write it by the command that `sluice pmem command` prints"
            )
        })?;
        Ok(Self { grant, controller: None })
    }

    /// Uses the grant on a thread of its own, while the association is kept alive, and gives it back.
    ///
    /// # Errors
    ///
    /// The error of the work. If the association has ended first, its error is included.
    pub(crate) fn hold<T: Send>(
        self,
        work: impl FnOnce(&RegionGrant) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let Self { grant, controller } = self;
        let Some(mut controller) = controller else { return work(&grant) };
        let (done, kept) = thread::scope(|scope| {
            let (under_way, over) = mpsc::channel::<Infallible>();
            let grant = &grant;
            let worker = scope.spawn(move || {
                let _under_way = under_way;
                work(grant)
            });
            let kept = loop {
                match over.recv_timeout(LOOK) {
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(error) = controller.keep_alive() {
                            break Err(error);
                        }
                    }
                    Ok(_) | Err(RecvTimeoutError::Disconnected) => break Ok(()),
                }
            };
            let done = worker.join().unwrap_or_else(|_| Err(anyhow!("the thread has panicked")));
            (done, kept)
        });
        match (done, kept) {
            (Ok(done), Ok(())) => {
                // The target sees the end of the connection too, and the work is done.
                let _ = controller.shutdown();
                Ok(done)
            }
            (Ok(done), Err(_)) => Ok(done),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(ended)) => Err(error.context(format!(
                "the association that the grant belongs to has ended: {ended:#}"
            ))),
        }
    }
}

/// Makes the error of a region that was not granted, with the remedy.
fn refusal(error: RegionError, wanted: &GetRegion, host: &str) -> Failure {
    let GetRegion { name, rights, reservation } = wanted;
    let more = match error {
        RegionError::NotGranted => {
            let rights = match rights {
                RegionRights::Read => "",
                RegionRights::ReadWrite => "; --rights read asks for less",
            };
            format!(" (this host is {host}{rights})")
        }
        RegionError::Reservation { fits: 0 } => {
            format!(": {reservation} were asked for; leave --reserve out")
        }
        RegionError::Reservation { fits } => {
            format!(": {reservation} were asked for; give --reserve {fits} or less")
        }
        _ => String::new(),
    };
    Failure::new("refused", format!("region {name}: {error}{more}"))
}

/// Names the event that the data of a region survives.
pub(crate) fn survives(survives: Survives) -> &'static str {
    match survives {
        Survives::Nothing => "nothing",
        Survives::Exit => "the end of the daemon",
        Survives::PowerCut => "a power cut",
    }
}

pub(crate) fn rights(rights: RegionRights) -> &'static str {
    match rights {
        RegionRights::Read => "read",
        RegionRights::ReadWrite => "read-write",
    }
}

#[cfg(test)]
mod tests {
    use fabric::nvme::region::RegionName;

    use super::*;

    #[test]
    fn a_refusal_says_what_to_try() {
        let name = RegionName::from_text("log").unwrap();
        let read = GetRegion { name, rights: RegionRights::Read, reservation: 5000 };
        let write = GetRegion { rights: RegionRights::ReadWrite, ..read };
        for (error, wanted, end) in [
            (RegionError::NotGranted, read, "(this host is nqn.host)"),
            (
                RegionError::NotGranted,
                write,
                "(this host is nqn.host; --rights read asks for less)",
            ),
            (RegionError::Reservation { fits: 0 }, read, "leave --reserve out"),
            (
                RegionError::Reservation { fits: 1200 },
                read,
                "5000 were asked for; give --reserve 1200 or less",
            ),
            (RegionError::NoRoom, read, "try again later"),
        ] {
            let Failure { kind, message } = refusal(error, &wanted, "nqn.host");
            assert_eq!(kind, "refused");
            assert!(message.starts_with("region log: ") && message.ends_with(end), "{message}");
        }
    }

    #[test]
    fn a_grant_is_read_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.grant");
        let grant = RegionGrant {
            rights: RegionRights::Read,
            address: "10.0.0.1:4430".parse().unwrap(),
            secret: 7,
            length: 4096,
            reservation: 0,
            limit: 0,
            survives: Survives::Exit,
        };
        std::fs::write(&path, grant.emit()).unwrap();
        let granted = Granted::read(&path).unwrap();
        assert_eq!(granted.grant, grant);
        assert_eq!(granted.hold(|grant| Ok(grant.length)).unwrap(), 4096);
        std::fs::write(&path, "NVMe command result:00000000\n").unwrap();
        let text = format!("{:#}", Granted::read(&path).unwrap_err());
        assert!(text.contains("log.grant holds no grant: write it by"), "{text}");
        let text = format!("{:#}", Granted::read(&folder.path().join("no")).unwrap_err());
        assert!(text.contains("cannot read"), "{text}");
    }
}
