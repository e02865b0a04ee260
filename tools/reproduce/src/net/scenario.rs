//! Scenarios of QTCP on one bottleneck, packet by packet: `model = "packets"`.

use std::ops::Range;
use std::time::Duration;

use crate::models::law::{Growth, Settings};
use anyhow::{bail, ensure};
use fastrand::Rng;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sluice_sim::control::Limits;
use sluice_sim::report::{Axis, Chart, Column, Kind, Report, Series, Table};
use sluice_sim::scenario::value::{Bits, Part, Time as Span};

use super::Network;
use super::bottleneck::{Bottleneck, LINK, Law, WIRE, offer, settings};
use super::record::Record;
use super::time::{Time, from_seconds, seconds};
use super::traffic::Size;
use crate::random::Draw as _;
use crate::scenario::{first_seed, names, within};

/// Bytes of a block, in which requests are counted.
const BLOCK: u64 = 4096;
/// The round trips over which charts have a mean.
const WINDOW: u64 = 10;
/// The most round trips of a run.
const TRIPS: u64 = 10_000;
/// The most flows of all classes.
const FLOWS: u32 = 1000;
/// The most packets that the link and its sources have in a run, which takes minutes and some gigabytes then.
const PACKETS: f64 = 1e8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "model")]
    _model: IgnoredAny,
    #[serde(default = "title")]
    title: String,
    #[serde(default = "first_seed")]
    seed: u64,
    #[serde(default = "warm")]
    warm: u64,
    #[serde(default = "counted")]
    counted: u64,
    #[serde(default = "law")]
    law: Law,
    #[serde(default = "targets")]
    targets: Part,
    #[serde(default)]
    link: Link,
    #[serde(default)]
    control: Control,
    #[serde(default, rename = "class")]
    classes: Vec<Entry>,
}

fn title() -> String {
    "Classes on one link, packet by packet".to_owned()
}

const fn warm() -> u64 {
    100
}

const fn counted() -> u64 {
    1000
}

const fn law() -> Law {
    Law::Qtcp
}

const fn targets() -> Part {
    Part(1.0)
}

/// `[link]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Link {
    rate: Bits,
    round_trip: Span,
    threshold: u32,
}

impl Default for Link {
    fn default() -> Self {
        let round_trip = Span(Duration::from_micros(98));
        Self { rate: Bits(LINK), round_trip, threshold: 140 }
    }
}

/// `[control]`: missing keys are as in the figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Control {
    gain: f64,
    epsilon: f64,
    gamma: f64,
    initial_alpha: f64,
    #[serde(with = "GrowthName")]
    growth: Growth,
    initial_window: f64,
    max_window: f64,
}

impl Default for Control {
    fn default() -> Self {
        let Settings { limits, g, initial_alpha, epsilon, gamma, growth } = settings();
        let (initial_window, max_window) = (limits.initial, limits.max);
        Self { gain: g, epsilon, gamma, initial_alpha, growth, initial_window, max_window }
    }
}

/// The names of [`Growth`].
#[derive(Deserialize)]
#[serde(remote = "Growth", rename_all = "kebab-case")]
enum GrowthName {
    Packet,
    Quality,
    Target,
}

/// `[[class]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    share: f64,
    #[serde(default = "flow")]
    flows: u32,
    #[serde(default)]
    begins: u64,
    rate: Option<Bits>,
    blocks: Option<Blocks>,
}

const fn flow() -> u32 {
    1
}

/// The sizes of requests in blocks of 4 KiB, each equally likely.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    least: u64,
    most: u64,
}

/// A scenario that was read.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    title: String,
    /// The seed, unless another one is asked for.
    pub(crate) seed: u64,
    /// The law that decides windows.
    pub(crate) law: Law,
    /// The bottleneck, with the shares of the classes.
    pub(crate) bottleneck: Bottleneck,
    pub(crate) classes: Vec<Class>,
    /// The round trips that are left out at the start.
    pub(crate) warm: u64,
    /// The round trips that are counted after these.
    pub(crate) counted: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    name: String,
    pub(crate) flows: u32,
    /// The round trip in which flows start.
    pub(crate) begins: u64,
    /// The offered load, in bits per second on the wire, and the size of requests; without it, flows always have
    /// something to send.
    pub(crate) offered: Option<(f64, Size)>,
}

