//! The floor of NVMe/TCP: requests and responses of its sizes over loopback TCP, and nothing else.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::args::Floor;
use super::floor_sizes::Sizes;
use super::stats::JobStats;
use super::worker::pin;

/// A command capsule's header: the request.
const REQUEST: usize = 72;
/// A C2HData header, or a response capsule.
const RESPONSE: usize = 24;
/// Bytes taken from a socket at once.
const RECEIVE: usize = 256 * 1024;

/// Returns the bytes that a request and its response move.
pub(crate) fn sizes(write: bool, bs: usize) -> Sizes {
    let (request, response) = if write { (bs, 0) } else { (0, bs) };
    Sizes { request: REQUEST + request, response: RESPONSE + response }
}

/// Measures.
pub(crate) fn measure(floor: &Floor, sizes: Sizes) -> anyhow::Result<JobStats> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no loopback address to listen on")?;
    // The stream is connected before anything can fail: the answering thread waits for it.
    let stream = TcpStream::connect(listener.local_addr()?)?;
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            pin(floor.server_core)?;
            let (stream, _) = listener.accept()?;
            prepare(&stream, floor.blocking)?;
            answer(stream, sizes)
        });
        let outcome = pin(floor.core).and_then(|()| {
            prepare(&stream, floor.blocking && floor.depth == 1)?;
            Client::new(stream, floor, sizes)?.run(floor.time)
        });
        match server.join() {
            Ok(served) => served.context("the answering thread")?,
            Err(_) => bail!("the answering thread panicked: please report this"),
        }
        outcome
    })
}

fn prepare(stream: &TcpStream, blocking: bool) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    Ok(stream.set_nonblocking(!blocking)?)
}

/// Sends a response for each request that is complete, until the other side closes.
fn answer(mut stream: TcpStream, sizes: Sizes) -> anyhow::Result<()> {
    let responses = vec![0x5a; RECEIVE.max(sizes.response)];
    let mut buffer = vec![0; RECEIVE];
    let (mut received, mut owed) = (0, 0);
    loop {
        match receive(&mut stream, &mut buffer)? {
            Some(0) => return Ok(()),
            Some(n) => {
                received += n;
                owed += received / sizes.request * sizes.response;
                received %= sizes.request;
            }
            None => std::hint::spin_loop(),
        }
        send(&mut stream, &responses, &mut owed)?;
    }
}

/// Receives bytes. Returns their number, 0 at the end of the stream; `None` where none have come.
fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(n) => Ok(Some(n)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
            ErrorKind::ConnectionReset => Ok(Some(0)),
            _ => Err(error.into()),
        },
    }
}

/// Sends as many of `owed` bytes as the socket takes, and subtracts them.
fn send(stream: &mut TcpStream, bytes: &[u8], owed: &mut usize) -> anyhow::Result<()> {
    while *owed > 0 {
        let chunk = bytes.get(..(*owed).min(bytes.len())).unwrap_or(bytes);
        match stream.write(chunk) {
            Ok(n) => *owed -= n,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(()),
                ErrorKind::Interrupted => {}
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                    *owed = 0;
                }
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

/// The requesting side.
struct Client {
    stream: TcpStream,
    sizes: Sizes,
    /// The times of the outstanding requests, as a ring from the oldest on.
    made: Vec<Instant>,
    oldest: usize,
    requests: Vec<u8>,
    buffer: Vec<u8>,
    received: usize,
    owed: usize,
    stats: JobStats,
}

impl Client {
    fn new(stream: TcpStream, floor: &Floor, sizes: Sizes) -> anyhow::Result<Self> {
        let depth = usize::from(floor.depth);
        Ok(Self {
            stream,
            sizes,
            made: vec![Instant::now(); depth],
            oldest: 0,
            requests: vec![0xa5; RECEIVE.max(sizes.request)],
            buffer: vec![0; RECEIVE],
            received: 0,
            owed: depth * sizes.request,
            stats: JobStats::new()?,
        })
    }

    fn run(mut self, time: Duration) -> anyhow::Result<JobStats> {
        let warm = Instant::now() + Duration::from_millis(300).min(time);
        while Instant::now() < warm {
            self.turn()?;
        }
        self.stats.clear();
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn()?;
        }
        Ok(self.stats)
    }

    /// Sends and receives, and makes a new request for each response that is complete.
    fn turn(&mut self) -> anyhow::Result<()> {
        send(&mut self.stream, &self.requests, &mut self.owed)?;
        let Some(n) = receive(&mut self.stream, &mut self.buffer)? else {
            std::hint::spin_loop();
            return Ok(());
        };
        if n == 0 {
            bail!("the answering side closed the connection");
        }
        let now = Instant::now();
        self.received += n;
        let complete = self.received / self.sizes.response;
        self.received %= self.sizes.response;
        for _ in 0..complete {
            let Some(made) = self.made.get_mut(self.oldest) else { continue };
            let spent = now.duration_since(std::mem::replace(made, now));
            let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
            let bytes = self.sizes.request.max(self.sizes.response) - RESPONSE;
            self.stats.record(false, spent, u32::try_from(bytes).unwrap_or(u32::MAX));
            self.oldest = (self.oldest + 1) % self.made.len();
        }
        self.owed += complete * self.sizes.request;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::access::Transport;

    #[test]
    fn exchanges_flow_in_both_directions_at_any_depth() {
        for (write, depth, blocking) in [(false, 1, true), (true, 8, false)] {
            // A machine that is busy with other things takes its time.
            let mut times = [30_u64, 300, 3000, 30_000].into_iter().map(Duration::from_millis);
            let floor = |time| Floor {
                transport: Transport::Tcp,
                address: None,
                bs: 4096,
                depth,
                write,
                time,
                core: None,
                server_core: None,
                blocking,
                answers: false,
                json: false,
            };
            let exchanged = |time| measure(&floor(time), sizes(write, 4096)).unwrap().count();
            assert!(times.any(|time| exchanged(time) > 0));
        }
    }
}
