//! `sluice bench floor`: requests and responses of NVMe's sizes within this machine, and nothing else.
//! The time that a target takes beyond this is its own cost.

use anyhow::Context as _;
use serde::Serialize;
use sluice_config::program::print_line;

use super::args::Floor;
use super::figures::{COLUMNS, Figures};
use super::floor_sizes::Sizes;
use super::{floor_queue_pairs, floor_streams};
use crate::host::access::Transport;

#[derive(Debug, Serialize)]
struct Report {
    request_bytes: usize,
    response_bytes: usize,
    depth: u16,
    #[serde(flatten)]
    figures: Figures,
}

/// Measures and prints.
pub(crate) fn run(floor: &Floor) -> anyhow::Result<()> {
    let bs = usize::try_from(floor.bs).ok().filter(|bs| *bs <= 1 << 30);
    let bs = bs.context("--bs is at most 1 GiB")?;
    if floor.answers {
        return floor_queue_pairs::answer(floor, bs);
    }
    let (Sizes { request, response }, stats) = match floor.transport {
        Transport::Tcp => {
            let sizes = floor_streams::sizes(floor.write, bs);
            (sizes, floor_streams::measure(floor, sizes)?)
        }
        Transport::Rdma => {
            (floor_queue_pairs::sizes(floor.write, bs), floor_queue_pairs::measure(floor, bs)?)
        }
    };
    let figures = Figures::of(&stats.both()?, floor.time.as_secs_f64());
    if floor.json {
        let report = Report {
            request_bytes: request,
            response_bytes: response,
            depth: floor.depth,
            figures,
        };
        print_line(serde_json::to_string_pretty(&report)?)
    } else {
        let depth = floor.depth;
        print_line(format_args!(
            "{request} B requests, {response} B responses, {depth} outstanding\n"
        ))?;
        print_line(format_args!("{COLUMNS}\n{}", figures.columns()))
    }
}
