//! The lines of the log about hosts.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, LazyLock};

use fabric::nvme::SglDescriptor;
use hostile::{Identity, Raw, commands};
use sluiced::serve::engine::Engine;

use super::client::{NQN, identity};
use super::{end, eventually, memory, target};

/// The log of all targets of this process, at INFO and above.
static LOG: LazyLock<File> = LazyLock::new(|| {
    let file = tempfile::tempfile().unwrap();
    let writer = Arc::new(file.try_clone().unwrap());
    let text = tracing_subscriber::fmt().with_writer(writer).with_ansi(false);
    text.with_max_level(tracing::Level::INFO).init();
    file
});

pub(crate) fn lines(host: &str) -> Vec<String> {
    let mut log = vec![0; usize::try_from(LOG.metadata().unwrap().len()).unwrap()];
    LOG.read_exact_at(&mut log, 0).unwrap();
    let log = String::from_utf8(log).unwrap();
    log.lines().filter(|line| line.contains(host)).map(str::to_owned).collect()
}

/// Connects a queue of a host with this NQN. Returns the status where the target refuses.
fn connect(address: SocketAddr, host: &str, qid: u16, cntlid: u16) -> Result<(Raw, u16), u16> {
    let data = Identity { host: host.to_owned(), ..identity() }.connect_data(cntlid);
    Raw::connect_with(address, &commands::connect(qid), &data).unwrap()
}

#[test]
fn a_host_makes_one_line_when_it_comes_and_one_when_it_goes() {
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1ac70000-0000-4000-8000-000000000001";
    assert!(lines(HOST).is_empty());
    let (runtime, address) = target(vec![memory()], 2);
    let (mut admin, id) = connect(address, HOST, 0, 0xffff).unwrap();
    // The line is there before the host has its answer.
    let came = lines(HOST);
    assert!(came[0].contains("INFO") && came[0].contains("a host has connected"), "{came:?}");
    assert!(came[0].contains(NQN), "{came:?}");
    admin.send(&commands::enable(), SglDescriptor::default(), &[]).unwrap();
    admin.receive().unwrap();
    let queues: Vec<_> = (1..=3).map(|qid| connect(address, HOST, qid, id).unwrap()).collect();
    assert_eq!(lines(HOST), came, "queues make no line");
    drop((admin, queues));
    eventually("a second line", || lines(HOST).len() > 1);
    end(&runtime);
    let all = lines(HOST);
    assert!(all[1].contains("a host has left") && all[1].contains("queues=3"), "{all:?}");
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
        assert!(connect(address, HOST, 0, 0xffff).is_err());
    }
    let all = lines(HOST);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].contains("WARN"), "{all:?}");
    assert!(all[0].contains(&format!("sluice host add {NQN} {HOST}")), "{all:?}");
}
