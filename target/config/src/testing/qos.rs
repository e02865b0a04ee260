//! Random settings of quality of service.

use std::time::Duration;

use arbitration::limit::{Rate, Rates};
use arbitration::reservation::{Budget, Locality, Terms};
use arbitration::settings::{OrderSettings, Unit, Weights, WindowRule};
use arbitration::{Class, Nanos, PerClass};
use proptest::prelude::*;

use crate::{
    DeviceModel, DeviceQos, Limits, Order, Policy, Profile, Qos, QosConfig, Reserve, Session,
    Subsystem,
};

/// Makes classes, or none.
pub(crate) fn class() -> impl Strategy<Value = Option<Class>> {
    proptest::option::of(proptest::sample::select(Class::ALL.to_vec()))
}

fn window() -> impl Strategy<Value = WindowRule> {
    prop_oneof![
        Just(WindowRule::Off),
        (1u32..=65_536).prop_map(WindowRule::Fixed),
        (1000u64..10_000_000_000, 1u32..=65_536)
            .prop_map(|(ns, max)| WindowRule::Adaptive { target: Nanos(ns), max }),
    ]
}

/// Makes models of devices for null namespaces, or none.
pub(crate) fn models() -> impl Strategy<Value = Option<DeviceModel>> {
    let bandwidth = proptest::option::of(1u64..1 << 40);
    let errors = proptest::option::of(1u8..=100);
    proptest::option::of((0u64..10_000_000_000, bandwidth, 1u32..=4096, errors).prop_map(
        |(ns, bandwidth, channels, errors)| DeviceModel {
            service_time: Duration::from_nanos(ns),
            bandwidth,
            channels,
            errors,
        },
    ))
}

/// Makes any settings that a namespace's device can have.
pub(crate) fn device() -> impl Strategy<Value = DeviceQos> {
    let time = proptest::option::of((1000u64..5_000_000_000).prop_map(Duration::from_nanos));
    let parallelism = proptest::option::of(1u32..=4096);
    let seeks = proptest::option::of(any::<bool>());
    let order = (proptest::option::of(any::<bool>()), parallelism, seeks);
    (proptest::option::of(window()), order, time.clone(), time).prop_map(
        |(window, (flush, parallelism, seeks), target, mean)| DeviceQos {
            window,
            order: if flush.is_some() { Order::Containers } else { Order::Fair },
            latency_target: match window {
                Some(WindowRule::Adaptive { target, .. }) => Some(Duration::from_nanos(target.0)),
                _ => target.filter(|_| flush.is_some()),
            },
            seeks,
            flush_is_output: flush == Some(true),
            mean_time: mean,
            worst_time: mean.map(|mean| mean * 2),
            parallelism,
        },
    )
}

fn general() -> impl Strategy<Value = Qos> {
    let weight = || 1u16..=256;
    let unit = prop::sample::select(vec![Unit::Commands, Unit::Bytes, Unit::Time]);
    let order = (weight(), weight(), weight(), 0u32..8, 1u8..=90, unit);
    let limits = (1u32..1 << 24, 4096u64..1 << 40, 1u32..1 << 24);
    let marks = (0u8..64, 0u8..64, 0u8..64, 0u8..64);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (order, limits, marks, flags, window()).prop_map(|(order, limits, marks, flags, window)| {
        let (high, medium, low, burst, urgent_share, unit) = order;
        let some = Qos {
            enabled: flags.0,
            order: OrderSettings {
                weights: Weights { high, medium, low },
                unit,
                burst: if burst == 7 { u16::MAX } else { 1 << burst },
                urgent_share,
            },
            window,
            operations: limits.0,
            payload: limits.1,
            queue: limits.2,
            wrr: flags.1,
            dscp: PerClass { urgent: marks.0, high: marks.1, medium: marks.2, low: marks.3 },
            // Keys that are added later have their defaults here.
            ..Qos::default()
        };
        Qos { mark: flags.2, ..some }
    })
}

