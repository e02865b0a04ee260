//! `[target]`: the settings of the daemon as a whole.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::amounts::{format_duration, format_size};
use crate::cores::ChosenCores;
use crate::keys::ConfigKey;
use crate::keys::TARGET;
use arbitration::device::REACTORS_MAX;
use arbitration::overload::RetryDelays;

use super::fields::{At, Fields, List, Problems, Wrong};
use super::lines::quote_list;
use super::machine::Machine;
use super::node::{Node, Value};
use super::polling::{ClockSource, Poll};
use super::table::{self, Field, Written, read_already, table};
use super::values::{self, Read};

/// The number of largest transfers that I/O buffers hold at least.
const TRANSFERS_MIN: u64 = 2;

/// `[target]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetConfig {
    /// `cores`: CPU numbers, one reactor thread pinned to each.
    pub cores: Vec<usize>,
    /// Why these cores were chosen, for `cores = "auto"`; `None` where the configuration names them.
    pub cores_reason: Option<String>,
    /// `poll`: the behaviour of a reactor without work.
    pub poll: Poll,
    /// `poll_time`: with `poll = "adaptive"`, how long a reactor without work keeps polling.
    pub poll_time: Duration,
    /// `clock`: the source of the daemon's time.
    pub clock: ClockSource,
    /// `io_memory`: bytes of I/O buffers for each reactor.
    pub io_memory: u64,
    /// `max_transfer`: the largest data transfer of one command in bytes; a power of two.
    pub max_transfer: u32,
    /// `in_capsule_data`: the largest in-capsule data of an I/O command in bytes.
    pub in_capsule_data: u32,
    /// `rdma_in_capsule_data`: the same over RDMA.
    pub rdma_in_capsule_data: u32,
    /// `queue_depth`: entries of the largest I/O queue.
    pub queue_depth: u16,
    /// `admin_queue_depth`: entries of the largest admin queue.
    pub admin_queue_depth: u16,
    /// `max_queues`: I/O queues for each controller.
    pub max_queues: u16,
    /// `max_connections`: queues of I/O controllers that hosts are promised at one time.
    pub max_connections: u32,
    /// `max_address_connections`: queues of I/O controllers that one address may have; `None` means
    /// half of `max_connections`.
    pub max_address_connections: Option<u32>,
    /// `max_discovery`: discovery controllers at one time.
    pub max_discovery: u32,
    /// `max_waiting`: connections at one time that have sent no Connect.
    pub max_waiting: u32,
    /// `discovery_keep_alive`: the longest keep-alive time of a discovery controller.
    pub discovery_keep_alive: Duration,
    /// `retry_delays`: the times after which hosts may retry refused commands.
    pub retry_delays: RetryDelays,
    /// `state`: file in which live changes are kept; `None` means that they do not survive a
    /// restart.
    pub state: Option<PathBuf>,
    /// `reconnect_time`: how long a host that did not shut its controller down counts as a user of its
    /// namespaces; zero: not at all.
    pub reconnect_time: Duration,
    /// `host_keys`: folder with the secrets of hosts; `None` means that there are none but systemd
    /// credentials.
    pub host_keys: Option<PathBuf>,
    /// `keyring`: the kernel's keyring that has TLS keys of hosts, beside their files; `None`: none has.
    pub keyring: Option<String>,
    /// `require_authentication`: whether all hosts must authenticate.
    pub require_authentication: bool,
    /// `control`: path of the control socket.
    pub control: PathBuf,
    /// `control_group`: the group whose members may use the control socket; `None`: the daemon's own.
    pub control_group: Option<String>,
    /// `control_admins`: the group whose members may change the target; `None`: all who may use the
    /// control socket.
    pub control_admins: Option<String>,
    /// `metrics`: address of the OpenMetrics endpoint; `None` means that metrics are not served.
    pub metrics: Option<SocketAddr>,
    /// `drain_time`: how long SIGTERM waits for commands in flight.
    pub drain_time: Duration,
}

table! { TargetConfig, TARGET;
    "cores" => with(read_already, write_cores),
    "poll" => field(poll),
    "poll_time" => field(poll_time),
    "clock" => field(clock),
    "io_memory" => field(io_memory),
    "max_transfer" => field(max_transfer),
    "in_capsule_data" => field(in_capsule_data),
    "rdma_in_capsule_data" => field(rdma_in_capsule_data),
    "queue_depth" => field(queue_depth),
    "admin_queue_depth" => field(admin_queue_depth),
    "max_queues" => field(max_queues),
    "max_connections" => field(max_connections),
    "max_address_connections" => field(max_address_connections),
    "max_discovery" => field(max_discovery),
    "max_waiting" => field(max_waiting),
    "discovery_keep_alive" => field(discovery_keep_alive),
    "retry_delays" => field(retry_delays),
    "state" => field(state),
    "reconnect_time" => field(reconnect_time),
    "host_keys" => field(host_keys),
    "keyring" => field(keyring),
    "require_authentication" => field(require_authentication),
    "control" => field(control),
    "control_group" => field(control_group),
    "control_admins" => field(control_admins),
    "metrics" => field(metrics),
    "drain_time" => field(drain_time),
}

