//! The links of the configuration, as the poller takes them.

use arbitration::PerClass;
use qtcp::link::ClassGoal;
use qtcp::poller::{LinkSettings, Settings, payload};
use sluice_config::{Goal, LinkConfig, Network};

/// Makes the poller's settings.
pub(super) fn settings(config: &Network) -> Settings {
    let links = config.all_links().map(|link| LinkSettings {
        name: link.name.clone(),
        capacity: link.capacity,
        goals: goals(link),
    });
    Settings { enabled: config.enabled, writes: config.writes, links: links.collect() }
}

/// Returns the configured goals of classes, in payload.
fn goals(link: &LinkConfig) -> PerClass<ClassGoal> {
    link.goals.map(|goal| match goal {
        Goal::Share(share) => ClassGoal::Share(f64::from(share)),
        Goal::Rate(bits) => ClassGoal::Rate(payload(bits)),
        Goal::Latency(time) => ClassGoal::Latency(time),
        Goal::Free => ClassGoal::Free,
    })
}
