//! `[pmem]`: the service of one-sided RDMA as a whole.

use std::net::SocketAddr;
use std::time::Duration;

use crate::amounts::format_duration;
use crate::keys::PMEM;

use super::super::fields::{At, Fields, Problems};
use super::super::table::{self, Seen, table};

/// The most I/Os of a client in a period that its report can tell: 26 bits (`pmem::word`).
const REPORTED_MAX: u64 = (1 << 26) - 1;

/// `[pmem]`. All of it is read at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmem {
    /// `address`: IP address and port of an RDMA device at which clients connect; `None` means that
    /// no region is served by one-sided RDMA.
    pub address: Option<SocketAddr>,
    /// `capacity`: I/Os per second of all clients together (C_G); `Some` where `address` is.
    pub capacity: Option<u64>,
    /// `client_capacity`: I/Os per second that one client can do (C_L); `None` means `capacity`.
    pub client_capacity: Option<u64>,
    /// `deviation`: the standard deviation of the capacity in I/Os per second; `None` means 1 % of
    /// it.
    pub deviation: Option<u64>,
    /// `period`: the time in which reservations and limits are kept (T).
    pub period: Duration,
    /// `interval`: the time between checks, and between a client's reports.
    pub interval: Duration,
    /// `batch`: global tokens that a client takes at once (B).
    pub batch: u64,
    /// `clients`: the most grants at one time.
    pub clients: u32,
    /// `io_size`: the most bytes of an I/O, which takes one token; `None` means 4 KiB.
    pub io_size: Option<u64>,
}

impl Default for Pmem {
    fn default() -> Self {
        Self {
            address: None,
            capacity: None,
            client_capacity: None,
            deviation: None,
            period: Duration::from_secs(1),
            interval: Duration::from_millis(1),
            batch: 1000,
            clients: 64,
            io_size: None,
        }
    }
}

table! { Pmem, PMEM;
    "address" => field(address),
    "capacity" => field(capacity),
    "client_capacity" => field(client_capacity),
    "deviation" => field(deviation),
    "period" => field(period),
    "interval" => field(interval),
    "batch" => field(batch),
    "clients" => field(clients),
    "io_size" => field(io_size),
}

impl Pmem {
    /// Returns the I/Os per second of all clients together (C_G); 0 without a `capacity`.
    #[must_use]
    pub fn capacity_of_all(&self) -> u64 {
        self.capacity.unwrap_or(0)
    }

    /// Returns the I/Os per second that one client can do (C_L).
    #[must_use]
    pub fn capacity_of_client(&self) -> u64 {
        self.client_capacity.unwrap_or_else(|| self.capacity_of_all())
    }

    /// Returns the most bytes of an I/O.
    #[must_use]
    pub fn bytes_of_io(&self) -> u64 {
        self.io_size.unwrap_or(4096)
    }

    /// Returns the standard deviation of the capacity in I/Os per second.
    #[must_use]
    pub fn deviation_of_capacity(&self) -> u64 {
        self.deviation.unwrap_or_else(|| self.capacity_of_all() / 100)
    }
}

/// Reads `[pmem]`. Returns the place of `address` too.
pub(super) fn general(mut fields: Fields<'_>) -> (Pmem, Option<At<()>>) {
    let mut pmem = Pmem::default();
    let seen = table::read(&mut fields, &mut pmem);
    let (place, problems) = (fields.place(), fields.problems());
    fields.finish();
    check_address(&pmem, &seen, problems);
    check_capacities(&pmem, &seen, problems);
    check_times(&pmem, &seen, &place, problems);
    (pmem, seen.place("address"))
}

/// Checks that `address` is a valid destination for clients, and that I/Os can be granted there.
fn check_address(pmem: &Pmem, seen: &Seen, problems: &Problems) {
    let (Some(address), Some(place)) = (pmem.address, seen.place("address")) else { return };
    if address.ip().is_unspecified() {
        let message = format!("`address` is {address}, which clients cannot connect to");
        problems.at(&place, message, "write an address that the RDMA device has");
    }
    if pmem.capacity.is_none() && !seen.unread("capacity") {
        let remedy = "write the I/Os per second that all clients together were seen to do: \
                      capacity = 1000000";
        problems.at(&place, "`address` is set, and `capacity` is not", remedy);
    }
}

/// Checks that nothing exceeds the capacity.
fn check_capacities(pmem: &Pmem, seen: &Seen, problems: &Problems) {
    let Some(capacity) = pmem.capacity else { return };
    for (key, value) in [("client_capacity", pmem.client_capacity), ("deviation", pmem.deviation)] {
        let Some(value) = value.filter(|value| *value > capacity) else { continue };
        let Some(place) = seen.place(key) else { continue };
        let message = format!("`{key}` is {value}, more than `capacity`, which is {capacity}");
        problems.at(&place, message, format!("write at most {capacity}"));
    }
}

/// Checks the times against each other, and that a client can report its I/Os of a period.
fn check_times(pmem: &Pmem, seen: &Seen, place: &At<()>, problems: &Problems) {
    let Pmem { period, interval, .. } = *pmem;
    if seen.unread("period") || seen.unread("interval") {
        return;
    }
    let at = |keys: &[&str]| {
        keys.iter().find_map(|key| seen.place(key)).unwrap_or_else(|| place.clone())
    };
    if interval > period {
        let message = format!(
            "`interval` is {}, longer than `period`, which is {}",
            format_duration(interval),
            format_duration(period)
        );
        let remedy = "write a shorter interval: each period has many checks";
        problems.at(&at(&["interval", "period"]), message, remedy);
    }
    let most = u128::from(pmem.capacity_of_client()).saturating_mul(period.as_nanos());
    if most / 1_000_000_000 > u128::from(REPORTED_MAX) && !seen.unread("client_capacity") {
        let message = format!(
            "a client with {} I/Os per second may do more than {REPORTED_MAX} in a period of {}, \
             which is the most that it can report",
            pmem.capacity_of_client(),
            format_duration(period)
        );
        let remedy = "write a shorter period, or a smaller client_capacity";
        problems.at(&at(&["period", "client_capacity", "capacity"]), message, remedy);
    }
}
