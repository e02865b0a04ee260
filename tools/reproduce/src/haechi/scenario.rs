//! Scenarios with `model = "haechi"`: a data node of persistent memory with its clients.

use std::iter::repeat_n;

use crate::models::experiments::{
    Background, Client, DataNode, Demand, Distribution, Experiment, Outcome, System, Testbed,
    measure,
};
use anyhow::{bail, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sluice_sim::report::{Axis, Chart, Column, Kind, Report, Series, Table};
use sluice_sim::scenario::value::{Part, Time};

use super::show::verdicts;

/// The greatest scale.
const MOST_SCALE: u64 = 100;
/// The most clients, which are counted before there is a list of them.
const MOST_CLIENTS: usize = 1000;

/// A scenario that was read.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    title: String,
    /// Size and seed.
    testbed: Testbed,
    /// The set-up.
    pub(super) experiment: Experiment,
}

/// The file. Missing keys default to [`Experiment::default`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "model")]
    _model: IgnoredAny,
    title: Option<String>,
    seed: Option<u64>,
    scale: Option<u64>,
    system: Option<SystemName>,
    reserved: Option<Part>,
    distribution: Option<DistributionName>,
    exponent: Option<f64>,
    window: Option<u64>,
    period: Option<Time>,
    warmup: Option<usize>,
    periods: Option<usize>,
    latencies: Option<bool>,
    #[serde(default)]
    node: NodeTable,
    clients: Option<Vec<ClientsTable>>,
    background: Option<BackgroundTable>,
}

/// The systems to choose from.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SystemName {
    /// Clients without engines.
    Bare,
    /// Haechi without token conversion.
    Basic,
    /// Haechi.
    Haechi,
    /// Haechi where I/Os with global tokens have a window of 1.
    LowPriority,
}

impl From<SystemName> for System {
    fn from(name: SystemName) -> Self {
        match name {
            SystemName::Bare => Self::Bare,
            SystemName::Basic => Self::Basic,
            SystemName::Haechi => Self::Haechi,
            SystemName::LowPriority => Self::LowPriority,
        }
    }
}

/// The distribution of reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DistributionName {
    Uniform,
    Zipf,
    Parts,
}

/// `[node]`: the data node.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    aggregate: Option<u64>,
    local: Option<u64>,
    word: Option<Time>,
    travel: Option<Time>,
    jitter: Option<Part>,
    batch: Option<u64>,
    sigma: Option<u64>,
    increment: Option<Part>,
    history: Option<usize>,
}

/// `[[clients]]`: clients that are alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientsTable {
    count: Option<usize>,
    part: Option<f64>,
    requests: Option<Requests>,
    pattern: Option<Pattern>,
}

/// The requests of a client in a period.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "`requests`: write a number (340000), or a part of the reservation (\"50 %\")"
)]
enum Requests {
    Ios(u64),
    Part(Part),
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    Burst,
    Constant,
}

/// `[background]`: jobs outside of Haechi.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundTable {
    from: Option<usize>,
    until: Option<usize>,
    window: Option<u64>,
}

/// Reads a scenario.
///
/// # Errors
///
/// It has a key that no scenario has, or a value that cannot be.
pub(crate) fn read(text: &str) -> anyhow::Result<Scenario> {
    let file: File = toml::from_str(text)?;
    let scale = file.scale.unwrap_or(1);
    ensure!((1..=MOST_SCALE).contains(&scale), "`scale` is {scale}: give 1 to {MOST_SCALE}");
    let usual = Experiment::default();
    let distribution = distribution(&file)?;
    let experiment = Experiment {
        node: file.node.read()?,
        system: file.system.map_or(usual.system, System::from),
        clients: match &file.clients {
            Some(groups) => clients(groups, distribution)?,
            None => usual.clients,
        },
        reserved: file.reserved.map_or(usual.reserved, |part| part.0),
        distribution,
        window: file.window.unwrap_or(usual.window),
        period: file.period.map_or(usual.period, |time| time.0),
        warmup: file.warmup.unwrap_or(usual.warmup),
        periods: file.periods.unwrap_or(usual.periods),
        background: file.background.map(|table| Background {
            from: table.from.unwrap_or(0),
            until: table.until.unwrap_or(usize::MAX),
            window: table.window.unwrap_or(8),
        }),
        latencies: file.latencies.unwrap_or(usual.latencies),
    };
    experiment.check()?;
    let title = file.title.unwrap_or_else(|| "Clients of persistent memory".to_owned());
    Ok(Scenario { title, testbed: Testbed { scale, seed: file.seed.unwrap_or(1) }, experiment })
}

