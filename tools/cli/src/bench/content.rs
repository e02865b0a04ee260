//! Protects existing file systems, volumes and partitions, and disks that other hosts use, from loads that
//! write.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, anyhow, bail, ensure};
use fabric::host::commands;
use nix::sys::memfd::{MFdFlags, memfd_create};
use sluice_config::signature;

use super::args::Load;
use super::io_queue::MAX_RETRIES;
use super::job::Job;
use super::tenants::Tenants;
use super::units::show_bytes;
use super::worker::Plan;
use crate::host::access::QueueKind;
use crate::host::controller::{Association, Namespace};

/// Bytes of the start and of the end of a namespace that are looked at. All signatures are within them.
const LOOK: [u64; 2] = [4 << 20, 1 << 20];
/// The most bytes that are read at a time.
const PIECE: u64 = 1 << 20;

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
        let content = find_content(association, plan.qid, namespace)
            .with_context(|| format!("cannot look what namespace {} holds", job.nsid))?;
        let why = match content {
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

/// Describes the content of a namespace, whose ends are read by an I/O queue of its own.
fn find_content(
    association: &Association,
    qid: u16,
    namespace: &Namespace,
) -> anyhow::Result<Option<String>> {
    // A file of the namespace's size that has no other pages than the ends.
    let image = File::from(memfd_create(c"namespace", MFdFlags::MFD_CLOEXEC)?);
    let block = u64::from(namespace.block_size.max(1));
    image.set_len(namespace.blocks.saturating_mul(block))?;
    let [start, end] = LOOK.map(|bytes| bytes.div_ceil(block).min(namespace.blocks));
    let most = match namespace.max_transfer {
        0 => PIECE,
        most => most.min(PIECE),
    };
    let piece = (most / block).max(1);
    let room = u32::try_from(piece * block)?;
    let mut queue = association.io_queue(qid, (1, room), QueueKind::default())?;
    for range in [0..start, (namespace.blocks - end).max(start)..namespace.blocks] {
        let mut lba = range.start;
        while lba < range.end {
            let blocks = u32::try_from((range.end - lba).min(piece))?;
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
            ensure!(
                status.is_success(),
                "LBA {lba} cannot be read: {status}; --destroy does not look"
            );
            image.write_all_at(&reply.data, lba * block)?;
            lba += u64::from(blocks);
        }
    }
    signature::find(&image).map_err(|why| anyhow!("{why}; --destroy does not look"))
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
