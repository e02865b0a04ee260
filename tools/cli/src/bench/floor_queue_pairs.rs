//! The floor of NVMe/RDMA: SEND, WRITE and READ of its sizes between queue pairs of two processes, and
//! nothing else. A host and a target are two processes, too: two threads of one would share what its
//! memory maps cost.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use fabric::queue::Remote;
use fabric::rdma::wire::{COMMAND_BYTES, RESPONSE_BYTES};
use fabric_verbs::{
    Access, ActivePair, Arena, Completion, CompletionQueue, ConnectionParams, Domain, Done, Event,
    EventChannel, Id, Listener, Part, QueuePair, QueuePairSize, ReceiveBuffer, Regions,
    StaticBytes, Token, Work,
};
use nix::poll::{PollFd, PollFlags};
use sluice_config::program::print_line;

use super::args::Floor;
use super::floor_sizes::Sizes;
use super::stats::JobStats;
use super::worker::pin;
use crate::host::reach::{self, next_event, unexpected};
use crate::host::socket::{ANSWER_TIMEOUT, resolve};

/// What a floor over RDMA needs.
const NEEDED: &str =
    "give -a ADDRESS, this machine's on an interface that has an RDMA device (rdma link show)";

/// The most data of a write that travels with its request, as with Sluicegate's usual settings.
const IN_CAPSULE: usize = 4096;
/// RDMA READs that are out at once, at the most.
const READS: u8 = 16;
/// Turns without a completion after which the connection's events are looked at.
const IDLE_TURNS: u32 = 1024;
/// The names of listener and connections in events.
const LISTENER: Token = Token(1);
const ASKED: Token = Token(2);

/// Returns the bytes that a request and its response move.
pub(crate) fn sizes(write: bool, bs: usize) -> Sizes {
    let (request, response) = if write { (bs, 0) } else { (0, bs) };
    Sizes { request: COMMAND_BYTES + request, response: RESPONSE_BYTES + response }
}

/// Returns the exchange that is asked for.
fn plan(floor: &Floor, bs: usize) -> Plan {
    Plan { depth: floor.depth, bs, write: floor.write, waits: floor.blocking }
}

/// Answers the requests of one other process, and prints the address for it to connect to.
pub(crate) fn answer(floor: &Floor, bs: usize) -> anyhow::Result<()> {
    let address = floor.address.as_deref().with_context(|| format!("no address: {NEEDED}"))?;
    // Any port will do.
    let address = if address.parse::<std::net::IpAddr>().is_ok() {
        SocketAddr::new(address.parse()?, 0)
    } else {
        resolve(address)?
    };
    let channel = reach::open()?;
    let listener = Listener::new(&channel, address, 1, LISTENER).map_err(anyhow::Error::msg)?;
    print_line(listener.local_address())?;
    pin(floor.server_core)?;
    Server::accept(&channel, plan(floor, bs))?.run(&channel)
}

/// The other process. It is ended where it has not ended by itself.
struct Answering(Child);

