//! Namespaces and their states as people read them.

use sluice_config::answer::{Availability, Namespace, NamespaceRow};

use super::cells::{names, or_dash};
use super::table::Align::{Left, Right};
use super::table::{Column, Room, Table, size};

/// Writes the namespaces, and below them the reason for each that is not ready.
pub(super) fn list(namespaces: &[NamespaceRow], room: Room) -> String {
    let columns: [Column<NamespaceRow>; 11] = [
        ("SUBSYSTEM", Left, |row| row.subsystem.clone()),
        ("NSID", Right, |row| row.namespace.nsid.to_string()),
        ("BACKEND", Left, |row| backend(&row.namespace)),
        ("PATH", Left, |row| or_dash(row.namespace.path.as_ref())),
        ("SIZE", Right, |row| {
            or_dash(Some(row.namespace.size).filter(|bytes| *bytes > 0).map(size))
        }),
        ("BLOCK", Right, |row| or_dash(Some(row.namespace.block_size).filter(|bytes| *bytes > 0))),
        ("MODE", Left, |row| if row.namespace.read_only { "ro" } else { "rw" }.into()),
        ("UUID", Left, |row| row.namespace.uuid.clone()),
        ("HOSTS", Left, |row| names(row.namespace.hosts.as_deref(), "all")),
        ("ERRORS", Right, |row| row.namespace.errors.to_string()),
        ("STATE", Left, |row| row.namespace.state.name().into()),
    ];
    let table = Table::from_rows(namespaces, &columns)
        .live(namespaces.iter().map(|row| row.live))
        .least(&["UUID", "BLOCK", "HOSTS", "BACKEND", "MODE", "ERRORS"]);
    let mut text = table.text("There are no namespaces.", room);
    let reasons: Vec<String> = namespaces.iter().filter_map(reason).collect();
    if !reasons.is_empty() {
        text += &format!("\n{}\n", reasons.join("\n"));
    }
    text
}

/// Writes the result of another try to open namespaces that were not available.
pub(super) fn retried(tried: &[NamespaceRow], room: Room) -> String {
    match tried {
        [] => "Every namespace is available.\n".into(),
        tried => list(tried, room),
    }
}

/// Returns text such as "pmem (DAX file)".
fn backend(namespace: &Namespace) -> String {
    let Namespace { backend, region, .. } = namespace;
    match region {
        Some(region) => format!("{backend} ({region})"),
        None => or_dash(Some(backend)),
    }
}

/// Returns text such as "NQN/NSID is unavailable: why".
fn reason(row: &NamespaceRow) -> Option<String> {
    let NamespaceRow { subsystem, namespace, .. } = row;
    let reason = namespace.reason.as_ref().filter(|text| !text.is_empty())?;
    let (nsid, state) = (namespace.nsid, namespace.state);
    Some(match state {
        Availability::Errors => format!("{subsystem}/{nsid} has errors: {reason}"),
        _ => format!("{subsystem}/{nsid} is {}: {reason}", state.name()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::shown::lines;
    use super::*;

    fn row(nsid: u32, more: &Value) -> Value {
        let mut row = json!({
            "subsystem": "nqn.2026-01.io.x:a", "nsid": nsid, "backend": "file", "path": "/d",
            "size": 1u64 << 30, "block_size": 4096, "uuid": "u", "nguid": "n", "read_only": true,
            "hosts": null,
        });
        let fields = row.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        row
    }

    fn rows(answer: Value) -> Vec<NamespaceRow> {
        serde_json::from_value(answer).unwrap()
    }

    #[test]
    fn states_are_a_column_and_reasons_stand_below() {
        let absent = json!({"state": "unavailable", "reason": "no such file", "size": 0,
                            "block_size": 0, "backend": ""});
        let answer = rows(json!([
            row(1, &json!({"state": "ready", "reason": null, "errors": 0})),
            row(2, &json!({"state": "errors", "reason": "EIO since 12:00", "errors": 7})),
            row(3, &absent),
        ]));
        let seen = lines(&list(&answer, Room::Unlimited));
        assert_eq!(seen[1], "nqn.2026-01.io.x:a 1 file /d 1 GiB 4096 ro u all 0 ready");
        assert_eq!(seen[2], "nqn.2026-01.io.x:a 2 file /d 1 GiB 4096 ro u all 7 errors");
        assert_eq!(seen[3], "nqn.2026-01.io.x:a 3 - /d - - ro u all 0 unavailable");
        assert_eq!(seen[5], "nqn.2026-01.io.x:a/2 has errors: EIO since 12:00");
        assert_eq!(seen[6], "nqn.2026-01.io.x:a/3 is unavailable: no such file");
        assert_eq!(lines(&retried(&answer, Room::Unlimited)), seen);
    }

    #[test]
    fn a_daemon_without_states_has_ready_namespaces() {
        let seen = lines(&list(&rows(json!([row(1, &json!({}))])), Room::Unlimited));
        assert!(seen.len() == 2 && seen[1].ends_with("0 ready"), "{seen:?}");
        assert!(retried(&[], Room::Unlimited).contains("available"));
    }
}
