//! The threads of the target: their start and their end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, anyhow};

use super::host_keeper::keep_hosts;
use super::keeper;
use super::recovery::Recovery;
use crate::control::store::{HostPaths, Unstored};
use crate::serve::reactor::Reactor;
use crate::serve::shared::Shared;
use crate::serve::upkeep;
use crate::sys::sync::lock;
use crate::sys::threads::{self, AbortOnPanic};

/// The threads that run.
#[derive(Debug, Default)]
pub(super) struct Threads {
    running: Mutex<Running>,
    /// Whether the helpers and the keeper should end.
    stopping: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Running {
    reactors: Vec<JoinHandle<()>>,
    /// The timer thread, the poller, and the threads of RDMA connections, authentications, TLS handshakes, regions,
    /// and the store of the hosts that use subsystems.
    helpers: Vec<JoinHandle<()>>,
    /// The keeper of namespaces.
    keeper: Option<JoinHandle<()>>,
}

impl Threads {
    /// Starts the reactors, and waits until each can serve; then the timers, the network's poller, and the threads
    /// of RDMA connections, authentications and TLS handshakes.
    ///
    /// # Errors
    /// A thread cannot be started, or the kernel lacks a feature that a reactor needs.
    pub(super) fn start(&self, shared: &Arc<Shared>) -> anyhow::Result<()> {
        let cores = &shared.settings.cores;
        if let Some(reason) = &shared.settings.cores_reason {
            tracing::info!(?cores, reason, "the CPUs of reactors were chosen");
        }
        let (ready, started) = mpsc::channel();
        for (index, &core) in cores.iter().enumerate() {
            let (shared, ready) = (Arc::clone(shared), ready.clone());
            let thread = Builder::new()
                .name(format!("reactor-{index}"))
                .spawn(move || run_reactor(shared, index, core, &ready))
                .context("cannot start a reactor thread")?;
            lock(&self.running).reactors.push(thread);
        }
        drop(ready);
        for _ in cores {
            started.recv().unwrap_or_else(|_| Err(anyhow!("a reactor ended at its start")))?;
        }
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let timer = Builder::new()
            .name("timers".to_owned())
            .spawn(move || upkeep::run_timers(&on, || stopping.load(Ordering::Relaxed)))
            .context("cannot start the timer thread")?;
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let poller = Builder::new()
            .name("network".to_owned())
            .spawn(move || on.network.run(&on.clock, || stopping.load(Ordering::Relaxed)))
            .context("cannot start the network's thread")?;
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let connector = Builder::new()
            .name("rdma".to_owned())
            .spawn(move || crate::serve::rdma::run(&on, || stopping.load(Ordering::Relaxed)))
            .context("cannot start the thread of RDMA connections")?;
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let authentication = Builder::new()
            .name("authentication".to_owned())
            .spawn(move || upkeep::run_authentications(&on, || stopping.load(Ordering::Relaxed)))
            .context("cannot start the thread of authentications")?;
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let tls = Builder::new()
            .name("tls".to_owned())
            .spawn(move || {
                // Without this thread no host would get in over TLS, and nobody would know why.
                let _guard = AbortOnPanic;
                crate::serve::tls::run(&on, || stopping.load(Ordering::Relaxed));
            })
            .context("cannot start the thread of TLS handshakes")?;
        lock(&self.running).helpers.extend([timer, poller, connector, authentication, tls]);
        Ok(())
    }

    /// Starts the data node of regions, where the configuration has one.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start_data_node(&self, shared: &Arc<Shared>) -> anyhow::Result<()> {
        if !shared.pmem.is_wanted() {
            return Ok(());
        }
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let body = move || crate::serve::pmem::run(&on, || stopping.load(Ordering::Relaxed));
        let thread = Builder::new().name("pmem".to_owned()).spawn(body);
        lock(&self.running).helpers.push(thread.context("cannot start the thread of regions")?);
        Ok(())
    }

    /// Starts the thread that stores which hosts use subsystems.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start_host_keeper(
        &self,
        shared: &Arc<Shared>,
        hosts: HostPaths,
        unstored: &Arc<Unstored>,
    ) -> anyhow::Result<()> {
        let (on, stopping) = (Arc::clone(shared), Arc::clone(&self.stopping));
        let unstored = Arc::clone(unstored);
        let body = move || keep_hosts(&on, &hosts, &unstored, || stopping.load(Ordering::Relaxed));
        let thread = Builder::new().name("hosts".to_owned()).spawn(body);
        let thread = thread.context("cannot start the thread that stores hosts")?;
        lock(&self.running).helpers.push(thread);
        Ok(())
    }

    /// Starts the keeper of namespaces.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start_keeper(&self, recovery: &Arc<Recovery>) -> anyhow::Result<()> {
        let keeper = keeper::start(Arc::clone(recovery), Arc::clone(&self.stopping));
        let keeper = keeper.context("cannot start the thread that keeps namespaces")?;
        lock(&self.running).keeper = Some(keeper);
        Ok(())
    }

    /// Waits until the reactors have ended, and ends the other threads.
    pub(super) fn wait(&self, recovery: &Recovery) {
        let reactors = std::mem::take(&mut lock(&self.running).reactors);
        for thread in reactors {
            let _ = thread.join();
        }
        self.stopping.store(true, Ordering::Relaxed);
        let helpers = std::mem::take(&mut lock(&self.running).helpers);
        for thread in helpers {
            let _ = thread.join();
        }
        let keeper = lock(&self.running).keeper.take();
        if let Some(thread) = keeper {
            keeper::join(recovery, thread);
        }
    }
}

/// Returns the CPUs for the kernel's workers, of the `allowed` ones. Workers carry out operations that wait for a
/// file system, and keep off the `cores` of reactors, whose turns would last until a worker has finished its time
/// slice; if each CPU has a reactor, they run on all.
fn cpus_for_workers(allowed: Vec<usize>, cores: &[usize]) -> Vec<usize> {
    let free: Vec<_> = allowed.iter().copied().filter(|cpu| !cores.contains(cpu)).collect();
    if free.is_empty() { allowed } else { free }
}

/// Runs a reactor: the body of its thread.
fn run_reactor(
    shared: Arc<Shared>,
    index: usize,
    core: usize,
    ready: &mpsc::Sender<anyhow::Result<()>>,
) {
    let cpus = cpus_for_workers(threads::allowed().unwrap_or_default(), &shared.settings.cores);
    if let Err(error) = threads::pin(core) {
        tracing::warn!(core, %error, "the reactor is not pinned to its core");
    }
    if let Some(gauges) = shared.gauges(index) {
        gauges.core.store(core as u64, Ordering::Relaxed);
    }
    match Reactor::new(shared, index, &cpus) {
        Ok(reactor) => {
            let _ = ready.send(Ok(()));
            let guard = AbortOnPanic;
            if let Err(error) = reactor.run() {
                tracing::error!(index, %error, "a reactor has failed: the daemon ends");
                std::process::abort();
            }
            drop(guard);
        }
        Err(error) => {
            let _ = ready.send(Err(error.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_keep_off_the_cores_of_reactors_where_there_are_others() {
        for (cores, workers) in [
            (&[0][..], &[1, 2, 5][..]),
            (&[1, 5], &[0, 2]),
            (&[0, 1, 2, 5], &[0, 1, 2, 5]),
            (&[7], &[0, 1, 2, 5]),
        ] {
            assert_eq!(cpus_for_workers(vec![0, 1, 2, 5], cores), workers, "{cores:?}");
        }
    }
}
