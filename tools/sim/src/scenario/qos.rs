//! `[qos]`, `[[session]]` and `[network]`, as the daemon's configuration has them.

use std::time::Duration;

use arbitration::credit::Caps;
use arbitration::limit::{Rate, Rates};
use arbitration::reservation::{Budget, Locality, Terms};
use arbitration::session::{SessionSpec, WEIGHT_MAX};
use arbitration::settings::{OrderSettings, Unit, Weights, WindowRule};
use qtcp::link::ClassGoal;
use qtcp::poller::payload;
use sluice_config::amounts::parse_rate;
use units::{Class, Nanos, PerClass, nanos};

use super::error::{ScenarioError, value};
use super::file::{
    Burst, File, Goal, GoalTable, LocalityName, Namespace, Qos, Reserve, Session, Unit as UnitName,
    Window, namespace,
};
use super::value::{Bandwidth, Bits, Count, Part};
use crate::model::{LinkPlan, QosPlan, ReservePlan, SessionPlan, StagePlan};
use crate::target::OPERATIONS;

/// Makes the settings of quality of service, and the sessions.
pub(super) fn qos(file: &File) -> Result<QosPlan, ScenarioError> {
    let (of, mut plan) = (&file.qos, QosPlan::default());
    plan.enabled = of.enabled.unwrap_or(plan.enabled);
    plan.order = order(of, plan.order)?;
    if of.credits.is_some() || of.payload.is_some() {
        let payload = of.payload.map_or(u64::MAX, |payload| payload.0 / 1024);
        plan.caps = Some(Caps { operations: of.credits.unwrap_or(OPERATIONS), payload });
    }
    plan.queue = of.queue.unwrap_or(plan.queue);
    plan.wrr = of.wrr.unwrap_or(plan.wrr);
    plan.mark = of.mark.unwrap_or(plan.mark);
    plan.sessions = file
        .sessions
        .iter()
        .map(|session| self::session(file, session))
        .collect::<Result<_, _>>()?;
    Ok(plan)
}

fn order(of: &Qos, before: OrderSettings) -> Result<OrderSettings, ScenarioError> {
    let mut order = before;
    if let Some([high, medium, low]) = of.weights {
        if [high, medium, low].iter().any(|weight| !(1..=256).contains(weight)) {
            return Err(value(
                "qos.weights",
                format!("{high}, {medium}, {low}"),
                "write 1 to 256 each",
            ));
        }
        order.weights = Weights { high, medium, low };
    }
    order.unit = match of.unit {
        Some(UnitName::Bytes) => Unit::Bytes,
        Some(UnitName::Commands) => Unit::Commands,
        Some(UnitName::Time) => Unit::Time,
        None => order.unit,
    };
    order.burst = match &of.burst {
        None => order.burst,
        Some(Burst::Commands(burst)) if burst.is_power_of_two() && *burst <= 64 => *burst,
        Some(Burst::Word(word)) if word == "unlimited" => u16::MAX,
        Some(other) => {
            let must = "write 1, 2, 4, 8, 16, 32, 64 or \"unlimited\"";
            return Err(value("qos.burst", format!("{other:?}"), must));
        }
    };
    if let Some(share) = of.urgent_share {
        order.urgent_share = percent("qos.urgent_share", share, 90)?;
    }
    Ok(order)
}

