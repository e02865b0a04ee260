//! The sending side: bulk flows with a thread each, and one thread that paces them all.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use qtcp::link::{ClassFlowId, ClassGoal, Link, Rules};
use qtcp::linux::{Info, Sampler, options};
use qtcp::{Nanos, Observation, Rate};
use units::{Class, PerClass};

use crate::measure::Measure;

/// The settings of a measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Address and port to listen on for the sinks.
    #[arg(long)]
    listen: SocketAddr,
    /// The weight of each flow, in the order in which they connect.
    #[arg(long, value_delimiter = ',', default_value = "3,2,1")]
    pub(crate) weights: Vec<f64>,
    /// The kernel's congestion control.
    #[arg(long)]
    base: Option<String>,
    /// Limit rates by class; without this, the kernel's congestion control decides alone.
    #[arg(long)]
    control: bool,
    /// Control by windows alone (Eq. 5), of the congestion control `sluice_window` (feature bpf).
    #[arg(long)]
    eq5: bool,
    /// Capacity of the link, in Mbit/s of payload; without this, the link is measured.
    #[arg(long)]
    capacity: Option<f64>,
    /// Time between two looks at the sockets, in microseconds.
    #[arg(long, default_value_t = 2000)]
    interval: u64,
    /// Time before the measurement, in seconds.
    #[arg(long, default_value_t = 3)]
    settle: u64,
    /// Time of the measurement, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// TCP_NOTSENT_LOWAT, in bytes; 0 is the system's.
    #[arg(long, default_value_t = 131_072)]
    lowat: u32,
    /// Print every second.
    #[arg(long)]
    verbose: bool,
}

impl Settings {
    fn mode(&self) -> &'static str {
        match (self.control, self.eq5) {
            (false, _) => "off",
            (true, false) => "limits",
            (true, true) => "eq5",
        }
    }
}

/// One connection of the poller.
struct Flow {
    socket: TcpStream,
    sampler: Sampler,
    id: ClassFlowId,
    limit: Option<Rate>,
    #[cfg(feature = "bpf")]
    pilot: Option<crate::window::Pilot>,
}

impl Flow {
    /// Passes an observation to the link, and the resulting limit to the socket.
    fn control(
        &mut self,
        settings: &Settings,
        link: &mut Link,
        now: Nanos,
        seen: &Observation,
        info: &Info,
    ) -> Result<()> {
        let standing = link.observe(self.id, now, seen);
        #[cfg(feature = "bpf")]
        if let Some(pilot) = &mut self.pilot {
            let target = standing.target.filter(|_| settings.control && settings.eq5);
            pilot.see(self.socket.as_fd(), now, seen, info, target)?;
        }
        #[cfg(not(feature = "bpf"))]
        let _ = info;
        if settings.control && !settings.eq5 && standing.limit != self.limit {
            options::set_pacing_rate(self.socket.as_fd(), standing.limit)?;
            self.limit = standing.limit;
        }
        Ok(())
    }
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let listener = TcpListener::bind(settings.listen).context("listening")?;
    #[cfg(feature = "bpf")]
    let windows = crate::window::load(settings.base.as_deref())?;
    let adopt = |fd: BorrowedFd<'_>| match &settings.base {
        Some(base) => options::set_congestion(fd, base).with_context(|| base.clone()),
        None => Ok(()),
    };
    // The listener passes it on to later connections, their SYN included; earlier ones have it set
    // below.
    adopt(listener.as_fd())?;
    let goals = PerClass::from_fn(|class| {
        settings.weights.get(class.number()).map_or(ClassGoal::Free, |&one| ClassGoal::Share(one))
    });
    let mut link = Link::new(
        goals,
        settings.capacity.map(|mbit| Rate::from_bits(mbit * 1e6)),
        Rules::default(),
    );
    let mut flows = Vec::new();
    for class in Class::ALL.into_iter().take(settings.weights.len()) {
        let (socket, _) = listener.accept().context("accepting")?;
        adopt(socket.as_fd())?;
        options::set_notsent_lowat(socket.as_fd(), Some(settings.lowat).filter(|&n| n > 0))?;
        let id = link.add(class);
        flows.push(Flow {
            socket,
            sampler: Sampler::new(),
            id,
            limit: None,
            #[cfg(feature = "bpf")]
            pilot: windows.clone().map(|windows| crate::window::Pilot::new(windows, settings.eq5)),
        });
    }
    let senders = flows.iter().map(|flow| Ok(bulk(flow.socket.try_clone()?)));
    let senders = senders.collect::<Result<Vec<_>>>()?;
    let result = poll(settings, &mut link, &mut flows);
    for flow in &flows {
        let _ = flow.socket.shutdown(Shutdown::Both);
    }
    for sender in senders {
        let _ = sender.join();
    }
    result
}

fn bulk(mut socket: TcpStream) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let chunk = vec![0x5a; 65_536];
        while socket.write_all(&chunk).is_ok() {}
    })
}

fn poll(settings: &Settings, link: &mut Link, flows: &mut [Flow]) -> Result<()> {
    let start = Instant::now();
    let interval = Duration::from_micros(settings.interval);
    let (settle, all) = (
        Duration::from_secs(settings.settle),
        Duration::from_secs(settings.settle + settings.seconds),
    );
    let mut measure = Measure::new(&settings.weights, settings.verbose);
    let mut next = start;
    while start.elapsed() < all {
        next += interval;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let elapsed = start.elapsed();
        let now = Nanos(u64::try_from(elapsed.as_nanos())?);
        for (index, flow) in flows.iter_mut().enumerate() {
            let info = Info::read(flow.socket.as_fd())?;
            let seen = flow.sampler.sample(now, &info).out;
            flow.control(settings, link, now, &seen, &info)?;
            if elapsed >= settle {
                measure.add(index, elapsed - settle, &seen, &info);
            }
        }
    }
    let first = flows.first().context("no flows")?;
    let base = options::congestion(first.socket.as_fd())?;
    measure.print(&base, settings.mode(), Duration::from_secs(settings.seconds));
    Ok(())
}
