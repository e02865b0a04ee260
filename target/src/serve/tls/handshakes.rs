//! The thread that makes handshakes. No socket blocks it: it waits for all of them at once.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fabric::controller::{KeyNames, ListenerId, SecureChannel};
use fabric::tls_psk::{Identity, IdentityKind, PskLength};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use sluice_tls::record;
use sluice_tls::{Context, Handshake, Keys, Offered, Progress, Psk, PskHash, TlsError};

use super::keys::TlsKeys;
use super::records::Session;
use super::refused::refuse;
use super::shared::{Channel, Incoming};
use super::waiting::Waiting;
use crate::serve::reactor::mailbox::Message;
use crate::serve::shared::Shared;
use crate::sys::clock::Clock;

/// The time within which the end of the daemon is noticed.
const LONGEST: Duration = Duration::from_millis(200);
/// The first byte of TLS: the record of a ClientHello. Plain NVMe/TCP begins with 0, an ICReq.
const HANDSHAKE_RECORD: u8 = 22;

/// Says why no listener can have TLS here; `None`: one can.
pub(crate) fn refusal() -> Option<String> {
    let error = record::is_supported().err()?;
    Some(format!(
        "the kernel does not take over TLS ({error}): `modprobe tls` loads the module, and \
         CONFIG_TLS builds a kernel with it"
    ))
}

/// The keys, as the library asks for them.
#[derive(Debug)]
struct Known {
    keys: Arc<TlsKeys>,
    clock: Clock,
}

impl Keys for Known {
    fn find(&self, offered: Offered<'_>) -> Option<Psk> {
        let Offered { identity, index, hello } = offered;
        let found = self.keys.find(self.clock.now(), identity, index, hello)?;
        let hash = match found.length {
            PskLength::Bytes32 => PskHash::Sha256,
            PskLength::Bytes48 => PskHash::Sha384,
        };
        Some(Psk { secret: found.secret, hash })
    }
}

/// A connection that is not served yet.
#[derive(Debug)]
struct Pending {
    listener: ListenerId,
    peer: SocketAddr,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Nothing has come yet.
    Silent(OwnedFd),
    /// The handshake is under way, and waits for room in the socket or for the peer.
    Under(Box<Handshake>, Progress),
    /// It goes on without this thread, or is over.
    Over,
}

impl Pending {
    fn wanted(&self) -> Option<(&OwnedFd, PollFlags)> {
        match &self.stage {
            Stage::Silent(socket) => Some((socket, PollFlags::POLLIN)),
            Stage::Under(handshake, Progress::Write) => {
                Some((handshake.socket(), PollFlags::POLLOUT))
            }
            Stage::Under(handshake, _) => Some((handshake.socket(), PollFlags::POLLIN)),
            Stage::Over => None,
        }
    }
}

/// Makes handshakes until `over` holds: the body of their thread.
pub(crate) fn run(shared: &Shared, over: impl Fn() -> bool) {
    let mut thread = Thread { shared, waiting: Waiting::default(), context: None };
    while !over() {
        if let Err(error) = thread.turn() {
            tracing::error!(%error, "the thread of TLS handshakes cannot wait");
            std::thread::sleep(LONGEST);
        }
    }
}

struct Thread<'a> {
    shared: &'a Shared,
    // Before the context, which the handshakes in it use.
    waiting: Waiting<Pending>,
    /// The library's part, once a connection has come.
    context: Option<Context>,
}

impl Thread<'_> {
    /// Waits for something to happen and takes it.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.shared.clock.now();
        let wait = self.waiting.next().map_or(LONGEST, |next| next.since(now).min(LONGEST));
        let mut asked = vec![PollFd::new(self.shared.tls.wake_up().as_fd(), PollFlags::POLLIN)];
        let wanted = self.waiting.iter().filter_map(Pending::wanted);
        asked.extend(wanted.map(|(socket, events)| PollFd::new(socket.as_fd(), events)));
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        match poll(&mut asked, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Waiting connections have their places behind the first.
        let ready: Vec<bool> = asked.iter().map(|one| one.any().unwrap_or(true)).collect();
        drop(asked);
        self.go_on(ready.get(1..).unwrap_or_default());
        for incoming in self.shared.tls.take() {
            self.come(incoming);
        }
        Ok(())
    }

    /// Goes on with the connections that are ready, in their order.
    fn go_on(&mut self, ready: &[bool]) {
        let Self { shared, context, waiting } = self;
        let mut ready = ready.iter();
        let now = shared.clock.now();
        let gone = waiting.take(now, |pending, late| {
            if ready.next().is_some_and(|ready| *ready) {
                advance(shared, context.as_ref(), pending);
            }
            late || matches!(pending.stage, Stage::Over)
        });
        for pending in gone {
            if !matches!(pending.stage, Stage::Over) {
                refuse(shared, pending.peer, &"it did not finish the TLS handshake within 10 s");
            }
        }
    }

    /// Takes a connection that has just been accepted.
    fn come(&mut self, incoming: Incoming) {
        let Incoming { socket, listener, peer } = incoming;
        if let Err(error) = self.prepare(&socket) {
            return refuse(self.shared, peer, &error);
        }
        let stage = Stage::Silent(socket);
        let mut pending = Pending { listener, peer, stage };
        // The ClientHello has come, as a rule.
        advance(self.shared, self.context.as_ref(), &mut pending);
        if matches!(pending.stage, Stage::Over) {
            return;
        }
        let now = self.shared.clock.now();
        if let Some(gone) = self.waiting.come(now, peer.ip(), pending) {
            refuse(
                self.shared,
                gone.peer,
                &"too many TLS handshakes were under way: the oldest of \
                                             the address with the most was closed for another one",
            );
        }
    }

    /// Makes the context for a handshake, and makes a socket non-blocking.
    fn prepare(&mut self, socket: &OwnedFd) -> Result<(), TlsError> {
        if self.context.is_none() {
            let (keys, clock) = (Arc::clone(self.shared.tls.keys()), self.shared.clock.clone());
            let keys = Known { keys, clock };
            self.context = Some(Context::new(Box::new(keys))?);
        }
        set_blocking(socket, false).map_err(|error| TlsError::Library(error.to_string()))
    }
}

