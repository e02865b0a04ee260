//! Tests of a device that goes away while its namespace is served, and comes back, and of the identities
//! of namespaces.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbitration::Class;
use fabric::nvme::{Sqe, Status, opcode};
use hostile::commands::io;
use hostile::{Identity, Queue};
use sluice_config::testing::parse;
use sluice_config::{Config, derived_uuid};
use tempfile::TempDir;
use zerocopy::little_endian::U32;

use super::{LostDisk, Runtime, losses};
use crate::control::store::full_store::FullStore;
use crate::control::store::{DiskStore, MemoryStore, Place, Remembered, Seen, Store};
use crate::disks::devices::OpenDevice;
use crate::serve::engine::{Availability, Engine, NamespaceState};

const NQN: &str = "nqn.2026-01.io.x:s0";

/// Waits until something has a value for which `is_right` holds, and returns it.
fn eventually<T: Debug>(mut look: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    let start = Instant::now();
    loop {
        let seen = look();
        if is_right(&seen) {
            return seen;
        }
        assert!(start.elapsed() < Duration::from_secs(100), "it stays {seen:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn await_state(runtime: &Runtime, state: Availability) -> NamespaceState {
    eventually(|| runtime.subsystems()[0].namespaces[0].clone(), |row| row.state == state)
}

#[test]
fn a_device_that_goes_and_comes_back_is_opened_again_with_its_counters_and_settings() {
    let (_folder, path, config) = one_disk();
    run_alone(&config, |runtime| {
        let id = || {
            runtime.shared.with_service(|service| {
                let namespace = service.subsystem(NQN).unwrap().namespaces[0].clone();
                (namespace.backend, namespace.geometry, namespace.is_ready())
            })
        };
        let (first, geometry, ready) = id();
        assert!(ready);
        let device = device(runtime);
        device.stats.get(0).unwrap().read.record(7, 7 * 4096, 1000);
        // A change made meanwhile holds for the next device too.
        runtime.set_namespace_class(NQN, 1, Some(Class::High)).unwrap();
        runtime.resize_namespace(NQN, 1, Some(512 << 10)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let row = fail(runtime, &device);
        assert!(row.reason.unwrap().contains("for "), "since when");
        assert_eq!(row.size, 512 << 10, "hosts keep the size that they know");
        let (none, kept, ready) = id();
        assert!(!ready && kept.format == geometry.format);
        assert!(runtime.shared.devices.get(none).is_none());
        assert!(runtime.shared.devices.get(first).is_none(), "no command gets to it any more");
        write(&path);
        runtime.retry_namespaces(None, None);
        let state = runtime.subsystems()[0].namespaces[0].state;
        assert_eq!(state, Availability::Unavailable, "a command may still be in the old one");
        drop(device);
        let row = await_state(runtime, Availability::Ready);
        assert_eq!(row.size, 512 << 10, "the size that it was given");
        let (second, _, ready) = id();
        assert!(ready && second != first);
        let (_, _, io) = &runtime.statistics().namespaces[0];
        assert_eq!((io.read.ops, io.read.bytes), (7, 7 * 4096), "counters go on");
        let rule = runtime.shared.qos.namespace(NQN, 1).unwrap();
        assert_eq!(rule.class, Some(Class::High));
    });
}

#[test]
fn a_namespace_that_opens_while_its_state_is_read_is_shown_with_its_size() {
    let (_folder, path, config) = one_disk();
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    run_alone(&config, |runtime| {
        let known = || runtime.shared.with_service(|service| service.namespace(NQN, 1).cloned());
        let absent = known().unwrap();
        std::fs::rename(path.with_extension("away"), &path).unwrap();
        let there = await_state(runtime, Availability::Ready);
        assert_eq!(runtime.namespaces.states(NQN, &[absent])[0].size, there.size);
    });
}

/// Returns the device of namespace 1.
fn device(runtime: &Runtime) -> Arc<OpenDevice> {
    let id = runtime.shared.with_service(|service| service.namespace(NQN, 1).unwrap().backend);
    runtime.shared.devices.get(id).unwrap()
}

/// Makes the device of namespace 1 fail, and waits until the namespace is not available.
fn fail(runtime: &Runtime, device: &OpenDevice) -> NamespaceState {
    device.backend.health().fail("the device is gone".to_owned());
    await_state(runtime, Availability::Unavailable)
}

/// Takes the file of namespace 1 away and back. With `writes`, a write ends meanwhile that is not flushed.
fn lose_device(runtime: &Runtime, writes: bool) {
    let device = device(runtime);
    fail(runtime, &device);
    if writes {
        // A command that was in the device when it went away.
        device.backend.health().cached().note_write();
    }
    drop(device);
    await_state(runtime, Availability::Ready);
}

#[test]
fn next_flush_of_each_host_fails_after_cached_writes_were_lost_with_a_device() {
    let (_folder, _, mut config) = one_disk();
    let address = hostile::free_address().unwrap();
    config.listeners =
        parse(&format!("[[listener]]\naddress = \"{address}\"\n")).unwrap().listeners;
    config.subsystems[0].allow_any_host = true;
    let connect = |host: &str| {
        let [subsystem, host] = [NQN, host].map(str::to_owned);
        let identity = Identity { subsystem, host, host_id: [7; 16] };
        let (admin, id) = Queue::controller(address, &identity).unwrap();
        (admin, Queue::connect(address, &identity, 1, id).unwrap().0)
    };
    let write = || (io(opcode::io::WRITE, 0, 1), Some(vec![7; 4096]));
    let flush = || (io(opcode::io::FLUSH, 0, 1), None);
    let forced = || {
        let (sqe, data) = write();
        (Sqe { cdw12: U32::new(sqe.cdw12.get() | 1 << 30), ..sqe }, data)
    };
    let lost = Status::WRITE_FAULT.dnr();
    run_alone(&config, |runtime| {
        let [mut a, mut b] = ["nqn.a", "nqn.b"].map(connect);
        let run_on = |of: &mut (Queue, Queue), (sqe, data)| of.1.call(sqe, data, 0).unwrap().status;
        lose_device(runtime, false);
        assert_eq!([run_on(&mut a, flush()), run_on(&mut b, flush())], [Status::SUCCESS; 2]);
        for host in [&mut a, &mut b] {
            assert_eq!(run_on(host, write()), Status::SUCCESS);
        }
        lose_device(runtime, false);
        let mut c = connect("nqn.c");
        assert_eq!(run_on(&mut c, flush()), Status::SUCCESS, "it has lost nothing");
        assert_eq!([run_on(&mut a, flush()), run_on(&mut a, flush())], [lost, Status::SUCCESS]);
        // The device is lost again before the other host gets the error of the first time.
        lose_device(runtime, false);
        assert_eq!(run_on(&mut a, flush()), Status::SUCCESS);
        assert_eq!([run_on(&mut b, forced()), run_on(&mut b, flush())], [lost, Status::SUCCESS]);
        lose_device(runtime, true);
        drop(b);
        let mut b = connect("nqn.b");
        for host in [&mut a, &mut b, &mut c] {
            assert_eq!([run_on(host, flush()), run_on(host, flush())], [lost, Status::SUCCESS]);
        }
    });
}

/// A namespace on a file and one in memory.
fn disks(file: &Path, more: &str) -> Config {
    parse(&format!(
        "[target]\ncores = [0]\npoll = \"never\"\nio_memory = \"2 MiB\"\n[[subsystem]]\n\
         nqn = \"{NQN}\"\n[[subsystem.namespace]]\nnsid = 1\nbackend = \"file\"\n\
         path = \"{}\"\ndirect = false\n{more}[[subsystem.namespace]]\nnsid = 2\n\
         backend = \"memory\"\nsize = \"1 MiB\"\n",
        file.display()
    ))
    .unwrap()
}

fn write(file: &Path) {
    std::fs::write(file, vec![0; 1 << 20]).unwrap();
}

/// Makes a file, and the configuration that serves it.
fn one_disk() -> (TempDir, PathBuf, Config) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    write(&path);
    let config = disks(&path, "");
    (folder, path, config)
}

/// Opens the state file of a folder.
fn stored(folder: &TempDir) -> Arc<DiskStore> {
    Arc::new(DiskStore::open(&folder.path().join("state")).unwrap().0)
}

/// Runs a target over a store, without one of an earlier run.
fn run<R>(config: &Config, store: Arc<dyn Store>, act: impl FnOnce(&Runtime) -> R) -> R {
    let (remembered, _) = Remembered::open(&store).unwrap();
    let runtime = Runtime::start(config, remembered).unwrap();
    let result = act(&runtime);
    runtime.shutdown(true);
    runtime.wait();
    result
}

/// Runs a target without a state file.
fn run_alone<R>(config: &Config, act: impl FnOnce(&Runtime) -> R) -> R {
    run(config, Arc::new(MemoryStore::default()), act)
}

/// Returns the names that outlive a restart: the file's UUID and the serial number.
fn kept([file, _, serial]: &[String; 3]) -> [&str; 2] {
    [file, serial]
}

/// Returns the UUIDs of the file and of the memory, and the serial number.
fn names(runtime: &Runtime) -> [String; 3] {
    let subsystem = &runtime.subsystems()[0];
    let uuid = |nsid: u32| {
        let found = subsystem.namespaces.iter().find(|namespace| namespace.nsid == nsid);
        found.unwrap().uuid.clone()
    };
    [uuid(1), uuid(2), subsystem.serial.clone()]
}

/// Removes a namespace as an operator does. With `keep`, a revert brings its identity back.
fn remove_for_good(runtime: &Runtime, nsid: u32, keep: bool) {
    runtime.remove_namespace(NQN, nsid).unwrap();
    runtime.forget_identity(NQN, Some(nsid), keep);
}

/// Makes a path that does not answer, and returns namespace 3 at it: opening a FIFO for reading waits for a writer.
fn hanging(fifo: &Path) -> String {
    nix::unistd::mkfifo(fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    format!(
        "[[subsystem.namespace]]\nnsid = 3\nbackend = \"nvme\"\ndevice = \"{}\"\nread_only = true\n",
        fifo.display()
    )
}

#[test]
fn path_that_does_not_answer_delays_no_other_change() {
    let (folder, path, config) = one_disk();
    let fifo = folder.path().join("fifo");
    let with = disks(&path, &hanging(&fifo));
    run_alone(&config, |runtime| {
        let find = |nsid: u32| {
            let mut all = with.subsystems[0].namespaces.iter();
            all.find(|namespace| namespace.nsid == Some(nsid)).unwrap()
        };
        let task = super::namespaces::Task::Change(fifo.clone());
        let error = std::thread::scope(|scope| {
            let add = |within| runtime.namespaces.add_within(NQN, find(3), within);
            let adding = scope.spawn(move || add(Duration::from_secs(60)));
            while !runtime.namespaces.helpers.is_running(&task) {
                std::thread::yield_now();
            }
            runtime.remove_namespace(NQN, 1).unwrap();
            runtime.add_namespace(NQN, find(1)).unwrap();
            runtime.resize_namespace(NQN, 1, Some(2 << 20)).unwrap();
            let again = add(Duration::from_secs(60)).unwrap_err().to_string();
            assert!(again.contains("does not answer"), "{again}");
            let waits = !adding.is_finished();
            std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
            assert!(waits, "the others did not wait for it");
            adding.join().unwrap().unwrap_err().to_string()
        });
        assert!(error.contains("not an NVMe namespace"), "{error}");
        assert_eq!(runtime.subsystems()[0].namespaces.len(), 2);
    });
}

#[test]
fn daemon_starts_although_a_path_does_not_answer() {
    let (folder, path, _) = one_disk();
    let fifo = folder.path().join("fifo");
    let config = disks(&path, &hanging(&fifo));
    let ends = std::sync::Mutex::new(None);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run_alone(&config, |runtime| {
                let all = runtime.subsystems()[0].namespaces.clone();
                tell.send(all).unwrap();
                drop(ends.lock());
                // The keeper opens what answers again.
                let why = || runtime.subsystems()[0].namespaces[2].reason.clone().unwrap();
                eventually(why, |why| why.contains("not an NVMe namespace"));
            });
        });
        let mut held = ends.lock().unwrap();
        let all = told.recv_timeout(Duration::from_secs(60));
        // Threads at the path go on, now and later.
        *held = Some(std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap());
        drop(held);
        let all = all.unwrap();
        let states: Vec<_> = all.iter().map(|namespace| namespace.state).collect();
        assert_eq!(states, [Availability::Ready, Availability::Ready, Availability::Unavailable]);
        assert!(all[2].reason.as_ref().unwrap().contains("does not answer"), "{:?}", all[2]);
    });
}

