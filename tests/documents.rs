//! The documents speak of tests, commands, files, metrics and crates that exist, and their links
//! lead somewhere.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use e2e::root;

/// The folders of the root whose paths the documents write out.
const FOLDERS: &[&str] =
    &["arbitration", "docs", "fabric", "pmem", "qtcp", "systemd", "target", "tests", "tools"];

/// The books that `make install` copies.
const INSTALLED: &[&str] = &["docs/use", "docs/reference"];

/// The names that the documents may use.
struct Known {
    /// The paths of all files in [`FOLDERS`], from the root.
    files: Vec<String>,
    /// The words of the source code.
    words: BTreeSet<String>,
    /// The targets of the Makefile.
    commands: BTreeSet<String>,
    /// The metric families, as docs/reference/metrics.md has them.
    metrics: BTreeSet<String>,
    /// The names of the workspace's crates.
    crates: BTreeSet<String>,
}

impl Known {
    fn read() -> Self {
        let below = |name: &&str| {
            let files = e2e::files(&root().join(name)).expect("a folder can be read");
            files.into_iter().map(|file| format!("{name}/{}", file.display())).collect::<Vec<_>>()
        };
        let files: Vec<String> = FOLDERS.iter().flat_map(below).collect();
        let mut words = BTreeSet::new();
        for file in files.iter().filter(|file| ends(file, "rs")) {
            words.extend(words_of(&read(file)).map(str::to_owned));
        }
        let makefile = read("Makefile");
        let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY:"));
        let commands = phony.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let metrics = spans(&read("docs/reference/metrics.md"));
        let metrics = metrics.into_iter().filter(|span| span.starts_with("sluicegate_")).collect();
        let metadata = super::metadata();
        let packages = metadata["packages"].as_array().expect("packages");
        let names = packages.iter().map(|package| package["name"].as_str().expect("a name"));
        Self { files, words, commands, metrics, crates: names.map(str::to_owned).collect() }
    }

    /// Returns the false statements of a document at `path`.
    fn mistakes(&self, path: &str, text: &str) -> Vec<String> {
        let mut wrong: Vec<String> = Vec::new();
        for span in spans(text) {
            if self.lacks_name(&span) || self.lacks_file(&span) || self.lacks_metric(&span) {
                wrong.push(span);
            }
        }
        for (before, what, known) in
            [("make ", "make", &self.commands), (" -p ", "-p", &self.crates)]
        {
            let names = commands(text, before);
            let unknown = names.into_iter().filter(|name| !known.contains(name.as_str()));
            wrong.extend(unknown.map(|name| format!("{what} {name}")));
        }
        let folder = Path::new(path).parent().expect("a folder");
        wrong.extend(links(text).into_iter().filter(|link| !leads_somewhere(folder, path, link)));
        wrong.into_iter().map(|what| format!("{path}: {what}")).collect()
    }

    /// Returns whether a span is the name of a test, or `file::its_beginning_…`, that does not exist.
    fn lacks_name(&self, span: &str) -> bool {
        let name = span.rsplit("::").next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let (beginning, cut) = name.strip_suffix('…').map_or((name, false), |name| (name, true));
        if !beginning.chars().all(plain) || beginning.starts_with("sluicegate_") {
            return false;
        }
        if cut {
            return !self.words.iter().any(|word| word.starts_with(beginning));
        }
        beginning.matches('_').count() >= 3 && !self.words.contains(beginning)
    }

    /// Returns whether a span is the path of a file or folder that does not exist: a path from the root, or the end of
    /// a Rust file's path.
    fn lacks_file(&self, span: &str) -> bool {
        let top = span.split('/').next().unwrap_or_default();
        let whole = span.contains('/') && FOLDERS.contains(&top);
        let placeholder = span.chars().any(|c| c.is_uppercase() || c.is_whitespace() || c == '…');
        if placeholder || !(whole || ends(span, "rs")) {
            return false;
        }
        alternatives(span).iter().any(|path| {
            let path = path.trim_end_matches('/');
            let (start, end) = path.split_once('*').unwrap_or((path, ""));
            !self.files.iter().any(|file| match (whole, start == path) {
                (true, true) => file
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
                (true, false) => file.starts_with(start) && file.ends_with(end),
                (false, _) => file.ends_with(&format!("/{path}")),
            })
        })
    }