/// A scenario that has run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) network: Network,
    /// The flows of each class.
    pub(crate) classes: Vec<Range<u32>>,
}

impl Run {
    /// Computes the rate of a class in bits of payload per second, between two times.
    pub(crate) fn rate(&self, class: usize, from: Time, until: Time) -> f64 {
        let flows = self.classes.get(class).cloned().unwrap_or_default();
        self.network.record().rates(flows, from, until)
    }
}

/// Checks that a rate is in its range.
fn rate(key: &str, Bits(bits): Bits) -> anyhow::Result<u64> {
    within(key, bits as f64 / 1e6, 1.0..=1e6, " Mbit/s")?;
    Ok(bits)
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// The text is not TOML, has a key that no such scenario has, lacks one, or a value is out of its range.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let counted = within("counted", file.counted, 1..=TRIPS, " round trips")?;
        let warm = within("warm", file.warm, 0..=TRIPS - counted, " round trips")?;
        within("targets", file.targets.0 * 100.0, 0.1..=100.0, " %")?;
        let micros = file.link.round_trip.0.as_secs_f64() * 1e6;
        within("link.round_trip", micros, 1.0..=1e6, " us")?;
        let threshold = within("link.threshold", file.link.threshold, 1..=1_000_000, " packets")?;
        names("class", file.classes.iter().map(|of| of.name.as_str()))?;
        let classes: Vec<Class> =
            file.classes.iter().map(|of| class(of, warm + counted)).collect::<Result<_, _>>()?;
        let flows = classes.iter().fold(0, |sum: u32, class| sum.saturating_add(class.flows));
        within("class.flows", flows, 1..=FLOWS, " in all [[class]]")?;
        let bottleneck = Bottleneck {
            rate: rate("link.rate", file.link.rate)?,
            threshold: usize::try_from(threshold)?,
            rtt: from_seconds(micros / 1e6),
            shares: file.classes.iter().map(|of| of.share).collect(),
            targets: file.targets.0,
            settings: file.control.settings()?,
        };
        let (title, seed, law) = (file.title, file.seed, file.law);
        let scenario = Self { title, seed, law, bottleneck, classes, warm, counted };
        let offered = scenario.classes.iter().filter_map(|class| class.offered);
        let bits = offered.fold(scenario.bottleneck.rate as f64, |sum, (bits, _)| sum + bits);
        let packets = bits * seconds(scenario.end()) / 8.0 / f64::from(WIRE);
        ensure!(
            packets <= PACKETS,
            "the run is of {packets:.0} packets: lessen `counted`, `link.round_trip` or rates until there are \
             {PACKETS}"
        );
        Ok(scenario)
    }

    /// Returns the time at which a run ends.
    pub(crate) fn end(&self) -> Time {
        (self.warm + self.counted) * self.bottleneck.rtt
    }

    /// Runs the scenario with a seed.
    pub(crate) fn simulate(&self, seed: u64) -> Run {
        self.run(seed, &mut |_| ())
    }

    /// Runs the scenario with a seed. `progress` hears the part of the run that is done.
    fn run(&self, seed: u64, progress: &mut dyn FnMut(f64)) -> Run {
        let rtt = self.bottleneck.rtt;
        let mut network = self.bottleneck.network(Record::new(self.end(), rtt));
        let mut random = Rng::with_seed(seed);
        // Each source has a seed of its own.
        let mut source = seed.wrapping_mul(self.classes.len() as u64);
        let mut classes = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            let (some, begins) = (Some(number), class.begins * rtt);
            let flows = self.bottleneck.flows(&mut network, self.law, some, class.flows, None);
            match class.offered {
                Some((bits, size)) => {
                    flows.clone().for_each(|flow| network.start(flow, false, begins));
                    network.source(offer(bits, size, flows.clone()), source, begins);
                }
                // Endless flows start within a round trip of each other.
                None => flows
                    .clone()
                    .for_each(|flow| network.start(flow, true, begins + random.below(rtt))),
            }
            source = source.wrapping_add(1);
            classes.push(flows);
        }
        let trips = self.warm + self.counted;
        for trip in 1..=trips {
            network.run(trip * rtt);
            progress(trip as f64 / trips as f64);
        }
        Run { network, classes }
    }

    /// Makes the table of the round trips that are counted.
    fn table(&self, run: &Run) -> Table {
        let from = self.warm * self.bottleneck.rtt;
        let rates = |class| run.rate(class, from, self.end()) / 1e9;
        let total: f64 = (0..self.classes.len()).map(rates).sum();
        let row = |(number, class): (usize, &Class)| {
            let (target, rate) = (self.bottleneck.target(number) / 1e9, rates(number));
            let quality = target / rate;
            vec![
                class.name.clone(),
                format!("{target:.2}"),
                format!("{rate:.2}"),
                format!("{:.1}", rate / total.max(f64::MIN_POSITIVE) * 100.0),
                if quality.is_finite() { format!("{quality:.3}") } else { "-".to_owned() },
            ]
        };
        let columns = [
            ("class", ""),
            ("target", "Gb/s"),
            ("carried", "Gb/s"),
            ("of all", "%"),
            ("Q, mean", ""),
        ];
        Table {
            title: "Classes, payload".to_owned(),
            file: "classes".to_owned(),
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            names: 1,
            rows: self.classes.iter().enumerate().map(row).collect(),
            note: "Q of a class: its target, divided by its carried rate".to_owned(),
        }
    }

    /// Makes a chart over the whole run of the values that `of` computes from a class and its rate in ten round trips.
    /// Values that are not finite have no point.
    fn chart(
        &self,
        run: &Run,
        (title, file): (&str, &str),
        of: impl Fn(usize, f64) -> f64,
    ) -> Chart {
        let (rtt, trips) = (self.bottleneck.rtt, self.warm + self.counted);
        let step = WINDOW.min(trips);
        let line = |(number, class): (usize, &Class)| {
            let at = |trip: u64| {
                let rate = run.rate(number, trip * rtt, (trip + step) * rtt);
                (trip as f64, of(number, rate))
            };
            let starts = (0..trips).filter(|trip| trip % step == 0 && trip + step <= trips);
            let points = starts.map(at).filter(|(_, value)| value.is_finite()).collect();
            Series { name: class.name.clone(), points }
        };
        Chart {
            title: format!("{title}, over {step} round trips"),
            file: file.to_owned(),
            x: Axis::linear("round trips"),
            y: Axis::linear(title),
            kind: Kind::Lines(self.classes.iter().enumerate().map(line).collect()),
        }
    }
}

