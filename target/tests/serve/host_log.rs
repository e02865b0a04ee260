//! What the log says of hosts.

use std::io::Write;
use std::sync::{Mutex, Once};

use fabric::nvme::Sqe;
use sluiced::engine::Engine;
use zerocopy::little_endian::U16;

use super::client::{NQN, connect_command, connect_data, enable_command};
use super::hostile::Raw;
use super::{end, eventually, memory, target};

/// What all targets of this process have logged.
static LOG: Mutex<String> = Mutex::new(String::new());

#[derive(Clone, Copy)]
struct Kept;

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the lines at INFO and above that name this host.
pub(crate) fn lines(host: &str) -> Vec<String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let text = tracing_subscriber::fmt().with_writer(|| Kept).with_ansi(false);
        text.with_max_level(tracing::Level::INFO).init();
    });
    let log = LOG.lock().unwrap();
    log.lines().filter(|line| line.contains(host)).map(str::to_owned).collect()
}

/// Returns the Connect data of a host with this NQN.
fn data_of(host: &str, cntlid: u16) -> Vec<u8> {
    let mut data = connect_data(cntlid);
    data[512..768].fill(0);
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    data
}

#[test]
fn a_host_makes_one_line_when_it_comes_and_one_when_it_goes() {
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1ac70000-0000-4000-8000-000000000001";
    assert!(lines(HOST).is_empty());
    let (runtime, address) = target(vec![memory()], 2);
    let connect = |qid, id| Raw::connect_with(address, &connect_command(qid), &data_of(HOST, id));
    let (mut admin, id) = connect(0, 0xffff).unwrap();
    let enable = Sqe { cid: U16::new(1), ..enable_command() };
    admin.send(&enable, fabric::nvme::SglDescriptor::default(), &[]);
    admin.receive().unwrap();
    let queues: Vec<_> = (1..=3).map(|qid| connect(qid, id).unwrap()).collect();
    eventually("a line", || !lines(HOST).is_empty());
    let came = lines(HOST);
    assert!(came[0].contains("INFO") && came[0].contains("a host has connected"), "{came:?}");
    assert!(came[0].contains("queues=3") && came[0].contains(NQN), "{came:?}");
    drop((admin, queues));
    eventually("a second line", || lines(HOST).len() > 1);
    end(&runtime);
    let all = lines(HOST);
    assert!(all[1].contains("a host has left"), "{all:?}");
    assert!(all[1].contains("it closed the connection"), "{all:?}");
    assert_eq!(all.len(), 2, "{all:?}");
}

#[test]
fn a_refused_host_makes_one_line_that_says_how_to_let_it_in() {
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1ac70000-0000-4000-8000-000000000002";
    assert!(lines(HOST).is_empty());
    let (runtime, address) = target(vec![memory()], 1);
    runtime.set_allow_any_host(NQN, false).unwrap();
    for _ in 0..20 {
        assert!(Raw::connect_with(address, &connect_command(0), &data_of(HOST, 0xffff)).is_err());
    }
    let all = lines(HOST);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].contains("WARN"), "{all:?}");
    assert!(all[0].contains(&format!("sluice host add {NQN} {HOST}")), "{all:?}");
    end(&runtime);
}
