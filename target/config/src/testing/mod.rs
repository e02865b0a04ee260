//! Helpers for other modules' tests: random valid configurations, and configurations from text for a fixed machine.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod network;
mod pmem;
mod qos;

use std::collections::BTreeSet;
use std::path::Path;

use arbitration::overload::RetryDelays;
use ipnet::IpNet;
use proptest::prelude::*;
use uuid::Uuid;

use crate::{
    AllowedHost, Backend, ChosenCores, ClockSource, Config, ConfigErrors, HostRights,
    ListenAddress, Listener, Machine, Namespace, Poll, SecureChannel, Subsystem, TargetConfig,
    Transport,
};

pub use qos::{rates, total};

/// Returns a machine with four CPUs.
pub fn machine() -> Machine {
    Machine {
        cores: Some((0..4).collect()),
        auto: ChosenCores { cores: vec![2, 3], reason: "half of the 4 usable cores".into() },
        control: "/run/sluicegate/control.sock".into(),
    }
}

/// Parses a configuration for that machine.
///
/// # Errors
/// As [`Config::parse`].
pub fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse_for(text, Path::new("test.toml"), &machine())
}

fn namespaces() -> impl Strategy<Value = Vec<Namespace>> {
    let backend = prop_oneof![
        (1u64..1 << 30, any::<bool>()).prop_map(|(blocks, small)| {
            let block_size = if small { 512 } else { 4096 };
            Backend::Memory { size: blocks * 4096, block_size }
        }),
        (1u64..1 << 40, qos::models()).prop_map(|(n, model)| Backend::Null {
            size: n * 4096,
            block_size: 4096,
            model,
        }),
        ("/[a-z\"\\\\ é]{1,9}", any::<Option<bool>>(), any::<bool>()).prop_map(
            |(path, block, direct)| Backend::File {
                path: path.into(),
                size: block.map(|_| 1 << 30),
                block_size: block.map(|small| if small { 512 } else { 4096 }),
                direct,
                create: block.is_some(),
            }
        ),
        ("/[a-z\"\\\\ é]{1,9}", any::<Option<bool>>(), any::<bool>()).prop_map(
            |(path, block, create)| Backend::Pmem {
                path: path.into(),
                size: block.map(|_| 1 << 30),
                block_size: block.map(|small| if small { 512 } else { 4096 }),
                create: create && block.is_some(),
            }
        ),
        (0u32..9, 1u32..9, any::<bool>()).prop_map(|(c, n, forward_class)| Backend::Nvme {
            device: format!("/dev/ng{c}n{n}").into(),
            forward_class,
        }),
    ];
    let flags = (any::<bool>(), any::<bool>());
    let qos = (qos::class(), qos::device());
    let one = (backend, 1u32..40, 1u128..u128::MAX, flags, qos);
    proptest::collection::vec(one, 0..4).prop_map(|list| {
        let (mut nsids, mut paths) = (BTreeSet::new(), BTreeSet::new());
        list.into_iter()
            .filter(|(backend, nsid, ..)| {
                let path = backend.path().map_or_else(|| format!("{nsid}").into(), Path::to_owned);
                nsids.insert(*nsid) && paths.insert(path)
            })
            .map(|(backend, nsid, id, (given, hosts), (class, device))| Namespace {
                nsid: Some(nsid),
                uuid: Some(Uuid::from_u128(id)),
                nguid: Some(id.to_be_bytes()),
                // A file that is only read is not made.
                read_only: given && !backend.creates(),
                force: given,
                backend,
                hosts: hosts.then(|| vec!["nqn.2026-01.io.x:host".into()]),
                class,
                device,
            })
            .collect()
    })
}