impl Scenario {
    /// Runs the scenario with a seed, and shows what classes had. `progress` hears the part of the run that is
    /// done.
    pub(crate) fn report(&self, seed: u64, progress: &mut dyn FnMut(f64)) -> Report {
        let run = self.run(seed, progress);
        let Bottleneck { rate, threshold, rtt, .. } = &self.bottleneck;
        let about = format!(
            "{} packet by packet on one link of {} Gbit/s, K = {threshold} packets, round trip {} us; {} round \
             trips counted after {}, seed {seed}; {} events.",
            self.law.name(),
            *rate as f64 / 1e9,
            seconds(*rtt) * 1e6,
            self.counted,
            self.warm,
            run.network.handled()
        );
        let charts = vec![
            self.chart(&run, ("throughput, Gb/s of payload", "throughput"), |_, rate| rate / 1e9),
            self.chart(&run, ("quality factor Q", "quality"), |class, rate| {
                self.bottleneck.target(class) / rate
            }),
        ];
        Report {
            title: self.title.clone(),
            about: vec![about],
            tables: vec![self.table(&run)],
            charts,
            scenario: String::new(),
        }
    }
}

impl Control {
    fn settings(&self) -> anyhow::Result<Settings> {
        let part = |key: &str, value| within(&format!("control.{key}"), value, 0.0..=1.0, "");
        within("control.gain", self.gain, 0.001..=1.0, "")?;
        // At 1 no observation would count.
        within("control.gamma", self.gamma, 0.0..=0.999, "")?;
        let max = within("control.max_window", self.max_window, 1.0..=1e6, " packets")?;
        let most = max.min(1e4);
        let initial =
            within("control.initial_window", self.initial_window, 1.0..=most, " packets")?;
        Ok(Settings {
            limits: Limits { initial, max, ..Limits::default() },
            g: self.gain,
            initial_alpha: part("initial_alpha", self.initial_alpha)?,
            epsilon: part("epsilon", self.epsilon)?,
            gamma: self.gamma,
            growth: self.growth,
        })
    }
}

