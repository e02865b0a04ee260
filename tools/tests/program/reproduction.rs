//! docs/reproduction.md is what `sluice sim repro all` prints, and every number of it holds or differs
//! as it is declared.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The cells of a document's table rows, by the heading above them.
fn rows(document: &str) -> Vec<(String, Vec<String>)> {
    let mut heading = String::new();
    let mut rows = Vec::new();
    for line in document.lines() {
        if let Some(of) = line.strip_prefix("## ") {
            of.clone_into(&mut heading);
        }
        if let Some(cells) = line.strip_prefix("| ") {
            let cells = cells.trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned());
            rows.push((heading.clone(), cells.collect()));
        }
    }
    rows
}

/// Returns a document without what depends on the length of runs: numbers of ours, tolerances and
/// verdicts, the command, and the reasons of what differs.
fn form(document: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let names = rows(document).into_iter().map(|(heading, mut cells)| {
        cells.truncate(2);
        (heading, cells)
    });
    let other = document.lines().filter(|line| {
        !line.starts_with('|') && !line.starts_with("    ") && !line.starts_with("\\[")
    });
    (names.collect(), other.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[test]
fn every_figure_holds_or_differs_as_declared_and_the_document_is_what_the_tool_prints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reproduction.md");
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["sim", "repro", "all", "--quick", "--write"])
        .arg(&path)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed = fs::read_to_string(&path).unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reproduction.md");
    let kept = fs::read_to_string(kept).unwrap();
    let again = "run `sluice sim repro all --write docs/reproduction.md` again";
    let ((printed_rows, printed_text), (kept_rows, kept_text)) = (form(&printed), form(&kept));
    for (printed, kept) in printed_rows.iter().zip(&kept_rows) {
        assert_eq!(printed, kept, "{again}");
    }
    assert_eq!(printed_rows.len(), kept_rows.len(), "{again}");
    assert_eq!(printed_text, kept_text, "{again}");
    assert!(!kept.contains("| OFF |"), "a number neither holds nor differs as declared");
    assert!(
        kept.contains("\n    sluice sim repro all --write docs/reproduction.md\n"),
        "full length"
    );
}
