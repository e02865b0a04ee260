//! The address of a listener.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use thiserror::Error;

/// The address of a listener: IP address and port, and the interface of an IPv6 link-local address,
/// since each interface has link-local addresses of its own.
///
/// As text: `192.0.2.1:4420`, `[fe80::1%eth0]:4420`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenAddress {
    ip: IpAddr,
    port: u16,
    interface: Option<Interface>,
}

/// The name of a network interface, with NULs behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interface([u8; 15]);

/// The error of a text that is not the address of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it is not an IP address and a port")]
pub struct NoAddress;

impl Interface {
    /// Makes an interface of this name; `None` if no interface can have it.
    fn new(name: &str) -> Option<Self> {
        let is_right = |byte: u8| byte.is_ascii_graphic() && !b"/:%[]".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_right) {
            return None;
        }
        let mut bytes = [0; 15];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self(bytes))
    }

    fn name(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        self.0.get(..end).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl ListenAddress {
    /// Returns the IP address.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        self.ip
    }

    /// Returns the port.
    #[must_use]
    pub fn port(self) -> u16 {
        self.port
    }

    /// Returns the name of the interface; `None` where the address names none.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_ref().map(Interface::name)
    }

    /// Returns whether this is a link-local IPv6 address, which is unique per interface only.
    #[must_use]
    pub fn is_link_local(self) -> bool {
        matches!(self.ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
    }

    /// Returns the address on an interface of this name; `None` if no interface can have the name,
    /// or the address is not of IPv6.
    #[must_use]
    pub fn on(self, interface: &str) -> Option<Self> {
        let interface = Some(Interface::new(interface)?);
        self.ip.is_ipv6().then_some(Self { interface, ..self })
    }

    /// Returns the address as the kernel takes it, with the index of its interface; 0: none.
    #[must_use]
    pub fn socket(self, index: u32) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => (ip, self.port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, self.port, 0, index).into(),
        }
    }
}

/// Makes an address that names no interface.
impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self { ip: address.ip(), port: address.port(), interface: None }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.interface() {
            Some(interface) => write!(f, "[{}%{interface}]:{}", self.ip, self.port),
            None => write!(f, "{}", SocketAddr::new(self.ip, self.port)),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let plain = |text: &str| text.parse::<SocketAddr>().map(Self::from).map_err(|_| NoAddress);
        let Some((ip, rest)) = text.split_once('%') else { return plain(text) };
        let (interface, port) = rest.rsplit_once(']').ok_or(NoAddress)?;
        plain(&format!("{ip}]{port}"))?.on(interface).ok_or(NoAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_kept_by_its_name() {
        let address: ListenAddress = "[fe80::1%eth0.12]:4420".parse().unwrap();
        assert_eq!(address.to_string(), "[fe80::1%eth0.12]:4420");
        assert_eq!((address.interface(), address.is_link_local()), (Some("eth0.12"), true));
        assert_eq!(address.socket(7), "[fe80::1%7]:4420".parse::<SocketAddr>().unwrap());
        let plain: ListenAddress = "[fe80::1]:4420".parse().unwrap();
        assert_eq!((plain.interface(), plain == address), (None, false));
        let longest = format!("[fe80::1%{}]:1", "e".repeat(15));
        assert_eq!(longest.parse::<ListenAddress>().unwrap().to_string(), longest);
    }

    #[test]
    fn other_texts_are_no_addresses() {
        let texts = "[fe80::1] fe80::1%eth0 fe80::1%eth0:4420 [fe80::1%]:4420 [fe80::1%eth0] [fe80::1%eth0]4420 \
                     [fe80::1%eth0:4420 [fe80::1%eth0]]:4420 [fe80::1%eth0%eth1]:4420 [fe80::1%eth0]:65536 \
                     [10.0.0.1%eth0]:4420 10.0.0.1%eth0:4420 [fe80::1%sixteen-letters-]:4420";
        for text in texts.split(' ').chain(["", "[fe80::1%et h0]:4420"]) {
            assert_eq!(text.parse::<ListenAddress>(), Err(NoAddress), "{text}");
        }
    }
}
