//! Bulk senders of several weights on real sockets, and the throughput of each.
//!
//! `bottleneck sink ADDRESS` connects once for each flow and reads, as hosts do; `bottleneck send`
//! accepts and sends, as a target does, and measures. tests/bench/qtcp-bases.sh puts a marking
//! bottleneck between the two.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints")]

#[cfg(feature = "bpf")]
mod bpf;
mod measure;
mod send;
#[cfg(feature = "bpf")]
mod window;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use qtcp::linux::options;

#[derive(Debug, Parser)]
enum Command {
    /// Reads from several connections until the sender closes them.
    Sink {
        /// Address and port of the sender.
        address: SocketAddr,
        /// The number of connections.
        #[arg(long, default_value_t = 3)]
        flows: usize,
        /// The sender's congestion control; dctcp is used here too, since both ends need it.
        #[arg(long)]
        base: Option<String>,
    },
    /// Accepts a connection for each weight, sends on all of them, and prints the rate of each.
    Send(send::Settings),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Sink { address, flows, base } => sink(address, flows, base.as_deref()),
        Command::Send(settings) => send::run(&settings),
    }
}

fn sink(address: SocketAddr, flows: usize, base: Option<&str>) -> Result<()> {
    let sockets = (0..flows).map(|_| connect(address)).collect::<Result<Vec<_>>>()?;
    for (socket, base) in sockets.iter().zip(std::iter::repeat(base)) {
        let Some(base) = base.filter(|&name| name == "dctcp") else { break };
        options::set_congestion(socket.as_fd(), base).with_context(|| base.to_owned())?;
    }
    let readers = sockets.into_iter().map(|mut socket| {
        thread::spawn(move || {
            let mut room = vec![0; 1 << 18];
            while socket.read(&mut room).is_ok_and(|got| got > 0) {}
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        let _ = reader.join();
    }
    Ok(())
}

/// Connects as soon as the sender listens.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    for _ in 0..100 {
        if let Ok(socket) = TcpStream::connect(address) {
            return Ok(socket);
        }
        thread::sleep(Duration::from_millis(50));
    }
    TcpStream::connect(address).with_context(|| format!("connecting to {address}"))
}