#[test]
fn region_that_is_missing_at_the_start_is_opened_by_the_keeper() {
    let (folder, path, mut config) = one_disk();
    let file = folder.path().join("region");
    let address = hostile::free_address().unwrap();
    let text = format!(
        "[pmem]\naddress = \"{address}\"\ncapacity = 1000000\n[[region]]\nname = \"log\"\npath = \"{}\"\n\
         hosts = [\"nqn.2026-01.io.x:h\"]\n",
        file.display()
    );
    config.pmem = parse(&text).unwrap().pmem;
    run_alone(&config, |runtime| {
        let open = || runtime.pmem().regions[0].open.clone();
        assert!(open().unwrap_err().contains("there is no such file"));
        std::fs::copy(&path, &file).unwrap();
        eventually(open, Result::is_ok).unwrap();
    });
}

#[test]
fn without_a_state_file_the_file_itself_tells_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("disk"), folder.path().join("other"));
    let start = |more: &str| run_alone(&disks(&path, more), names);
    // The identifiers of a missing file depend on the file.
    let absent = start("");
    assert_eq!(absent[0], "");
    write(&path);
    let first = start("");
    assert_ne!(first[0], derived_uuid(NQN, 1).to_string());
    let again = start("");
    assert_eq!(kept(&again), kept(&first), "a restart");
    assert_ne!(again[1], first[1], "other memory");
    let given = "uuid = \"00000000-0000-0000-0000-00000000000a\"\n";
    assert_eq!(start(given)[0], "00000000-0000-0000-0000-00000000000a");
    std::fs::remove_file(&path).unwrap();
    write(&path);
    let replaced = start("");
    assert_ne!(replaced[0], first[0], "another file at the same path");
    assert_eq!(replaced[2], first[2]);
    write(&other);
    run_alone(&disks(&path, ""), |runtime| {
        let subsystem = disks(&other, "").subsystems.remove(0);
        remove_for_good(runtime, 1, false);
        let uuid = runtime.add_namespace(NQN, &subsystem.namespaces[0]).unwrap();
        assert_ne!(uuid.to_string(), replaced[0], "another file at the same NSID");
        assert_eq!(names(runtime)[0], uuid.to_string());
    });
}

