//! The features of the running kernel, and remedies for missing ones.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use super::{Info, options, sys};

/// The folder of the kernel's TCP settings, in the present network namespace.
const SETTINGS: &str = "/proc/sys/net/ipv4";

/// Whether a socket can have `dctcp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dctcp {
    /// Sockets can have it.
    Usable,
    /// The kernel has the module, and this process may not use it.
    Forbidden,
    /// The kernel has no such module, and could load none.
    Missing,
    /// No socket could be tried.
    Unknown,
}

/// Explains why sockets cannot have the congestion control `name`, and what to do about it. `None`
/// where they can, or no socket could be tried. Trying also loads the kernel's module.
#[must_use]
pub fn refusal(name: &str) -> Option<String> {
    let tried = options::set_congestion(sys::tcp_socket().ok()?.as_fd(), name);
    let error = tried.err()?;
    // Read after the trial, which may have loaded a module.
    let here = Offer::read(Path::new(SETTINGS));
    let offered = here.available.map(|names| names.join(", ")).unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound => Some(format!(
            "the kernel has no congestion control {name}; it offers {offered}; a module that it \
             could load is tcp_{name} (modprobe tcp_{name})"
        )),
        io::ErrorKind::PermissionDenied => Some(format!(
            "{name} needs CAP_NET_ADMIN, or its name in net.ipv4.tcp_allowed_congestion_control, \
             which has {}",
            here.allowed.map(|names| names.join(", ")).unwrap_or_default()
        )),
        _ => None,
    }
}

/// The features that a target needs to pace its connections by marks. Unreadable ones are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The congestion controls that the kernel has loaded.
    pub available: Option<Vec<String>>,
    /// The congestion controls that a process without `CAP_NET_ADMIN` may choose.
    pub allowed: Option<Vec<String>>,
    /// The congestion control of connections for which none was chosen.
    pub default: Option<String>,
    /// Whether a socket can have `dctcp`. Trying also loads the kernel's module.
    pub dctcp: Dctcp,
    /// The congestion control to use where the default ignores marks.
    pub instead: Option<&'static str>,
    /// The setting `net.ipv4.tcp_ecn`: 0 no ECN; 1 asked for and answered; 2 only answered (the
    /// kernel's default); 3 AccECN asked for and answered; 4 AccECN answered, ECN asked for; 5
    /// AccECN only answered.
    pub ecn: Option<u8>,
    /// The setting `net.ipv4.tcp_ecn_fallback`: a connection whose SYN with ECN is lost goes on
    /// without.
    pub ecn_fallback: Option<bool>,
    /// Whether the kernel counts the marks of received packets (Linux 6.18).
    pub received_marks: Option<bool>,
}

impl Offer {
    /// Probes the features of the running kernel in the present network namespace.
    #[must_use]
    pub fn probe() -> Self {
        let socket = sys::tcp_socket();
        let set = |name| socket.as_ref().map(|fd| options::set_congestion(fd.as_fd(), name));
        let tried = set("dctcp");
        let info = socket.as_ref().ok().and_then(|fd| Info::read(fd.as_fd()).ok());
        // Read after the trial, which may have loaded the module.
        let settings = Self::read(Path::new(SETTINGS));
        let instead = ["cubic", "reno"].into_iter().find(|name| matches!(set(name), Ok(Ok(()))));
        Self {
            instead: instead.filter(|_| settings.ignores_marks()),
            dctcp: tried.map_or(Dctcp::Unknown, |result| settings.dctcp_after(&result)),
            received_marks: info.map(|info| info.received_ce.is_some()),
            ..settings
        }
    }

