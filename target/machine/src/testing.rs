//! Folder trees in place of a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::finding::{Finding, Verdict};
use crate::ring::Trial;
use crate::view::View;

/// The files of a machine.
pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    /// Makes a tree of these paths and texts.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        files.iter().fold(tree, |tree, (path, text)| tree.with(path, text))
    }

    /// Makes the tree of a machine without faults, with a file for each fact.
    pub(crate) fn whole() -> Self {
        let lines = include_str!("testing/machine.txt").lines();
        let files = lines.filter_map(|line| line.split_once(": "));
        let tree = Self::new(&[]);
        files.fold(tree, |tree, (path, text)| tree.with(path, &text.replace("\\n", "\n")))
    }

    /// Writes a file.
    pub(crate) fn with(self, path: &str, text: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Dates the last change of a file back.
    pub(crate) fn aged(self, path: &str, by: Duration) -> Self {
        let file = fs::File::options().append(true).open(self.0.path().join(path)).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
        self
    }

    /// Makes a folder where a file is expected.
    pub(crate) fn make_folder(&self, path: &str) {
        fs::create_dir_all(self.0.path().join(path)).unwrap();
    }

    /// Lists the paths of the files.
    pub(crate) fn paths(&self) -> Vec<String> {
        let (mut folders, mut files) = (vec![self.0.path().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let (below, here): (Vec<PathBuf>, Vec<PathBuf>) =
                entries.partition(|path| path.is_dir());
            folders.extend(below);
            files.extend(here);
        }
        let short = |path: &Path| path.strip_prefix(self.0.path()).unwrap().display().to_string();
        files.iter().map(|path| short(path)).collect()
    }

    /// Returns the view of the tree with a usable io_uring.
    pub(crate) fn view(&self) -> View {
        self.view_with(Some(Trial::Usable { passthrough: true }))
    }

    /// Returns the view of the tree.
    pub(crate) fn view_with(&self, ring: Option<Trial>) -> View {
        View::new(self.0.path(), ring)
    }
}

/// Checks that there is a finding with a verdict about a subject, with these words in its fact and its remedy. A
/// finding without a remedy has the empty one.
#[track_caller]
pub(crate) fn assert_finding(
    findings: &[Finding],
    verdict: Verdict,
    subject: &str,
    found: &str,
    remedy: &str,
) {
    let matches = |one: &&Finding| {
        let said = one.remedy.as_deref().unwrap_or_default();
        let has_remedy = if remedy.is_empty() { said.is_empty() } else { said.contains(remedy) };
        one.verdict == verdict && one.subject == subject && one.found.contains(found) && has_remedy
    };
    assert!(
        findings.iter().any(|one| matches(&one)),
        "no {verdict:?} {subject}: {found}: {remedy}: in {findings:#?}"
    );
}