/// Makes a class of a run of so many round trips.
fn class(of: &Entry, trips: u64) -> anyhow::Result<Class> {
    let key = |key: &str| format!("class {}.{key}", of.name);
    within(&key("share"), of.share, 0.001..=1e6, "")?;
    let flows = within(&key("flows"), of.flows, 1..=FLOWS, "")?;
    let begins = within(&key("begins"), of.begins, 0..=trips.saturating_sub(1), " round trips")?;
    let offered = match (of.rate, of.blocks) {
        (Some(bits), Some(Blocks { least, most })) => {
            let most = within(&key("blocks.most"), most, 1..=65_536, "")?;
            let least = within(&key("blocks.least"), least, 1..=most, "")?;
            let size = Size::Blocks { least, most, bytes: BLOCK };
            Some((rate(&key("rate"), bits)? as f64, size))
        }
        (None, None) => None,
        (Some(_), None) => bail!(
            "`{}` is missing: write the sizes of requests as {{ least = 17, most = 98 }}, or leave `rate` out \
             for flows that always have something to send",
            key("blocks")
        ),
        (None, Some(_)) => bail!(
            "`{}` is missing: write the offered rate as \"90 Gbit/s\", or leave `blocks` out for \
             flows that always have something to send",
            key("rate")
        ),
    };
    Ok(Class { name: of.name.clone(), flows, begins, offered })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes that offer more than the link carries, and a later, endless one.
    const TEXT: &str = "
        model = 'packets'
        warm = 0
        counted = 300
        [link]
        rate = '10 Gbit/s'
        [[class]]
        name = 'High'
        share = 3
        flows = 2
        rate = '9 Gbit/s'
        blocks = { least = 17, most = 98 }
        [[class]]
        name = 'Low'
        share = 1
        begins = 5
    ";

    fn shown(text: &str) -> Vec<Vec<String>> {
        let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
        scenario.report(scenario.seed, &mut |_| ()).tables.remove(0).rows
    }

    /// Returns the text with a key in a table of it, before its other keys; the first table is the file.
    fn with(table: &str, line: &str) -> String {
        match table {
            "" => format!("{line}\n{TEXT}"),
            "control" => format!("{TEXT}\n[control]\n{line}"),
            _ => TEXT.replacen(table, &format!("{table}\n{line}"), 1),
        }
    }

    /// Returns what classes carried, and their parts of all. The other columns follow from keys, at least in
    /// part.
    fn carried(text: &str) -> Vec<Vec<String>> {
        shown(text).into_iter().map(|row| row[2..4].to_vec()).collect()
    }

    #[test]
    fn each_key_changes_what_classes_carry() {
        let before = carried(TEXT);
        assert_eq!(before, carried(TEXT), "the same each time");
        for (table, line) in [
            ("", "seed = 2"),
            ("", "law = 'dctcp'"),
            ("", "law = 'interference'"),
            ("", "law = 'd2tcp'"),
            ("", "targets = '50 %'"),
            ("[link]", "round_trip = '90 us'"),
            ("[link]", "threshold = 30"),
            ("control", "gain = 0.5"),
            ("control", "epsilon = 0.5"),
            ("control", "gamma = 0.9"),
            ("control", "initial_alpha = 1"),
            ("control", "growth = 'quality'"),
            ("control", "growth = 'target'"),
            ("control", "initial_window = 40"),
            ("control", "max_window = 30"),
        ] {
            assert_ne!(before, carried(&with(table, line)), "{line}");
        }
        for (old, new) in [
            ("warm = 0", "warm = 30"),
            ("counted = 300", "counted = 320"),
            ("'10 Gbit/s'", "'11 Gbit/s'"),
            ("share = 3", "share = 2"),
            ("flows = 2", "flows = 3"),
            ("begins = 5", "begins = 6"),
            ("'9 Gbit/s'", "'8 Gbit/s'"),
            ("least = 17", "least = 16"),
            ("most = 98", "most = 99"),
        ] {
            assert_ne!(before, carried(&TEXT.replace(old, new)), "{new}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        for (table, line, says) in [
            ("", "laws = 'qtcp'", "unknown field `laws`"),
            ("", "law = 'cubic'", "expected one of `dctcp`, `qtcp`"),
            ("", "seed = -1", "seed"),
            ("", "targets = '0 %'", "`targets` is 0 %: write 0.1 to 100 %"),
            ("", "targets = '170 %'", "write at most \"100 %\""),
            ("[link]", "round_trip = '0 us'", "`link.round_trip` is 0 us: write 1 to 1000000 us"),
            ("[link]", "round_trip = '1 moon'", "min or h: \"10 s\""),
            (
                "[link]",
                "threshold = 0",
                "`link.threshold` is 0 packets: write 1 to 1000000 packets",
            ),
            ("[link]", "delay = '1 us'", "unknown field `delay`"),
            ("control", "gain = 0", "`control.gain` is 0: write 0.001 to 1"),
            ("control", "gain = nan", "`control.gain` is NaN"),
            ("control", "epsilon = 1.5", "`control.epsilon` is 1.5: write 0 to 1"),
            ("control", "gamma = 1", "`control.gamma` is 1: write 0 to 0.999"),
            ("control", "initial_alpha = -inf", "`control.initial_alpha` is -inf: write 0 to 1"),
            ("control", "growth = 'fast'", "expected one of `packet`, `quality`, `target`"),
            ("control", "max_window = 0", "`control.max_window` is 0 packets: write 1 to"),
            ("control", "max_window = 5", "`control.initial_window` is 10 packets: write 1 to 5"),
        ] {
            let error = format!("{:#}", Scenario::parse(&with(table, line)).unwrap_err());
            assert!(error.contains(says), "{line}: {error}");
        }
        for (old, new, says) in [
            ("warm = 0", "warm = 9701", "`warm` is 9701 round trips: write 0 to 9700 round trips"),
            ("counted = 300", "counted = 0", "`counted` is 0 round trips: write 1 to 10000"),
            ("'10 Gbit/s'", "'0 Gbit/s'", "`link.rate` is 0 Mbit/s: write 1 to 1000000 Mbit/s"),
            ("'9 Gbit/s'", "'9 Pbit/s'", "Gbit/s or Tbit/s: \"10 Gbit/s\""),
            ("'9 Gbit/s'", "'1 kbit/s'", "`class High.rate` is 0.001 Mbit/s"),
            ("rate = '9 Gbit/s'", "", "`class High.rate` is missing: write the offered rate"),
            ("blocks = { least = 17, most = 98 }", "", "`class High.blocks` is missing"),
            ("least = 17", "least = 99", "`class High.blocks.least` is 99: write 1 to 98"),
            ("most = 98", "most = 98000", "`class High.blocks.most` is 98000: write 1 to 65536"),
            ("share = 3", "share = -3", "`class High.share` is -3: write 0.001 to 1000000"),
            ("share = 3", "", "missing field `share`"),
            ("'Low'", "'High'", "`class 2.name` is \"High\": give each class a name of its own"),
            ("'High'", "''", "`class 1.name` is \"\": give each class a name of its own"),
            ("flows = 2", "flows = 0", "`class High.flows` is 0: write 1 to 1000"),
            (
                "flows = 2",
                "flows = 1000",
                "`class.flows` is 1001 in all [[class]]: write 1 to 1000",
            ),
            ("begins = 5", "begins = 300", "`class Low.begins` is 300 round trips: write 0 to 299"),
            ("'10 Gbit/s'", "'1 Tbit/s'\nround_trip = '1 s'", "lessen `counted`"),
            ("model = 'packets'", "model = 'packets", "TOML parse error"),
        ] {
            assert!(TEXT.contains(old), "{old}");
            let error = Scenario::parse(&TEXT.replace(old, new)).unwrap_err();
            assert!(format!("{error:#}").contains(says), "{new}: {error:#}");
        }
        let error = Scenario::parse("model = 'packets'").unwrap_err().to_string();
        assert!(error.contains("`class.flows` is 0 in all [[class]]"), "{error}");
    }

    #[test]
    fn the_ends_of_all_ranges_run() {
        let slow = "model = 'packets'\nwarm = 0\ncounted = 10000
            [link]\nrate = '1 Mbit/s'\nround_trip = '1 s'\nthreshold = 1000000
            [control]\ngain = 0.001\ngamma = 0.999\nepsilon = 1\ninitial_window = 10000
            [[class]]\nname = 'a'\nshare = 1e6\nrate = '1 Mbit/s'\nbegins = 9999
            blocks = { least = 65536, most = 65536 }
            [[class]]\nname = 'b'\nshare = 0.001\nflows = 2";
        let fast = "model = 'packets'\nseed = 18446744073709551615\nwarm = 0\ncounted = 5
            [link]\nrate = '1 Tbit/s'\nround_trip = '1 us'\nthreshold = 1
            [control]\nmax_window = 1\ninitial_window = 1\ngrowth = 'target'
            [[class]]\nname = 'a'\nshare = 1\nrate = '1 Tbit/s'\nflows = 999\nblocks = { least = 1, most = 1 }
            [[class]]\nname = 'b'\nshare = 1";
        let short = "model = 'packets'\nwarm = 0\ncounted = 1\n[[class]]\nname = 'a'\nshare = 1";
        for (text, classes) in [(slow, 2), (fast, 2), (short, 1)] {
            for law in ["dctcp", "qtcp", "interference", "d2tcp"] {
                assert_eq!(shown(&format!("law = '{law}'\n{text}")).len(), classes);
            }
        }
    }

    #[test]
    fn e1_the_table_and_the_charts_show_the_shares() {
        let text =
            TEXT.replace("counted = 300", "counted = 1000").replace("warm = 0", "warm = 100");
        let report = Scenario::parse(&text).unwrap().report(3, &mut |_| ());
        assert!(report.about[0].contains("seed 3"), "{:?}", report.about);
        let rows = &report.tables[0].rows;
        assert_eq!([&rows[0][0], &rows[1][0]], ["High", "Low"]);
        let number = |row: usize, column: usize| rows[row][column].parse::<f64>().unwrap();
        // Two flows of High and one of Low, which has a third of High's throughput.
        assert!((number(0, 3) - 75.0).abs() < 4.0, "{rows:?}");
        for row in [0, 1] {
            assert!((number(row, 1) / number(row, 2) - number(row, 4)).abs() < 0.002);
        }
        for chart in &report.charts {
            let Kind::Lines(lines) = &chart.kind else { panic!("{chart:?}") };
            let [high, low] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!([&high.name, &low.name], ["High", "Low"]);
            assert_eq!(high.points.len(), 110, "one for each ten round trips");
        }
    }
}