/// Reads the distribution of reservations.
fn distribution(file: &File) -> anyhow::Result<Distribution> {
    let name = file.distribution.unwrap_or(DistributionName::Uniform);
    let exponent = file.exponent;
    if let (Some(exponent), false) = (exponent, name == DistributionName::Zipf) {
        bail!("`exponent` is {exponent}: it is of `distribution = \"zipf\"`; leave it out");
    }
    Ok(match name {
        DistributionName::Uniform => Distribution::UNIFORM,
        DistributionName::Zipf => Distribution::Zipf(exponent.unwrap_or(0.6)),
        DistributionName::Parts => Distribution::Parts,
    })
}

/// Makes the clients of all groups, C1 first.
fn clients(groups: &[ClientsTable], distribution: Distribution) -> anyhow::Result<Vec<Client>> {
    let counts = groups.iter().map(|group| group.count.unwrap_or(1));
    let all = counts.fold(0_usize, usize::saturating_add);
    let right = (1..=MOST_CLIENTS).contains(&all);
    ensure!(right, "`count` in `[[clients]]` adds up to {all}: give 1 to {MOST_CLIENTS} in all");
    let mut clients = Vec::new();
    for group in groups {
        if let (Some(part), false) = (group.part, distribution == Distribution::Parts) {
            bail!("`part` is {part}: it is of `distribution = \"parts\"`; leave it out");
        }
        let client = Client {
            part: group.part.unwrap_or(1.0),
            demand: match group.requests {
                None => Demand::All,
                Some(Requests::Ios(ios)) => Demand::Ios(ios),
                Some(Requests::Part(part)) => Demand::Part(part.0),
            },
            constant: group.pattern == Some(Pattern::Constant),
        };
        clients.extend(repeat_n(client, group.count.unwrap_or(1)));
    }
    Ok(clients)
}

impl NodeTable {
    fn read(&self) -> anyhow::Result<DataNode> {
        let usual = DataNode::default();
        let jitter = match self.jitter {
            None => usual.jitter,
            Some(Part(part)) => {
                let whole =
                    (0..=100_u8).find(|whole| (f64::from(*whole) - part * 100.0).abs() < 1e-6);
                let Some(whole) = whole else {
                    bail!("`jitter` is {} %: give whole percents", part * 100.0);
                };
                whole
            }
        };
        Ok(DataNode {
            aggregate: self.aggregate.unwrap_or(usual.aggregate),
            local: self.local.unwrap_or(usual.local),
            word: self.word.map_or(usual.word, |time| time.0),
            travel: self.travel.map_or(usual.travel, |time| time.0),
            jitter,
            batch: self.batch.unwrap_or(usual.batch),
            sigma: self.sigma.unwrap_or(usual.sigma),
            increment: self.increment.map_or(usual.increment, |part| part.0),
            history: self.history.unwrap_or(usual.history),
        })
    }
}

impl Scenario {
    /// Runs the scenario with a seed; without one, with the scenario's.
    ///
    /// # Errors
    ///
    /// The model refuses it.
    pub(crate) fn run(&self, seed: Option<u64>) -> anyhow::Result<Report> {
        let testbed = Testbed { seed: seed.unwrap_or(self.testbed.seed), ..self.testbed };
        let outcome = measure(&self.experiment, testbed)?;
        Ok(Report {
            title: self.title.clone(),
            about: about(&outcome),
            tables: vec![client_table(&outcome), sums(&outcome), period_table(&outcome)],
            charts: charts(&outcome),
            scenario: String::new(),
        })
    }
}

