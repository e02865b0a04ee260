//! The tables of the documentation are made of the schema.
//!
//! `SLUICE_REWRITE=1 cargo test -p sluice-config --test docs` writes them into the documents.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use sluice_config::{ConfigKey, Method, keys};

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)
}

/// Writes a key's row of docs/reference/configuration.md.
fn row(key: &ConfigKey) -> String {
    let cells = [
        format!("`{}`", key.name),
        key.values.words() + key.and,
        key.default.to_owned(),
        key.meaning.to_owned(),
    ];
    let cells = cells.map(|cell| if cell.is_empty() { " ".into() } else { format!(" {cell} ") });
    format!("|{}|", cells.join("|"))
}

/// Compares the first table with this heading behind `title` with the schema; or writes it.
fn compare(name: &str, title: &str, heading: &str, rows: &[String]) {
    let path = document(name);
    let text = fs::read_to_string(&path).expect("the document can be read");
    let section = text.find(title).unwrap_or_else(|| panic!("{name} has no {title:?}"));
    let start = text[section..].find(heading).map(|start| section + start);
    let start = start.unwrap_or_else(|| panic!("{name}: {title} has no table {heading:?}"));
    let length = text[start..].find("\n\n").unwrap_or(text.len() - start);
    let table = format!("{heading}\n{}", rows.join("\n"));
    let there = &text[start..start + length];
    if there == table {
        return;
    }
    if std::env::var_os("SLUICE_REWRITE").is_some() {
        let written = format!("{}{table}{}", &text[..start], &text[start + length..]);
        fs::write(&path, written).expect("the document can be written");
        return;
    }
    for (there, row) in there.lines().skip(heading.lines().count()).zip(rows) {
        assert_eq!(there, row, "docs/reference/{name}: SLUICE_REWRITE=1 writes it");
    }
    panic!(
        "docs/reference/{name} lacks a row or has one too many; SLUICE_REWRITE=1 writes them\n{table}"
    );
}

#[test]
fn the_table_of_methods_is_the_schemas() {
    let row = |method: &Method| {
        let takes = format!(" {} ", method.takes()).replace("  ", " ");
        format!("| `{}` |{takes}| {} |", method.name(), method.gives())
    };
    let rows: Vec<String> = Method::ALL.iter().map(row).collect();
    compare(
        "control.md",
        "## The protocol",
        "| method | parameters | result |\n|---|---|---|",
        &rows,
    );
}

#[test]
fn the_tables_of_keys_are_the_schemas() {
    for (title, table) in keys::tables() {
        let rows: Vec<String> = table.iter().map(row).collect();
        let heading = "| key | values | default | meaning |\n|---|---|---|---|";
        compare("configuration.md", title, heading, &rows);
    }
}