    /// Returns whether a span is a metric, or the beginning of some, that docs/reference/metrics.md lacks.
    fn lacks_metric(&self, span: &str) -> bool {
        if !span.starts_with("sluicegate_") {
            return false;
        }
        let series = ["_total", "_bucket", "_sum", "_count", "_info"];
        let family = series.iter().find_map(|end| span.strip_suffix(end)).unwrap_or(span);
        let begins = |metric: &String| span.ends_with('_') && metric.starts_with(span);
        !self.metrics.iter().any(|metric| metric == family || metric == span || begins(metric))
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn ends(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Returns the texts between back-quotes, outside blocks of code.
fn spans(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && !line.starts_with("    ") && !line.trim_start().starts_with("```") {
            prose.push_str(line);
        }
        prose.push('\n');
    }
    prose.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect()
}

/// Returns the word behind each `before` that begins a span of code or stands in a block of code.
fn commands(text: &str, before: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut code = spans(text);
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced || line.starts_with("    ") {
            code.push(line.trim_start().to_owned());
        }
    }
    let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let word = |rest: &str| rest.split(|c: char| !name(c)).next().unwrap_or_default().to_owned();
    let found = code.iter().flat_map(|code| match before.starts_with(' ') {
        true if code.starts_with("cargo ") => code.split(before).skip(1).map(word).collect(),
        true => Vec::new(),
        false => code.strip_prefix(before).map(word).into_iter().collect(),
    });
    found.filter(|name| !name.is_empty()).collect()
}

/// Returns the paths that a path with `{one,another}` in it stands for.
fn alternatives(path: &str) -> Vec<String> {
    let inner = path.split_once('{').and_then(|(start, rest)| {
        let (choices, end) = rest.split_once('}')?;
        Some((start, choices, end))
    });
    let Some((start, choices, end)) = inner else { return vec![path.to_owned()] };
    let each = choices.split(',').map(|choice| format!("{start}{choice}{end}"));
    each.flat_map(|path| alternatives(&path)).collect()
}

/// Returns the paths that the links of a document lead to, without addresses of the web.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

fn leads_somewhere(folder: &Path, from: &str, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() { PathBuf::from(from) } else { folder.join(file) };
    let Ok(text) = fs::read_to_string(root().join(path)) else { return false };
    let anchor = |title: &str| {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        title.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    let titles = text.lines().filter(|line| line.starts_with('#'));
    heading.is_empty() || titles.map(|t| anchor(t.trim_start_matches('#'))).any(|t| t == heading)
}

/// Compares an index of decisions with the records, by file name. Returns the differences.
fn index_mistakes(index: &str, records: &BTreeMap<String, String>) -> Vec<String> {
    let mut rows: Vec<&str> = index.lines().filter(|line| line.starts_with("| [")).collect();
    let mut numbers = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, text) in records {
        let number = name.split('-').next().unwrap_or_default();
        if number.len() != 4 || !number.chars().all(|c| c.is_ascii_digit()) {
            wrong.push(format!("{name}: the name does not begin with a number of four digits"));
        }
        if !numbers.insert(number) {
            wrong.push(format!("{name}: another record has number {number}"));
        }
        let heading = text.lines().next().unwrap_or_default();
        let title = heading.strip_prefix(&format!("# {number}: ")).unwrap_or_default();
        let row = format!("| [{number}]({name}) | {title} |");
        match rows.iter().position(|found| *found == row) {
            Some(place) => drop(rows.remove(place)),
            None => wrong.push(format!("{name}: the index lacks the row {row}")),
        }
    }
    wrong
        .extend(rows.into_iter().map(|row| format!("no record has the number and title of {row}")));
    wrong
}

#[test]
fn decisions_are_listed_with_their_titles() {
    let entries =
        fs::read_dir(root().join("docs/internals/decisions")).expect("a folder can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let records: BTreeMap<String, String> = names
        .filter(|name| name != "README.md")
        .map(|name| (name.clone(), read(&format!("docs/internals/decisions/{name}"))))
        .collect();
    let wrong = index_mistakes(&read("docs/internals/decisions/README.md"), &records);
    assert!(
        !records.is_empty() && wrong.is_empty(),
        "docs/internals/decisions/README.md: {wrong:#?}"
    );
}

#[test]
fn each_mistake_in_an_index_of_decisions_is_found() {
    let records = |names: &[&str]| {
        let record = |name: &&str| ((*name).to_owned(), format!("# {}: Title\n", &name[..4]));
        names.iter().map(record).collect::<BTreeMap<_, _>>()
    };
    let one = "| number | title |\n|---|---|\n| [0001](0001-a.md) | Title |\n";
    let both = "| [0001](0001-a.md) | Title |\n| [0001](0001-b.md) | Title |\n";
    let other = "| [0001](0001-a.md) | Other title |\n";
    for (index, names, mistakes) in [
        (one, &["0001-a.md"][..], 0),
        (one, &["0001-a.md", "0002-b.md"], 1),
        (one, &[], 1),
        (both, &["0001-a.md", "0001-b.md"], 1),
        // The row is foreign, and the record's own row is missing.
        (other, &["0001-a.md"], 2),
        ("| [note](note.md) |  |\n", &["note.md"], 3),
    ] {
        let wrong = index_mistakes(index, &records(names));
        assert_eq!(wrong.len(), mistakes, "{names:?}: {wrong:?}");
    }
}

/// Returns the pages that a table of contents, docs/SUMMARY.md, does not list exactly once.
fn not_listed_once<'a>(summary: &str, pages: &[&'a str]) -> Vec<&'a str> {
    let listed = links(summary);
    let times = |page: &str| listed.iter().filter(|link| *link == page).count();
    pages.iter().copied().filter(|page| times(page) != 1).collect()
}

