//! The cost of looking after connections: everything that the daemon does for one connection in one
//! control interval, on real sockets over the loopback device.
//!
//! `adapter [CONNECTIONS]` (1,000): first the parts, then the share of a core that looking at all
//! of them every 5 ms and every millisecond takes. Two descriptors a connection: `ulimit -n 4096`.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use qtcp::link::{ClassFlowId, ClassGoal, Link, Rules};
use qtcp::linux::{Info, Sampler, options};
use qtcp::{Nanos, Rate};
use units::{Class, PerClass};

struct Flow {
    socket: TcpStream,
    sampler: Sampler,
    id: ClassFlowId,
    limit: Option<Rate>,
}

/// Looks at every connection once. Returns how many limits have changed. With `marked`, each
/// connection seems to have more to send, and every packet to carry a mark.
fn poll(flows: &mut [Flow], link: &mut Link, now: Nanos, marked: bool) -> Result<u32> {
    let mut changed = 0;
    for flow in flows {
        let info = Info::read(flow.socket.as_fd())?;
        let mut seen = flow.sampler.sample(now, &info).out;
        if marked {
            seen.delivered = seen.delivered.max(1);
            (seen.marked, seen.app_limited) = (seen.delivered, false);
            (seen.mss, seen.rtt) = (1448, Duration::from_millis(50));
        }
        let limit = link.observe(flow.id, now, &seen).limit;
        if limit != flow.limit {
            options::set_pacing_rate(flow.socket.as_fd(), limit)?;
            (flow.limit, changed) = (limit, changed + 1);
        }
    }
    Ok(changed)
}

fn connect(count: usize, link: &mut Link) -> Result<(Vec<Flow>, Vec<TcpStream>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut flows, mut hosts) = (Vec::new(), Vec::new());
    for class in Class::ALL.into_iter().cycle().take(count) {
        let host = TcpStream::connect(listener.local_addr()?).context("try ulimit -n 4096")?;
        let (socket, _) = listener.accept().context("try ulimit -n 4096")?;
        socket.set_nodelay(true)?;
        flows.push(Flow { socket, sampler: Sampler::new(), id: link.add(class), limit: None });
        hosts.push(host);
    }
    Ok((flows, hosts))
}

/// Sends something on each connection a hundred times a second.
fn traffic(flows: &[Flow], mut hosts: Vec<TcpStream>, stop: Arc<AtomicBool>) -> Result<()> {
    let sockets = flows.iter().map(|flow| flow.socket.try_clone());
    let mut sockets = sockets.collect::<Result<Vec<_>, _>>()?;
    for socket in sockets.iter().chain(&hosts) {
        socket.set_nonblocking(true)?;
    }
    thread::spawn(move || {
        let (data, mut room) = (vec![1; 4096], vec![0; 65_536]);
        while !stop.load(Ordering::Relaxed) {
            for (socket, host) in sockets.iter_mut().zip(&mut hosts) {
                let _ = socket.write(&data);
                let _ = host.read(&mut room);
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    Ok(())
}

/// Reads the processor time of this thread.
fn processor_time() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let spent = text.split_whitespace().next().context("schedstat is empty")?;
    Ok(Duration::from_nanos(spent.parse()?))
}

/// Measures the median of seven rounds, in nanoseconds of processor time for each connection.
fn time(flows: usize, mut round: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut rounds = Vec::new();
    for _ in 0..7 {
        // The kernel counts processor time in ticks of some milliseconds.
        let (before, times) = (processor_time()?, 100);
        for _ in 0..times {
            round()?;
        }
        let spent = processor_time()?.saturating_sub(before);
        rounds.push(spent.as_nanos() as f64 / f64::from(times) / flows as f64);
    }
    rounds.sort_by(f64::total_cmp);
    rounds.get(3).copied().context("seven rounds")
}

fn parts(flows: &mut [Flow], link: &mut Link, start: Instant, marked: bool) -> Result<()> {
    let count = flows.len();
    let read = time(count, || {
        for flow in &*flows {
            std::hint::black_box(Info::read(flow.socket.as_fd())?);
        }
        Ok(())
    })?;
    let set = time(count, || {
        for flow in &*flows {
            options::set_pacing_rate(flow.socket.as_fd(), Some(Rate::new(1e9)))?;
        }
        Ok(())
    })?;
    let all = time(count, || {
        let now = Nanos(u64::try_from(start.elapsed().as_nanos())?);
        poll(flows, link, now, marked).map(|_| ())
    })?;
    println!("Info::read {read:.0} ns, set_pacing_rate {set:.0} ns, all of it {all:.0} ns");
    Ok(())
}

/// Looks at all connections at this interval for some seconds.
fn share(
    flows: &mut [Flow],
    link: &mut Link,
    start: Instant,
    marked: bool,
    interval: Duration,
) -> Result<()> {
    let seconds = Duration::from_secs(5);
    let (begin, before) = (Instant::now(), processor_time()?);
    let (mut next, mut looks, mut changed) = (begin, 0_u32, 0);
    while begin.elapsed() < seconds {
        next = (next + interval).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = Nanos(u64::try_from(start.elapsed().as_nanos())?);
        changed += poll(flows, link, now, marked)?;
        looks += 1;
    }
    let spent = processor_time()?.saturating_sub(before).as_secs_f64();
    println!(
        "every {interval:?}: {looks} looks in 5 s, {:.1} limits set in each, {:.1} % of a core, {:.0} ns a connection",
        f64::from(changed) / f64::from(looks),
        spent / begin.elapsed().as_secs_f64() * 100.0,
        spent * 1e9 / f64::from(looks) / flows.len() as f64,
    );
    Ok(())
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    for marked in [false, true] {
        let [high, medium, low] = [3.0, 2.0, 1.0].map(ClassGoal::Share);
        let goals = PerClass { urgent: ClassGoal::Free, high, medium, low };
        let mut link = Link::new(goals, None, Rules::default());
        let (mut flows, hosts) = connect(count, &mut link)?;
        let (stop, start) = (Arc::new(AtomicBool::new(false)), Instant::now());
        traffic(&flows, hosts, Arc::clone(&stop))?;
        let what = if marked { "held to targets" } else { "without congestion" };
        println!("{count} connections, {what}");
        thread::sleep(Duration::from_millis(200));
        parts(&mut flows, &mut link, start, marked)?;
        for interval in [5, 1] {
            share(&mut flows, &mut link, start, marked, Duration::from_millis(interval))?;
        }
        stop.store(true, Ordering::Relaxed);
    }
    Ok(())
}
