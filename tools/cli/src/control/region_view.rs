//! Regions of persistent memory and their clients as people read them.

use serde_json::Value;
use sluice_config::answer::{EvictedHost, Pmem, RegionClient, RegionRow};
use sluice_config::params::Settings;

use super::cells::{count, or_dash, rest, setting};
use super::table::Align::{Left, Right};
use super::table::{Column, Room, Table, size};

/// The keys of `[pmem]` that the sentences of [`general`] show.
const SHOWN: [&str; 9] = [
    "address",
    "capacity",
    "client_capacity",
    "deviation",
    "period",
    "interval",
    "batch",
    "clients",
    "io_size",
];

/// Writes the answer to `pmem.show`.
pub(super) fn show(pmem: &Pmem, room: Room) -> String {
    let mut text =
        [general(pmem), regions(&pmem.regions, room), clients(&pmem.regions, room)].join("\n");
    let reasons: Vec<String> = pmem.regions.iter().filter_map(reason).collect();
    if !reasons.is_empty() {
        text += &format!("\n{}\n", reasons.join("\n"));
    }
    for EvictedHost { host, seconds } in &pmem.evicted {
        text += &format!(
            "\n{host} gets no grant for {seconds} s: a client of it was evicted, since it sent I/Os \
             without tokens. A change of its region (`sluice region set`) ends this.\n"
        );
    }
    text
}

/// Writes the result of a measurement of the capacity.
pub(super) fn profile(capacity: u64, deviation: u64) -> String {
    format!(
        "The data node does {capacity} I/Os per second, with a standard deviation of {deviation}. The \
         daemon estimates from there until it ends. To begin with them, write into [pmem]:\n\
         capacity = {capacity}\ndeviation = {deviation}\n"
    )
}

/// Writes whether clients can connect, the capacity, and the rules by which it is divided.
fn general(pmem: &Pmem) -> String {
    let Pmem { settings, open, reason, capacity_now, reserved, period_now, regions, .. } = pmem;
    let of = |key: &str| setting(settings, key);
    let why = reason.as_deref().unwrap_or("no reason is known");
    let address = of("address");
    let mut text = match (address.as_str(), open) {
        ("", _) => "Regions are not served: there is no `address` in [pmem].\n".into(),
        (address, true) => format!("Clients connect to {address}.\n"),
        (address, false) => format!("Clients cannot connect to {address}: {why}.\n"),
    };
    if !address.is_empty() {
        let most = setting_or(settings, "client_capacity", "capacity");
        text += &format!(
            "capacity {capacity_now} I/Os per second, {reserved} reserved, {most} for one client \
             (configured: {}, deviation {})\n",
            of("capacity"),
            Some(of("deviation")).filter(|text| !text.is_empty()).unwrap_or_else(|| "1 %".into()),
        );
    }
    let io_size = settings.get("io_size").and_then(Value::as_u64);
    let grants = regions.iter().map(|region| region.clients.len()).sum();
    text += &format!(
        "period {} (now number {period_now}), checks each {}, batches of {}, I/Os of up to {}, {} of {}\n",
        of("period"),
        of("interval"),
        of("batch"),
        size(io_size.unwrap_or_else(|| sluice_config::Pmem::default().bytes_of_io())),
        count(grants, "grant"),
        of("clients"),
    );
    text + &rest(settings, &SHOWN)
}

/// Writes the value of a key, or another key's value if it is not set.
fn setting_or(settings: &Settings, key: &str, other: &str) -> String {
    let value = setting(settings, key);
    if value.is_empty() { setting(settings, other) } else { value }
}

/// Writes one line for each region.
fn regions(regions: &[RegionRow], room: Room) -> String {
    let columns: [Column<RegionRow>; 10] = [
        ("REGION", Left, |row| or_dash(Some(setting(&row.settings, "name")))),
        ("SIZE", Right, |row| or_dash(row.bytes.map(size))),
        ("KIND", Left, |row| or_dash(row.kind.as_ref())),
        ("PATH", Left, |row| or_dash(Some(setting(&row.settings, "path")))),
        ("MODE", Left, |row| match setting(&row.settings, "read_only").as_str() {
            "yes" => "ro".into(),
            _ => "rw".into(),
        }),
        ("RESERVE", Right, |row| or_dash(Some(setting(&row.settings, "reserve")))),
        ("LIMIT", Right, |row| or_dash(Some(setting(&row.settings, "limit")))),
        ("HOSTS", Right, |row| {
            or_dash(row.settings.get("hosts").and_then(|hosts| Some(hosts.as_array()?.len())))
        }),
        ("CLIENTS", Right, |row| row.clients.len().to_string()),
        ("STATE", Left, |row| if row.open { "open" } else { "not open" }.into()),
    ];
    let table = Table::from_rows(regions, &columns)
        .live(regions.iter().map(|row| row.live))
        .least(&["MODE", "CLIENTS", "HOSTS", "PATH"]);
    table.text("There are no regions.", room)
}

