//! Namespaces and their states as people read them.

use serde_json::Value;

use super::table::Align::{Left, Right};
use super::table::{Room, Table, size};
use super::view::{field, is, list as below, names, number, or_dash, rows};

/// The namespaces, and below them what is wrong with those that are not ready.
pub(super) fn list(result: &Value, room: Room) -> String {
    let mut table = Table::new(&[
        ("SUBSYSTEM", Left),
        ("NSID", Right),
        ("BACKEND", Left),
        ("PATH", Left),
        ("SIZE", Right),
        ("BLOCK", Right),
        ("MODE", Left),
        ("UUID", Left),
        ("HOSTS", Left),
        ("ERRORS", Right),
        ("STATE", Left),
    ])
    .least(&["UUID", "BLOCK", "HOSTS", "BACKEND", "MODE"]);
    for row in rows(result) {
        table.row(vec![
            field(row, "subsystem"),
            field(row, "nsid"),
            or_dash(row, "backend"),
            or_dash(row, "path"),
            match number(row, "size") {
                0 => "-".into(),
                bytes => size(bytes),
            },
            match number(row, "block_size") {
                0 => "-".into(),
                bytes => bytes.to_string(),
            },
            if is(row, "read_only") { "ro" } else { "rw" }.into(),
            field(row, "uuid"),
            names(row, "hosts", "all"),
            or_dash(row, "errors"),
            state(row),
        ]);
    }
    let mut text = table.text("There are no namespaces.", room);
    let reasons: Vec<String> = rows(result).iter().filter_map(reason).collect();
    if !reasons.is_empty() {
        text += &format!("\n{}\n", reasons.join("\n"));
    }
    text
}

/// What came of another try at namespaces that were not available.
pub(super) fn retried(result: &Value, room: Room) -> String {
    let rows = if result.is_array() { rows(result) } else { below(result, "namespaces") };
    match rows {
        [] => "Every namespace is available.\n".into(),
        rows => list(&Value::Array(rows.to_vec()), room),
    }
}

/// The state's name. A daemon that names none knows no other.
fn state(row: &Value) -> String {
    Some(field(row, "state")).filter(|name| !name.is_empty()).unwrap_or_else(|| "ready".into())
}

/// "NQN/NSID is unavailable: why".
fn reason(row: &Value) -> Option<String> {
    let reason = Some(field(row, "reason")).filter(|text| !text.is_empty())?;
    let (nqn, nsid) = (field(row, "subsystem"), field(row, "nsid"));
    Some(match state(row).as_str() {
        "errors" => format!("{nqn}/{nsid} has errors: {reason}"),
        state => format!("{nqn}/{nsid} is {state}: {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn states_are_a_column_and_reasons_stand_below() {
        let answer = json!([
            row(1, &json!({"state": "ready", "reason": null, "errors": 0})),
            row(2, &json!({"state": "errors", "reason": "EIO since 12:00", "errors": 7})),
            row(
                3,
                &json!({"state": "unavailable", "reason": "no such file", "size": 0,
                           "block_size": 0, "backend": null})
            ),
        ]);
        let seen = lines(&list(&answer, None));
        assert_eq!(seen[1], "nqn.2026-01.io.x:a 1 file /d 1 GiB 4096 ro u all 0 ready");
        assert_eq!(seen[2], "nqn.2026-01.io.x:a 2 file /d 1 GiB 4096 ro u all 7 errors");
        assert_eq!(seen[3], "nqn.2026-01.io.x:a 3 - /d - - ro u all - unavailable");
        assert_eq!(
            seen[4..],
            [
                "",
                "nqn.2026-01.io.x:a/2 has errors: EIO since 12:00",
                "nqn.2026-01.io.x:a/3 is unavailable: no such file",
            ]
        );
        assert_eq!(lines(&retried(&answer, None)), seen);
        assert_eq!(lines(&retried(&json!({ "namespaces": answer }), None)), seen);
    }

    #[test]
    fn a_daemon_without_states_has_ready_namespaces() {
        let seen = lines(&list(&json!([row(1, &json!({}))]), None));
        assert!(seen.len() == 2 && seen[1].ends_with("- ready"), "{seen:?}");
        assert!(retried(&json!({}), None).contains("available"));
    }
}
