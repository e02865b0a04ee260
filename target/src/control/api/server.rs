//! The thread that serves the control socket and the metrics endpoint.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::unistd::Gid;
use serde_json::Value;
use sluice_machine::ring_error;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_uring::net::{TcpListener, TcpStream, UnixStream};

use super::caller::{Caller, Groups};
use super::clients::{Client, Clients};
use super::error::ControlError;
use super::protocol::{ErrorKind, Failure, LINE_MAX, changes, failure};
use super::socket::{self, SocketFile};
use super::{Control, http};
use crate::sys::socket::{InUse, refusal};

/// The most clients of the control socket, and of the metrics endpoint, at one time.
pub const CLIENTS_MAX: usize = 64;
/// The time for which a client of the control socket may be silent.
const IDLE: Duration = Duration::from_secs(600);
/// The time within which a client has to send an HTTP request, or to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for which requests that are being answered may delay the end.
const GRACE: Duration = Duration::from_secs(1);
/// The time between two signs to a client that its change is being worked on.
const SIGN: Duration = Duration::from_secs(1);
/// The most such signs: a change that takes longer is stuck.
const SIGNS_MAX: u32 = 300;
/// The size of one read in bytes.
const CHUNK: usize = 16 << 10;

/// The running control plane. It ends with [`Server::stop`], or when it is dropped.
#[derive(Debug)]
pub struct Server {
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
    metrics: Option<SocketAddr>,
}

impl Server {
    /// Starts the thread, and returns when it serves.
    ///
    /// # Errors
    /// The socket or the metrics endpoint cannot be opened, or there is no io_uring.
    pub fn spawn(
        control: Arc<Control>,
        path: &Path,
        metrics: Option<SocketAddr>,
    ) -> Result<Self, ControlError> {
        let groups = control.groups()?;
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::channel();
        let path = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || run(control, (&path, groups), metrics, &ready, stopped))
            .map_err(|error| ControlError::Thread(error.to_string()))?;
        let metrics = match started.recv() {
            Ok(outcome) => outcome?,
            Err(_) => return Err(ControlError::Thread("it ended at once".into())),
        };
        Ok(Self { thread: Some(thread), stop: Some(stop), metrics })
    }

    /// Returns the address of the metrics endpoint.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Ends the thread: requests that are being answered have a second left; then the socket is
    /// removed.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Ready = mpsc::Sender<Result<Option<SocketAddr>, ControlError>>;