#[test]
fn a_namespace_that_is_added_again_is_compared_with_what_was_seen_and_never_lost() {
    let (folder, path, config) = one_disk();
    let store = || stored(&folder);
    let changed = disks(&path, "read_only = true\n");
    let [old, new] = [&config, &changed].map(|config| &config.subsystems[0].namespaces[0]);
    run(&config, store(), |runtime| {
        let first = names(runtime);
        let state =
            || runtime.subsystems()[0].namespaces.iter().find(|n| n.nsid == 1).unwrap().state;
        // A reload with another setting, while the file has been cut; and its undoing.
        runtime.remove_namespace(NQN, 1).unwrap();
        std::fs::write(&path, vec![0; 1 << 19]).unwrap();
        let error = runtime.add_namespace(NQN, new).unwrap_err().to_string();
        assert!(error.contains("had at least 1 MiB"), "{error}");
        runtime.add_namespace(NQN, old).unwrap();
        assert_eq!((names(runtime), state()), (first.clone(), Availability::Unavailable));
        // A reload while it is not available.
        runtime.remove_namespace(NQN, 1).unwrap();
        runtime.add_namespace(NQN, new).unwrap();
        assert_eq!((names(runtime), state()), (first.clone(), Availability::Unavailable));
        runtime.forget_other_identities(&changed);
        assert!(
            runtime.namespaces.backings.seen(NQN, 1).is_some(),
            "a missing file is not made again"
        );
        write(&path);
        runtime.retry_namespaces(None, None);
        assert_eq!((names(runtime), state()), (first, Availability::Ready));
        // A removal, and additions by the operator after it.
        remove_for_good(runtime, 1, false);
        std::fs::remove_file(&path).unwrap();
        runtime.add_namespace(NQN, old).unwrap_err();
        runtime.add_namespace(NQN, old).unwrap_err();
    });
}

