//! Innocent hosts of each class beside hostile ones, on the real daemon. A test judges that the
//! innocent go on with the right data, that new hosts connect, and how much memory the daemon
//! takes; `make bench-hostile` measures how long the innocent wait.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use e2e::daemon::{Daemon, free_addresses};
use hostile::innocent::{Innocent, Latencies};
use hostile::{Attack, Target, Way};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;

const NQN: &str = "nqn.2026-01.io.sluicegate:hostile";

/// The classes of the innocent hosts, which use the namespace in memory and the file in turn.
const CLASSES: [&str; 4] = ["urgent", "high", "medium", "low"];

/// The address of hostile hosts.
const HOSTILE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// I/O memory of the daemon, in MiB.
const IO_MEMORY: u64 = 16;

/// Memory that the daemon may take beside its configured I/O memory, in MiB.
const BESIDE: u64 = 32;

/// The core of the daemon's only reactor.
const REACTOR_CORE: usize = 0;

/// The lock of the tests, each of which has the machine for itself.
static ALONE: Mutex<()> = Mutex::new(());

/// A daemon with a listener for each class, and its innocent hosts.
struct Scene {
    daemon: Daemon,
    innocent: Vec<Innocent>,
    /// The listener that hostile and new hosts use.
    target: Target,
    newcomers: u32,
    _disk: tempfile::TempDir,
}

/// Observations beside an attack.
struct Seen {
    /// Latencies of the innocent hosts, by class.
    latencies: Vec<Latencies>,
    /// Time from the first step of a new host's connection to the answer to its second command.
    newcomer: Duration,
    /// Growth of the daemon's memory, in bytes.
    grown: u64,
}

impl Scene {
    fn new() -> Result<Self> {
        // Attacks make more connections than a process may have by default.
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let mut text = String::new();
        let listeners: [_; CLASSES.len()] = free_addresses()?;
        for (address, class) in listeners.iter().zip(CLASSES) {
            write!(text, "[[listener]]\naddress = \"{address}\"\nclass = \"{class}\"\n")?;
        }
        write!(
            text,
            "[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\nbackend = \"memory\"\nsize = \"512 MiB\"\nblock_size = 4096\n\
             [[subsystem.namespace]]\nnsid = 2\nbackend = \"file\"\npath = \"{}\"\nsize = \"512 MiB\"\nblock_size = 4096\ncreate = true\n",
            disk.path().join("disk").display()
        )?;
        let settings = format!(
            "cores = [{REACTOR_CORE}]\nio_memory = \"{IO_MEMORY} MiB\"\npoll = \"never\"\nmax_queues = 24\n"
        );
        let daemon = Daemon::start(&settings, &text)?;
        let mut innocent = Vec::new();
        for (n, (address, nsid)) in (1..).zip(listeners.iter().zip([1, 2].into_iter().cycle())) {
            innocent.push(Innocent::connect(*address, NQN, n, nsid)?);
        }
        let [_, _, address, _] = listeners;
        let way = Way { from: Some(HOSTILE), to: address };
        let target = Target { way, subsystem: NQN.to_owned() };
        Ok(Self { daemon, innocent, target, newcomers: 0, _disk: disk })
    }

    /// Runs innocent hosts beside attacks, each for `least` rounds at least and until `time` is over.
    fn beside(&mut self, attacks: &[Attack], least: usize, time: Duration) -> Result<Seen> {
        let over = AtomicBool::new(false);
        let settled = AtomicBool::new(false);
        let before = self.daemon.resident()?;
        self.newcomers += 1;
        let (number, target, daemon) = (100 + self.newcomers, &self.target, &self.daemon);
        std::thread::scope(|scope| {
            for attack in attacks {
                scope.spawn(|| attack.run(target, &over));
            }
            // Attacks occupy the target's resources before anything is measured.
            if !attacks.is_empty() {
                std::thread::sleep(Duration::from_millis(1500));
            }
            let hosts: Vec<_> = self
                .innocent
                .iter_mut()
                .map(|host| scope.spawn(|| host.run(least, &settled)))
                .collect();
            let begun = Instant::now();
            let newcomer = newcomer(target, number);
            let took = begun.elapsed();
            let grown = daemon.resident().map(|now| now.saturating_sub(before));
            std::thread::sleep(time.saturating_sub(begun.elapsed()));
            settled.store(true, Ordering::Relaxed);
            let seen: Result<Vec<_>> = hosts
                .into_iter()
                .zip(CLASSES)
                .map(|(host, class)| {
                    let ended = host.join().map_err(|_| anyhow!("the host of {class} panicked"))?;
                    ended.with_context(|| format!("the innocent host of class {class}"))
                })
                .collect();
            over.store(true, Ordering::Relaxed);
            newcomer.context("a new host")?;
            Ok(Seen { latencies: seen?, newcomer: took, grown: grown? })
        })
    }
}

/// Connects a new host, which writes a block and reads it back.
fn newcomer(target: &Target, number: u32) -> Result<()> {
    let mut host = Innocent::connect(target.way.to, &target.subsystem, number, 1)?;
    Ok(host.round(&mut Latencies::default())?)
}

/// Checks that innocent hosts go on beside attacks, and that the daemon's memory stays bounded.
fn go_on_beside(attacks: &[Attack]) -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut scene = Scene::new()?;
    // Namespace and heap take now the memory that they take once.
    scene.beside(&[], 256, Duration::ZERO)?;
    let seen = scene.beside(attacks, 100, Duration::from_secs(1))?;
    for (class, latencies) in CLASSES.iter().zip(&seen.latencies) {
        let (worst, count) = (latencies.quantile(1.0), latencies.count());
        println!("{attacks:?}: {class}: {count} commands, the longest {worst:?}");
    }
    let (grown, bound) = (seen.grown >> 20, IO_MEMORY + BESIDE);
    println!("{attacks:?}: a new host {:?}, memory + {grown} MiB", seen.newcomer);
    ensure!(grown <= bound, "memory grew by {grown} MiB, more than {bound}");
    Ok(())
}

