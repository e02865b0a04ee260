//! Quality of service while namespaces, sessions and hosts come, change and go.

use std::collections::HashSet;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use arbitration::limit::Rate;
use fabric::nvme::{Sqe, opcode};
use sluice_config::{DeviceQos, Limits, Namespace, Order, Policy, Qos, QosConfig, Session};
use sluiced::serve::engine::Engine;
use sluiced::start::runtime::Runtime;
use zerocopy::little_endian::U32;

use crate::client::{NQN, connected, io};
use crate::qos_memory::{
    iops, limited, of_namespace, session, slow_device, start, with_sessions, with_window,
};
use crate::{Running, disk, eventually, file, in_flight, memory, memory_of};

const OUTPUT_MARK: u8 = 0xc0;

fn in_use(runtime: &Runtime) -> f64 {
    runtime.qos().devices.iter().map(|device| device.in_use).sum()
}

/// Lists the threads of reactors, with the CPU time that each has used, in clock ticks (10 ms).
fn reactors() -> Vec<(String, u64)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let one = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.split_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
        name.contains("reactor").then(|| (task.file_name().into_string().unwrap(), ticks))
    };
    tasks.filter_map(|task| one(task.ok()?)).collect()
}

#[test]
fn an_idle_reactor_sleeps_whatever_was_withdrawn() {
    // Other tests start reactors too: the measurement is repeated if one did at the same moment.
    let (_runtime, address, ours) = loop {
        let before: HashSet<String> = reactors().into_iter().map(|(task, _)| task).collect();
        let (runtime, address) = start(vec![memory()], 1, limited(1, iops(1)));
        let mut new = reactors().into_iter().map(|(t, _)| t).filter(|t| !before.contains(t));
        if let (Some(one), None) = (new.next(), new.next()) {
            break (runtime, address, one);
        }
    };
    let (_admin, [mut queue]) = connected(address);
    for lba in 0..4 {
        queue.submit_read(lba, 1);
    }
    std::thread::sleep(Duration::from_millis(200));
    drop(queue);
    std::thread::sleep(Duration::from_millis(1300));
    let used = || reactors().into_iter().find(|(task, _)| *task == ours).map(|(_, used)| used);
    let first = used().unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let spent = used().unwrap() - first;
    assert!(spent < 20, "{spent} of 100 ticks of CPU time with nothing to do");
}

/// Commands of one reactor hold the window, and commands of another wait for it.
#[test]
fn a_device_that_goes_leaves_nobody_waiting() {
    let device = with_window(slow_device(Duration::from_millis(400)), 1);
    let (runtime, address) = start(vec![device], 2, QosConfig::default());
    let (_admin, [mut one, mut other]) = connected(address);
    let queues = runtime.connections().into_iter().filter(|c| c.queue > Some(0));
    assert_eq!(queues.map(|c| c.reactor).collect::<HashSet<_>>().len(), 2);
    let first = one.submit_read(0, 1);
    std::thread::sleep(Duration::from_millis(50));
    let second = other.submit_read(0, 1);
    std::thread::sleep(Duration::from_millis(50));
    std::thread::scope(|scope| {
        scope.spawn(|| runtime.remove_namespace(NQN, 1).unwrap());
        one.wait(first);
        other.wait(second);
    });
}

/// A namespace that was removed is not written to any more: its device may be another's by then.
#[test]
fn nothing_is_written_after_a_namespace_was_removed() {
    let (_folder, path) = disk();
    let (runtime, address) = start(vec![file(&path)], 1, limited(1, iops(2)));
    let (_admin, [mut queue]) = connected(address);
    for lba in 0..24 {
        queue.submit_write(1, lba, 1);
    }
    std::thread::sleep(Duration::from_millis(200));
    runtime.remove_namespace(NQN, 1).unwrap();
    let disk = std::fs::File::open(&path).unwrap();
    let written = || {
        let mut blocks = vec![0; 24 * 4096];
        disk.read_exact_at(&mut blocks, 0).unwrap();
        blocks.chunks(4096).filter(|block| block[100] == 1).count()
    };
    let then = written();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(written(), then, "writes after the namespace was removed");
}

fn containers() -> Namespace {
    let device = DeviceQos { order: Order::Containers, ..DeviceQos::default() };
    Namespace { device, ..slow_device(Duration::from_micros(100)) }
}

#[test]
fn output_marks_alone_leave_nothing_behind() {
    let (runtime, address) = start(vec![containers()], 1, QosConfig::default());
    let (_admin, [mut queue]) = connected(address);
    for _ in 0..1000 {
        assert!(queue.call(io(OUTPUT_MARK, 0, 1), None, 0).0.is_success());
    }
    std::thread::sleep(Duration::from_millis(300));
    let waiting = runtime.qos().devices[0].waiting;
    let sum: u64 = waiting.iter().map(|(_, waiting)| *waiting).sum();
    assert_eq!(sum, 0, "commands that wait though all are answered");
}

