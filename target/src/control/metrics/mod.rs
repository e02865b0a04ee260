//! The target's counters as OpenMetrics text, read from the engine at each scrape.

mod families;
mod network;
mod plain;
mod pmem;
mod qos;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::control::ready;
use crate::serve::engine::EngineHandle;
pub(crate) use plain::plain_text;

/// The OpenMetrics text of an engine's state.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
}

/// A collector that reads the engine at each scrape.
#[derive(Debug)]
struct EngineCollector {
    engine: EngineHandle,
    started_seconds: f64,
}

impl Metrics {
    /// Makes the metrics of an engine.
    pub(crate) fn new(engine: EngineHandle) -> Self {
        let mut registry = Registry::with_prefix("sluicegate");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let started_seconds = now.unwrap_or_default().as_secs_f64();
        registry.register_collector(Box::new(EngineCollector { engine, started_seconds }));
        Self { registry }
    }

    /// Returns the metrics now.
    ///
    /// # Errors
    /// The text could not be made.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Collector for EngineCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let engine = self.engine.0.as_ref();
        let mut families = families::Families::new(encoder);
        families.process(self.started_seconds)?;
        let listeners = engine.listeners();
        families.readiness(ready::check(engine).is_ok(), &listeners, engine.unstored().len())?;
        let connections = engine.connections();
        families.totals(&engine.statistics(), &connections)?;
        families.objects(&engine.subsystems())?;
        families.file_systems(&engine.file_systems())?;
        families.qos(engine.qos_config().general.enabled, &engine.qos())?;
        families
            .reservations_in_force(&engine.qos_config(), &engine.reservations_not_in_force())?;
        families.network(&engine.network(), &connections)?;
        let served = engine.pmem_config().general.address.is_some();
        families.pmem(&engine.pmem(), served)
    }
}

#[cfg(test)]
mod tests;
