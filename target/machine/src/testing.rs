//! Folder trees in place of a machine.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::finding::{Finding, Verdict};
use crate::ring::Trial;
use crate::view::{Unreadable, View};

/// The files of a machine, and the result of setting up an io_uring there.
pub(crate) struct Tree {
    folder: tempfile::TempDir,
    ring: Option<Trial>,
}

impl Tree {
    /// Makes a tree of these paths and texts, with a usable io_uring.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let ring = Some(Trial::Usable { passthrough: true });
        let tree = Self { folder: tempfile::tempdir().unwrap(), ring };
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
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Sets the result of setting up an io_uring.
    pub(crate) fn with_ring(self, ring: Option<Trial>) -> Self {
        Self { ring, ..self }
    }

    /// Dates the last change of a file back.
    pub(crate) fn aged(self, path: &str, by: Duration) -> Self {
        let file = fs::File::options().append(true).open(self.folder.path().join(path)).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
        self
    }

    /// Makes a folder where a file is expected.
    pub(crate) fn make_folder(&self, path: &str) {
        fs::create_dir_all(self.folder.path().join(path)).unwrap();
    }

    /// Lists the paths of the files.
    pub(crate) fn paths(&self) -> Vec<String> {
        let (mut folders, mut files) = (vec![self.folder.path().to_owned()], Vec::new());
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let (below, here): (Vec<PathBuf>, Vec<PathBuf>) =
                entries.partition(|path| path.is_dir());
            folders.extend(below);
            files.extend(here);
        }
        let root = self.folder.path();
        let short = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        files.iter().map(short).collect()
    }

    /// Returns the view of the tree.
    pub(crate) fn view(&self) -> View {
        View::new(self.folder.path(), self.ring.clone())
    }

    /// Runs a check.
    #[track_caller]
    pub(crate) fn check(&self, check: fn(&View) -> Result<Vec<Finding>, Unreadable>) -> Findings {
        Findings(check(&self.view()).unwrap())
    }
}

/// The findings of a check.
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    /// Checks that there is a finding with a verdict about a subject, with these words in its fact and its remedy. A
    /// finding without a remedy has the empty one.
    #[track_caller]
    pub(crate) fn has(&self, verdict: Verdict, subject: &str, found: &str, remedy: &str) -> &Self {
        let matches = |one: &Finding| {
            let said = one.remedy.as_deref().unwrap_or_default();
            let has_remedy = said.contains(remedy) && said.is_empty() == remedy.is_empty();
            let is_fact = one.subject == subject && one.found.contains(found);
            one.verdict == verdict && is_fact && has_remedy
        };
        assert!(
            self.0.iter().any(matches),
            "no {verdict:?} {subject}: {found}: {remedy}: in {:#?}",
            self.0
        );
        self
    }
}
