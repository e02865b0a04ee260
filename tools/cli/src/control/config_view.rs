//! Differences from the configuration file as people read them.

use sluice_config::answer::{ConfigDiff, Difference, LiveChange, Reverted};

use super::cells::count;

/// Writes the number of live changes.
pub(super) fn on_top(changes: usize) -> String {
    format!("{} on top of the file: sluice config diff\n", count(changes, "live change"))
}

/// Writes the answer to `config.diff`.
pub(super) fn diff(diff: &ConfigDiff) -> String {
    let mut text = String::new();
    if let Some(why) = &diff.file_changed {
        text += &format!("Note: {why}\n");
    }
    for object in &diff.objects {
        text += &difference(object);
    }
    match diff.objects.is_empty() {
        true => text += "There are no live changes: the daemon runs the file as it read it.\n",
        false => {
            text += "\n- in the file, + runs. Back to the file: sluice config revert [OBJECT]; into the \
                     file: sluice config save\n";
        }
    }
    if !diff.needs_restart.is_empty() {
        text += "Needs a restart to take effect:\n";
    }
    for line in &diff.needs_restart {
        text += &format!("  {line}\n");
    }
    text
}

/// Writes an object with its lines or keys before (-) and after (+).
pub(super) fn difference(difference: &Difference) -> String {
    let Difference { object, change, file, running, keys } = difference;
    let what = match change {
        LiveChange::Added => "added",
        LiveChange::Changed => "changed",
        LiveChange::Removed => "removed",
    };
    let mut text = format!("{object}: {what}\n");
    if keys.is_empty() {
        for (sign, lines) in [('-', file), ('+', running)] {
            let lines = lines.iter().flat_map(|lines| lines.lines());
            for line in lines.filter(|line| !line.is_empty()) {
                text += &format!("  {sign} {line}\n");
            }
        }
    }
    for key in keys {
        for (sign, value) in [('-', &key.file), ('+', &key.running)] {
            if let Some(value) = value {
                text += &format!("  {sign} {} = {value}\n", key.key);
            }
        }
    }
    text
}

/// Writes the answer to `config.revert`.
pub(super) fn reverted(reverted: &Reverted) -> String {
    if reverted.objects.is_empty() {
        return "There are no live changes.\n".into();
    }
    let mut text = "As in the file again:\n".to_owned();
    for object in &reverted.objects {
        text += &format!("  {object}\n");
    }
    for warning in &reverted.warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(answer: Value) -> String {
        diff(&serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn each_object_is_shown_as_in_the_file_and_as_it_runs() {
        let text = shown(json!({"objects": [
            {"object": "namespace q 3", "change": "removed", "file": "nsid = 3\nsize = \"1 GiB\"\n",
             "running": null, "keys": []},
            {"object": "qos", "change": "changed", "file": "", "running": "",
             "keys": [{"key": "enabled", "file": "false", "running": "true"}]},
        ], "needs_restart": ["[target] queue_depth: 1 now, 2 after a restart"]}));
        let seen = "namespace q 3: removed\n  - nsid = 3\n  - size = \"1 GiB\"\n\
                    qos: changed\n  - enabled = false\n  + enabled = true\n";
        assert!(text.starts_with(seen) && text.contains("sluice config revert"), "{text}");
        assert!(text.ends_with("  [target] queue_depth: 1 now, 2 after a restart\n"), "{text}");
    }

    #[test]
    fn nothing_that_differs_is_said_so() {
        assert!(shown(json!({"objects": []})).starts_with("There are no live changes"));
        assert!(shown(json!({"file_changed": "f has changed"})).starts_with("Note: f has changed"));
        assert_eq!(on_top(2), "2 live changes on top of the file: sluice config diff\n");
        let done = Reverted { objects: vec!["qos".into()], ..Reverted::default() };
        assert_eq!(reverted(&done), "As in the file again:\n  qos\n");
    }
}