#[test]
fn the_summary_lists_each_page_once() {
    let known = Known::read();
    let pages = known.files.iter().filter_map(|file| file.strip_prefix("docs/"));
    let pages = pages.filter(|page| ends(page, "md") && *page != "SUMMARY.md");
    let pages: Vec<&str> = pages.collect();
    let wrong = not_listed_once(&read("docs/SUMMARY.md"), &pages);
    assert!(!pages.is_empty() && wrong.is_empty(), "docs/SUMMARY.md: {wrong:#?}");
}

#[test]
fn a_page_that_the_summary_lacks_or_repeats_is_found() {
    let summary = "# Use\n\n- [One](use/1.md)\n- [Two](use/2.md)\n  - [Again](use/2.md)\n";
    let pages = ["use/1.md", "use/2.md", "use/3.md"];
    assert_eq!(not_listed_once(summary, &pages), ["use/2.md", "use/3.md"]);
}

/// Returns the links of a page, a path from the root, to files that `make install` does not copy:
/// it copies the pages of [`INSTALLED`], each into a folder of the same name.
fn links_away(page: &str, text: &str) -> Vec<String> {
    let (folder, _) = page.rsplit_once('/').expect("a page of a book");
    let is_installed = |link: &String| {
        let target = link.split('#').next().unwrap_or_default();
        let target = match target.strip_prefix("../") {
            Some(path) => format!("docs/{path}"),
            None => format!("{folder}/{target}"),
        };
        let book = target.rsplit_once('/').map_or("", |(book, _)| book);
        INSTALLED.contains(&book)
    };
    links(text).into_iter().filter(|link| !is_installed(link)).collect()
}

#[test]
fn installed_documents_link_to_installed_ones_alone() {
    let known = Known::read();
    let is_installed = |file: &&String| {
        file.rsplit_once('/').is_some_and(|(folder, _)| INSTALLED.contains(&folder))
    };
    let mut wrong = Vec::new();
    for page in known.files.iter().filter(is_installed) {
        wrong.extend(links_away(page, &read(page)).into_iter().map(|l| format!("{page}: {l}")));
    }
    assert!(wrong.is_empty(), "not installed: {wrong:#?}");
    let text = "[a](qos.md) [b](#use) [c](../reference/control.md#use) [d](../research/sources.md) \
                [e](../../README.md) [f](decisions/README.md)";
    let away = ["../research/sources.md", "../../README.md", "decisions/README.md"];
    assert_eq!(links_away("docs/use/sim.md", text), away);
}

/// Returns the documents that a text names and that are not there. Comments name a path from the
/// root; messages and installed files name the path of the installed copy.
fn missing_documents(text: &str, files: &[String]) -> Vec<String> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
    let words = text.split(|c: char| !is_of_path(c)).map(|word| word.trim_end_matches('.'));
    let pages = words.filter(|word| ends(word, "md"));
    let is_missing = |word: &&str| {
        let place = "share/doc/sluicegate/";
        let (path, installed) = match (word.find(place), word.find("docs/")) {
            (Some(at), _) => (format!("docs/{}", &word[at + place.len()..]), true),
            (None, Some(at)) => (word[at..].to_owned(), false),
            (None, None) => return false,
        };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        !files.contains(&path) || (installed && !INSTALLED.contains(&folder))
    };
    pages.filter(is_missing).map(str::to_owned).collect()
}