impl Answering {
    /// Starts it. Returns it with the address that it prints.
    fn start(floor: &Floor, bs: usize) -> anyhow::Result<(Self, SocketAddr)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "floor", "--transport", "rdma", "--answers", "--bs"]);
        command.arg(format!("{bs}B")).args(["--depth", &floor.depth.to_string()]);
        if let Some(address) = &floor.address {
            command.args(["--address", address]);
        }
        if let Some(core) = floor.server_core {
            command.args(["--server-core", &core.to_string()]);
        }
        command.args(floor.write.then_some("--write"));
        command.args(floor.blocking.then_some("--blocking"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().map(BufReader::new);
        let answering = Self(child);
        let mut line = String::new();
        said.context("no pipe")?.read_line(&mut line)?;
        // What is wrong, it has said by itself.
        let peer = line.trim_end().parse().ok().context("the answering process has not begun")?;
        Ok((answering, peer))
    }

    /// Waits for its end.
    fn join(mut self) -> anyhow::Result<()> {
        let status = self.0.wait()?;
        ensure!(status.success(), "the answering process: {status}");
        Ok(())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures with data of `bs` bytes.
pub(crate) fn measure(floor: &Floor, bs: usize) -> anyhow::Result<JobStats> {
    let (answering, peer) = Answering::start(floor, bs)?;
    pin(floor.core)?;
    let outcome = Client::connect(peer, plan(floor, bs))?.run(floor.time)?;
    answering.join()?;
    Ok(outcome)
}

/// The exchange of messages that is measured.
#[derive(Clone, Copy, Debug)]
struct Plan {
    depth: u16,
    bs: usize,
    write: bool,
    /// Whether the answering thread sleeps, and the requesting one if it has only one request.
    waits: bool,
}

impl Plan {
    /// Says whether requests have their data behind them.
    fn in_capsule(self) -> bool {
        self.write && self.bs <= IN_CAPSULE
    }
}

/// The head of a request: the number of the request, and the place of its data.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u16,
    remote: Remote,
}

impl Request {
    fn to_bytes(self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        let fields = self.number.to_le_bytes().into_iter();
        let fields = fields.chain(self.remote.address.to_le_bytes());
        let fields = fields.chain(self.remote.key.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (address, rest) = rest.split_first_chunk()?;
        let (key, _) = rest.split_first_chunk()?;
        let (address, key) = (u64::from_le_bytes(*address), u32::from_le_bytes(*key));
        Some(Self { number: u16::from_le_bytes(*number), remote: Remote { address, key } })
    }
}

type Works = Vec<Work<&'static [u8], Part>>;

/// One end: a queue pair with its completions, and the data that it sends.
struct End {
    pair: ActivePair<&'static [u8], Part>,
    completions: CompletionQueue,
    regions: Regions,
    data: &'static [u8],
    /// Work requests that may be with the device.
    sends: usize,
    taken: Vec<Completion>,
}

impl End {
    fn new(id: Id, plan: Plan) -> anyhow::Result<Self> {
        let device = id.device()?;
        let regions = Regions::new(&Domain::new(&device)?);
        // The process ends after this measurement.
        let data: &'static [u8] = vec![0x5a; plan.bs.max(1)].leak();
        regions.add(Arc::new(StaticBytes(data)), Access::empty())?;
        let depth = u32::from(plan.depth);
        // Data and an answer for each request, and as many whose completion has not been taken.
        let sends = 4 * depth;
        let receives = plan.depth.saturating_add(1);
        let behind = if plan.in_capsule() { plan.bs } else { 0 };
        let size = QueuePairSize {
            sends,
            receives,
            receive_bytes: COMMAND_BYTES + behind,
            send_payloads: plan.in_capsule(),
            flushes: false,
        };
        let advice = "use a smaller --depth";
        let completions = CompletionQueue::new(&device, sends + u32::from(receives))
            .map_err(anyhow::Error::msg)
            .context(advice)?;
        let pair = QueuePair::new(id, &regions, &completions, size)
            .map_err(anyhow::Error::msg)
            .context(advice)?
            .activate();
        Ok(Self { pair, completions, regions, data, sends: sends as usize, taken: Vec::new() })
    }

    /// Returns the parameters of the connection.
    fn params(&self) -> ConnectionParams {
        let limits = self.regions.domain().device().limits();
        ConnectionParams {
            responder_resources: limits.reads_answered.min(READS),
            initiator_depth: limits.reads.min(READS),
            retries: 7,
            not_ready_retries: 7,
        }
    }

    /// Takes what has completed: `received` gets messages, `read` the buffer of each READ. Returns
    /// whether anything had completed, or `None` where the connection has failed.
    fn poll(
        &mut self,
        mut received: impl FnMut(&ReceiveBuffer),
        mut read: impl FnMut(Part),
    ) -> anyhow::Result<Option<bool>> {
        let Self { pair, completions, taken, .. } = self;
        while completions.poll(taken)? {}
        let (any, mut failed) = (!taken.is_empty(), false);
        for completion in taken.drain(..) {
            pair.complete(completion, |done| match done {
                Done::Received(buffer) => received(&buffer),
                Done::Work { outcome, .. } if !outcome.is_success() => failed = true,
                Done::Work { work: Work::Read { into, .. }, .. } => read(into),
                Done::Work { .. } => {}
                Done::Lost(_) => failed = true,
            });
        }
        if failed {
            return Ok(None);
        }
        pair.repost()?;
        Ok(Some(any))
    }

    /// Posts as many works as the send queue has room for.
    fn post(&mut self, works: &mut Works) -> anyhow::Result<()> {
        let count = works.len().min(self.sends.saturating_sub(self.pair.posted()));
        if count == 0 {
            return Ok(());
        }
        self.pair.post(works.drain(..count)).map_err(|(error, _)| error.into())
    }

    /// Waits for a completion or an event, asleep. The completion queue was armed, and polled after
    /// that.
    fn wait(&mut self, channel: &EventChannel) -> anyhow::Result<()> {
        let mut fds = [
            PollFd::new(self.completions.as_fd(), PollFlags::POLLIN),
            PollFd::new(channel.as_fd(), PollFlags::POLLIN),
        ];
        reach::sleep(&mut fds, ANSWER_TIMEOUT)?;
        self.completions.take_events();
        Ok(())
    }
}

/// The answering side.
struct Server {
    end: End,
    plan: Plan,
    /// Buffers for data that is fetched.
    parts: Vec<Part>,
    /// The requests whose data is being fetched, in order.
    fetching: VecDeque<u16>,
    works: Works,
}

impl Server {
    fn accept(channel: &EventChannel, plan: Plan) -> anyhow::Result<Self> {
        let request = match next_event(channel)? {
            Event::Request(request) => request,
            other => return Err(unexpected(other)),
        };
        let end = End::new(request.id, plan)?;
        let fetches = if plan.write && !plan.in_capsule() { plan.depth } else { 0 };
        let parts = Part::several(&end.regions, fetches, plan.bs)?;
        end.pair.pair().accept(end.params(), &[], None)?;
        match next_event(channel)? {
            Event::Established(..) => {}
            other => return Err(unexpected(other)),
        }
        Ok(Self { end, plan, parts, fetching: VecDeque::new(), works: Vec::new() })
    }

    /// Answers requests until the other side ends the connection.
    fn run(mut self, channel: &EventChannel) -> anyhow::Result<()> {
        let (mut idle, mut armed) = (0, false);
        loop {
            match self.turn()? {
                None => break,
                Some(true) => (idle, armed) = (0, false),
                Some(false) if self.plan.waits && !armed => {
                    self.end.completions.arm()?;
                    armed = true;
                }
                Some(false) => {
                    idle += 1;
                    if armed {
                        self.end.wait(channel)?;
                        armed = false;
                    } else {
                        // Soft RoCE may work on the same core.
                        thread::yield_now();
                    }
                    if (self.plan.waits || idle % IDLE_TURNS == 0)
                        && let Some(event) = channel.next()?
                        && event.ends_connection()
                    {
                        return Ok(());
                    }
                }
            }
        }
        match next_event(channel)? {
            event if event.ends_connection() => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Answers what has come. Returns whether anything had come, `None` where the connection has
    /// failed.
    fn turn(&mut self) -> anyhow::Result<Option<bool>> {
        let Self { end, plan, parts, fetching, works, .. } = self;
        let mut requests = Vec::new();
        let (mut fetched, mut wrong) = (Vec::new(), false);
        let came = end.poll(
            |buffer| match Request::parse(buffer) {
                Some(request) => requests.push(request),
                None => wrong = true,
            },
            |part| fetched.push(part),
        )?;
        if came.is_none() {
            return Ok(None);
        }
        ensure!(!wrong, "a request is too short");
        for part in fetched {
            parts.push(part);
            let number = fetching.pop_front().context("data that nobody asked for")?;
            works.push(Work::send(&response(number), None));
        }
        for Request { number, remote } in requests {
            if !plan.write {
                works.push(Work::Write { payload: end.data, remote });
            } else if !plan.in_capsule() {
                let into = parts.pop().context("more requests than --depth")?;
                fetching.push_back(number);
                works.push(Work::Read { into, remote });
                continue;
            }
            works.push(Work::send(&response(number), None));
        }
        end.post(works)?;
        Ok(came)
    }
}

fn response(number: u16) -> [u8; RESPONSE_BYTES] {
    let mut bytes = [0; RESPONSE_BYTES];
    bytes.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// The requesting side.
struct Client {
    end: End,
    plan: Plan,
    channel: EventChannel,
    memory: Arena,
    /// The times at which the requests were made.
    made: Vec<Instant>,
    works: Works,
    answered: Vec<u16>,
    stats: JobStats,
}

impl Client {
    fn connect(peer: SocketAddr, plan: Plan) -> anyhow::Result<Self> {
        let channel = reach::open()?;
        let id = reach::route(&channel, peer, ASKED, None)
            .with_context(|| format!("no RDMA device is at {}: {NEEDED}", peer.ip()))?;
        let end = End::new(id, plan)?;
        let length = usize::from(plan.depth).checked_mul(plan.bs).context("too much memory")?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let memory = Arena::new(&end.regions, length, access)
            .map_err(anyhow::Error::msg)
            .context("use a smaller --bs or --depth, or raise `ulimit -l`")?;
        end.pair.pair().id().connect(end.params(), &[])?;
        match next_event(&channel)? {
            Event::Established(..) => {}
            other => return Err(unexpected(other)),
        }
        Ok(Self {
            end,
            plan,
            channel,
            memory,
            made: vec![Instant::now(); plan.depth.into()],
            works: Vec::new(),
            answered: (0..plan.depth).collect(),
            stats: JobStats::new()?,
        })
    }

    fn run(mut self, time: Duration) -> anyhow::Result<JobStats> {
        self.ask(Instant::now())?;
        let warm = Instant::now() + Duration::from_millis(300).min(time);
        while Instant::now() < warm {
            self.turn()?;
        }
        self.stats.clear();
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn()?;
        }
        // The answering side hears of the end.
        self.end.pair.pair().id().disconnect()?;
        Ok(self.stats)
    }

    /// Takes responses, and makes a new request for each.
    fn turn(&mut self) -> anyhow::Result<()> {
        if !self.take()? {
            if self.plan.waits && self.plan.depth == 1 {
                self.end.completions.arm()?;
                if !self.take()? {
                    self.end.wait(&self.channel)?;
                }
            } else {
                thread::yield_now();
            }
        }
        let now = Instant::now();
        for number in &self.answered {
            let Some(made) = self.made.get(usize::from(*number)) else { continue };
            let spent = u64::try_from((now - *made).as_nanos()).unwrap_or(u64::MAX);
            self.stats.record(false, spent, u32::try_from(self.plan.bs).unwrap_or(u32::MAX));
        }
        self.ask(now)
    }

    /// Takes the numbers of requests that were answered. Returns whether anything has completed.
    fn take(&mut self) -> anyhow::Result<bool> {
        let Self { end, answered, .. } = self;
        let received = |buffer: &ReceiveBuffer| {
            answered.extend(buffer.first_chunk().map(|number| u16::from_le_bytes(*number)));
        };
        end.poll(received, drop)?.context("the answering side closed the connection")
    }

    /// Makes a request in place of each that was answered.
    fn ask(&mut self, now: Instant) -> anyhow::Result<()> {
        let Self { end, plan, memory, made, works, answered, .. } = self;
        for number in answered.drain(..) {
            if let Some(made) = made.get_mut(usize::from(number)) {
                *made = now;
            }
            let Remote { address, key } = memory.remote();
            let offset = u64::from(number) * u64::try_from(plan.bs)?;
            let remote = Remote { address: address.wrapping_add(offset), key };
            let head = Request { number, remote }.to_bytes();
            works.push(match plan.in_capsule() {
                true => Work::send_with(&head, end.data),
                false => Work::send(&head, None),
            });
        }
        end.post(works)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_were_made() {
        let remote = Remote { address: 0x0102_0304_0506_0708, key: 0x0a0b_0c0d };
        let bytes = Request { number: 4095, remote }.to_bytes();
        let Request { number, remote: read } = Request::parse(&bytes).unwrap();
        assert_eq!((number, read.address, read.key), (4095, remote.address, remote.key));
        assert!(Request::parse(&bytes[..13]).is_none());
    }
}