    /// Reads the settings in a folder such as `/proc/sys/net/ipv4`. The features that only a socket shows are unknown.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text = |name| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
        let words = |name| Some(text(name)?.split_whitespace().map(str::to_owned).collect());
        let number = |name| text(name)?.parse::<u8>().ok();
        Self {
            available: words("tcp_available_congestion_control"),
            allowed: words("tcp_allowed_congestion_control"),
            default: text("tcp_congestion_control"),
            dctcp: Dctcp::Unknown,
            instead: None,
            ecn: number("tcp_ecn"),
            ecn_fallback: number("tcp_ecn_fallback").map(|value| value != 0),
            received_marks: None,
        }
    }

    fn dctcp_after(&self, tried: &io::Result<()>) -> Dctcp {
        let here = self.available.as_ref().map(|names| names.iter().any(|name| name == "dctcp"));
        match tried {
            Ok(()) => Dctcp::Usable,
            Err(_) if here == Some(true) => Dctcp::Forbidden,
            // A process without the right to load modules gets the same error if the kernel has
            // one.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Dctcp::Missing,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Dctcp::Forbidden,
            Err(_) => Dctcp::Unknown,
        }
    }

    /// Chooses the congestion control for sockets (listeners among them, before they listen) where
    /// the configuration names none; `None` leaves them with the system's.
    ///
    /// The choice is `dctcp` if the kernel has it. With other controls the shares of classes are the same, but a
    /// control that ignores marks keeps a queue several times as long: `cubic`, or `reno`, takes its place.
    #[must_use]
    pub fn best_base(&self) -> Option<&str> {
        if self.dctcp == Dctcp::Usable { Some("dctcp") } else { self.instead }
    }

    /// Returns whether the default goes by the rate and the round-trip time that it measures (BBR's
    /// first version, and its successors in Linux).
    #[must_use]
    pub fn ignores_marks(&self) -> bool {
        self.default.as_ref().is_some_and(|name| name.starts_with("bbr"))
    }

    /// Lists missing features, with the commands that enable them, and how exact the marks will be,
    /// in sentences for the log.
    #[must_use]
    pub fn advice(&self) -> Vec<String> {
        [self.ecn_advice(), self.fallback_advice(), self.base_advice(), self.marks_advice()]
            .into_iter()
            .flatten()
            .chain([self.accuracy()])
            .collect()
    }

    fn ecn_advice(&self) -> Option<String> {
        Some(match self.ecn {
            None => "net.ipv4.tcp_ecn cannot be read: whether connections can have ECN is unknown"
                .to_owned(),
            Some(0) => "ECN is off, so no connection sees congestion marks: \
                        run `sysctl -w net.ipv4.tcp_ecn=1` here, and on the hosts"
                .to_owned(),
            // Hosts connect to a target, so hosts ask for ECN.
            Some(_) => "ECN is on for hosts that ask for it: \
                        on each host run `sysctl -w net.ipv4.tcp_ecn=1`, \
                        since by default Linux does not ask"
                .to_owned(),
        })
    }

    fn fallback_advice(&self) -> Option<String> {
        (self.ecn_fallback == Some(false)).then(|| {
            "a host whose network drops packets with ECN cannot connect: \
             run `sysctl -w net.ipv4.tcp_ecn_fallback=1`"
                .to_owned()
        })
    }

    fn base_advice(&self) -> Option<String> {
        let default = self.default.as_deref().unwrap_or("the system's congestion control");
        let default = self.instead.unwrap_or(default);
        match self.dctcp {
            Dctcp::Usable => None,
            Dctcp::Forbidden => Some(format!(
                "dctcp may not be used by this process, which goes on with {default}: \
                 run `modprobe tcp_dctcp` and `{}`, or give the daemon CAP_NET_ADMIN",
                self.command_to_allow_dctcp()
            )),
            Dctcp::Missing => Some(format!(
                "dctcp is not in this kernel, which goes on with {default}: \
                 run `modprobe tcp_dctcp` (CONFIG_TCP_CONG_DCTCP) and `{}`",
                self.command_to_allow_dctcp()
            )),
            Dctcp::Unknown => Some(format!(
                "whether there is dctcp could not be found out: this process goes on with {default}"
            )),
        }
    }

    /// Makes the command after which every process may choose `dctcp`.
    #[must_use]
    pub fn command_to_allow_dctcp(&self) -> String {
        let allowed = self.allowed.as_ref().map(|names| names.join(" ")).unwrap_or_default();
        format!("sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{allowed} dctcp\"")
    }

    fn marks_advice(&self) -> Option<String> {
        (self.received_marks == Some(false)).then(|| {
            "marks of what hosts write are not counted by this kernel (Linux 6.18 does): \
             writes are paced by their rates alone"
                .to_owned()
        })
    }

    fn accuracy(&self) -> String {
        let base = match self.dctcp {
            Dctcp::Usable => {
                "marks of sent data are exact for hosts that run dctcp too; for others a mark \
                 is echoed for a round trip and counts for up to a window of packets"
            }
            _ => {
                "marks of sent data are echoed for a round trip, so a mark counts for up to a \
                 window of packets: the reported number is too high, and ratios take longer to settle"
            }
        };
        match self.ecn {
            Some(3..=5) => "marks of sent data are exact for hosts with AccECN \
                 (on each of them `sysctl -w net.ipv4.tcp_ecn=3`), and for others echoed for a \
                 round trip"
                .to_owned(),
            _ => base.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn offer(dctcp: Dctcp, ecn: u8) -> Offer {
        let folder = folder(&[
            ("tcp_available_congestion_control", "reno cubic\n"),
            ("tcp_allowed_congestion_control", "reno\n"),
            ("tcp_congestion_control", "cubic\n"),
            ("tcp_ecn_fallback", "1\n"),
        ]);
        Offer { dctcp, ecn: Some(ecn), received_marks: Some(true), ..Offer::read(folder.path()) }
    }

    fn says(offer: &Offer, what: &str) -> bool {
        offer.advice().iter().any(|line| line.contains(what))
    }

    #[test]
    fn e1_the_kernels_settings_are_read() {
        let read = offer(Dctcp::Missing, 2);
        assert_eq!(read.available.as_deref().unwrap(), ["reno", "cubic"]);
        assert_eq!(read.allowed.as_deref().unwrap(), ["reno"]);
        assert_eq!((read.default.as_deref(), read.ecn_fallback), (Some("cubic"), Some(true)));
    }

    #[test]
    fn e1_unreadable_feature_is_reported_unknown() {
        let read = Offer::read(folder(&[("tcp_ecn", "many")]).path());
        assert_eq!((&read.available, read.ecn, read.ecn_fallback), (&None, None, None));
        assert_eq!((read.dctcp, read.best_base()), (Dctcp::Unknown, None));
        assert!(says(&read, "unknown") && says(&read, "could not be found out"));
    }

    #[test]
    fn e1_running_kernel_reports_its_features() {
        let here = Offer::probe();
        assert_ne!(here.dctcp, Dctcp::Unknown, "a socket can always be tried: {here:?}");
        assert!(here.received_marks.is_some());
        assert_eq!(here.best_base() == Some("dctcp"), here.dctcp == Dctcp::Usable);
        if let Some(names) = &here.available {
            assert_eq!(here.dctcp == Dctcp::Missing, !names.iter().any(|name| name == "dctcp"));
            assert!(names.iter().any(|name| name == "reno"), "{names:?}");
        }
    }

    #[test]
    fn unknown_congestion_control_is_refused_with_choices() {
        // Every kernel has it, and every process may choose it.
        assert_eq!(refusal("reno"), None);
        let said = refusal("foo").unwrap();
        assert!(said.contains("no congestion control foo") && said.contains("reno"), "{said}");
        assert_eq!(refusal("dctcp").is_none(), Offer::probe().dctcp == Dctcp::Usable);
    }

    #[test]
    fn e1_dctcp_is_set_where_it_can_be() {
        let missing = offer(Dctcp::Missing, 2);
        let loaded = Offer { available: Some(vec!["dctcp".to_owned()]), ..missing.clone() };
        let errno = |number| Err(io::Error::from_raw_os_error(number));
        assert_eq!(missing.dctcp_after(&Ok(())), Dctcp::Usable);
        assert_eq!(missing.dctcp_after(&errno(libc::ENOENT)), Dctcp::Missing);
        assert_eq!(loaded.dctcp_after(&errno(libc::EPERM)), Dctcp::Forbidden);
        assert_eq!(offer(Dctcp::Usable, 2).best_base(), Some("dctcp"));
        assert_eq!(missing.best_base(), None);
    }

    #[test]
    fn e1_default_ignoring_marks_is_replaced() {
        let cubic = offer(Dctcp::Missing, 2);
        assert!(!cubic.ignores_marks());
        let bbr = Offer { default: Some("bbr".to_owned()), instead: Some("reno"), ..cubic };
        assert!(bbr.ignores_marks());
        assert_eq!(bbr.best_base(), Some("reno"));
        assert!(says(&bbr, "goes on with reno"));
        assert_eq!(Offer { dctcp: Dctcp::Usable, ..bbr }.best_base(), Some("dctcp"));
    }

    #[test]
    fn e1_advice_names_the_command_that_mends() {
        assert!(says(&offer(Dctcp::Usable, 0), "sysctl -w net.ipv4.tcp_ecn=1"));
        assert!(says(&offer(Dctcp::Missing, 2), "modprobe tcp_dctcp"));
        let forbidden = offer(Dctcp::Forbidden, 2);
        assert!(says(&forbidden, "tcp_allowed_congestion_control=\"reno dctcp\""));
        assert!(says(&Offer { received_marks: Some(false), ..forbidden.clone() }, "6.18"));
        assert!(says(&Offer { ecn_fallback: Some(false), ..forbidden }, "tcp_ecn_fallback=1"));
    }

    #[test]
    fn e1_advice_tells_how_true_marks_are() {
        assert!(says(&offer(Dctcp::Usable, 2), "exact for hosts that run dctcp"));
        assert!(says(&offer(Dctcp::Missing, 2), "too high"));
        assert!(says(&offer(Dctcp::Missing, 3), "exact for hosts with AccECN"));
        let best = offer(Dctcp::Usable, 1);
        assert!(!says(&best, "modprobe") && !says(&best, "6.18") && !says(&best, "fallback"));
    }
}