/// Writes one line for each client.
fn clients(regions: &[RegionRow], room: Room) -> String {
    let rows: Vec<(&Settings, &RegionClient)> = regions
        .iter()
        .flat_map(|region| region.clients.iter().map(|row| (&region.settings, row)))
        .collect();
    let columns: [Column<(&Settings, &RegionClient)>; 11] = [
        ("REGION", Left, |(region, _)| setting(region, "name")),
        ("HOST", Left, |(_, row)| row.host.clone()),
        ("ADDRESS", Left, |(_, row)| or_dash(row.address.as_ref())),
        ("RIGHTS", Left, |(_, row)| row.rights.clone()),
        ("RESERVED", Right, |(_, row)| row.reservation.to_string()),
        ("LIMIT", Right, |(_, row)| or_dash(row.limit)),
        ("CONNECTED", Left, |(_, row)| if row.connected { "yes" } else { "no" }.into()),
        ("LAST PERIOD", Right, |(_, row)| row.last_period.to_string()),
        ("IN ALL", Right, |(_, row)| row.completed.to_string()),
        ("MISSED", Right, |(_, row)| row.missed.to_string()),
        ("GRANT", Right, |(_, row)| row.grant.to_string()),
    ];
    let least = &["GRANT", "ADDRESS", "IN ALL", "RIGHTS", "LIMIT", "CONNECTED"];
    let table = Table::from_rows(&rows, &columns).least(least);
    table.text("No client has a grant.", room)
}

/// Returns text such as "region log is not open: why".
fn reason(row: &RegionRow) -> Option<String> {
    let reason = row.reason.as_ref().filter(|_| !row.open)?;
    Some(format!("region {} is not open: {reason}", setting(&row.settings, "name")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_config::Method;

    use super::super::shown;
    use super::super::tables_tests::HOST;
    use super::*;

    fn answer() -> Value {
        let mut answer = json!({
            "address": "10.0.0.1:4430", "capacity": 1_570_000, "client_capacity": null,
            "deviation": 100, "period": "1 s", "interval": "1 ms", "batch": 1000, "clients": 64,
            "open": true, "reason": null, "capacity_now": 1_575_000, "reserved": 100_000,
            "period_now": 7,
            "regions": [
                {"name": "log", "path": "/dev/dax0.0", "create": false, "read_only": false,
                 "size": 1 << 30, "hosts": [HOST], "reserve": 100_000, "limit": null, "open": true,
                 "reason": null, "bytes": 1 << 30, "kind": "device DAX",
                 "clients": [
                     {"grant": 5, "host": HOST, "address": "10.0.0.7", "rights": "read-write",
                      "reservation": 100_000, "limit": 200_000, "connected": true,
                      "completed": 5_000_000, "last_period": 99_000, "missed": 2},
                 ]},
                {"name": "old", "path": "/srv/old", "create": false, "read_only": true,
                 "size": null, "hosts": [], "reserve": 0, "limit": null, "open": false,
                 "reason": "/srv/old: there is no such file", "bytes": null, "kind": null,
                 "clients": []},
            ],
        });
        answer["io_size"] = json!(4096);
        answer
    }

    fn text(answer: &Value, room: Room) -> String {
        shown::within(room, Method::PmemShow, answer)
    }

    #[test]
    fn the_capacity_the_regions_and_their_clients_are_shown() {
        let seen = text(&answer(), Room::Unlimited);
        assert!(seen.starts_with("Clients connect to 10.0.0.1:4430.\n"), "{seen}");
        for line in [
            "capacity 1575000 I/Os per second, 100000 reserved, 1570000 for one client (configured: \
             1570000, deviation 100)",
            "period 1 s (now number 7), checks each 1 ms, batches of 1000, I/Os of up to 4 KiB, 1 grant of \
             64",
            "log 1 GiB device DAX /dev/dax0.0 rw 100000 - 1 1 open",
            "old - - /srv/old ro 0 - 0 0 not open",
            &format!("log {HOST} 10.0.0.7 read-write 100000 200000 yes 99000 5000000 2 5"),
            "region old is not open: /srv/old: there is no such file",
        ] {
            assert!(shown::lines(&seen).iter().any(|seen| seen == line), "{line}\n{seen}");
        }
    }

    #[test]
    fn what_keeps_clients_away_is_told() {
        let mut closed = answer();
        (closed["open"], closed["reason"]) = (json!(false), json!("no such RDMA device"));
        closed["deviation"] = json!(null);
        let seen = text(&closed, Room::Unlimited);
        assert!(seen.contains("(configured: 1570000, deviation 1 %)"), "{seen}");
        let said = "Clients cannot connect to 10.0.0.1:4430: no such RDMA device.\n";
        assert!(seen.starts_with(said), "{seen}");
        let none = json!({"address": null, "period": "1 s", "regions": [], "open": false,
                          "reason": "nothing is configured"});
        let seen = text(&none, Room::Unlimited);
        assert!(seen.starts_with("Regions are not served: there is no `address`"), "{seen}");
        assert!(seen.contains("There are no regions.") && !seen.contains("capacity"), "{seen}");
        assert!(seen.contains("No client has a grant."), "{seen}");
    }

    #[test]
    fn evicted_hosts_are_named() {
        let mut evicting = answer();
        evicting["evicted"] = json!([{"host": HOST, "seconds": 590}]);
        let seen = text(&evicting, Room::Unlimited);
        assert!(seen.contains(&format!("\n{HOST} gets no grant for 590 s: ")), "{seen}");
    }

    #[test]
    fn clients_fit_into_a_terminal() {
        let seen = text(&answer(), Room::Terminal(80));
        for line in seen.lines().skip(4).filter(|line| line.starts_with("log")) {
            assert!(line.chars().count() <= 80, "{seen}");
        }
        assert!(seen.contains("c91e6bf6") && seen.contains("MISSED"), "{seen}");
    }
}
