//! `sluiced`: the NVMe over Fabrics target daemon.

use std::path::Path;

use sluiced::config::Config;
use sluiced::runtime::Runtime;

fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let config = match std::env::args().nth(1) {
        Some(file) => Config::load(Path::new(&file)).map_err(|e| anyhow::anyhow!("{e}"))?,
        None => Config::embedded().map_err(|e| anyhow::anyhow!("{e}"))?,
    };
    let runtime = Runtime::start(&config)?;
    runtime.wait();
    Ok(())
}
