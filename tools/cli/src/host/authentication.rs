//! How the host proves itself: its secrets, and the exchange on a connection that carries no other
//! command.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use fabric::dhchap::{RANDOM_BYTES, Random, Secret, Work, WorkResult};
use fabric::host::authentication::{AuthError, Authentication, Credentials, MESSAGE_ROOM, Next};
use fabric::host::commands;
use fabric::key_file::mask_keys;
use zeroize::Zeroizing;

use super::connection::Connection;

/// Largest file of a secret in bytes.
const FILE_MAX: u64 = 4096;

/// Refuses a secret or TLS key that was given in place of its file, without repeating it.
///
/// # Errors
/// It is a secret or a TLS key.
pub(crate) fn must_name_file(file: &Path) -> anyhow::Result<()> {
    let given = file.to_string_lossy();
    ensure!(
        mask_keys(&given) == given,
        "a key was given in place of the file that has it: other users see arguments; write the key \
         to a file that only this user can read, and name that file"
    );
    Ok(())
}

pub(crate) fn secret(file: &Path) -> anyhow::Result<Secret> {
    must_name_file(file)?;
    let name = file.display();
    let mut text = Zeroizing::new(String::new());
    let open = std::fs::File::open(file).with_context(|| format!("cannot open {name}"))?;
    let read = open.take(FILE_MAX).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {name}"))?;
    text.parse().with_context(|| format!("{name} has no secret"))
}

/// Reads the secrets of a host, and of the target that it connects to.
pub(crate) fn credentials(
    own: Option<&Path>,
    controller: Option<&Path>,
) -> anyhow::Result<Option<Arc<Credentials>>> {
    let Some(own) = own else { return Ok(None) };
    let controller = controller.map(secret).transpose()?;
    Ok(Some(Arc::new(Credentials::new(secret(own)?, controller))))
}

/// Returns random bytes of the kernel.
pub(crate) fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("the kernel gives no random bytes")?;
    Ok(bytes)
}

/// Carries out a piece of work.
pub(crate) fn carry_out(work: Work) -> anyhow::Result<WorkResult> {
    Ok(work.run(&Random::new(random::<RANDOM_BYTES>()?)))
}

/// Proves the host on a queue that demands it. Returns how it ended.
///
/// # Errors
/// The connection fails, or a command does.
pub(crate) fn authenticate(
    connection: &mut Connection,
    (mut host, first): (Authentication, Vec<u8>),
) -> anyhow::Result<Result<(), AuthError>> {
    let mut next = Next::Send(first);
    loop {
        next = match next {
            Next::Send(message) => {
                let length = u32::try_from(message.len())?;
                ensure!(length <= MESSAGE_ROOM, "a message of {length} bytes");
                let sent = commands::authentication_send(length);
                let status = connection.execute(sent, Some(message), 0)?.cqe.status();
                ensure!(status.is_success(), "Authentication Send was answered with: {status}");
                host.sent()
            }
            Next::Receive => {
                let receive = commands::authentication_receive(MESSAGE_ROOM);
                let reply = connection.execute(receive, None, MESSAGE_ROOM)?;
                let status = reply.cqe.status();
                ensure!(status.is_success(), "Authentication Receive was answered with: {status}");
                host.received(&reply.data)
            }
            Next::Work(work) => host.worked(carry_out(work)?),
            Next::Over(end) => return Ok(end),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_place_of_its_file_is_refused_and_not_repeated() {
        for key in ["DHHC-1:00:AAECAwQF:", "NVMeTLSkey-1:00:AAECAwQF:"] {
            let error = must_name_file(Path::new(key)).unwrap_err().to_string();
            assert!(error.contains("file") && !error.contains("AAEC"), "{error}");
        }
        let error = secret(Path::new("DHHC-1:00:AAECAwQF:")).unwrap_err();
        assert!(!format!("{error:#}").contains("AAEC"), "{error:#}");
        must_name_file(Path::new("/etc/nvme/secret")).unwrap();
    }
}
