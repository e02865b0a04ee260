//! The subject of a measurement: a data node with clients, as a value.

use core::time::Duration;

use thiserror::Error;

use pmem::admission::{Admission, Refusal, most_of_window, window_for};
use pmem::capacity::Profile;
use pmem::engine::BEST_EFFORT_WINDOW;
use pmem::in_process::Nics;
use pmem::simulation::{ClientSetup, Faults, Kind, Setup, Workload, time_of_io};
use pmem::token::{Iops, Tokens};

/// C_G: the capacity of the paper's data node, in I/Os per second.
pub const AGGREGATE: u64 = 1_570_000;
/// C_L: what one client of the paper can do, in I/Os per second.
pub const LOCAL: u64 = 400_000;
/// The number of clients of the paper.
pub const CLIENTS: usize = 10;
/// The number of groups of clients with equal parts in Zipf's distribution.
const GROUPS: usize = 5;

/// The most clients of a simulation.
const MOST_CLIENTS: usize = 1000;
/// The largest exponent of Zipf's law; with it C1 has 99 % already.
const MOST_EXPONENT: f64 = 10.0;
/// The time between two checks of the monitor, 1 ms in the paper.
const INTERVAL: Duration = Duration::from_millis(1);
/// The shortest period: ten intervals.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest period.
const LONGEST: Duration = Duration::from_secs(60);
/// The least capacity in I/Os per second.
const LEAST_CAPACITY: u64 = 1000;
/// The greatest capacity in I/Os per second: 10 ns for each.
const MOST_CAPACITY: u64 = 100_000_000;
/// The most I/Os of a client in a period that its report can tell, by its 26 bits.
const MOST_REPORTED: u64 = (1 << 26) - 1;
/// The most periods of a simulation.
const MOST_PERIODS: usize = 10_000;
/// The most I/Os of a simulation, behind its scale: half an hour or so.
const MOST_IOS: u64 = 2_000_000_000;
/// The most I/Os whose latencies are kept, of 16 bytes each.
const MOST_LATENCIES: u64 = 100_000_000;

/// The size and the seed of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testbed {
    /// The number by which capacities, windows and batches are divided, so that a simulation takes as
    /// much less time: 1 is the full size, and 0 counts as 1. Periods and intervals stay as they are,
    /// and so does the time that an operation on a word takes: with a scale of n, the overhead counts
    /// n times. A scale that would leave windows other ratios than they have is refused.
    pub scale: u64,
    /// The seed of all random values.
    pub seed: u64,
}

impl Testbed {
    /// Makes a testbed of some scale, with the seed 1.
    #[must_use]
    pub const fn scaled(scale: u64) -> Self {
        Self { scale, seed: 1 }
    }

    /// Scales a number of I/Os down.
    #[must_use]
    pub fn down(self, ios: u64) -> u64 {
        ios / self.scale.max(1)
    }

    /// Scales a number of I/Os up to the full size.
    #[must_use]
    pub fn up(self, ios: f64) -> f64 {
        ios * self.scale.max(1) as f64
    }

    /// Makes a time as much longer as capacities are less.
    fn longer(self, time: Duration) -> Duration {
        time.saturating_mul(u32::try_from(self.scale.max(1)).unwrap_or(u32::MAX))
    }
}

/// The systems that the experiments compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Clients without engines.
    Bare,
    /// Haechi without token conversion: the paper's "Basic Haechi".
    Basic,
    /// Haechi.
    Haechi,
    /// Haechi as its clients are shipped: I/Os with global tokens have a window of
    /// [`BEST_EFFORT_WINDOW`], a lower priority for I/Os beyond the reservation, of which the paper speaks in its model ("lower priority than requests from
    /// clients with remaining reservation") without giving a mechanism. Beside traffic outside of
    /// Haechi it has its price: these I/Os give way to that too.
    LowPriority,
}

/// The distribution of the reserved I/Os among the clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Five groups of clients, with parts after Zipf's law with this exponent, the largest first.
    /// With an exponent of 0 all parts are equal.
    Zipf(f64),
    /// In proportion to the clients' own parts.
    Parts,
}

impl Distribution {
    /// Equal parts.
    pub const UNIFORM: Self = Self::Zipf(0.0);
}

/// The requests that a client makes in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Its reservation and all of the initial global tokens.
    All,
    /// A part of its reservation.
    Part(f64),
    /// A number of I/Os at full size.
    Ios(u64),
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client {
    /// Its part of the reserved I/Os, relative to the others' parts: for [`Distribution::Parts`].
    pub part: f64,
    /// Its requests.
    pub demand: Demand,
    /// Whether it makes them at a constant rate, not in a burst at the start of the period.
    pub constant: bool,
}