/// Takes a file away, as an unmount does.
fn unmount(path: &Path) {
    std::fs::rename(path, path.with_extension("unmounted")).unwrap();
}

/// Puts a file back, as a mount does.
fn mount(path: &Path) {
    std::fs::rename(path.with_extension("unmounted"), path).unwrap();
}

/// Takes the file of namespace 1 away, and has the namespace tried until it is noticed.
fn lose_file(runtime: &Runtime, path: &Path) {
    let device = device(runtime);
    unmount(path);
    fail(runtime, &device);
    drop(device);
    let look = || {
        assert!(!path.exists(), "it was made again");
        runtime.retry_namespaces(None, None);
        runtime.subsystems()[0].namespaces[0].reason.clone().unwrap_or_default()
    };
    eventually(look, |why| why.contains("there is no such file any more"));
}

/// Waits until the keeper has stored all.
fn await_stored(runtime: &Runtime) {
    eventually(|| runtime.unstored(), Vec::is_empty);
}

#[test]
fn file_that_is_gone_is_not_made_again_although_its_state_could_not_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let config = disks(&path, "size = \"1 MiB\"\ncreate = true\n");
    let store = Arc::new(FullStore::default());
    store.set_full(true);
    let first = run(&config, Arc::clone(&store) as Arc<dyn Store>, |runtime| {
        let first = names(runtime);
        let unstored = runtime.unstored();
        assert!(unstored[0].contains("no space left to write the state file"), "{unstored:?}");
        lose_file(runtime, &path);
        mount(&path);
        await_state(runtime, Availability::Ready);
        assert_eq!(names(runtime), first);
        store.set_full(false);
        await_stored(runtime);
        first
    });
    std::fs::remove_file(&path).unwrap();
    run(&config, store, |runtime| {
        assert_eq!(runtime.subsystems()[0].namespaces[0].state, Availability::Unavailable);
        assert_eq!(names(runtime)[0], first[0]);
    });
    assert!(!path.exists());
}

