//! `[[listener]]`: its settings, and how each is read and written.

use std::net::{Ipv4Addr, SocketAddr};

use crate::keys::LISTENER;
use arbitration::Class;
use fabric::controller::SecureChannel;

use super::address::ListenAddress;
use super::endpoint::{CHANNELS, Endpoint, Transport};
use super::fields::{At, Fields, List};
use super::network::values::reference;
use super::qos::values::word;
use super::table::{self, Written, read_already, table};
use super::values;

/// `[[listener]]`: an address on which hosts connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `transport`.
    pub transport: Transport,
    /// `address`: IP address and port, and the interface of a link-local address.
    pub address: ListenAddress,
    /// `advertise`: the address that discovery hands out to all hosts in place of `address` (NAT, or a
    /// listener on all addresses).
    pub advertise: Option<SocketAddr>,
    /// `discovery_only`: whether the listener has no I/O controllers (port 8009).
    pub discovery_only: bool,
    /// `subsystems`: NQNs served here; `None` means all.
    pub subsystems: Option<Vec<String>>,
    /// `class`: the class of connections that come through the listener and name none themselves.
    pub class: Option<Class>,
    /// `tls`: whether connections are over TLS.
    pub tls: SecureChannel,
    /// `require_authentication`: whether hosts must authenticate to connect here.
    pub require_authentication: bool,
    /// `link`: the name of the link that the listener's connections share; `None` means the default
    /// one.
    pub link: Option<String>,
}

impl Listener {
    /// Returns the listener's unique transport and address.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { transport: self.transport, address: self.address }
    }
}

/// Returns the value of `tls` that means a channel.
pub fn channel_name(channel: SecureChannel) -> &'static str {
    word(&CHANNELS, &channel)
}

table! { Listener, LISTENER;
    "address" => with(read_already, |listener, _| Written::same(listener.address.to_string())),
    "transport" => field(transport),
    "advertise" => field(advertise),
    "discovery_only" => field(discovery_only),
    "subsystems" => list(subsystems, values::subsystem_nqn),
    "tls" => field(tls),
    "require_authentication" => field(require_authentication),
    "class" => field(class),
    "link" => read(link, reference, |link: &Option<String>| Written::same(link.clone())),
}

/// A listener and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedListener {
    pub(crate) listener: Listener,
    pub(crate) address: At<()>,
    pub(crate) subsystems: List<String>,
    pub(crate) link: Option<At<()>>,
    pub(crate) tls: Option<At<()>>,
}

/// Reads `[[listener]]`.
pub(crate) fn listener(mut fields: Fields<'_>) -> Option<ParsedListener> {
    let address = fields.require("address", "\"0.0.0.0:4420\"", values::listen_address);
    let mut listener = Listener {
        transport: Transport::Tcp,
        address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into(),
        advertise: None,
        discovery_only: false,
        subsystems: None,
        tls: SecureChannel::Off,
        require_authentication: false,
        class: None,
        link: None,
    };
    let mut seen = table::read(&mut fields, &mut listener);
    fields.finish();
    let address = address?;
    listener.address = address.value;
    Some(ParsedListener {
        listener,
        address: address.place(),
        subsystems: seen.list("subsystems"),
        link: seen.place("link"),
        tls: seen.place("tls"),
    })
}
