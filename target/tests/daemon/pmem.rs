//! Regions of persistent memory, and of its substitutes, under a daemon that is killed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fabric::nvme::{Sqe, opcode};
use nix::sys::signal::Signal;

use crate::client::{connected, identity, io, on};
use crate::daemon::Setup;

/// The number of blocks that hosts write.
const BLOCKS: u32 = 64;
/// The number of hosts; each has its own blocks.
const HOSTS: u32 = 4;

/// Returns the bytes of a block: its number and the write's, over and over.
fn bytes(lba: u32, write: u32) -> Vec<u8> {
    let words = [lba.to_le_bytes(), write.to_le_bytes()];
    std::iter::repeat_n(words, 512).flatten().flatten().collect()
}

/// A host's record of its blocks.
#[derive(Clone, Debug)]
struct Known {
    /// The last write of each block that was acknowledged.
    acknowledged: Vec<u32>,
    /// The block and number of the write that was under way when the connection was lost.
    lost: Option<(u32, u32)>,
}

/// Writes a host's blocks in turn until the connection is lost.
fn write_on(address: SocketAddr, nsid: u32, host: u32, known: &mut Known, count: &AtomicU64) {
    let identity = identity();
    // The daemon may be killed before this host has come to write anything.
    let Ok((_admin, id)) = hostile::Queue::controller(address, &identity) else { return };
    let Ok((mut queue, _)) = hostile::Queue::connect(address, &identity, 1, id) else { return };
    let first = known.acknowledged.iter().max().unwrap() + 1;
    for write in first.. {
        let lba = (write * 7 % (BLOCKS / HOSTS)) * HOSTS + host;
        let sqe = on(nsid, io(opcode::io::WRITE, lba, 1));
        match queue.call(sqe, Some(bytes(lba, write)), 0) {
            Ok(answer) => assert!(answer.status.is_success(), "{}", answer.status),
            Err(_) => {
                known.lost = Some((lba, write));
                return;
            }
        }
        known.acknowledged[lba as usize] = write;
        count.fetch_add(1, Relaxed);
    }
}

/// Checks that each block holds its last acknowledged write, or the write that was cut off.
fn check(address: SocketAddr, nsid: u32, known: &mut [Known]) {
    let (_admin, [mut queue]) = connected(address);
    for lba in 0..BLOCKS {
        let seen = queue.read(nsid, lba, 1);
        let host = &mut known[(lba % HOSTS) as usize];
        let last = host.acknowledged[lba as usize];
        let cut_off = host.lost.filter(|(block, _)| *block == lba).map(|(_, write)| write);
        let is = |write: u32| seen == bytes(lba, write) || write == 0 && seen == [0; 4096];
        if let Some(write) = cut_off.filter(|write| is(*write)) {
            host.acknowledged[lba as usize] = write;
        } else {
            assert!(is(last), "block {lba} is {:?}, and was write {last}", &seen[..8]);
        }
    }
}

fn survives_kills(folder: &Path) {
    let setup = Setup::new();
    let path = folder.join("region");
    setup.write(&setup.text(&format!(
        "[[subsystem.namespace]]\nnsid = 2\nbackend = \"pmem\"\npath = \"{}\"\n\
         size = \"16 MiB\"\ncreate = true\n",
        path.display()
    )));
    let new = Known { acknowledged: vec![0; BLOCKS as usize], lost: None };
    let mut known = vec![new; HOSTS as usize];
    for writes in [150, 700, 333, 1234] {
        let mut daemon = setup.start();
        let line = daemon.logged("no persistent memory");
        assert!(line.contains("WARN") && line.contains("after a power cut"), "{line}");
        check(setup.address, 2, &mut known);
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (host, known) in (0..).zip(&mut known) {
                let (count, address) = (&count, setup.address);
                scope.spawn(move || write_on(address, 2, host, known, count));
            }
            while count.load(Relaxed) < writes {
                std::thread::yield_now();
            }
            daemon.send(Signal::SIGKILL);
        });
        assert_eq!(daemon.ended(), None);
    }
    let daemon = setup.start();
    check(setup.address, 2, &mut known);
    assert_eq!(daemon.count("ERROR"), 0, "{}", daemon.log());
    assert!(!daemon.log().contains("after a power cut: blocks"), "{}", daemon.log());
}

#[test]
fn a_plain_file_has_all_acknowledged_writes_whole_after_kills() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    survives_kills(folder.path());
}

#[test]
fn a_file_in_memory_has_all_acknowledged_writes_whole_after_kills() {
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        survives_kills(folder.path());
    }
}

#[test]
fn a_memory_namespace_has_nothing_after_a_kill() {
    let setup = Setup::with("");
    for round in 0..2 {
        let mut daemon = setup.start();
        let (mut admin, [mut queue]) = connected(setup.address);
        if round > 0 {
            // The host knows the memory that is lost: a write that it sends again must not reach the new one.
            let (status, ..) = queue.call(io(opcode::io::WRITE, 6, 1), Some(bytes(6, 1)), 0);
            assert!(!status.is_success(), "{status}");
            let identify =
                Sqe { opcode: opcode::admin::IDENTIFY, nsid: 1.into(), ..Sqe::default() };
            assert!(admin.call(identify, None, 4096).0.is_success());
            assert!(queue.read(1, 6, 1) == [0; 4096]);
        }
        assert!(queue.read(1, 5, 1) == [0; 4096]);
        queue.write(1, 5, bytes(5, 1));
        daemon.send(Signal::SIGKILL);
        assert_eq!(daemon.ended(), None);
    }
}