/// Makes a test of each attack alone.
macro_rules! beside_one {
    ($($test:ident: $attack:ident,)*) => {$(
        #[test]
        #[ignore = "make test-long: all attacks at once are in `make test`"]
        fn $test() -> Result<()> {
            go_on_beside(&[Attack::$attack])
        }
    )*};
}

beside_one! {
    innocent_hosts_go_on_beside_one_that_keeps_answers: KeepsAnswers,
    innocent_hosts_go_on_beside_one_that_reads_slowly: ReadsSlowly,
    innocent_hosts_go_on_beside_one_that_owes_data: OwesData,
    innocent_hosts_go_on_beside_one_that_drips_data: DripsData,
    innocent_hosts_go_on_beside_half_capsules: SendsHalfCapsules,
    innocent_hosts_go_on_beside_one_that_takes_connections: TakesConnections,
    innocent_hosts_go_on_beside_garbage: SendsGarbage,
    innocent_hosts_go_on_beside_a_flood_of_admin_commands: FloodsAdmin,
    innocent_hosts_go_on_beside_one_that_keeps_log_pages: KeepsLogPages,
    innocent_hosts_go_on_beside_large_write_zeroes: WritesZeroes,
}

#[test]
fn innocent_hosts_go_on_beside_all_attacks_together() -> Result<()> {
    go_on_beside(&Attack::ALL)
}

/// Runs innocent hosts beside attacks, all of them off the reactor's core if there is another: hosts are other
/// machines.
fn measure(scene: &mut Scene, attacks: &[Attack], least: usize, time: Duration) -> Result<Seen> {
    std::thread::scope(|scope| {
        let hosts = scope.spawn(|| {
            let this = Pid::from_raw(0);
            let mut others = sched_getaffinity(this)?;
            others.unset(REACTOR_CORE)?;
            if others != CpuSet::new() {
                sched_setaffinity(this, &others)?;
            }
            scene.beside(attacks, least, time)
        });
        hosts.join().map_err(|_| anyhow!("a host panicked"))?
    })
}

/// Returns the name of one attack, or of all together.
fn name_of(attacks: &[Attack]) -> String {
    match attacks {
        [one] => format!("{one:?}"),
        _ => "all together".to_owned(),
    }
}

/// Measures how long innocent hosts wait: three runs beside each attack and beside all together, on
/// a machine that does nothing else (`make bench-hostile`); `ATTACK=NAME` leaves the others out.
#[test]
#[ignore = "measures times, on a machine that does nothing else: make bench-hostile"]
fn innocent_hosts_wait_no_longer_than_promised() -> Result<()> {
    const RUNS: usize = 3;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let time = Duration::from_secs(3);
    let mut wrong = Vec::new();
    let alone = {
        let mut scene = Scene::new()?;
        let seen = measure(&mut scene, &[], 256, time)?;
        seen.latencies.first().map(|urgent| urgent.quantile(0.99)).unwrap_or_default()
    };
    println!("Urgent alone: p99 {alone:?}");
    println!("| attack | longest wait, median of {RUNS} (all) | Urgent p99 | new host | memory |");
    println!("|---|---|---|---|---|");
    let each = Attack::ALL.map(|attack| vec![attack]);
    let only = std::env::var("ATTACK").unwrap_or_default();
    for attacks in each.into_iter().chain([Attack::ALL.to_vec()]) {
        if !name_of(&attacks).contains(&only) {
            continue;
        }
        let mut worst = Vec::new();
        let mut urgent = Vec::new();
        let mut newcomer = Vec::new();
        let mut grown = Vec::new();
        for _ in 0..RUNS {
            let mut scene = Scene::new()?;
            measure(&mut scene, &[], 256, Duration::ZERO)?;
            let seen = measure(&mut scene, &attacks, 100, time)?;
            worst.push(seen.latencies.iter().map(|l| l.quantile(1.0)).max().unwrap_or_default());
            urgent.push(seen.latencies.first().map(|l| l.quantile(0.99)).unwrap_or_default());
            newcomer.push(seen.newcomer);
            grown.push(seen.grown >> 20);
        }
        for times in [&mut worst, &mut urgent, &mut newcomer] {
            times.sort_unstable();
        }
        grown.sort_unstable();
        let name = name_of(&attacks);
        let median = |times: &[Duration]| times.get(RUNS / 2).copied().unwrap_or_default();
        let memory = grown.last().copied().unwrap_or_default();
        println!(
            "| {name} | {:.1?} ({worst:.1?}) | {:.2?} | {:.1?} | +{memory} MiB |",
            median(&worst),
            median(&urgent),
            median(&newcomer)
        );
        let bounds = [
            (median(&worst) <= Duration::from_millis(100), "a command waited for over 100 ms"),
            (median(&urgent) <= alone * 2, "Urgent's p99 is over twice what it is alone"),
            (median(&newcomer) <= Duration::from_secs(2), "a new host took over 2 s"),
            (memory <= IO_MEMORY + BESIDE, "the daemon took too much memory"),
        ];
        wrong.extend(bounds.iter().filter(|bound| !bound.0).map(|b| format!("{name}: {}", b.1)));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