/// Describes the run.
fn about(outcome: &Outcome) -> Vec<String> {
    let (of, testbed) = (&outcome.experiment, outcome.testbed);
    let system = match of.system {
        System::Bare => "without Haechi",
        System::Basic => "with Basic Haechi, which does not convert tokens",
        System::Haechi => "with Haechi",
        System::LowPriority => "with Haechi and a low priority for global tokens",
    };
    vec![
        format!(
            "{} clients {system}; {:.1} % of {} I/Os in {:?} reserved.",
            of.clients.len(),
            of.reserved * 100.0,
            of.capacity(),
            of.period,
        ),
        format!(
            "{} periods measured behind {} that are not, seed {}, scale {}. Engines, monitor, admission \
             and estimate are the library's; the adapters are models.",
            of.periods, of.warmup, testbed.seed, testbed.scale,
        ),
    ]
}

fn client_table(outcome: &Outcome) -> Table {
    let ios = |name| Column::new(name, "I/Os in a period");
    let numbers = outcome.reserved.iter().zip(outcome.means.iter().zip(&outcome.least));
    let mut rows = Vec::new();
    for (client, ((reserved, (mean, least)), verdict)) in (1..).zip(numbers.zip(verdicts(outcome)))
    {
        let numbers = [reserved, mean, least].map(|number| format!("{number:.0}"));
        let row = [vec![format!("C{client}")], numbers.to_vec(), vec![verdict.to_owned()]];
        rows.push(row.concat());
    }
    Table {
        title: "Clients".to_owned(),
        file: "clients".to_owned(),
        columns: vec![
            Column::new("client", ""),
            ios("reserved"),
            ios("mean"),
            ios("least"),
            Column::new("reservation", ""),
        ],
        names: 1,
        rows,
        note:
            "met: in each measured period, but for the I/Os under way at its end, a tenth at most"
                .to_owned(),
    }
}

/// Makes the table of all clients together.
fn sums(outcome: &Outcome) -> Table {
    let seconds = outcome.experiment.period.as_secs_f64();
    let mut columns = vec![
        Column::new("throughput", "K I/Os per second"),
        Column::new("operations on words", "% of I/Os"),
        Column::new("reservations met", ""),
    ];
    let verdicts = verdicts(outcome);
    let count = |words: &str| verdicts.iter().filter(|of| of.starts_with(words)).count();
    let (met, missed) = (count("met"), count("missed"));
    let mut row = vec![
        format!("{:.1}", outcome.total / seconds / 1e3),
        format!("{:.3}", outcome.words * 100.0),
        format!("{met} of {}", met + missed),
    ];
    if outcome.experiment.latencies {
        let of = outcome.latencies;
        let times = [("mean latency", of.mean), ("p99", of.p99), ("p99.9", of.p999)];
        columns.extend(times.map(|(name, _)| Column::new(name, "us")));
        row.extend(times.map(|(_, time)| format!("{:.1}", time.as_secs_f64() * 1e6)));
    }
    Table {
        title: "All clients together".to_owned(),
        file: "all".to_owned(),
        columns,
        names: 0,
        rows: vec![row],
        note: "latencies are of all periods; who wants less than it has reserved does not count as met"
            .to_owned(),
    }
}

fn period_table(outcome: &Outcome) -> Table {
    let columns = ["estimated capacity", "all clients", "C1"];
    let columns = columns.map(|name| Column::new(name, "I/Os"));
    let [estimates, all, first] = over_time(outcome);
    let each = estimates.iter().zip(all.iter().zip(&first)).enumerate();
    let mut rows = Vec::new();
    for (period, (estimate, (all, first))) in each {
        let [estimate, all, first] = [estimate, all, first].map(|number| format!("{number:.0}"));
        let bare = outcome.experiment.system == System::Bare;
        let estimate = if bare { "-".to_owned() } else { estimate };
        rows.push(vec![period.to_string(), estimate, all, first]);
    }
    Table {
        title: "Periods".to_owned(),
        file: "periods".to_owned(),
        columns: [vec![Column::new("period", "")], columns.to_vec()].concat(),
        names: 1,
        rows,
        note: match outcome.experiment.warmup {
            0 => String::new(),
            warmup => format!("those before {warmup} are not measured"),
        },
    }
}

