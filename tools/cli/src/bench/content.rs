//! Protects existing file systems, volumes and partitions, and disks that other hosts use, from loads that
//! write.

use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use fabric::host::commands;

use super::args::Load;
use super::io_queue::MAX_RETRIES;
use super::job::Job;
use super::tenants::Tenants;
use super::units::show_bytes;
use super::worker::Plan;
use crate::host::controller::{Association, Namespace};

/// Length in bytes of the start of a namespace. All signatures are within it.
const LOOK: usize = 68 * 1024;

/// Signatures that libblkid knows too: name of the format, offset in bytes, magic bytes.
const SIGNATURES: [(&str, usize, &[u8]); 14] = [
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 64 * 1024 + 64, b"_BHRfS_M"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32"),
    ("an LVM volume", 512, b"LABELONE"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a member of a RAID array", 4096, b"\xfc\x4e\x2b\xa9"),
    ("a bcache device", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a partition table", 512, b"EFI PART"),
    ("a partition table", 4096, b"EFI PART"),
];

/// Checks that no job writes to a namespace with a file system, a volume or partitions, or to one that other
/// hosts use, unless the load has `--destroy`.
///
/// # Errors
///
/// A job would overwrite one of these; or the target cannot be reached, or the namespace cannot be read.
pub(crate) fn ensure_nothing_is_lost(load: &Load, jobs: &[Job]) -> anyhow::Result<()> {
    let writes = |job: &Job| load.verify || job.rw.writes();
    if load.destroy || !jobs.iter().any(writes) {
        return Ok(());
    }
    let mut tenants = Tenants::connect(load, jobs)?;
    let plans = tenants.plan(load, jobs)?;
    let associations = tenants.associations();
    let namespaces: Vec<Namespace> = tenants.jobs.iter().map(|(_, namespace)| *namespace).collect();
    for (index, (job, namespace)) in jobs.iter().zip(&namespaces).enumerate() {
        if !writes(job) {
            continue;
        }
        let mut own = plans.iter().filter(|plan| plan.job == index).peekable();
        let plan = own.peek().context("a job has no connection")?;
        let association = associations.get(plan.controller).context("no such controller")?;
        let beginning = read_beginning(association, plan.qid, namespace)
            .with_context(|| format!("cannot look what namespace {} holds", job.nsid))?;
        let why = match held_by(&beginning) {
            Some(what) => Some(format!("holds {what}")),
            None => {
                let users = tenants.other_users(index, load.socket.as_deref())?;
                users.words().map(|who| format!("is in use by {who}"))
            }
        };
        if let Some(why) = why {
            let written = used_bytes(own, job, namespace);
            bail!(
                "namespace {} of {} {why}, and this load overwrites up to {} of it: choose another --nsid, \
                 or --rw randread; or say --destroy",
                job.nsid,
                job.access.nqn,
                show_bytes(written)
            );
        }
    }
    tenants.shutdown()
}

/// Reads the first [`LOOK`] bytes of a namespace, or all of a smaller one, by an I/O queue of its own.
fn read_beginning(
    association: &Association,
    qid: u16,
    namespace: &Namespace,
) -> anyhow::Result<Vec<u8>> {
    let block = usize::try_from(namespace.block_size)?.max(1);
    let most = match usize::try_from(namespace.max_transfer)? {
        0 => LOOK,
        most => most.min(LOOK),
    };
    let piece = (most / block).max(1);
    let end = u64::try_from(LOOK.div_ceil(block))?.min(namespace.blocks);
    let room = u32::try_from(piece * block)?;
    let mut queue = association.io_queue(qid, (1, room), None)?;
    let mut read = Vec::new();
    let mut lba = 0;
    while lba < end {
        let blocks = u32::try_from((end - lba).min(u64::try_from(piece)?))?;
        let sqe = commands::transfer(false, namespace.nsid, lba, blocks, 0);
        let length = blocks.saturating_mul(namespace.block_size);
        let mut reply = queue.execute(sqe, None, length)?;
        for _ in 0..MAX_RETRIES {
            let delay = association.facts().retry_delay(reply.cqe.status());
            let Some(delay) = delay else { break };
            std::thread::sleep(delay);
            reply = queue.execute(sqe, None, length)?;
        }
        let status = reply.cqe.status();
        ensure!(status.is_success(), "LBA {lba} cannot be read: {status}; --destroy does not look");
        read.extend(reply.data);
        lba += u64::from(blocks);
    }
    Ok(read)
}

/// Returns the name of the format whose signature is in the first bytes of a namespace.
fn held_by(beginning: &[u8]) -> Option<&'static str> {
    let at = |place: usize, bytes: &[u8]| {
        beginning.get(place..).is_some_and(|rest| rest.starts_with(bytes))
    };
    let named = SIGNATURES.iter().find(|(_, place, bytes)| at(*place, bytes));
    named.map(|(what, ..)| *what).or_else(|| {
        // Two bytes alone may be anybody's: fields beside them must be possible too.
        let byte = |place: usize| beginning.get(place).copied().unwrap_or(0xff);
        let is_ext = at(1080, b"\x53\xef") && byte(1048) <= 6 && byte(1100) <= 1;
        let entries = [446, 462, 478, 494];
        let is_mbr = at(510, b"\x55\xaa")
            && entries.iter().all(|entry| matches!(byte(*entry), 0 | 0x80))
            && entries.iter().any(|entry| byte(entry + 4) != 0);
        is_ext
            .then_some("an ext2, ext3 or ext4 file system")
            .or_else(|| is_mbr.then_some("a partition table"))
    })
}

/// Computes how many bytes of a namespace the connections of a job use together.
fn used_bytes<'a>(plans: impl Iterator<Item = &'a Plan>, job: &Job, namespace: &Namespace) -> u64 {
    let extent = |plan: &Plan| {
        let start = plan.extent.slba.saturating_mul(namespace.block_size.into());
        let length = plan.extent.units.saturating_mul(job.bs.into());
        start..start.saturating_add(length)
    };
    let mut all: Vec<Range<u64>> = plans.map(extent).collect();
    all.sort_by_key(|range| range.start);
    let (mut bytes, mut end) = (0_u64, 0);
    for range in all {
        bytes = bytes.saturating_add(range.end.saturating_sub(range.start.max(end)));
        end = end.max(range.end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::verify::{self, Stamp};
    use super::*;

    fn with(marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; LOOK];
        for (place, mark) in marks {
            bytes[*place..*place + mark.len()].copy_from_slice(mark);
        }
        bytes
    }

    #[test]
    fn each_signature_is_found_and_nothing_else() {
        for (what, place, bytes) in SIGNATURES {
            assert_eq!(held_by(&with(&[(place, bytes)])), Some(what));
        }
        let ext = "an ext2, ext3 or ext4 file system";
        assert_eq!(
            held_by(&with(&[(1080, b"\x53\xef"), (1048, b"\x02"), (1100, b"\x01")])),
            Some(ext)
        );
        assert_eq!(
            held_by(&with(&[(1080, b"\x53\xef"), (1048, b"\x77")])),
            None,
            "no such block size"
        );
        assert_eq!(
            held_by(&with(&[(510, b"\x55\xaa"), (450, b"\x83")])),
            Some("a partition table")
        );
        assert_eq!(held_by(&with(&[(510, b"\x55\xaa")])), None, "there is no partition");
        assert_eq!(held_by(&[]), None);
        let mut own = vec![0; LOOK];
        verify::fill(&mut own, Stamp { seed: 0, lba: 0, generation: 0 });
        assert_eq!(held_by(&own), None, "what a load has written itself");
    }
}