#[test]
fn change_that_cannot_be_stored_is_undone_to_the_disk_that_hosts_know() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let make = "size = \"1 MiB\"\ncreate = true\n";
    let [config, others] = [at("disk"), at("other")].map(|path| disks(&path, make));
    let mut changed = config.clone();
    changed.subsystems[0].namespaces[0].class = Some(Class::High);
    let of = |config: &Config| config.subsystems[0].namespaces[0].clone();
    let store = Arc::new(FullStore::default());
    store.set_full(true);
    let first = run(&config, Arc::clone(&store) as Arc<dyn Store>, |runtime| {
        let first = names(runtime);
        lose_file(runtime, &at("disk"));
        // A reload to another file, and one to other settings.
        for new in [&others, &changed] {
            runtime.remove_namespace(NQN, 1).unwrap();
            if of(new) == of(&others) {
                let error = runtime.add_namespace(NQN, &of(new)).unwrap_err().to_string();
                assert!(error.contains("it is not added: no space left"), "{error}");
            } else {
                runtime.add_namespace(NQN, &of(new)).unwrap();
                runtime.remove_namespace(NQN, 1).unwrap();
            }
            runtime.add_namespace(NQN, &of(&config)).unwrap();
            let row = await_state(runtime, Availability::Unavailable);
            assert_eq!((names(runtime), row.nsid), (first.clone(), 1));
            runtime.retry_namespaces(None, None);
            assert!(!at("disk").exists(), "it is not made again");
        }
        store.set_full(false);
        await_stored(runtime);
        first
    });
    run(&config, store, |runtime| assert_eq!(names(runtime)[0], first[0]));
    assert!(!at("disk").exists());
}

#[test]
fn a_state_file_keeps_identities_until_their_namespaces_are_removed() {
    let (folder, path, config) = one_disk();
    let store = || stored(&folder);
    let other = folder.path().join("other");
    write(&other);
    let first = run(&config, store(), names);
    unmount(&path);
    let absent = run(&config, store(), names);
    assert_eq!(kept(&absent), kept(&first), "hosts keep the disk while it is away");
    assert_ne!(absent[1], first[1], "other memory");
    mount(&path);
    assert_eq!(kept(&run(&config, store(), names)), kept(&first));
    let moved = disks(&other, "");
    let second = run(&config, store(), |runtime| {
        // A reload that fails: the file is back.
        runtime.remove_namespace(NQN, 1).unwrap();
        let uuid = runtime.add_namespace(NQN, &moved.subsystems[0].namespaces[0]).unwrap();
        assert_ne!(uuid.to_string(), first[0], "another path");
        let replaces = |nsid: u32| {
            runtime.shared.with_service(|service| service.namespace(NQN, nsid).unwrap().replaces)
        };
        assert!(replaces(1));
        runtime.remove_namespace(NQN, 1).unwrap();
        runtime.add_namespace(NQN, &config.subsystems[0].namespaces[0]).unwrap();
        assert_eq!(kept(&names(runtime)), kept(&first));
        assert!(!replaces(1), "no host has identified the other disk");
        assert!(replaces(2), "hosts know the memory of before the restart");
        // A reload that allocates the memory again.
        let before = names(runtime)[1].clone();
        runtime.remove_namespace(NQN, 2).unwrap();
        runtime.add_namespace(NQN, &config.subsystems[0].namespaces[1]).unwrap();
        assert_ne!(names(runtime)[1], before);
        runtime.forget_other_identities(&config);
        // A removal.
        remove_for_good(runtime, 1, false);
        runtime.add_namespace(NQN, &config.subsystems[0].namespaces[0]).unwrap();
        names(runtime)
    });
    assert!(second[0] != first[0] && second[2] == first[2]);
    assert_eq!(kept(&run(&config, store(), names)), kept(&second));
    // Another path in the file, read at the next start.
    let third = run(&moved, store(), names);
    assert!(third[0] != second[0] && third[2] == first[2]);
    assert_ne!(run(&config, store(), names)[0], second[0], "it was forgotten");
}

