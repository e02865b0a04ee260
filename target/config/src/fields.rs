//! The settings of a table, read one by one. Every wrong, unknown or missing setting is reported.

use std::cell::RefCell;
use std::ops::Range;

use fabric::key_file::mask_keys;

use super::errors::{Problem, did_you_mean};
use super::node::{Entry, Node, Value};

/// The fault of a value, and the remedy.
#[derive(Debug)]
pub struct Wrong {
    /// The end of a sentence that begins with the setting's name.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl Wrong {
    /// Makes a fault of these two.
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// A value and its place in the text.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    pub(crate) span: Range<usize>,
    pub(crate) path: String,
}

impl<T> At<T> {
    /// Returns the place without the value.
    pub fn place(&self) -> At<()> {
        At { value: (), span: self.span.clone(), path: self.path.clone() }
    }
}

/// A list with the entries that could be read.
#[derive(Debug)]
pub struct List<T> {
    /// The entries that are right.
    pub(crate) items: Vec<At<T>>,
    /// Whether all entries are right, so that `items` is the whole list.
    pub(crate) whole: bool,
}

// A derived default would need one of `T`.
impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new(), whole: true }
    }
}

impl<T: Clone> List<T> {
    /// Returns the values without their places.
    pub(crate) fn values(&self) -> Vec<T> {
        self.items.iter().map(|at| at.value.clone()).collect()
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub struct Problems {
    list: RefCell<Vec<Problem>>,
    /// Notices about settings that are valid, but may become invalid.
    notices: RefCell<Vec<Problem>>,
    /// Whether the settings came in a request, so that remedies are not given as TOML.
    request: bool,
}

/// The most problems that are collected: nobody reads more.
const PROBLEMS_MAX: usize = 100;

impl Problems {
    /// Makes the list for a request's parameters: remedies speak of values, not of lines in a file.
    pub(crate) fn of_request() -> Self {
        Self { request: true, ..Self::default() }
    }

    /// Reports a problem.
    pub(crate) fn push(
        &self,
        span: &Range<usize>,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let mut problems = self.list.borrow_mut();
        if problems.len() < PROBLEMS_MAX {
            problems.push(Problem {
                span: span.clone(),
                path: path.into(),
                message: message.into(),
                remedy: remedy.into(),
            });
        }
    }

    /// Reports a value that is valid and has a consequence.
    pub(crate) fn push_warning(&self, at: &At<()>, message: String) {
        self.push_notice(&at.span, at.path.clone(), message);
    }

    /// Reports a former name of a key.
    fn push_notice(&self, span: &Range<usize>, path: String, message: String) {
        let mut notices = self.notices.borrow_mut();
        if notices.len() < PROBLEMS_MAX {
            notices.push(Problem { span: span.clone(), path, message, remedy: String::new() });
        }
    }

    /// Takes the notices, in the order of the text.
    pub(crate) fn take_notices(&self) -> Vec<Problem> {
        let mut notices = self.notices.take();
        notices.sort_by_key(|notice| notice.span.start);
        notices
    }

    /// Reports a problem with one value.
    pub(crate) fn at<T>(&self, at: &At<T>, message: impl Into<String>, remedy: impl Into<String>) {
        self.push(&at.span, &at.path, message, remedy);
    }

    /// Returns all problems, in the order of the text.
    pub(crate) fn into_vec(self) -> Vec<Problem> {
        let mut problems = self.list.into_inner();
        problems.sort_by_key(|problem| problem.span.start);
        problems
    }
}

/// A table whose settings are being taken.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: &'a [Entry],
    title: &'static str,
    path: String,
    span: Range<usize>,
    known: Vec<&'static str>,
    /// The keys that are given by their former names: the name, and the former one.
    renamed: Vec<(&'static str, &'static str)>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// Begins to take the settings of `node`, which is called `title` in messages; `None` (and a
    /// problem) where `node` is no table.
    pub fn of(
        node: &'a Node,
        title: &'static str,
        path: String,
        problems: &'a Problems,
    ) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            let kind = node.value.kind();
            let (message, remedy) = match problems.request {
                true => (format!("{title} is {kind}, not an object"), "write { … }".to_owned()),
                false => (
                    format!("{title} is {kind}, not a table"),
                    format!("write {title} on a line of its own"),
                ),
            };
            problems.push(&node.span, &path, message, remedy);
            return None;
        };
        let (known, renamed, span) = (Vec::new(), Vec::new(), node.span.clone());
        Some(Self { entries, title, path, span, known, renamed, problems })
    }

    /// Accepts a key's former name, with a notice.
    pub fn accept(&mut self, key: &'static str, was: &'static str) {
        let Some(entry) = self.find(was) else { return };
        let path = self.join(was);
        if self.find(key).is_some() {
            let message = format!("`{was}` is the former name of `{key}`, which is given too");
            self.problems.push(&entry.span, &path, message, format!("remove `{was}`"));
        } else {
            let message = format!(
                "`{was}` of {} is called `{key}` now; the former name still works",
                self.title
            );
            self.problems.push_notice(&entry.span, path, message);
        }
        self.renamed.push((key, was));
    }

    /// Takes a setting that may be missing.
    pub fn get<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> Option<At<T>> {
        let entry = self.entry(key)?;
        let path = self.join(key);
        match read(&entry.node) {
            Ok(value) => Some(At { value, span: entry.node.span.clone(), path }),
            Err(wrong) => {
                let message = format!("`{key}` {}", wrong.message);
                self.problems.push(&entry.node.span, &path, message, wrong.remedy);
                None
            }
        }
    }

    /// Returns whether a setting is given, right or wrong.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Takes a setting whose value is this text. Returns false where it has another value, or is not given.
    pub fn take_text(&mut self, key: &'static str, text: &str) -> bool {
        let is_it = |node: &Node| matches!(&node.value, Value::String(value) if value == text);
        let found = self.find(key).is_some_and(|entry| is_it(&entry.node));
        found && self.entry(key).is_some()
    }

    /// Returns whether a setting is given but could not be read. That is already reported; a second problem derived
    /// from its default would mislead.
    pub fn unread<T>(&self, key: &str, read: Option<&T>) -> bool {
        read.is_none() && self.has(key)
    }

    /// Takes a setting's value, or a default.
    pub fn value_or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> T {
        self.get(key, read).map_or(default, |at| at.value)
    }

    /// Takes a setting that must be given; `None` (and a problem) where it is missing or wrong.
    pub fn require<T>(
        &mut self,
        key: &'static str,
        example: &str,
        read: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> Option<At<T>> {
        if self.entry(key).is_none() {
            let (message, remedy) = match self.problems.request {
                true => (format!("there is no `{key}`"), format!("give it: {example}")),
                false => {
                    (format!("{} has no `{key}`", self.title), format!("add {key} = {example}"))
                }
            };
            self.problems.push(&self.span, &self.path, message, remedy);
            return None;
        }
        self.get(key, read)
    }

    /// Takes a list of values; each wrong one is a problem of its own.
    pub fn list<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&Node) -> Result<T, Wrong>,
    ) -> Option<List<T>> {
        let entry = self.entry(key)?;
        let path = self.join(key);
        let Value::Array(items) = &entry.node.value else {
            let message = format!("`{key}` is {}, not a list", entry.node.value.kind());
            let remedy = match self.problems.request {
                true => "write [ … ]".to_owned(),
                false => format!("write {key} = [ … ]"),
            };
            self.problems.push(&entry.node.span, &path, message, remedy);
            return None;
        };
        let mut list = List::default();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match read(item) {
                Ok(value) => list.items.push(At { value, span: item.span.clone(), path }),
                Err(wrong) => {
                    list.whole = false;
                    let message = format!("an entry of `{key}` {}", wrong.message);
                    self.problems.push(&item.span, &path, message, wrong.remedy);
                }
            }
        }
        Some(list)
    }

    /// Takes the tables of `[[key]]`, called `title` in messages.
    pub fn tables(&mut self, key: &'static str, title: &'static str) -> Vec<Self> {
        let Some(entry) = self.entry(key) else { return Vec::new() };
        let path = self.join(key);
        match &entry.node.value {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .filter_map(|(index, item)| {
                    Self::of(item, title, format!("{path}[{index}]"), self.problems)
                })
                .collect(),
            other => {
                let kind = other.kind();
                let (message, remedy) = match self.problems.request {
                    true => (
                        format!("`{key}` is {kind}, not a list of objects"),
                        "write [{ … }]".into(),
                    ),
                    false => (
                        format!("`{key}` is {kind}, not a list of tables"),
                        format!("write {title}"),
                    ),
                };
                self.problems.push(&entry.span, &path, message, remedy);
                Vec::new()
            }
        }
    }

    /// Takes the table `[key]`.
    pub fn table(&mut self, key: &'static str, title: &'static str) -> Option<Self> {
        let entry = self.entry(key)?;
        Self::of(&entry.node, title, self.join(key), self.problems)
    }

    /// Reports a setting that does not belong here, with the reason.
    pub fn refuse(&mut self, key: &'static str, message: &str, remedy: &str) {
        if let Some(entry) = self.entry(key) {
            self.problems.push(&entry.span, &self.join(key), message, remedy);
        }
    }

    /// Notes that settings belong to this table, though nothing takes them now.
    pub fn know(&mut self, keys: &[&'static str]) {
        self.known.extend(keys.iter().filter(|key| !self.known.contains(key)).collect::<Vec<_>>());
    }

    /// Reports the settings that nothing has taken as unknown.
    pub fn finish(self) {
        let is_known = |key: &str| {
            self.known.contains(&key) || self.renamed.iter().any(|(_, was)| *was == key)
        };
        for entry in self.entries.iter().filter(|entry| !is_known(&entry.key)) {
            let message = format!("unknown key `{}` in {}", quoted(&entry.key), self.title);
            let remedy = match did_you_mean(&entry.key, &self.known) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("remove it; known here: {}", self.known.join(", ")),
            };
            self.problems.push(&entry.span, &self.join(&entry.key), message, remedy);
        }
    }

    /// Returns the list of problems.
    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// Returns the table's place.
    pub fn place(&self) -> At<()> {
        At { value: (), span: self.span.clone(), path: self.path.clone() }
    }

    fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.find(key)
    }

    /// Finds a key's entry, by its former name where that one is given.
    fn find(&self, key: &str) -> Option<&'a Entry> {
        let entries: &'a [Entry] = self.entries;
        let by = |name: &str| entries.iter().find(|entry| entry.key == name);
        let former = || self.renamed.iter().find(|(name, _)| *name == key).map(|(_, was)| *was);
        by(key).or_else(|| by(former()?))
    }

    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }
}

/// The longest quotation of another program's or a user's text in a message, in characters.
const QUOTE_MAX: usize = 80;

/// Returns a user's text as a message quotes it: short, without control characters and keys.
pub fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for c in mask_keys(text).chars().take(QUOTE_MAX) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if text.chars().count() > QUOTE_MAX { format!("{shown}…") } else { shown }
}
