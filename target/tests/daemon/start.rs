//! Tests of the log that a start writes, of errors at start, and of the number of metrics.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::client::{NQN, connected, free_address};
use crate::daemon::Setup;

/// Returns the lines of a log from a level on: warnings and errors.
fn problems(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect()
}

#[test]
fn first_start_logs_no_problem() {
    let setup = Setup::new();
    let disk = setup.path("disk.img");
    setup.write(&setup.text(&format!(
        "[[subsystem.namespace]]\nnsid = 2\nbackend = \"file\"\npath = \"{}\"\nsize = \"64 MiB\"\ncreate = true\n\
         [[session]]\nname = \"tenant\"\nreserve = {{ commands = 100, namespace = \"{NQN}/2\" }}\n\
         [network]\nclasses = {{ high = {{ share = 5 }}, low = {{ share = 2 }} }}\n",
        disk.display()
    )));
    let daemon = setup.start();
    daemon.logged("ECN");
    let log = daemon.log();
    assert_eq!(problems(&log), [""; 0], "{log}");
    let serves = log.lines().position(|line| line.contains("serving")).unwrap();
    let advice = log.lines().position(|line| line.contains("ECN")).unwrap();
    assert!(advice > serves && daemon.count("ECN") == 1, "advice at {advice} in:\n{log}");
}

#[test]
fn start_without_network_classes_has_no_advice() {
    let setup = Setup::with("");
    let log = setup.start().log();
    assert_eq!(problems(&log), [""; 0], "{log}");
    assert!(!log.contains("ECN"), "{log}");
}

#[test]
fn fatal_error_is_printed_once() {
    let setup = Setup::with("[qos]\nwindw = 3\n");
    let output = setup.command().stderr(Stdio::piped()).output().unwrap();
    assert!(!output.status.success());
    let printed = String::from_utf8(output.stderr).unwrap();
    assert_eq!(printed.matches("unknown key `windw`").count(), 1, "{printed}");
}

/// Returns the body of a page of the HTTP listener.
fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn idle_objects_have_few_series() {
    let setup = Setup::new();
    let metrics = free_address();
    let disk = "[[subsystem.namespace]]\nbackend = \"null\"\nsize = \"1 GiB\"\n";
    let text = setup.text(&disk.repeat(3));
    setup.write(&text.replacen("[target]", &format!("[target]\nmetrics = \"{metrics}\""), 1));
    let _daemon = setup.start();
    let series = || get(metrics, "/metrics").lines().filter(|line| !line.starts_with('#')).count();
    let mut hosts: Vec<_> = (0..3).map(|_| connected::<1>(setup.address)).collect();
    let idle = series();
    assert!((50..=500).contains(&idle), "{idle} series of idle objects");
    for (_, [queue]) in &mut hosts {
        (1..5).for_each(|nsid| drop(queue.read(nsid, 0, 1)));
    }
    // Most of them are the 24 buckets of each histogram that has counted something.
    let busy = series();
    assert!((500..=1600).contains(&busy), "{busy} series of objects with traffic");
}