#[test]
fn an_output_mark_at_one_reactor_holds_nobody_up_at_another() {
    let (_runtime, address) = start(vec![containers()], 2, QosConfig::default());
    let (_admin, [mut one, mut other]) = connected(address);
    let high = |lba| Sqe { cdw13: U32::new(0x200), ..io(opcode::io::READ, lba, 1) };
    let mut run = |marks: bool| {
        for round in 0..10 {
            let cids: Vec<u16> = (0..50).map(|lba| other.submit(high(lba), None, 4096)).collect();
            if marks && round == 0 {
                assert!(one.call(io(OUTPUT_MARK, 0, 1), None, 0).0.is_success());
            }
            other.complete(cids);
        }
    };
    run(false);
    run(true);
}

/// Checks that commands which a limit of one a second would hold for a minute wait no longer after a
/// change.
fn change_lets_go(qos: QosConfig, change: impl FnOnce(&Runtime)) -> Running {
    let (runtime, address) = start(vec![memory_of(1 << 20)], 1, qos);
    let (_admin, [mut queue]) = connected(address);
    let cids: Vec<u16> = (0..60).map(|lba| queue.submit_read(lba, 1)).collect();
    eventually("the commands have arrived", || in_flight(&runtime) > 4);
    change(&runtime);
    let begun = Instant::now();
    queue.complete(cids);
    assert!(begun.elapsed() < Duration::from_secs(20), "after {:?}", begun.elapsed());
    runtime
}

#[test]
fn disabled_quality_of_service_holds_nothing_back() {
    let general = Qos { enabled: false, ..Qos::default() };
    let off = QosConfig { general, ..limited(1, iops(1)) };
    change_lets_go(limited(1, iops(1)), |runtime| runtime.set_qos(&off).unwrap());
}

#[test]
fn a_session_that_is_removed_holds_nothing_back() {
    let slow = Session { limits: iops(1), ..session("slow") };
    let (subsystem, session) = (Some(NQN.to_owned()), Some(slow.name.clone()));
    let policies = vec![Policy { subsystem, session, ..Policy::default() }];
    let qos = QosConfig { policies, ..with_sessions(vec![slow]) };
    change_lets_go(qos, |runtime| runtime.set_qos(&QosConfig::default()).unwrap());
}

#[test]
fn a_namespace_that_grows_raises_its_limit_per_gib() {
    let limits = Limits { per_gib: iops(1024).total, ..Limits::default() };
    let resize = |runtime: &Runtime, size: u64, iops: u64| {
        runtime.resize_namespace(NQN, 1, Some(size)).unwrap();
        let sessions = runtime.qos().sessions;
        let own = sessions.iter().find(|session| session.name == of_namespace(1).name).unwrap();
        assert_eq!(own.limits.total.iops.map(Rate::get), Some(iops));
    };
    let runtime = change_lets_go(limited(1, limits), |runtime| resize(runtime, 256 << 20, 256));
    resize(&runtime, 3 << 20, 3);
}

/// A Verify holds its place in the window while the Verify waits for a scratch buffer.
#[test]
fn a_cut_connection_gives_back_what_waits_for_scratch_buffers() {
    let (_folder, path) = disk();
    let (runtime, address) = start(vec![file(&path)], 1, QosConfig::default());
    let (_admin, [mut busy, mut cut]) = connected(address);
    let verify = io(opcode::io::VERIFY, 0, 8192);
    let cids: Vec<u16> = (0..40).map(|_| busy.submit(verify, None, 0)).collect();
    std::thread::sleep(Duration::from_millis(20));
    for _ in 0..10 {
        cut.submit(verify, None, 0);
    }
    std::thread::sleep(Duration::from_millis(20));
    drop(cut);
    busy.complete(cids);
    eventually("the cut connection is gone", || runtime.connections().len() == 2);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(in_use(&runtime), 0.0, "commands in the device, of {:?}", runtime.qos().devices);
}

/// A write's data arrives after settings have changed, and after other commands of its connection
/// have come under the new settings.
#[test]
fn a_write_whose_data_comes_late_is_charged_to_its_own_session() {
    let (runtime, address) = start(vec![memory(), memory()], 1, limited(1, iops(1)));
    let (_admin, [mut queue]) = connected(address);
    for nsid in [1, 2] {
        queue.read(nsid, 0, 1);
    }
    let write = queue.submit_write(2, 0, 64);
    std::thread::sleep(Duration::from_millis(100));
    runtime.set_qos(&limited(1, iops(1))).unwrap();
    for lba in 0..40 {
        queue.submit_read(lba, 1);
    }
    eventually("the reads have arrived", || in_flight(&runtime) > 4);
    assert!(queue.wait(write).0.is_success());
    assert!(in_flight(&runtime) > 0, "the write waited with the reads of the limited session");
}
