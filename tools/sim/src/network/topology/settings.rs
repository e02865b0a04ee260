//! The properties of links and switches.

use core::time::Duration;

use units::nanos;

use super::error::TopologyError;

/// The headers of TCP over IP in bytes: 20 of each, and 12 of TCP's timestamps (RFC 7323).
pub(in super::super) const TCP_HEADERS: u32 = 52;
/// The headers of a packet of RDMA over converged Ethernet (RoCEv2) in bytes: 20 of IP, 8 of UDP, 12
/// of the base transport header, 4 of its check (InfiniBand specification 1.4, annex A17).
pub(in super::super) const RDMA_HEADERS: u32 = 44;

/// The sizes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets {
    /// The most bytes of an IP packet.
    pub mtu: u32,
    /// The bytes of a frame beside the IP packet: 38 on Ethernet (header and check 18, preamble 8,
    /// gap 12), 2 in the point-to-point links of the source's simulator.
    pub frame: u32,
}

impl Default for Packets {
    /// Makes the sizes of Ethernet.
    fn default() -> Self {
        Self { mtu: 1500, frame: 38 }
    }
}

impl Packets {
    /// Returns the most bytes of data in a packet of TCP.
    #[must_use]
    pub const fn segment(self) -> u32 {
        self.mtu.saturating_sub(TCP_HEADERS)
    }

    /// Returns the most bytes of data in a packet of RDMA: a power of two from 256 to 4096, with
    /// which the headers fit.
    #[must_use]
    pub const fn message(self) -> u32 {
        let mut bytes = 4096;
        while bytes > 256 && bytes + RDMA_HEADERS + 16 > self.mtu {
            bytes /= 2;
        }
        bytes
    }

    pub(super) fn check(self) -> Result<(), TopologyError> {
        let range = "576 to 65000 bytes, and 1500 or 9000 on most networks";
        require(
            "mtu",
            (576..=65_000).contains(&self.mtu),
            || format!("{} bytes", self.mtu),
            range,
        )?;
        let frame = || format!("{} bytes", self.frame);
        require("frame", self.frame <= 256, frame, "0 to 256 bytes, 38 on Ethernet")
    }
}

/// The properties of a link, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The rate in bits per second.
    pub rate: u64,
    /// The time of a bit to the far end.
    pub delay: Duration,
}

impl Link {
    pub(super) fn check(&self) -> Result<(), TopologyError> {
        let rate = || format!("{} bit/s", self.rate);
        let range = "1000 (1 kbit/s) to 10000000000000 (10 Tbit/s)";
        require("rate", (1_000..=10_000_000_000_000).contains(&self.rate), rate, range)?;
        let delay = || format!("{:?}", self.delay);
        require("delay", self.delay <= Duration::from_secs(10), delay, "0 to 10 seconds")
    }
}

/// When a queue marks packets of senders that react to marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marking {
    /// Packets that find so many packets waiting (K of DCTCP).
    Packets(u32),
    /// Packets that find so many bytes waiting.
    Bytes(u64),
    /// No packets that find fewer bytes than `from` waiting, all packets that find more than `to`, and between the two
    /// a part that grows from 0 to `most`. DCQCN's paper has 5 KB, 200 KB and 1 % at 40 Gb/s.
    Ramp {
        /// Bytes up to which nothing is marked.
        from: u64,
        /// Bytes from which on everything is marked.
        to: u64,
        /// The part that is marked just below `to`, 0.0 to 1.0.
        most: f64,
    },
}

/// Priority flow control (IEEE 802.1Qbb): a switch pauses a sender before its buffer is full, each
/// queue on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The bytes that came over one link into one queue and wait, above which that link is paused.
    pub pause: u64,
    /// The bytes at which it goes on.
    pub resume: u64,
}