impl Client {
    /// A client with unlimited demand, in bursts.
    pub const EAGER: Self = Self { part: 1.0, demand: Demand::All, constant: false };
}

/// A data node, with its monitor's knowledge of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataNode {
    /// C_G: its capacity, in I/Os per second.
    pub aggregate: u64,
    /// C_L: what one client can do, in I/Os per second.
    pub local: u64,
    /// Time that an operation on a word takes of a NIC.
    pub word: Duration,
    /// Time to travel, each way.
    pub travel: Duration,
    /// The part, in percent, by which the time of an I/O varies evenly, up and down.
    pub jitter: u8,
    /// B: tokens of a batch.
    pub batch: u64,
    /// Standard deviation of the profile, in I/Os of a period. Its mean is the capacity.
    pub sigma: u64,
    /// eta: the part of the capacity by which its estimate grows.
    pub increment: f64,
    /// M: the periods in the history of the estimate.
    pub history: usize,
}

impl Default for DataNode {
    /// Creates the paper's data node. The paper does not state these values: the NIC time of an
    /// operation on a word, the travel time, the variation of times, and the settings of the
    /// estimate. They are 20 ns, 1 us, 5 %, no deviation, 1 % and 5 periods. An 8-byte word is a
    /// 500th of an I/O's 4 KiB, and 20 ns is a 30th of its time.
    fn default() -> Self {
        Self {
            aggregate: AGGREGATE,
            local: LOCAL,
            word: Duration::from_nanos(20),
            travel: Duration::from_micros(1),
            jitter: 5,
            batch: 1000,
            sigma: 0,
            increment: 0.01,
            history: 5,
        }
    }
}

/// Jobs outside of Haechi, one beside each client, which make as many requests as the data node could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// The period in which they begin, counted from 0.
    pub from: usize,
    /// The period before which they end.
    pub until: usize,
    /// The I/Os that each keeps under way.
    pub window: u64,
}

/// An experiment: a data node with clients, and the periods that are measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The data node.
    pub node: DataNode,
    /// The system.
    pub system: System,
    /// The clients, C1 first.
    pub clients: Vec<Client>,
    /// The part of the capacity that is reserved, 0.0 to 1.0. The rest is the initial pool.
    pub reserved: f64,
    /// How it is divided.
    pub distribution: Distribution,
    /// The I/Os that a client keeps under way.
    pub window: u64,
    /// T: length of a period. Checks stay 1 ms apart.
    pub period: Duration,
    /// The periods before the measured ones.
    pub warmup: usize,
    /// The periods that are measured.
    pub periods: usize,
    /// Jobs outside of Haechi.
    pub background: Option<Background>,
    /// Whether the latency of each I/O is kept.
    pub latencies: bool,
}

impl Default for Experiment {
    /// Makes the paper's Experiment 2A with equal reservations, in three periods.
    fn default() -> Self {
        Self {
            node: DataNode::default(),
            system: System::Haechi,
            clients: vec![Client::EAGER; CLIENTS],
            reserved: 0.9,
            distribution: Distribution::UNIFORM,
            window: 64,
            period: Duration::from_secs(1),
            warmup: 1,
            periods: 3,
            background: None,
            latencies: false,
        }
    }
}

/// The reason why an experiment cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExperimentError {
    /// A setting is out of its range.
    #[error("{what} is {is}: {must}")]
    Value {
        /// The setting.
        what: String,
        /// Its value.
        is: String,
        /// The correct range, as advice.
        must: String,
    },
    /// A client's reservation does not pass admission (docs/research/sources.md, H3).
    #[error("`reserved`: client C{client} is not admitted: {refusal}")]
    Refused {
        /// The client's number, from 1 on.
        client: usize,
        /// The reason, in I/Os of a period at full size.
        refusal: Refusal,
    },
}

/// Refuses a setting unless it is right.
fn ensure(
    right: bool,
    what: &str,
    is: impl ToString,
    must: impl Into<String>,
) -> Result<(), ExperimentError> {
    let error =
        || ExperimentError::Value { what: what.to_owned(), is: is.to_string(), must: must.into() };
    if right { Ok(()) } else { Err(error()) }
}

