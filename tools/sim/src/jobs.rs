//! Jobs on all processors.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;

use crate::progress::Progress;

/// Runs jobs on as many threads as there are processors, those with the largest weight first, and shows the
/// progress. `run` makes a job's result; it calls its second argument with the completed part of the job, from 0 to
/// 1. The results are in the order of the jobs.
///
/// # Errors
///
/// A job has panicked.
pub fn run_all<J: Sync, R: Send>(
    jobs: &[J],
    weight: impl Fn(&J) -> u32,
    name: impl Fn(&J) -> &str + Sync,
    run: impl Fn(&J, &mut dyn FnMut(f64)) -> R + Sync,
) -> anyhow::Result<Vec<R>> {
    let mut order: Vec<(usize, &J, f64)> =
        jobs.iter().enumerate().map(|(place, job)| (place, job, f64::from(weight(job)))).collect();
    order.sort_by_key(|(_, job, _)| Reverse(weight(job)));
    let total: f64 = order.iter().map(|(_, _, weight)| weight).sum();
    let next = AtomicUsize::new(0);
    let state = Mutex::new((Progress::begin(), 0.0));
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some((place, job, weight)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut shown = 0.0;
            let mut show = |part: f64| {
                // Nothing panics while it holds the lock.
                let Ok(mut state) = state.lock() else { return };
                let (progress, done) = &mut *state;
                *done += (part - shown) * weight;
                shown = part;
                progress.show(*done / total.max(1.0), name(job));
            };
            let result = run(job, &mut show);
            show(1.0);
            let Ok(mut results) = results.lock() else { return };
            results.push((*place, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut results = results.into_inner().map_err(|_| anyhow!("a run has panicked"))?;
    results.sort_by_key(|(place, _)| *place);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
