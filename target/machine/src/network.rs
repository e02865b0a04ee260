//! TCP's congestion control and ECN, kernel TLS, and RDMA devices.

use qtcp::linux::Offer;

use crate::finding::Finding;
use crate::view::{Unreadable, View, join_names};

/// Folder of the kernel's TCP settings.
const SETTINGS: &str = "proc/sys/net/ipv4";
/// Folder of the RDMA devices.
const RDMA: &str = "sys/class/infiniband";
/// The congestion control that the daemon prefers.
const DCTCP: &str = "dctcp";

/// Makes the command that loads a module, continued by `then`. If the kernel cannot load it, names the option of the
/// kernel.
fn load_module(view: &View, (module, option): (&str, &str), then: &str) -> String {
    match view.can_load(module) {
        true => format!("modprobe {module}{then}"),
        false => format!("boot a kernel with {option}"),
    }
}

/// Checks that the daemon can use dctcp.
pub(crate) fn check_congestion_control(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "congestion control";
    view.require(&format!("{SETTINGS}/tcp_available_congestion_control"))?;
    let offer = Offer::read(&view.path(SETTINGS));
    let has = |names: &Option<Vec<String>>| names.iter().flatten().any(|name| name == DCTCP);
    let default = offer.default.as_deref().unwrap_or("unknown");
    let base = match offer.ignores_marks() {
        true => "cubic or reno",
        false => default,
    };
    let fallback = format!("sluiced uses {base}, with longer queues on congested links");
    Ok(vec![match (has(&offer.available), has(&offer.allowed)) {
        (true, true) => {
            Finding::good(subject, format!("dctcp for sluiced, {default} for other programs"))
        }
        (true, false) => Finding::improvable(
            subject,
            format!("dctcp is not allowed without CAP_NET_ADMIN: {fallback}"),
            offer.command_to_allow_dctcp(),
        ),
        (false, _) => Finding::improvable(
            subject,
            format!("dctcp is not loaded: {fallback}"),
            load_module(
                view,
                ("tcp_dctcp", "CONFIG_TCP_CONG_DCTCP"),
                &format!(" && {}", offer.command_to_allow_dctcp()),
            ),
        ),
    }])
}

/// Checks that connections can have ECN.
pub(crate) fn check_ecn(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "ECN";
    view.require(&format!("{SETTINGS}/tcp_ecn"))?;
    let offer = Offer::read(&view.path(SETTINGS));
    let mut findings = vec![match offer.ecn {
        None => Finding::unknown(subject, "net.ipv4.tcp_ecn is not a number"),
        Some(0) => Finding::wrong(
            subject,
            "net.ipv4.tcp_ecn is 0: no connection sees marks, and [network] cannot keep shares",
            "sysctl -w net.ipv4.tcp_ecn=1",
        ),
        Some(value) => Finding::good(
            subject,
            format!("net.ipv4.tcp_ecn is {value}: connections of hosts that request ECN have it"),
        ),
    }];
    if offer.ecn_fallback == Some(false) {
        findings.push(Finding::improvable(
            subject,
            "net.ipv4.tcp_ecn_fallback is 0: no connection passes a network that drops packets with ECN",
            "sysctl -w net.ipv4.tcp_ecn_fallback=1",
        ));
    }
    Ok(findings)
}

/// Checks that the kernel can encrypt the records of TLS.
pub(crate) fn check_ktls(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "kTLS";
    let Some(names) = view.read(&format!("{SETTINGS}/tcp_available_ulp"))? else {
        return Ok(Vec::new());
    };
    Ok(vec![match names.split_whitespace().any(|name| name == "tls") {
        true => Finding::good(subject, "available"),
        false => Finding::improvable(
            subject,
            "the module tls is not loaded: listeners with TLS cannot start",
            load_module(view, ("tls", "CONFIG_TLS"), ""),
        ),
    }])
}