#[test]
fn documents_that_sources_name_exist() {
    let known = Known::read();
    let mut wrong = Vec::new();
    for file in known.files.iter().filter(|file| !file.starts_with("docs/")) {
        // The lab has images and archives beside its scripts.
        let Ok(text) = fs::read_to_string(root().join(file)) else { continue };
        let missing = missing_documents(&text, &known.files);
        wrong.extend(missing.into_iter().map(|name| format!("{file}: {name}")));
    }
    assert!(wrong.is_empty(), "named in a source, and not there: {wrong:#?}");
    let of = |words: &[&str]| words.concat();
    for (text, count) in [
        (of(&["(docs/", "use/qos.md): docs/", "research/sources.md, D4"]), 0),
        (of(&["/usr/share/doc/", "sluicegate/use/qos.md."]), 0),
        (of(&["docs/", "qos.md"]), 1),
        (of(&["share/doc/", "sluicegate/qos.md"]), 1),
        (of(&["share/doc/", "sluicegate/research/sources.md"]), 1),
    ] {
        assert_eq!(missing_documents(&text, &known.files).len(), count, "{text}");
    }
}

#[test]
fn what_the_documents_name_exists() {
    let known = Known::read();
    let top = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"];
    let docs = known.files.iter().filter(|file| file.starts_with("docs/") && ends(file, "md"));
    let documents = docs.map(String::as_str).chain(top);
    let wrong: Vec<String> = documents.flat_map(|path| known.mistakes(path, &read(path))).collect();
    assert!(wrong.is_empty(), "named in a document, and not there: {wrong:#?}");
}

#[test]
fn figures_that_documents_name_are_reproduced() {
    let reproduced = read("docs/research/reproduction.md");
    let figure = |word: &str| {
        let (source, number) = word.rsplit_once('-')?;
        let known = ["e2e", "fahrrad", "haechi", "intelliqos"].contains(&source);
        (known && number.parse::<u8>().is_ok()).then(|| word.to_owned())
    };
    let mut named = BTreeSet::new();
    for path in ["README.md", "docs/use/qos.md", "docs/use/sim.md", "docs/research/sources.md"] {
        let spans = spans(&read(path));
        let words = spans.iter().flat_map(|span| span.split([' ', ',']));
        named.extend(words.filter_map(figure));
    }
    assert!(named.len() > 10, "{named:?}");
    let missing: Vec<&String> =
        named.iter().filter(|name| !reproduced.contains(&format!("\n## {name}\n"))).collect();
    assert!(missing.is_empty(), "named, and not in docs/research/reproduction.md: {missing:?}");
}

#[test]
fn each_kind_of_mistake_is_found() {
    let known = Known::read();
    let right = "`what_the_documents_name_exists`, `documents::what_the_documents_…`, `make test`, \
                 `tests/{layout,documents}.rs`, `tests/scenarios/qos-*.sh`, `tests/NAME.rs`, \
                 `cargo test -p e2e`, `sluicegate_connections_accepted_total`, `sluicegate_link_`, \
                 [testing](testing.md#fuzzing), [here](#testing)\n# Testing\n";
    assert_eq!(known.mistakes("docs/internals/testing.md", right), Vec::<String>::new());
    let concat = |parts: &[&str]| parts.concat();
    for wrong in [
        concat(&["`no_test_has", "_such_a_name`"]),
        concat(&["`documents::no_test", "_begins_so_…`"]),
        "`tests/{layout,nothing}.rs`".to_owned(),
        "`tests/scenarios/nothing-*.sh`".to_owned(),
        "`reactor/nothing.rs`".to_owned(),
        "`make nothing`".to_owned(),
        "```\nmake nothing\n```".to_owned(),
        "`cargo test -p nothing`".to_owned(),
        "`sluicegate_nothing`".to_owned(),
        "[testing](testing.md#nothing)".to_owned(),
        "[nothing](nothing.md)".to_owned(),
    ] {
        assert_eq!(known.mistakes("docs/internals/testing.md", &wrong).len(), 1, "{wrong}");
    }
}
