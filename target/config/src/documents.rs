//! The configurations in the documents for operators are valid.

use std::fs;
use std::path::{Path, PathBuf};

use crate::testing::parse;

/// A subsystem for examples that have none of their own.
fn subsystem(nqn: &str) -> String {
    let disk = "[[subsystem.namespace]]\nbackend = \"null\"\nsize = \"1 GiB\"\n";
    format!("[[subsystem]]\nnqn = \"{nqn}\"\n{disk}{disk}")
}

/// Completes an example: namespaces get a subsystem, and examples without subsystems get the usual ones.
fn complete(example: &str) -> String {
    if example.contains("[[subsystem]]") {
        return example.to_owned();
    }
    if let Some(at) = example.find("[[subsystem.namespace]]") {
        let (before, from) = example.split_at(at);
        return format!("{before}[[subsystem]]\nnqn = \"nqn.2026-01.io.example:disks\"\n{from}");
    }
    let [one, other] =
        ["nqn.2026-01.com.example:disk1", "nqn.2026-01.io.example:disks"].map(subsystem);
    format!("{example}\n{one}{other}")
}

#[test]
fn examples_in_documents_are_configurations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs/use")).unwrap().map(|entry| entry.unwrap().path());
    // Scenarios of `sluice sim` are other files.
    let pages = pages.filter(|path| !path.ends_with("sim.md"));
    let (mut count, mut wrong) = (0, Vec::new());
    for path in pages.chain([root.join("README.md")]).collect::<Vec<PathBuf>>() {
        let text = fs::read_to_string(&path).unwrap();
        let fenced = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        for example in fenced {
            count += 1;
            if let Err(errors) = parse(&complete(example)) {
                wrong.push(format!("{}:\n{example}\n{errors}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 15, "{count} examples");
}