/// Checks that ports of RDMA devices are active, and that the connection manager is loaded.
pub(crate) fn check_rdma(view: &View) -> Result<Vec<Finding>, Unreadable> {
    let subject = "RDMA";
    let devices = view.list(RDMA);
    if devices.is_empty() {
        return Ok(vec![Finding::good(subject, "no device: NVMe/TCP only")]);
    }
    let (mut findings, mut active) = (Vec::new(), Vec::new());
    for device in &devices {
        for port in view.list(&format!("{RDMA}/{device}/ports")) {
            // For example "4: ACTIVE".
            let Some(state) = view.read(&format!("{RDMA}/{device}/ports/{port}/state"))? else {
                continue;
            };
            let state = state.split_once(": ").map_or(&*state, |(_, name)| name);
            let name = format!("{device}/{port}");
            match state {
                "ACTIVE" => active.push(name),
                _ => {
                    let remedy = format!("rdma link show {name}");
                    findings.push(Finding::improvable(
                        name,
                        format!("the port is {state}"),
                        remedy,
                    ));
                }
            }
        }
    }
    if !active.is_empty() {
        findings.push(Finding::good(subject, format!("{} active", join_names(active))));
    }
    if !view.has("sys/module/rdma_ucm") && !view.has("dev/infiniband/rdma_cm") {
        findings.push(Finding::improvable(
            subject,
            "rdma_ucm is not loaded: listeners with transport = \"rdma\" cannot start",
            load_module(view, ("rdma_ucm", "CONFIG_INFINIBAND_USER_ACCESS"), ""),
        ));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict::{Good, Improvable, Unknown, Wrong};
    use crate::testing::Tree;

    /// Makes a machine without faults, with another text of a setting of TCP.
    fn with(setting: &str, text: &str) -> Tree {
        Tree::whole().with(&format!("{SETTINGS}/{setting}"), text)
    }

    #[test]
    fn dctcp_must_be_loaded_and_allowed() {
        let (available, allowed) =
            ("tcp_available_congestion_control", "tcp_allowed_congestion_control");
        let allow = "sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic dctcp\"";
        for (setting, names, verdict, found, remedy) in [
            (available, "reno cubic dctcp", Good, "dctcp for sluiced, cubic", ""),
            (allowed, "reno cubic", Improvable, "not allowed", allow),
            (available, "reno cubic", Improvable, "not loaded", "modprobe tcp_dctcp && sysctl -w"),
        ] {
            let findings = with(setting, names).check(check_congestion_control);
            findings.has(verdict, "congestion control", found, remedy);
        }
        let bbr = with(available, "reno bbr")
            .with("proc/sys/net/ipv4/tcp_congestion_control", "bbr")
            .with("lib/modules/6.12.48-amd64/modules.dep", "kernel/net/tls/tls.ko:\n");
        let (found, remedy) =
            ("sluiced uses cubic or reno", "boot a kernel with CONFIG_TCP_CONG_DCTCP");
        bbr.check(check_congestion_control).has(Improvable, "congestion control", found, remedy);
    }

    #[test]
    fn ecn_that_is_off_is_wrong() {
        for (setting, number, verdict, found, remedy) in [
            ("tcp_ecn", "0", Wrong, "tcp_ecn", "tcp_ecn=1"),
            ("tcp_ecn", "2", Good, "tcp_ecn", ""),
            ("tcp_ecn", "5", Good, "tcp_ecn", ""),
            ("tcp_ecn", "x", Unknown, "tcp_ecn", ""),
            ("tcp_ecn_fallback", "0", Improvable, "fallback", "tcp_ecn_fallback=1"),
        ] {
            with(setting, number).check(check_ecn).has(verdict, "ECN", found, remedy);
        }
    }

    #[test]
    fn missing_tls_module_is_improvable() {
        for (names, verdict, found, remedy) in [
            ("espintcp mptcp", Improvable, "cannot start", "modprobe tls"),
            ("mptcp tls", Good, "available", ""),
        ] {
            let findings = with("tcp_available_ulp", names).check(check_ktls);
            findings.has(verdict, "kTLS", found, remedy);
        }
    }

    #[test]
    fn rdma_needs_active_ports_and_the_connection_manager() {
        Tree::new(&[]).check(check_rdma).has(Good, "RDMA", "NVMe/TCP only", "");
        let tree = Tree::new(&[
            ("proc/modules", ""),
            ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
            ("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
        ]);
        tree.check(check_rdma)
            .has(Good, "RDMA", "mlx5_0/1 active", "")
            .has(Improvable, "mlx5_1/1", "DOWN", "rdma link show mlx5_1/1")
            .has(Improvable, "RDMA", "rdma_ucm", "modprobe rdma_ucm");
        let tree = tree.with("sys/module/rdma_ucm/refcnt", "0");
        assert_eq!(tree.check(check_rdma).0.len(), 2);
    }
}