#[test]
fn a_revert_brings_back_the_disks_that_hosts_know() {
    let (folder, path, config) = one_disk();
    let store = || stored(&folder);
    let mut without = config.clone();
    without.subsystems[0].namespaces.clear();
    let namespaces = &config.subsystems[0].namespaces;
    let first = run(&config, store(), |runtime| {
        let first = names(runtime);
        for nsid in [1, 2] {
            remove_for_good(runtime, nsid, true);
        }
        first
    });
    let settle = |runtime: &Runtime| {
        runtime.forget_other_identities(&config);
        runtime.forget_removed_identities(&config, &config);
        names(runtime)
    };
    let second = run(&without, store(), |runtime| {
        runtime.forget_removed_identities(&config, &without);
        runtime.restore_identities();
        for namespace in namespaces {
            runtime.add_namespace(NQN, namespace).unwrap();
        }
        settle(runtime)
    });
    assert_eq!(kept(&second), kept(&first), "also after a restart");
    assert_ne!(second[1], first[1], "memory has lost its data");
    let third = run(&config, store(), |runtime| {
        runtime.remove_subsystem(NQN).unwrap();
        runtime.forget_identity(NQN, None, true);
        runtime.restore_identities();
        runtime.add_subsystem(&config.subsystems[0]).unwrap();
        settle(runtime)
    });
    assert_eq!(kept(&third), kept(&first), "a whole subsystem");
    let other = run(&config, store(), |runtime| {
        remove_for_good(runtime, 1, true);
        std::fs::remove_file(&path).unwrap();
        write(&path);
        runtime.restore_identities();
        runtime.add_namespace(NQN, &namespaces[0]).unwrap();
        settle(runtime)
    });
    assert_ne!(other[0], first[0], "another file at the path");
}

#[test]
fn file_that_replaced_another_one_is_another_disk() {
    let (folder, path, config) = one_disk();
    let store = || stored(&folder);
    let first = run(&config, store(), names);
    // The same file, with other content, and moved away and back.
    std::fs::write(&path, vec![7; usize::try_from(path.metadata().unwrap().len()).unwrap()])
        .unwrap();
    let moved = folder.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    assert_eq!(run(&config, store(), names)[0], first[0]);
    std::fs::copy(&path, &moved).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    let second = run(&config, store(), names);
    assert_ne!(second[0], first[0], "a host has the first file's file system mounted");
    assert_eq!(run(&config, store(), names)[0], second[0]);
    let mut same = config;
    same.subsystems[0].namespaces[0].uuid = Some(first[0].parse().unwrap());
    let uuid = &run(&same, store(), names)[0];
    assert_eq!(*uuid, first[0], "the operator knows that the data is the same");
}

#[test]
fn shrunk_and_omitted_disks_are_found() {
    let seen = |nsid, size| {
        let kind = "file".to_owned();
        let (path, uuid) = (PathBuf::from("/disk"), uuid::Uuid::nil());
        ((NQN.to_owned(), nsid), Seen { size, block_size: 4096, kind, path, device: None, uuid })
    };
    let found = |size: &str, seen: &[(Place, Seen)]| -> Vec<(u32, String)> {
        let lost = losses(seen, &disks(Path::new("/disk"), size));
        lost.into_iter().map(|LostDisk { nsid, what, .. }| (nsid, what)).collect()
    };
    let both = [seen(1, 2 << 20), seen(3, 1 << 20)];
    let gone = [(3, "the configuration no longer has the namespace".to_owned())];
    assert_eq!(found("", &both), gone);
    assert_eq!(found("size = \"2 MiB\"\n", &both), gone);
    let smaller = (1, "the configuration shrinks the namespace from 2 MiB to 1 MiB".to_owned());
    assert_eq!(found("size = \"1 MiB\"\n", &both), [&[smaller][..], &gone].concat());
}
