//! How a region is loaded, as the command line says it.

use anyhow::{Context as _, ensure};
use fabric::nvme::region::{GetRegion, RegionName, RegionRights};
use pmem::engine::BEST_EFFORT_WINDOW;

use super::args::Load;
use super::job::Job;
use super::units;

#[derive(Clone, Debug)]
pub(crate) struct RegionLoad {
    pub(crate) region: RegionName,
    pub(crate) job: Job,
    /// The most I/Os outstanding when the next one takes a global token.
    pub(crate) best_effort: u16,
    /// Whether I/Os go without tokens.
    pub(crate) bare: bool,
    /// Whether an idle client sleeps in the kernel instead of polling.
    pub(crate) blocking: bool,
    /// The part of the region that is used, in bytes from its start; `None` for all.
    pub(crate) span: Option<u64>,
}

impl RegionLoad {
    /// Reads the command line's load on a region.
    ///
    /// # Errors
    ///
    /// An argument is out of its range.
    pub(crate) fn of(load: &Load, region: RegionName) -> anyhow::Result<Self> {
        let jobs = load.jobs()?;
        let job = jobs.into_iter().next().context("there is no job")?;
        let best_effort = load.best_effort.unwrap_or(BEST_EFFORT_WINDOW);
        ensure!(best_effort <= job.depth, "--best-effort is at most --depth, {}", job.depth);
        ensure!(!load.time.is_zero(), "--time must be more than 0");
        Ok(Self {
            region,
            job,
            best_effort,
            bare: load.bare,
            blocking: load.blocking,
            span: load.span,
        })
    }

    /// Returns what the target is asked for.
    pub(crate) fn wanted(&self) -> anyhow::Result<GetRegion> {
        let rights = match self.job.rw.writes() {
            false => RegionRights::Read,
            true => RegionRights::ReadWrite,
        };
        let reservation = self.job.reserve.map_or(Ok(0), units::whole);
        let reservation = reservation.map_err(anyhow::Error::msg).context("--reserve")?;
        Ok(GetRegion { name: self.region, rights, reservation })
    }

    /// Computes the number of blocks that are used of a region of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn units(&self, bytes: u64) -> anyhow::Result<u64> {
        let used = self.span.map_or(bytes, |span| span.min(bytes));
        let units = used / u64::from(self.job.bs);
        ensure!(
            units > 0,
            "{} bytes of the region hold no block of {}: use a smaller --bs or a larger --span",
            used,
            units::show_bytes(u64::from(self.job.bs))
        );
        Ok(units)
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::Args;
    use super::*;
    use crate::testing::parse;

    fn load(line: &str) -> Result<Load, clap::Error> {
        parse::<Args>(&format!("bench -n nqn --pmem log {line}")).map(|args| args.load)
    }

    fn of(line: &str) -> anyhow::Result<RegionLoad> {
        let load = load(line)?;
        RegionLoad::of(&load, load.pmem.unwrap())
    }

    #[test]
    fn the_pattern_decides_the_rights_that_are_asked_for() {
        for (line, rights) in [
            ("--rw randread", RegionRights::Read),
            ("--rw read", RegionRights::Read),
            ("--rw write", RegionRights::ReadWrite),
            ("--rw randrw --read-share 100", RegionRights::ReadWrite),
        ] {
            let wanted = of(line).unwrap().wanted().unwrap();
            assert_eq!((wanted.rights, wanted.reservation), (rights, 0), "{line}");
        }
        let wanted = of("--reserve 1.5k").unwrap().wanted().unwrap();
        assert_eq!((wanted.name.as_str(), wanted.reservation), ("log", 1500));
        assert!(of("--reserve 5000M").unwrap().wanted().is_err(), "more than 2^32");
    }

    #[test]
    fn windows_and_spans_have_their_bounds() {
        let load = of("--depth 16").unwrap();
        assert_eq!((load.best_effort, load.bare), (1, false), "H5: one beyond the reservation");
        assert_eq!(of("--depth 16 --best-effort 2").unwrap().best_effort, 2);
        assert!(of("--depth 16 --best-effort 17").is_err());
        assert_eq!(load.units(10_000).unwrap(), 2);
        assert!(load.units(4095).unwrap_err().to_string().contains("--bs"));
        assert_eq!(of("--span 4k").unwrap().units(1 << 20).unwrap(), 1);
        assert_eq!(of("--span 4g").unwrap().units(8192).unwrap(), 2);
    }

    #[test]
    fn what_a_region_has_not_is_refused() {
        for line in [
            "--verify",
            "--job name=a",
            "--connections 2",
            "--threads 2",
            "--rate 5k",
            "--class high",
            "--vs 10.0.0.1:4420",
            "--alone",
            "--bare --reserve 5k",
            "--nsid 2",
            "--best-effort 0",
        ] {
            assert!(load(line).is_err(), "{line}");
        }
        assert!(load("--bare --rw randwrite --core 1 --json -t rdma").is_ok());
        assert!(parse::<Args>("bench -n nqn --bare").is_err(), "without a region");
        assert!(parse::<Args>("bench -n nqn --pmem no/name").is_err());
    }
}