/// Serves until the end: the body of the thread.
fn run(
    control: Arc<Control>,
    (path, groups): (&Path, Groups),
    metrics: Option<SocketAddr>,
    ready: &Ready,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio_uring::Runtime::new(&tokio_uring::builder()) {
        Ok(runtime) => runtime,
        Err(error) => {
            let why = format!("io_uring cannot be set up: {}", ring_error::explain(&error));
            let _ = ready.send(Err(ControlError::Thread(why)));
            return;
        }
    };
    runtime.block_on(async move {
        let (listeners, address) = match Listeners::open((path, groups.users), metrics) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _file = listeners.file;
        let busy = Rc::new(Cell::new(0));
        tokio_uring::spawn(accept_control(
            (listeners.control, groups),
            control.clone(),
            busy.clone(),
        ));
        if let Some(listener) = listeners.metrics {
            tokio_uring::spawn(accept_metrics(listener, control));
        }
        let _ = ready.send(Ok(address));
        // A message and the sender's drop both mean the end.
        let _ = stopped.await;
        let quiet = async {
            while busy.get() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(GRACE, quiet).await;
    });
}

struct Listeners {
    control: UnixListener,
    file: SocketFile,
    metrics: Option<TcpListener>,
}

impl Listeners {
    fn open(
        (path, group): (&Path, Option<Gid>),
        metrics: Option<SocketAddr>,
    ) -> Result<(Self, Option<SocketAddr>), ControlError> {
        let (control, file) = socket::listen(path, group)?;
        let control = UnixListener::from_std(control)
            .map_err(|error| ControlError::Thread(error.to_string()))?;
        let open = |address: SocketAddr| {
            let listener = InUse::Retry.bind(|| std::net::TcpListener::bind(address))?;
            let address = listener.local_addr()?;
            Ok((TcpListener::from_std(listener), address))
        };
        let opened = metrics.map(|address| {
            open(address).map_err(|error: io::Error| ControlError::Metrics {
                address,
                detail: refusal(address, &error),
            })
        });
        let (metrics, address) = opened.transpose()?.unzip();
        Ok((Self { control, file, metrics }, address))
    }
}

/// A guard that counts one client as busy until it is dropped.
struct Guard(Rc<Cell<usize>>);

impl Guard {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(count.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Accepts a client of the control socket. The socket must block, since the ring waits for it.
async fn accept(listener: &UnixListener, groups: &Groups) -> io::Result<(UnixStream, Caller)> {
    let stream = listener.accept().await?.0.into_std()?;
    stream.set_nonblocking(false)?;
    let caller = Caller::of(&stream, groups)?;
    Ok((UnixStream::from_std(stream), caller))
}

async fn accept_control(
    (listener, groups): (UnixListener, Groups),
    control: Arc<Control>,
    busy: Rc<Cell<usize>>,
) {
    let clients = Clients::new(CLIENTS_MAX);
    let end = |silent: &UnixStream| drop(silent.shutdown(Shutdown::Both));
    loop {
        let accepted = accept(&listener, &groups).await;
        match accepted.map(|(stream, caller)| (clients.take(stream, end), caller)) {
            Ok((Err(stream), _)) => {
                tokio_uring::spawn(turn_away(stream));
            }
            Ok((Ok(mut client), caller)) => {
                let (control, busy) = (control.clone(), busy.clone());
                tokio_uring::spawn(async move {
                    let stream = client.connection();
                    serve(&stream, &mut client, (control, caller), &busy).await;
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// Waits after a failed accept: probably no file descriptor is left until another client ends.
async fn pause(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a client of the control plane");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn turn_away(stream: UnixStream) {
    let message = format!("there are {CLIENTS_MAX} clients already; try again later");
    let line = failure(&Value::Null, &Failure::new(ErrorKind::Busy, message)) + "\n";
    let _ = patiently(stream.write_all(line.into_bytes())).await;
    let _ = stream.shutdown(Shutdown::Both);
}

/// Waits for a read or write, [`PATIENCE`] at most.
async fn patiently<T, B>(action: impl Future<Output = (io::Result<T>, B)>) -> io::Result<(T, B)> {
    let (result, buffer) = tokio::time::timeout(PATIENCE, action).await?;
    Ok((result?, buffer))
}

/// Serves one client until it ends, is silent for too long, or sends no proper line.
async fn serve(
    stream: &UnixStream,
    client: &mut Client<UnixStream>,
    (control, caller): (Arc<Control>, Caller),
    busy: &Rc<Cell<usize>>,
) {
    let mut pending: Vec<u8> = Vec::new();
    loop {
        client.falls_silent();
        let read = stream.read(Vec::with_capacity(CHUNK));
        let Ok((Ok(length @ 1..), chunk)) = tokio::time::timeout(IDLE, read).await else { return };
        let _busy = Guard::new(busy);
        pending.extend_from_slice(chunk.get(..length).unwrap_or_default());
        let mut from = 0;
        while let Some(end) = find_newline(&pending, from) {
            let line = pending.get(from..end).unwrap_or_default().to_vec();
            from = end + 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            // Bytes without a request do not keep a client its place.
            if !client.speaks() {
                return;
            }
            let Some(answer) = answer(stream, (control.clone(), caller.clone()), line).await else {
                return;
            };
            if patiently(stream.write_all(answer)).await.is_err() {
                return;
            }
        }
        pending.drain(..from);
        if pending.len() > LINE_MAX {
            let message = format!("a request is at most {LINE_MAX} bytes long");
            let line = failure(&Value::Null, &Failure::new(ErrorKind::BadRequest, message)) + "\n";
            let _ = patiently(stream.write_all(line.into_bytes())).await;
            return;
        }
    }
}

fn find_newline(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter().position(|byte| *byte == b'\n').map(|at| from + at)
}

/// Answers a request on a thread of its own, since a change waits for the reactors and the disk.
/// Meanwhile the client of a change gets signs of life: spaces, which JSON ignores. A client that
/// only looks gets none, so that it notices a target that is stuck.
async fn answer(
    stream: &UnixStream,
    (control, caller): (Arc<Control>, Caller),
    line: Vec<u8>,
) -> Option<Vec<u8>> {
    let mut signs = if changes(&line) { SIGNS_MAX } else { 0 };
    let mut work = tokio::task::spawn_blocking(move || {
        let mut answer = control.handle_of(&line, &caller);
        answer.push('\n');
        answer.into_bytes()
    });
    let done = loop {
        if signs == 0 {
            break work.await;
        }
        match tokio::time::timeout(SIGN, &mut work).await {
            Ok(done) => break done,
            Err(_) => patiently(stream.write_all(vec![b' '])).await.ok()?,
        };
        signs -= 1;
    };
    match done {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::error!(%error, "a control request failed inside the target");
            None
        }
    }
}

async fn accept_metrics(listener: TcpListener, control: Arc<Control>) {
    let clients = Clients::new(CLIENTS_MAX);
    let end = |silent: &TcpStream| drop(silent.shutdown(Shutdown::Both));
    loop {
        match listener.accept().await.map(|(stream, _)| clients.take(stream, end)) {
            // A scraper whose connection is closed tries again at its next interval.
            Ok(Err(stream)) => drop(stream),
            Ok(Ok(mut client)) => {
                let control = control.clone();
                tokio_uring::spawn(async move {
                    let stream = client.connection();
                    let request = tokio::time::timeout(PATIENCE, request(&stream)).await;
                    if let Ok(Some(asked)) = request
                        && client.speaks()
                    {
                        respond(&stream, asked, control).await;
                    }
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
            Err(error) => pause(&error).await,
        }
    }
}

async fn request(stream: &TcpStream) -> Option<http::Asked> {
    let mut request: Vec<u8> = Vec::new();
    loop {
        if let Some(asked) = http::read(&request) {
            return Some(asked);
        }
        let (length, chunk) = stream.read(Vec::with_capacity(http::REQUEST_MAX)).await;
        let length = length.ok().filter(|length| *length > 0)?;
        request.extend_from_slice(chunk.get(..length)?);
    }
}

async fn respond(stream: &TcpStream, asked: http::Asked, control: Arc<Control>) {
    let answer = match asked {
        http::Asked::Refused(answer) => answer,
        http::Asked::Health(whole) => http::health(whole),
        http::Asked::Readiness(whole) => {
            let work = move || http::readiness(&control.readiness(), whole);
            let Ok(answer) = tokio::task::spawn_blocking(work).await else { return };
            answer
        }
        http::Asked::Metrics(form, whole) => {
            let work = move || http::metrics(control.metrics(), form, whole);
            let Ok(answer) = tokio::task::spawn_blocking(work).await else { return };
            answer
        }
    };
    let _ = patiently(stream.write_all(answer)).await;
}