/// The properties of a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// The bytes of the buffer that all ports share.
    pub buffer: u64,
    /// The part of the free buffer that one queue may take, such as 1.0: the dynamic threshold of
    /// Choudhury and Hahne, 1998. Of no meaning with pauses.
    pub share: f64,
    /// When packets are marked; `None`: never.
    pub marking: Option<Marking>,
    /// Whether Urgent (DSCP 46) goes before all others, without interrupting a packet in transmission
    /// (docs/research/sources.md, E12).
    pub priority: bool,
    /// The bytes of the buffer that are for Urgent alone, at each port (P of the source). It has
    /// its share of the rest, too. Of no meaning without priority.
    pub reserved: u64,
    /// When senders are paused; `None`: never.
    pub pause: Option<Pause>,
    /// The part of all packets that are lost at random, 0.0 to 1.0.
    pub loss: f64,
}

impl Default for Switch {
    /// Makes a switch with the 12 MB of a data centre's (of which one queue gets half), which marks
    /// from 140 packets on, as the source's evaluation has it, and knows no priorities.
    fn default() -> Self {
        Self {
            buffer: 12_000_000,
            share: 1.0,
            marking: Some(Marking::Packets(140)),
            priority: false,
            reserved: 0,
            pause: None,
            loss: 0.0,
        }
    }
}

impl Switch {
    /// Checks the switch with its links.
    pub(super) fn check(&self, links: &[Link], packets: Packets) -> Result<(), TopologyError> {
        let buffer = || format!("{} bytes", self.buffer);
        let range = "10000 bytes to 10 GB, such as 12 MB";
        require("buffer", (10_000..=10_000_000_000).contains(&self.buffer), buffer, range)?;
        let share = || self.share.to_string();
        let range = "0.01 to 64, such as 1.0";
        require("share", (0.01..=64.0).contains(&self.share), share, range)?;
        let loss = || self.loss.to_string();
        let range = "0.0 to below 1.0, such as 0.001 for one packet in a thousand";
        require("loss", (0.0..1.0).contains(&self.loss), loss, range)?;
        if let Some(Marking::Ramp { from, to, most }) = self.marking {
            let ramp = || format!("from {from} to {to} bytes");
            require("ramp", from < to, ramp, "from fewer bytes to more")?;
            require("most", (0.0..=1.0).contains(&most), || most.to_string(), "0.0 to 1.0")?;
        }
        let ports = links.len();
        let mut left = self.buffer;
        if self.priority {
            let all = self.reserved.saturating_mul(ports as u64);
            left = left.saturating_sub(all);
            if left == 0 {
                let (buffer, reserved) = (self.buffer, self.reserved);
                return Err(TopologyError::Reserved { buffer, reserved, ports });
            }
        }
        match self.pause {
            None => Ok(()),
            Some(Pause { pause, resume }) if resume > pause => {
                Err(TopologyError::Resume { pause, resume })
            }
            Some(Pause { pause, .. }) => {
                let queues = if self.priority { 2 } else { 1 };
                let coming = links.iter().map(|link| pause.saturating_add(link.coming(packets)));
                let all = coming.fold(0, u64::saturating_add).saturating_mul(queues);
                let needed = all.saturating_add(self.buffer - left);
                if needed <= self.buffer {
                    return Ok(());
                }
                Err(TopologyError::Headroom { buffer: self.buffer, pause, ports, needed })
            }
        }
    }
}

impl Link {
    /// Computes the bytes that still arrive after a pause was sent: the bytes on the way there and back, and the
    /// packets in transmission at both ends.
    fn coming(self, packets: Packets) -> u64 {
        let travel = u128::from(nanos(self.delay)) * 2 * u128::from(self.rate) / 8_000_000_000;
        let packet = u64::from(packets.mtu + packets.frame);
        u64::try_from(travel).unwrap_or(u64::MAX).saturating_add(3 * packet + PAUSE_FRAME)
    }
}

/// The bytes of a pause on the wire.
pub(in super::super) const PAUSE_FRAME: u64 = 64 + 20;

/// Returns an error unless the value is valid.
fn require(
    key: &'static str,
    fits: bool,
    value: impl FnOnce() -> String,
    range: &'static str,
) -> Result<(), TopologyError> {
    if fits { Ok(()) } else { Err(TopologyError::Range { key, value: value(), range }) }
}
