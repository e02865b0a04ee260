//! `[[subsystem.namespace]]`: its settings, and how each is read and written.

use crate::keys::ConfigKey;
use crate::keys::NAMESPACE;
use arbitration::Class;
use uuid::Uuid;

use super::backend::{self, Backend};
use super::fields::{At, Fields, List};
use super::qos::device::{self, DeviceQos};
use super::table::{self, Field, Seen, Written, read_already, table};
use super::values;

/// `[[subsystem.namespace]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `nsid`: 1 or more; `None` means the lowest that is free.
    pub nsid: Option<u32>,
    /// `backend` and its own settings.
    pub backend: Backend,
    /// `uuid`: `None` means that the daemon chooses one, which belongs to the namespace's data.
    pub uuid: Option<Uuid>,
    /// `nguid`: 16 bytes; made of the UUID where not given.
    pub nguid: Option<[u8; 16]>,
    /// `read_only`: whether hosts may only read.
    pub read_only: bool,
    /// `force`: whether a device that was never seen is served although it holds a file system or
    /// other data.
    pub force: bool,
    /// `hosts`: NQNs of the hosts that see this namespace; `None` means all hosts that the subsystem allows.
    pub hosts: Option<Vec<String>>,
    /// `class`: the class of commands that name none, on connections that name none, of hosts whose
    /// policy names none.
    pub class: Option<Class>,
    /// The settings that say how the device is shared.
    pub device: DeviceQos,
}

impl Namespace {
    /// Makes a namespace on a backend, with the defaults of all other keys.
    #[must_use]
    pub fn new(backend: Backend) -> Self {
        Self {
            nsid: None,
            backend,
            uuid: None,
            nguid: None,
            read_only: false,
            force: false,
            hosts: None,
            class: None,
            device: DeviceQos::default(),
        }
    }

    /// Returns the NSID. A namespace of a whole configuration has one, given or derived.
    #[must_use]
    pub fn id(&self) -> u32 {
        debug_assert!(self.nsid.is_some(), "a namespace without an NSID");
        self.nsid.unwrap_or_default()
    }
}

table! { Namespace, NAMESPACE;
    "nsid" => field(nsid),
    "backend" => with(read_backend, |namespace, _| namespace.backend.write_word()),
    "size" => with(read_already, |namespace, _| namespace.backend.write_size()),
    "create" => with(read_already, |namespace, _| namespace.backend.write_create()),
    "block_size" => with(read_already, |namespace, _| namespace.backend.write_block_size()),
    "path" => with(read_already, |namespace, _| namespace.backend.write_path()),
    "direct" => with(read_already, |namespace, _| namespace.backend.write_direct()),
    "device" => with(read_already, |namespace, _| namespace.backend.write_device()),
    "uuid" => field(uuid),
    "nguid" => field(nguid),
    "read_only" => field(read_only),
    "force" => read(force, values::boolean, |force: &bool| Written::if_set(*force)),
    "hosts" => list(hosts, values::nqn),
    "class" => field(class),
    "window" => with(read_window, |namespace, _| namespace.device.write_window()),
    "window_max" => with(read_already, |namespace, _| namespace.device.write_window_max()),
    "latency_target" => with(read_already, |namespace, key| {
        namespace.device.latency_target.write(&key.values)
    }),
    "order" => read(device.order, device::order, device::write_order),
    "seeks" => read(device.seeks, device::seeks, device::write_seeks),
    "flush_is_output" => read(device.flush_is_output, values::boolean, |flush: &bool| {
        Written::if_set(*flush)
    }),
    "mean_time" => field(device.mean_time),
    "worst_time" => with(read_worst_time, |namespace, key| {
        namespace.device.worst_time.write(&key.values)
    }),
    "parallelism" => field(device.parallelism),
    "forward_class" => with(read_already, |namespace, _| namespace.backend.write_forward_class()),
    "service_time" => with(read_already, |namespace, _| namespace.backend.write_service_time()),
    "bandwidth" => with(read_already, |namespace, _| namespace.backend.write_bandwidth()),
    "channels" => with(read_already, |namespace, _| namespace.backend.write_channels()),
    "errors" => with(read_already, |namespace, _| namespace.backend.write_errors()),
}

/// Reads `backend` with its own keys.
fn read_backend(
    namespace: &mut Namespace,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    match backend::backend(fields) {
        Some(backend) => namespace.backend = backend,
        None => seen.note_unread(key.name),
    }
}

/// Reads `window` with its own keys.
fn read_window(
    namespace: &mut Namespace,
    fields: &mut Fields<'_>,
    _: &'static ConfigKey,
    seen: &mut Seen,
) {
    device::read_window(&mut namespace.device, fields, seen);
}

/// Reads `worst_time`, which has the same bounds as `mean_time`.
fn read_worst_time(
    namespace: &mut Namespace,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    if let Some(time) = table::take(fields, key, false, seen, device::time) {
        namespace.device.worst_time = Some(time);
    }
}

/// A namespace and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedNamespace {
    pub(crate) namespace: Namespace,
    pub(crate) place: At<()>,
    pub(crate) nsid: Option<At<()>>,
    pub(crate) hosts: List<String>,
}

/// Reads `[[subsystem.namespace]]`.
pub(crate) fn namespace(mut fields: Fields<'_>) -> Option<ParsedNamespace> {
    let place = fields.place();
    let mut namespace = Namespace::new(Backend::Null { size: 0, block_size: 4096, model: None });
    let mut seen = table::read(&mut fields, &mut namespace);
    device::check(&namespace.device, &fields, &seen);
    let problems = fields.problems();
    fields.finish();
    if seen.unread("backend") {
        return None;
    }
    if namespace.read_only && namespace.backend.creates() {
        let message = "`create` is set, and so is `read_only`";
        problems.at(
            &place,
            message,
            "an empty file that no host can write is of no use: remove one of them",
        );
    }
    Some(ParsedNamespace { nsid: seen.place("nsid"), hosts: seen.list("hosts"), namespace, place })
}