impl Default for TargetConfig {
    fn default() -> Self {
        Self {
            cores: vec![0],
            cores_reason: None,
            poll: Poll::Adaptive,
            poll_time: Duration::from_micros(50),
            clock: ClockSource::Auto,
            io_memory: 64 << 20,
            max_transfer: 1 << 20,
            in_capsule_data: 8192,
            rdma_in_capsule_data: 4096,
            queue_depth: 256,
            admin_queue_depth: 128,
            max_queues: 64,
            max_connections: 4096,
            max_address_connections: None,
            max_discovery: 256,
            max_waiting: 256,
            discovery_keep_alive: Duration::from_secs(300),
            retry_delays: RetryDelays::DEFAULT,
            state: None,
            reconnect_time: Duration::from_secs(600),
            host_keys: None,
            keyring: None,
            require_authentication: false,
            control: PathBuf::from("/run/sluicegate/control.sock"),
            control_group: None,
            control_admins: None,
            metrics: None,
            drain_time: Duration::from_secs(10),
        }
    }
}

impl TargetConfig {
    /// Returns the most connections at one time, of all kinds.
    #[must_use]
    pub fn connections_in_all(&self) -> u64 {
        [self.max_connections, self.max_discovery, self.max_waiting].map(u64::from).iter().sum()
    }

    /// Returns the queues of I/O controllers that one address may have.
    #[must_use]
    pub fn connections_of_address(&self) -> u32 {
        self.max_address_connections.unwrap_or_else(|| self.max_connections.div_ceil(2).max(2))
    }
}

/// The unit of retry delays.
const RETRY_UNIT: Duration = Duration::from_millis(100);

impl Field for RetryDelays {
    fn read(_: &crate::keys::Values, node: &Node) -> Read<Self> {
        let remedy = "write three times of whole tenths of a second, from \"100 ms\" to \"5 min\", \
                      none shorter than the one before: [\"5 s\", \"30 s\", \"150 s\"]";
        let wrong = |message: String| Wrong::new(message, remedy);
        let Value::Array(items) = &node.value else {
            return Err(wrong(format!("is {}, not a list", node.value.kind())));
        };
        let time = values::duration_up_to(Duration::from_mins(5));
        let units = |time: Duration| {
            let whole = time.subsec_nanos().is_multiple_of(RETRY_UNIT.subsec_nanos());
            whole.then(|| u16::try_from(time.as_millis() / RETRY_UNIT.as_millis()).ok()).flatten()
        };
        let read = items.iter().map(|item| time(item).ok().and_then(units));
        match read.collect::<Option<Vec<u16>>>().as_deref() {
            Some(&[first, second, third]) => Self::new([first, second, third])
                .ok_or_else(|| wrong("has a time that is too short".to_owned())),
            Some(list) => Err(wrong(format!("has {} entries instead of three", list.len()))),
            None => Err(wrong("has an entry that is no retry delay".to_owned())),
        }
    }

    fn write(&self, _: &crate::keys::Values) -> Written {
        let times = self.hundreds_of_ms().map(|units| format_duration(RETRY_UNIT * units.into()));
        Written { toml: Some(quote_list(&times)), json: times.to_vec().into() }
    }
}

fn write_cores(target: &TargetConfig, _: &ConfigKey) -> Written {
    let json = target.cores.clone().into();
    match target.cores_reason {
        Some(_) => Written { toml: Some("\"auto\"".to_owned()), json },
        None => Written::same(json),
    }
}

/// Returns the settings for a file without `[target]`.
pub(crate) fn standard(machine: &Machine) -> TargetConfig {
    let first = machine.cores.as_ref().and_then(BTreeSet::first).copied().unwrap_or(0);
    TargetConfig { control: machine.control.clone(), cores: vec![first], ..TargetConfig::default() }
}

/// Reads `[target]`.
pub(crate) fn parse(
    mut fields: Fields<'_>,
    machine: &Machine,
    problems: &Problems,
) -> TargetConfig {
    let mut target = standard(machine);
    let place = fields.place();
    let is_auto = fields.take_text("cores", "auto");
    let cores = if is_auto { None } else { fields.list("cores", values::integer(0, 65_535)) };
    if is_auto {
        let ChosenCores { cores, reason } = machine.auto.clone();
        (target.cores, target.cores_reason) = (cores, Some(reason));
    } else if let Some(cores) = &cores {
        target.cores = cores.values();
    }
    let seen = table::read(&mut fields, &mut target);
    fields.finish();
    check_cores(cores.as_ref(), &place, machine, problems);
    let keys = ["io_memory", "max_transfer", "in_capsule_data", "rdma_in_capsule_data"];
    let places = keys.map(|key| seen.place(key));
    if seen.place("rdma_in_capsule_data").is_none() {
        let most = target.in_capsule_data / 16 * 16;
        target.rdma_in_capsule_data = target.rdma_in_capsule_data.min(most);
    }
    if let Some(at) = seen.place("retry_delays") {
        check_retry_delays(target.retry_delays, &at, problems);
    }
    let unread = seen.unread("io_memory") || seen.unread("max_transfer");
    let places = places.map(|at| at.unwrap_or_else(|| place.clone()));
    check_memory(&target, &places, unread, problems);
    target
}

