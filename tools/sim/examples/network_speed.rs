//! Prints how many packets the simulator takes over links in a second of one core, beside the bare
//! event queue:
//!
//! ```text
//! cargo run --release -p sluice-sim --example network_speed
//! cargo run --release -p sluice-sim --example network_speed -- 20     # the dumbbell alone, for 20 ms
//! ```
//!
//! With a number of milliseconds it is the dumbbell of `tests/bench/ns3.sh`, which has the frames of that
//! simulator's links: 2 bytes beside a packet, not the 38 of Ethernet.
//!
//! A hop is a packet, or an acknowledgement, that one link has carried. Times are those in which the
//! process had a core, so that others on the machine take nothing from the numbers but caches.

use core::time::Duration;
use std::error::Error;
use std::fs;

use sluice_sim::network::{
    Control, Dumbbell, Event, FatTree, FlowSpec, Link, Network, NodeId, Packets, Sender, Switch,
    Topology,
};
use units::{Calendar, Nanos};

/// 100 Gb/s, a microsecond.
const LINK: Link = Link { rate: 100_000_000_000, delay: Duration::from_micros(1) };

fn main() -> Result<(), Box<dyn Error>> {
    let (switch, packets) = (Switch::default(), Packets::default());
    let dumbbell =
        |packets| Dumbbell { left: 8, right: 8, edge: LINK, middle: LINK, switch, packets }.build();
    if let Some(milliseconds) = std::env::args().nth(1) {
        let milliseconds: u64 = milliseconds
            .parse()
            .map_err(|_| format!("{milliseconds} is no number of milliseconds: write 20"))?;
        let packets = Packets { frame: 2, ..packets };
        let end = Nanos(milliseconds.saturating_mul(1_000_000));
        return run("dumbbell, 8 flows", dumbbell(packets), 8, 16, end);
    }
    run("dumbbell, 8 flows", dumbbell(packets), 8, 16, Nanos(100_000_000))?;
    let tree =
        |pods| FatTree { pods, hosts: None, edge: LINK, inner: LINK, switch, packets }.build();
    run("fat tree, 4 pods, 16 flows", tree(4)?, 8, 16, Nanos(20_000_000))?;
    run("fat tree, 8 pods, 128 flows", tree(8)?, 64, 128, Nanos(3_000_000))?;
    bare(64)?;
    bare(2048)
}

/// Returns the CPU time of the process in seconds, from the first number of its schedstat (proc(5)), which is in ns.
fn on_core() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    let time: u64 = text.split(' ').next().unwrap_or_default().trim().parse()?;
    Ok(time as f64 / 1e9)
}

/// Runs flows that always have something to send until `end`: each host's to the one `apart` hosts
/// further; in a dumbbell, those at the left to those at the right.
fn run(
    name: &str,
    topology: Topology,
    apart: u32,
    hosts: u32,
    end: Nanos,
) -> Result<(), Box<dyn Error>> {
    let mut network = Network::new(topology, 1)?;
    let senders = if name.starts_with("dumbbell") { apart } else { hosts };
    for host in 0..senders {
        let (from, to) = (NodeId(host), NodeId((host + apart) % hosts));
        let (sender, send_buffer) = (Sender::Window { control: Control::Dctcp }, u64::MAX);
        let spec = FlowSpec { from, to, dscp: 0, sender, send_buffer, notsent_lowat: None };
        let flow = network.open(Nanos::ZERO, spec);
        network.write(Nanos::ZERO, flow, 1 << 50);
    }
    let mut events = Vec::new();
    let began = on_core()?;
    let (mut now, mut bytes) = (Nanos::ZERO, 0);
    while now < end {
        now = now.after(100_000);
        network.advance(now, &mut events);
        bytes += events.drain(..).map(|event| arrived(&event)).sum::<u64>();
    }
    let took = on_core()? - began;
    let (totals, simulated) = (network.totals(), end.0 as f64 / 1e9);
    println!(
        "{name}: {:.2} million hops a second, {:.2} million events ({} hops in {took:.2} s; {:.1} Gbit/s of data, \
         {:.2} ms of {:.0} simulated a second)",
        totals.hops as f64 / took / 1e6,
        totals.events as f64 / took / 1e6,
        totals.hops,
        bytes as f64 * 8.0 / simulated / 1e9,
        simulated * 1e3 / took,
        simulated * 1e3,
    );
    Ok(())
}

/// Returns the bytes of data that an event says to have arrived.
fn arrived(event: &Event) -> u64 {
    match event {
        Event::Arrived { bytes, .. } => *bytes,
        _ => 0,
    }
}

/// Removes events from a calendar that has `count` of them, and inserts each again a while later.
fn bare(count: u64) -> Result<(), Box<dyn Error>> {
    let mut calendar = Calendar::new();
    let mut random = fastrand::Rng::with_seed(1);
    (0..count).for_each(|event| calendar.insert(random.u64(0..1_000_000), event));
    let began = on_core()?;
    let mut taken = 0_u64;
    while taken < 20_000_000
        && let Some((now, event)) = calendar.pop_due(u64::MAX)
    {
        // The time of a packet on the link, or that until it is there.
        let after = if event % 2 == 0 { 120_000 } else { 1_000_000 };
        calendar.insert(now + after, event);
        taken += 1;
    }
    let took = on_core()? - began;
    println!(
        "bare event queue of {count} events: {:.1} million events a second",
        taken as f64 / took / 1e6
    );
    Ok(())
}
