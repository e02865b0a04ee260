//! docs/research/reproduction.md is what `reproduce report all` prints, and every number of it holds or differs
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

/// Returns the parts of a document that do not depend on the length of runs, without the other
/// figures' rows and sections: numbers of ours, tolerances, verdicts, the command, and the reasons of
/// what differs are left out.
fn form(document: &str, figures: &[&str]) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let is_of_others = |line: &str| {
        let all = line.strip_prefix("| [").and_then(|row| row.split_once(']'));
        all.is_some_and(|(figure, _)| !figures.contains(&figure))
    };
    let mut shown = true;
    let mut kept = String::new();
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            shown = !heading.contains('-') || figures.contains(&heading);
        }
        if shown && !is_of_others(line) {
            kept += line;
            kept.push('\n');
        }
    }
    let names = rows(&kept).into_iter().map(|(heading, mut cells)| {
        cells.truncate(2);
        (heading, cells)
    });
    let other = kept.lines().filter(|line| {
        !line.starts_with('|') && !line.starts_with("    ") && !line.starts_with("\\[")
    });
    (names.collect(), other.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The figures that `make test` makes: one of a network, one of a disk, one of Haechi. `make test-long` makes the others.
const SHORT: [&str; 3] = ["e2e-7", "fahrrad-3", "haechi-10"];

fn read_document() -> anyhow::Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/research/reproduction.md");
    Ok(fs::read_to_string(path)?)
}

/// Returns the names of the figures in a document.
fn figures_of(document: &str) -> impl Iterator<Item = &str> {
    document.lines().filter_map(|line| Some(line.strip_prefix("| [")?.split_once(']')?.0))
}

/// Makes the figures that are wanted, and compares them with the document.
fn check(is_wanted: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let kept = read_document()?;
    let figures: Vec<&str> = figures_of(&kept).filter(|name| is_wanted(name)).collect();
    assert!(figures.len() >= SHORT.len());
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("reproduction.md");
    let output = Command::new(env!("CARGO_BIN_EXE_reproduce"))
        .args(["report", &figures.join(","), "--quick", "--write"])
        .arg(&path)
        .arg("--plot")
        .arg(folder.path())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for figure in figures.iter().filter(|name| name.starts_with("haechi")) {
        let plots = ["", "a"].map(|part| folder.path().join(format!("{figure}{part}.svg")));
        assert!(plots.iter().any(|plot| plot.exists()), "{figure} has no plot");
    }
    let printed = fs::read_to_string(&path)?;
    let again = "run `reproduce report all --write docs/research/reproduction.md` again";
    let ((printed_rows, printed_text), (kept_rows, kept_text)) =
        (form(&printed, &figures), form(&kept, &figures));
    for (printed, kept) in printed_rows.iter().zip(&kept_rows) {
        assert_eq!(printed, kept, "{again}");
    }
    assert_eq!(printed_rows.len(), kept_rows.len(), "{again}");
    assert_eq!(printed_text, kept_text, "{again}");
    assert!(!kept.contains("| OFF |"), "a number neither holds nor differs as declared");
    let command = "\n    reproduce report all --write docs/research/reproduction.md\n";
    assert!(kept.contains(command), "full length");
    Ok(())
}

#[test]
fn short_figures_hold_or_differ_as_declared_and_the_document_is_current() -> anyhow::Result<()> {
    check(|figure| SHORT.contains(&figure))
}

#[test]
#[ignore = "make test-long: takes eight minutes of CPU"]
fn long_figures_hold_or_differ_as_declared_and_the_document_is_current() -> anyhow::Result<()> {
    check(|figure| !SHORT.contains(&figure))
}

#[test]
fn the_document_has_every_figure_of_the_program() -> anyhow::Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_reproduce")).output()?;
    let listed = String::from_utf8(output.stdout)?;
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let listed: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, figures_of(&read_document()?).collect::<Vec<_>>());
    Ok(())
}