/// Checks that the cores exist, each is listed once, and at least one is.
/// The time for which a Linux host without multipath should retry where a file or device is missing: as long as it
/// tries to reconnect by default (`ctrl_loss_tmo`).
const OUTAGE: Duration = Duration::from_mins(10);

/// Warns where a Linux host would give up during an outage that it waits out by default. It submits a command again
/// after the second delay, and then four times after the third.
fn check_retry_delays(delays: RetryDelays, at: &At<()>, problems: &Problems) {
    let covered = Duration::from_nanos(delays.ns(2) + 4 * delays.longest());
    if covered < OUTAGE {
        let message = format!(
            "with `retry_delays`, Linux hosts without multipath report an I/O error when a file or device is missing \
             for more than {}: delays of [\"5 s\", \"30 s\", \"150 s\"] cover 10 minutes",
            format_duration(covered)
        );
        problems.push_warning(at, message);
    }
}

fn check_cores(list: Option<&List<usize>>, place: &At<()>, machine: &Machine, problems: &Problems) {
    let Some(list) = list else { return };
    if list.items.is_empty() && list.whole {
        problems.at(place, "`cores` is empty", "name at least one CPU: cores = [0]");
    }
    if list.items.len() > REACTORS_MAX {
        let message = format!("`cores` names {} CPUs", list.items.len());
        problems.at(
            place,
            message,
            format!("name at most {REACTORS_MAX}: one reactor runs on each"),
        );
    }
    let mut seen = BTreeSet::new();
    for core in &list.items {
        if let Some(online) = machine.cores.as_ref().filter(|o| !o.contains(&core.value)) {
            let remedy = format!("choose from the CPUs that are online: {}", ranges(online));
            problems.at(
                core,
                format!("`cores` names CPU {}, which is not online", core.value),
                remedy,
            );
        } else if !seen.insert(core.value) {
            let message = format!("`cores` names CPU {} twice", core.value);
            problems.at(core, message, "name it once: one reactor runs on each CPU");
        }
    }
}

/// Writes CPU numbers as ranges: "0-3, 6".
fn ranges(cores: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => runs.push((*core, *core)),
        }
    }
    let one = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Checks that buffer sizes fit together. The places belong to `io_memory`, `max_transfer`, `in_capsule_data` and
/// `rdma_in_capsule_data`. `unread` means that one of the first two could not be read, so that they are not
/// compared.
fn check_memory(
    target: &TargetConfig,
    [io_at, max_at, in_capsule_at, rdma_at]: &[At<()>; 4],
    unread: bool,
    problems: &Problems,
) {
    if !target.max_transfer.is_power_of_two() {
        let message =
            format!("`max_transfer` is {} bytes, not a power of two", target.max_transfer);
        let power = target.max_transfer.next_power_of_two();
        problems.at(max_at, message, format!("write \"{}\"", format_size(power.into())));
    }
    let (tcp, rdma) = (target.in_capsule_data, target.rdma_in_capsule_data);
    for (key, bytes, at) in
        [("in_capsule_data", tcp, in_capsule_at), ("rdma_in_capsule_data", rdma, rdma_at)]
    {
        if !bytes.is_multiple_of(16) {
            let message = format!("`{key}` is {bytes} bytes, not a multiple of 16");
            let remedy = format!("write {}: capsules are counted in units of 16", bytes / 16 * 16);
            problems.at(at, message, remedy);
        }
    }
    if rdma > tcp {
        let message = format!("`rdma_in_capsule_data` is {rdma} bytes, `in_capsule_data` {tcp}");
        let remedy = "write no more than in_capsule_data: both use buffers of that size";
        problems.at(rdma_at, message, remedy);
    }
    let least = u64::from(target.max_transfer) * TRANSFERS_MIN;
    if target.io_memory < least && !unread {
        let message = format!(
            "`io_memory` is {}, too small for transfers of {}",
            format_size(target.io_memory),
            format_size(target.max_transfer.into())
        );
        let remedy = format!(
            "write at least \"{}\" ({TRANSFERS_MIN} x max_transfer), or a smaller max_transfer",
            format_size(least)
        );
        problems.at(io_at, message, remedy);
    } else if !target.io_memory.is_multiple_of(4096) {
        let message = format!("`io_memory` is {} bytes, not whole pages", target.io_memory);
        problems.at(io_at, message, "write a multiple of 4096, such as \"64 MiB\"");
    }
}