/// Returns of each period the estimated capacity, and what all clients and C1 completed.
fn over_time(outcome: &Outcome) -> [Vec<f64>; 3] {
    let all = outcome.completed(0..outcome.reserved.len());
    [outcome.estimates(), all, outcome.completed(0..1)]
}

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let kilo = |numbers: &[f64]| numbers.iter().map(|number| number / 1e3).collect::<Vec<f64>>();
    let heights =
        |name: &str, numbers: &[f64]| Series { name: name.to_owned(), points: kilo(numbers) };
    let line = |name: &str, numbers: &[f64]| {
        let points = (0_u32..).map(f64::from).zip(kilo(numbers)).collect();
        Series { name: name.to_owned(), points }
    };
    let y = || Axis::linear("thousand I/Os in a period");
    let chart = |title: &str, file: &str, x: &str, kind| Chart {
        title: title.to_owned(),
        file: file.to_owned(),
        x: Axis::linear(x),
        y: y(),
        kind,
    };
    let groups = (1..=outcome.reserved.len()).map(|client| format!("C{client}")).collect();
    let bars = vec![heights("reserved", &outcome.reserved), heights("completed", &outcome.means)];
    let [estimates, all, first] = over_time(outcome);
    let reserved = outcome.reserved.first().map_or(Vec::new(), |of| vec![*of; first.len()]);
    let mut all = vec![line("completed", &all)];
    if outcome.experiment.system != System::Bare {
        all.push(line("estimated capacity", &estimates));
    }
    let first = vec![line("completed", &first), line("reserved", &reserved)];
    vec![
        chart("Clients", "clients", "client", Kind::Bars { groups, series: bars }),
        chart("All clients", "periods", "period", Kind::Lines(all)),
        chart("C1", "c1", "period", Kind::Lines(first)),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::estimation::CHANGE;
    use super::*;

    /// A scenario in which each key counts.
    const ALL: &str = "\
        model = 'haechi'\n\
        title = 'mine'\n\
        seed = 1\n\
        scale = 20\n\
        system = 'haechi'\n\
        reserved = '80 %'\n\
        distribution = 'zipf'\n\
        exponent = 0.6\n\
        window = 64\n\
        period = '100 ms'\n\
        warmup = 1\n\
        periods = 8\n\
        latencies = true\n\
        [node]\n\
        aggregate = 1_570_000\n\
        local = 400_000\n\
        word = '20 ns'\n\
        travel = '1 us'\n\
        jitter = '5 %'\n\
        batch = 1000\n\
        sigma = 9000\n\
        increment = '1 %'\n\
        history = 5\n\
        [[clients]]\n\
        count = 9\n\
        pattern = 'burst'\n\
        [[clients]]\n\
        requests = '50 %'\n\
        [background]\n\
        from = 2\n\
        until = 5\n\
        window = 24\n";

    /// Returns the rows of a run's results, without the clients' reservations, which are no results.
    fn shown(text: &str, seed: Option<u64>) -> Vec<Vec<Vec<String>>> {
        let scenario = read(text).unwrap_or_else(|error| panic!("{error:#} in\n{text}"));
        let mut tables = scenario.run(seed).unwrap().tables;
        let reserved = tables[0].columns.iter().position(|column| column.name == "reserved");
        tables[0].rows.iter_mut().for_each(|row| drop(row.remove(reserved.unwrap())));
        tables.into_iter().map(|table| table.rows).collect()
    }

    fn changed(from: &str, to: &str) -> String {
        assert_eq!(ALL.matches(from).count(), 1, "{from}");
        ALL.replace(from, to)
    }

    #[test]
    fn each_key_changes_the_run() {
        let before = shown(ALL, None);
        assert_eq!(before, shown(ALL, Some(1)), "the same each time");
        assert_ne!(before, shown(ALL, Some(2)));
        for (from, to) in [
            ("seed = 1", "seed = 2"),
            ("scale = 20", "scale = 10"),
            ("system = 'haechi'", "system = 'bare'"),
            ("system = 'haechi'", "system = 'basic'"),
            ("'80 %'", "'70 %'"),
            ("'zipf'\nexponent = 0.6", "'uniform'"),
            ("exponent = 0.6", "exponent = 0.5"),
            ("window = 64", "window = 100"),
            ("'100 ms'", "'110 ms'"),
            ("warmup = 1", "warmup = 2"),
            ("periods = 8", "periods = 9"),
            ("latencies = true", "latencies = false"),
            ("1_570_000", "1_500_000"),
            ("400_000", "300_000"),
            ("'20 ns'", "'2 us'"),
            ("'1 us'", "'2 us'"),
            ("'5 %'", "'50 %'"),
            ("batch = 1000", "batch = 5000"),
            ("sigma = 9000", "sigma = 0"),
            ("'1 %'", "'2 %'"),
            ("history = 5", "history = 1"),
            ("count = 9", "count = 8"),
            ("'burst'", "'constant'"),
            ("'50 %'", "'60 %'"),
            ("'50 %'", "1000"),
            ("from = 2", "from = 3"),
            ("until = 5", "until = 4"),
            ("window = 24", "window = 40"),
        ] {
            assert_ne!(before, shown(&changed(from, to), None), "{from}: {to}");
        }
        let full = changed("scale = 20", "scale = 1");
        let low = full.replace("system = 'haechi'", "system = 'low-priority'");
        assert_ne!(shown(&full, None), shown(&low, None));
        let scenario = read(&changed("system = 'haechi'", "system = 'low-priority'")).unwrap();
        let error = scenario.run(None).unwrap_err().to_string();
        assert!(error.contains("`scale` is 20: a window for global tokens"), "{error}");
        let of = |part: u8| {
            let text = "model = 'haechi'\nscale = 16\nperiod = '20 ms'\ndistribution = 'parts'\n\
                        [[clients]]\ncount = 9\n[[clients]]\npart = ";
            shown(&format!("{text}{part}"), None)
        };
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (from, to, says) in [
            ("seed = 1", "sed = 1", "unknown field `sed`"),
            ("seed = 1", "seed = -1", "seed = -1"),
            ("scale = 20", "scale = 0", "`scale` is 0: give 1 to 100"),
            ("'haechi'\nreserved", "'hachi'\nreserved", "`low-priority`"),
            ("'80 %'", "'130 %'", "reserved = '130 %'"),
            ("'80 %'", "'130 %'", "\"100 %\""),
            ("'zipf'", "'even'", "`uniform`, `zipf`, `parts`"),
            ("'zipf'", "'uniform'", "`exponent` is 0.6: it is of `distribution = \"zipf\"`"),
            ("exponent = 0.6", "exponent = -1", "`exponent` is -1: give 0"),
            ("exponent = 0.6", "exponent = nan", "`exponent` is NaN: give 0"),
            ("exponent = 0.6", "exponent = 6", "C1 is not admitted: a reservation of 6"),
            ("window = 64", "window = 0", "`window` is 0: give 1"),
            ("'100 ms'", "'1 ms'", "`period` is 1ms: give 10ms to 60s"),
            ("'100 ms'", "'100'", "\"100 s\""),
            ("warmup = 1", "warmup = 10001", "`warmup` is 10001: give at most"),
            ("periods = 8", "periods = 0", "`periods` is 0: give 1"),
            ("periods = 8", "periods = 9000", "`latencies` is true: "),
            ("1_570_000", "10", "`aggregate` is 10: give 1000"),
            ("400_000", "999_000_000", "`local` is 999000000: give 1000"),
            ("'20 ns'", "'1 s'", "`word` is 1s: give at most \"1 ms\""),
            ("'1 us'", "'1 s'", "`travel` is 1s: give at most \"1 ms\""),
            ("'5 %'", "'2.5 %'", "`jitter` is 2.5 %: give whole percents"),
            ("batch = 1000", "batch = 0", "`batch` is 0: give 1"),
            ("sigma = 9000", "sigma = 200000", "`sigma` is 200000: give no more"),
            ("history = 5", "history = 0", "`history` is 0: give 1"),
            ("count = 9", "count = 1000", "`count` in `[[clients]]` adds up to 1001: give 1"),
            ("count = 9", "part = 2", "`part` is 2: it is of `distribution = \"parts\"`"),
            ("'50 %'", "'150 %'", "`requests`: write a number (340000), or a part"),
            ("'50 %'", "2000000", "`requests` of client C10 is 2000000: give at most 1570000"),
            ("until = 5", "until = 2", "`until` is 2: give a period behind `from`, 2"),
            ("window = 24", "window = 0", "`window` in `[background]` is 0: give 1"),
        ] {
            let error = format!("{:#}", read(&changed(from, to)).unwrap_err());
            assert!(error.contains(says), "{to}: {error}");
        }
        let parts = "model = 'haechi'\ndistribution = 'parts'\n[[clients]]\npart = 0";
        let error = read(parts).unwrap_err().to_string();
        assert!(error.contains("`part` of client C1 is 0: give more than 0"), "{error}");
    }

    #[test]
    fn no_number_breaks_the_reader() {
        let keys = ALL.lines().filter_map(|line| line.split_once(" = "));
        let numbers = ["0", "1", "-1", "9223372036854775807", "1e300", "-1e300", "nan", "inf"];
        let texts = ["'0 %'", "'100 %'", "'0 s'", "'99999999999 h'"];
        for (key, value) in keys {
            for other in numbers.iter().chain(&texts) {
                let line = format!("{key} = {value}\n");
                // Some of them are right.
                _ = read(&ALL.replacen(&line, &format!("{key} = {other}\n"), 1));
            }
        }
    }

    fn shipped(figure: u32) -> Scenario {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let path = folder.join(format!("haechi-{figure}.toml"));
        read(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn each_figures_scenario_runs_and_shows_its_clients_and_periods() {
        for figure in 6..=19 {
            let mut scenario = shipped(figure);
            scenario.testbed.scale = 8;
            scenario.experiment.periods = scenario.experiment.periods.min(3);
            let report = scenario.run(None).unwrap();
            assert!(report.title.contains(&format!("Fig. {figure}")), "{}", report.title);
            let Experiment { clients, warmup, periods, latencies, .. } = &scenario.experiment;
            let [rows, all, over_time] = &report.tables[..] else { panic!("{figure}") };
            assert_eq!(rows.rows.len(), clients.len(), "{figure}");
            assert_eq!(over_time.rows.len(), warmup + periods, "{figure}");
            assert_eq!(all.columns.iter().any(|of| of.name == "p99"), *latencies, "{figure}");
            assert!(report.charts.iter().all(|chart| chart.svg().starts_with("<svg")));
        }
    }

    #[test]
    fn figures_of_the_same_runs_have_the_same_set_up_and_congestion_when_they_say() {
        let of = |figure| Experiment { latencies: false, ..shipped(figure).experiment };
        for (one, other) in [(10, 11), (13, 14), (13, 15), (16, 17), (18, 19)] {
            assert_eq!(of(one), of(other), "{one} and {other}");
        }
        assert_eq!(of(16).background.unwrap().from, CHANGE);
        assert_eq!(of(18).background.unwrap().until, CHANGE);
    }

    #[test]
    fn a_report_says_whose_reservations_are_met() {
        let text = "model = 'haechi'\nscale = 16\nperiods = 2\ndistribution = 'zipf'\n\
                    [[clients]]\ncount = 9\n[[clients]]\nrequests = '50 %'";
        let report = read(text).unwrap().run(None).unwrap().text();
        let row = |name: &str| report.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("C1 ").ends_with("missed; the monitor names it: out of its reach"), "{report}");
        assert!(row("C5 ").ends_with("met") && row("C10 ").ends_with("wants less"), "{report}");
        assert!(report.contains("7 of 9"), "{report}");
        let bare = text.replace("periods", "reserved = '0 %'\nsystem = 'bare'\nperiods");
        let report = read(&bare).unwrap().run(None).unwrap().text();
        assert!(report.contains("none") && report.contains("0 of 0"), "{report}");
    }
}
