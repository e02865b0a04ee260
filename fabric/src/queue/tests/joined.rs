//! Both ends of a queue, joined by wires that hold units in transit.

use core::error::Error;
use core::fmt::Debug;
use core::ops::DerefMut;

use proptest::prelude::*;

use crate::queue::{HostReceived, HostTransport, Payload, Received, Transport};
use crate::rdma::wire::host_nic::HostNic;
use crate::rdma::wire::nic::{self, NicHost, NicTarget};
use crate::rdma::wire::{QueueParams, TargetQueue};
use crate::tcp::{HostConnection, HostParams, TargetConnection, TargetParams, Tx};

pub(super) type Event<T> = Result<Option<T>, Box<dyn Error>>;

/// A transport as the suite drives it.
pub(super) trait Joined {
    /// The settings of a pair of ends.
    type Settings: Clone + Debug;
    /// Units that arrive at the target, and at the host.
    type ToTarget: Clone + Debug;
    type ToHost: 'static;
    /// The ends, with what carries their messages.
    type Target: DerefMut<Target: Transport<Payload = Vec<u8>>>;
    type Host: DerefMut<Target: HostTransport<Payload = Vec<u8>>>;

    fn settings() -> BoxedStrategy<Self::Settings>;
    /// Makes the largest settings, with which data moves in one piece.
    fn plain() -> Self::Settings;
    fn target(settings: &Self::Settings) -> Self::Target;
    fn host(settings: &Self::Settings) -> Self::Host;
    fn next<'a>(target: &mut Self::Target, input: &mut &'a [Self::ToTarget])
    -> Event<Received<'a>>;
    fn host_next<'a>(
        host: &mut Self::Host,
        input: &mut &'a [Self::ToHost],
    ) -> Event<HostReceived<'a>>;
    /// Removes units that the target sends, of bytes `limit` at the most.
    fn from_target(target: &mut Self::Target, limit: usize) -> Vec<Self::ToHost>;
    /// Removes units that the host sends, of bytes `limit` at the most.
    fn from_host(host: &mut Self::Host, limit: usize) -> Vec<Self::ToTarget>;
    /// Returns the bytes that these units are, where the target said that data arrives.
    fn data(units: &[Self::ToTarget]) -> &[u8];
}

/// NVMe/TCP, whose units are bytes.
#[derive(Debug)]
pub(super) struct Tcp;

fn sent<P: Payload>(tx: &mut Tx<P>, limit: usize) -> Vec<u8> {
    tx.begin();
    let bytes: Vec<u8> = tx.slices().flatten().take(limit).copied().collect();
    if !bytes.is_empty() {
        tx.advance(bytes.len());
    }
    bytes
}

impl Joined for Tcp {
    type Settings = (TargetParams, HostParams);
    type ToTarget = u8;
    type ToHost = u8;
    type Target = Box<TargetConnection<Vec<u8>>>;
    type Host = Box<HostConnection<Vec<u8>>>;

    fn settings() -> BoxedStrategy<Self::Settings> {
        let sizes = (4096u32..30_000, 512u32..50_000, 512u32..50_000);
        let maxr2t = prop_oneof![0u32..7, Just(u32::MAX)];
        let settings = ((0u8..=31, 0u8..=31), any::<[bool; 4]>(), sizes, maxr2t);
        settings
            .prop_map(|((cpda, hpda), digests, sizes, maxr2t)| {
                let [header_digest, data_digest, ask_header, ask_data] = digests;
                let (max_h2c_data, max_r2t_data, max_c2h_data) = sizes;
                let target = TargetParams {
                    cpda,
                    header_digest,
                    data_digest,
                    max_h2c_data,
                    max_r2t_data,
                    max_c2h_data,
                    ..TargetParams::default()
                };
                let (header_digest, data_digest) = (ask_header, ask_data);
                (target, HostParams { hpda, header_digest, data_digest, maxr2t })
            })
            .boxed()
    }

    fn plain() -> Self::Settings {
        (TargetParams::default(), HostParams::default())
    }

    fn target((params, _): &Self::Settings) -> Self::Target {
        Box::new(TargetConnection::new(*params))
    }

    fn host((_, params): &Self::Settings) -> Self::Host {
        Box::new(HostConnection::new(*params))
    }

    fn next<'a>(target: &mut Self::Target, input: &mut &'a [u8]) -> Event<Received<'a>> {
        Ok(target.next(input)?)
    }

    fn host_next<'a>(host: &mut Self::Host, input: &mut &'a [u8]) -> Event<HostReceived<'a>> {
        Ok(host.next(input)?)
    }

    fn from_target(target: &mut Self::Target, limit: usize) -> Vec<u8> {
        sent(target.tx(), limit)
    }

    fn from_host(host: &mut Self::Host, limit: usize) -> Vec<u8> {
        sent(host.tx(), limit)
    }

    fn data(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

/// NVMe/RDMA, whose units are messages between the devices at both ends.
#[derive(Debug)]
pub(super) struct Rdma;

impl Joined for Rdma {
    /// The target's parameters, and whether the host wants its key invalidated.
    type Settings = (QueueParams, bool);
    type ToTarget = nic::ToTarget;
    type ToHost = nic::ToHost;
    type Target = NicTarget;
    type Host = NicHost;

    fn settings() -> BoxedStrategy<Self::Settings> {
        let max_read = prop_oneof![Just(u32::MAX), 1u32..20_000];
        (1u16..4, max_read, 1u16..6, any::<bool>())
            .prop_map(|(reads, max_read, posts, invalidate)| {
                let plain = Self::plain().0;
                (QueueParams { reads, max_read, posts, ..plain }, invalidate)
            })
            .boxed()
    }

    fn plain() -> Self::Settings {
        let params = QueueParams {
            qid: 1,
            entries: u16::MAX,
            in_capsule_data: 1 << 20,
            reads: 16,
            max_read: u32::MAX,
            posts: 128,
        };
        (params, false)
    }

    fn target((params, _): &Self::Settings) -> NicTarget {
        TargetQueue::new(*params).into()
    }

    fn host((_, invalidate): &Self::Settings) -> NicHost {
        HostNic::new(12, 50_000, *invalidate).into()
    }

    fn next<'a>(target: &mut NicTarget, input: &mut &'a [nic::ToTarget]) -> Event<Received<'a>> {
        Ok(target.next(input)?)
    }

    fn host_next<'a>(host: &mut NicHost, input: &mut &'a [nic::ToHost]) -> Event<HostReceived<'a>> {
        Ok(host.next(input)?)
    }

    fn from_target(target: &mut NicTarget, _: usize) -> Vec<nic::ToHost> {
        target.transmit()
    }

    fn from_host(host: &mut NicHost, _: usize) -> Vec<nic::ToTarget> {
        host.transmit()
    }

    fn data(_: &[nic::ToTarget]) -> &[u8] {
        panic!("capsules bring their bytes with them")
    }
}
