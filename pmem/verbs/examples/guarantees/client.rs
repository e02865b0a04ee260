//! A client: it reads as fast as it may.

use std::net::SocketAddr;
use std::time::Duration;

use pmem::engine::{Engine, Settings, Step};
use pmem::one_sided::{OneSided as _, Ticket};
use pmem_verbs::connection::Connection;
use pmem_verbs::message::Message;
use units::Nanos;

use crate::common::{BLOCK, Clock, LENGTH, connect, request};

/// What lets I/Os go.
enum Gate {
    Engine(Box<Engine>),
    /// Nothing but a window, of which so many are under way.
    Bare {
        window: u32,
        under_way: u32,
    },
}

impl Gate {
    fn next(&mut self, now: Nanos) -> Option<Step> {
        match self {
            Self::Engine(engine) => engine.next(now),
            Self::Bare { window, under_way } => (under_way < window).then(|| {
                *under_way += 1;
                Step::Io
            }),
        }
    }

    fn io_completed(&mut self) {
        match self {
            Self::Engine(engine) => engine.io_completed(),
            Self::Bare { under_way, .. } => *under_way -= 1,
        }
    }

    /// Returns what the I/Os are counted by: the period's number, or the second.
    fn period(&self, now: Nanos) -> u64 {
        match self {
            Self::Engine(engine) => engine.period().map_or(0, |period| period.0.into()),
            Self::Bare { .. } => now.0 / 1_000_000_000,
        }
    }

    fn next_tick(&self, now: Nanos) -> Nanos {
        match self {
            Self::Engine(engine) => engine.next_tick(),
            Self::Bare { .. } => now.after(100_000_000),
        }
    }
}

/// Runs a client for some seconds, with an engine where there is a window for best effort.
pub(crate) fn run(
    address: SocketAddr,
    number: u32,
    seconds: u32,
    window: u32,
    best_effort: Option<u32>,
) {
    let mut connection = connect(address, request(number), window + 4).unwrap();
    let accept = *connection.provider.accept();
    println!("client {number}: data at {} by key {}", accept.data.at.0, accept.data.key);
    let mut gate = match best_effort {
        None => Gate::Bare { window, under_way: 0 },
        Some(best_effort_window) => {
            let settings = Settings { window, best_effort_window, ..accept.settings() };
            let mut engine = Engine::new(settings).unwrap();
            engine.request(u64::MAX);
            Gate::Engine(Box::new(engine))
        }
    };
    let clock = Clock::begin();
    let end = Nanos(u64::from(seconds) * 1_000_000_000);
    let mut buffers = connection.buffers(u16::try_from(window).unwrap(), BLOCK).unwrap();
    let (mut period, mut done, mut block) = (gate.period(clock.now()), 0_u64, u64::from(number));
    while clock.now() < end {
        let before = done;
        take(&mut connection, &mut gate, clock, &mut buffers, &mut done);
        if connection.has_ended() || connection.provider.fault().is_some() {
            let fault = connection.provider.fault();
            println!("client {number} ended: {fault:?}");
            return;
        }
        let now = clock.now();
        if gate.period(now) != period {
            // What was taken together with the push belongs to the period before, nearly all of it.
            println!("client {number} period {period} done {done}");
            (period, done) = (gate.period(now), 0);
        }
        while let Some(step) = gate.next(now) {
            match step {
                Step::Post(ticket, operation) => {
                    if connection.provider.post(ticket, operation).is_err() {
                        if let Gate::Engine(engine) = &mut gate {
                            engine.not_posted(now, ticket);
                        }
                        break;
                    }
                }
                Step::Io => {
                    block = (block + 1) % (LENGTH / BLOCK) as u64;
                    let buffer = buffers.pop().expect("as many buffers as the window");
                    let posted =
                        connection.provider.read(Ticket(block), block * BLOCK as u64, buffer);
                    // Where the connection has ended, the next look tells.
                    if let Err((_, Some(buffer))) = posted {
                        buffers.push(buffer);
                    }
                }
            }
        }
        if before == done {
            let wait = gate.next_tick(now).since(clock.now());
            connection.wait(wait.min(Duration::from_millis(100))).unwrap();
        }
    }
    println!("client {number} is over");
}

/// Takes what has happened.
fn take(
    connection: &mut Connection,
    gate: &mut Gate,
    clock: Clock,
    buffers: &mut Vec<fabric::rdma::verbs::Part>,
    done: &mut u64,
) {
    let provider = &mut connection.provider;
    provider.poll();
    while let Some(transfer) = provider.transferred() {
        if transfer.result.is_ok() {
            let first = transfer.buffer.bytes()[..8].try_into().unwrap();
            let place = u64::from_ne_bytes(first);
            assert_eq!(place, transfer.ticket.0 * BLOCK as u64, "other data than was asked for");
            *done += 1;
            gate.io_completed();
        }
        buffers.push(transfer.buffer);
    }
    let Gate::Engine(engine) = gate else { return };
    while let Some(completion) = provider.completed() {
        engine.completed(clock.now(), completion);
    }
    while let Some(message) = provider.message() {
        match message {
            Message::Push(push) => engine.push(clock.now(), push),
            Message::Ask(ask) => engine.ask(ask),
            Message::Synced { .. } => {}
        }
    }
}
