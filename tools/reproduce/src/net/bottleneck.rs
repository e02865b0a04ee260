//! Classes of senders on one bottleneck, on which most figures of the network run.

use std::ops::Range;

use crate::models::law::{self, FLOOR, Lambda, SIGMA, Settings, WindowControl};
use qtcp::Rate;
use serde::Deserialize;

use super::Network;
use super::port::PortSetup;
use super::record::Record;
use super::sender::{Deadline, SenderSetup};
use super::shares::Shares;
use super::time::Time;
use super::traffic::{Size, SourceSetup};

/// Bytes of a packet on the wire, as the source's evaluation has them: with these, its threshold of
/// 140 packets is 0.17 of what 100 Gb/s carry in 98 us.
pub(crate) const WIRE: u32 = 1500;
/// Bytes of payload in it: 20 each of IP and TCP, 12 of TCP's timestamps.
pub(crate) const PAYLOAD: u32 = 1448;
/// 100 Gb/s.
pub(crate) const LINK: u64 = 100_000_000_000;

/// The law that decides the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Law {
    /// DCTCP: equal parts.
    Dctcp,
    /// QTCP: parts by class.
    Qtcp,
    /// QTCP with Fig. 15a: parts by class of what others leave.
    Interference,
    /// D2TCP: by deadlines.
    D2tcp,
}

impl Law {
    /// Returns the name for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dctcp => "DCTCP",
            Self::Qtcp => "QTCP",
            Self::Interference => "QTCP with Fig. 15a",
            Self::D2tcp => "D2TCP",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Bottleneck {
    /// Bits per second on the wire.
    pub(crate) rate: u64,
    /// The packets in the queue from which on packets are marked.
    pub(crate) threshold: usize,
    /// The round-trip time without queues.
    pub(crate) rtt: Time,
    /// The classes' shares of the bottleneck.
    pub(crate) shares: Vec<f64>,
    /// The part of the payload rate that targets add up to.
    pub(crate) targets: f64,
    /// The settings of new controllers.
    pub(crate) settings: Settings,
}

impl Bottleneck {
    /// Computes the bits of payload per second that the link carries.
    pub(crate) fn goodput(&self) -> f64 {
        self.rate as f64 * f64::from(PAYLOAD) / f64::from(WIRE)
    }

    /// Computes the sum of all classes' targets, in bits of payload per second.
    pub(crate) fn shared(&self) -> f64 {
        self.goodput() * self.targets
    }

    /// Computes the target of a class in bits of payload per second: all its flows together.
    pub(crate) fn target(&self, class: usize) -> f64 {
        let share = self.shares.get(class).copied().unwrap_or_default();
        self.shared() * (share / self.shares.iter().sum::<f64>())
    }

    /// Makes the controller of a new flow.
    fn controller(&self, law: Law) -> WindowControl {
        let law = match law {
            Law::Dctcp => law::Law::Dctcp,
            Law::Qtcp => law::Law::Qtcp,
            Law::D2tcp => law::Law::D2tcp,
            Law::Interference => {
                let lambda = Lambda::new(Rate::from_bits(self.shared()), SIGMA, FLOOR);
                law::Law::Interference(lambda)
            }
        };
        WindowControl::new(law, &self.settings)
    }

    /// Makes a network whose link is the bottleneck.
    pub(crate) fn network(&self, record: Record) -> Network {
        let threshold = Some(self.threshold);
        let link = PortSetup { rate: self.rate, delay: self.rtt / 2, threshold };
        let mut network = Network::new(link, record);
        network.share(Shares::new(Rate::from_bits(self.shared()), self.shares.clone()));
        network
    }

    /// Adds flows over the bottleneck. Returns their numbers.
    pub(crate) fn flows(
        &self,
        network: &mut Network,
        law: Law,
        class: Option<usize>,
        count: u32,
        deadline: Option<Deadline>,
    ) -> Range<u32> {
        let mut numbers = 0..0;
        for _ in 0..count {
            let number = network.flow(SenderSetup {
                back: self.rtt - self.rtt / 2,
                payload: PAYLOAD,
                wire: WIRE,
                class,
                deadline,
                controller: self.controller(law),
            });
            numbers =
                if numbers.is_empty() { number..number + 1 } else { numbers.start..number + 1 };
        }
        numbers
    }
}

/// Makes settings with RFC 8257's gain, not the half of the source's text after Eq. (3): with a
/// half, each congestion costs a quarter of the windows, and the link is used to nine tenths. Flows
/// start without a history of marks.
pub(crate) fn settings() -> Settings {
    Settings { initial_alpha: 0.0, gamma: 0.125, ..Settings::default() }
}

/// The shares of High, Medium and Low.
pub(crate) const SHARES: [f64; 3] = [3.0, 2.0, 1.0];

/// Computes the part of the whole that a share is.
pub(crate) fn part(share: f64) -> f64 {
    share / SHARES.iter().sum::<f64>()
}

/// Makes a source that offers `bits` per second on the wire to these flows.
pub(crate) fn offer(bits: f64, size: Size, flows: Range<u32>) -> SourceSetup {
    let rate = bits / 8.0 * f64::from(PAYLOAD) / f64::from(WIRE);
    SourceSetup { size, rate, flows: flows.collect() }
}
