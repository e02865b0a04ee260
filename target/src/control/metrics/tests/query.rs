//! The metrics and labels that PromQL queries name.

use std::collections::BTreeSet;

use super::table::{Family, by_series};

/// Labels that Prometheus adds to all series of a target.
const OF_TARGET: [&str; 2] = ["instance", "job"];
/// The words before a list of labels in parentheses.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// A query's metrics with the labels that its matchers name, and the labels of its lists (`by`, `on`, …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) metrics: Vec<(String, Vec<String>)>,
    pub(super) labels: Vec<String>,
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Reads the names in a query.
pub(super) fn read(query: &str) -> Named {
    let mut named = Named::default();
    let mut rest = query;
    while let Some(start) = rest.find(is_of_name) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        rest = &rest[end..];
        let behind = rest.trim_start();
        if BEFORE_LABELS.contains(&word) && behind.starts_with('(') {
            let (list, after) = behind[1..].split_once(')').unwrap();
            named.labels.extend(list.split(',').map(|label| label.trim().to_owned()));
            rest = after;
        } else if word.starts_with("sluicegate_") || word == "up" {
            let mut labels = Vec::new();
            if let Some(inside) = rest.strip_prefix('{') {
                let (matchers, after) = inside.split_once('}').unwrap();
                let names = matchers.split("\",").map(|matcher| matcher.trim());
                labels.extend(names.map(|m| m.split(['=', '!']).next().unwrap().to_owned()));
                rest = after;
            }
            named.metrics.push((word.to_owned(), labels));
        }
    }
    named
}

/// Checks that a query names metrics and labels that exist. Returns the families.
pub(super) fn check(query: &str) -> Vec<Family> {
    let known = by_series();
    let named = read(query);
    assert!(!named.metrics.is_empty(), "no metric: {query}");
    let mut families = Vec::new();
    let mut labels: BTreeSet<&str> = OF_TARGET.into();
    labels.insert("le");
    for (metric, matched) in &named.metrics {
        let of_metric = match known.get(metric) {
            Some(family) => {
                labels.extend(&family.labels);
                families.push(family.clone());
                family.labels.clone()
            }
            None if metric == "up" => BTreeSet::new(),
            None => panic!("there is no metric {metric}: {query}"),
        };
        for label in matched {
            let is_known =
                of_metric.contains(label.as_str()) || OF_TARGET.contains(&label.as_str());
            assert!(is_known, "{metric} has no label {label}: {query}");
        }
    }
    for label in &named.labels {
        assert!(labels.contains(label.as_str()), "no label {label}: {query}");
    }
    families
}

#[test]
fn names_in_queries_are_found() {
    let query = "topk(5, sum by (host, le) (rate(sluicegate_a_total{nsid=\"1\",x!~\"y\"}[5m]))) \
                 / on (session) group_left (x) (sluicegate_b > 0)";
    let named = read(query);
    let metric = |name: &str, labels: &[&str]| {
        (name.to_owned(), labels.iter().map(|label| (*label).to_owned()).collect())
    };
    let metrics = vec![metric("sluicegate_a_total", &["nsid", "x"]), metric("sluicegate_b", &[])];
    assert_eq!(named.metrics, metrics);
    assert_eq!(named.labels, ["host", "le", "session", "x"]);
}

#[test]
fn unknown_names_are_refused() {
    let refuses = |query: &str| std::panic::catch_unwind(|| check(query)).is_err();
    assert!(!refuses("rate(sluicegate_namespace_errors_total{nsid=\"1\"}[5m])"));
    for query in [
        "sluicegate_nothing",
        "sluicegate_namespace_errors",
        "sluicegate_namespace_errors_total{core=\"1\"}",
        "sum by (core) (sluicegate_namespace_errors_total)",
        "vector(0)",
    ] {
        assert!(refuses(query), "{query}");
    }
}
