//! The state of quality of service, as answers show it.

use std::collections::BTreeMap;

use arbitration::limit::Rate;
use arbitration::reservation::{Profile, ServiceTime};
use arbitration::session::SessionLimits;
use sluice_config::answer::{
    self, ClassTraffic, CreditUse, DeviceProfile, DeviceTimes, MeanTimes, Reservation,
};
use sluice_config::{Config, Policy, Session, table};

use super::Control;
use super::measured::operations;
use crate::control::objects::Object;
use crate::control::store::{LiveObjects, ObjectId};
use crate::serve::engine::{DeviceState, ReserveState, SessionState, Traffic};

impl Control {
    /// Answers `qos.show`.
    pub(super) fn qos_show(&self, buckets: bool) -> answer::Qos {
        let state = self.engine().qos();
        let config = self.live().current().clone();
        let objects = self.live_objects();
        let policy = |policy: &Policy| {
            let is_live = objects.has(&ObjectId::of::<Policy>(policy.id()));
            table::show(policy).with("live", Some(is_live))
        };
        let classes = state.classes.iter().map(|(class, passed)| ClassTraffic {
            class: class.name().to_owned(),
            traffic: traffic(passed, buckets),
        });
        answer::Qos {
            settings: table::show(&config.qos.general),
            classes: classes.collect(),
            sessions: state
                .sessions
                .iter()
                .map(|row| session(row, &config, &objects, buckets))
                .collect(),
            devices: state.devices.iter().map(|row| device(row, &config)).collect(),
            policies: config.qos.policies.iter().map(policy).collect(),
        }
    }

    /// Answers `profile.list`.
    pub(super) fn profile_list(&self) -> Vec<answer::ProfileSettings> {
        let config = self.live().current().clone();
        let objects = self.live_objects();
        let profile = |profile: &sluice_config::Profile| {
            let is_live = objects.has(&ObjectId::of::<sluice_config::Profile>(profile.id()));
            table::show(profile).with("live", Some(is_live))
        };
        config.qos.profiles.iter().map(profile).collect()
    }

    /// Answers `session.list`.
    pub(super) fn session_list(&self) -> Vec<answer::Session> {
        let config = self.live().current().clone();
        let (objects, sessions) = (self.live_objects(), self.engine().qos().sessions);
        sessions.iter().map(|row| session(row, &config, &objects, false)).collect()
    }
}

fn traffic(passed: &Traffic, buckets: bool) -> answer::Traffic {
    answer::Traffic {
        waiting: passed.waiting,
        refused: passed.refused,
        io: operations(&passed.io, buckets),
    }
}

fn session(
    row: &SessionState,
    config: &Config,
    objects: &LiveObjects,
    buckets: bool,
) -> answer::Session {
    let entry = config.qos.sessions.iter().find(|entry| entry.name == row.name);
    let credits =
        |(used, credits): (u64, u64), share: Option<u8>| CreditUse { used, credits, share };
    let SessionLimits { total, reads, writes, .. } = row.limits;
    answer::Session {
        name: row.name.clone(),
        parent: row.parent.clone(),
        automatic: row.automatic,
        operations: credits(row.operations, entry.and_then(|entry| entry.operations)),
        payload: credits(row.payload, entry.and_then(|entry| entry.payload)),
        limits: answer::Limits {
            iops: total.iops.map(Rate::get),
            bandwidth: total.bandwidth.map(Rate::get),
            read_iops: reads.iops.map(Rate::get),
            read_bandwidth: reads.bandwidth.map(Rate::get),
            write_iops: writes.iops.map(Rate::get),
            write_bandwidth: writes.bandwidth.map(Rate::get),
        },
        profile: entry.and_then(|entry| entry.profile.clone()),
        queue: row.queue,
        weight: row.weight,
        reserve: row.reserve.as_ref().map(reservation),
        live: objects.has(&ObjectId::of::<Session>(row.name.as_str())),
        traffic: traffic(&row.traffic, buckets),
    }
}

fn reservation(reserve: &ReserveState) -> Reservation {
    Reservation {
        namespace: reserve.namespace.clone(),
        terms: reserve.terms.clone(),
        utilisation: reserve.utilisation,
        periods: reserve.periods,
        kept: reserve.kept,
        missed: missed(reserve),
        last_miss: reserve.last_miss.clone(),
        floors: reserve.floors.clone(),
        promised: reserve.promised,
        late: reserve.late,
    }
}

/// Returns the periods that were missed, by cause.
fn missed(reserve: &ReserveState) -> BTreeMap<String, u64> {
    let causes = reserve.missed.iter().filter(|(_, periods)| *periods > 0);
    causes.map(|(cause, periods)| ((*cause).to_owned(), *periods)).collect()
}

fn device(row: &DeviceState, config: &Config) -> answer::DeviceRow {
    let waiting = row.waiting.iter().map(|(class, n)| (class.name().to_owned(), *n)).collect();
    let mut subsystems = config.subsystems.iter().filter(|s| s.nqn == row.subsystem);
    let namespace = subsystems.find_map(|s| s.namespaces.iter().find(|n| n.nsid == Some(row.nsid)));
    let class = namespace.and_then(|namespace| namespace.class);
    let ordered = namespace.filter(|of| of.device.order == sluice_config::Order::Containers);
    answer::DeviceRow {
        subsystem: row.subsystem.clone(),
        nsid: row.nsid,
        class: class.map(|class| class.name().to_owned()),
        arbitrated: row.arbitrated,
        window: row.window,
        bound: row.bound.clone(),
        in_use: row.in_use,
        waiting,
        mean_ns: MeanTimes { read: row.mean_ns.0, write: row.mean_ns.1 },
        reserved: row.reserved,
        profile: row.profile.as_ref().map(profile),
        containers: ordered.zip(row.profile.as_ref()).and_then(|(of, profile)| {
            containers(arbitration::nanos(of.device.deadline()), profile)
        }),
    }
}

/// Shows how many hosts with such a deadline a device has time for; `None` where its times are not known.
fn containers(latency_ns: u64, profile: &Profile) -> Option<answer::ContainerPromise> {
    let command_ns = profile.read.mean.0;
    let hosts = latency_ns.checked_div(command_ns)?;
    Some(answer::ContainerPromise { latency_ns, command_ns, hosts })
}

/// Shows a device's times: of one command, while the profile counts shares of the device.
fn profile(of: &Profile) -> DeviceProfile {
    let alone = |ns: u64| ns.saturating_mul(of.parallelism.into());
    let times = |time: ServiceTime, per_kib: u64| DeviceTimes {
        mean_ns: alone(time.mean.0),
        worst_ns: alone(time.worst.0),
        per_kib_ns: alone(per_kib),
    };
    DeviceProfile {
        parallelism: of.parallelism,
        read: times(of.read, of.per_kib.read),
        write: times(of.write, of.per_kib.write),
    }
}