impl Experiment {
    /// Computes T * C_G: the I/Os that the data node can do in a period.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        Iops(self.node.aggregate).in_time(self.period).0
    }

    /// Computes R_i of each client, in I/Os of a period.
    #[must_use]
    pub fn reservations(&self) -> Vec<u64> {
        let group = self.clients.len().div_ceil(GROUPS).max(1);
        let part = |(place, client): (usize, &Client)| match self.distribution {
            Distribution::Zipf(exponent) => ((place / group + 1) as f64).powf(-exponent),
            Distribution::Parts => client.part,
        };
        let parts: Vec<f64> = self.clients.iter().enumerate().map(part).collect();
        let all: f64 = parts.iter().sum();
        let sum = self.sum();
        let mut left = sum;
        let parts = parts.iter().map(|part| {
            let reserved = Tokens::rounded(sum as f64 * part / all).0.min(left);
            left -= reserved;
            reserved
        });
        parts.collect()
    }

    /// Computes the requests of each client in a period.
    #[must_use]
    pub fn requests(&self) -> Vec<u64> {
        let pool = self.capacity().saturating_sub(self.sum());
        let each = self.clients.iter().zip(self.reservations());
        let requests = each.map(|(client, reserved)| match client.demand {
            Demand::All => reserved.saturating_add(pool),
            Demand::Part(part) => Tokens::rounded((reserved as f64 * part).floor()).0,
            Demand::Ios(ios) => ios,
        });
        requests.collect()
    }

    /// Computes the I/Os that are reserved.
    fn sum(&self) -> u64 {
        Tokens::rounded(self.capacity() as f64 * self.reserved).0
    }

    /// Checks the settings. Names in errors are the keys of a scenario.
    ///
    /// # Errors
    ///
    /// [`ExperimentError`] for the first setting out of its range, and for a reservation that is
    /// not admitted.
    pub fn check(&self) -> Result<(), ExperimentError> {
        self.check_node()?;
        let clients = self.clients.len();
        let must = format!("give 1 to {MOST_CLIENTS}");
        ensure((1..=MOST_CLIENTS).contains(&clients), "`clients`", clients, must)?;
        let percent = format!("{} %", self.reserved * 100.0);
        let right = (0.0..=1.0).contains(&self.reserved);
        ensure(right, "`reserved`", percent, "give \"0 %\" to \"100 %\" of the capacity")?;
        if let Distribution::Zipf(exponent) = self.distribution {
            let must = format!("give 0 (equal parts) to {MOST_EXPONENT}");
            ensure((0.0..=MOST_EXPONENT).contains(&exponent), "`exponent`", exponent, must)?;
        }
        let right = (1..=65_536).contains(&self.window);
        ensure(right, "`window`", self.window, "give 1 to 65536 I/Os")?;
        let right = self.warmup <= MOST_PERIODS;
        ensure(right, "`warmup`", self.warmup, format!("give at most {MOST_PERIODS} periods"))?;
        let right = (1..=MOST_PERIODS).contains(&self.periods);
        ensure(right, "`periods`", self.periods, format!("give 1 to {MOST_PERIODS}"))?;
        if let Some(Background { from, until, window }) = self.background {
            let must = format!("give a period behind `from`, {from}, or leave it out");
            ensure(until > from, "`until`", until, must)?;
            let right = (1..=65_536).contains(&window);
            ensure(right, "`window` in `[background]`", window, "give 1 to 65536 I/Os")?;
        }
        self.check_clients()?;
        let periods = u64::try_from(self.periods.saturating_add(self.warmup)).unwrap_or(u64::MAX);
        let kept = self.capacity().saturating_mul(periods);
        let must = format!(
            "of the {kept} I/Os of all periods at most {MOST_LATENCIES} can be kept: take fewer \
             `periods`, or leave it out"
        );
        ensure(!self.latencies || kept <= MOST_LATENCIES, "`latencies`", true, must)
    }

    /// Checks the settings of the data node, and the period.
    fn check_node(&self) -> Result<(), ExperimentError> {
        let node = &self.node;
        let capacities = LEAST_CAPACITY..=MOST_CAPACITY;
        let must = format!("give {LEAST_CAPACITY} to {MOST_CAPACITY} I/Os per second");
        ensure(capacities.contains(&node.aggregate), "`aggregate`", node.aggregate, &must)?;
        ensure(capacities.contains(&node.local), "`local`", node.local, &must)?;
        let (period, must) = (self.period, format!("give {SHORTEST:?} to {LONGEST:?}"));
        ensure((SHORTEST..=LONGEST).contains(&period), "`period`", format!("{period:?}"), must)?;
        let most = Iops(node.local).in_time(period).0;
        let must = format!(
            "that is {most} I/Os of a client in a period, and a report can tell of {MOST_REPORTED}: \
             give less, or a shorter `period`"
        );
        ensure(most <= MOST_REPORTED, "`local`", node.local, must)?;
        let must = "give at most \"1 ms\"";
        let times = [("`word`", node.word), ("`travel`", node.travel)];
        for (what, time) in times {
            ensure(time <= Duration::from_millis(1), what, format!("{time:?}"), must)?;
        }
        ensure(node.jitter <= 100, "`jitter`", node.jitter, "give \"0 %\" to \"100 %\"")?;
        let right = (1..=1_000_000).contains(&node.batch);
        ensure(right, "`batch`", node.batch, "give 1 to 1000000 tokens")?;
        let must = "give no more than the data node does in a period";
        ensure(node.sigma <= self.capacity(), "`sigma`", node.sigma, must)?;
        let right = (0.0..=1.0).contains(&node.increment);
        ensure(right, "`increment`", node.increment, "give \"0 %\" to \"100 %\" of the capacity")?;
        let right = (1..=1000).contains(&node.history);
        ensure(right, "`history`", node.history, "give 1 to 1000 periods")
    }

    /// Checks the clients' demands and reservations.
    fn check_clients(&self) -> Result<(), ExperimentError> {
        let most = self.capacity().saturating_mul(10);
        for (number, client) in (1..).zip(&self.clients) {
            let right = client.part > 0.0 && client.part <= 1e9;
            let must = "give more than 0 and at most 1000000000";
            ensure(right, &format!("`part` of client C{number}"), client.part, must)?;
            let what = format!("`requests` of client C{number}");
            match client.demand {
                Demand::All => (),
                Demand::Part(part) => {
                    let must = "give \"0 %\" to \"100 %\" of the reservation";
                    ensure((0.0..=1.0).contains(&part), &what, part, must)?;
                }
                Demand::Ios(ios) => {
                    let must = format!(
                        "give at most {most}, ten times the data node's capacity in a period"
                    );
                    ensure(ios <= most, &what, ios, must)?;
                }
            }
        }
        let (capacity, local) = (Tokens(self.capacity()), Iops(self.node.local));
        let admission = Admission { period: self.period, capacity, local };
        let mut admitted = Tokens::ZERO;
        for (client, wanted) in (1..).zip(self.reservations()) {
            let refused = |refusal| ExperimentError::Refused { client, refusal };
            admission.check(admitted, Tokens(wanted)).map_err(refused)?;
            admitted += Tokens(wanted);
        }
        self.check_window()
    }

    /// Checks that a client can have its reservation with its window, on an idle data node.
    fn check_window(&self) -> Result<(), ExperimentError> {
        if self.system == System::Bare {
            return Ok(());
        }
        let latency = self.latency();
        let most = most_of_window(self.window, latency);
        for (client, reserved) in (1..).zip(self.reservations()) {
            let rate = Tokens(reserved).for_part(Duration::from_secs(1), self.period);
            let must = format!(
                "client C{client} reserves {rate} I/Os per second, and does {} where each takes \
                 {latency:?} at the least: give at least {}, or reserve less",
                most.0,
                window_for(Iops(rate.0), latency)
            );
            ensure(rate.0 <= most.0, "`window`", self.window, must)?;
        }
        Ok(())
    }

    /// Computes the time that an I/O takes on an idle data node.
    fn latency(&self) -> Duration {
        let node = &self.node;
        time_of_io(node.local) + time_of_io(node.aggregate) + node.travel.saturating_mul(2)
    }

    /// Checks that a scale leaves something of each reservation, and no more I/Os than can be simulated.
    pub(super) fn check_scale(&self, testbed: Testbed) -> Result<(), ExperimentError> {
        let least = self.reservations().into_iter().filter(|reserved| *reserved > 0).min();
        let right = least.is_none_or(|least| testbed.down(least) > 0);
        let must = format!(
            "that leaves nothing of a reservation of {} I/Os in a period: give less",
            least.unwrap_or_default()
        );
        let right = right && testbed.down(self.capacity()) > 0;
        ensure(right, "`scale`", testbed.scale, must)?;
        self.check_scaled_windows(testbed)?;
        let periods = self.periods.saturating_add(self.warmup);
        let all = u64::try_from(periods).unwrap_or(u64::MAX);
        let ios = testbed.down(self.capacity()).saturating_mul(all);
        let must = format!(
            "these are {ios} I/Os at this `scale`, and {MOST_IOS} can be simulated: give fewer \
             periods, or a greater scale"
        );
        ensure(ios <= MOST_IOS, "`periods`", periods, must)
    }

    /// Checks that a scale divides windows into whole I/Os, which keep their ratios and still cover
    /// a client's capacity. Otherwise a smaller simulation has other verdicts than the full size.
    fn check_scaled_windows(&self, testbed: Testbed) -> Result<(), ExperimentError> {
        let best_effort = match self.system {
            System::LowPriority => Some(("window for global tokens", BEST_EFFORT_WINDOW.into())),
            System::Bare | System::Basic | System::Haechi => None,
        };
        let jobs = self.background.map(|jobs| ("`window` in `[background]`", jobs.window));
        for (what, window) in best_effort.into_iter().chain(jobs) {
            let must =
                format!("a {what} of {window} I/Os cannot be divided by it: give at most {window}");
            ensure(testbed.down(window) > 0, "`scale`", testbed.scale, must)?;
        }
        let does = |window| most_of_window(window, self.latency()).0.min(self.node.local);
        let (least, whole) = (window_for(Iops(self.node.local), self.latency()), does(self.window));
        let scaled = does(testbed.down(self.window));
        let must = format!(
            "with a `window` of {} in place of {} a client does {scaled} of {whole} I/Os per second: \
             give at most {}",
            testbed.down(self.window),
            self.window,
            (self.window / least.max(1)).max(1)
        );
        ensure(testbed.scale <= 1 || scaled >= whole, "`scale`", testbed.scale, must)
    }

    /// Creates the set-up of the simulation.
    pub(super) fn setup(&self, testbed: Testbed) -> Setup {
        let node = self.node;
        let mean = Tokens(testbed.down(self.capacity()));
        let mut clients = self.client_setups(testbed);
        let jobs: Vec<ClientSetup> = match &self.background {
            Some(of) => clients.iter().map(|client| self.job(testbed, of, client)).collect(),
            None => Vec::new(),
        };
        clients.extend(jobs);
        Setup {
            nics: Nics {
                io_at_node: testbed.longer(time_of_io(node.aggregate)),
                io_at_client: testbed.longer(time_of_io(node.local)),
                word: node.word,
                travel: testbed.longer(node.travel),
                jitter: node.jitter,
            },
            local: Iops(testbed.down(node.local)),
            period: self.period,
            interval: INTERVAL,
            batch: Tokens(testbed.down(node.batch).max(1)),
            conversion: self.system != System::Basic,
            counts_packets: true,
            profile: Profile { mean, sigma: testbed.down(node.sigma) as f64 },
            increment: Tokens::rounded((mean.0 as f64 * node.increment).floor()),
            history: node.history,
            clients,
            faults: Faults::default(),
            monitor_down: None,
            latencies: if self.latencies { self.clients.len() } else { 0 },
            seed: testbed.seed,
        }
    }

    /// Makes the clients that are simulated.
    fn client_setups(&self, testbed: Testbed) -> Vec<ClientSetup> {
        let window = window(testbed, self.window);
        let best_effort_window = match self.system {
            System::LowPriority => BEST_EFFORT_WINDOW.into(),
            System::Bare | System::Basic | System::Haechi => window,
        };
        let wanted = self.reservations().into_iter().zip(self.requests());
        let make = |(client, (reserved, requests)): (&Client, (u64, u64))| {
            let pattern = if client.constant { Workload::Constant } else { Workload::Burst };
            let engine = ClientSetup {
                window,
                best_effort_window,
                ..ClientSetup::new(Tokens(testbed.down(reserved)), pattern(testbed.down(requests)))
            };
            match self.system {
                System::Bare => ClientSetup { kind: Kind::Bare, reservation: None, ..engine },
                System::Basic | System::Haechi | System::LowPriority => engine,
            }
        };
        self.clients.iter().zip(wanted).map(make).collect()
    }

    /// Makes the job beside a client.
    fn job(&self, testbed: Testbed, of: &Background, client: &ClientSetup) -> ClientSetup {
        ClientSetup {
            kind: Kind::Bare,
            reservation: None,
            workload: Workload::Burst(testbed.down(self.capacity())),
            active: of.from..of.until,
            window: window(testbed, of.window),
            ..client.clone()
        }
    }
}

/// Scales a window down; it does not become 0.
fn window(testbed: Testbed, ios: u64) -> u32 {
    u32::try_from(testbed.down(ios).max(1)).unwrap_or(u32::MAX)
}