/// Rounds a part to per cent from 1 to `most`.
fn percent(key: &str, Part(part): Part, most: u8) -> Result<u8, ScenarioError> {
    let whole = (part * 100.0).round();
    if !(1.0..=f64::from(most)).contains(&whole) {
        return Err(value(key, format!("{whole} %"), format!("write \"1 %\" to \"{most} %\"")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 100")]
    Ok(whole as u8)
}

fn session(file: &File, of: &Session) -> Result<SessionPlan, ScenarioError> {
    let at = format!("session {}", of.name);
    let share = |key: &str, part: Option<Part>| {
        part.map(|part| percent(&format!("{at}.{key}"), part, 100)).transpose()
    };
    let rate = |key: String, number: u64| {
        let must = "write 1 to 2^40";
        Rate::per_second(number).ok_or_else(|| value(format!("{at}.{key}"), number, must))
    };
    let rates =
        |of: &str, iops: Option<Count>, bytes: Option<Bandwidth>| -> Result<Rates, ScenarioError> {
            let iops = iops.map(|count| rate(format!("{of}iops"), count.0)).transpose()?;
            let bandwidth =
                bytes.map(|bytes| rate(format!("{of}bandwidth"), bytes.0)).transpose()?;
            Ok(Rates { iops, bandwidth })
        };
    let Rates { iops, bandwidth } = rates("", of.iops, of.bandwidth)?;
    let spec = SessionSpec {
        name: of.name.clone(),
        parent: of.parent.clone(),
        operations: share("credit_share", of.credit_share)?,
        payload: share("payload_share", of.payload_share)?,
        iops,
        bandwidth,
        reads: rates("read_", of.read_iops, of.read_bandwidth)?,
        writes: rates("write_", of.write_iops, of.write_bandwidth)?,
        burst: of.burst.map_or(Nanos::ZERO, |time| Nanos(nanos(time.0))),
        queue: of.queue,
        weight: of
            .weight
            .map(|weight| match weight {
                1..=WEIGHT_MAX => Ok(weight),
                _ => Err(value(format!("{at}.weight"), weight, "write 1 to 1000")),
            })
            .transpose()?,
    };
    let reserve =
        of.reserve.as_ref().map(|reserve| self::reserve(file, &at, reserve)).transpose()?;
    Ok(SessionPlan { spec, reserve })
}

fn reserve(file: &File, at: &str, of: &Reserve) -> Result<ReservePlan, ScenarioError> {
    let budget = match (of.commands, of.bytes, of.time) {
        (Some(Count(commands)), None, None) => Budget::Operations(commands),
        (None, Some(bytes), None) => Budget::Bytes(bytes.0),
        (None, None, Some(time)) => Budget::DeviceTime(Nanos(nanos(time.0))),
        _ => {
            let must = "give it one of `commands`, `bytes` and `time`";
            return Err(value(format!("{at}.reserve"), "of none or several kinds", must));
        }
    };
    let period = of.period.map_or(Duration::from_secs(1), |period| period.0);
    let mut terms = Terms::of(budget, Nanos(nanos(period)));
    if let Some(size) = of.request_size {
        terms.request_bytes = u32::try_from(size.0).unwrap_or(u32::MAX);
    }
    if let Some(Part(writes)) = of.writes {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        let writes = (writes * 100.0).round() as u8;
        terms.write_percent = writes;
    }
    terms.latency = of.latency.map(|latency| Nanos(nanos(latency.0)));
    terms.burst = of.burst.unwrap_or(terms.burst);
    terms.buffers = of.buffers.unwrap_or(terms.buffers);
    terms.locality = match of.locality {
        Some(LocalityName::Sequential) => Locality::Sequential,
        Some(LocalityName::Random) | None => Locality::Random,
    };
    Ok(ReservePlan { namespace: namespace(file, &format!("{at}.reserve"), of.namespace)?, terms })
}

/// Makes the settings of the network's stage.
pub(super) fn stage(file: &File) -> Result<StagePlan, ScenarioError> {
    let (of, mut plan) = (&file.network, StagePlan::default());
    plan.enabled = of.enabled.unwrap_or(plan.enabled);
    plan.writes = of.writes.unwrap_or(plan.writes);
    let capacity = match of.capacity.as_deref() {
        None | Some("auto") => None,
        Some(text) => {
            let neither = "neither \"auto\" nor a rate";
            let bits = parse_rate(text);
            Some(bits.map_err(|remedy| value("network.capacity", neither, remedy))?)
        }
    };
    let mut goals: PerClass<ClassGoal> = plan.link.goals;
    for (name, goal) in &of.classes {
        let key = format!("network.classes.{name:?}").to_lowercase();
        goals[Class::from(*name)] = self::goal(&key, goal)?;
    }
    plan.link = LinkPlan { capacity, goals };
    Ok(plan)
}

fn goal(key: &str, goal: &Goal) -> Result<ClassGoal, ScenarioError> {
    let must = "write { share = 3 }, { rate = \"2 Gbit/s\" }, { latency = \"2 ms\" } or \"free\"";
    match goal {
        Goal::Word(word) if word == "free" => Ok(ClassGoal::Free),
        Goal::Word(word) => Err(value(key, word, must)),
        Goal::Table(GoalTable { share: Some(share), rate: None, latency: None })
            if (1.0..=1000.0).contains(share) =>
        {
            Ok(ClassGoal::Share(*share))
        }
        Goal::Table(GoalTable { share: None, rate: Some(Bits(bits)), latency: None }) => {
            Ok(ClassGoal::Rate(payload(*bits)))
        }
        Goal::Table(GoalTable { share: None, rate: None, latency: Some(latency) }) => {
            Ok(ClassGoal::Latency(latency.0))
        }
        Goal::Table(table) => Err(value(key, format!("{table:?}"), must)),
    }
}

/// Makes the rule of a namespace's window: its own, or the one in `[qos]`.
pub(super) fn window(
    file: &File,
    of: &Namespace,
    number: usize,
) -> Result<WindowRule, ScenarioError> {
    let key = match of.window {
        Some(_) => format!("namespace {number}.window"),
        None => "qos.window".to_owned(),
    };
    let target = of.latency_target.or(file.qos.latency_target);
    let max = of.window_max.or(file.qos.window_max).unwrap_or(1024);
    match of.window.as_ref().or(file.qos.window.as_ref()) {
        None => Ok(WindowRule::default()),
        Some(Window::Commands(window)) if (1..=65_536).contains(window) => {
            Ok(WindowRule::Fixed(*window))
        }
        Some(Window::Word(word)) if word == "off" => Ok(WindowRule::Off),
        Some(Window::Word(word)) if word == "adaptive" => Ok(WindowRule::Adaptive {
            target: Nanos(target.map_or(2_000_000, |time| nanos(time.0))),
            max,
        }),
        Some(other) => {
            let must = "write 1 to 65536, \"off\" or \"adaptive\"";
            Err(value(key, format!("{other:?}"), must))
        }
    }
}
