//! Block traces from files, in the formats of the SNIA's repository (IOTTA).

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::rc::Rc;

use serde::Deserialize;
use thiserror::Error;
use units::Nanos;

use super::shape::BLOCK;
use super::{Access, Arrival, Source};

/// The longest line that is read, in bytes.
const LINE: u64 = 4096;

/// The formats, by their columns. All are separated by commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// MSR Cambridge (the README of SNIA IOTTA's trace set 388): `Timestamp` in Windows' filetime
    /// (100 ns), `Hostname`, `DiskNumber`, `Type` (`Read`, `Write`), `Offset` and `Size` in bytes,
    /// `ResponseTime`.
    Msr,
    /// SNIA's SYSTOR '17: `Timestamp` in seconds, `Response`, `IOType` (`R`, `W`), `LUN`, `Offset`
    /// and `Size` in bytes.
    Snia,
}

/// A trace that cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// The file.
    #[error("cannot read the trace {path}: {why}; unpack it if it is compressed")]
    File {
        /// Its path.
        path: String,
        /// The system's reason.
        why: String,
    },
    /// A line.
    #[error("line {line} of the trace {path}: {what}; {remedy}")]
    Line {
        /// The file's path.
        path: String,
        /// The line's number, from 1.
        line: u64,
        /// The error.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
}

/// The fault of a trace, if it has one: a source cannot answer it while it is used.
#[derive(Clone, Debug, Default)]
pub struct Fault(Rc<RefCell<Option<TraceError>>>);

impl Fault {
    /// Returns the fault that ended the trace.
    #[must_use]
    pub fn get(&self) -> Option<TraceError> {
        self.0.borrow().clone()
    }

    fn set(&self, error: TraceError) {
        self.0.borrow_mut().get_or_insert(error);
    }
}

/// How a trace is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSetup {
    /// Format.
    pub format: Format,
    /// Number by which the times between accesses are divided: 2.0 is twice as fast.
    pub speed: f64,
    /// Bytes of the namespace. Accesses behind its end are at their place modulo this.
    pub within: u64,
    /// The largest access in bytes: larger ones are parted, as a host's kernel does.
    pub most: u32,
    /// Time of the first access.
    pub begin: Nanos,
}

/// A source that replays a trace. The file is read as the accesses are wanted, a line at a time.
#[derive(Debug)]
pub struct Trace {
    setup: TraceSetup,
    path: String,
    lines: BufReader<File>,
    line: u64,
    text: String,
    /// The time of the trace's first access.
    first: Option<f64>,
    /// The time of the last access: lines that are out of order come at once.
    last: Nanos,
    /// The rest of the record that was read last.
    rest: Rest,
    fault: Fault,
}

/// The rest of a record, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    write: bool,
    from: u64,
    end: u64,
}

/// A line of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Record {
    /// Nanoseconds from the format's own beginning.
    time: f64,
    write: bool,
    offset: u64,
    size: u64,
}

impl Trace {
    /// Opens a trace. Its fault is the caller's to ask for when the run has ended.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or its first line is not of the format.
    pub fn open(path: &Path, setup: TraceSetup) -> Result<(Self, Fault), TraceError> {
        let name = path.display().to_string();
        let opened = |path: &Path| {
            File::open(path)
                .map(BufReader::new)
                .map_err(|error| TraceError::File { path: name.clone(), why: error.to_string() })
        };
        let fault = Fault::default();
        let trace = |lines| Self {
            setup,
            path: name.clone(),
            lines,
            line: 0,
            text: String::new(),
            first: None,
            last: setup.begin,
            rest: Rest::default(),
            fault: fault.clone(),
        };
        trace(opened(path)?).record()?;
        Ok((trace(opened(path)?), fault.clone()))
    }

