//! Scenarios with a hard disk (docs/research/sources.md, F3: reservations are kept).

use crate::common::*;

/// A database, Low, wants 20 blocks in a second of a disk that four hosts of High read as fast as they can.
const SHARED: &str = r#"
duration = "20 s"
warmup = "2 s"
[topology]
kind = "rack"
rate = "10 Gbit/s"
[qos]
weights = [12, 2, 1]
[[session]]
name = "database"
RESERVE
[[namespace]]
device = "disk"
window = 2
[[host]]
name = "database"
class = "low"
session = "database"
[[host.load]]
process = "poisson"
rate = 18
[[host]]
name = "bulk"
count = 4
class = "high"
[[host.load]]
process = "closed"
depth = 32
"#;

/// Runs the scenario. Returns the I/Os in a second of the database, and of all hosts.
fn rates(reserve: &str) -> (f64, f64) {
    let measured = run(planned(&SHARED.replace("RESERVE", reserve), 1).1);
    let mut rates = measured.hosts.iter().map(|host| {
        let commands: u64 = host.loads.iter().map(|load| load.read.commands).sum();
        commands as f64 / measured.time.as_secs_f64()
    });
    let first = rates.next().unwrap_or_default();
    (first, first + rates.sum::<f64>())
}

#[test]
fn f3_a_reservation_on_a_disk_is_kept_beside_higher_classes() {
    let (without, all) = rates("");
    assert!((65.0..95.0).contains(&all), "a seek and half a turn take 12.9 ms: {all} in a second");
    let (with, of_all) = rates("reserve = { commands = 20, period = \"1 s\" }");
    assert!(with > 17.0, "{with} of 18 in a second");
    assert!(without < 12.0, "{without} in a second without the reservation");
    assert!(of_all > 0.8 * all, "{of_all} of {all}: the disk is used");
}