fn terms() -> impl Strategy<Value = Terms> {
    let period = 1_000_000u64..60_000_000_000;
    let rest = (512u32..1 << 24, 0u8..=120, any::<bool>());
    let latency = proptest::option::of((2_000_000u64..60_000_000_000).prop_map(Nanos));
    let bounds = (latency, 1u32..=65_536, 1u32..=60);
    let all = (0u8..3, 1000u64..1_000_000, period, rest, bounds);
    all.prop_map(|(kind, n, period, rest, (latency, burst, buffers))| Terms {
        budget: match kind {
            0 => Budget::Operations(n),
            1 => Budget::Bytes(n),
            _ => Budget::DeviceTime(Nanos(n)),
        },
        period: Nanos(period),
        request_bytes: rest.0,
        write_percent: rest.1.min(100),
        locality: if rest.2 { Locality::Random } else { Locality::Sequential },
        latency,
        burst,
        buffers: if rest.1 >= 100 && latency.is_none() { buffers } else { 1 },
    })
}

/// Makes rates per second.
pub fn rates(iops: Option<u64>, bandwidth: Option<u64>) -> Rates {
    let rate = |rate: u64| Rate::per_second(rate).unwrap();
    Rates { iops: iops.map(rate), bandwidth: bandwidth.map(rate) }
}

/// Makes limits on all commands.
pub fn total(iops: Option<u64>, bandwidth: Option<u64>) -> Limits {
    Limits { total: rates(iops, bandwidth), ..Limits::default() }
}

/// Settings whose sessions and policies are not yet fitted to subsystems.
#[derive(Debug)]
pub(crate) struct Loose {
    general: Qos,
    sessions: Vec<(Option<u8>, Option<u64>, Option<Terms>)>,
    policies: Vec<(Option<Class>, bool)>,
}

/// Makes any settings of quality of service, not yet fitted to subsystems.
pub(crate) fn settings() -> impl Strategy<Value = Loose> {
    let limits = (
        proptest::option::of(1u8..=20),
        proptest::option::of(1u64..1 << 40),
        proptest::option::of(terms()),
    );
    let sessions = proptest::collection::vec(limits, 0..5);
    let policies = proptest::collection::vec((class(), any::<bool>()), 0..5);
    (general(), sessions, policies).prop_map(|(general, sessions, policies)| Loose {
        general,
        sessions,
        policies,
    })
}

impl Loose {
    /// Makes sessions and policies that are right for these subsystems.
    pub(crate) fn fit(self, subsystems: &[Subsystem]) -> QosConfig {
        let mut sessions: Vec<Session> = Vec::new();
        let namespace = subsystems
            .iter()
            .find_map(|s| Some(format!("{}/{}", s.nqn, s.namespaces.first()?.nsid?)));
        for (index, (share, rate, terms)) in self.sessions.into_iter().enumerate() {
            let automatic = namespace.clone().filter(|_| index == 3);
            let per_gib = automatic.as_ref().and(rate);
            sessions.push(Session {
                limits: Limits {
                    total: rates(rate, rate),
                    per_gib: rates(per_gib, per_gib),
                    reads: rates(rate, None),
                    writes: rates(None, rate),
                    burst: share.map(|share| Duration::from_millis(share.into())),
                },
                name: automatic.unwrap_or_else(|| format!("s{index}")),
                parent: sessions.first().map(|first| first.name.clone()),
                operations: share,
                payload: share,
                profile: share.map(|_| "p".to_owned()),
                queue: share.map(u32::from),
                weight: share.map(|share| u16::from(share) * 50),
                reserve: terms
                    .zip(namespace.clone())
                    .map(|(terms, name)| Reserve { terms, namespace: Some(name) }),
            });
        }
        let profile = |session: &Session| {
            let Limits { total, burst, .. } = session.limits;
            Profile { name: "p".to_owned(), limits: Limits { total, burst, ..Limits::default() } }
        };
        let named = sessions.iter().find(|session| session.profile.is_some());
        let profiles: Vec<Profile> = named.map(profile).into_iter().collect();
        let mut policies: Vec<Policy> = Vec::new();
        for (index, (class, capped)) in self.policies.into_iter().enumerate() {
            let policy = Policy {
                host: Some(format!("nqn.2026-01.io.x:h{index}")),
                subsystem: subsystems.first().map(|s| s.nqn.clone()),
                nsid: None,
                addresses: capped
                    .then(|| "2001:db8::/32".parse::<ipnet::IpNet>().unwrap())
                    .into_iter()
                    .collect(),
                class,
                max_class: capped.then_some(Class::Urgent),
                urgent_iops: capped.then_some(7),
                session: sessions.first().map(|s| s.name.clone()),
            };
            if !policy.says_nothing() {
                policies.push(policy);
            }
        }
        QosConfig { general: self.general, sessions, profiles, policies }
    }
}