/// Goes on with one connection as far as it can.
fn advance(shared: &Shared, context: Option<&Context>, pending: &mut Pending) {
    let (listener, peer) = (pending.listener, pending.peer);
    let mut handshake = match std::mem::replace(&mut pending.stage, Stage::Over) {
        Stage::Silent(socket) => {
            let mut first = [0];
            let peeked = recv(socket.as_raw_fd(), &mut first, MsgFlags::MSG_PEEK);
            match (peeked, shared.tls.channel(listener)) {
                (Err(Errno::EAGAIN | Errno::EINTR), _) => {
                    pending.stage = Stage::Silent(socket);
                    return;
                }
                // It came to see whether the port is open, or is gone.
                (Ok(0) | Err(_), _) => return,
                (Ok(_), None) => return refuse(shared, peer, &"its listener was removed"),
                (Ok(_), _) if first == [HANDSHAKE_RECORD] => {}
                (Ok(_), Some(SecureChannel::Required)) => {
                    return refuse(
                        shared,
                        peer,
                        &"it does not use TLS, which the listener requires",
                    );
                }
                (Ok(_), _) => return serve(shared, pending, socket, Channel::Plain),
            }
            let Some(context) = context else { return };
            match Handshake::begin(context, socket) {
                Ok(handshake) => Box::new(handshake),
                Err(error) => return refuse(shared, peer, &error),
            }
        }
        Stage::Under(handshake, _) => handshake,
        Stage::Over => return,
    };
    match handshake.go_on() {
        Ok(Progress::Done) => match handshake.finish() {
            Ok((socket, established)) => match names(&established.identity) {
                Some(names) => {
                    let (cipher, secrets) = (established.cipher, established.secrets);
                    tracing::debug!(%peer, host = names.host, cipher, "a connection is over TLS");
                    let session = Box::new(Session::new(secrets));
                    serve(shared, pending, socket, Channel::Tls { names, cipher, session });
                }
                None => refuse(shared, peer, &"its identity has no names"),
            },
            Err(error) => refuse(shared, peer, &error),
        },
        Ok(progress) => pending.stage = Stage::Under(handshake, progress),
        Err(error) => {
            handshake.refuse(&error);
            refuse(shared, peer, &error);
        }
    }
}

/// Returns the names that an identity is for.
fn names(identity: &[u8]) -> Option<KeyNames> {
    let identity = Identity::read(identity)?;
    let (host, subsystem) = (identity.host.to_owned(), identity.subsystem.to_owned());
    let generated = matches!(identity.kind, IdentityKind::Generated(_));
    Some(KeyNames { host, subsystem, generated })
}

/// Gives a connection back to the first reactor.
fn serve(shared: &Shared, pending: &Pending, socket: OwnedFd, channel: Channel) {
    let (listener, peer) = (pending.listener, pending.peer);
    if let Err(error) = set_blocking(&socket, true) {
        return refuse(shared, peer, &error);
    }
    if let Some(mailbox) = shared.mailbox(0) {
        mailbox.post(Message::Arrived { incoming: Incoming { socket, listener, peer }, channel });
    }
}

/// Sets whether calls wait on a socket. The ring, which has the socket later, takes a socket that
/// does not block at its word.
fn set_blocking(socket: &OwnedFd, blocking: bool) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
    let flags = if blocking { flags - OFlag::O_NONBLOCK } else { flags | OFlag::O_NONBLOCK };
    fcntl(socket, FcntlArg::F_SETFL(flags))?;
    Ok(())
}
