//! Tests of a device that goes away while its namespace is served, and comes back.

use std::time::{Duration, Instant};

use crate::config::tests::parse;
use crate::engine::{Availability, Engine, NamespaceState};
use crate::runtime::Runtime;
use crate::store::SeenNamespaces;

const NQN: &str = "nqn.2026-01.io.x:s0";

fn await_state(runtime: &Runtime, state: Availability) -> NamespaceState {
    let start = Instant::now();
    loop {
        let row = runtime.subsystems()[0].namespaces[0].clone();
        if row.state == state {
            return row;
        }
        assert!(start.elapsed() < Duration::from_secs(100), "{row:?} does not become {state:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_device_that_goes_and_comes_back_is_opened_again_with_its_counters_and_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let config = format!(
        "[target]\ncores = [0]\npoll = \"never\"\nio_memory = \"2 MiB\"\n[[subsystem]]\n\
         nqn = \"{NQN}\"\n[[subsystem.namespace]]\nnsid = 1\nbackend = \"file\"\n\
         path = \"{}\"\ndirect = false\n",
        path.display()
    );
    let runtime = Runtime::start(&parse(&config).unwrap(), SeenNamespaces::default()).unwrap();
    let id = || {
        runtime.shared.with_service(|service| {
            let namespace = service.subsystem(NQN).unwrap().namespaces[0].clone();
            (namespace.backend, namespace.geometry, namespace.is_ready())
        })
    };
    let (first, geometry, ready) = id();
    assert!(ready);
    let device = runtime.shared.devices.get(first).unwrap();
    device.stats.get(0).unwrap().read.record(7, 7 * 4096, 1000);
    // A change made meanwhile holds for the next device too.
    runtime.set_namespace_class(NQN, 1, Some(arbitration::Class::High)).unwrap();
    runtime.resize_namespace(NQN, 1, Some(512 << 10)).unwrap();
    std::fs::remove_file(&path).unwrap();
    device.backend.health().fail("the device is gone".to_owned());
    let row = await_state(&runtime, Availability::Unavailable);
    assert!(row.reason.unwrap().contains("for "), "since when");
    assert_eq!(row.size, 512 << 10, "hosts keep the size that they know");
    let (none, kept, ready) = id();
    assert!(!ready && kept.format == geometry.format);
    assert!(runtime.shared.devices.get(none).is_none());
    assert!(runtime.shared.devices.get(first).is_none(), "no command gets to it any more");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    runtime.retry_namespaces(None, None);
    let row = runtime.subsystems()[0].namespaces[0].clone();
    assert_eq!(row.state, Availability::Unavailable, "a command may still be in the old one");
    drop(device);
    let row = await_state(&runtime, Availability::Ready);
    assert_eq!(row.size, 512 << 10, "the size that it was given");
    let (second, _, ready) = id();
    assert!(ready && second != first);
    let (_, _, io) = &runtime.statistics().namespaces[0];
    assert_eq!((io.read.ops, io.read.bytes), (7, 7 * 4096), "counters go on");
    let rule = runtime.shared.qos.namespace(NQN, 1).unwrap();
    assert_eq!(rule.class, Some(arbitration::Class::High));
    runtime.shutdown(true);
    runtime.wait();
}
