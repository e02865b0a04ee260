//! The subsystem of a simulated target.

use arbitration::overload::RetryDelays;
use fabric::Nanos;
use fabric::controller::{
    BackendId, Geometry, ListenerId, ListenerSpec, Namespace, NamespaceFeatures, Readiness,
    SecureChannel, Service, ServiceConfig, SubsystemSpec, TransportType,
};
use fabric::nvm::BlockFormat;

use crate::reactor::context::Settings;

/// The serial number of the subsystem.
pub const SERIAL: &str = "SIMULATED";

/// Makes a service with one subsystem without namespaces, for any host, and a listener.
///
/// # Errors
/// The service does not take the configuration, or the subsystem, and says why.
pub fn service(
    now: Nanos,
    config: ServiceConfig,
    nqn: &str,
    listener: ListenerSpec,
) -> Result<Service, String> {
    let mut service = Service::new(config).map_err(|error| error.to_string())?;
    let subsystem = SubsystemSpec {
        nqn: nqn.to_owned(),
        serial: SERIAL.to_owned(),
        model: "Simulation".to_owned(),
        allow_any_host: true,
        hosts: Vec::new(),
        require_authentication: false,
    };
    service.add_subsystem(now, subsystem).map_err(|error| error.to_string())?;
    service.add_listener(now, listener).map_err(|error| error.to_string())?;
    Ok(service)
}

/// Makes a listener of all subsystems.
#[must_use]
pub fn listener(id: ListenerId, transport: TransportType) -> ListenerSpec {
    ListenerSpec {
        id,
        name: "127.0.0.1:4420".to_owned(),
        transport,
        address: ([127, 0, 0, 1], 4420).into(),
        advertise: None,
        discovery_only: false,
        subsystems: None,
        secure_channel: SecureChannel::Off,
        require_authentication: false,
    }
}

/// Makes a namespace for all hosts, of a device with the namespace's number.
#[must_use]
pub fn namespace(nsid: u32, format: BlockFormat, blocks: u64) -> Namespace {
    Namespace {
        nsid,
        uuid: u128::from(nsid).to_be_bytes(),
        nguid: [0; 16],
        geometry: Geometry { format, blocks },
        features: NamespaceFeatures::all() - NamespaceFeatures::READ_ONLY,
        preferred: None,
        used: None,
        hosts: None,
        backend: BackendId(u64::from(nsid)),
        readiness: Readiness::Ready,
        replaces: false,
        identify: None,
        device: None,
    }
}

/// Makes the settings of the only reactor of a target; the other settings are the daemon's defaults.
#[must_use]
pub fn settings(max_transfer: u32, in_capsule_data: u32) -> Settings {
    Settings {
        reactor: 0,
        reactors: 1,
        max_transfer,
        in_capsule_data,
        direct_min: Settings::DIRECT_MIN,
        slice: Settings::SLICE,
        receive_buffers: usize::from(Settings::RECEIVE_BUFFERS),
        retry_delays: RetryDelays::DEFAULT,
    }
}