/// Makes any configuration that is right.
pub fn configs() -> impl Strategy<Value = Config> {
    let subsystem =
        (namespaces(), any::<bool>(), "[!-~]{1,19}", proptest::option::of("[!-~]{1,40}"));
    let subsystems = proptest::collection::vec(subsystem, 0..3);
    let class = qos::class();
    let listener = (1u16.., any::<bool>(), proptest::option::of(any::<u16>()), class);
    let listeners = proptest::collection::vec(listener, 0..3);
    let target = (0usize..5, 13u32..24, 2u16..1024, 0u64..1_000_000_000, any::<bool>());
    let qos = qos::settings();
    let network = network::networks();
    let pmem = pmem::pmems();
    let all = (subsystems, listeners, target, qos, network, pmem);
    all.prop_map(|(subsystems, listeners, numbers, qos, network, pmem)| {
        let (core, shift, queue_depth, nanos, given) = numbers;
        let mut config = Config {
            target: TargetConfig {
                // One more than there are stands for "auto".
                cores: if core == 4 { machine().auto.cores } else { vec![core] },
                cores_reason: (core == 4).then(|| machine().auto.reason),
                poll: if given { Poll::Always } else { Poll::Never },
                poll_time: std::time::Duration::from_nanos(nanos),
                clock: if given { ClockSource::Monotonic } else { ClockSource::Auto },
                max_transfer: 1 << shift,
                queue_depth,
                admin_queue_depth: queue_depth + 32,
                retry_delays: {
                    let least = u16::try_from(shift).unwrap();
                    RetryDelays::new([least, least, queue_depth % 200 + 100]).unwrap()
                },
                state: given.then(|| "/var/lib/x \"y\"".into()),
                metrics: given.then(|| "127.0.0.1:9090".parse().unwrap()),
                require_authentication: given,
                ..TargetConfig::default()
            },
            network,
            pmem,
            ..Config::default()
        };
        for (port, discovery_only, advertise, class) in listeners {
            let host = if port % 4 == 0 { "[fe80::1%eth0]" } else { "127.0.0.1" };
            let address: ListenAddress = format!("{host}:{port}").parse().unwrap();
            if config.listeners.iter().all(|l| l.address != address) {
                config.listeners.push(Listener {
                    transport: Transport::Tcp,
                    address,
                    advertise: advertise.filter(|p| *p > 0).map(|p| ([10, 0, 0, 1], p).into()),
                    discovery_only,
                    tls: match port % 3 {
                        0 => SecureChannel::Off,
                        1 => SecureChannel::Allowed,
                        _ => SecureChannel::Required,
                    },
                    require_authentication: discovery_only != given,
                    subsystems: None,
                    class,
                    link: config.network.links.get(usize::from(port % 4)).map(|l| l.name.clone()),
                });
            }
        }
        let mut paths = BTreeSet::new();
        for (index, (namespaces, any_host, serial, model)) in subsystems.into_iter().enumerate() {
            let fresh = |namespace: &Namespace| {
                namespace.backend.path().is_none_or(|path| paths.insert(path.to_owned()))
            };
            config.subsystems.push(Subsystem {
                nqn: format!("nqn.2026-01.io.x:s{index}"),
                // No two are the same.
                serial: Some(format!("{serial}{index}")),
                model,
                allow_any_host: any_host,
                require_authentication: any_host != given,
                hosts: vec![
                    "nqn.2026-01.io.x:host".into(),
                    AllowedHost {
                        nqn: "nqn.2026-01.io.x:bound".into(),
                        sources: ["192.0.2.7/32", "198.51.100.0/24", "2001:db8::/32"]
                            .map(|network| network.parse::<IpNet>().unwrap())
                            .into_iter()
                            .collect(),
                        ..AllowedHost::default()
                    },
                    AllowedHost {
                        nqn: "nqn.2026-01.io.x:reader".into(),
                        rights: HostRights {
                            namespaces: given.then(|| [1, 7].into()),
                            read_only: !any_host || !given,
                            max_class: any_host.then_some(arbitration::Class::Medium),
                        },
                        ..AllowedHost::default()
                    },
                ],
                namespaces: namespaces.into_iter().filter(fresh).collect(),
            });
        }
        config.qos = qos.fit(&config.subsystems);
        config
    })
}
