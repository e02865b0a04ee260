//! The loads of hosts.

use std::path::Path;
use std::time::Duration;

use units::{Nanos, nanos};

use super::error::ScenarioError;
use super::file::{Distributed, Load, ProcessName, SizeValue};
use super::value::{Bytes, LoadRate, Time};
use crate::load::{Closed, Fault, Open, Process, Shape, Size, Source, Trace, TraceSetup};

/// The context of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The load, as errors name it.
    pub(super) at: &'a str,
    /// Bytes of its namespace.
    pub(super) within: u64,
    /// The largest transfer of one command in bytes.
    pub(super) max_transfer: u32,
    /// The time at which it begins, unless it says so itself.
    pub(super) begins: Duration,
    /// The seed of all its random numbers.
    pub(super) seed: u64,
    /// The folder of traces.
    pub(super) folder: &'a Path,
}

/// Makes the source of a load. A trace comes with its fault.
pub(super) fn source(
    load: &Load,
    place: Place<'_>,
) -> Result<(Box<dyn Source>, Option<Fault>), ScenarioError> {
    let begin = Nanos(nanos(load.begins.map_or(place.begins, |begins| begins.0)));
    refuse_unused(load, place.at)?;
    if load.process == ProcessName::Trace {
        let (trace, fault) = trace(load, place, begin)?;
        return Ok((Box::new(trace), Some(fault)));
    }
    let shape = shape(load, place)?;
    if load.process == ProcessName::Closed {
        let depth = load.depth.unwrap_or(32);
        if !(1..=65_536).contains(&depth) {
            let must = "write 1 to 65536 accesses that are outstanding".to_owned();
            return Err(value(place.at, "depth", depth, must));
        }
        return Ok((Box::new(Closed::new(depth, shape, begin, place.seed)), None));
    }
    let process = process(load, place.at, shape)?;
    Ok((Box::new(Open::new(process, shape, begin, place.seed)), None))
}

/// Makes an error of a key of a load.
fn value(at: &str, key: &str, is: impl ToString, must: String) -> ScenarioError {
    ScenarioError::Value { key: format!("{at}.{key}"), is: is.to_string(), must }
}

/// Makes an error of a key that is missing.
fn missing(at: &str, key: &str, must: &'static str) -> ScenarioError {
    ScenarioError::Missing { key: format!("{at}.{key}"), must }
}

/// Refuses keys that the load's process has no use for.
fn refuse_unused(load: &Load, at: &str) -> Result<(), ScenarioError> {
    use ProcessName::{Burst, Closed, OnOff, Trace};
    let process = load.process;
    let trace = process == Trace;
    let given = [
        ("rate", load.rate.is_some(), !matches!(process, Closed | Trace)),
        ("depth", load.depth.is_some(), process == Closed),
        ("count", load.count.is_some(), process == Burst),
        ("on", load.on.is_some(), process == OnOff),
        ("off", load.off.is_some(), process == OnOff),
        ("reads", load.reads.is_some(), !trace),
        ("size", load.size.is_some(), !trace),
        ("places", load.places.is_some(), !trace),
        ("file", load.file.is_some(), trace),
        ("format", load.format.is_some(), trace),
        ("speed", load.speed.is_some(), trace),
    ];
    match given.into_iter().find(|(_, given, used)| *given && !used) {
        Some((key, ..)) => {
            let must = format!("a load of this process has no such key: leave `{key}` out");
            Err(value(at, key, "given", must))
        }
        None => Ok(()),
    }
}

/// Makes the shape of a load's accesses.
fn shape(load: &Load, place: Place<'_>) -> Result<Shape, ScenarioError> {
    let bytes = |Bytes(bytes): Bytes| u32::try_from(bytes).unwrap_or(u32::MAX);
    let size = match &load.size {
        None => Size::Fixed(4096),
        Some(SizeValue::Fixed(size)) => Size::Fixed(bytes(*size)),
        Some(SizeValue::Distributed(Distributed { mean, least, most, step })) => {
            match (mean, least) {
                (Some(mean), None) => Size::Exponential { mean: bytes(*mean), most: bytes(*most) },
                (None, Some(least)) => Size::Uniform {
                    least: bytes(*least),
                    most: bytes(*most),
                    step: bytes(step.unwrap_or(Bytes(4096))),
                },
                _ => {
                    let must = "give it `mean` with `most`, or `least` with `most`".to_owned();
                    return Err(value(place.at, "size", "of neither kind", must));
                }
            }
        }
    };
    if size.most() > place.max_transfer {
        let must =
            format!("make it at most {} bytes, or raise `target.max_transfer`", place.max_transfer);
        return Err(value(place.at, "size", format!("up to {} bytes", size.most()), must));
    }
    let places = load.places.unwrap_or_default();
    let reads = load.reads.map_or(1.0, |reads| reads.0);
    let shape = Shape { reads, size, places, within: place.within };
    shape.check().map_err(|error| ScenarioError::Shape { at: place.at.to_owned(), error })?;
    Ok(shape)
}

/// Makes the process of an open load.
fn process(load: &Load, at: &str, shape: Shape) -> Result<Process, ScenarioError> {
    let rate = match load.rate {
        Some(LoadRate::Accesses(rate)) => rate,
        Some(LoadRate::Bits(bits)) => bits as f64 / 8.0 / shape.size.mean(),
        None => {
            return Err(missing(
                at,
                "rate",
                "write I/Os per second (20000) or bits (\"8 Gbit/s\")",
            ));
        }
    };
    Ok(match load.process {
        ProcessName::Burst => {
            let count = load.count.ok_or_else(|| {
                missing(at, "count", "write the number of accesses that come at once")
            })?;
            if !(1..=65_536).contains(&count) {
                return Err(value(at, "count", count, "write 1 to 65536 accesses".to_owned()));
            }
            Process::Burst { rate, count }
        }
        ProcessName::OnOff => {
            let time = |key: &str, time: Option<Time>| {
                let must = "write the mean time, for example \"2 ms\"";
                let time = time.ok_or_else(|| missing(at, key, must))?;
                if time.0.is_zero() {
                    return Err(value(at, key, "0", must.to_owned()));
                }
                Ok(nanos(time.0) as f64)
            };
            Process::OnOff { rate, on: time("on", load.on)?, off: time("off", load.off)? }
        }
        ProcessName::Constant => Process::Constant { rate },
        ProcessName::Poisson | ProcessName::Closed | ProcessName::Trace => {
            Process::Poisson { rate }
        }
    })
}

/// Opens the trace of a load.
fn trace(load: &Load, place: Place<'_>, begin: Nanos) -> Result<(Trace, Fault), ScenarioError> {
    let file = load
        .file
        .as_ref()
        .ok_or_else(|| missing(place.at, "file", "write the path of the trace"))?;
    let format =
        load.format.ok_or_else(|| missing(place.at, "format", "write \"msr\" or \"snia\""))?;
    let speed = load.speed.unwrap_or(1.0);
    if !(1e-3..=1e6).contains(&speed) {
        return Err(value(place.at, "speed", speed, "write 0.001 to 1000000".to_owned()));
    }
    let setup = TraceSetup { format, speed, within: place.within, most: place.max_transfer, begin };
    Trace::open(&place.folder.join(file), setup)
        .map_err(|error| ScenarioError::Trace { at: place.at.to_owned(), error })
}
