//! The alert rules for Prometheus, systemd/sluicegate.rules.yml. promtool checks and tests them in tests/watching.rs.

use std::collections::BTreeMap;

use super::query;

const RULES: &str = include_str!("../../../../../systemd/sluicegate.rules.yml");

/// The keys of an alert with their values, each of one line.
type Alert = BTreeMap<&'static str, &'static str>;

/// Reads the alerts.
fn alerts() -> Vec<Alert> {
    let mut alerts: Vec<Alert> = Vec::new();
    for line in RULES.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push(Alert::from([("alert", name)]));
        } else if let (Some(alert), Some((key, value))) = (alerts.last_mut(), line.split_once(": "))
        {
            assert_eq!(alert.insert(key, value.trim_matches('\'')), None, "{key} twice: {line}");
        }
    }
    alerts
}

#[test]
fn alerts_name_known_metrics_and_labels() {
    let alerts = alerts();
    assert!(alerts.len() > 15, "{}", alerts.len());
    for alert in &alerts {
        let families = query::check(alert["expr"]);
        for text in [alert["summary"], alert["description"]] {
            for part in text.split("$labels.").skip(1) {
                let label = part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
                let label = label.unwrap();
                let is_known = families.iter().any(|family| family.labels.contains(label));
                assert!(is_known || label == "instance", "{}: {label}", alert["alert"]);
            }
        }
    }
}

#[test]
fn each_alert_has_test_of_promtool() {
    const TESTS: &str = include_str!("../../../../../tests/watching/alerts.yml");
    for alert in alerts() {
        let label = format!("alertname=\"{}\"", alert["alert"]);
        assert!(TESTS.contains(&label), "{label}");
        for (metric, _) in query::read(alert["expr"]).metrics {
            assert!(TESTS.contains(&format!("series: '{metric}{{")), "{metric}");
        }
    }
}

#[test]
fn alerts_have_delay_severity_and_remedy() {
    for alert in alerts() {
        let name = alert["alert"];
        assert!(name.starts_with("Sluicegate"), "{name}");
        assert!(alert.contains_key("for"), "{name} has no `for`");
        let severity = alert["severity"];
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        let names_command = ["`sluice ", "`journalctl ", "`systemctl ", "`df "]
            .iter()
            .any(|command| alert["description"].contains(command));
        assert!(names_command, "{name} names no command: {}", alert["description"]);
    }
}