    /// Reads lines up to the next record.
    fn record(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            self.text.clear();
            self.line += 1;
            let mut limited = std::io::Read::take(&mut self.lines, LINE);
            let read = limited.read_line(&mut self.text).map_err(|error| TraceError::File {
                path: self.path.clone(),
                why: error.to_string(),
            })?;
            if read == 0 {
                return Ok(None);
            }
            let text = self.text.trim();
            let heading = self.line == 1 && text.starts_with("Timestamp");
            if text.is_empty() || heading {
                continue;
            }
            let parsed = match self.setup.format {
                Format::Msr => msr(text),
                Format::Snia => snia(text),
            };
            return parsed.map(Some).map_err(|what| TraceError::Line {
                path: self.path.clone(),
                line: self.line,
                what,
                remedy: remedy(self.setup.format),
            });
        }
    }

    /// Computes the time at which a record is wanted.
    fn time(&mut self, record: Record) -> Nanos {
        let first = *self.first.get_or_insert(record.time);
        let since = (record.time - first).max(0.0) / self.setup.speed.max(f64::MIN_POSITIVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates"
        )]
        let at = self.setup.begin.after(since as u64);
        self.last.max(at)
    }

    /// Removes the next part of the record that was read last: whole blocks within the namespace.
    fn part(&mut self) -> Option<Access> {
        let within = self.setup.within / BLOCK * BLOCK;
        let most = u64::from(self.setup.most) / BLOCK * BLOCK;
        let Rest { write, from, end } = self.rest;
        if from >= end || within == 0 || most == 0 {
            return None;
        }
        let offset = from % within;
        let length = (end - from).min(most).min(within - offset);
        self.rest.from += length;
        // No more than `most`, which is a `u32`.
        Some(Access { write, offset, length: u32::try_from(length).ok()? })
    }
}

impl Source for Trace {
    fn next(&mut self, _: Nanos) -> Arrival {
        loop {
            if let Some(access) = self.part() {
                return Arrival::At(self.last, access);
            }
            let record = match self.record() {
                Ok(Some(record)) => record,
                Ok(None) => return Arrival::Never,
                Err(error) => {
                    self.fault.set(error);
                    return Arrival::Never;
                }
            };
            self.last = self.time(record);
            let from = record.offset / BLOCK * BLOCK;
            let end = record
                .offset
                .saturating_add(record.size.max(1))
                .div_ceil(BLOCK)
                .saturating_mul(BLOCK);
            self.rest = Rest { write: record.write, from, end };
        }
    }
}

/// Describes a line of a format.
const fn remedy(format: Format) -> &'static str {
    match format {
        Format::Msr => {
            "a line of MSR Cambridge is like 128166372003061629,hm,1,Read,383496192,32768,413: \
             correct it, or name another format"
        }
        Format::Snia => {
            "a line of SNIA's is like 1456329600.020286,0.000279,R,0,128,4096: correct it, or name \
             another format"
        }
    }
}

/// Reads a line of MSR Cambridge.
fn msr(line: &str) -> Result<Record, String> {
    const TICK: f64 = 100.0;
    let [time, _, _, kind, offset, size] = columns(line)?;
    // The first traces are of the year 2007: a time beyond 2^53 of 100 ns is rounded to 1.6 us.
    let time: u64 = number(time, "Timestamp")?;
    Ok(Record {
        time: time as f64 * TICK,
        write: kind_of(kind, "Type")?,
        offset: number(offset, "Offset")?,
        size: number(size, "Size")?,
    })
}

/// Reads a line of SNIA's.
fn snia(line: &str) -> Result<Record, String> {
    let [time, _, kind, _, offset, size] = columns(line)?;
    let seconds: f64 = number(time, "Timestamp")?;
    if !seconds.is_finite() || seconds < 0.0 {
        return Err(format!("the Timestamp `{time}` is not a time"));
    }
    Ok(Record {
        time: seconds * 1e9,
        write: kind_of(kind, "IOType")?,
        offset: number(offset, "Offset")?,
        size: number(size, "Size")?,
    })
}

/// Parts a line into its first columns.
fn columns<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    let count = columns.len();
    columns
        .get(..N)
        .and_then(|first| first.try_into().ok())
        .ok_or_else(|| format!("{count} columns instead of {N} or more"))
}

fn number<T: std::str::FromStr>(text: &str, column: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("the {column} `{text}` is not a number"))
}

fn kind_of(text: &str, column: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "r" | "read" => Ok(false),
        "w" | "write" => Ok(true),
        _ => Err(format!("the {column} `{text}` is neither a read nor a write")),
    }
}

#[cfg(test)]
mod tests;
